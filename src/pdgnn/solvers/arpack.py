"""The lowest eigenpairs by ARPACK, and a search for the copies that it cannot see."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse.linalg import ArpackError, LinearOperator, eigsh
from torch import Tensor

from pdgnn.solvers.canonical import clusters, same_eigenvalue_tolerance
from pdgnn.solvers.davidson import Pairs
from pdgnn.solvers.lanczos import Lanczos, Product, without
from pdgnn.solvers.look import MOST_ENTRIES, Look, filtered, looked_at, plain, room
from pdgnn.solvers.preconditioners import Preconditioner, inverse_near
from pdgnn.solvers.problem import ComponentProblem

__all__ = ["Lanczos", "arpack", "is_whole"]

Guard = tuple[Tensor, Tensor, Tensor]
"""Values, vectors and residuals of the pairs next to those wanted."""
SHARPER, SHARPEST = 0.03, 0.003
"""Residual asked of ARPACK, relative to the one promised: for one pair, and for several, which are
closer to each other and cost little more."""
COSTLY, COSTLY_EACH, COSTLY_EACH_FAR = 50_000, 7, 30
"""Entries of S, and more for each node, from which on products are most of the work; where vectors
are too long for a cache, to keep another one takes as long as four times the entries."""
CACHED_NODES = 32_768
"""Nodes up to which vectors stay in a cache."""
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
    counted = _Counted(way.operator, known, (most - way.used) // way.degree)
    vectors = way.vectors
    if vectors is None:  # with L⁻¹ the next pair is cheap, and says where to count the eigenvalues
        vectors = _eigsh(counted, k + inverted, way.start, way.sharper * tol)
    if vectors is None:
        return _nothing(problem, most)
    values, u, residuals = _rayleigh_ritz(problem, vectors)
    steps = way.used + way.degree * counted.steps
    found = Pairs(values[:k], u[:, :k], residuals[:k], k, steps, separated=False, converged=False)
    guard = (values[k:], u[:, k:], residuals[k:]) if len(values) > k else None
    pairs = _guarded(
        problem, way.operator, found, guard, other, generator, tol, counted.most, inverted
    )
    if pairs.separated and not pairs.converged and pairs.complete == k:
        return _sharpened(problem, pairs, counted, k, tol, way.sharper)
    return pairs


def _sharpened(
    problem: ComponentProblem, pairs: Pairs, counted: _Counted, k: int, tol: float, sharper: float
) -> Pairs:
    """The pairs, as sharp as their gap asks for."""
    aim = _aim(float(pairs.values[k] - pairs.values[k - 1]), problem.norm, tol)
    sharper *= 0.3 * aim / float(pairs.residuals[:k].max())
    vectors = _eigsh(counted, k, pairs.vectors[:, :k].sum(dim=1), max(sharper * tol, 1e-14))
    if vectors is None:
        return pairs
    values, u, residuals = _rayleigh_ritz(problem, vectors)
    guard = pairs.values[k:], pairs.vectors[:, k:], pairs.residuals[k:]
    found = replace(pairs, values=values, vectors=u, residuals=residuals)
    return _with_guard(problem, found, guard, tol)


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
        bound, aim = process.bound(q[:, 0]), 0.5 * _aim(gap, 2.0 * theta[0], tol)
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


def _rayleigh_ritz(problem: ComponentProblem, u: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Ascending values ``[k]``, vectors ``[n, k]`` and the norms of their residuals ``[k]``."""
    image = problem.apply(u)
    h = u.T @ image
    values, q = torch.linalg.eigh((h + h.T) / 2)
    u, image = u @ q, image @ q
    return values, u, torch.linalg.vector_norm(image - u * values, dim=0)


def _aim(gap: float, norm: float, tol: float) -> float:
    """The residual, well below the one promised, at which vectors are right to 10 `tol`."""
    return max(min(10 * gap, 0.1 * norm) * tol, 1e-14 * norm)


