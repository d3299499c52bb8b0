"""One connected component as a symmetric eigenproblem."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor

from pdgnn.csr import csr_tensor

__all__ = ["Component", "ComponentProblem", "spectral_norm_bound", "symmetric_matrix"]


def spectral_norm_bound(
    scale: float | NDArray[np.float64], degree: NDArray[np.float64], m: NDArray[np.float64]
) -> NDArray[np.float64]:
    """An upper bound of the largest eigenvalue, ``[...]`` of degrees ``[..., n]``.

    xᵀLx ≤ 2 xᵀDx, so it is twice the largest scale · d_i / M_i. The scale is γ, with which it is at
    most 2 (Theorem 3.2), and 1 at γ = 0, with 2 max d for L itself.
    """
    return np.asarray(2.0 * scale * (degree / m).max(axis=-1))


def symmetric_matrix(
    laplacian: sp.csr_array, m: NDArray[np.float64], scale: float
) -> NDArray[np.float64]:
    """The entries of S = scale · M^(−½) L M^(−½), in the order in which L = D − A has them."""
    root = m**-0.5
    data: NDArray[np.float64] = laplacian.data * np.repeat(scale * root, np.diff(laplacian.indptr))
    data *= root[laplacian.indices]
    return data


class Component:
    """A connected graph, with what the solves at every γ share."""

    def __init__(self, adjacency: sp.csr_array, *, device: torch.device | None = None) -> None:
        self.adjacency, self.device = adjacency, device
        self.degree = np.asarray(adjacency.sum(axis=1), dtype=np.float64).ravel()
        self.laplacian = sp.csr_array(sp.diags_array(self.degree) - adjacency)

    @cached_property
    def _index(self) -> tuple[Tensor, Tensor]:
        """Row pointers and columns of L; 32-bit where they hold (twice as quick in a product)."""
        a = self.laplacian
        kind = np.int32 if max(a.nnz, a.shape[0]) < 2**31 else np.int64
        pointers, columns = a.indptr.astype(kind), a.indices.astype(kind)
        return torch.from_numpy(pointers).to(self.device), torch.from_numpy(columns).to(self.device)

    @cached_property
    def on_diagonal(self) -> Tensor:
        """1 for each entry of L on its diagonal, 0 for the others."""
        row = np.repeat(np.arange(self.degree.size), np.diff(self.laplacian.indptr))
        return torch.from_numpy(self.laplacian.indices == row).to(self.device)

    @cached_property
    def _edges(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
        """Both ends and the weight of each edge, once."""
        once = sp.triu(self.adjacency, k=1, format="coo")
        return *once.coords, once.data

    def m(self, gamma: float) -> NDArray[np.float64]:
        """The diagonal of M = γD + (1−γ)I."""
        return gamma * self.degree + (1.0 - gamma)

    def norm(self, gamma: float) -> float:
        """An upper bound of the largest eigenvalue at this γ."""
        return float(spectral_norm_bound(gamma or 1.0, self.degree, self.m(gamma)))

    def operator(
        self, m: NDArray[np.float64], scale: float, dtype: torch.dtype = torch.float64
    ) -> Tensor:
        """S as a torch CSR matrix."""
        data = torch.from_numpy(symmetric_matrix(self.laplacian, m, scale))
        return self.csr(data.to(self.device, dtype))

    @cached_property
    def matrix(self) -> Tensor:
        """L as a torch CSR matrix."""
        return self.csr(torch.from_numpy(self.laplacian.data).to(self.device))

    def csr(self, data: Tensor) -> Tensor:
        """The torch matrix with these entries, in the order in which L has them."""
        return csr_tensor(*self._index, data, self.laplacian.shape)

    def energy(self, y: NDArray[np.float64]) -> NDArray[np.float64]:
        """yᵀLy = Σ a_ij (y_i − y_j)², over the edges, of each column of `y` ``[n, p]``.

        As a sum of squares it is never negative, and keeps its digits where yᵀ(Ly) would cancel.
        """
        i, j, weight = self._edges
        return np.array([weight @ (c[i] - c[j]) ** 2 for c in np.ascontiguousarray(y.T)])


class ComponentProblem:
    """S u = λ u with S = γ M^(−½) L M^(−½), and S = L at γ = 0, on a connected graph.

    With y = M^(−½) u this is L y = (λ/γ) M y: neither L nor an approximate inverse of it depends on
    γ. That is why preconditioners work on y, and why vectors for one γ start the solve of another.
    """

    def __init__(self, component: Component, gamma: float) -> None:
        self._component, self.degree, self.gamma = component, component.degree, gamma
        self.n = self.degree.size
        self._m, self.norm = component.m(gamma), component.norm(gamma)
        share = self.degree / self._m
        self.evenness = float(share.max() / share.min())
        self.scale = gamma or 1.0
        self.root_m = torch.from_numpy(np.sqrt(self._m))[:, None].to(component.device)  # [n, 1]
        self.trivial = (self.root_m / torch.linalg.vector_norm(self.root_m)).ravel()  # [n]

    def shifted(self, value: float) -> sp.csr_array:
        """M^½ (S − value I) M^½ / γ = L − value/γ M, as sparse as L."""
        return self._component.laplacian - sp.diags_array(value / self.scale * self._m)

    @cached_property
    def matrix(self) -> Tensor:
        """S as a torch CSR matrix, made where it is first asked for."""
        return self._component.operator(self._m, self.scale)

    def affine(self, shift: float, scale: float) -> Tensor:
        """The matrix shift I + scale S."""
        shifts = shift * self._component.on_diagonal
        return self._component.csr(torch.add(shifts, self.matrix.values(), alpha=scale))

    def apply(self, u: Tensor) -> Tensor:
        """S u for a block ``[n, b]``."""
        image: Tensor = self.matrix @ u.contiguous()
        return image

    def residuals(self, values: Tensor, vectors: Tensor) -> Tensor:
        """‖S u − λ u‖ of each column, ``[p]``, computed afresh from L, which all γ share."""
        image = self.scale / self.root_m * (self._component.matrix @ (vectors / self.root_m))
        norms: Tensor = torch.linalg.vector_norm(image - vectors * values, dim=0)
        return norms

    def rayleigh(self, vectors: Tensor) -> Tensor:
        """The Rayleigh quotients uᵀSu of unit columns, ``[p]``."""
        y = (vectors / self.root_m).cpu().numpy()
        return torch.from_numpy(self.scale * self._component.energy(y)).to(vectors.device)
