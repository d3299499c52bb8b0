"""A plain Lanczos process that looks at one end of a spectrum."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.linalg import eigh_tridiagonal
from torch import Tensor

__all__ = ["Lanczos", "Product", "empty_rows", "without"]

Product = Callable[[Tensor], Tensor]


def empty_rows(rows: int, like: Tensor) -> Tensor:
    """A matrix ``[rows, n]`` to be filled, for vectors `like` ``[n]``.

    On the CPU it is NumPy's, which asks for large pages: the first write to a row takes a tenth of
    the time.
    """
    if like.device.type == "cpu":
        return torch.from_numpy(np.empty((rows, len(like))))
    return like.new_empty(rows, len(like))


def without(v: Tensor, known: Tensor) -> Tensor:
    """`v` ``[n]``, changed in place, less its parts along the orthonormal `known` ``[j, n]``."""
    return v.addmv_(known.T, known @ v, alpha=-1.0)


class Lanczos:
    """A Lanczos process in the space orthogonal to `known` ``[j, n]``, from the vector v.

    It takes up to `most` steps. Unless it is to `keep` its vectors, it has room for the last three,
    and takes all steps again where Ritz vectors are asked for.
    """

    def __init__(
        self, product: Product, known: Tensor, v: Tensor, most: int, *, keep: bool = True
    ) -> None:
        self._product, self._known = product, known
        self.n = known.shape[1]
        self._most = min(most, self.n - len(known))
        v = without(v.clone(), known)
        self.first = v / torch.linalg.vector_norm(v)
        self.basis = empty_rows(self._most + 1 if keep else 3, v)
        self.basis[0] = self.first
        self._alpha: list[float] = []
        self._beta: list[float] = []

    @property
    def size(self) -> int:
        """The number of steps taken."""
        return len(self._alpha)

    @property
    def stopped(self) -> bool:
        """Whether it has taken all the steps that it may."""
        return self.size == self._most

    @property
    def full(self) -> bool:
        """Whether there is no room, or nothing, for another step."""
        tiny = bool(self._beta) and self._beta[-1] < 1e-12 * max(map(abs, self._alpha))
        return tiny or self.stopped

    def _row(self, step: int) -> Tensor:
        return self.basis[step % len(self.basis)]

    def extend(self, steps: int) -> None:
        """Take more steps, as many as there is room for."""
        for _ in range(steps):
            if self.full:
                return
            self._step()

    def _step(self) -> None:
        last = self._row(self.size)
        w = self._product(last)
        if self._beta:
            w.sub_(self._row(self.size - 1), alpha=self._beta[-1])
        self._alpha.append(float(last @ w))
        w.sub_(last, alpha=self._alpha[-1])
        # beside the known vectors alone: the basis itself is lost where its first Ritz vector is
        # found, which is when it has served
        without(w, self._known)
        self._beta.append(float(torch.linalg.vector_norm(w)))
        torch.div(w, self._beta[-1], out=self._row(self.size))

    def ritz(self, size: int | None = None) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Ritz values, the largest first, and their vectors in terms of the basis, as columns.

        Those after `size` steps, or after all that were taken.
        """
        size = min(size or self.size, self.size)
        theta, q = eigh_tridiagonal(self._alpha[:size], self._beta[: size - 1])
        return theta[::-1], q[:, ::-1]

    def top(self, pairs: int = 1) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The largest Ritz values and their coordinates, as :meth:`ritz` gives all of them."""
        first = max(0, self.size - pairs)
        theta, q = eigh_tridiagonal(
            self._alpha, self._beta[:-1], select="i", select_range=(first, self.size - 1)
        )
        return theta[::-1], q[:, ::-1]

    def share(self, value: float) -> float:
        """The most that an eigenvector at `value`, or above, can have of the starting vector.

        The basis is p_j(A) v for polynomials p_j that the recurrence gives. An eigenvector x at μ
        has the part p_j(μ) xᵀv of the j-th vector, and all of these together are at most its
        length, so that (xᵀv)² ≤ 1 / Σ_j p_j(μ)². Above all Ritz values every p_j is positive and
        grows with μ. It is 1, which says nothing, where a Ritz value lies above `value`.
        """
        before, now, total = 0.0, 1.0, 1.0
        for alpha, earlier, beta in zip(self._alpha, [0.0, *self._beta], self._beta, strict=False):
            before, now = now, ((value - alpha) * now - earlier * before) / beta
            if now <= 0.0:
                return 1.0
            total += now * now
        return float(total**-0.5)

    def bound(self, q: NDArray[np.float64]) -> float:
        """The residual of the Ritz vector with these coordinates."""
        return self._beta[-1] * abs(float(q[-1]))

    def vectors(self, q: NDArray[np.float64]) -> Tensor:
        """The Ritz vectors ``[n, p]`` with these coordinates ``[m, p]``, made orthonormal."""
        if len(self.basis) <= self.size:
            again = Lanczos(self._product, self._known, self.first, self.size)
            for _ in range(self.size):  # as many, though rounding may make it full before
                again._step()
            return again.vectors(q)
        found: Tensor = torch.linalg.qr(self.basis[: self.size].T @ torch.from_numpy(q.copy()))[0]
        return found
