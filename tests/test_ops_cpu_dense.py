"""The dense CPU kernels against NumPy and torch in double precision; how their work is cut."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from pdgnn.ops import reference

pytest.importorskip("numba")

from pdgnn.ops import cpu_dense as cpu
from pdgnn.ops import cpu_rows
from threads import in_parts, on_threads

F64 = torch.float64
TOLERANCE = {F64: 1e-12, torch.float32: 1e-6}
BOTH = pytest.mark.parametrize("dtype", [torch.float32, F64])


def close(mine: Tensor, exact: Tensor, terms: Tensor | float = 0.0) -> None:
    """Equal up to rounding, that of the largest of `terms` where they were added to `mine`."""
    assert mine.shape == exact.shape
    assert exact.dtype == F64
    bound = TOLERANCE[mine.dtype] * (1 + exact.abs() + terms)
    assert ((mine.double() - exact).abs() <= bound).all()


@st.composite
def problems(draw):
    """A function that draws tensors of one type, and the B, N and D of a layer."""
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))
    dtype = draw(st.sampled_from((torch.float32, F64)))
    batch = draw(st.sampled_from((1, 2, 3)))
    n = draw(st.sampled_from((0, 1, 3, cpu_rows.ROWS, cpu_rows.ROWS + 1, 150)))
    width = draw(st.sampled_from((1, 2, 5, 16, 33, 64, 71)))
    return lambda *size: torch.randn(*size, generator=generator, dtype=dtype), (batch, n, width)


def state_for(batch: int) -> reference.DropoutState:
    return torch.tensor([0.2, 0.0, 0.9])[:batch], torch.arange(batch) - 1, torch.tensor([7]), 3


def factors(shape: tuple[int, ...], state: reference.DropoutState | None) -> Tensor:
    """1 / (1 − p) where an element is kept, 0 elsewhere."""
    ones = torch.ones(shape)
    return (ones if state is None else reference.dropout(ones, *state)).double()


def below(u: Tensor) -> Tensor:
    """Φ(u)."""
    return torch.from_numpy(np.vectorize(math.erfc, otypes=[float])(-u / math.sqrt(2))) / 2


def gelu_slope(u: Tensor) -> Tensor:
    return below(u) + u * (-u * u / 2).exp() / math.sqrt(2 * math.pi)


# --- dropout --------------------------------------------------------------------------------------


@given(
    st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=3),
    st.integers(0, 2**63 - 1),
    st.integers(0, 2**31),
    st.sampled_from((0, 1, 15, 4096, 5000)),
    st.sampled_from((torch.float32, F64)),
)
def test_dropout_is_the_references_bit_for_bit(seeds, step, layer, size, dtype):
    batch = len(seeds)
    x = torch.randn(batch, size, dtype=dtype)
    p = torch.tensor([0.2, 0.0, 1.0])[:batch]
    rest = (p, torch.tensor(seeds), torch.tensor([step]), layer)
    mine = cpu.dropout(x, *rest)
    assert mine.dtype == dtype
    assert torch.equal(mine, reference.dropout(x, *rest))


def test_dropout_at_every_border():
    bits = reference.random_bits(torch.tensor([9]), torch.tensor([4]), 2, 200)  # [1, 200]
    x = torch.ones(1, 200)
    for p in (bits[0].float() * 2.0**-24).tolist()[:20]:
        rest = (torch.tensor([p]), torch.tensor([9]), torch.tensor([4]), 2)
        assert torch.equal(cpu.dropout(x, *rest), reference.dropout(x, *rest))
    assert cpu.dropout(torch.full((1, 9), torch.nan), torch.ones(1), *rest[1:]).tolist() == [
        [0.0] * 9
    ]


def test_dropout_with_a_step_of_each_run():
    rest = (torch.tensor([0.5, 0.5]), torch.tensor([1, 1]), torch.tensor([3, 4]), 0)
    x = torch.ones(2, 3, 50)
    mine = cpu.dropout(x, *rest)
    assert torch.equal(mine, reference.dropout(x, *rest))
    assert not torch.equal(mine[0], mine[1])


def test_elements_beyond_32_bits():
    start, count, key = 2**32 - 40, 100, 12345
    factor = np.empty(count, np.float32)
    cpu_rows._draw(factor, count, start, np.uint32(key), np.float32(0.5))
    element = torch.arange(start, start + count)
    first = reference._mix((element & 0xFFFFFFFF) ^ key) ^ (element >> 32)
    second = reference._mix(torch.tensor(key ^ 0x85EBCA6B))
    bits = reference._mix((first + second) & 0xFFFFFFFF) >> 8
    assert factor.tolist() == torch.where(bits >= 2**23, 2.0, 0.0).tolist()


# --- what follows a matrix product ----------------------------------------------------------------


@given(problems(), st.booleans(), st.booleans())
def test_activation(problem, drops, last):
    draw, (batch, n, width) = problem
    h, residual, bias = draw(batch, n, width), draw(batch, n, width), draw(batch, width)
    state = state_for(batch) if drops else None
    out = cpu.activate(h, bias, residual if last else None, state)
    assert out.dtype == h.dtype
    u = (h.double() + bias.double()[:, None]) * factors(h.shape, state)
    close(out, residual.double() + u if last else u * below(u), u.abs())


@given(problems(), st.booleans(), st.booleans())
def test_gradients_of_the_activation(problem, drops, last):
    draw, (batch, n, width) = problem
    h, g, bias = draw(batch, n, width), draw(batch, n, width), draw(batch, width)
    state = state_for(batch) if drops else None
    dh, dbias = cpu.activate_backward(g, h, bias, not last, state)
    assert dh.dtype == dbias.dtype == h.dtype
    factor = factors(h.shape, state)
    u = (h.double() + bias.double()[:, None]) * factor
    exact = g.double() * factor * (1 if last else gelu_slope(u))
    # the slope changes by less than an error of u, which is that of its own size
    close(dh, exact, (g.double() * factor).abs() * (1 + u.abs()))
    close(dbias, exact.sum(dim=1), exact.abs().sum(dim=1) * 4)


@BOTH
def test_kept_elements_and_their_scale_are_the_references(dtype):
    state = (torch.tensor([0.3, 0.7]), torch.tensor([3, 4]), torch.tensor([1]), 2)
    ones, none = torch.ones(2, 90, 37, dtype=dtype), torch.zeros(2, 37, dtype=dtype)
    expected = reference.dropout(ones, *state)
    assert torch.equal(cpu.activate(ones, none, torch.zeros_like(ones), state), expected)
    assert torch.equal(cpu.activate_backward(ones, ones, none, False, state)[0], expected)
    assert torch.equal(cpu.activate(ones, none, None, state) != 0, expected != 0)
    assert torch.equal(cpu.activate_backward(ones, ones, none, True, state)[0] != 0, expected != 0)


@pytest.mark.parametrize(("dtype", "bound"), [(torch.float32, 1.5e-7), (F64, 1e-15)])
def test_gelu_is_the_exact_one(dtype, bound):
    u = torch.linspace(-10, 10, 20_001, dtype=dtype).view(1, -1, 3)
    mine, exact = cpu.activate(u, torch.zeros(1, 3, dtype=dtype), None, None), u * below(u.double())
    assert ((mine - exact).abs() / exact.abs().clamp(min=1)).max() <= bound


@BOTH
def test_gelu_of_what_is_no_ordinary_number(dtype):
    h = torch.tensor([[[torch.inf, torch.nan, 1e30, -1e30, 0.0]]], dtype=dtype)
    bias = torch.zeros(1, 5, dtype=dtype)
    found = cpu.activate(h, bias, None, None).flatten().tolist()
    assert found[0] == math.inf
    assert math.isnan(found[1])
    assert found[2:] == [h[0, 0, 2].item(), 0.0, 0.0]
    slope = cpu.activate_backward(torch.ones_like(h), h, bias, True, None)[0].flatten().tolist()
    assert slope[2:4] == [1.0, 0.0]
    assert math.isclose(slope[4], 0.5, abs_tol=1e-7)


@pytest.mark.parametrize("residual", [None, torch.ones(1, 3, 4)])
def test_what_is_dropped_is_0_whatever_it_was(residual):
    h, bias = torch.full((1, 3, 4), torch.nan), torch.full((1, 4), torch.inf)
    state = (torch.ones(1), torch.tensor([1]), torch.tensor([1]), 0)
    found = cpu.activate(h, bias, residual, state)
    assert torch.equal(found, torch.zeros_like(h) if residual is None else residual)
    dh, dbias = cpu.activate_backward(h, h, bias, residual is None, state)
    assert dh.abs().max() == dbias.abs().max() == 0


# --- layer norm -----------------------------------------------------------------------------------


@given(problems(), st.booleans())
def test_layer_norm_and_its_gradients(problem, through):
    draw, (batch, n, width) = problem
    x, g, passed = (draw(batch, n, width) for _ in range(3))
    weight, bias = draw(batch, width), draw(batch, width)
    y, mean, scale = cpu.layer_norm(x, weight, bias, 0.1)
    mine = cpu.layer_norm_backward(g, passed if through else None, x, weight, mean, scale)
    assert {t.dtype for t in (y, mean, scale, *mine)} == {x.dtype}
    exact = [t.double().requires_grad_() for t in (x, weight, bias)]
    wide = exact[0]
    z = F.layer_norm(wide, (width,), eps=0.1)
    out = z * exact[1][:, None] + exact[2][:, None]
    close(y, out.detach(), 4)
    close(mean, wide.detach().mean(dim=-1))
    close(scale, torch.from_numpy(1 / np.sqrt(wide.detach().numpy().var(axis=-1) + 0.1)), 4)
    theirs = torch.autograd.grad(out, exact, g.double())
    close(mine[0], theirs[0] + (passed.double() if through else 0), 50)
    close(mine[1], theirs[1], 4 * (g * z.detach()).abs().sum(dim=1).double())
    close(mine[2], theirs[2], g.double().abs().sum(dim=1))


def test_layer_norm_known_on_paper():
    x = torch.tensor([[[1.0, 3.0], [5.0, 5.0]], [[0.0, 8.0], [-1.0, -3.0]]], dtype=F64)
    weight = torch.tensor([[1.0, 2.0], [1.0, 1.0]], dtype=F64)
    bias = torch.tensor([[0.0, 0.5], [0.0, 0.0]], dtype=F64)
    y, mean, scale = cpu.layer_norm(x, weight, bias, 1e-300)
    assert y.tolist() == [[[-1.0, 2.5], [0.0, 0.5]], [[-1.0, 1.0], [1.0, -1.0]]]
    assert mean.tolist() == [[2.0, 5.0], [4.0, -2.0]]
    assert scale[1].tolist() == [0.25, 1.0]


def test_layer_norm_far_from_0():
    x = torch.randn(1, 50, 64, generator=torch.Generator().manual_seed(0), dtype=F64)
    far, one, none = (x + 1000).float(), torch.ones(1, 64), torch.zeros(1, 64)
    exact = F.layer_norm(far.double(), (64,), eps=0)
    assert (cpu.layer_norm(far, one, none, 0.0)[0] - exact).abs().max() < 1e-3


# --- all of them ----------------------------------------------------------------------------------


def tensors_for(batch: int, n: int, width: int, dtype: torch.dtype, seed: int = 0) -> list[Tensor]:
    """h, g, residual, bias and weight, the same for a run in any company."""
    shapes = [(n, width)] * 3 + [(width,)] * 2
    runs = [torch.Generator().manual_seed(seed + b) for b in range(batch)]
    draw = lambda shape, run: torch.randn(shape, generator=run, dtype=dtype)  # noqa: E731
    return [torch.stack([draw(shape, run) for run in runs]) for shape in shapes]


def everything(tensors: list[Tensor], state: reference.DropoutState) -> list[Tensor]:
    h, g, residual, bias, weight = tensors
    y, centre, scale = cpu.layer_norm(h, weight, bias, 1e-5)
    return [
        cpu.dropout(h, *state),
        cpu.activate(h, bias, None, state),
        cpu.activate(h, bias, residual, state),
        cpu.activate(h, bias, None, None),
        *cpu.activate_backward(g, h, bias, True, state),
        *cpu.activate_backward(g, h, bias, False, state),
        *cpu.activate_backward(g, h, bias, True, None),
        y, centre, scale,
        *cpu.layer_norm_backward(g, residual, h, weight, centre, scale),
        *cpu.layer_norm_backward(g, None, h, weight, centre, scale),
    ]  # fmt: skip


SHAPES = pytest.mark.parametrize(("n", "width"), [(150, 33), (64, 64), (1, 5), (300, 1)])


@BOTH
@SHAPES
def test_results_do_not_depend_on_parts_or_threads(dtype, n, width):
    tensors, state = tensors_for(3, n, width, dtype), state_for(3)
    with on_threads(1):
        whole = everything(tensors, state)
    with on_threads(2):
        found = everything(tensors, state)
    assert all(map(torch.equal, found[:-9], whole[:-9]))
    torch.testing.assert_close(found[-9:], whole[-9:])  # torch sums the norm's gradients by thread
    for parts in (3, 1000):
        with on_threads(1), in_parts(parts):
            assert all(map(torch.equal, everything(tensors, state), whole))


@BOTH
@SHAPES
def test_a_run_alone_is_that_run_in_company(dtype, n, width):
    tensors, state = tensors_for(3, n, width, dtype), state_for(3)
    for t in tensors:
        t[1] = torch.nan  # what one run meets does not touch the others
    together = everything(tensors, state)
    for b in (0, 2):
        own = (state[0][b : b + 1], state[1][b : b + 1], *state[2:])
        alone = everything([t[b : b + 1] for t in tensors], own)
        assert all(torch.equal(a[0], t[b]) for a, t in zip(alone, together, strict=True))
    assert all(t[1].isnan().any() for t in together)


@BOTH
def test_of_no_rows(dtype):
    found = [t for t in everything(tensors_for(2, 0, 5, dtype), state_for(2)) if t.numel()]
    assert [t.tolist() for t in found] == [[[0.0] * 5] * 2] * 7  # what is summed over the rows


def test_single_precision_is_near_double():
    tensors, state = tensors_for(2, 200, 33, F64), state_for(2)
    single = everything([t.float() for t in tensors], state)
    for mine, exact in zip(single, everything(tensors, state), strict=True):
        assert mine.dtype == torch.float32
        assert (mine - exact).abs().max() <= 1e-5 * exact.abs().max()


def test_strided_and_expanded_tensors_that_ask_for_gradients():
    tensors, state = tensors_for(2, 70, 6, F64), state_for(2)
    whole = everything(tensors, state)
    strided = [t.transpose(0, 1).contiguous().transpose(0, 1).requires_grad_() for t in tensors]
    with torch.no_grad():
        assert all(map(torch.equal, everything(strided, state), whole))
    h, g, _, bias, _ = tensors
    shared = (torch.tensor([0.5]), torch.tensor([1]), torch.tensor([1]), 0)
    each = (*(t.expand(2) for t in shared[:3]), 0)
    assert torch.equal(cpu.activate(h, bias, h, shared), cpu.activate(h, bias, h, each))
    with pytest.raises(RuntimeError, match="expanded size"):
        cpu.activate(h, bias[:, :3], None, None)
    with pytest.raises(RuntimeError, match="expanded size"):
        cpu.activate_backward(g[:, :3], h, bias, True, None)


def test_mixed_types_are_left_to_the_reference():
    h, g, residual, bias, weight = tensors_for(2, 7, 5, F64)
    state, low = state_for(2), h.float()
    assert torch.equal(
        cpu.activate(low, bias, residual, state), reference.activate(low, bias, residual, state)
    )
    y = cpu.layer_norm(low, weight, bias, 1e-5)
    assert all(map(torch.equal, y, reference.layer_norm(low, weight, bias, 1e-5)))
    given_ = (g, low, bias, True, state)
    mine = cpu.activate_backward(*given_)
    assert all(map(torch.equal, mine, reference.activate_backward(*given_)))
    given_ = (g, None, low, weight, *y[1:])
    mine = cpu.layer_norm_backward(*given_)
    assert all(map(torch.equal, mine, reference.layer_norm_backward(*given_)))