def _eigsh(counted: _Counted, k: int, start: Tensor, tol: float) -> Tensor | None:
    """ARPACK's k vectors ``[n, k]``; None where it takes too long."""
    n = len(start)
    ncv = min(n - 1, max(int(1.3 * k) + 12, 16))  # SciPy's 2k + 1 has more to orthogonalize
    try:
        found = eigsh(counted, k, which="LA", v0=start.numpy(), ncv=ncv, tol=tol, maxiter=n + 1000)
    except (ArpackError, _SlowError):
        return None
    return torch.from_numpy(found[1])


class _SlowError(Exception):
    """ARPACK takes longer than it may."""


class _Counted(LinearOperator):  # type: ignore[misc]
    """A product, orthogonal to `known` ``[j, n]``, for ARPACK, left when it took too many."""

    def __init__(self, product: Product, known: Tensor, most: int) -> None:
        n = known.shape[1]
        super().__init__(np.float64, (n, n))
        self._product, self._known, self.most, self.steps = product, known, most, 0

    def _matvec(self, v: NDArray[np.float64]) -> NDArray[np.float64]:
        self.steps += 1
        if self.steps > self.most:
            raise _SlowError
        image = without(self._product(torch.from_numpy(v)), self._known)
        return np.asarray(image.numpy())

    matvec = _matvec  # without checks of shapes, which take as long as a product on a small graph


def _guarded(
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
    for turn in range(MOST_SHIFTS if by_shifts else MOST_TURNS):
        u = found.vectors
        repeats = by_shifts and (turn > 0 or _most_copies(found, problem.norm) >= MANY)
        known = torch.cat([problem.trivial[:, None], u], dim=1).T.contiguous()  # [c + 1, n]
        search = Lanczos(operator, known, start, room(problem.n), keep=guard is None)
        edge = float(u[:, -1] @ operator(u[:, -1].contiguous()))
        guarded, copy = _searched(search, edge, tol, sharp=repeats, alone=guard is None)
        if guarded:
            beside = guard or _rayleigh_ritz(problem, search.vectors(search.top()[1]))
            return _with_guard(problem, found, beside, tol)
        guard = None
        if not copy:
            break
        theta, q = search.top()
        if repeats:
            more = _copies(problem, problem.scale / float(theta[0]), found, generator)
        elif theta[0] > (1 + 1e-9) * edge:  # below those found: there may be several
            others = _Counted(operator, known, most)
            more = _eigsh(others, wanted, search.first, SHARPEST * tol)
        else:
            more = search.vectors(q)
        if more is None or not more.shape[1]:
            break
        found = _completed(problem, found, more, wanted)
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


def _most_copies(found: Pairs, norm: float) -> int:
    return int(np.bincount(clusters(found.values.numpy(), norm)).max())


def _copies(
    problem: ComponentProblem, value: float, found: Pairs, generator: torch.Generator
) -> Tensor | None:
    """All eigenvectors ``[n, m]`` at an eigenvalue beside those found; None where too many.

    By inverse iteration on a block of random vectors: next to the eigenvalue two steps are enough.
    Where the block holds something else besides, there is nothing more at that eigenvalue.
    """
    try:
        inverse, below = inverse_near(problem, (1.0 + NEAR) * value)
    except RuntimeError:  # SuperLU met a pivot of 0
        return None
    known = torch.cat([problem.trivial[:, None], found.vectors], dim=1)  # [n, j]
    lower = int((found.values < (1.0 + NEAR) * value).sum())
    width, more = max(below - 1 - lower, 0) + 4, known[:, :0]
    most = max(64, min(problem.n // 16, MOST_ENTRIES // problem.n))
    while more.shape[1] + width <= most:
        beside = torch.cat([known, more], dim=1)
        block = torch.randn(width, problem.n, dtype=torch.float64, generator=generator).T
        for _ in range(2):
            block = inverse(block - beside @ (beside.T @ block))
            block = torch.linalg.qr(block - beside @ (beside.T @ block))[0]
        values, u, _ = _rayleigh_ritz(problem, block)
        here = (values - value).abs() <= 10 * NEAR * value
        more = torch.cat([more, u[:, here]], dim=1)
        if not here.all():
            return more
        width *= 2
    return None


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
    values, u, residuals = _rayleigh_ritz(problem, torch.cat([found.vectors, more], dim=1))
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
    sharp = float(found.residuals.max()) <= _aim(gap, problem.norm, tol)
    return replace(pairs, converged=distinct and sharp)
