"""Small components, solved densely, many at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pdgnn.solvers.canonical import canonical_basis, clusters
from pdgnn.solvers.problem import spectral_norm_bound

__all__ = ["ComponentPairs", "dense_pairs"]


@dataclass
class ComponentPairs:
    """Canonical eigenpairs of B components of one size."""

    values: NDArray[np.float64]  # [B, k]
    vectors: NDArray[np.float64]  # [B, n, k]
    residuals: NDArray[np.float64]  # [B, k]
    gap: NDArray[np.float64]  # [B], from λ1 to the next distinct eigenvalue; nan where none is
    multiplicity: NDArray[np.int64]  # [B], of λ1
    solver: str

    def part(self, of: slice) -> ComponentPairs:
        """Those of some of the components."""
        return ComponentPairs(
            self.values[of],
            self.vectors[of],
            self.residuals[of],
            self.gap[of],
            self.multiplicity[of],
            self.solver,
        )


def dense_pairs(
    adjacency: NDArray[np.float64],
    gamma: float | NDArray[np.float64],
    *,
    k: int,
    sizes: NDArray[np.int64] | None = None,
) -> ComponentPairs:
    """All of B connected components of n nodes each at once, `adjacency` ``[B, n, n]``.

    `gamma` is one for all or one for each, ``[B]``.

    Where `sizes` ``[B]`` are given, the nodes beyond a component's size are none: their rows are 0,
    and so are their vectors; pairs that a component is too small for are nan and 0.
    """
    degree = adjacency.sum(axis=2)  # [B, n]
    n = degree.shape[1]
    gamma = np.broadcast_to(gamma, len(degree))[:, None]  # [B, 1]
    m = gamma * degree + (1.0 - gamma)
    if sizes is not None:
        m[np.arange(n) >= sizes[:, None]] = 1.0
    scale = np.where(gamma == 0.0, 1.0, gamma)
    norm = spectral_norm_bound(scale, degree[:, None], m[:, None])  # [B, 1]
    root = m**-0.5
    s = (-scale * root)[:, :, None] * adjacency * root[:, None, :]
    diagonal = scale * degree / m  # [B, n]
    trivial = np.sqrt(np.where(degree > 0, m, 0.0))
    trivial /= np.sqrt((trivial**2).sum(axis=1, keepdims=True))  # [B, n]
    # the trivial pair goes to the top: a tiny λ1 must not mix with it; nodes that are none, above
    s += (2.0 * norm * trivial)[:, :, None] * trivial[:, None, :]
    s[:, np.arange(n), np.arange(n)] += np.where(degree > 0, diagonal, 4.0 * norm)
    values, vectors = np.linalg.eigh(s)
    values, vectors = values[:, :-1], vectors[:, :, :-1]
    there = np.full(len(values), n - 1) if sizes is None else sizes - 1  # [B] pairs
    k = min(k, n - 1)
    label = clusters(values, norm)  # [B, n - 1]
    multiplicity = np.minimum((label == 0).sum(axis=1), there)
    more = np.flatnonzero(multiplicity < there)
    gap = np.full(len(values), np.nan)
    gap[more] = values[more, multiplicity[more]] - values[more, 0]
    basis = canonical_basis(values, vectors, norm, k=k)  # [B, n, k]
    y = basis * root[:, :, None]
    jumps = ((y[:, :, None, q] - y[:, None, :, q]) ** 2 for q in range(k))  # [B, n, n] each
    exact = 0.5 * scale * np.stack([(adjacency * j).sum(axis=(1, 2)) for j in jumps], axis=1)
    image = s @ basis  # the trivial pair has no part in it
    residual = np.sqrt(((image - basis * exact[:, None, :]) ** 2).sum(axis=1))  # [B, k]
    if sizes is not None:
        none = np.arange(k) >= there[:, None]  # [B, k]
        exact[none], residual[none] = np.nan, 0.0
        basis = basis * ~none[:, None, :]
    return ComponentPairs(exact, basis, residual, gap, multiplicity, "dense")
