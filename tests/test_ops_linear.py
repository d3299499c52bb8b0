"""A matrix product whose gradients need no copy, against torch's own."""

from __future__ import annotations

import pytest
import torch
from torch.func import grad, vmap
from torch.nn import functional as F  # noqa: N812

from ops_cases import device, every_backend
from pdgnn.ops import linear, use_backend


def draw(*shape):
    return torch.randn(shape, dtype=torch.float64)


@pytest.mark.parametrize(("nodes", "inside", "out"), [(5, 3, 4), (1, 1, 1), (7, 2, 9), (0, 3, 2)])
def test_it_is_a_product_with_the_transpose(nodes, inside, out):
    x, w, g = draw(nodes, inside), draw(out, inside), draw(nodes, out)
    x.requires_grad_(), w.requires_grad_()
    found, expected = linear(x, w), F.linear(x, w)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(
        torch.autograd.grad(found, (x, w), g), torch.autograd.grad(expected, (x, w), g)
    )
    with torch.no_grad():
        torch.testing.assert_close(linear(x, w), expected)


def test_gradcheck():
    x, w = draw(4, 3).requires_grad_(), draw(2, 3).requires_grad_()
    assert torch.autograd.gradcheck(linear, (x, w))
    assert torch.autograd.gradcheck(lambda w: linear(x.detach(), w), w)
    assert torch.autograd.gradcheck(lambda x: linear(x, w.detach()), x)


def test_gradients_of_many_runs_are_laid_out_as_their_parameters():
    x, w = draw(6, 3), draw(4, 5, 3).requires_grad_()  # four runs that share x
    loss = vmap(lambda w: linear(x, w).sin().sum())(w).sum()
    (found,) = torch.autograd.grad(loss, w)
    assert found.is_contiguous()
    each = [grad(lambda w: F.linear(x, w).sin().sum())(run) for run in w.detach()]
    torch.testing.assert_close(found, torch.stack(each))


def test_bfloat16_under_autocast_gives_what_torch_gives():
    x, w = draw(4, 3).float(), draw(2, 3).float()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = linear(x, w)
        assert found.dtype == torch.bfloat16
        torch.testing.assert_close(found, F.linear(x, w))


@every_backend
def test_weights_of_runs_that_share_their_features(backend):
    features = 7
    where, rng = device(backend), torch.Generator().manual_seed(0)
    x = torch.randn(50, features, generator=rng, dtype=torch.float64).to(where)
    w = torch.randn(3, 6, features, generator=rng, dtype=torch.float64).to(where).requires_grad_()
    with use_backend(backend):
        (found,) = torch.autograd.grad(vmap(lambda w: linear(x, w).sin().sum())(w).sum(), w)
    expected = torch.einsum("rnd,nf->rdf", torch.cos(x @ w.mT), x)
    torch.testing.assert_close(found, expected, atol=1e-12, rtol=0)
