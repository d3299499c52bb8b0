"""What each model is given of a graph: structure, weights and features, against dense formulas."""

from __future__ import annotations

import gc
import weakref
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from oracle import by_hand
from pdgnn import Graph, InputError, RewiredGraph, diffusion_matrix, direction_features, rewire
from pdgnn.datasets import load
from pdgnn.nn.inputs import edge_weights, graph_inputs
from pdgnn.training.inputs import stacked_inputs
from runs import OWN, build, prepare
from strategies import graphs

UNIT = st.sampled_from([0.0, 0.5, 1.0]) | st.floats(0.0, 1.0)
PLAIN_LOOPS = {"plain-gcn", "plain-gat", "plain-pd-gcn", "plain-pd-gat"}
LOOPS = {"gcn", "gat", "gt", "pd-gcn", "pd-gat"} | PLAIN_LOOPS
WEIGHTS = {"gcn", "sage", "pd-gcn", "plain-gcn", "plain-pd-gcn"}
FEATURES = {"pd-gat", "pd-gat-sep", "plain-pd-gat"}


def dense(inputs: SimpleNamespace, values: torch.Tensor) -> np.ndarray:
    """Values of the edges as a matrix: row the target, column the source."""
    n = inputs.edges.num_targets
    out = np.zeros((n, n, *values.shape[1:]))
    out[inputs.edges.row.numpy(), inputs.edges.col.numpy()] = values.numpy()
    return out


@pytest.mark.parametrize("name", OWN)
@settings(max_examples=10)
@given(g=graphs(max_nodes=9))
def test_the_structure_is_the_graph_with_loops_or_without(name, g):
    inputs = prepare(g, name, gamma=0.5, phi=np.arange(g.num_nodes) ** 2)
    pattern = (g.adjacency().toarray() > 0) + (name in LOOPS) * np.eye(g.num_nodes)
    assert inputs.edges.num_edges == pattern.sum()
    assert (dense(inputs, torch.ones(inputs.edges.num_edges)) == pattern).all()
    assert inputs.edges.order is None
    assert inputs.graph is g
    assert (inputs.edge_weight is not None) == (name in WEIGHTS)
    assert (inputs.edge_attr is not None) == (name in FEATURES)


@given(graphs(max_nodes=10), UNIT, UNIT)
def test_the_weights_are_those_of_the_matrices(g, alpha, gamma):
    a, degree = g.adjacency().toarray(), g.degree
    root = np.diag((degree + 1) ** -0.5)
    expected = {
        "gcn": root @ (a + np.eye(g.num_nodes)) @ root,
        "sage": a / np.where(degree > 0, degree, 1)[:, None],
        "pd-gcn": diffusion_matrix(g, alpha=alpha, gamma=gamma).toarray(),
    }
    for name, matrix in expected.items():
        inputs = prepare(g, name, alpha=alpha, gamma=gamma, dtype=torch.float64)
        assert inputs.edge_weight.shape == (inputs.edges.num_edges,)
        assert np.allclose(dense(inputs, inputs.edge_weight), matrix, rtol=1e-12, atol=1e-14)


def test_on_paper():
    """A path 0 - 1 - 2: GCN has D̂ = (2, 3, 2), its loops 1/2, 1/3, 1/2 and its edges 1/√6."""
    inputs = prepare(Graph.from_edge_index([[0, 1], [1, 2]]), "gcn")
    assert inputs.edges.row.tolist() == [0, 0, 1, 1, 1, 2, 2]
    assert inputs.edges.col.tolist() == [1, 0, 0, 2, 1, 1, 2]
    side = 6**-0.5
    assert torch.allclose(
        inputs.edge_weight, torch.tensor([side, 1 / 2, side, side, 1 / 3, side, 1 / 2])
    )


