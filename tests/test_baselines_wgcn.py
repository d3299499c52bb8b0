"""ωGCN against its formula and GCN."""

from __future__ import annotations

import pytest
import torch

from pdgnn.baselines.wgcn import MODEL
from pdgnn.models import Size
from published import (
    adjacency,
    beats_gcn,
    check_equivariance,
    check_fits,
    check_many_are_single,
    features,
    logits,
    made,
    random_graph,
    run,
    sharp,
    with_loops,
)


@pytest.mark.parametrize("depth", [1, 3])
@pytest.mark.parametrize("seed", range(2))
def test_logits_are_those_of_the_formula(seed, depth):
    graph = random_graph(seed)
    x, module = features(graph, seed), made(MODEL, graph, seed=seed, depth=depth)
    laplacian = torch.eye(graph.num_nodes) - with_loops(adjacency(graph))
    h = (x @ module.lin_in.weight.T).relu()
    for lin, omega in zip(module.layers, module.omega, strict=True):
        h = ((h - laplacian @ h @ torch.diag(omega)) @ lin.weight.T).relu()
    found = logits(MODEL, module, graph, x, depth=depth)
    torch.testing.assert_close(found, (h @ module.lin_out.weight.T).detach())


def test_it_starts_as_smoothing_alone():
    module = MODEL.make(Size(4, 3), run(MODEL, width=8))
    assert torch.equal(module.omega, torch.ones(2, 8))
    for lin in module.layers:
        torch.testing.assert_close(lin.weight.detach(), torch.eye(8), rtol=0, atol=2e-4)


def test_nodes_may_come_in_any_order():
    check_equivariance(MODEL)


def test_many_runs_are_as_many_single_ones():
    check_many_are_single(MODEL, {"omega_lr": 0.1}, {"omega_decay": 0.5}, {})


def test_it_learns_a_small_graph_by_heart():
    check_fits(MODEL)


def test_it_sharpens_where_gcn_cannot():
    beats_gcn(MODEL, sharp())


def test_the_omegas_have_rates_of_their_own():
    told = run(MODEL, lr=0.1, weight_decay=0.01, options={"omega_lr": 0.5})
    assert MODEL.rates(told) == {"": (0.1, 0.01), "omega": (0.5, 0.01)}
