"""The lowest eigenpairs by ARPACK, or by a Lanczos process that keeps its vectors."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from pdgnn.solvers.copies import ROUGH, SHARPEST, with_copies, with_guard
from pdgnn.solvers.davidson import Pairs
from pdgnn.solvers.eigsh import CountedOperator, aim_of, eigsh_vectors, rayleigh_ritz
from pdgnn.solvers.lanczos import Lanczos, Product, without
from pdgnn.solvers.look import Look, filtered, looked_at, plain, room
from pdgnn.solvers.preconditioners import Preconditioner
from pdgnn.solvers.problem import ComponentProblem

__all__ = ["arpack"]

SHARPER = 0.03
"""Residual asked of ARPACK, relative to the one promised, for one pair."""
COSTLY, COSTLY_EACH, COSTLY_EACH_FAR = 50_000, 7, 30
"""Entries of S, and more for each node, from which on products are most of the work; where vectors
are too long for a cache, to keep another one takes as long as four times the entries."""
CACHED_NODES = 32_768
"""Nodes up to which vectors stay in a cache."""


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
        if look.products(k) > limit:
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
    pairs = with_copies(
        problem, way.operator, found, guard, other, generator, tol, counted.most, inverted
    )
    if pairs.separated and not pairs.converged and pairs.complete == k:
        return _sharpened(problem, pairs, counted, k, tol, way.sharper)
    return pairs


def _sharpened(
    problem: ComponentProblem,
    pairs: Pairs,
    counted: CountedOperator,
    k: int,
    tol: float,
    sharper: float,
) -> Pairs:
    """The pairs, as sharp as their gap asks for."""
    aim = aim_of(float(pairs.values[k] - pairs.values[k - 1]), problem.norm, tol)
    sharper *= 0.3 * aim / float(pairs.residuals[:k].max())
    vectors = eigsh_vectors(counted, k, pairs.vectors[:, :k].sum(dim=1), max(sharper * tol, 1e-14))
    if vectors is None:
        return pairs
    values, u, residuals = rayleigh_ritz(problem, vectors)
    guard = pairs.values[k:], pairs.vectors[:, k:], pairs.residuals[k:]
    found = replace(pairs, values=values, vectors=u, residuals=residuals)
    return with_guard(problem, found, guard, tol)


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

    ARPACK, which restarts, takes twice the products for one pair.
    """
    used, sharper = look.steps, SHARPEST
    if k == 1:
        process, operator, degree = _unrestarted(problem, look)
        before = process.size
        sharp = _extended(process, tol if degree == 1 else 0.2 * tol, (most - used) // degree)
        used, sharper = used + degree * (process.size - before), SHARPER
        if sharp:
            vectors = _ritz_vectors(process, 1 + beside)
            return _Way(operator, degree, process.first, sharper, used, vectors)
    operator, start, degree = filtered(problem, look.process, k)
    return _Way(operator, degree, start, sharper, used)


def _unrestarted(problem: ComponentProblem, look: Look) -> tuple[Lanczos, Product, int]:
    """A process that keeps its vectors, its operator, and the products in a step."""
    if _is_costly(problem):
        return look.process, plain(problem), 1
    operator, start, degree = filtered(problem, look.process, 1)
    return Lanczos(operator, problem.trivial[None], start, room(problem.n)), operator, degree


def _ritz_vectors(process: Lanczos, most: int) -> Tensor:
    """Its first Ritz vectors ``[n, p]``, one alone where the second does not measure the gap."""
    theta, q = process.top(most)  # fewer where the start had no more of them
    if len(theta) > 1 and process.bound(q[:, 1]) > ROUGH * (theta[0] - theta[1]):
        q = q[:, :1]
    return process.vectors(q)


def _extended(process: Lanczos, tol: float, most: int) -> bool:
    """Take steps until the first Ritz vector is sharp; whether `most` are enough.

    A residual falls by about the same factor in every step, which says when to look again.
    """
    steps, before = 4, np.inf
    while not process.full and process.size < most:
        process.extend(min(steps, most - process.size))
        theta, q = process.top(2)  # one alone where the start had no more of them
        gap = theta[0] - theta[1] if len(theta) > 1 else theta[0]
        bound, aim = process.bound(q[:, 0]), 0.5 * aim_of(gap, 2.0 * theta[0], tol)
        if bound <= aim:
            return True
        speed = max(np.log(before / bound) / steps, 0.01)
        steps, before = int(np.clip(0.7 * np.log(bound / aim) / speed, 2, 16)), bound
    return False


def _is_costly(problem: ComponentProblem) -> bool:
    """Whether a product takes longer than what a Lanczos process does beside it."""
    each = COSTLY_EACH if problem.n <= CACHED_NODES else COSTLY_EACH_FAR
    return bool(problem.matrix.values().numel() > COSTLY + each * problem.n)


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
