"""B_av, B_dx and the edge features made of them (Eq. 5 and the features of PD-GAT).

With the vector field Δ_ij = φ_j − φ_i on the edges, 0 elsewhere::

    B_av = |Δ|,  B_dx = Δ − diag(Δ1),  f_ij = [|Δ_ij|, Δ_ij],

where every row i is divided by its Σ_j |Δ_ij| unless ``normalize=False``. Only the existence of an
edge counts here; edge weights reach Δ through φ. Sums run over the neighbours of i, never over i.

A difference of rounding size is no direction: |Δ_ij| ≤ 1e-12 · max|φ|, the maximum taken over the
component, counts as 0 (8 ε in place of 1e-12 where φ comes in less than double precision). Else the
row of a node whose neighbours all share its φ would be noise, scaled up to length 1.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from pdgnn.errors import InputError
from pdgnn.graph import Graph

__all__ = ["average_matrix", "checked_phi", "derivative_matrix", "direction_features"]

ROUNDING = 1e-12


def direction_features(
    g: Graph,
    phi: Tensor | ArrayLike,
    *,
    edge_index: Tensor | ArrayLike | None = None,
    normalize: bool = True,
) -> Tensor:
    """The features [|Δ_ij|, Δ_ij] / Σ_j |Δ_ij| of each edge, ``[E, 2]``.

    A column (j, i) of `edge_index` carries a message from j to i in PyG, so it has the features of
    row i, the node that aggregates. A self-loop has [0, −Σ_j Δ_ij / Σ_j |Δ_ij|], the diagonal of
    B_dx. A row of zeros stays zeros. With ``normalize=False`` nothing is divided.

    Args:
        g: The graph over whose edges the sums run.
        phi: The vector φ, ``[N]`` or ``[N, 1]``.
        edge_index: The edges wanted: any of g, in any order and direction, and self-loops;
            default ``g.edge_index``.
        normalize: Whether rows are divided by Σ_j |Δ_ij|.

    Returns:
        float32, or float64 if `phi` is a float64 tensor; on the device of `phi` if it is a tensor.

    >>> path = Graph.from_edge_index([[0, 1], [1, 2]])
    >>> direction_features(path, [1.0, 2.0, 5.0], edge_index=[[0, 2, 1], [1, 1, 1]]).tolist()
    [[0.25, -0.25], [0.75, 0.75], [0.0, -0.5]]
    """
    values = checked_phi(g, phi)
    wanted = g.edge_index if edge_index is None else _checked_edges(g, edge_index)
    features = _features(g, values, wanted, normalize)
    double = isinstance(phi, Tensor) and phi.dtype == torch.float64
    return features if double else features.float()


def average_matrix(g: Graph, phi: Tensor | ArrayLike, *, normalize: bool = True) -> sp.csr_array:
    """B_av(φ) = |Δ| as a SciPy CSR array, float64; rows sum to 1, or to 0 where Δ is 0.

    >>> average_matrix(Graph.from_edge_index([[0, 1], [1, 2]]), [1.0, 2.0, 5.0]).toarray().tolist()
    [[0.0, 1.0, 0.0], [0.25, 0.0, 0.75], [0.0, 1.0, 0.0]]
    """
    return _matrix(g, _features(g, checked_phi(g, phi), _rows_first(g), normalize)[:, 0])


def derivative_matrix(g: Graph, phi: Tensor | ArrayLike, *, normalize: bool = True) -> sp.csr_array:
    """B_dx(φ) = Δ − diag(Δ1) as a SciPy CSR array, float64, with its diagonal; rows sum to 0.

    >>> path = Graph.from_edge_index([[0, 1], [1, 2]])
    >>> derivative_matrix(path, [1.0, 2.0, 5.0]).toarray().tolist()
    [[-1.0, 1.0, 0.0], [-0.25, -0.5, 0.75], [0.0, -1.0, 1.0]]
    """
    values = checked_phi(g, phi)
    loops = torch.arange(g.num_nodes).expand(2, -1)  # [2, N]
    diagonal = _features(g, values, loops, normalize)[:, 1]
    off = _matrix(g, _features(g, values, _rows_first(g), normalize)[:, 1])
    return (off + sp.diags_array(diagonal.detach().cpu().numpy())).tocsr()


def checked_phi(g: Graph, phi: Tensor | ArrayLike) -> Tensor:
    """`phi` as a floating-point tensor of shape ``[N]``, on the device where it was."""
    values = _as_tensor(phi, "phi")
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.shape != (g.num_nodes,):
        raise InputError(
            f"phi has shape {list(values.shape)}; give one value for each of {g.num_nodes} nodes"
        )
    if values.is_complex():
        raise InputError("phi is complex; an eigenvector of a symmetric matrix is real")
    if not values.is_floating_point():
        values = values.double()
    if not values.isfinite().all():
        bad = int((~values.isfinite()).nonzero()[0])
        raise InputError(f"phi[{bad}] is {values[bad].item()}; every node needs a finite value")
    return values


def _features(g: Graph, phi: Tensor, edge_index: Tensor, normalize: bool) -> Tensor:
    """The features of the columns of `edge_index`, checked before, in float64, ``[E, 2]``."""
    rounding = max(ROUNDING, 8.0 * torch.finfo(phi.dtype).eps)
    phi = phi.double()
    floor = rounding * _largest_in_component(g, phi)  # [N]

    def delta(i: Tensor, j: Tensor) -> Tensor:
        difference = phi[j] - phi[i]
        return torch.where(difference.abs() > floor[i], difference, 0.0)

    row, col = g.edge_index.to(phi.device)
    on_edges = delta(row, col)  # [2 * num_edges]
    net = torch.zeros_like(phi).index_add(0, row, on_edges)  # [N]
    total = torch.zeros_like(phi).index_add(0, row, on_edges.abs())  # [N]
    source, target = edge_index.to(phi.device)
    wanted = delta(target, source)  # [E], 0 on self-loops
    dx = torch.where(source == target, -net[target], wanted)
    features = torch.stack([wanted.abs(), dx], dim=1)  # [E, 2]
    if normalize:
        features = features / torch.where(total > 0, total, 1.0)[target, None]
    return features


def _largest_in_component(g: Graph, phi: Tensor) -> Tensor:
    """max |φ| over the component of each node, ``[N]``."""
    component = torch.from_numpy(g.components).to(phi.device)
    peak = phi.new_zeros(g.num_components).scatter_reduce(0, component, phi.abs(), "amax")
    return peak[component]


def _rows_first(g: Graph) -> Tensor:
    """The edges in the order of the CSR matrix, the row as the node that aggregates."""
    return g.edge_index.flip(0)


def _matrix(g: Graph, values: Tensor) -> sp.csr_array:
    """A matrix with the pattern of A and the given values in its order, without stored zeros."""
    a = g.adjacency()
    a.data = values.detach().cpu().numpy()
    a.eliminate_zeros()
    return a


def _as_tensor(values: Tensor | ArrayLike, name: str) -> Tensor:
    if isinstance(values, Tensor):
        return values
    try:
        array = np.array(values, order="C")  # a copy, as tensors know no read-only memory
    except ValueError as e:
        raise InputError(f"{name} is ragged; give rows of the same length") from e
    if array.dtype.kind not in "biufc":
        raise InputError(f"{name} holds {array.dtype}; give numbers")
    return torch.from_numpy(array.astype(np.int64) if array.dtype.kind == "u" else array)


def _checked_edges(g: Graph, edge_index: Tensor | ArrayLike) -> Tensor:
    """`edge_index` as a tensor ``[2, E]``, if each column is a self-loop or an edge of `g`."""
    edges = _as_tensor(edge_index, "edge_index")
    if edges.numel() == 0:
        return torch.empty(2, 0, dtype=torch.int64)
    if edges.ndim != 2 or edges.shape[0] != 2:
        raise InputError(f"edge_index has shape {list(edges.shape)}, expected [2, E]")
    if edges.is_floating_point() or edges.is_complex() or edges.dtype == torch.bool:
        raise InputError(f"edge_index holds {edges.dtype}; node ids must be integers")
    edges = edges.long().cpu()
    g.node(int(edges.min()))
    g.node(int(edges.max()))
    row, col = g.edge_index
    known = row * g.num_nodes + col  # [2 * num_edges], sorted
    asked = edges[0] * g.num_nodes + edges[1]  # [E]
    place = torch.searchsorted(known, asked)
    found = torch.cat([known, known.new_tensor([-1])])[place] == asked
    missing = (~found & (edges[0] != edges[1])).nonzero()
    if missing.numel():
        j, i = edges[:, missing[0, 0]].tolist()
        raise InputError(
            f"({j}, {i}) is not an edge of the graph, so it has no direction; ask for edges of g "
            "(one of weight zero is none) or self-loops, or build g from this edge_index"
        )
    return edges
