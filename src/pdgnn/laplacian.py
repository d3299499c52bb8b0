"""The parameterized Laplacian L^(α,γ) and its diffusion matrix P^(α,γ) (Definition 3.1).

With M = γD + (1−γ)I and L = D − A::

    L^(α,γ) = γ M^(−α) L M^(α−1)
    P^(α,γ) = I − L^(α,γ) = M^(−α) (γA + (1−γ)I) M^(α−1)

so that off the diagonal P_ij = γ a_ij M_i^(−α) M_j^(α−1), and on it P_ii = (1−γ) / M_i. A node
without edges has P_ii = 1. At γ = 0, P = I.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator
from torch import Tensor

from pdgnn.errors import InputError, check_number
from pdgnn.graph import Graph

__all__ = [
    "DiffusionOperator",
    "check_alpha",
    "check_gamma",
    "check_scopes",
    "diffusion_entries",
    "diffusion_matrix",
    "diffusion_weights",
    "normalizer",
    "parameterized_laplacian",
]

Vector = NDArray[np.float64]


def check_alpha(alpha: float) -> float:
    """`alpha` as a float if it lies in [0, 1]."""
    return check_number("alpha", _number(alpha), 0, 1)


def check_gamma(gamma: float) -> float:
    """`gamma` as a float if it lies in [0, 1]."""
    return check_number("gamma", _number(gamma), 0, 1)


def check_scopes(scopes: Iterable[Sequence[float]]) -> tuple[tuple[float, float], ...]:
    """The pairs (α, γ) as floats, if each lies in [0, 1] × [0, 1] and there is at least one."""
    try:
        pairs = [(alpha, gamma) for alpha, gamma in scopes]
    except (TypeError, ValueError):
        pairs = []
    if not pairs:
        raise InputError(
            f"scopes must be pairs (alpha, gamma), at least one, not {scopes!r}; such as ((0, 1),)"
        )
    return tuple((check_alpha(alpha), check_gamma(gamma)) for alpha, gamma in pairs)


def _number(value: Any) -> Any:
    """A number that is written as text, such as one of a command line, as a float."""
    try:
        return float(value) if isinstance(value, str) else value
    except ValueError:
        return value


def diffusion_entries(degree: Any, alpha: Any, gamma: Any) -> tuple[Any, Any, Any]:
    """P^(α,γ) by the degrees d of its nodes: (left, right, diagonal), ``[N]`` each.

    Off the diagonal P_ij = left_i a_ij right_j with left = γ M^(−α) and right = M^(α−1); on it
    P_ii = (1−γ) / M_i, and 1 for a node without edges. For NumPy arrays and for tensors, where
    gradients reach α, γ and d.

    >>> [v.tolist() for v in diffusion_entries(np.array([4.0, 0.0]), 0.5, 1.0)]
    [[0.5, 1.0], [0.5, 1.0], [0.0, 1.0]]
    """
    m = _normalizer(degree, gamma)
    alone = (degree + (degree == 0)) - degree  # 1 for a node without edges, in the type of d
    stay = (1.0 - gamma) + gamma * alone
    return gamma * m**-alpha, m ** (alpha - 1.0), stay / m


def _normalizer(degree: Any, gamma: Any) -> Any:
    """M = γd + (1−γ), with d = 1 for a node without edges, which makes it exactly 1."""
    return gamma * (degree + (degree == 0)) + (1.0 - gamma)


def normalizer(g: Graph, gamma: float) -> Vector:
    """The diagonal of M = γD + (1−γ)I, ``[N]``; 1 for a node without edges, at every γ.

    >>> normalizer(Graph.from_edge_index([[0, 0], [1, 2]], num_nodes=4), 0.5).tolist()
    [1.5, 1.0, 1.0, 1.0]
    """
    m: Vector = _normalizer(g.degree, check_gamma(gamma))
    return m


def diffusion_matrix(g: Graph, *, alpha: float = 1.0, gamma: float = 1.0) -> sp.csr_array:
    """P^(α,γ) = I − L^(α,γ) as a SciPy CSR array, float64.

    At (1, 1) it is the random walk D⁻¹A, at (½, 1) the symmetric D^(−½) A D^(−½).

    >>> diffusion_matrix(Graph.from_edge_index([[0, 0], [1, 2]])).toarray().tolist()
    [[0.0, 0.5, 0.5], [1.0, 0.0, 0.0], [1.0, 0.0, 0.0]]
    """
    left, right, diagonal = diffusion_entries(g.degree, check_alpha(alpha), check_gamma(gamma))
    hops = sp.diags_array(left) @ g._adjacency @ sp.diags_array(right)
    return (hops + sp.diags_array(diagonal)).tocsr()


def parameterized_laplacian(g: Graph, *, alpha: float = 1.0, gamma: float = 1.0) -> sp.csr_array:
    """L^(α,γ) = γ M^(−α) L M^(α−1) as a SciPy CSR array, float64 (Definition 3.1).

    At (1, 1) it is L_rw, at (½, 1) L_sym; L^(α,γ) / γ tends to L as γ goes to 0.

    >>> parameterized_laplacian(Graph.from_edge_index([[0], [1]]), gamma=0.5).toarray().tolist()
    [[0.5, -0.5], [-0.5, 0.5]]
    """
    # Not as I − P, where a small γ would lose its digits.
    left, right, _ = diffusion_entries(g.degree, check_alpha(alpha), check_gamma(gamma))
    combinatorial = sp.diags_array(g.degree) - g._adjacency
    return (sp.diags_array(left) @ combinatorial @ sp.diags_array(right)).tocsr()


class DiffusionOperator(LinearOperator):  # type: ignore[misc]
    """P^(α,γ) as a `LinearOperator` that holds nothing but the graph and M.

    ``DiffusionOperator(g).laplacian()`` is L^(α,γ) in the same form.

    >>> g = Graph.from_edge_index([[0, 0], [1, 2]])
    >>> (DiffusionOperator(g, alpha=1.0, gamma=1.0) @ [1.0, 2.0, 4.0]).tolist()
    [3.0, 1.0, 1.0]
    """

    def __init__(self, g: Graph, *, alpha: float = 1.0, gamma: float = 1.0) -> None:
        scope = check_alpha(alpha), check_gamma(gamma)
        self._left, self._right, self._diagonal = diffusion_entries(g.degree, *scope)
        self._adjacency = g._adjacency
        super().__init__(np.dtype(np.float64), (g.num_nodes, g.num_nodes))

    def _scaled(self, x: Vector, left: Vector, right: Vector) -> Vector:
        shape = (-1,) + (1,) * (x.ndim - 1)
        hops: Vector = self._adjacency @ (right.reshape(shape) * x)
        stay: Vector = self._diagonal.reshape(shape) * x
        return stay + left.reshape(shape) * hops

    def _matvec(self, x: Vector) -> Vector:
        return self._scaled(x, self._left, self._right)

    _matmat = _matvec

    def _rmatvec(self, x: Vector) -> Vector:
        return self._scaled(x, self._right, self._left)

    _rmatmat = _rmatvec

    def laplacian(self) -> LinearOperator:
        """L^(α,γ) = I − P^(α,γ), matrix-free."""
        return LinearOperator(
            shape=self.shape,
            dtype=self.dtype,
            matvec=lambda x: x - self._matvec(x),
            matmat=lambda x: x - self._matvec(x),
            rmatvec=lambda x: x - self._rmatvec(x),
        )


def diffusion_weights(
    edge_index: Tensor | tuple[Tensor, Tensor],
    num_nodes: int,
    *,
    alpha: float | Tensor = 1.0,
    gamma: float | Tensor = 1.0,
    edge_weight: Tensor | None = None,
    degree: tuple[Tensor, Tensor] | None = None,
) -> tuple[Tensor, Tensor]:
    """The entries of P^(α,γ) on the edges ``[E]`` and on the diagonal ``[N]``, differentiable.

    `edge_index` is PyG's: an edge (j, i) carries a message from j to i, and its weight is
    P_ij = γ a_ij M_i^(−α) M_j^(α−1). The graph must be undirected and free of self-loops (every
    edge both ways). Gradients reach `alpha`, `gamma` and `edge_weight` where they are tensors. A
    tensor's values are not checked, so that no step waits for the device.

    Degrees are counted on the edges given, unless `degree` has those of sources and of targets, as
    of a sampled block, whose own are not those of the graph. The diagonal is that of the targets.

    >>> on_edges, on_diagonal = diffusion_weights(
    ...     torch.tensor([[0, 1, 0, 2], [1, 0, 2, 0]]), 3, alpha=1.0, gamma=1.0)
    >>> on_edges.tolist(), on_diagonal.tolist()
    ([1.0, 0.5, 1.0, 0.5], [0.0, 0.0, 0.0])
    """
    alpha = alpha if isinstance(alpha, Tensor) else check_alpha(alpha)
    gamma = gamma if isinstance(gamma, Tensor) else check_gamma(gamma)
    source, target = edge_index
    if degree is None:
        given = (t for t in (edge_weight, gamma, alpha) if isinstance(t, Tensor))
        like = next(given, torch.empty(0))
        weight = like.new_ones(source.numel()) if edge_weight is None else edge_weight
        weight = weight.to(source.device)
        into = weight.new_zeros(num_nodes).index_add(0, target, weight)  # [N]
        degree = (into, into)
    of_source, of_target = degree
    left, right, on_diagonal = diffusion_entries(of_target, alpha, gamma)  # [targets]
    if of_source is not of_target:
        _, right, _ = diffusion_entries(of_source, alpha, gamma)  # [sources]
    on_edges = left[target] * right[source]  # [E]
    if edge_weight is not None:
        on_edges = on_edges * edge_weight.to(source.device)
    return on_edges, on_diagonal
