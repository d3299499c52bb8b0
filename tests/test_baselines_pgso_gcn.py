"""PGSO-GCN against its formula, the matrices that it starts as, and GCN."""

from __future__ import annotations

import pytest
import torch

from pdgnn import Graph, InputError
from pdgnn.baselines.pgso_gcn import MODEL, STARTS, shift
from pdgnn.models import Size
from published import (
    adjacency,
    beats_gcn,
    check_equivariance,
    check_fits,
    check_many_are_single,
    features,
    inputs,
    logits,
    made,
    normalized,
    power,
    random_graph,
    run,
    sharp,
    with_loops,
)


def operator(a: torch.Tensor, numbers: torch.Tensor, loops: torch.Tensor) -> torch.Tensor:
    """The operator of the formula, dense."""
    m1, m2, m3, e1, e2, e3 = numbers
    one = torch.eye(len(a), dtype=a.dtype)
    looped = a + loops * one
    d = looped.sum(1)
    return m1 * power(d, e1) + m2 * power(d, e2) @ looped @ power(d, e3) + m3 * one


@pytest.mark.parametrize("options", [{}, {"per_layer": True}, {"node_loops": True}])
@pytest.mark.parametrize("depth", [1, 3])
@pytest.mark.parametrize("seed", range(2))
def test_logits_are_those_of_the_formula(seed, depth, options):
    graph, fields = random_graph(seed), {"depth": depth, "options": options}
    x, module = features(graph, seed), made(MODEL, graph, seed=seed, **fields)
    h = x
    for i, layer in enumerate(module.layers):
        own = i if options.get("per_layer") else 0
        gamma = operator(adjacency(graph), module.numbers[own], module.a[own])
        h = gamma @ (h.relu() if i else h) @ layer.lin.weight.T + layer.bias
    assert len(module.numbers) == len(module.a) == (depth if options.get("per_layer") else 1)
    torch.testing.assert_close(logits(MODEL, module, graph, x, **fields), h.detach())


@pytest.mark.parametrize("start", STARTS)
def test_it_starts_as_one_of_the_usual_matrices(start):
    graph = Graph.from_edge_index([[0, 1, 2, 3], [1, 2, 0, 0]])
    a, one = adjacency(graph), torch.eye(4, dtype=torch.float64)
    expected = {
        "GCN": with_loops(a),
        "all zeros": 0 * a,
        "SymLaplacian": one - normalized(a),
        "RWLaplacian": one - power(a.sum(1), -1) @ a,
        "Adjacency": a,
    }
    module = MODEL.make(Size(4, 4), run(MODEL, options={"start": start})).double()
    given = inputs(MODEL, graph)
    rest = (given["degree"], given["edges"], given["edge_weight"])
    found = shift(one, module.numbers[0], module.a[0], *rest)
    torch.testing.assert_close(found.detach(), expected[start])


def test_gradients_stay_finite_where_a_node_has_no_edges_and_where_a_is_negative():
    graph = random_graph(1)
    for start in STARTS:
        module = made(MODEL, graph, options={"start": start})
        with torch.no_grad():
            module.a.fill_(-1.5)
        module(features(graph), **inputs(MODEL, graph)).sum().backward()
        assert all(p.grad.isfinite().all() for p in module.parameters())


def test_all_seven_numbers_are_learned_from_zero_too():
    graph = random_graph(0)
    told = run(MODEL, width=8, dropout=0.0, options={"start": "all zeros"})
    module = MODEL.make(Size(5, 3), told).double()
    steps = torch.optim.Adam(module.parameters(), lr=0.01)
    target = torch.arange(graph.num_nodes) % 3
    for _ in range(20):
        steps.zero_grad()
        out = module(features(graph), **inputs(MODEL, graph))
        torch.nn.functional.cross_entropy(out, target).backward()
        steps.step()
    assert module.numbers.all()
    assert module.a.all()


def test_nodes_may_come_in_any_order():
    check_equivariance(MODEL)
    check_equivariance(MODEL, options={"start": "RWLaplacian", "per_layer": True})


def test_many_runs_are_as_many_single_ones():
    check_many_are_single(
        MODEL, {"start": "GCN"}, {"start": "SymLaplacian"}, {"start": "all zeros"}
    )
    loops = {"node_loops": True, "per_layer": True}
    check_many_are_single(MODEL, loops, {**loops, "start": "Adjacency"}, loops)


@pytest.mark.parametrize("start", ["GCN", "SymLaplacian"])
def test_it_learns_a_small_graph_by_heart(start):
    check_fits(MODEL, options={"start": start})


@pytest.mark.parametrize(("start", "least"), [("GCN", 0.7), ("SymLaplacian", 0.95)])
def test_it_sharpens_where_gcn_cannot(start, least):
    beats_gcn(MODEL, sharp(), least=least, options={"start": start})


def test_an_unknown_start_is_an_error():
    with pytest.raises(InputError, match="option start: choose one of GCN, all zeros"):
        run(MODEL, options={"start": "gnc"})
