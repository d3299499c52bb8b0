"""The feed-forward network by blocks of rows, against the same of single ops."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.func import vmap

from ops_cases import device, every_backend
from pdgnn.ops import activate, feed_forward, linear, use_backend

DropoutState = tuple[Tensor, Tensor, Tensor, int]


def case(nodes: int, dtype: torch.dtype, where: str, seed: int = 0) -> list[Tensor]:
    """x, residual, w1, b1, w2 and b2; the residual is float32 at least."""
    generator = torch.Generator().manual_seed(seed)
    shapes = ((nodes, 3), (nodes, 4), (5, 3), (5,), (4, 5), (4,))
    made = [torch.randn(s, generator=generator, dtype=torch.float64) for s in shapes]
    wide = torch.promote_types(dtype, torch.float32)
    types = [dtype, wide, dtype, dtype, dtype, dtype]
    return [t.to(where, d).requires_grad_() for t, d in zip(made, types, strict=True)]


def noise(where: str, seed: int = 7) -> tuple[DropoutState, DropoutState]:
    of_run = [t.to(where) for t in (torch.tensor(0.3), torch.tensor(seed), torch.tensor(2))]
    return (*of_run, 1), (*of_run, 2)


def whole(x, residual, w1, b1, w2, b2, masks=(None, None)):
    a = activate(linear(x, w1), b1, noise=masks[0])
    return activate(linear(a, w2), b2, residual=residual, noise=masks[1])


@every_backend
@pytest.mark.parametrize("noisy", [True, False])
@pytest.mark.parametrize(("nodes", "rows"), [(7, 3), (6, 3), (5, 9), (4, 1), (0, 2)])
def test_blocks_give_what_all_rows_give(backend, nodes, rows, noisy):
    where = device(backend)
    tensors = case(nodes, torch.float64, where)
    masks = noise(where) if noisy else (None, None)
    g = torch.randn(nodes, 4, dtype=torch.float64, device=where)
    with use_backend(backend):
        expected = whole(*tensors, masks)
        found = feed_forward(*tensors, noise=masks, rows=rows)
        torch.testing.assert_close(found, expected)
        torch.testing.assert_close(
            torch.autograd.grad(found, tensors, g), torch.autograd.grad(expected, tensors, g)
        )
        with torch.no_grad():
            assert torch.equal(feed_forward(*tensors, noise=masks, rows=rows), found)


def test_gradcheck():
    tensors = case(5, torch.float64, "cpu")
    assert torch.autograd.gradcheck(
        lambda *t: feed_forward(*t, noise=noise("cpu"), rows=2), tensors
    )


@every_backend
def test_bfloat16_between_a_wide_residual(backend):
    where = device(backend)
    tensors = case(9, torch.bfloat16, where)
    with use_backend(backend):
        out = feed_forward(*tensors, noise=noise(where), rows=4)
        found = torch.autograd.grad(out.sum(), tensors)
    assert out.dtype == torch.float32
    assert [t.dtype for t in found] == [t.dtype for t in tensors]
    exact = whole(*(t.double() for t in tensors), noise(where))
    torch.testing.assert_close(out.double(), exact, atol=0.1, rtol=0.05)


@every_backend
def test_runs_are_mapped_over(backend):
    where = device(backend)
    runs = [case(7, torch.float64, where, seed) for seed in range(3)]
    stacked = [torch.stack(t).detach().requires_grad_() for t in zip(*runs, strict=True)]
    seeds = torch.arange(3, device=where)

    def one(seed, *tensors):
        masks = [(rate, seed, step, layer) for rate, _, step, layer in noise(where)]
        return feed_forward(*tensors, noise=tuple(masks), rows=3)

    with use_backend(backend):
        found = vmap(one)(seeds, *stacked)
        each = [feed_forward(*t, noise=noise(where, s), rows=3) for s, t in enumerate(runs)]
        torch.testing.assert_close(found, torch.stack(each))
        got = torch.autograd.grad(found.sin().sum(), stacked)
        wanted = [
            torch.autograd.grad(out.sin().sum(), t) for out, t in zip(each, runs, strict=True)
        ]
    torch.testing.assert_close(got, tuple(torch.stack(t) for t in zip(*wanted, strict=True)))
