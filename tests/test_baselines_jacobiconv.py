"""JacobiConv against its formula, SciPy's polynomials and GCN."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.special import eval_jacobi

from pdgnn import InputError
from pdgnn.baselines.jacobiconv import MODEL, jacobi_recurrence
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
    sharp,
)


@pytest.mark.parametrize(("a", "b"), [(0.0, 0.0), (1.0, 1.0), (0.5, 0.25), (-0.5, 1.5)])
def test_the_recurrence_gives_the_jacobi_polynomials(a, b):
    x = np.linspace(-1, 1, 21)
    before, last = np.zeros_like(x), np.ones_like(x)
    for k, (p, q, r) in enumerate(jacobi_recurrence(10, a, b), start=1):
        before, last = last, (p * x + q) * last + r * before
        np.testing.assert_allclose(last, eval_jacobi(k, a, b, x), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("hops", [1, 2, 10])
@pytest.mark.parametrize("seed", range(2))
def test_logits_are_those_of_the_formula(seed, hops, classes):
    graph = random_graph(seed)
    options = {"hops": hops, "a": 0.5, "b": 0.25, "bound": 2.0}
    module = made(MODEL, graph, seed=seed, classes=classes, options=options)
    x = features(graph, seed)
    values, vectors = torch.linalg.eigh(normalized(adjacency(graph)))
    gamma = 2.0 * module.eta.tanh()
    z = 0
    for k in range(hops + 1):
        polynomial = torch.from_numpy(eval_jacobi(k, 0.5, 0.25, values.numpy()))
        filtered = vectors @ torch.diag(polynomial) @ vectors.T @ module.lin(x)
        z = z + module.theta[k] * gamma[:k].prod() * filtered
    z = z[:, 1:] - z[:, :1] if classes == 2 else z
    found = logits(MODEL, module, graph, x, options=options)
    torch.testing.assert_close(found, z.detach(), rtol=1e-8, atol=1e-8)


def test_nodes_may_come_in_any_order():
    check_equivariance(MODEL)


@pytest.mark.parametrize("dataset", ["ring", "board"])
def test_many_runs_are_as_many_single_ones(dataset):
    check_many_are_single(
        MODEL,
        {"a": 0.5, "b": 0.25, "bound": 2.0},
        {"filter_dropout": 0.5, "eta_lr": 0.3},
        {"b": -0.5, "theta_decay": 0.1, "theta_lr": 0.0},
        dataset=dataset,
    )


def test_it_learns_a_small_graph_by_heart():
    check_fits(MODEL, lr=0.1, steps=300)


def test_it_sharpens_where_gcn_cannot():
    beats_gcn(MODEL, sharp())


def test_three_groups_have_rates_of_their_own():
    options = {"eta_lr": 0.5, "theta_decay": 0.2}
    told = run(MODEL, lr=0.1, weight_decay=0.01, options=options)
    assert MODEL.rates(told) == {"": (0.1, 0.01), "eta": (0.5, 0.01), "theta": (0.1, 0.2)}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"hops": 0}, "option hops: it must be a whole number"),
        ({"a": -1.5}, "option a: it must be a number"),
        ({"bound": 0.0}, "option bound: a bound of 0"),
        ({"a": -1.0, "b": -1.0}, "a = b = -1 has no"),
    ],
)
def test_options_that_cannot_be_are_an_error(options, message):
    with pytest.raises(InputError, match=message):
        run(MODEL, options=options)
