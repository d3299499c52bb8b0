"""GBK-GNN against its formula, its two losses, PyG's SAGE and GCN."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F  # noqa: N812
from torch_geometric.nn import SAGEConv

from pdgnn import InputError
from pdgnn.baselines.gbk_gnn import MODEL, gate_loss
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
    power,
    random_graph,
    run,
    unrelated,
)

OFF = {"gate": False}


def layer(module, h, a):
    """One layer by the formula, and the gates as a matrix (i, j)."""
    n = len(h)
    pairs = torch.cat([h[:, None].expand(n, n, -1), h[None].expand(n, n, -1)], dim=2)
    alpha = torch.sigmoid(module.gate(pairs).squeeze(2))
    mean = power(a.sum(1), -1) @ a
    out = module.own(h) + (mean * alpha) @ module.same(h) + (mean * (1 - alpha)) @ module.other(h)
    return out, alpha


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("classes", [2, 3])
def test_logits_are_those_of_the_formula(seed, classes):
    graph = random_graph(seed)
    x, module = features(graph, seed), made(MODEL, graph, seed=seed, classes=classes)
    a = adjacency(graph)
    h, _ = layer(module.layers[0], x, a)
    expected, _ = layer(module.layers[1], h.relu(), a)
    found = logits(MODEL, module, graph, x)
    torch.testing.assert_close(found, expected.detach())


@pytest.mark.parametrize("seed", [0, 2])
def test_without_the_gate_it_is_sage(seed):
    graph = random_graph(seed)
    x, module = features(graph, seed), made(MODEL, graph, seed=seed, options=OFF)
    h = x
    for i, mine in enumerate(module.layers):
        theirs = SAGEConv(mine.own.in_features, mine.own.out_features).double()
        with torch.no_grad():
            theirs.lin_l.weight.copy_(mine.same.weight)
            theirs.lin_l.bias.copy_(mine.own.bias)
            theirs.lin_r.weight.copy_(mine.own.weight)
            h = theirs(h.relu() if i else h, graph.edge_index)
    torch.testing.assert_close(logits(MODEL, module, graph, x, options=OFF), h)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("classes", [2, 3])
def test_the_loss_is_that_of_the_classes_and_of_the_gates(seed, classes):
    graph = random_graph(seed)
    options = {"gate_weight": 7.0}
    x = features(graph, seed)
    module = made(MODEL, graph, seed=seed, classes=classes, dropout=0.0, options=options)
    y = torch.arange(graph.num_nodes) * 5 % 7 % classes
    train = torch.arange(graph.num_nodes) % 3 > 0
    outputs = module.train()(x, **inputs(MODEL, graph, x, options=options))
    found = MODEL.loss(outputs, y, train, torch.tensor(1))

    a = adjacency(graph)
    h, first = layer(module.layers[0], x, a)
    logits, second = layer(module.layers[1], h.relu(), a)
    if classes == 2:
        expected = F.binary_cross_entropy_with_logits(logits[train, 0], y[train].double())
    else:
        expected = F.cross_entropy(logits[train], y[train])
    known = (a > 0) & train[:, None] & train
    same = (y[:, None] == y).double()
    for alpha in (first, second):
        expected = expected + 7 * F.binary_cross_entropy(alpha[known], same[known])
    torch.testing.assert_close(found, expected)


def test_gates_without_training_edges_have_no_loss():
    graph = random_graph(0)
    edges = inputs(MODEL, graph, features(graph))["edges"]
    nobody = torch.zeros(graph.num_nodes, dtype=torch.bool)
    assert gate_loss(torch.ones(edges.num_edges), edges, nobody.long(), nobody) == 0


def test_class_weights_count_in_the_loss():
    graph, weight = random_graph(1), torch.tensor([1.0, 2.0, 0.5], dtype=torch.float64)
    x, module = features(graph), made(MODEL, graph, dropout=0.0, options=OFF)
    y = torch.arange(graph.num_nodes) % 3
    outputs = module.train()(x, **inputs(MODEL, graph, x, options=OFF))
    found = MODEL.loss(outputs, y, y < 3, torch.tensor(1), weight=weight)
    torch.testing.assert_close(found, F.cross_entropy(outputs["logits"], y, weight=weight))


@pytest.mark.parametrize("options", [{}, OFF])
def test_nodes_may_come_in_any_order(options):
    check_equivariance(MODEL, options=options)


@pytest.mark.parametrize("dataset", ["ring", "board"])
@pytest.mark.parametrize("gate", [True, False])
def test_many_runs_are_as_many_single_ones(dataset, gate):
    options = [{"gate": gate, "gate_weight": w} for w in (0.0, 1.0, 30.0)]
    check_many_are_single(MODEL, *options, dataset=dataset)


@pytest.mark.parametrize("gate", [True, False])
def test_it_learns_a_small_graph_by_heart(gate):
    check_fits(MODEL, options={"gate": gate, "gate_weight": 0.01})


def test_it_keeps_its_own_features_where_gcn_loses_them():
    beats_gcn(MODEL, unrelated(), steps=60, lr=0.05)


def test_options_that_cannot_be_are_an_error():
    with pytest.raises(InputError, match="option gate_weight: it must be a number"):
        run(MODEL, options={"gate_weight": -1.0})
    with pytest.raises(InputError, match="option gate must be True or False"):
        run(MODEL, options={"gate": 1})
