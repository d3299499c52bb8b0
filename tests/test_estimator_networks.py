"""Networks as members: the same probabilities as in training, their attention, their candidates."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from pdgnn import InputError
from pdgnn.estimator.networks import (
    NetworkModel,
    network_candidates,
    network_name,
    network_settings,
    probabilities,
)
from pdgnn.graph import Graph
from pdgnn.models import MODELS
from pdgnn.nn import PDNet
from pdgnn.training import RunSpec, Task, train
from pdgnn.training.cost import step_seconds
from pdgnn.training.plan import Cost, make_plan
from pdgnn.training.spec import resolved

SCOPES = [(0.0, 0.5), (1.0, 1.0)]


@pytest.fixture(scope="module")
def task() -> Task:
    return Task.open("minesweeper-generated:size=9,seed=3")


def trained(task: Task, **changed) -> tuple[NetworkModel, torch.Tensor]:
    spec = RunSpec(dataset="graph", model="pd-gat-sep", width=16, depth=2, lr=0.01, steps=8)
    result = train([replace(spec, **changed)], tasks={"graph": task}, keep=("logits", "weights"))[0]
    size = task.x.shape[1], 2, task.graph.num_nodes
    return NetworkModel(result.spec, result.weights, *size), result.logits


@pytest.mark.parametrize(
    "changed",
    [
        {"model": "mlp"},
        {"model": "gcn"},
        {"model": "sage"},
        {"model": "pd-gcn", "alpha": 0.2, "gamma": 0.4},
        {"model": "pd-gat-sep", "gamma": 0.4},
        {"model": "pd-gat-sep", "gamma": 0.4, "rewired": True},
        {"model": "pd-net", "alpha": 0.0, "options": {"rounds": 3, "inject": True}},
        {"model": "pd-net", "options": {"learned": True, "running": True}},
        {"model": "fagcn"},
        {"model": "gpr-gnn"},
        {"model": "linkx"},
        {"model": "glognn"},
    ],
)
def test_the_probabilities_are_those_of_training(task, changed):
    model, logits = trained(task, **changed)
    found = model.predict_proba(task.graph, task.x.numpy())
    np.testing.assert_array_equal(found, probabilities(logits))
    back = NetworkModel.from_state(*model.state())
    np.testing.assert_array_equal(back.predict_proba(task.graph, task.x.numpy()), found)


def test_what_cannot_predict_another_graph_says_so(task):
    other = Task.open("minesweeper-generated:size=5,seed=3")
    model, _ = trained(task, model="linkx")
    with pytest.raises(InputError, match="linkx has weights for each of the 81 nodes"):
        model.predict_proba(other.graph, other.x.numpy())
    model, _ = trained(task, model="cpgnn")
    with pytest.raises(InputError, match="cpgnn needs the labels of its training nodes"):
        model.predict_proba(task.graph, task.x.numpy())
    about, *rest = trained(task)[0].state()
    del about["num_nodes"]  # as in models that were saved before it was there
    NetworkModel.from_state(about, *rest).predict_proba(other.graph, other.x.numpy())


def test_running_statistics_are_kept_for_another_graph(task):
    """There, evaluation is by those of training and not by those of the graph."""
    model, _ = trained(task, model="pd-net", alpha=0.0, options={"running": True, "rounds": 2})
    other = Task.open("minesweeper-generated:size=7,seed=5")
    back = NetworkModel.from_state(*model.state())
    found = back.predict_proba(other.graph, other.x.numpy())
    net = PDNet(other.x.shape[1], 16, 1, depth=2, rounds=2, running=True)
    net.load_state_dict(dict(model.weights))
    assert net.running_mean.abs().sum() > 0
    with torch.no_grad():
        logits = net.eval()(other.x, **net.inputs(other.graph))
        by_graph = net.train()(other.x, **net.inputs(other.graph))
    np.testing.assert_allclose(found, probabilities(logits), atol=1e-6)
    assert np.abs(found - probabilities(by_graph)).max() > 0.01


RECIPES = [
    {"options": {"rounds": 3, "inject": True}},
    {"depth": 3, "options": {"scopes": "1,1"}},
]


@pytest.mark.parametrize("changed", RECIPES)
def test_a_frozen_network_predicts_a_part_of_a_graph_as_it_predicts_the_whole(task, changed):
    """A piece of its own has the same probabilities alone and beside other pieces."""
    model, _ = trained(task, model="pd-net", alpha=0.0, steps=30, **changed)
    x, n = task.x.numpy(), task.graph.num_nodes
    frozen = NetworkModel.from_state(*model.frozen(task.graph, x).state())
    np.testing.assert_allclose(
        frozen.predict_proba(task.graph, x), model.predict_proba(task.graph, x), atol=1e-6
    )
    edges = np.array([[0, 1, 2], [1, 2, 0]])
    small = Graph.from_edge_index(edges, 3)
    both = Graph.from_edge_index(np.hstack([task.graph.edge_index, edges + n]), n + 3)
    together = np.vstack([x, x[:3]])
    np.testing.assert_allclose(
        frozen.predict_proba(both, together)[n:], frozen.predict_proba(small, x[:3]), atol=1e-6
    )
    assert np.abs(model.predict_proba(small, x[:3]) - frozen.predict_proba(small, x[:3])).max() > 0
    assert frozen.frozen(small, x[:3]) is frozen


def test_a_network_without_batch_norm_has_nothing_to_freeze(task):
    for changed in ({"model": "sage"}, {"model": "pd-net", "options": {"norm": "layer"}}):
        model, _ = trained(task, **changed)
        assert model.frozen(task.graph, task.x.numpy()) is model


def test_attention_sums_to_one_at_every_node_and_is_that_of_the_softmax(task):
    model, _ = trained(task, depth=1)
    edges, weight = model.attention(task.graph, task.x.numpy())
    assert edges.shape == (2, 2 * task.graph.num_edges)
    total = np.bincount(edges[1], weight, minlength=task.graph.num_nodes)
    np.testing.assert_allclose(total, 1, rtol=1e-5)
    zero = {n: torch.zeros_like(w) if "att_" in n else w for n, w in model.weights.items()}
    alike = replace(model, weights=zero)
    edges, weight = alike.attention(task.graph, task.x.numpy())
    np.testing.assert_allclose(weight, 1 / np.asarray(task.graph.degree)[edges[1]], rtol=1e-5)
    assert trained(task, model="gcn")[0].attention(task.graph, task.x.numpy()) is None


def test_candidates_take_turns():
    found = network_candidates(SCOPES)
    assert len(found) == len(set(found))
    names = [network_name(s) for s in found[:4]]
    assert names == ["PD-Net", "PD-Net, 8 rounds", "SAGE", "PD-GCN"]
    assert {(s.alpha, s.gamma) for s in found if s.model == "pd-gcn"} == set(SCOPES)
    assert {(s.alpha, s.gamma) for s in found if s.model == "gcn"} == {(1.0, 1.0)}
    nets = [s for s in found if s.model == "pd-net"]
    assert (nets[0].alpha, nets[0].gamma) == (0.0, 1.0)
    assert {(s.alpha, s.gamma) for s in nets} == {(0.0, 1.0), *SCOPES}
    assert {s.model for s in network_candidates(SCOPES, model="gat")} == {"gat"}
    assert {s.rewired for s in network_candidates(SCOPES, model="gat")} == {False, True}
    assert {s.rewired for s in network_candidates(SCOPES, model="mlp")} == {False}


def test_two_minutes_on_a_board_of_10000_squares_are_enough_for_rounds():
    """Of which searches for networks have most, and count on more than one core."""
    board = Task.open("minesweeper-generated:size=100,seed=1")
    specs = [resolved(s, MODELS[s.model]) for s in network_candidates(SCOPES)]
    plan = make_plan([Cost(s.steps, step_seconds(s, board)) for s in specs], budget=80)
    tried = specs[: plan.settings]
    assert "PD-Net, 8 rounds" in {network_name(s) for s in tried}
    assert all(plan.steps(s.steps, len(plan.sizes) - 1) >= 100 for s in tried)


def test_pd_net_alone_has_all_its_recipes():
    found = {network_name(s) for s in network_candidates(SCOPES, model="pd-net")}
    assert found == {
        "PD-Net",
        "PD-Net, rewired",
        "PD-Net, 8 rounds",
        "PD-Net, 8 rounds, rewired",
    }


def test_names_and_settings_tell_recipes_apart():
    def run(**options) -> RunSpec:
        spec = RunSpec(dataset="graph", model="pd-net", alpha=0.0, gamma=0.5, options=options)
        return resolved(spec, MODELS["pd-net"])

    plain, rounds, scopes = run(), run(rounds=3, inject=True), run(scopes="1,1")
    assert [network_name(s) for s in (plain, rounds, scopes)] == [
        "PD-Net",
        "PD-Net, 3 rounds",
        "PD-Net, 2 scopes",
    ]
    assert not {"rounds", "inject", "scopes"} & network_settings(plain).keys()
    assert network_settings(rounds) == {**network_settings(plain), "rounds": 3, "inject": True}
    assert network_settings(scopes)["scopes"] == ((0.0, 0.5), (1.0, 1.0))
    gcn = resolved(RunSpec(dataset="graph", model="gcn", rewired=True), MODELS["gcn"])
    assert network_name(gcn) == "GCN, rewired"


def test_weights_of_another_network_are_refused(task):
    model, _ = trained(task, model="gcn")
    about, arrays, texts = model.state()
    arrays.pop(next(iter(arrays)))
    with pytest.raises(InputError, match="weights"):
        NetworkModel.from_state(about, arrays, texts)


def test_probabilities_of_one_and_of_several_logits():
    found = probabilities(torch.tensor([[0.0], [100.0]]))
    np.testing.assert_allclose(found, [[0.5, 0.5], [0.0, 1.0]], atol=1e-12)
    logits = torch.randn(5, 4)
    np.testing.assert_allclose(probabilities(logits), logits.double().softmax(1).numpy())
