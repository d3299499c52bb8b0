"""GPR-GNN against its formula, personalised PageRank and GCN."""

from __future__ import annotations

import pytest
import torch

from pdgnn import InputError
from pdgnn.baselines.gpr_gnn import MODEL, pagerank_weights
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
    random_graph,
    run,
    unrelated,
    with_loops,
)

FEW = {"hops": 3}
SIZE = Size(5, 3, 14, 3)


@pytest.mark.parametrize("seed", range(4))
def test_logits_are_those_of_the_formula(seed):
    graph = random_graph(seed)
    x, module = features(graph, seed), made(MODEL, graph, seed=seed, options=FEW)
    h, p = module.lin_out(module.lin_in(x).relu()), with_loops(adjacency(graph))
    expected = sum(w * torch.linalg.matrix_power(p, k) @ h for k, w in enumerate(module.gamma))
    torch.testing.assert_close(logits(MODEL, module, graph, x, options=FEW), expected.detach())


@pytest.mark.parametrize(("teleport", "hops"), [(0.1, 10), (0.9, 3), (0.0, 4), (1.0, 2)])
def test_weights_begin_at_pagerank(teleport, hops):
    module = MODEL.make(SIZE, run(MODEL, options={"teleport": teleport, "hops": hops}))
    expected = [teleport * (1 - teleport) ** k for k in range(hops)] + [(1 - teleport) ** hops]
    torch.testing.assert_close(module.gamma.detach(), torch.tensor(expected))
    torch.testing.assert_close(pagerank_weights(teleport, hops).sum(), torch.tensor(1.0))


def test_the_propagated_scores_have_a_dropout_of_their_own():
    graph = random_graph(0)
    x = features(graph)
    options = {"hops": 1, "prop_dropout": 0.5, "teleport": 1.0}  # γ = (1, 0): what is propagated
    module = MODEL.make(SIZE, run(MODEL, dropout=0.0, options=options)).double()
    given = inputs(MODEL, graph, x, options=options)
    full = module.eval()(x, **given)
    some = module.train()(x, **given)
    kept = some != 0
    assert 0 < kept.sum() < kept.numel()
    torch.testing.assert_close(some[kept], 2 * full[kept])


def test_two_classes_may_have_a_score_each_that_are_dropped_apart():
    """One logit that is dropped is 0; of two scores the other one is left."""
    graph = random_graph(0)
    x = features(graph)
    options = {"hops": 1, "prop_dropout": 0.5, "teleport": 1.0, "two_scores": True}
    module = MODEL.make(Size(5, 1, 14, 2), run(MODEL, dropout=0.0, options=options)).double()
    given = inputs(MODEL, graph, x, options=options)
    h = module.lin_out(module.lin_in(x).relu())  # [N, 2]
    torch.testing.assert_close(module.eval()(x, **given), h[:, 1:] - h[:, :1])
    some = module.train()(x, **given)
    ways = torch.stack([h[:, 1] * 0, -2 * h[:, 0], 2 * h[:, 1], 2 * (h[:, 1] - h[:, 0])], dim=1)
    distance = (some - ways).abs()  # [N, 4]: none kept, the first, the second, both
    assert (distance.min(dim=1).values < 1e-12).all()
    assert {1, 2} <= set(distance.argmin(dim=1).tolist())


def test_with_more_classes_or_by_default_scores_are_logits():
    for out, classes, wanted in [(3, 3, {"two_scores": True}), (1, 2, {})]:
        module = MODEL.make(Size(5, out, 14, classes), run(MODEL, options=wanted))
        assert module.lin_out.out_features == out


def test_the_weights_of_hops_do_not_decay():
    spec = run(MODEL, lr=0.1, weight_decay=0.5)
    assert MODEL.rates(spec) == {"": (0.1, 0.5), "gamma": (0.1, 0.0)}


def test_nodes_may_come_in_any_order():
    check_equivariance(MODEL, options=FEW)


@pytest.mark.parametrize("dataset", ["ring", "board"])
def test_many_runs_are_as_many_single_ones(dataset):
    options = [{**FEW, "teleport": t, "prop_dropout": 0.9 * t} for t in (0.1, 0.5, 0.9)]
    check_many_are_single(MODEL, *options, dataset=dataset)


def test_it_learns_a_small_graph_by_heart():
    check_fits(MODEL, options={**FEW, "prop_dropout": 0.0, "teleport": 0.9})


def test_it_keeps_its_own_features_where_gcn_loses_them():
    beats_gcn(MODEL, unrelated(), steps=80, lr=0.05, options={"prop_dropout": 0.0})


@pytest.mark.parametrize(
    "options", [{"hops": 0}, {"teleport": 1.5}, {"prop_dropout": 1.0}, {"hops": "x"}]
)
def test_options_that_cannot_be_are_an_error(options):
    with pytest.raises(InputError, match=f"option {next(iter(options))}: it must be a"):
        run(MODEL, options=options)
