"""The smallest non-trivial eigenpairs of L^(1/2,γ), canonical and certified."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pdgnn.errors import InputError
from pdgnn.graph import Graph
from pdgnn.laplacian import check_alpha, check_gamma, normalizer

__all__ = ["Spectrum", "eigenpairs"]


@dataclass(frozen=True)
class Spectrum:
    """The k smallest non-trivial eigenpairs of every connected component at one γ."""

    gamma: float
    eigenvalues: NDArray[np.float64]
    component_eigenvalues: NDArray[np.float64]
    residuals: NDArray[np.float64]
    gap: float
    multiplicity: int
    solver: str
    seconds: float
    vectors: NDArray[np.float64]
    m: NDArray[np.float64]

    def eigenvectors(self, alpha: float = 1.0) -> NDArray[np.float64]:
        """φ^(k)(α,γ) = M^(1/2−α) u^(k), ``[N, k]``, not rescaled."""
        return self.vectors * (self.m ** (0.5 - check_alpha(alpha)))[:, None]


def eigenpairs(g: Graph, *, gamma: float = 1.0, k: int = 1) -> Spectrum:
    """PLACEHOLDER: dense; only right for the public interface."""
    gamma = check_gamma(gamma)
    if k < 1:
        raise InputError(f"k must be at least 1, not {k}")
    m = normalizer(g, gamma)
    scale = gamma if gamma > 0 else 1.0
    vectors = np.zeros((g.num_nodes, k))
    values = np.full((g.num_components, k), np.nan)
    for c in range(g.num_components):
        nodes = np.flatnonzero(g.components == c)
        a = g.adjacency()[nodes][:, nodes].toarray()
        lap = np.diag(a.sum(1)) - a
        root = m[nodes] ** -0.5
        lam, u = np.linalg.eigh(scale * root[:, None] * lap * root[None, :])
        for q in range(min(k, len(nodes) - 1)):
            v = u[:, q + 1]
            top = np.flatnonzero(v**2 >= (v**2).max() * (1 - 1e-6))[0]
            vectors[nodes, q] = v * np.sign(v[top])
            values[c, q] = lam[q + 1]
    big = int(np.bincount(g.components).argmax())
    return Spectrum(gamma, values[big], values, np.zeros(k), 1.0, 1, "dense", 0.0, vectors, m)
