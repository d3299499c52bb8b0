"""The CPU kernels against the plain torch form, and what the plain form does not promise."""

from __future__ import annotations

import math
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from pdgnn.ops import Edges, reference
from pdgnn.ops.reference import AttentionInputs

pytest.importorskip("numba")

import numba

from pdgnn.ops import cpu, cpu_kernels, cpu_numba
from threads import in_parts, on_threads

F64 = torch.float64
TOLERANCE = {torch.float64: 1e-12, torch.float32: 2e-5}


def same(mine: Tensor, theirs: Tensor) -> None:
    """Equal up to rounding, relative to the largest entry where sums cancel."""
    assert mine.dtype == theirs.dtype
    assert mine.shape == theirs.shape
    tolerance = TOLERANCE[theirs.dtype]
    scale = 1.0 + (theirs.abs().max().item() if theirs.numel() else 0.0)
    torch.testing.assert_close(mine, theirs, rtol=tolerance, atol=tolerance * scale)


def edges(kind: str, generator: torch.Generator) -> Edges:
    """Structures that break kernels: each with duplicates, loops or empty rows of its own."""
    count, n, targets = SIZES[kind]
    pick = lambda high: torch.randint(max(high, 1), (count,), generator=generator)  # noqa: E731
    index = torch.stack([pick(min(n, 30)), pick(min(targets, 7))])
    if kind == "hub":  # a row of several blocks, all others of at most one edge
        star = torch.stack([torch.arange(130), torch.zeros(130, dtype=torch.long)])
        index = torch.cat([star, star.flip(0)], dim=1)
    if kind == "chain":
        index = torch.stack([torch.arange(20), torch.arange(1, 21)])
    return Edges.from_edge_index(index, num_nodes=n, num_targets=targets)


SIZES = {  # edges, sources, targets
    "none": (0, 3, 3),
    "no targets": (0, 3, 0),
    "one loop": (1, 1, 1),
    "duplicates": (40, 2, 4),
    "hub": (260, 131, 131),
    "chain": (20, 21, 21),
    "bipartite": (200, 33, 9),
    "random": (90, 12, 12),
}
KINDS = tuple(SIZES)


@st.composite
def problems(draw, dtype: torch.dtype = F64):
    """Edges and a function that draws tensors like those of a layer."""
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))
    structure = edges(draw(st.sampled_from(KINDS)), generator)
    batch, heads = draw(st.sampled_from((1, 2, 3))), draw(st.sampled_from((1, 2, 8)))
    channels = draw(st.sampled_from((1, 3, 5, 8, 17, 64)))
    shape = (batch, heads, channels)
    return structure, shape, lambda *size: torch.randn(*size, generator=generator, dtype=dtype)


def check_products(problem, shared: bool, alike: bool) -> None:
    structure, (batch, heads, channels), draw = problem
    e, tensors = structure.num_edges, structure.tensors()
    x = draw(batch, structure.num_sources, heads, channels)
    g = draw(batch, structure.num_targets, heads, channels)
    weight = draw(1 if shared else batch, e, 1 if alike else heads)
    same(cpu.spmm(x, weight, tensors), reference.spmm(x, weight, tensors))
    same(cpu.spmm_transposed(g, weight, tensors), reference.spmm_transposed(g, weight, tensors))
    same(cpu.sddmm(g, x, tensors), reference.sddmm(g, x, tensors))
    values = draw(batch, e, heads)
    same(cpu.edge_sum(values, tensors), reference.edge_sum(values, tensors))


def plain(x: Tensor, a_src: Tensor, a_dst: Tensor, structure: Any) -> AttentionInputs:
    """Attention without features and mask."""
    return AttentionInputs(x, a_src, a_dst, None, None, None, structure, 0.2)


