"""H2GCN against its formula, exact neighbourhoods and GCN."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given as drawn

from pdgnn import Graph, InputError
from pdgnn.baselines import h2gcn
from pdgnn.baselines.h2gcn import MODEL, two_hop_edges
from pdgnn.models import Size
from pdgnn.ops import Edges
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
from strategies import graphs


def far(a: torch.Tensor) -> torch.Tensor:
    """The pairs at distance exactly 2, dense."""
    near = a > 0
    eye = torch.eye(len(a), dtype=torch.bool)
    return ((a @ a > 0) & ~near & ~eye).double()


def test_channels_that_no_machine_can_hold_are_refused_before_they_are_drawn():
    MODEL.make(Size(5, 3, 14, 3), run(MODEL, depth=10, width=6))
    with pytest.raises(InputError, match="each round of h2gcn doubles the channels: depth=40 at"):
        MODEL.make(Size(5, 3, 14, 3), run(MODEL, depth=40, width=6))


@drawn(graphs())
@pytest.mark.parametrize("block", [1, 20, 2**24])
def test_pairs_are_those_at_distance_2(block, graph):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(h2gcn, "BLOCK", block)
        pairs = two_hop_edges(graph)
    found = torch.zeros(graph.num_nodes, graph.num_nodes, dtype=torch.float64)
    found[pairs.row.long(), pairs.col.long()] += 1
    assert torch.equal(found, far(adjacency(graph)))
    index = torch.stack([pairs.col, pairs.row]).long()
    sorted_ones = Edges.from_edge_index(index, num_nodes=graph.num_nodes)
    for mine, theirs in zip(pairs.tensors(), sorted_ones.tensors(), strict=True):
        assert mine.dtype == theirs.dtype
        assert torch.equal(mine, theirs)


def test_a_graph_without_pairs_has_none():
    assert two_hop_edges(Graph.from_edge_index(np.zeros((2, 0), dtype=int), 3)).num_edges == 0


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("classes", [2, 3])
def test_logits_are_those_of_the_formula(seed, classes):
    graph = random_graph(seed)
    x, module = features(graph, seed), made(MODEL, graph, seed=seed, classes=classes, depth=2)
    a = adjacency(graph)
    near, distant = normalized(a), normalized(far(a))
    r0 = module.lin_in(x).relu()
    r1 = torch.cat([near @ r0, distant @ r0], dim=1)
    r2 = torch.cat([near @ r1, distant @ r1], dim=1)
    expected = module.lin_out(torch.cat([r0, r1, r2], dim=1)).detach()
    torch.testing.assert_close(logits(MODEL, module, graph, x, depth=2), expected)


def test_nodes_may_come_in_any_order():
    check_equivariance(MODEL)


@pytest.mark.parametrize("dataset", ["ring", "board"])
def test_many_runs_are_as_many_single_ones(dataset):
    check_many_are_single(MODEL, {}, {}, {}, dataset=dataset)


def test_it_learns_a_small_graph_by_heart():
    check_fits(MODEL)


def test_it_keeps_its_own_features_where_gcn_loses_them():
    beats_gcn(MODEL, unrelated(), steps=50, lr=0.05)
