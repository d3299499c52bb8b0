"""The Lanczos process: its Ritz pairs, and what it says of an eigenvector that it has not met."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pdgnn.solvers.lanczos import Lanczos, empty_rows, without

N = 40


def matrix(seed: int, top: float) -> tuple[torch.Tensor, torch.Tensor]:
    """A symmetric matrix, and its vector at `top`, which is above its other eigenvalues."""
    rng = np.random.default_rng(seed)
    q = np.linalg.qr(rng.standard_normal((N, N)))[0]
    values = np.append(rng.uniform(-1.0, 1.0, N - 1), top)
    return torch.from_numpy(q * values @ q.T), torch.from_numpy(q[:, -1].copy())


def process(a: torch.Tensor, v: torch.Tensor, steps: int) -> Lanczos:
    found = Lanczos(lambda x: a @ x, v[None][:0], v, N)
    found.extend(steps)
    return found


@given(st.integers(0, 10_000), st.floats(1.1, 3.0), st.integers(2, 8))
@settings(max_examples=60, deadline=None)
def test_the_share_is_that_of_the_eigenvector(seed, top, steps):
    """(xᵀv)² Σ p_j(μ)² is the squared length of what all vectors together have of x."""
    a, x = matrix(seed, top)
    v = torch.from_numpy(np.random.default_rng(seed + 1).standard_normal(N))
    x_in_v = abs(float(x @ v / v.norm()))
    found = process(a, v, steps)
    if found.top()[0][0] >= top - 1e-9:
        return
    seen = float((found.basis[: steps + 1] @ x).norm())
    np.testing.assert_allclose(found.share(top), x_in_v / seen, rtol=1e-6)
    assert x_in_v <= found.share(top) * (1 + 1e-9)
    assert found.share(top + 0.1) < found.share(top)  # and of one that is further up, less


def test_the_share_of_what_was_found_says_nothing():
    a, _ = matrix(3, 2.0)
    v = torch.ones(N, dtype=torch.float64)
    found = process(a, v, 15)
    assert found.share(1.5) == 1.0  # the Ritz value at 2 lies above
    assert abs(float(found.top()[0][0]) - 2.0) < 1e-6


def test_the_share_of_a_vector_that_is_not_in_the_start_vanishes():
    a, x = matrix(5, 1.5)
    v = torch.from_numpy(np.random.default_rng(0).standard_normal(N))
    without(v, x[None])
    found = process(a, v, 25)
    assert found.share(1.5) < 1e-8


@pytest.mark.parametrize("pairs", [1, 2, 5])
def test_the_largest_ritz_pairs_are_those_of_all(pairs):
    a, _ = matrix(7, 1.2)
    found = process(a, torch.ones(N, dtype=torch.float64), 12)
    theta, q = found.ritz()
    few, some = found.top(pairs)
    np.testing.assert_allclose(few, theta[:pairs], rtol=1e-12)
    np.testing.assert_allclose(np.abs(some), np.abs(q[:, :pairs]), atol=1e-9)
    vectors = found.vectors(some)
    residual = a @ vectors - vectors * torch.from_numpy(few.copy())
    for i in range(pairs):
        np.testing.assert_allclose(found.bound(some[:, i]), residual[:, i].norm(), atol=1e-9)


def test_more_pairs_than_steps_are_as_many_as_there_are():
    found = process(matrix(1, 1.2)[0], torch.ones(N, dtype=torch.float64), 3)
    assert len(found.top(8)[0]) == 3


def test_a_process_that_keeps_no_vectors_finds_the_same():
    a, _ = matrix(4, 1.3)
    v = torch.ones(N, dtype=torch.float64)
    kept, rolling = (Lanczos(lambda x: a @ x, v[None][:0], v, N, keep=k) for k in (True, False))
    for one in (kept, rolling):
        one.extend(5)
        one.extend(6)
    assert len(rolling.basis) == 3
    np.testing.assert_array_equal(kept.ritz()[0], rolling.ritz()[0])
    assert kept.share(1.31) == rolling.share(1.31)
    q = kept.top(2)[1]
    np.testing.assert_allclose(kept.vectors(q), rolling.vectors(q), atol=1e-12)
    rolling.extend(2)  # it goes on where it was
    kept.extend(2)
    np.testing.assert_array_equal(kept.top()[0], rolling.top()[0])


def test_it_stops_after_the_steps_that_it_may_take():
    a, _ = matrix(4, 1.3)
    v = torch.ones(N, dtype=torch.float64)
    for keep in (True, False):
        one = Lanczos(lambda x: a @ x, v[None][:0], v, 7, keep=keep)
        one.extend(6)
        assert not one.stopped
        one.extend(10)
        assert one.stopped
        assert one.full
        assert one.size == 7


def test_empty_rows_are_of_the_kind_of_the_vector():
    rows = empty_rows(3, torch.ones(5, dtype=torch.float64))
    assert rows.shape == (3, 5)
    assert rows.dtype == torch.float64


def test_without_leaves_nothing_along_what_is_known():
    known = torch.linalg.qr(torch.randn(9, 3, dtype=torch.float64))[0].T.contiguous()
    v = torch.ones(9, dtype=torch.float64)
    assert without(v, known) is v
    assert float((known @ v).abs().max()) < 1e-14