def check_attend(problem, features: int, shared: bool, masked: bool) -> None:
    structure, (batch, heads, channels), draw = problem
    e, tensors = structure.num_edges, structure.tensors()
    x = draw(batch, structure.num_sources, heads, channels)
    g = draw(batch, structure.num_targets, heads, channels)
    a_src, a_dst = draw(*x.shape[:3]), draw(*g.shape[:3])
    attr = draw(1 if shared else batch, e, features) if features else None
    w_edge = draw(batch, heads, features) if features else None
    mask = (draw(batch, e, heads) > 0).to(x.dtype) * 2 if masked else None
    inputs = AttentionInputs(x, a_src, a_dst, attr, w_edge, mask, tensors, 0.2)
    out, lse = reference.attend(inputs)
    mine, my_lse = cpu.attend(inputs)
    same(mine, out)
    reached = structure.rowptr.diff() > 0
    same(my_lse[:, reached], lse[:, reached])
    rest = (g, inputs, lse, (g * out).sum(dim=-1))
    theirs = reference.attend_backward(*rest)
    for mine, other in zip(cpu.attend_backward(*rest), theirs, strict=True):
        same(mine, other)


def check_attend_dot(problem) -> None:
    structure, (batch, heads, channels), draw = problem
    tensors, scale = structure.tensors(), 1 / math.sqrt(channels)
    q, g = (draw(batch, structure.num_targets, heads, channels) for _ in range(2))
    k, v = (draw(batch, structure.num_sources, heads, channels) for _ in range(2))
    out, lse = reference.attend_dot(q, k, v, tensors, scale)
    mine, my_lse = cpu.attend_dot(q, k, v, tensors, scale)
    same(mine, out)
    reached = structure.rowptr.diff() > 0
    same(my_lse[:, reached], lse[:, reached])
    rest = (lse, (g * out).sum(dim=-1), tensors, scale)
    theirs = reference.attend_dot_backward(g, q, k, v, *rest)
    for mine, other in zip(cpu.attend_dot_backward(g, q, k, v, *rest), theirs, strict=True):
        same(mine, other)


@given(problems(), st.booleans(), st.booleans())
def test_products_are_those_of_the_reference(problem, shared, alike):
    check_products(problem, shared, alike)


@given(problems(), st.integers(0, 3), st.booleans(), st.booleans())
def test_attention_is_that_of_the_reference(problem, features, shared, masked):
    check_attend(problem, features, shared, masked)


@given(problems())
def test_dot_attention_is_that_of_the_reference(problem):
    check_attend_dot(problem)


@given(problems(dtype=torch.float32), st.booleans())
def test_all_of_it_in_single_precision(problem, switch):
    check_products(problem, switch, not switch)
    check_attend(problem, 2, not switch, switch)
    check_attend_dot(problem)


def as_long(structure: Edges) -> Edges:
    return Edges(*(t.long() for t in structure.tensors()), order=structure.order)


@pytest.mark.parametrize("kind", KINDS)
def test_structures_of_64_bit_integers(kind):
    generator = torch.Generator().manual_seed(3)
    draw = lambda *size: torch.randn(*size, generator=generator, dtype=F64)  # noqa: E731
    check_attend((as_long(edges(kind, generator)), (2, 3, 5), draw), 2, True, True)


# --- known on paper -------------------------------------------------------------------------------

TWO_INTO_ONE = Edges.from_edge_index(torch.tensor([[1, 2], [0, 0]]), num_nodes=3).tensors()


def test_softmax_of_two_edges():
    x = torch.tensor([5.0, 1.0, 3.0], dtype=F64).view(1, 3, 1, 1)
    a_src = torch.tensor([0.0, math.log(3.0), 0.0], dtype=F64).view(1, 3, 1)
    out, lse = cpu.attend(plain(x, a_src, torch.zeros_like(a_src), TWO_INTO_ONE))
    same(out.flatten(), torch.tensor([1.5, 0.0, 0.0], dtype=F64))  # 3/4 · 1 + 1/4 · 3
    same(lse[0, 0], torch.tensor([math.log(4.0)], dtype=F64))


@pytest.mark.parametrize("dtype", [torch.float32, F64])
@pytest.mark.parametrize("size", [1e4, -1e4])
def test_very_large_scores(dtype, size):
    x = torch.tensor([0.0, 1.0, 3.0], dtype=dtype).view(1, 3, 1, 1)
    a_src = torch.tensor([0.0, size, size], dtype=dtype).view(1, 3, 1)
    zeros = torch.zeros_like(a_src)
    out, _ = cpu.attend(plain(x, a_src, zeros, TWO_INTO_ONE))
    assert out.flatten().tolist() == [2.0, 0.0, 0.0]
    a_src[0, 2] = 0.0  # now the larger of the two takes all
    out, _ = cpu.attend(plain(x, a_src, zeros, TWO_INTO_ONE))
    assert out.flatten().tolist() == [1.0 if size > 0 else 3.0, 0.0, 0.0]


