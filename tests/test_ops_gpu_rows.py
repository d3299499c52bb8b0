"""The Triton kernels that go through nodes one by one: tiles and shares, random bits, GELU."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtr

from pdgnn.ops import reference

triton = pytest.importorskip("triton")
from pdgnn.ops import gpu_dense  # noqa: E402
from pdgnn.ops.gpu_rows import gelu, gelu_slope, keep_mask, mask_keys  # noqa: E402

tl = triton.language
WHERE = "cuda" if torch.cuda.is_available() else "cpu"


@triton.jit
def keep_some(rate, seed, step, out, first, width, GROUP: tl.constexpr, LARGE: tl.constexpr):
    key, second, threshold, _ = mask_keys(rate, seed, step, 0, 0, 5)
    row, c = tl.arange(0, 4)[:, None] * width, tl.arange(0, 16)[None, :]
    keep = keep_mask(first.to(tl.int64), row, c, key, second, threshold, GROUP, LARGE)
    tl.store(out + row + c, keep, mask=c < width)


@triton.jit
def of_each(x, out, f: tl.constexpr, BLOCK: tl.constexpr):
    n = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    u = tl.load(x + n)
    tl.store(out + n, gelu(u) if f == "gelu" else gelu_slope(u * 0.8493218002880191))


def evaluated(f: str, x: torch.Tensor) -> np.ndarray:
    x = x.to(WHERE)
    out = torch.empty_like(x)
    of_each[(len(x) // 1024,)](x, out, f=f, BLOCK=1024)
    return out.cpu().double().numpy()


@pytest.mark.parametrize("width", [8, 12, 11, 16])
@pytest.mark.parametrize("first", [0, 2**31, 2**32, 2**35 + 2**32])
def test_random_bits_are_those_of_the_reference_past_two_to_the_32(monkeypatch, first, width):
    """The middle of the elements is at `first`, so that some are on either side of it."""
    start = max(first - 2 * width, 0)
    group = math.gcd(start, width, 8)
    given = [torch.tensor([v], device=WHERE) for v in (0.4, 2**40 + 5, 3)]
    out = torch.zeros(4 * width, dtype=torch.bool, device=WHERE)
    keep_some[(1,)](*given, out, start, width, GROUP=group, LARGE=True)
    counted = torch.arange
    monkeypatch.setattr(torch, "arange", lambda *a, **k: counted(*a, **k) + start)
    bits = reference.random_bits(given[1].cpu(), given[2].cpu(), 5, 4 * width)
    assert torch.equal(out.cpu(), bits[0] * 2.0**-24 >= torch.tensor(0.4))
    assert 0 < out.sum() < len(out)
    if first + 2 * width < 2**32:
        keep_some[(1,)](*given, out, start, width, GROUP=1, LARGE=False)
        assert torch.equal(out.cpu(), bits[0] * 2.0**-24 >= torch.tensor(0.4))


RATES = [-0.5, -0.0, 0.0, 2.0**-25, 2.0**-24, 1 / 3, 0.5, 1 - 2.0**-24, 1.0, 1.5, np.nan]


@pytest.mark.parametrize("size", [1000, 4096 + 16])
def test_every_rate_of_dropout_has_the_bits_of_the_reference(size):
    p = torch.tensor(RATES, dtype=torch.float32)
    x = torch.full((len(p), size), 3.0)
    x[:, ::7] = torch.inf
    seed, step = torch.arange(len(p)) - 5, torch.tensor([2])
    found = gpu_dense.dropout(*(t.to(WHERE) for t in (x, p, seed, step)), 2**31 + 1)
    assert torch.equal(found.cpu(), reference.dropout(x, p, seed, step, 2**31 + 1))
    assert not found[8:].any()


def test_gelu_and_its_slope_are_exact_to_single_precision():
    x = torch.linspace(-9, 9, 2**14)
    u = x.double().numpy()
    phi = np.exp(-u * u / 2) / np.sqrt(2 * np.pi)
    last = np.spacing(np.abs(x.numpy()))  # what rounding to float32 costs
    assert (np.abs(evaluated("gelu", x) - u * ndtr(u)) < 2e-7 + last).all()
    assert np.abs(evaluated("slope", x) - (ndtr(u) + u * phi)).max() < 4e-7


def test_gelu_far_out_and_of_nan():
    x = torch.zeros(1024)
    x[:7] = torch.tensor([1e30, -1e30, torch.inf, -torch.inf, torch.nan, 1e-30, -1e-30])
    y, slope = evaluated("gelu", x), evaluated("slope", x)
    np.testing.assert_allclose(y[[0, 2]], [np.float32(1e30), np.inf])
    np.testing.assert_allclose(y[[1, 3]], 0, atol=1e-8)
    np.testing.assert_allclose(slope[:4], [1, 0, 1, 0], atol=1e-7)
    assert np.isnan(y[4])
    assert np.isnan(slope[4])
    np.testing.assert_allclose(y[5:7], [5e-31, -5e-31], rtol=1e-6)
    assert (y[7:] == 0).all()
    np.testing.assert_allclose(slope[5:], 0.5, atol=1e-7)


@pytest.fixture(params=["one tile", "many tiles"])
def tiles(request, monkeypatch):
    """With tiles so small that rows and heads are cut, and a run is shared among programs."""
    if request.param == "many tiles":
        monkeypatch.setattr(gpu_dense, "WIDE", 8)
        monkeypatch.setattr(gpu_dense, "PROCESSORS", 3)
        small = {name: (16, warps, 2) for name, (_, warps, _) in gpu_dense.SHAPES.items()}
        monkeypatch.setattr(gpu_dense, "SHAPES", small)


def both(name: str, *args: object, **close: float) -> None:
    """Compare the kernels with the reference."""
    moved = [
        tuple(t.to(WHERE) if isinstance(t, torch.Tensor) else t for t in arg)
        if isinstance(arg, tuple)
        else arg.to(WHERE)
        if isinstance(arg, torch.Tensor)
        else arg
        for arg in args
    ]
    found, expected = getattr(gpu_dense, name)(*moved), getattr(reference, name)(*args)
    if isinstance(found, torch.Tensor):
        found, expected = (found,), (expected,)
    for a, b in zip(found, expected, strict=True):
        assert a.dtype == b.dtype
        torch.testing.assert_close(a.cpu(), b, **close)


def states(runs: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, int]:
    return torch.linspace(0.2, 0.6, runs), torch.arange(runs) + 2**33, torch.tensor([4]), 1


EXACT = {"atol": 1e-11, "rtol": 1e-11}


@pytest.mark.parametrize(("nodes", "width"), [(1, 1), (37, 21), (9, 40), (130, 3)])
def test_rows_are_those_of_the_reference(tiles, nodes, width):
    rng = torch.Generator().manual_seed(nodes)
    h, residual, g = torch.randn(3, 2, nodes, width, dtype=torch.float64, generator=rng)
    bias, weight = torch.randn(2, 2, width, dtype=torch.float64, generator=rng)
    for rates in (None, states(2)):
        both("activate", h, bias, None, rates, **EXACT)
        both("activate", h, bias, residual, rates, **EXACT)
        for curved in (True, False):
            both("activate_backward", g, h, bias, curved, rates, **EXACT)
    both("layer_norm", h, weight, bias, 1e-5, **EXACT)
    _, mean, scale = reference.layer_norm(h, weight, bias, 1e-5)
    for passed in (None, residual):
        both("layer_norm_backward", g, passed, h, weight, mean, scale, **EXACT)


@pytest.mark.parametrize(
    ("nodes", "heads", "channels"), [(1, 1, 1), (19, 3, 5), (7, 5, 8), (6, 2, 21), (40, 9, 1)]
)
def test_scores_of_heads_of_any_size(tiles, nodes, heads, channels):
    rng = torch.Generator().manual_seed(heads)
    h, g = torch.randn(2, 2, nodes, heads, channels, dtype=torch.float64, generator=rng)
    bias, src, dst = torch.randn(3, 2, heads, channels, dtype=torch.float64, generator=rng)
    of_src, of_dst = torch.randn(2, 2, nodes, heads, dtype=torch.float64, generator=rng)
    both("score_nodes", h, bias, src, dst, **EXACT)
    both("score_nodes", h, None, src, dst, **EXACT)
    both("score_nodes_backward", g, of_src, of_dst, h, src, dst, **EXACT)


def test_narrow_layers_on_a_wide_stream():
    """Layers in bfloat16 around a float32 residual: the gradients are in the type of each."""
    rng, narrow = torch.Generator().manual_seed(0), torch.bfloat16
    h, g = torch.randn(2, 2, 40, 48, generator=rng).to(narrow)
    residual, x, to_x = torch.randn(3, 2, 40, 48, generator=rng)
    bias, weight = torch.randn(2, 2, 48, generator=rng).to(narrow)
    rough, exact = {"atol": 0.06, "rtol": 0.02}, {"atol": 2e-2, "rtol": 2e-2}
    both("activate", h, bias, None, states(2), **rough)
    both("activate", h, bias, residual, states(2), **rough)
    both("activate_backward", g, h, bias, True, states(2), atol=0.15, rtol=0.03)
    both("activate_backward", to_x, h, bias, False, states(2), atol=0.15, rtol=0.02)
    both("layer_norm", x, weight, bias, 1e-5, **exact)
    _, mean, scale = reference.layer_norm(x, weight, bias, 1e-5)
    both("layer_norm_backward", g, to_x, x, weight, mean, scale, atol=0.1, rtol=0.02)


@given(
    st.sampled_from(sorted(gpu_dense.SHAPES)),
    st.integers(0, 2**33),
    st.integers(1, 3000),
    st.integers(0, 17),
    st.integers(1, 40),
)
def test_programs_share_all_nodes_and_count_in_32_bits(kernel, nodes, runs, power, blocks):
    columns = 2**power
    shape = gpu_dense._shape(kernel, nodes, runs, columns, blocks)
    programs, *others = shape.grid
    assert others == [runs, blocks]
    assert shape.per_program % shape.rows == 0
    assert (
        programs - 1
    ) * shape.per_program < nodes <= programs * shape.per_program or nodes == programs == 0
    assert shape.per_program * columns * blocks < 2**31
    assert shape.warps in (1, 2, 4, 8, 16)
