"""SciPy's ARPACK on one operator, and the Ritz pairs of what it found."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse.linalg import ArpackError, LinearOperator, eigsh
from torch import Tensor

from pdgnn.solvers.lanczos import Product, without
from pdgnn.solvers.problem import ComponentProblem

__all__ = ["CountedOperator", "eigsh_vectors", "rayleigh_ritz"]


def eigsh_vectors(counted: CountedOperator, k: int, start: Tensor, tol: float) -> Tensor | None:
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


class CountedOperator(LinearOperator):  # type: ignore[misc]
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


def rayleigh_ritz(problem: ComponentProblem, u: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Ascending values ``[k]``, vectors ``[n, k]`` and the norms of their residuals ``[k]``."""
    image = problem.apply(u)
    h = u.T @ image
    values, q = torch.linalg.eigh((h + h.T) / 2)
    u, image = u @ q, image @ q
    return values, u, torch.linalg.vector_norm(image - u * values, dim=0)
