"""Networks as members: the same probabilities as in training, their attention, their candidates."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from pdgnn import InputError
from pdgnn.estimator.networks import NetworkModel, network_candidates, probabilities
from pdgnn.training import RunSpec, Task, train

SCOPES = [(0.0, 0.5), (1.0, 1.0)]


@pytest.fixture(scope="module")
def task() -> Task:
    return Task.open("minesweeper-generated:size=9,seed=3")


def trained(task: Task, **changed) -> tuple[NetworkModel, torch.Tensor]:
    spec = RunSpec(dataset="graph", model="pd-gat-sep", width=16, depth=2, lr=0.01, steps=8)
    result = train([replace(spec, **changed)], tasks={"graph": task}, keep=("logits", "weights"))[0]
    return NetworkModel(result.spec, result.weights, task.x.shape[1], 2), result.logits


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
    ],
)
def test_the_probabilities_are_those_of_training(task, changed):
    model, logits = trained(task, **changed)
    found = model.predict_proba(task.graph, task.x.numpy())
    np.testing.assert_array_equal(found, probabilities(logits))
    back = NetworkModel.from_state(*model.state())
    np.testing.assert_array_equal(back.predict_proba(task.graph, task.x.numpy()), found)


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
    assert [s.model for s in found[:4]] == ["sage", "pd-gcn", "pd-gat-sep", "gcn"]
    assert {(s.alpha, s.gamma) for s in found if s.model == "pd-gcn"} == set(SCOPES)
    assert {(s.alpha, s.gamma) for s in found if s.model == "gcn"} == {(1.0, 1.0)}
    assert {s.model for s in network_candidates(SCOPES, model="gat")} == {"gat"}
    assert {s.rewired for s in network_candidates(SCOPES, model="gat")} == {False, True}
    assert {s.rewired for s in network_candidates(SCOPES, model="mlp")} == {False}


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
