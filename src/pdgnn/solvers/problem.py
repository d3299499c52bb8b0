"""One connected component as a symmetric eigenproblem."""

from __future__ import annotations

import warnings

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor

__all__ = ["ComponentProblem", "energy", "spectral_norm_bound"]


def spectral_norm_bound(
    gamma: float, degree: NDArray[np.float64], m: NDArray[np.float64]
) -> NDArray[np.float64]:
    """An upper bound of the largest eigenvalue, ``[...]`` of degrees ``[..., n]``.

    xᵀLx ≤ 2 xᵀDx, so it is twice the largest γ d_i / M_i: at most 2 for γ > 0 (Theorem 3.2), and
    2 max d for L itself at γ = 0.
    """
    return np.asarray(2.0 * (gamma or 1.0) * (degree / m).max(axis=-1))


def energy(adjacency: sp.csr_array, y: NDArray[np.float64], scale: float) -> NDArray[np.float64]:
    """scale · yᵀLy = scale · ½ Σ_ij a_ij (y_i − y_j)² of each column of `y` ``[n, p]``.

    As a sum of squares it is never negative, and keeps its digits where yᵀ(Ly) would cancel.
    """
    edges = adjacency.tocoo()
    i, j = edges.coords
    sums = [float((edges.data * (column[i] - column[j]) ** 2).sum()) for column in y.T]
    return 0.5 * scale * np.array(sums)


class ComponentProblem:
    """S u = λ u with S = γ M^(−½) L M^(−½), and S = L at γ = 0, on a connected graph.

    With y = M^(−½) u this is L y = (λ/γ) M y: neither L nor an approximate inverse of it depends on
    γ. That is why preconditioners work on y, and why vectors for one γ start the solve of another.
    """

    def __init__(
        self,
        adjacency: sp.csr_array,
        gamma: float,
        *,
        device: torch.device | None = None,
        laplacian: sp.csr_array | None = None,
    ) -> None:
        """`laplacian` is L = D − A where it is known already, from another γ."""
        self.adjacency = adjacency
        self.degree = np.asarray(adjacency.sum(axis=1), dtype=np.float64).ravel()
        self.n = self.degree.size
        m = gamma * self.degree + (1.0 - gamma)
        self.norm = float(spectral_norm_bound(gamma, self.degree, m))
        self.scale = gamma or 1.0
        self.root_m = torch.from_numpy(np.sqrt(m))[:, None].to(device)  # [n, 1]
        self.trivial = (self.root_m / torch.linalg.vector_norm(self.root_m)).ravel()  # [n]
        if laplacian is None:
            laplacian = sp.csr_array(sp.diags_array(self.degree) - adjacency)
        self.laplacian = laplacian
        self._matrix = _symmetric_matrix(laplacian, m, self.scale).to(device)

    def apply(self, u: Tensor) -> Tensor:
        """S u for a block ``[n, b]``."""
        image: Tensor = self._matrix @ u.contiguous()
        return image

    def residuals(self, values: Tensor, vectors: Tensor) -> Tensor:
        """‖S u − λ u‖ of each column, ``[p]``, computed afresh."""
        norms: Tensor = torch.linalg.vector_norm(self.apply(vectors) - vectors * values, dim=0)
        return norms

    def rayleigh(self, vectors: Tensor) -> Tensor:
        """The Rayleigh quotients uᵀSu of unit columns, ``[p]``."""
        y = (vectors / self.root_m).cpu().numpy()
        return torch.from_numpy(energy(self.adjacency, y, self.scale)).to(vectors.device)


def _symmetric_matrix(laplacian: sp.csr_array, m: NDArray[np.float64], scale: float) -> Tensor:
    """S as a torch CSR matrix; 32-bit indices where they hold (twice as quick in a product)."""
    root = m**-0.5
    data = scale * laplacian.data * root[laplacian.indices]
    data *= np.repeat(root, np.diff(laplacian.indptr))
    index = np.int32 if max(laplacian.nnz, laplacian.shape[0]) < 2**31 else np.int64
    with warnings.catch_warnings():  # torch warns once of every CSR tensor: a beta feature
        warnings.simplefilter("ignore", UserWarning)
        return torch.sparse_csr_tensor(
            torch.from_numpy(laplacian.indptr.astype(index)),
            torch.from_numpy(laplacian.indices.astype(index)),
            torch.from_numpy(data),
            size=laplacian.shape,
            check_invariants=False,
        )
