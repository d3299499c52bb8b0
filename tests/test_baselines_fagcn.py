"""FAGCN against its formula, PyG's layer and GCN."""

from __future__ import annotations

import pytest
import torch
from torch_geometric.nn import FAConv

from pdgnn import InputError
from pdgnn.baselines.fagcn import MODEL
from published import (
    adjacency,
    beats_gcn,
    check_equivariance,
    check_fits,
    check_many_are_single,
    features,
    logits,
    made,
    normalized,
    random_graph,
    run,
    unrelated,
)

OPTIONS = {"epsilon": 0.4}


@pytest.mark.parametrize("seed", range(4))
def test_logits_are_those_of_the_formula(seed):
    graph = random_graph(seed)
    x, module = features(graph, seed), made(MODEL, graph, seed=seed, options=OPTIONS)
    p, h = normalized(adjacency(graph)), module.lin_in(x).relu()
    first = h
    for gate in module.gates:
        n = len(h)
        pairs = torch.cat([h[:, None].expand(n, n, -1), h[None].expand(n, n, -1)], dim=2)
        h = 0.4 * first + (torch.tanh(gate(pairs).squeeze(2)) * p) @ h
    expected = module.lin_out(h).detach()
    found = logits(MODEL, module, graph, x, options=OPTIONS)
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("seed", [0, 2])  # without weights, which FAConv takes no account of
def test_a_layer_is_that_of_pyg_without_loops_and_bias(seed):
    graph = random_graph(seed)
    x, module = features(graph, seed), made(MODEL, graph, seed=seed, depth=1, options=OPTIONS)
    theirs = FAConv(6, eps=0.4, add_self_loops=False).double()
    with torch.no_grad():
        module.gates[0].bias.zero_()
        target, source = module.gates[0].weight.view(2, 1, -1)
        theirs.att_r.weight.copy_(target)
        theirs.att_l.weight.copy_(source)
        first = module.lin_in(x).relu()
        expected = module.lin_out(theirs(first, first, graph.edge_index))
    found = logits(MODEL, module, graph, x, depth=1, options=OPTIONS)
    torch.testing.assert_close(found, expected)


def test_nodes_may_come_in_any_order():
    check_equivariance(MODEL)


@pytest.mark.parametrize("dataset", ["ring", "board"])
def test_many_runs_are_as_many_single_ones(dataset):
    check_many_are_single(MODEL, *({"epsilon": e} for e in (0.1, 0.3, 1.0)), dataset=dataset)


def test_it_learns_a_small_graph_by_heart():
    check_fits(MODEL)


def test_it_keeps_its_own_features_where_gcn_loses_them():
    beats_gcn(MODEL, unrelated(), steps=80, lr=0.05, options={"epsilon": 0.9})


def test_epsilon_is_a_share():
    with pytest.raises(InputError, match="option epsilon: it must be a number in"):
        run(MODEL, options={"epsilon": 1.5})
