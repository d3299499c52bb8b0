"""A search for the copies of eigenvalues that a single starting vector cannot see."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from pdgnn.solvers.canonical import aim_of, clusters, same_eigenvalue_tolerance
from pdgnn.solvers.davidson import Pairs
from pdgnn.solvers.eigsh import CountedOperator, eigsh_vectors, rayleigh_ritz
from pdgnn.solvers.lanczos import Lanczos, Product
from pdgnn.solvers.look import MOST_ENTRIES, room
from pdgnn.solvers.preconditioners import inverse_near
from pdgnn.solvers.problem import ComponentProblem

__all__ = ["ROUGH", "SHARPEST", "is_whole", "with_copies"]

Guard = tuple[Tensor, Tensor, Tensor]
"""Values, vectors and residuals of the pairs next to those wanted."""
SHARPEST = 0.003
"""Residual asked of ARPACK, relative to the one promised, for several pairs, which are closer
to each other and cost little more."""
MOST_TURNS = 5
"""Searches, each but the last of which finds a copy, before a block of vectors takes over."""
MOST_SHIFTS = 20
"""Such searches where each finds all copies of an eigenvalue."""
MANY = 3
"""Copies of one eigenvalue among those found from which on there may be many more."""
NEAR = 1e-7
"""Relative distance from an eigenvalue at which inverse iteration finds its copies."""
SHARE = 1e-3
"""Of a copy in a random vector, relative to what is to be expected, that none will have less of."""
ROUGH = 0.05
"""Residual of the pair above those wanted, relative to the gap, at which it measures the gap."""
COUNTED = 0.01
"""Share of the distance to the next eigenvalue that rounding of a factorization may amount to."""
SAME = 1e-7
"""Relative difference below which it is left to a block of vectors whether two eigenvalues are."""


def with_copies(
    problem: ComponentProblem,
    operator: Product,
    found: Pairs,
    guard: Guard | None,
    start: Tensor,
    generator: torch.Generator,
    tol: float,
    most: int,
    by_shifts: bool,
) -> Pairs:
    """The pairs found and the next, its `guard` or one to be found, if no copy is missing.

    One starting vector finds one copy of an eigenvalue that repeats. So a Lanczos process from
    another random vector, orthogonal to what was found, looks for what is lowest there. It ends
    when a missing copy could have had no more of the random vector than SHARE of what is to be
    expected, 1/√n, of which there is a chance of about SHARE. Where there is a copy,
    ARPACK finds those that are orthogonal to the first ones, and the search goes on beside them.
    Where a factorization is cheap it counts the eigenvalues instead, and where one was seen to
    repeat, all copies of it come from inverse iteration next to it.
    """
    wanted = found.complete
    if by_shifts and guard is not None and is_whole(problem, found, guard, start):
        return _with_guard(problem, found, guard, tol)
    copies = np.bincount(clusters(found.values.numpy(), problem.norm))  # of each eigenvalue found
    repeats = by_shifts and bool(copies.max() >= MANY)
    for _ in range(MOST_SHIFTS if by_shifts else MOST_TURNS):
        u = found.vectors
        known = torch.cat([problem.trivial[:, None], u], dim=1).T.contiguous()  # [c + 1, n]
        search = Lanczos(operator, known, start, room(problem.n), keep=guard is None)
        edge = float(u[:, -1] @ operator(u[:, -1].contiguous()))
        guarded, copy = _searched(search, edge, tol, sharp=repeats, alone=guard is None)
        if guarded:
            beside = guard or rayleigh_ritz(problem, search.vectors(search.top()[1]))
            return _with_guard(problem, found, beside, tol)
        guard = None
        if not copy:
            break
        theta, q = search.top()
        if repeats:
            more = _copies(problem, problem.scale / float(theta[0]), found, generator)
        elif theta[0] > (1 + 1e-9) * edge:  # below those found: there may be several
            others = CountedOperator(operator, known, most)
            more = eigsh_vectors(others, wanted, search.first, SHARPEST * tol)
        else:
            more = search.vectors(q)
        if more is None or not more.shape[1]:
            break
        found, repeats = _completed(problem, found, more, wanted), by_shifts
        start = torch.randn(problem.n, dtype=torch.float64, generator=generator)
    return found


def is_whole(problem: ComponentProblem, found: Pairs, guard: Guard, v: Tensor) -> bool:
    """Whether S has no eigenvalue below the guard but 0 and those found, as a factorization counts.

    That of S − σI, σ in the middle of the gap, is exact for a matrix nearby; how near it is, next
    to its eigenvalues at σ, the residual of a solve for the random v ``[n]`` tells.
    """
    low, high = float(found.values[-1]), float(guard[0][0])
    middle = (low + high) / 2
    if high - low <= SAME * high:
        return False
    try:
        inverse, below = inverse_near(problem, middle)
    except RuntimeError:  # SuperLU met a pivot of 0
        return False
    w = inverse(v[:, None]) / problem.scale
    away = torch.linalg.vector_norm(problem.apply(w) - middle * w - v[:, None])
    near = float(away / torch.linalg.vector_norm(w)) <= COUNTED * (middle - low)
    return near and below == found.complete + 1


def _copies(
    problem: ComponentProblem, value: float, found: Pairs, generator: torch.Generator
) -> Tensor | None:
    """All eigenvectors ``[n, m]`` at an eigenvalue beside those found; None where too many.

    By inverse iteration on a block of random vectors, a few more than the factorization counts:
    next to the eigenvalue two steps are enough.
    """
    try:
        inverse, below = inverse_near(problem, (1.0 + NEAR) * value)
    except RuntimeError:  # SuperLU met a pivot of 0
        return None
    lower = int((found.values < (1.0 + NEAR) * value).sum())
    known = found.vectors[:, _is_near(found.values, value)]  # others die out without help
    width = max(below - 1 - lower, 0) + 4
    if width > max(64, min(problem.n // 16, MOST_ENTRIES // problem.n)):
        return None
    block = torch.randn(width, problem.n, dtype=torch.float64, generator=generator).T
    for _ in range(2):
        block = inverse(block)
        block = torch.linalg.qr(block - known @ (known.T @ block))[0]
    values, u, _ = rayleigh_ritz(problem, block)
    return u[:, _is_near(values, value)]


def _is_near(values: Tensor, value: float) -> Tensor:
    return (values - value).abs() <= 10 * NEAR * value


def _searched(
    search: Lanczos, edge: float, tol: float, *, sharp: bool, alone: bool
) -> tuple[bool, bool]:
    """Whether the lowest pair is plainly above those found, and whether it is one more of them.

    It shows how far above if it stands `alone`. In the latter case it is `sharp` only where told,
    or where it is at the edge.
    """
    least, share = SHARE * search.n**-0.5, 1.0
    while not search.full:
        search.extend(4)
        before, share = share, search.share(edge)
        if least < share < 0.9 * before:  # it stays where it is once a copy was found
            continue
        theta, q = search.top()
        bound, away = search.bound(q[:, 0]), edge - theta[0]
        clear = bound <= ROUGH * away or not alone
        if share <= least and clear and away > SAME * abs(edge):
            return True, False
        lower = theta[0] > (1 + 1e-9) * edge and not sharp
        if bound <= SHARPEST * tol * abs(edge) or lower:
            return False, True
    return False, not search.stopped


def _completed(problem: ComponentProblem, found: Pairs, more: Tensor, wanted: int) -> Pairs:
    """The pairs found and more of them, without those that are now above the wanted ones."""
    values, u, residuals = rayleigh_ritz(problem, torch.cat([found.vectors, more], dim=1))
    label = clusters(values.numpy(), problem.norm)
    end = int((label <= label[wanted - 1]).sum())
    return replace(
        found, values=values[:end], vectors=u[:, :end], residuals=residuals[:end], complete=end
    )


def _with_guard(problem: ComponentProblem, found: Pairs, guard: Guard, tol: float) -> Pairs:
    """The pairs found and the one above them: its value, vector and residual."""
    guards, rough, norms = guard
    gap = float(guards[0] - found.values[-1])
    same = float(same_eigenvalue_tolerance(float(guards[0]), problem.norm))
    distinct = gap > max(same, SAME * float(guards[0]))
    pairs = replace(
        found,
        values=torch.cat([found.values, guards]),
        vectors=torch.cat([found.vectors, rough], dim=1),
        residuals=torch.cat([found.residuals, norms]),
        separated=distinct,
    )
    sharp = float(found.residuals.max()) <= aim_of(gap, problem.norm, tol)
    return replace(pairs, converged=distinct and sharp)
