"""The lowest eigenpairs by ARPACK, or by a Lanczos process that keeps its vectors."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from pdgnn.solvers.canonical import aim_of
from pdgnn.solvers.copies import ROUGH, SHARPEST, with_copies
from pdgnn.solvers.davidson import Pairs
from pdgnn.solvers.eigsh import CountedOperator, eigsh_vectors, rayleigh_ritz
from pdgnn.solvers.lanczos import Lanczos, Product, without
from pdgnn.solvers.look import Look, filtered, looked_at, plain, room
from pdgnn.solvers.preconditioners import Preconditioner
from pdgnn.solvers.problem import ComponentProblem

__all__ = ["arpack"]

SHARPER = 0.03
"""Residual asked of ARPACK, relative to the one promised, for one pair."""
WORTH = 25
"""Steps that a process of S itself may be foreseen to take for each entry of S in a row, from
EARLIEST on: beyond, to keep its vectors takes longer than the more products of a polynomial."""
EARLIEST = 80
"""Steps before which the fall of a residual foretells little."""
LONGEST = 16
"""Products after which a process is looked at again, at the latest."""
ROUNDED = 1e-12
"""Residual of the first Ritz vector, relative to its value, that rounding does not let fall by much
more."""


def arpack(
    problem: ComponentProblem,
    inverse: Preconditioner | None,
    *,
    k: int,
    tol: float,
    generator: torch.Generator,
    most: int,
    limit: float = np.inf,
    look: Look | None = None,
    beside: int = 1,
) -> Pairs:
    """The k lowest non-trivial pairs, from products with S or, where given, with L⁻¹.

    With S, a short Lanczos process looks at the spectrum first, unless one of the same S is given
    as `look`. Where more than `limit` steps are foreseen, nothing is tried. A polynomial of S that
    is large at the lowest eigenvalues and small at the others then takes the place of S: as many
    products, and a fraction of what is done between them. For one pair so many rough ones `beside`
    it cost next to nothing.
    """
    start, other = torch.randn(2, problem.n, dtype=torch.float64, generator=generator)
    known, inverted = problem.trivial[None], inverse is not None
    if inverse is not None:
        way = _Way(_inverted(problem, inverse), 1, without(start, known), 0.001, 0)
    else:
        look = look or looked_at(problem, k, start)
        if look.products(k, limit) > limit:
            return _nothing(problem, look.steps)
        way = _by_products(problem, look, k, tol, most, beside)
    counted = CountedOperator(way.operator, known, (most - way.used) // way.degree)
    vectors = way.vectors
    if vectors is None:  # with L⁻¹ the next pair is cheap, and says where to count the eigenvalues
        vectors = eigsh_vectors(counted, k + inverted, way.start, way.sharper * tol)
    if vectors is None:
        return _nothing(problem, most)
    values, u, residuals = rayleigh_ritz(problem, vectors)
    steps = way.used + way.degree * counted.steps
    found = Pairs(values[:k], u[:, :k], residuals[:k], k, steps, separated=False, converged=False)
    guard = (values[k:], u[:, k:], residuals[k:]) if len(values) > k else None
    return with_copies(
        problem, way.operator, found, guard, other, generator, tol, counted.most, inverted
    )


@dataclass(frozen=True)
class _Way:
    """How vectors are found, or the vectors themselves."""

    operator: Product
    degree: int  # products with S or L⁻¹ in one with the operator
    start: Tensor  # [n]
    sharper: float  # residual asked of ARPACK, relative to the one promised
    used: int  # products so far
    vectors: Tensor | None = None  # [n, p], where there are more than the wanted ones rough


def _by_products(
    problem: ComponentProblem, look: Look, k: int, tol: float, most: int, beside: int
) -> _Way:
    """For several pairs ARPACK; for one a Lanczos process that keeps its vectors, if it can.

    ARPACK, which restarts, takes twice the products for one pair. The process is one of S itself
    first, and one of a polynomial of S where it would have to keep too many vectors.
    """
    used, sharper = look.steps, SHARPEST
    if k == 1:
        process, operator, degree, sharper = look.process, plain(problem), 1, SHARPER
        entries = problem.matrix.values().numel() / problem.n
        sharp = _extended(process, tol, most, degree, worth=WORTH * entries)
        used = process.size
        if not sharp and used < most:
            operator, start, degree = filtered(problem, process, 1)
            process = Lanczos(operator, problem.trivial[None], start, room(problem.n))
            sharp = _extended(process, 0.2 * tol, (most - used) // degree, degree, np.inf)
            used += degree * process.size
        if sharp:
            vectors = _ritz_vectors(process, 1 + beside)
            return _Way(operator, degree, process.first, sharper, used, vectors)
    operator, start, degree = filtered(problem, look.process, k)
    return _Way(operator, degree, start, sharper, used)


def _ritz_vectors(process: Lanczos, most: int) -> Tensor:
    """Its first Ritz vectors ``[n, p]``, one alone where the second does not measure the gap."""
    theta, q = process.top(most)  # fewer where the start had no more of them
    if len(theta) > 1 and process.bound(q[:, 1]) > ROUGH * (theta[0] - theta[1]):
        q = q[:, :1]
    return process.vectors(q)


def _extended(process: Lanczos, tol: float, most: float, degree: int, worth: float) -> bool:
    """Take steps until the first Ritz vector is sharp; whether `most` are enough.

    A residual falls by about the same factor in every step, which says when to look again, and, by
    the later half of the steps, whether more than are `worth` taking will be needed. Once it has
    fallen to rounding, copies of the first Ritz value appear, next to which a gap says nothing.
    """
    steps, looks = 4, [(0, 0.0)]
    while not process.full and process.size + steps <= most:
        process.extend(steps)
        theta, q = process.top(2)  # one alone where the start had no more of them
        gap = theta[0] - theta[1] if len(theta) > 1 else theta[0]
        bound, aim = process.bound(q[:, 0]), 0.5 * aim_of(gap, 2.0 * theta[0], tol)
        if bound <= max(aim, ROUNDED * theta[0]):
            return True
        left = np.log(bound / aim)
        looks.append((process.size, np.log(bound)))
        half = next(look for look in looks if 2 * look[0] >= process.size)
        if process.size >= EARLIEST and process.size + left / _fall(half, looks[-1]) > worth:
            return False
        soon = 0.7 * left / _fall(looks[-2], looks[-1])
        steps = int(np.clip(soon, 2, max(2, LONGEST // degree)))
    return False


def _fall(before: tuple[int, float], after: tuple[int, float]) -> float:
    """How fast the logarithm of a residual has fallen in each step."""
    steps = max(after[0] - before[0], 1)
    return max((before[1] - after[1]) / steps, 0.01)


def _nothing(problem: ComponentProblem, steps: int) -> Pairs:
    none = problem.trivial[:, None][:, :0]
    empty = torch.empty(0, dtype=torch.float64)
    return Pairs(empty, none, empty, 0, steps, separated=False, converged=False)


def _inverted(problem: ComponentProblem, inverse: Preconditioner) -> Product:
    """The inverse of S / γ (of S where γ = 0) beside the trivial vector."""
    trivial, root = problem.trivial, problem.root_m.ravel()

    def product(v: Tensor) -> Tensor:
        v = v - trivial * (trivial @ v)  # rounding adds some, which the inverse would enlarge
        return root * inverse((root * v)[:, None])[:, 0]

    return product
