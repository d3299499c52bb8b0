"""A plain Lanczos process that looks at one end of a spectrum."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.linalg import eigh_tridiagonal
from torch import Tensor

__all__ = ["Lanczos", "Product"]

Product = Callable[[Tensor], Tensor]


class Lanczos:
    """A Lanczos process in the space orthogonal to `known` ``[j, n]``, from the vector v."""

    def __init__(self, product: Product, known: Tensor, v: Tensor, most: int) -> None:
        self._product, self._known = product, known
        n = known.shape[1]
        self.basis = known.new_empty(min(most, n - len(known)) + 1, n)
        v = v - known.T @ (known @ v)
        self.basis[0] = v / torch.linalg.vector_norm(v)
        self._alpha: list[float] = []
        self._beta: list[float] = []

    @property
    def size(self) -> int:
        """The number of steps taken."""
        return len(self._alpha)

    @property
    def full(self) -> bool:
        """Whether there is no room, or nothing, for another step."""
        tiny = bool(self._beta) and self._beta[-1] < 1e-12 * max(map(abs, self._alpha))
        return tiny or self.size + 1 == len(self.basis)

    def extend(self, steps: int) -> None:
        """Take more steps, as many as there is room for."""
        for _ in range(steps):
            if self.full:
                return
            basis = self.basis[: self.size + 1]
            w = self._product(basis[-1])
            self._alpha.append(float(basis[-1] @ w))
            w.sub_(basis[-1], alpha=self._alpha[-1])
            if self._beta:
                w.sub_(basis[-2], alpha=self._beta[-1])
            # beside the known vectors alone: the basis itself is lost where its first Ritz vector
            # is found, which is when it has served
            w -= self._known.T @ (self._known @ w)
            self._beta.append(float(torch.linalg.vector_norm(w)))
            self.basis[self.size] = w / self._beta[-1]

    def ritz(self, size: int | None = None) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Ritz values, the largest first, and their vectors in terms of the basis, as columns.

        Those after `size` steps, or after all that were taken.
        """
        size = min(size or self.size, self.size)
        theta, q = eigh_tridiagonal(self._alpha[:size], self._beta[: size - 1])
        return theta[::-1], q[:, ::-1]

    def bound(self, q: NDArray[np.float64]) -> float:
        """The residual of the Ritz vector with these coordinates."""
        return self._beta[-1] * abs(float(q[-1]))

    def vectors(self, q: NDArray[np.float64]) -> Tensor:
        """The Ritz vectors ``[n, p]`` with these coordinates ``[m, p]``, made orthonormal."""
        found: Tensor = torch.linalg.qr(self.basis[: self.size].T @ torch.from_numpy(q.copy()))[0]
        return found