@settings(max_examples=20)
@given(graphs(max_nodes=10, connected=True), UNIT, st.sampled_from([0.0, 0.3, 1.0]))
def test_features_are_of_the_first_eigenvector(g, alpha, gamma):
    """φ = M^(½−α) u with u by its definition."""
    m = np.where(g.degree > 0, gamma * g.degree + 1 - gamma, 1)
    phi = m ** (0.5 - alpha) * by_hand(g, gamma).u[:, 0]
    delta = (g.adjacency().toarray() > 0) * (phi[None, :] - phi[:, None])
    delta[np.abs(delta) < 1e-9] = 0
    total = np.abs(delta).sum(axis=1, keepdims=True)
    delta = delta / np.where(total > 0, total, 1)
    for name, diagonal in (("pd-gat", -delta.sum(axis=1)), ("pd-gat-sep", np.zeros(len(phi)))):
        inputs = prepare(g, name, alpha=alpha, gamma=gamma, dtype=torch.float64)
        found = dense(inputs, inputs.edge_attr)
        assert np.allclose(found[..., 0], np.abs(delta), atol=1e-6)
        assert np.allclose(found[..., 1], delta + np.diag(diagonal), atol=1e-6)


@pytest.mark.parametrize("name", OWN)
@pytest.mark.parametrize("reach", ["all", "far"])
def test_rewired_by_the_vector_of_the_graph_itself(name, reach):
    """Features and weights are those of the rewired graph, φ that of the graph before."""
    g = Graph.from_edge_index(
        [[0, 1, 2, 3, 4, 6], [1, 2, 3, 4, 5, 7]], 9
    )  # two components, one alone
    gamma, alpha = 0.3, 0.8
    inputs = prepare(
        g, name, alpha=alpha, gamma=gamma, rewired=True, reach=reach, dtype=torch.float64
    )
    expected = rewire(g, alpha=alpha, gamma=gamma, reach=reach)
    assert expected.num_edges > g.num_edges
    assert inputs.graph == expected
    assert isinstance(inputs.graph, RewiredGraph)
    assert inputs.graph.gradient_nodes.tolist() == expected.gradient_nodes.tolist()
    loops = np.eye(9) if name in LOOPS else 0
    pattern = (expected.adjacency().toarray() > 0) + loops
    assert (dense(inputs, torch.ones(inputs.edges.num_edges)) == pattern).all()
    if name in FEATURES:
        m = np.where(g.degree > 0, gamma * g.degree + 1 - gamma, 1)
        phi = m ** (0.5 - alpha) * by_hand(g, gamma).u[:, 0]
        edge_index = torch.stack([inputs.edges.col, inputs.edges.row]).long()
        features = direction_features(expected, phi, edge_index=edge_index)
        assert torch.allclose(inputs.edge_attr.float(), features, atol=1e-6)
    if name in ("pd-gcn", "plain-pd-gcn"):
        p = diffusion_matrix(expected, alpha=alpha, gamma=gamma).toarray()
        assert np.allclose(dense(inputs, inputs.edge_weight), p)


