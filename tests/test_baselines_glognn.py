"""GloGNN against the N × N coefficients that it solves for, and GCN."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from pdgnn import InputError
from pdgnn.baselines.glognn import MODEL, inverse
from published import (
    adjacency,
    alike_hubs,
    beats_gcn,
    check_equivariance,
    check_fits,
    check_many_are_single,
    features,
    logits,
    made,
    power,
    random_graph,
    run,
)

OPTIONS = [
    {},
    {"delta": 0.4, "residual": 0.3, "beta1": 0.5, "beta2": 2.0, "orders": 3},
    {"delta": 1.0, "residual": 0.6, "beta1": 0.0, "beta2": 1.0, "orders": 2},
    {"delta": 0.5, "beta1": 1.0, "beta2": 0.0},
]


def coefficients(h, first, near, *, residual, beta1, beta2):
    """The Z ``[N, N]`` at which the gradient of what it minimises is 0."""
    keep, eye = 1 - residual, torch.eye(len(h), dtype=h.dtype)
    left = keep * (h - residual * first) @ h.T + beta2 * near
    return left @ torch.linalg.inv(keep**2 * h @ h.T + (beta1 + beta2) * eye)


def objective(z, h, first, near, *, residual, beta1, beta2):
    rest = h - (1 - residual) * z @ h - residual * first
    return rest.square().sum() + beta1 * z.square().sum() + beta2 * (z - near).square().sum()


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("classes", [2, 3])
def test_logits_are_those_of_the_formula(seed, options, classes):
    graph = random_graph(seed)
    x = features(graph, seed)
    module = made(MODEL, graph, seed=seed, classes=classes, options=options)
    full = run(MODEL, options=options).options
    chosen = {name: full[name] for name in ("residual", "beta1", "beta2")}
    looped = adjacency(graph) + torch.eye(graph.num_nodes, dtype=torch.float64)
    p = power(looped.sum(1), -1) @ looped
    mixed = full["delta"] * module.lin_x(x) + (1 - full["delta"]) * (p @ module.rows + module.bias)
    first = h = module.lin_out(mixed.relu()).detach()
    near = sum(w * torch.linalg.matrix_power(p, k + 1) for k, w in enumerate(module.order_weight))
    near = near.detach()
    for _ in range(2):
        z = coefficients(h, first, near, **chosen).requires_grad_()
        (slope,) = torch.autograd.grad(objective(z, h, first, near, **chosen), z)
        assert slope.abs().max() < 1e-9 * (1 + h.abs().max() ** 2)
        h = ((1 - full["residual"]) * z @ h + full["residual"] * first).detach()
    expected = h[:, 1:] - h[:, :1] if classes == 2 else h
    found = logits(MODEL, module, graph, x, options=options)
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("size", [1, 2, 5, 18, 64])
def test_inverses_are_those_of_numpy_one_by_one_and_many_at_once(size):
    drawn = torch.Generator().manual_seed(size)
    h = torch.randn(4, 2 * size, size, generator=drawn, dtype=torch.float64) * 30
    many = h.mT @ h + torch.eye(size, dtype=torch.float64)
    for found in (torch.stack([inverse(m) for m in many]), torch.func.vmap(inverse)(many)):
        np.testing.assert_allclose(found, np.linalg.inv(many.numpy()), rtol=1e-6, atol=1e-12)
    narrow = torch.func.vmap(inverse)(many.float()) @ many.float()
    errors = (narrow - torch.eye(size)).abs().amax(dim=(1, 2))
    assert (errors < 1e-6 * torch.linalg.cond(many)).all()


def test_the_inverse_has_its_gradient():
    m = torch.eye(4, dtype=torch.float64) + torch.full((4, 4), 0.3, dtype=torch.float64)
    assert torch.autograd.gradcheck(inverse, m.requires_grad_())


@pytest.mark.parametrize("options", OPTIONS[:2])
def test_nodes_may_come_in_any_order_with_their_rows(options):
    check_equivariance(MODEL, permute="rows", options=options)


@pytest.mark.parametrize("dataset", ["ring", "board"])
def test_many_runs_are_as_many_single_ones(dataset):
    options = [{**o, "orders": 2} for o in OPTIONS[:3]]
    check_many_are_single(MODEL, *options, dataset=dataset)


def test_it_learns_a_small_graph_by_heart():
    check_fits(MODEL)


def test_it_knows_neighbours_by_who_they_are():
    beats_gcn(MODEL, alike_hubs(), steps=60, lr=0.05)


@pytest.mark.parametrize(
    "options", [{"residual": 1.0}, {"delta": 2.0}, {"beta1": -1.0}, {"orders": 0}]
)
def test_options_that_cannot_be_are_an_error(options):
    with pytest.raises(InputError, match=f"option {next(iter(options))}: it must be a"):
        run(MODEL, options=options)


def test_coefficients_that_nothing_holds_are_an_error():
    with pytest.raises(InputError, match="beta1 and beta2 are both 0"):
        run(MODEL, options={"beta1": 0.0, "beta2": 0.0})
