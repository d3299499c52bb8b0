"""BernNet against its formula and GCN."""

from __future__ import annotations

from math import comb

import pytest
import torch
from torch.linalg import matrix_power

from commands import refused
from pdgnn import Graph, InputError
from pdgnn.baselines.bernnet import MODEL
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
    random_graph,
    run,
    sharp,
)


@pytest.mark.parametrize("hops", [1, 2, 5, 10])
@pytest.mark.parametrize("seed", range(2))
def test_logits_are_those_of_the_formula(seed, hops):
    graph, options = random_graph(seed), {"hops": hops}
    x, module = features(graph, seed), made(MODEL, graph, seed=seed, options=options)
    with torch.no_grad():
        module.theta[hops // 2] = -0.5  # which counts as 0
    one = torch.eye(graph.num_nodes, dtype=torch.float64)
    laplacian, theta = one - normalized(adjacency(graph)), module.theta.relu()
    dense = sum(
        theta[k]
        * comb(hops, k)
        / 2**hops
        * (matrix_power(2 * one - laplacian, hops - k) @ matrix_power(laplacian, k))
        for k in range(hops + 1)
    )
    found = logits(MODEL, module, graph, x, options=options)
    torch.testing.assert_close(found, (dense @ module.mlp(x)).detach(), rtol=1e-9, atol=1e-9)


def test_the_filter_starts_as_the_identity():
    graph = random_graph(1)
    x, module = features(graph), made(MODEL, graph)
    with torch.no_grad():
        module.theta.fill_(1.0)
    torch.testing.assert_close(logits(MODEL, module, graph, x), module.mlp(x).detach())


@pytest.mark.parametrize(("precision", "hops"), [("float32", 20), ("float64", 40)])
def test_the_largest_degree_is_one_that_the_precision_can_carry(precision, hops):
    """Where all θ are 1 the filter is the identity; a path has frequencies up to the highest."""
    graph = Graph.from_edge_index(torch.stack([torch.arange(99), torch.arange(1, 100)]))
    given, x = inputs(MODEL, graph), features(graph)
    module = MODEL.make(Size(5, 3, 100, 3), run(MODEL, precision=precision, options={"hops": hops}))
    if precision == "float64":
        module = module.double()
    else:
        given, x = {**given, "edge_weight": given["edge_weight"].float()}, x.float()
    h = module.eval().mlp(x)
    torch.testing.assert_close(module(x, **given), h, rtol=0, atol=0.02)
    with pytest.raises(InputError, match=f"choose at most {hops}$"):
        MODEL.make(Size(5, 3, 100, 3), run(MODEL, precision=precision, options={"hops": hops + 1}))


def test_a_degree_that_is_too_large_ends_the_command_in_one_line():
    small = ("--width", "4", "--steps", "1", "--splits", "0", "--option", "hops=2000")
    message = "hops=2000 of bernnet"
    refused("train", "minesweeper-generated:size=8", "-m", "bernnet", *small, message=message)


def test_nodes_may_come_in_any_order():
    check_equivariance(MODEL)


def test_many_runs_are_as_many_single_ones():
    check_many_are_single(
        MODEL, {"theta_lr": 0.1}, {"filter_dropout": 0.5}, {"theta_decay": 0.1, "theta_lr": 0.0}
    )


def test_it_learns_a_small_graph_by_heart():
    check_fits(MODEL)


def test_it_sharpens_where_gcn_cannot():
    beats_gcn(MODEL, sharp())


def test_the_filter_does_not_decay_unless_it_is_told_to():
    plain = run(MODEL, lr=0.1, weight_decay=0.01)
    assert MODEL.rates(plain) == {"": (0.1, 0.01), "theta": (0.1, 0.0)}
    told = run(MODEL, lr=0.1, options={"theta_lr": 0.5, "theta_decay": 0.2})
    assert MODEL.rates(told) == {"": (0.1, 0.0), "theta": (0.5, 0.2)}


@pytest.mark.parametrize("options", [{"hops": 0}, {"filter_dropout": 1.0}, {"theta_lr": -1}])
def test_options_that_cannot_be_are_an_error(options):
    with pytest.raises(InputError, match=f"option {next(iter(options))}: it must be a"):
        run(MODEL, options=options)
