"""The primitives that follow no edges, in every form: dropout, activations, norms, AdamW."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from ops_cases import Case, device, every_backend
from pdgnn.ops import (
    activate,
    batch_norm,
    dropout,
    layer_norm,
    reference,
    score_nodes,
    use_backend,
)
from pdgnn.ops.backends import kernels_for


@every_backend
def test_dropout_is_the_same_in_every_form(backend):
    where = device(backend)
    x = torch.randn(3, 50, generator=torch.Generator().manual_seed(0))
    p, seed = torch.tensor([0.0, 0.3, 0.9]), torch.tensor([1, 2**40 + 5, 2**62])

    def run(where):
        return torch.vmap(lambda x, p, s: dropout(x, p, s, torch.tensor(3, device=where), layer=2))(
            x.to(where), p.to(where), seed.to(where)
        ).cpu()

    with use_backend(backend):
        found = run(where)
    with use_backend("reference"):
        expected = run("cpu")
    assert torch.equal(found, expected)
    assert torch.equal(found[0], x[0])  # p = 0 keeps all


@pytest.mark.parametrize("p", [0.1, 0.5, 0.8])
def test_dropout_keeps_its_share_and_its_mean(p):
    one = [torch.tensor(p), torch.tensor(11), torch.tensor(4)]
    kept = dropout(torch.ones(400, 500), *one, layer=1)
    sigma = (p * (1 - p) / kept.numel()) ** 0.5
    assert (kept > 0).float().mean().item() == pytest.approx(1 - p, abs=5 * sigma)
    for along in (0, 1):  # no row or column stands out
        share = (kept > 0).float().mean(dim=along)
        assert ((share - (1 - p)).abs() < 6 * (p * (1 - p) / kept.shape[along]) ** 0.5).all()


def test_dropout_masks_of_other_seeds_steps_and_layers_are_unrelated():
    def mask(seed, step, layer):
        one = [torch.tensor(0.5), torch.tensor(seed), torch.tensor(step)]
        return (dropout(torch.ones(100_000), *one, layer=layer) > 0).float()

    base = mask(0, 0, 0)
    assert torch.equal(base, mask(0, 0, 0))
    for other in (mask(1, 0, 0), mask(0, 1, 0), mask(0, 0, 1), mask(1, 1, 1), mask(2**32, 0, 0)):
        assert (base * other).mean().item() == pytest.approx(0.25, abs=5 * (3 / 16e5) ** 0.5)
        assert (base[1:] * other[:-1]).mean().item() == pytest.approx(0.25, abs=0.008)


def test_activate_is_what_torch_would_do():
    h, bias, residual = torch.randn(4, 6), torch.randn(6), torch.randn(4, 6)
    state = (torch.tensor(0.4), torch.tensor(5), torch.tensor(1), 2)
    dropped = dropout(h + bias, *state[:3], layer=2)
    torch.testing.assert_close(
        activate(h, bias, dropout=state), torch.nn.functional.gelu(dropped), atol=1e-6, rtol=0
    )
    torch.testing.assert_close(
        activate(h, bias, residual=residual, dropout=state), residual + dropped, atol=1e-6, rtol=0
    )


@every_backend
def test_the_terms_of_nodes_are_products(backend):
    where, case = device(backend), Case(3, sources=300, heads=3, channels=5)
    with use_backend(backend):
        found = score_nodes(*case.tensors("x", "bias", "att", "att2", where=where))
    x = case.x + case.bias
    expected = x, (x * case.att).sum(axis=-1), (x * case.att2).sum(axis=-1)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a.cpu(), b, atol=1e-12)


@every_backend
@pytest.mark.parametrize(("rows", "width"), [(3, 5), (130, 33), (1, 700)])
def test_layer_norm_is_that_of_torch(backend, rows, width):
    where = device(backend)
    x, weight, bias, g = (
        torch.randn(size, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).to(where)
        for size in ((rows, width), (width,), (width,), (rows, width))
    )
    given = [t.requires_grad_() for t in (3 * x + 5, weight, bias)]
    with use_backend(backend):
        y, same = layer_norm(*given)
        got = torch.autograd.grad((y * g + same * x).sum(), given)
    want = torch.nn.functional.layer_norm(given[0], (width,), *given[1:])
    torch.testing.assert_close(y, want, atol=1e-12, rtol=0)
    assert torch.equal(same, given[0])
    want = torch.autograd.grad((want * g + given[0] * x).sum(), given)
    torch.testing.assert_close(got, want, atol=1e-11, rtol=0)


@every_backend
@pytest.mark.parametrize(("p", "parts"), [(None, 1), (0.0, 3), (0.4, 1), (0.4, 2)])
@pytest.mark.parametrize(("rows", "width"), [(3, 5), (130, 33), (300, 16), (2, 700)])
def test_batch_norm_is_that_of_torch(backend, rows, width, p, parts):
    """Of a sum of parts, then ReLU, then dropout; three runs at once, with their gradients."""
    where, rng = device(backend), torch.Generator().manual_seed(0)
    x, weight, bias, g = (
        torch.randn(3, *size, dtype=torch.float64, generator=rng).to(where)
        for size in ((rows, width), (width,), (width,), (rows, width))
    )
    more = [t * x for t in range(1, parts)]
    given = [t.requires_grad_() for t in (3 * x + 5, weight, bias, *more)]
    state = [torch.tensor([1, 2**40, 3]).to(where), torch.tensor([4, 5, 6]).to(where)]
    rates = torch.full((3,), 0.0 if p is None else p, device=where)

    def one(rate, seed, step, x, weight, bias, *more):
        drawn = None if p is None else (rate, seed, step, 7)
        return batch_norm(x, weight, bias, added=more, eps=1e-3, dropout=drawn)

    with use_backend(backend):
        y, mean, var = torch.vmap(one)(rates, *state, *given)
        got = torch.autograd.grad((y * g).sum(), given)
    want, total = [], sum(given[3:], given[0])
    for r in range(3):
        own = (total[r], None, None, given[1][r], given[2][r])
        normed = torch.nn.functional.batch_norm(*own, training=True, eps=1e-3).relu()
        want.append(dropout(normed, rates[r], state[0][r], state[1][r], layer=7))
    torch.testing.assert_close(y, torch.stack(want), atol=1e-11, rtol=0)
    torch.testing.assert_close(mean, total.mean(dim=1))
    torch.testing.assert_close(var, total.var(dim=1, correction=0))
    want = torch.autograd.grad((torch.stack(want) * g).sum(), given)
    torch.testing.assert_close(got, want, atol=1e-10, rtol=0)


@every_backend
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_batch_norm_of_narrow_numbers_is_near_that_of_wide_ones(backend, dtype):
    where, rng = device(backend), torch.Generator().manual_seed(0)
    x, weight, bias, g = (
        torch.randn(size, generator=rng).to(where, dtype)
        for size in ((500, 24), (24,), (24,), (500, 24))
    )
    found = []
    with use_backend(backend):
        for kind in (dtype, torch.float64):
            given = [t.to(kind).requires_grad_() for t in (x + 30, weight, bias)]
            y, mean, var = batch_norm(*given, added=[given[0].detach()])
            assert y.dtype == kind
            assert mean.dtype == var.dtype == torch.promote_types(kind, torch.float32)
            found.append([y, mean, var, *torch.autograd.grad((y * g).sum(), given)])
    near = 1e-4 if dtype == torch.float32 else 0.05
    for narrow, wide in zip(*found, strict=True):
        scale = max(1.0, wide.abs().max().item())
        torch.testing.assert_close(narrow.double() / scale, wide / scale, atol=near, rtol=0)


@every_backend
@pytest.mark.parametrize("size", [0, 1, 1029])
def test_adamw_is_that_of_torch(backend, size):
    where, rng, betas = device(backend), torch.Generator().manual_seed(size), (0.9, 0.99)
    start = torch.randn(2, size, generator=rng, dtype=torch.float64).to(where)
    lr, decay = (
        torch.tensor(t, dtype=torch.float64, device=where) for t in ((0.1, 0.01), (0.5, 0))
    )
    theirs = [t.clone().requires_grad_() for t in start]
    optimizers = [
        torch.optim.AdamW([t], lr=a.item(), weight_decay=d.item(), betas=betas)
        for t, a, d in zip(theirs, lr, decay, strict=True)
    ]
    mine, mean, square = start.clone(), torch.zeros_like(start), torch.zeros_like(start)
    for step in range(1, 6):
        grads = torch.randn(2, size, generator=rng, dtype=torch.float64).to(where)
        root = torch.full_like(lr, (1 - betas[1] ** step) ** 0.5)
        factors = (1 - lr * decay, lr / (1 - betas[0] ** step), root, betas, 1e-8)
        with use_backend(backend):
            kernels_for(mine).adamw_(mine, mean, square, grads, *factors)
        for t, g, optimizer in zip(theirs, grads, optimizers, strict=True):
            t.grad = g
            optimizer.step()
    torch.testing.assert_close(mine, torch.stack([t.detach() for t in theirs]), atol=1e-12, rtol=0)


@every_backend
def test_adamw_is_the_reference(backend):
    where, rng = device(backend), torch.Generator().manual_seed(1)
    start = [torch.rand(3, 1500, dtype=torch.float64, generator=rng).to(where) for _ in range(4)]
    rates = [torch.rand(3, dtype=torch.float64, generator=rng).to(where) for _ in range(3)]
    rates[1][2] = 0.0  # a run that stands still
    found, expected = [t.clone() for t in start], [t.clone() for t in start]
    with use_backend(backend):
        kernels_for(start[0]).adamw_(*found, *rates, (0.9, 0.999), 1e-8)
    reference.adamw_(*expected, *rates, (0.9, 0.999), 1e-8)
    torch.testing.assert_close(found, expected, atol=1e-13, rtol=1e-13)
    assert torch.equal(found[3], start[3])
    torch.testing.assert_close(found[0][2], start[0][2] * rates[0][2])


@every_backend
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_adamw_of_some_columns_leaves_the_others(backend, dtype):
    where, rng = device(backend), torch.Generator().manual_seed(1)
    state = [torch.rand(3, 1500, generator=rng).to(where) for _ in range(3)]
    grads = torch.rand(3, 1100, generator=rng).to(where, dtype)
    rates = [torch.rand(3, dtype=torch.float64, generator=rng).to(where) for _ in range(3)]
    found, expected = [t.clone() for t in state], [t[:, 64:1164].clone() for t in state]
    with use_backend(backend):
        here = [t[:, 64:1164] for t in found]
        kernels_for(here[0]).adamw_(*here, grads, *rates, (0.9, 0.999), 1e-8)
    reference.adamw_(*expected, grads, *rates, (0.9, 0.999), 1e-8)
    torch.testing.assert_close(here, expected)
    for new, old in zip(found, state, strict=True):
        assert torch.equal(new[:, :64], old[:, :64])
        assert torch.equal(new[:, 1164:], old[:, 1164:])
        assert not torch.equal(new[:, 64:1164], old[:, 64:1164])