@pytest.mark.parametrize("rising", [True, False])
def test_a_maximum_in_a_later_block_of_the_row(rising):
    n = 3 * cpu_kernels.BLOCK + 1
    star = torch.stack([torch.arange(n), torch.zeros(n, dtype=torch.long)])
    structure = Edges.from_edge_index(star, num_nodes=n).tensors()
    a_src = torch.linspace(0, 3000, n, dtype=F64).view(1, n, 1)
    a_src = a_src if rising else a_src.flip(1)
    x = torch.randn(1, n, 1, 4, dtype=F64)
    inputs = plain(x, a_src, torch.zeros_like(a_src), structure)
    same(cpu.attend(inputs)[0], reference.attend(inputs)[0])


def test_bool_masks_and_strided_tensors_and_mixed_precision():
    structure = edges("random", torch.Generator().manual_seed(0))
    n, tensors = structure.num_sources, structure.tensors()
    x = torch.randn(2, 3, n, 4).permute(0, 2, 1, 3)
    a = torch.randn(2, 1, 3, dtype=F64).expand(2, n, 3)
    mask = torch.rand(2, 3, structure.num_edges).transpose(1, 2) > 0.5
    inputs = plain(x, a, a, tensors)._replace(mask=mask)
    mine, _ = cpu.attend(inputs)
    theirs, _ = reference.attend(inputs._replace(x=x.double()))
    same(mine, theirs)
    weight = torch.rand(2, structure.num_edges, 3, dtype=F64)
    same(cpu.spmm(x, weight, tensors), reference.spmm(x.double(), weight, tensors))


def test_gradients_may_be_asked_of_the_inputs():
    x = torch.ones(1, 3, 1, 1, dtype=F64, requires_grad=True)
    weight = torch.ones(1, 2, 1, dtype=F64)
    assert cpu.spmm(x, weight, TWO_INTO_ONE).flatten().tolist() == [2.0, 0.0, 0.0]


def test_nan_in_one_run_does_not_touch_the_others():
    structure = edges("random", torch.Generator().manual_seed(1))
    n, tensors = structure.num_sources, structure.tensors()
    generator = torch.Generator().manual_seed(2)
    x, g = (torch.randn(3, n, 2, 5, generator=generator, dtype=F64) for _ in range(2))
    a = torch.randn(3, n, 2, generator=generator, dtype=F64)

    def everything() -> list[Tensor]:
        out, lse = cpu.attend(plain(x, a, a, tensors))
        inner = (g * out).sum(dim=-1)
        first = cpu.attend_backward(g, plain(x, a, a, tensors), lse, inner)
        dot, dot_lse = cpu.attend_dot(x, x, g, tensors, 0.5)
        second = cpu.attend_dot_backward(g, x, x, x, dot_lse, inner, tensors, 0.5)
        return [out, lse, *first, dot, dot_lse, *second]

    clean = everything()
    x[1], a[1] = torch.nan, torch.nan
    for mine, before in zip(everything(), clean, strict=True):
        assert torch.equal(mine[[0, 2]], before[[0, 2]])
        assert mine[1].isnan().any()


# --- parts, threads, memory -----------------------------------------------------------------------


def large_problem() -> tuple[Tensor, Tensor, tuple[Tensor, ...]]:
    generator = torch.Generator().manual_seed(5)
    ends = (torch.rand(2, 6000, generator=generator) ** 3 * 300).long()  # a few large rows
    structure = Edges.from_edge_index(ends, num_nodes=300).tensors()
    x = torch.randn(2, 300, 4, 16, generator=generator, dtype=F64)
    return x, torch.randn(2, 300, 4, generator=generator, dtype=F64), structure


