"""Inputs of runs: made once for those that share them, told apart by structure, and let go."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import nn

from pdgnn.models import MODELS, Model
from pdgnn.ops import Edges
from pdgnn.training import RunSpec, inputs
from pdgnn.training.inputs import InputCache, same_structure, stacked_inputs
from pdgnn.training.spec import resolved
from runs import board, spec, three_classes

TASKS = {"board": board(), "ring": three_classes()}
F32 = torch.float32


def cache(**models: Model) -> InputCache:
    return InputCache(TASKS, models)


def run(model: str, **fields) -> RunSpec:
    return resolved(spec(model=model, **fields), MODELS[model])


def test_runs_that_share_inputs_get_the_same_object():
    held = cache()
    first = held.get(run("pd-gat", gamma=0.3), F32)
    for other in ({"split": 3}, {"seed": 2}, {"lr": 0.5}, {"depth": 4}, {"steps": 2}):
        assert held.get(run("pd-gat", gamma=0.3, **other), F32) is first
    for other in ({"gamma": 0.4}, {"alpha": 0.1, "gamma": 0.3}):
        found = held.get(run("pd-gat", **other), F32)
        assert found is not first
        assert found["edges"] is first["edges"]
    assert held.get(run("pd-gat", gamma=0.3), torch.float64)["edge_attr"].dtype == torch.float64
    assert held.get(run("gcn", gamma=0.3), F32) is held.get(run("gcn"), F32)


def test_rewired_graphs_depend_on_their_scope_for_every_model():
    held = cache()
    one, other = (held.get(run("gat", rewired=True, reach=r), F32) for r in ("all", "far"))
    assert one is not other
    assert held.structure(run("gat", rewired=True), F32) != held.structure(run("gat"), F32)


def test_only_options_that_are_read_count():
    made = []

    def read_one(graph, x, given):
        made.append(given.options["k"])
        return {"edge_index": graph.edge_index}

    def read_all(graph, x, given):
        made.append(dict(**given.options))
        return {"edge_index": graph.edge_index}

    def no_module(size, given):
        return nn.Linear(1, 1)

    for read, times in ((read_one, 2), (read_all, 4)):
        model = Model(build=no_module, inputs=read, options={"k": 1, "j": 1})
        held = cache(mine=model)
        made.clear()
        for k in (1, 2):
            for j in (1, 2):
                held.get(resolved(spec(model="mine", options={"k": k, "j": j}), model), F32)
        assert len(made) == times


def test_a_spec_that_is_replaced_inside_counts_whole():
    def copied(graph, x, given):
        return {"number": replace(given, seed=0).depth}

    model = Model(build=lambda size, given: nn.Linear(1, 1), inputs=copied)
    held = cache(mine=model)
    found = [held.get(spec(model="mine", depth=d), F32)["number"] for d in (1, 2)]
    assert found == [1, 2]


def test_inputs_are_let_go(monkeypatch):
    monkeypatch.setattr(inputs, "SPARE", 0)
    held = cache()
    runs = [run("pd-gat", alpha=a / 10, gamma=g / 10) for a in range(11) for g in range(11)]
    for given in runs:
        held.keep_only([given], F32)
        held.get(given, F32)
    kept = [e for entries in held._entries.values() for e in entries if e.inputs is not None]
    assert len(kept) == 1
    again = held.get(runs[0], F32)["edge_attr"]
    assert torch.equal(again, cache().get(runs[0], F32)["edge_attr"])


def test_a_few_are_kept_for_runs_to_come():
    held = cache()
    for given in (run("pd-gat", gamma=g) for g in (0.1, 0.2, 0.1)):
        held.keep_only([given], F32)
    kept = [e for entries in held._entries.values() for e in entries if e.inputs is not None]
    assert len(kept) == 2


def test_floats_may_differ_and_nothing_else():
    edges = Edges.from_edge_index(torch.tensor([[0, 1], [1, 0]]), num_nodes=3)
    base = {"edges": edges, "w": torch.ones(2), "i": torch.tensor([1]), "k": 3, "n": None}
    assert same_structure(base, {**base, "w": torch.zeros(2)})
    other = Edges.from_edge_index(torch.tensor([[0, 2], [2, 0]]), num_nodes=3)
    for change in (
        {"edges": other},
        {"w": torch.ones(3)},
        {"w": torch.ones(2).double()},
        {"i": torch.tensor([2])},
        {"k": 4},
        {"k": 3.0},
        {"n": 1},
        {"more": 1},
        {"k": object()},
    ):
        assert not same_structure(base, {**base, **change})
    assert not same_structure({"o": object()}, {"o": object()})


def test_what_differs_is_stacked_and_what_does_not_is_held_once():
    w = torch.ones(2)
    made = [{"x": w, "a": torch.full((3,), float(i)), "k": 2} for i in range(4)]
    shared, mapped = stacked_inputs(made, torch.device("cpu"), torch.float64)
    assert set(shared) == {"x", "k"}
    assert shared["x"].shape == (2,)
    assert mapped["a"].tolist() == [[float(i)] * 3 for i in range(4)]
    assert mapped["a"].dtype == torch.float64


@pytest.mark.parametrize("model", ["gcn", "pd-gat"])
def test_work_counts_features_and_messages(model):
    found = cache().get(run(model), F32)
    x = board().x
    work = inputs.first_layer_work({"x": x, **found}, 4)
    assert work == 4 * (len(x) + int(x.count_nonzero()) + found["edges"].num_edges)
