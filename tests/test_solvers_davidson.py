"""The block Davidson method on symmetric matrices whose spectrum is known."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from pdgnn.solvers.davidson import Pairs, davidson

N = 300


class Known:
    """Q diag(0, values) Qᵀ with a random orthogonal Q, whose first column is the trivial one."""

    def __init__(self, values, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        q, _ = np.linalg.qr(rng.standard_normal((len(values) + 1, len(values) + 1)))
        self.values = np.sort(values)
        self.q = torch.from_numpy(q)
        self.trivial, self.vectors = self.q[:, 0].clone(), self.q[:, 1:]
        self.matrix = self.q @ torch.diag(torch.tensor([0.0, *self.values])) @ self.q.T
        self.inverse = torch.linalg.pinv(self.matrix, rtol=1e-14)
        self.steps = 0

    def apply(self, u: torch.Tensor) -> torch.Tensor:
        self.steps += 1
        return self.matrix @ u

    def solve(self, precondition=None, *, wanted=1, seed=0, **options) -> Pairs:
        generator = torch.Generator().manual_seed(seed)
        n = self.trivial.numel()
        start = torch.randn(n, wanted + 1, dtype=torch.float64, generator=generator)
        options = {"max_iterations": 2000, "basis_size": 4 * wanted + 36, **options}
        return davidson(
            self.apply,
            precondition,
            start,
            self.trivial,
            wanted=wanted,
            norm=float(self.values[-1]),
            block=min(wanted + 1, 6),
            keep=2 * wanted + 18,
            generator=generator,
            **options,
        )


def spread(copies: int = 1, lowest: float = 0.1) -> np.ndarray:
    """`copies` of the lowest eigenvalue, and others well above it up to 2."""
    return np.concatenate([np.full(copies, lowest), np.linspace(3 * lowest, 2.0, N - 1 - copies)])


def check(known: Known, pairs: Pairs, wanted: int, tolerance: float = 1e-8) -> None:
    """Eigenvalues, and the projector onto the eigenspaces, which no choice of basis changes."""
    assert pairs.converged
    assert pairs.separated
    c = pairs.complete
    assert c >= wanted
    np.testing.assert_allclose(pairs.values[:c], known.values[:c], rtol=1e-12, atol=1e-13)
    u, v = pairs.vectors[:, :c], known.vectors[:, :c]
    assert (u @ (u.T @ v) - v).abs().max() < tolerance
    assert (u.T @ u - torch.eye(c)).abs().max() < 1e-12
    assert (known.trivial @ u).abs().max() < 1e-13
    fresh = (known.matrix @ u - u * pairs.values[:c]).norm(dim=0)
    assert (fresh - pairs.residuals[:c]).abs().max() < 1e-13


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("wanted", [1, 2, 5])
def test_lowest_pairs(wanted, exact):
    known = Known(np.concatenate([[0.02, 0.05, 0.1, 0.14, 0.2], np.linspace(0.4, 2, N - 6)]))
    pairs = known.solve((lambda r: known.inverse @ r) if exact else None, wanted=wanted)
    check(known, pairs, wanted)
    assert pairs.complete == wanted


def test_an_exact_inverse_saves_steps():
    plain, exact = Known(spread(lowest=1e-3)), Known(spread(lowest=1e-3))
    check(plain, plain.solve(), 1)
    check(exact, exact.solve(lambda r: exact.inverse @ r), 1)
    assert exact.steps <= 20
    assert exact.steps < plain.steps / 2


def test_many_pairs_are_worked_on_at_once():
    """No pair may wait for a block of others that are done already."""
    known = Known(np.linspace(0.02, 2.0, N - 1))
    pairs = known.solve(lambda r: known.inverse @ r, wanted=32, max_iterations=250)
    check(known, pairs, 32)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("copies", [2, 3, 5, 9, 30])
def test_all_copies_of_a_repeated_eigenvalue(copies, exact, seed):
    """One pair is wanted, two random vectors start: more are drawn until all copies are there."""
    known = Known(spread(copies), seed=7)
    pairs = known.solve((lambda r: known.inverse @ r) if exact else None, seed=seed)
    check(known, pairs, 1)
    assert pairs.complete == copies


@pytest.mark.parametrize("wanted", [1, 4, 6, 7, 8, 9])
def test_wanted_pairs_are_completed_to_a_whole_eigenspace(wanted):
    """Three single eigenvalues, then one with five copies: any of them brings all five."""
    known = Known(np.concatenate([[0.01, 0.02, 0.03], np.full(5, 0.05), np.linspace(0.2, 2, 291)]))
    pairs = known.solve(lambda r: known.inverse @ r, wanted=wanted)
    check(known, pairs, wanted)
    assert pairs.complete == (wanted if wanted <= 3 else max(8, wanted))


def test_more_copies_than_guards_are_not_claimed_whole():
    known = Known(spread(200))
    pairs = known.solve(lambda r: known.inverse @ r, max_guards=16)
    assert not pairs.separated
    assert not pairs.converged
    np.testing.assert_allclose(pairs.values[:2], [0.1, 0.1], rtol=1e-9)


def test_the_pair_above_is_never_below_the_next_eigenvalue():
    known = Known(spread(2))
    pairs = known.solve()
    assert pairs.values.numel() > pairs.complete
    assert float(pairs.values[pairs.complete]) >= 0.3 - 1e-12


def test_the_limit_of_steps_is_kept_and_told():
    known = Known(np.linspace(1e-6, 2.0, N - 1))
    pairs = known.solve(max_iterations=5)
    assert pairs.iterations == 5
    assert not pairs.converged
    assert known.steps <= 7


def test_a_seed_gives_the_same_numbers_twice():
    first, second, other = (Known(spread(3)).solve(seed=seed) for seed in (4, 4, 5))
    assert (first.vectors == second.vectors).all()
    assert (first.values == second.values).all()
    assert not (first.vectors[:, :3] == other.vectors[:, :3]).all()


def test_a_start_that_holds_the_answer_ends_at_once():
    known = Known(spread())
    known.steps = 0
    pairs = davidson(
        known.apply,
        None,
        known.vectors[:, :3].contiguous(),
        known.trivial,
        wanted=1,
        norm=2.0,
        max_iterations=10,
        basis_size=20,
        block=2,
        keep=8,
        generator=torch.Generator().manual_seed(0),
    )
    check(known, pairs, 1)
    assert pairs.iterations <= 1


@pytest.mark.parametrize("n", [4, 5, 8])
def test_a_basis_as_large_as_the_space(n):
    """There are n − 1 directions to find, and room for more in the basis."""
    known = Known(np.array([0.5, 0.5, *np.linspace(1.0, 2.0, n - 3)]))
    pairs = known.solve(max_iterations=50)
    np.testing.assert_allclose(pairs.values[:2], [0.5, 0.5], rtol=1e-12)
    assert (pairs.vectors.T @ pairs.vectors - torch.eye(pairs.values.numel())).abs().max() < 1e-10
