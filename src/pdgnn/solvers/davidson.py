"""A block Davidson method for the lowest eigenpairs of a symmetric operator, in torch.

One loop serves every iterative solver here. Without a preconditioner the basis it builds is a block
Krylov space: a thick-restarted block Lanczos method. With one (LU, multigrid) it is generalised
Davidson that keeps the previous directions at a restart; LOBPCG is its case of three blocks. A
block sees repeated eigenvalues, which a single Lanczos vector does not, and the guard pairs beyond
those asked for measure the gap. The same code runs on the CPU and on a GPU.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pdgnn.solvers.canonical import EPS, aim_of, clusters
from pdgnn.solvers.lanczos import Product, empty_rows

__all__ = ["Basis", "Pairs", "State", "assess", "davidson"]

GUARD_RESOLUTION = 1e-3
"""Residual of the guard pair, relative to the gap below it, at which it counts as distinct: a
missing copy of the eigenvalue below has then at most this share of the guard, as few random
vectors do."""
ONCE_IS_ENOUGH = 0.1
"""Share of its length that a vector must keep for one pass of orthogonalization to suffice."""


@dataclass
class Pairs:
    """Ritz pairs in ascending order; the first `complete` of them are whole eigenspaces."""

    values: Tensor  # [p], on the CPU
    vectors: Tensor  # [n, p]
    residuals: Tensor  # [p], on the CPU
    complete: int
    iterations: int
    separated: bool  # the pair after them is known to be another eigenvalue
    converged: bool


def davidson(
    apply: Product,
    precondition: Product | None,
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
    guards: int = 1,
    max_guards: int = 64,
    tol: float = 1e-8,
) -> Pairs:
    """The `wanted` lowest pairs of `apply` orthogonal to `trivial` ``[n]``, whole eigenspaces.

    `start` ``[n, b]`` is the first block, with at least ``wanted + guards`` columns: the first pair
    above the wanted ones that is distinct stands guard. Each step adds the (preconditioned)
    residuals of up to `block` unfinished pairs; a basis of `basis_size` vectors is restarted from
    its `keep` lowest pairs. Stops when every wanted vector is accurate to 10 `tol`, or to
    rounding, and the guard shows that no copy of the last wanted eigenvalue is
    missing.
    """
    basis = Basis(apply, trivial, start, basis_size, generator)
    pairs, reseeded = wanted + guards, False
    progress = _Progress(norm)
    for iteration in range(max_iterations + 1):
        values, vectors, residual = basis.ritz(pairs)
        norms = torch.linalg.vector_norm(residual, dim=1).cpu()  # [p]
        state = assess(values, norms, wanted, norm, tol, every_guard=reseeded)
        finished = state.separated and (
            state.accurate or progress.stalled(float(norms[: state.end].max()))
        )
        full = basis.size == basis.room
        if finished or full or iteration == max_iterations:
            break
        if state.end == pairs:  # each random vector shows one copy at most
            fresh = min(pairs, wanted + max_guards - 1 - pairs, basis.room - pairs)
            if fresh <= 0:
                break
            basis.reseed(pairs, fresh)
            pairs, reseeded = pairs + fresh, True
            continue
        work = state.unfinished[: max(block, pairs - state.end)]
        step = residual if len(work) == pairs else residual[work]  # [b, n]
        if precondition is not None:
            step = precondition(step.T).T
        basis.expand(step, max(keep, pairs), work)
    return Pairs(
        values,
        vectors.T,
        norms,
        state.end,
        iteration,
        separated=state.separated,
        converged=finished,
    )


@dataclass
class State:
    """How far the Ritz pairs have come."""

    end: int  # pairs [0, end) are the wanted ones, completed to whole clusters
    separated: bool
    accurate: bool
    unfinished: list[int]


def assess(
    values: Tensor,
    norms: Tensor,
    wanted: int,
    norm: float,
    tol: float,
    *,
    every_guard: bool = False,
    floor: float = 4 * EPS,
) -> State:
    """Which pairs belong to the answer, how well they are separated, which need more work.

    Vectors are to be right to 10 `tol`, or have residuals of `floor` times the norm.
    """
    theta, r = values.tolist(), norms.tolist()
    pairs = len(theta)
    label = clusters(values.numpy(), norm)
    end = int((label <= label[wanted - 1]).sum())
    if end == pairs:
        worst_first = sorted(range(pairs), key=lambda i: -r[i])
        return State(end, False, False, worst_first)
    gap = theta[end] - theta[end - 1]
    if not every_guard:  # those above one that is plainly apart are not needed
        apart = (
            j for j in range(end, pairs) if theta[j] - theta[end - 1] > 2 * (r[j] + r[end - 1])
        )
        pairs = next(apart, pairs - 1) + 1
    distance = [GUARD_RESOLUTION * (t - theta[end - 1]) for t in theta]
    guards = [j for j in range(end, pairs) if r[j] >= distance[j]]  # not known to be distinct yet
    separated = not guards
    if max(r[:end]) > 1e-3 * gap and not separated:  # far from done: spare the finer look
        worst_first = sorted(range(pairs), key=lambda i: -r[i])
        return State(end, False, False, worst_first)
    unfinished = []  # worst first
    for i in sorted(range(end), key=lambda i: -r[i]):
        outside = theta[end] - theta[i]
        inside = min(abs(theta[j] - theta[i]) for j in range(end + 1) if label[j] != label[i])
        aim = aim_of(outside, norm, tol, floor=0.0)
        if r[i] > max(floor * norm, min(aim, (aim * inside) ** 0.5)):
            unfinished.append(i)
    accurate = not unfinished
    if not separated:  # all guards together: each may hold another copy
        unfinished = [*guards, *unfinished]
    return State(end, separated, accurate, unfinished or list(range(end + 1)))


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
        return self._best < self._low_enough and self._since >= 4


class Basis:
    """An orthonormal basis V, its image AV, and H = VᵀAV; vectors are rows, in blocks ``[b, n]``.

    The first row of V is the trivial vector, so that whatever is made orthogonal to the basis is
    orthogonal to it too; it is not counted in `size`, and H knows nothing of it.
    """

    def __init__(
        self,
        apply: Product,
        trivial: Tensor,
        start: Tensor,
        capacity: int,
        generator: torch.Generator,
    ) -> None:
        self._apply, self._generator = apply, generator
        self._v = empty_rows(capacity + 1, trivial)
        self._v[0] = trivial
        self._av = empty_rows(capacity, trivial)
        self._h = torch.zeros(capacity, capacity, dtype=torch.float64)
        self._q = torch.zeros(0, 0, dtype=torch.float64)
        self._previous = torch.zeros(0, 0, dtype=torch.float64)
        self.size = 0
        self.room = trivial.numel() - 1
        """Dimension of the space orthogonal to the trivial vector, which the basis may fill."""
        self.expand(start.T, start.shape[1])

    @property
    def v(self) -> Tensor:
        """V ``[1 + size, n]``."""
        return self._v[: self.size + 1]

    @property
    def av(self) -> Tensor:
        """AV ``[size, n]``."""
        return self._av[: self.size]

    @property
    def h(self) -> Tensor:
        """H ``[size, size]``."""
        return self._h[: self.size, : self.size]

    def random(self, rows: int) -> Tensor:
        """Fresh random directions, ``[rows, n]``, drawn on the CPU: the same on every device."""
        drawn = torch.randn(rows, self._v.shape[1], dtype=torch.float64, generator=self._generator)
        return drawn.to(self._v.device)

    def ritz(self, pairs: int) -> tuple[Tensor, Tensor, Tensor]:
        """The lowest Ritz values ``[p]``, vectors ``[p, n]`` and their residuals ``[p, n]``."""
        values, self._q = torch.linalg.eigh(self.h)
        values, rows = values[:pairs], self._q[:, :pairs].T.to(self._v.device)
        vectors, scale = rows @ self.v[1:], values.to(self._v.device)[:, None]
        return values, vectors, torch.addcmul(rows @ self.av, vectors, scale, value=-1.0)

    def reseed(self, pairs: int, fresh: int) -> None:
        """Keep the lowest pairs alone and start anew beside them from `fresh` random vectors.

        What the old starting vectors led to is dropped, since it would hide the copies of an
        eigenvalue that only the new ones can show.
        """
        self._previous = self._previous[:, :0]
        self._restart(pairs)
        self._reserve(self.size + 3 * fresh)
        self.expand(self.random(fresh), pairs)

    def expand(self, directions: Tensor, keep: int, work: Sequence[int] = ()) -> None:
        """Add the part of `directions` ``[b, n]`` that is new; restart first when there's no room.

        A direction already in the space is replaced by a random one, so that the basis grows.
        `work` are the Ritz pairs that the directions improve.
        """
        if self.size + directions.shape[0] > self._av.shape[0]:
            self._restart(keep)
            self._reserve(self.size + 2 * directions.shape[0])
        self._previous = self._q[:, list(work)]
        new = self._orthonormal(directions[: self.room - self.size])
        if new.shape[0] == 0:
            new = self._orthonormal(self.random(1))
        a, b = self.size, self.size + new.shape[0]
        self._v[a + 1 : b + 1] = new
        self._av[a:b] = self._apply(new.T).T
        h = (self._av[a:b] @ self._v[1 : b + 1].T).cpu()  # [b_new, b_total]
        self._h[a:b, :b] = h
        self._h[:b, a:b] = h.T
        self.size = b

    def _reserve(self, capacity: int) -> None:
        """Make room for `capacity` vectors, where a growing eigenspace asks for more."""
        more = capacity - self._av.shape[0]
        if more > 0:
            room = empty_rows(more, self._v[0])
            self._v, self._av = torch.cat([self._v, room]), torch.cat([self._av, room])
            self._h = torch.nn.functional.pad(self._h, (0, more, 0, more))

    def _restart(self, keep: int) -> None:
        """Keep the lowest Ritz vectors and the previous ones (the CG-like memory of LOBPCG)."""
        keep = min(keep, self.size)
        old = torch.nn.functional.pad(self._previous, (0, 0, 0, self.size - len(self._previous)))
        low = self._q[:, :keep]
        old -= low @ (low.T @ old)
        w, u = torch.linalg.eigh(old.T @ old)
        fresh = old @ u[:, w > 1e-16] / w[w > 1e-16].sqrt()
        fresh -= low @ (low.T @ fresh)
        q, _ = torch.linalg.qr(torch.cat([low, fresh], dim=1))
        size = q.shape[1]
        on_device = q.T.to(self._v.device)
        self._v[1 : size + 1] = on_device @ self._v[1 : self.size + 1]
        self._av[:size] = on_device @ self._av[: self.size]
        h = q.T @ self._h[: self.size, : self.size] @ q
        self._h[:size, :size] = (h + h.T) / 2
        self.size = size
        self._q = torch.eye(size, dtype=torch.float64)

    def _orthonormal(self, block: Tensor) -> Tensor:
        """The part of `block` orthogonal to the basis, which includes the trivial vector."""
        basis = self._v[: self.size + 1]
        for turn in range(3):
            inside = block @ basis.T  # [b, size + 1]
            block = torch.addmm(block, inside, basis, alpha=-1.0)
            gram = (block @ block.T).cpu().numpy()
            length = np.sqrt(np.maximum(gram.diagonal(), 1e-300))  # [b]
            removed = torch.linalg.vector_norm(inside, dim=1).cpu().numpy()
            kept = float((length / np.hypot(length, removed)).min())
            if turn == 0 and kept < ONCE_IS_ENOUGH:
                continue
            mix, least = _orthonormal_mix(gram, length)
            block = torch.from_numpy(mix).to(block.device) @ block
            if kept * least > ONCE_IS_ENOUGH:
                break
        return block


def _orthonormal_mix(
    gram: NDArray[np.float64], length: NDArray[np.float64]
) -> tuple[NDArray[np.float64], float]:
    """The combinations ``[c, b]`` that make b vectors orthonormal, from their Gram matrix.

    And the least length of a unit vector's combination: how nearly they depend on each other.
    """
    if len(length) == 1:
        return 1.0 / length[:, None], 1.0
    unit = torch.from_numpy(gram / length[:, None] / length)
    w, u = (a.numpy() for a in torch.linalg.eigh(unit))
    good = w > 1e-10 * w[-1]
    return (u[:, good] / np.sqrt(w[good])).T / length, max(0.0, float(w[0])) ** 0.5
