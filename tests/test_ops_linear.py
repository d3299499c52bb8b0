"""A matrix product whose gradients need no copy, against torch's own."""

from __future__ import annotations

import pytest
import torch
from torch.func import grad, vmap
from torch.nn import functional as F  # noqa: N812

from ops_cases import device, every_backend
from pdgnn.ops import library, linear, use_backend
from pdgnn.training.group import matmul_precision


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


@every_backend
@pytest.mark.parametrize("precision", ["tf32", "float32"])
@pytest.mark.parametrize(
    ("runs", "nodes", "inside", "out"),
    [(1, 1, 1, 1), (3, 70, 17, 5), (2, 300, 64, 33), (2, 40, 130, 8)],
)
@pytest.mark.parametrize("shared", [False, True])
def test_a_product_over_nodes(backend, precision, runs, nodes, inside, out, shared):
    where = device(backend)
    g = torch.randn(runs, nodes, out, device=where)
    x = torch.randn(1 if shared else runs, nodes, inside, device=where)
    with use_backend(backend), matmul_precision(precision):
        found = library.over_nodes(g, x)
    assert found.is_contiguous()
    wide = g.double().mT @ x.double()
    bound = 1e-3 if precision == "tf32" else 1e-6  # of 10 bits, and of 23
    scale = g.double().abs().mT @ x.double().abs()
    assert ((found - wide).abs() <= bound * scale).all()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA GPU")
def test_runs_on_a_gpu_have_the_gradients_of_torch():
    x, w = (draw(*shape).float().cuda() for shape in ((3, 500, 8), (3, 6, 8)))
    w.requires_grad_()
    (found,) = torch.autograd.grad(vmap(lambda x, w: linear(x, w).sin().sum())(x, w).sum(), w)
    wide = (x.double() @ w.double().mT).cos().mT @ x.double()
    torch.testing.assert_close(found, wide.float(), atol=2e-3, rtol=1e-5)


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
