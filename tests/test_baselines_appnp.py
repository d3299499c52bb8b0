"""APPNP against its formula, PyG's layer and GCN."""

from __future__ import annotations

import pytest
import torch
from torch_geometric import nn as pyg

from pdgnn import InputError
from pdgnn.baselines.appnp import MODEL
from published import (
    adjacency,
    beats_gcn,
    check_equivariance,
    check_fits,
    check_many_are_single,
    far,
    features,
    logits,
    made,
    random_graph,
    run,
    with_loops,
)


@pytest.mark.parametrize("seed", range(4))
def test_logits_are_those_of_the_formula(seed):
    graph, options = random_graph(seed), {"hops": 4, "teleport": 0.3}
    x, module = features(graph, seed), made(MODEL, graph, seed=seed, options=options)
    h = module.mlp(x)
    z, p = h, with_loops(adjacency(graph))
    for _ in range(4):
        z = 0.7 * p @ z + 0.3 * h
    found = logits(MODEL, module, graph, x, options=options)
    torch.testing.assert_close(found, z.detach(), rtol=1e-9, atol=1e-9)
    theirs = pyg.APPNP(4, 0.3)(h, graph.edge_index, graph.edge_weight)
    torch.testing.assert_close(found, theirs.detach(), rtol=1e-9, atol=1e-9)


def test_the_mlp_has_as_many_layers_as_the_run_is_deep():
    graph = random_graph(0)
    module, x = made(MODEL, graph, depth=3), features(graph)
    first, *more = [m for m in module.mlp.modules() if isinstance(m, torch.nn.Linear)]
    h = first(x)
    for lin in more:
        h = lin(h.relu())
    assert len(more) == 2
    torch.testing.assert_close(module.mlp(x), h)


def test_nodes_may_come_in_any_order():
    check_equivariance(MODEL)


def test_many_runs_are_as_many_single_ones():
    check_many_are_single(MODEL, {"teleport": 0.1}, {"teleport": 0.9}, {"teleport": 0.5})


def test_it_learns_a_small_graph_by_heart():
    check_fits(MODEL, options={"teleport": 0.5})


def test_it_sees_farther_than_gcn():
    beats_gcn(MODEL, far(), gcn="gcn")


@pytest.mark.parametrize("options", [{"hops": 0}, {"teleport": 1.5}, {"teleport": "x"}])
def test_options_that_cannot_be_are_an_error(options):
    with pytest.raises(InputError, match=f"option {next(iter(options))}: it must be a"):
        run(MODEL, options=options)
