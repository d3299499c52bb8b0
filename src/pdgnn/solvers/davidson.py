"""A block Davidson method for the lowest eigenpairs of a symmetric operator, in torch.

One loop serves every iterative solver here. Without a preconditioner the basis it builds is a block
Krylov space: a thick-restarted block Lanczos method. With one (LU, multigrid) it is generalised
Davidson that keeps the previous directions at a restart; LOBPCG is its case of three blocks. A
block sees repeated eigenvalues, which a single Lanczos vector does not, and the guard pairs beyond
those asked for measure the gap. The same code runs on the CPU and on a GPU.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from pdgnn.solvers.canonical import same_eigenvalue_tolerance

__all__ = ["Pairs", "davidson"]

EPS = torch.finfo(torch.float64).eps
VECTOR_TOLERANCE = 1e-8
"""Aimed-at error of an eigenvector, relative to its largest entry."""
GUARD_RESOLUTION = 1e-3
"""Residual of the guard pair, relative to the gap below it, at which it counts as distinct: a
missing copy of the eigenvalue below has then at most this share of the guard, as few random
vectors do."""
ONCE_IS_ENOUGH = 0.3
"""Share of its length that a vector must keep for one pass of orthogonalization to suffice."""
FURTHER = 4
"""Rough pairs above those asked for that are handed back, to start another solve."""

Operator = Callable[[Tensor], Tensor]


@dataclass
class Pairs:
    """Ritz pairs in ascending order; the first `complete` of them are whole eigenspaces."""

    values: Tensor  # [p], on the CPU
    vectors: Tensor  # [n, p]
    residuals: Tensor  # [p], on the CPU
    further: Tensor  # [n, <= FURTHER], rough vectors of the pairs above
    complete: int
    iterations: int
    separated: bool  # the pair after them is known to be another eigenvalue
    converged: bool
    missed: bool  # a check found what the start had led past, or an eigenvalue repeats


def davidson(
    apply: Operator,
    precondition: Operator | None,
    start: Tensor,
    trivial: Tensor,
    *,
    wanted: int,
    norm: float,
    max_iterations: int,
    basis_size: int,
    block: int,
    keep: int,
    generator: torch.Generator,
    check: bool = False,
    max_guards: int = 64,
    give_up: Callable[[int, Tensor, Tensor], bool] | None = None,
) -> Pairs:
    """The `wanted` lowest pairs of `apply` orthogonal to `trivial` ``[n]``, whole eigenspaces.

    `start` ``[n, b]`` is the first block, with at least ``wanted + 1`` columns: one pair more than
    wanted stands guard. Each step adds the (preconditioned) residuals of up to `block`
    unfinished pairs; a basis of `basis_size` vectors is restarted from its `keep` lowest pairs.
    Stops when every wanted pair is accurate to :data:`VECTOR_TOLERANCE`, or to rounding, and the
    guard shows that no copy of the last wanted eigenvalue is missing; or when `give_up`, asked with
    the step, the Ritz values and vectors, says so. A start that is not random may lack a whole
    eigenspace (that of another symmetry, say); with `check`, a random vector is developed beside
    the pairs found, until that finds nothing new.
    """
    basis = _Basis(apply, trivial, start, basis_size, generator)
    pairs = wanted + 1
    known: list[Tensor] = []  # what was found before each check
    progress = _Progress(norm)
    for iteration in range(max_iterations + 1):
        values, vectors, images = basis.ritz(pairs)
        residual = images - vectors * values.to(vectors.device)  # [n, p]
        norms = torch.linalg.vector_norm(residual, dim=0).cpu()  # [p]
        state = _assess(values, norms, vectors, wanted=wanted, norm=norm)
        finished = state.separated and (
            state.accurate or progress.stalled(float(norms[: state.end].max()))
        )
        found = values[: state.end]
        if finished and check and state.end + 2 <= basis.room and not _same(found, known):
            known.append(found)
            pairs = state.end + 1 + basis.reseed(state.end + 1, 1)
            continue
        if finished or iteration == max_iterations or basis.size == basis.room:
            break
        if give_up is not None and give_up(iteration, values, vectors):
            break
        if state.end == pairs:  # each random start shows one copy at most: there may be more
            if 2 * pairs > min(wanted + max_guards, basis.room):
                break
            pairs += basis.reseed(pairs, pairs)
            continue
        work = state.unfinished[: max(block, pairs - state.end)]
        step = residual[:, work]
        basis.expand(step if precondition is None else precondition(step), max(keep, pairs), work)
    further = basis.ritz(pairs + FURTHER)[1][:, pairs:]
    return Pairs(
        values,
        vectors,
        norms,
        further,
        state.end,
        iteration,
        separated=state.separated,
        converged=finished,
        missed=len(known) > 1 or pairs > wanted + 2,
    )


def _same(found: Tensor, known: list[Tensor]) -> bool:
    """Whether the last check left what was found as it was."""
    return (
        bool(known)
        and found.shape == known[-1].shape
        and torch.allclose(found, known[-1], rtol=1e-9, atol=0.0)
    )


@dataclass
class _State:
    end: int  # pairs [0, end) are the wanted ones, completed to whole clusters
    separated: bool
    accurate: bool
    unfinished: list[int]


def _assess(values: Tensor, norms: Tensor, vectors: Tensor, *, wanted: int, norm: float) -> _State:
    """Which pairs belong to the answer, how well they are separated, which need more work."""
    theta, r = values.tolist(), norms.tolist()
    pairs = len(theta)
    end = wanted
    while end < pairs and theta[end] - theta[end - 1] <= same_eigenvalue_tolerance(
        theta[end], norm
    ):
        end += 1
    if end == pairs:
        worst_first = sorted(range(pairs), key=lambda i: -r[i])
        return _State(end, False, False, worst_first)
    gap = theta[end] - theta[end - 1]
    apart = [GUARD_RESOLUTION * (t - theta[end - 1]) for t in theta]
    guards = [j for j in range(end, pairs) if r[j] >= apart[j]]  # not known to be distinct yet
    separated = not guards
    floor = 4 * EPS * norm
    if max(r[:end]) > 1e-3 * gap and not separated:  # far from done: spare the finer look
        worst_first = sorted(range(pairs), key=lambda i: -r[i])
        return _State(end, False, False, worst_first)
    largest = vectors[:, :end].abs().amax(dim=0).tolist()
    unfinished = []  # worst first
    for i in sorted(range(end), key=lambda i: -r[i]):
        outside = theta[end] - theta[i]
        inside = _nearest_other(theta[: end + 1], i, norm)
        aim = VECTOR_TOLERANCE * largest[i] * outside
        if r[i] > max(floor, min(aim, (aim * inside) ** 0.5)):
            unfinished.append(i)
    accurate = not unfinished
    if not separated:  # all guards together: each may hold another copy
        unfinished = [*guards, *unfinished]
    return _State(end, separated, accurate, unfinished or list(range(end + 1)))


def _nearest_other(theta: list[float], i: int, norm: float) -> float:
    """The distance from theta[i] to the nearest eigenvalue that is not a copy of it."""
    away = [abs(t - theta[i]) for t in theta]
    return min(a for a in away if a > same_eigenvalue_tolerance(theta[i], norm))


class _Progress:
    """Tells when rounding, not work, is what limits the residual."""

    def __init__(self, norm: float) -> None:
        self._low_enough = 2000 * EPS * norm
        self._best = float("inf")
        self._since = 0

    def stalled(self, residual: float) -> bool:
        if residual < 0.7 * self._best:
            self._best, self._since = residual, 0
        else:
            self._since += 1
        return self._best < self._low_enough and self._since >= 6


class _Basis:
    """An orthonormal basis V, its image AV, and H = VᵀAV; vectors are stored as rows."""

    def __init__(
        self,
        apply: Operator,
        trivial: Tensor,
        start: Tensor,
        capacity: int,
        generator: torch.Generator,
    ) -> None:
        self._apply, self._trivial, self._generator = apply, trivial, generator
        n = trivial.numel()
        self._v = trivial.new_empty(capacity, n)
        self._av = trivial.new_empty(capacity, n)
        self._h = torch.zeros(capacity, capacity, dtype=torch.float64)
        self._q = torch.zeros(0, 0, dtype=torch.float64)
        self._previous = torch.zeros(0, 0, dtype=torch.float64)
        self.size = 0
        self.room = n - 1
        """Dimension of the space orthogonal to the trivial vector, which the basis may fill."""
        self.expand(start, start.shape[1])

    def random(self, columns: int) -> Tensor:
        """Fresh random directions, ``[n, columns]``, drawn on the CPU: the same on every device."""
        n = self._trivial.numel()
        drawn = torch.randn(n, columns, dtype=torch.float64, generator=self._generator)
        return drawn.to(self._trivial.device)

    def ritz(self, pairs: int) -> tuple[Tensor, Tensor, Tensor]:
        """The lowest Ritz values ``[p]``, vectors ``[n, p]`` and their images ``[n, p]``."""
        values, self._q = torch.linalg.eigh(self._h[: self.size, : self.size])
        low = self._q[:, :pairs].to(self._v.device)
        return values[:pairs], self._combine(self._v, low), self._combine(self._av, low)

    def reseed(self, pairs: int, fresh: int) -> int:
        """Keep the lowest pairs alone and start anew beside them from `fresh` random vectors.

        What the old starting vectors led to is dropped, since it would hide the copies of an
        eigenvalue that only the new ones can show.
        """
        self._previous = self._previous[:, :0]
        self._restart(pairs)
        self._reserve(self.size + 3 * fresh)
        self.expand(self.random(fresh), pairs)
        return fresh

    def expand(self, directions: Tensor, keep: int, work: Sequence[int] = ()) -> None:
        """Add the part of `directions` ``[n, b]`` that is new; restart first when there's no room.

        A direction already in the space is replaced by a random one, so that the basis grows.
        `work` are the Ritz pairs that the directions improve.
        """
        if self.size + directions.shape[1] > self._v.shape[0]:
            self._restart(keep)
            self._reserve(self.size + 2 * directions.shape[1])
        self._previous = self._q[:, list(work)]
        new = self._orthonormal(directions[:, : self.room - self.size])
        if new.shape[1] == 0:
            new = self._orthonormal(self.random(1))
        image = self._apply(new)  # [n, b]
        a, b = self.size, self.size + new.shape[1]
        self._v[a:b], self._av[a:b] = new.T, image.T
        h = (self._v[:b] @ image).cpu()  # [b_total, b_new]
        self._h[:b, a:b] = h
        self._h[a:b, :b] = h.T
        self.size = b

    def _reserve(self, capacity: int) -> None:
        """Make room for `capacity` vectors, where a growing eigenspace asks for more."""
        more = capacity - self._v.shape[0]
        if more > 0:
            self._v = torch.cat([self._v, self._v.new_empty(more, self._v.shape[1])])
            self._av = torch.cat([self._av, self._av.new_empty(more, self._av.shape[1])])
            self._h = torch.nn.functional.pad(self._h, (0, more, 0, more))

    def _combine(self, rows: Tensor, q: Tensor) -> Tensor:
        return rows[: self.size].T @ q

    def _restart(self, keep: int) -> None:
        """Keep the lowest Ritz vectors and the previous ones (the CG-like memory of LOBPCG)."""
        keep = min(keep, self.size)
        old = torch.zeros(self.size, self._previous.shape[1], dtype=torch.float64)
        old[: self._previous.shape[0]] = self._previous
        low = self._q[:, :keep]
        old -= low @ (low.T @ old)
        w, u = torch.linalg.eigh(old.T @ old)
        fresh = old @ u[:, w > 1e-16] / w[w > 1e-16].sqrt()
        fresh -= low @ (low.T @ fresh)
        q, _ = torch.linalg.qr(torch.cat([low, fresh], dim=1))
        size = q.shape[1]
        on_device = q.T.to(self._v.device)
        self._v[:size] = on_device @ self._v[: self.size]
        self._av[:size] = on_device @ self._av[: self.size]
        h = q.T @ self._h[: self.size, : self.size] @ q
        self._h[:size, :size] = (h + h.T) / 2
        self.size = size
        self._q = torch.eye(size, dtype=torch.float64)

    def _orthonormal(self, block: Tensor) -> Tensor:
        """The part of `block` orthogonal to the basis and to the trivial vector, orthonormal."""
        for _ in range(2):
            before = block.norm(dim=0)
            block = block - self._trivial[:, None] * (self._trivial @ block)
            block -= self._v[: self.size].T @ (self._v[: self.size] @ block)
            block, shrunk = _orthonormal_columns(block, before)
            if shrunk > ONCE_IS_ENOUGH:
                break
        return block


def _orthonormal_columns(block: Tensor, before: Tensor) -> tuple[Tensor, float]:
    """An orthonormal basis of the columns, and the least share of `before` that a length kept."""
    length = block.norm(dim=0).clamp_min(1e-300)
    w, u = torch.linalg.eigh(((block.T @ block) / torch.outer(length, length)).cpu())
    good = w > 1e-10 * w.max()
    kept = float((length / before.clamp_min(1e-300)).min()) * float(w.min().clamp_min(0.0).sqrt())
    mix = (u[:, good] / w[good].sqrt()).to(block.device) / length[:, None]
    return block @ mix, kept