def test_nothing_is_solved_where_it_is_not_used(monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("solved")

    for place in ("nn.inputs", "nn.interface"):
        monkeypatch.setattr(f"pdgnn.{place}.first_eigenvector", refuse)
    g = Graph.from_edge_index([[0, 1, 2], [1, 2, 3]])
    for name in OWN:
        if name not in FEATURES:
            prepare(g, name, alpha=0.3, gamma=0.4)
        prepare(g, name, phi=[1.0, 2.0, 3.0, 4.0], rewired=True)
    for name, rewired in (("pd-gat", False), ("gat", True)):
        with pytest.raises(AssertionError, match="solved"):
            prepare(g, name, rewired=rewired)


def test_scopes_share_one_structure():
    """Loops of PD-GCN are there at γ = 1 too, so that runs can be stacked."""
    g = Graph.from_edge_index([[0, 1, 2], [1, 2, 3]], 5)
    one, other = (prepare(g, "pd-gcn", gamma=gamma) for gamma in (1.0, 0.5))
    for a, b in zip(one.edges.tensors(), other.edges.tensors(), strict=True):
        assert torch.equal(a, b)
    loops = one.edges.row == one.edges.col
    assert one.edge_weight[loops].tolist() == [0.0, 0.0, 0.0, 0.0, 1.0]
    assert (other.edge_weight[loops] > 0).all()


def test_types_and_devices():
    g = Graph.from_edge_index([[0, 1, 2], [1, 2, 3]])
    phi = torch.tensor([1.0, 2.0, 3.0, 4.0], requires_grad=True)
    found = graph_inputs(g, loops=True, weight="diffusion", phi=phi)
    assert edge_weights(g, "symmetric", loops=True).dtype == torch.float64
    assert found["edge_weight"].dtype == torch.float64
    assert not found["edge_attr"].requires_grad
    for dtype in (torch.float32, torch.float64):
        shared, mapped = stacked_inputs([found, found], torch.device("meta"), dtype)
        assert mapped == {}
        assert shared.keys() == found.keys()
        moved = (*shared["edges"].tensors(), shared["edge_attr"], shared["edge_weight"])
        assert {t.device.type for t in moved} == {"meta"}
        assert {t.dtype for t in moved[-2:]} == {dtype}


def test_one_structure_is_kept_as_long_as_its_graph():
    g = Graph.from_edge_index([[0, 1, 2], [1, 2, 3]])
    one, other = graph_inputs(g, loops=True), graph_inputs(g, loops=True, weight="symmetric")
    assert one["edges"] is other["edges"]
    assert graph_inputs(g)["edges"] is not one["edges"]
    assert one.keys() == {"edges"}
    kept = weakref.ref(one["edges"])
    del one, other, g
    gc.collect()
    assert kept() is None


@pytest.mark.parametrize(("kind", "loops"), [("mean", True), ("symmetric", False)])
def test_weights_have_loops_or_not_as_their_kind_says(kind, loops):
    with pytest.raises(InputError, match=f"weight='{kind}' needs loops={not loops}"):
        graph_inputs(Graph.from_edge_index([[0], [1]]), weight=kind, loops=loops)


def test_weights_of_a_kind_that_there_is_not():
    with pytest.raises(InputError, match="weight must be one of symmetric, mean, diffusion, not"):
        graph_inputs(Graph.from_edge_index([[0], [1]]), weight="sum", loops=True)


def test_a_graph_without_edges():
    g = Graph.from_edge_index(np.empty((2, 0), dtype=np.int64), 3)
    for name in OWN:
        inputs = prepare(g, name, rewired=True)
        model = build(name, 4, 2, hidden_channels=16)
        out = model(torch.ones(3, 4), inputs.edges, inputs.edge_weight, inputs.edge_attr)
        assert out.isfinite().all()
        assert out.shape == (3, 2)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"alpha": 2.0}, r"alpha must be a number in \[0, 1\], not 2.0"),
        ({"gamma": -0.5}, r"gamma must be a number in \[0, 1\], not -0.5"),
        ({"reach": "near"}, "reach must be 'all' or 'far', not 'near'"),
        ({"phi": [1.0, 2.0]}, r"phi has shape \[2\]; give one value for each of 4 nodes"),
    ],
)
def test_bad_input(options, message):
    with pytest.raises(InputError, match=message):
        prepare(Graph.from_edge_index([[0, 1, 2], [1, 2, 3]]), "pd-gat", **options)


@pytest.mark.parametrize("name", ["pd-gcn", "pd-gat-sep"])
def test_a_real_graph(data_root, name):
    """Rows of P at α = 1 sum to 1, and absolute directions to 1."""
    data = load("minesweeper", data_root)
    g = Graph.from_data(data)
    inputs = prepare(g, name, gamma=0.5, rewired=True)
    values = inputs.edge_weight if name == "pd-gcn" else inputs.edge_attr[:, 0]
    rows = torch.zeros(g.num_nodes).index_add(0, inputs.edges.row, values)
    assert torch.allclose(rows, torch.ones(g.num_nodes), atol=1e-4)
    model = build(name, data.num_features, 1, hidden_channels=16)
    out = model(data.x, inputs.edges, inputs.edge_weight, inputs.edge_attr)
    assert out.shape == (g.num_nodes, 1)
    assert out.isfinite().all()