def run_all(x: Tensor, a: Tensor, structure: tuple[Tensor, ...]) -> list[Tensor]:
    inputs = plain(x, a, a, structure)
    out, lse = cpu.attend(inputs)
    back = cpu.attend_backward(x, inputs, lse, (x * out).sum(dim=-1))
    return [out, lse, *back, cpu.spmm(x, back[2], structure)]


@pytest.mark.parametrize("parts", [2, 3, 7, 1000])
def test_results_do_not_depend_on_the_number_of_parts(parts):
    problem = large_problem()
    whole = run_all(*problem)

    with in_parts(parts):
        assert all(map(torch.equal, run_all(*problem), whole))


def test_parts_have_equal_shares_of_the_edges():
    boundaries = numba.njit(cpu_kernels._boundary.py_func)
    degree = np.array([0, 50, 1, 1, 1, 1, 0, 40, 3, 3])
    pointers = np.concatenate([[0], np.cumsum(degree)])
    assert [boundaries(k, 2, 1, pointers) for k in range(3)] == [0, 4, 10]  # 52 + 4, 48 + 6
    assert [boundaries(k, 3, 3, pointers) for k in range(4)] == [0, 10, 20, 30]  # a run each
    assert [boundaries(k, 4, 1, np.zeros(1, np.int64)) for k in range(5)] == [0] * 5


def test_results_do_not_depend_on_the_number_of_threads():
    problem = large_problem()
    own = numba.get_num_threads()
    with on_threads(2):
        many = run_all(*problem)
        assert numba.get_num_threads() == own
    with on_threads(1):
        assert all(map(torch.equal, run_all(*problem), many))


@pytest.mark.parametrize("layer", ["omp", "workqueue"])
def test_several_python_threads_at_once(monkeypatch, layer):
    problem = large_problem()
    if layer == "workqueue":  # the one that must not be entered twice
        monkeypatch.setattr(cpu_numba.pool, "threading_layer", lambda: layer)
        assert cpu_numba._one_at_a_time() is cpu_numba._lock
    with on_threads(2), ThreadPoolExecutor(4) as threads:
        whole = run_all(*problem)
        results = [threads.submit(run_all, *problem) for _ in range(8)]
        for result in results:
            assert all(map(torch.equal, result.result(), whole))
    assert not cpu_numba._lock.locked()


class Largest(TorchDispatchMode):
    """The most elements of any tensor made inside."""

    numel = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        if isinstance(result, Tensor):
            self.numel = max(self.numel, result.numel())
        return result


def test_no_tensor_has_a_message_of_every_edge():
    x, a, structure = large_problem()
    edges_heads = 2 * 6000 * 4
    with Largest() as largest:
        run_all(x, a, structure)
        out, lse = cpu.attend_dot(x, x, x, structure, 0.25)
        cpu.attend_dot_backward(x, x, x, x, lse, (x * out).sum(dim=-1), structure, 0.25)
    assert largest.numel == edges_heads  # of [B, E, H]; messages would be 16 times that
    with Largest() as largest:
        reference.attend(plain(x, a, a, structure))
    assert largest.numel == 16 * edges_heads


FRESH = """
import multiprocessing, sys
import torch, pdgnn, pdgnn.ops
assert "numba" not in sys.modules
from pdgnn.ops import Edges, cpu, cpu_numba
assert "numba" in sys.modules
edges = Edges.from_edge_index(torch.tensor([[1, 2], [0, 0]]), num_nodes=3).tensors()

def work(threads):
    torch.set_num_threads(threads)
    cpu_numba.SERIAL_WORK = 0
    x, weight = torch.ones(1, 3, 1, 1).double(), torch.ones(1, 2, 1).double()
    return cpu.spmm(x, weight, edges).flatten().tolist()

assert work(2) == [2.0, 0.0, 0.0]
with multiprocessing.get_context("fork").Pool(1) as pool:
    assert pool.apply_async(work, [1]).get(600) == [2.0, 0.0, 0.0]
"""


@pytest.mark.skipif(sys.platform != "linux", reason="forks")
def test_numba_is_imported_late_and_a_fork_with_one_thread_works():
    done = subprocess.run(
        [sys.executable, "-c", FRESH], capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stderr
