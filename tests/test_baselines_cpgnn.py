"""CPGNN against its formula, its estimate of the compatibility, its two phases, and GCN."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn import functional as F  # noqa: N812

from commands import run as command
from pdgnn import InputError
from pdgnn.baselines.cpgnn import MODEL, doubly_stochastic, estimate
from pdgnn.models import MODELS
from pdgnn.training import RunSpec, train
from pdgnn.training.group import Group
from pdgnn.training.inputs import InputCache
from published import (
    adjacency,
    beats_gcn,
    check_equivariance,
    check_many_are_single,
    features,
    inputs,
    logits,
    made,
    normalized,
    power,
    random_graph,
    run,
    unrelated,
)
from runs import TASKS


def some_labels(graph, classes=3):
    """Labels of about half of the nodes, -1 elsewhere."""
    node = torch.arange(graph.num_nodes)
    return torch.where(node % 2 == 1, node * 5 % 7 % classes, -1)


def by_hand(beliefs, labels, a):
    """The centred compatibility, class by class."""
    classes = beliefs.shape[1]
    mixed = beliefs.clone()
    mixed[labels >= 0] = F.one_hot(labels[labels >= 0], classes).to(beliefs.dtype)
    around = power(a.sum(1), -1) @ a @ mixed
    h = torch.stack([around[labels == c].mean(0) for c in range(classes)])
    for _ in range(300):
        h = h / h.sum(0)
        h = h / h.sum(1, keepdim=True)
    return (h + h.T) / 2 - 1 / classes


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("norm", ["none", "symmetric"])
@pytest.mark.parametrize("classes", [2, 3])
def test_logits_are_those_of_the_formula(seed, norm, classes):
    graph, options = random_graph(seed), {"norm": norm}
    x, labels = features(graph, seed), some_labels(graph, classes)
    module = made(MODEL, graph, seed=seed, classes=classes, options=options)
    module.start.uniform_(-0.5, 0.5, generator=torch.Generator().manual_seed(seed))
    a = adjacency(graph)
    a = normalized(a) if norm == "symmetric" else a
    h = module.start + module.change
    first = module.lin_out(module.lin_in(x).relu()).softmax(1) - 1 / classes
    belief = first + a @ (first + a @ first @ h) @ h  # two rounds
    expected = (belief[:, 1:] - belief[:, :1] if classes == 2 else belief).detach()
    torch.testing.assert_close(
        logits(MODEL, module, graph, x, labels=labels, options=options), expected
    )


@pytest.mark.parametrize("seed", range(4))
def test_the_estimate_is_that_of_the_formula(seed):
    graph = random_graph(seed, nodes=30)
    beliefs = features(graph, seed)[:, :3].softmax(1)
    labels = some_labels(graph)
    given = inputs(MODEL, graph, beliefs, labels=labels)
    known = F.one_hot(labels + 1, 4)[:, 1:].double()
    found = estimate(beliefs, known, given["mean"], given["edges"])
    torch.testing.assert_close(found, by_hand(beliefs, labels, adjacency(graph)))
    torch.testing.assert_close(found.sum(1), torch.zeros(3, dtype=torch.float64))


def test_a_class_without_training_nodes_goes_with_all_alike():
    graph = random_graph(2)
    beliefs = torch.full((graph.num_nodes, 3), 1 / 3, dtype=torch.float64)
    given = inputs(MODEL, graph, beliefs, labels=some_labels(graph))
    nobody = torch.zeros_like(beliefs)
    found = estimate(beliefs, nobody, given["mean"], given["edges"])
    torch.testing.assert_close(found, torch.zeros(3, 3, dtype=torch.float64))


def test_sinkhorn_ends_with_rows_and_columns_of_sum_one():
    h = doubly_stochastic(torch.rand(5, 5, generator=torch.Generator().manual_seed(0)) + 0.05)
    torch.testing.assert_close(h.sum(0), torch.ones(5), rtol=0, atol=1e-5)
    torch.testing.assert_close(h.sum(1), torch.ones(5))


@pytest.mark.parametrize("classes", [2, 3])
def test_the_mlp_is_trained_first_and_then_all_from_the_estimate(classes):
    graph = random_graph(1)
    options = {"pretraining": 2}
    x, labels = features(graph), some_labels(graph, classes)
    module = made(MODEL, graph, classes=classes, dropout=0.0, options=options).train()
    given = inputs(MODEL, graph, x, labels=labels, options=options)
    y, train = labels.clamp(min=0), labels >= 0

    def cross_entropy(logits):
        if classes == 2:
            return F.binary_cross_entropy_with_logits(logits[train, 0], y[train].double())
        return F.cross_entropy(logits[train], y[train])

    for step in (1, 2, 3, 4):
        outputs = module(x, **given)
        prior = module.lin_out(module.lin_in(x).relu())
        own = F.cross_entropy(prior[train], y[train])
        whole = cross_entropy(outputs["logits"]) + own
        whole = whole + (module.start + module.change).sum(1).abs().sum()
        found = MODEL.loss(outputs, y, train, torch.tensor(step))
        torch.testing.assert_close(found, own if step <= 2 else whole)
        fresh = by_hand(prior.softmax(1), labels, adjacency(graph)).detach()
        if step <= 2:
            kept = fresh
        torch.testing.assert_close(module.start, kept, rtol=1e-5, atol=1e-5)
        with torch.no_grad():  # other beliefs, which the estimate follows in pretraining alone
            module.lin_out.weight.mul_(1.5)


def test_without_pretraining_it_begins_at_the_first_estimate():
    graph, options = random_graph(1), {"pretraining": 0}
    x, labels = features(graph), some_labels(graph)
    module = made(MODEL, graph, dropout=0.0, options=options).train()
    given = inputs(MODEL, graph, x, labels=labels, options=options)
    outputs = module(x, **given)
    assert module.start.abs().max() > 0.01
    y, train = labels.clamp(min=0), labels >= 0
    assert MODEL.loss(outputs, y, train, torch.tensor(1)) > outputs["sums"]


def test_the_change_does_not_decay():
    rates = MODEL.rates(run(MODEL, lr=0.1, weight_decay=0.5))
    assert rates == {"": (0.1, 0.5), "change": (0.1, 0.0)}


def test_nodes_may_come_in_any_order():
    check_equivariance(MODEL, labelled=True)


@pytest.mark.parametrize("dataset", ["ring", "board"])
def test_many_runs_are_as_many_single_ones(dataset):
    check_many_are_single(MODEL, *({"pretraining": p} for p in (0, 2, 400)), dataset=dataset)


def test_it_learns_a_small_graph_by_heart():
    """By its predictions: beliefs are bounded, and so the loss is never small."""
    task = TASKS["ring"]
    spec = run(MODEL, dataset="ring", width=16, lr=0.03, dropout=0.0, options={"pretraining": 60})
    given = InputCache(TASKS, {"mine": MODEL}).get(spec, torch.float32)
    group = Group([spec], MODEL, task, [given], device=torch.device("cpu"))
    for _ in range(120):
        group.train_step()
    train = task.masks[0, 0]
    assert (group.evaluate()[0].argmax(1) == task.y)[train].all()


def test_it_keeps_its_own_features_where_gcn_loses_them():
    beats_gcn(MODEL, unrelated(), steps=60, lr=0.05, options={"pretraining": 20})


def test_bfloat16_trains_too():
    runs = [
        RunSpec(
            dataset="board", model="mine", width=8, lr=0.02, steps=4, split=i, precision=precision
        )
        for precision in ("float32", "bfloat16")
        for i in range(2)
    ]
    found = train(runs, models={"mine": MODEL}, tasks=TASKS, curves=True, most_runs=2)
    for full, half in zip(found[:2], found[2:], strict=True):
        np.testing.assert_allclose(half.curves[:, 0], full.curves[:, 0], rtol=0.02)


@pytest.mark.parametrize("name", ["cpgnn", "pd-net"])
def test_no_norm_may_be_asked_for_on_the_command_line(name):
    small = ("--width", "4", "--steps", "1", "--splits", "0", "--option", "norm=none")
    said = command("train", "minesweeper-generated:size=8", "-m", name, *small).stdout
    assert MODELS[name].name in said


@pytest.mark.parametrize("options", [{"pretraining": -1}, {"norm": "mean"}, {"norm": None}])
def test_options_that_cannot_be_are_an_error(options):
    with pytest.raises(InputError, match=f"option {next(iter(options))}"):
        run(MODEL, options=options)
