"""FSGNN against its formula and GCN."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F  # noqa: N812

from pdgnn import InputError
from pdgnn.baselines.fsgnn import MODEL, hop_features
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
    normalized,
    random_graph,
    run,
    unrelated,
    with_loops,
)

FEW = {"hops": 2}


@pytest.mark.parametrize("seed", range(4))
def test_logits_are_those_of_the_formula(seed):
    graph = random_graph(seed)
    x, module = features(graph, seed), made(MODEL, graph, seed=seed, options=FEW)
    plain, looped = normalized(adjacency(graph)), with_loops(adjacency(graph))
    seen = [x, plain @ x, looped @ x, plain @ plain @ x, looped @ looped @ x]
    torch.testing.assert_close(hop_features(graph, x, 2), torch.stack(seen[1:]))
    shares = torch.softmax(module.score, 0)
    parts = [
        share * F.normalize(lin(f), p=2, dim=1)
        for lin, f, share in zip(module.lins, seen, shares, strict=True)
    ]
    expected = module.lin_out(torch.cat(parts, dim=1).relu()).detach()
    torch.testing.assert_close(logits(MODEL, module, graph, x, options=FEW), expected)


def test_hops_are_weighed_alike_at_first():
    module = MODEL.make(Size(5, 3, 14, 3), run(MODEL))
    torch.testing.assert_close(module.score.softmax(0), torch.full((7,), 1 / 7))


def test_nodes_may_come_in_any_order():
    check_equivariance(MODEL, options=FEW)


@pytest.mark.parametrize("dataset", ["ring", "board"])
def test_many_runs_are_as_many_single_ones(dataset):
    check_many_are_single(MODEL, FEW, FEW, FEW, dataset=dataset)


def test_it_learns_a_small_graph_by_heart():
    check_fits(MODEL, options=FEW)


def test_it_keeps_its_own_features_where_gcn_loses_them():
    beats_gcn(MODEL, unrelated(), steps=60, lr=0.05)


def test_hops_must_be_at_least_one():
    with pytest.raises(InputError, match="option hops: it must be a whole number"):
        run(MODEL, options={"hops": 0})
