"""How often neighbours share a label: the six measures of the paper's Appendix A.

Every function takes a :class:`~pdgnn.graph.Graph` of N nodes and one integer label per node, z, and
returns a float. They share these conventions:

* Edges are counted, not weighed: edge weights play no part.
* A label of −1 means "unlabelled": the node is left out, and every edge that touches it.
* C is the number of classes that occur; classes may be named by any integers from 0 on.
* What is 0/0 is an error, not a number. `edge`, `class_insensitive`, `adjusted` and
  `label_informativeness` are shares of edges and need at least one; `node` and `aggregation` are
  shares of nodes and do not. All but `edge` and `node` compare classes and need at least two.

>>> square = Graph.from_edge_index([[0, 1, 2, 3], [1, 2, 3, 0]])
>>> edge(square, [0, 0, 1, 1]), edge(square, [0, 0, 1, -1])
(0.5, 0.5)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from pdgnn.errors import InputError
from pdgnn.graph import Graph

__all__ = [
    "MEASURES",
    "adjusted",
    "aggregation",
    "class_insensitive",
    "edge",
    "label_informativeness",
    "measures",
    "node",
]


def edge(g: Graph, y: Tensor | ArrayLike) -> float:
    """H_edge = |{(i,j) ∈ E : z_i = z_j}| / |E|, the share of edges within a class.

    >>> edge(Graph.from_edge_index([[0, 1, 1], [1, 2, 3]]), [0, 0, 1, 0])
    0.6666666666666666
    """
    return float(_with_edges(_labelled(g, y), "edge homophily").same.mean())


def node(g: Graph, y: Tensor | ArrayLike) -> float:
    """H_node = (1/N) Σ_i |{j ∈ N(i) : z_j = z_i}| / |N(i)|; a node without edges counts 0.

    >>> node(Graph.from_edge_index([[0, 1, 1], [1, 2, 3]], num_nodes=5), [0, 0, 1, 0, 0])
    0.5333333333333333
    """
    lab = _labelled(g, y)
    degree = np.bincount(lab.row, minlength=lab.num_nodes)  # [N]
    alike = np.bincount(lab.row[lab.same], minlength=lab.num_nodes)  # [N]
    return float((alike / np.maximum(degree, 1)).mean())


def class_insensitive(g: Graph, y: Tensor | ArrayLike) -> float:
    """H_class = 1/(C−1) Σ_c [h_c − N_c/N]_+, with h_c = H_edge over the edge ends in class c.

    A class without edges adds 0.

    >>> class_insensitive(Graph.from_edge_index([[0, 2], [1, 3]]), [0, 0, 1, 1])
    1.0
    """
    lab = _with_classes(_with_edges(_labelled(g, y), "class homophily"), "class homophily")
    within = np.bincount(lab.z[lab.row[lab.same]], minlength=lab.num_classes)  # [C]
    h = within / np.maximum(lab.class_degree, 1)
    excess = np.maximum(h - lab.class_size / lab.num_nodes, 0.0)
    return float(excess.sum() / (lab.num_classes - 1))


def adjusted(g: Graph, y: Tensor | ArrayLike) -> float:
    """H*_edge = (H_edge − Σ_c p(c)²) / (1 − Σ_c p(c)²), with p(c) the share of edge ends in c.

    It is 1 when every edge stays in its class, 0 for labels dealt out at random, and may be
    negative.

    >>> adjusted(Graph.from_edge_index([[0, 1, 2, 3], [1, 2, 3, 0]]), [0, 1, 0, 1])
    -1.0
    """
    p, lab = _edge_end_distribution(g, y, "adjusted homophily")
    chance = float((p**2).sum())
    return float((lab.same.mean() - chance) / (1.0 - chance))


def label_informativeness(g: Graph, y: Tensor | ArrayLike) -> float:
    """LI = 2 − Σ p(c1,c2) log p(c1,c2) / Σ p(c) log p(c): what a neighbour's label tells.

    p(c1,c2) is the share of edge ends in class c1 whose other end is in class c2.

    >>> label_informativeness(Graph.from_edge_index([[0, 1, 2, 3], [1, 2, 3, 0]]), [0, 1, 0, 1])
    1.0
    """
    p, lab = _edge_end_distribution(g, y, "label informativeness")
    _, counts = np.unique(lab.z[lab.row] * lab.num_classes + lab.z[lab.col], return_counts=True)
    pairs = counts / lab.row.size
    p = p[p > 0]
    return float(2.0 - (pairs * np.log(pairs)).sum() / (p * np.log(p)).sum())


def aggregation(g: Graph, y: Tensor | ArrayLike, *, rescale: bool = True) -> float:
    """The share of nodes that aggregation leaves closer to their own class than to the others.

    H = (1/N) |{i : Mean_j(S_ij | z_j = z_i) ≥ Mean_j(S_ij | z_j ≠ z_i)}|, where S = F Fᵀ,
    F = (A + I) Z and Z is the one-hot labels; j = i is one of its own class. The published values
    are 2 max(H − ½, 0), which `rescale` returns; ``rescale=False`` returns H.

    With F_c the sum of the rows of F over class c, the two means are F_i·F_c / N_c and
    F_i·(ΣF − F_c) / (N − N_c), so the test is F_i·(N F_c − N_c ΣF) ≥ 0: integers throughout, hence
    exact on ties, and no N × N similarity.

    >>> square = Graph.from_edge_index([[0, 1, 2, 3], [1, 2, 3, 0]])
    >>> aggregation(square, [0, 0, 0, 1]), aggregation(square, [0, 0, 0, 1], rescale=False)
    (0.5, 0.75)
    """
    lab = _with_classes(_labelled(g, y), "aggregation homophily")
    loops = np.arange(lab.num_nodes)
    row, col = np.concatenate([lab.row, loops]), np.concatenate([lab.col, loops])  # A + I
    pair = lab.z[row] * lab.num_classes + lab.z[col]
    _, kind, counts = np.unique(pair, return_inverse=True, return_counts=True)
    into = np.bincount(lab.z[col], minlength=lab.num_classes)  # [C], ΣF
    # Entry (i, j) of A + I adds component z_j of N F_c − N_c ΣF, c = z_i, to node i's score.
    terms = lab.num_nodes * counts[kind] - lab.class_size[lab.z[row]] * into[lab.z[col]]
    share = float(_sums_not_negative(row, terms, lab.num_nodes).mean())
    return max(2.0 * share - 1.0, 0.0) if rescale else share


def measures(g: Graph, y: Tensor | ArrayLike) -> dict[str, float]:
    """All six measures under their names in the paper's table, in its order.

    >>> list(measures(Graph.from_edge_index([[0, 1], [1, 2]]), [0, 0, 1]))
    ['node', 'edge', 'class', 'aggregation', 'adjusted', 'label_informativeness']
    """
    return {name: measure(g, y) for name, measure in MEASURES.items()}


MEASURES: dict[str, Callable[[Graph, Tensor | ArrayLike], float]] = {
    "node": node,
    "edge": edge,
    "class": class_insensitive,
    "aggregation": aggregation,
    "adjusted": adjusted,
    "label_informativeness": label_informativeness,
}
"""By their names in the paper's table, in its order."""


@dataclass(frozen=True)
class _Labelled:
    """The subgraph of the labelled nodes: both directions of each edge, classes 0 to C−1."""

    z: NDArray[np.int64]  # [N]
    row: NDArray[np.int64]  # [2E]
    col: NDArray[np.int64]  # [2E]
    class_size: NDArray[np.int64]  # [C]

    @property
    def num_nodes(self) -> int:
        return self.z.size

    @property
    def num_classes(self) -> int:
        return self.class_size.size

    @property
    def same(self) -> NDArray[np.bool_]:
        """Whether each edge joins two nodes of one class, ``[2E]``."""
        return np.asarray(self.z[self.row] == self.z[self.col])

    @property
    def class_degree(self) -> NDArray[np.int64]:
        """The number of edge ends in each class, ``[C]``."""
        return np.bincount(self.z[self.row], minlength=self.num_classes)


def _labelled(g: Graph, y: Tensor | ArrayLike) -> _Labelled:
    labels = _checked_labels(g, y)
    known = labels >= 0
    if not known.any():
        raise InputError("every label is -1 (unlabelled); homophily needs at least one label")
    _, z, class_size = np.unique(labels[known], return_inverse=True, return_counts=True)
    place = np.cumsum(known) - 1  # a node's number among the labelled ones
    row, col = g.edge_index.numpy()
    kept = known[row] & known[col]
    return _Labelled(z, place[row[kept]], place[col[kept]], class_size)


def _checked_labels(g: Graph, y: Tensor | ArrayLike) -> NDArray[np.int64]:
    try:
        labels: NDArray[Any] = y.detach().cpu().numpy() if isinstance(y, Tensor) else np.asarray(y)
    except ValueError as e:
        raise InputError("the labels are ragged; give one integer for each node") from e
    if labels.shape != (g.num_nodes,):
        raise InputError(
            f"the labels have shape {labels.shape}; give one for each of {g.num_nodes} nodes"
        )
    if labels.dtype.kind not in "iu":
        raise InputError(f"the labels are {labels.dtype}; number the classes with integers from 0")
    labels = labels.astype(np.int64)
    if labels.min() < -1:
        raise InputError(
            f"label {labels.min()} is neither a class (0 and up) nor -1, which means unlabelled"
        )
    return labels


def _with_edges(lab: _Labelled, measure: str) -> _Labelled:
    if lab.row.size == 0:
        raise InputError(f"no edge joins two labelled nodes; {measure} is a share of such edges")
    return lab


def _with_classes(lab: _Labelled, measure: str) -> _Labelled:
    if lab.num_classes < 2:
        raise InputError(f"all labelled nodes are in one class; {measure} compares at least two")
    return lab


def _edge_end_distribution(
    g: Graph, y: Tensor | ArrayLike, measure: str
) -> tuple[NDArray[np.float64], _Labelled]:
    """p(c) = Σ_{i: z_i = c} d_i / 2|E|, ``[C]``, where it spreads over at least two classes."""
    lab = _with_edges(_labelled(g, y), measure)
    if np.count_nonzero(lab.class_degree) < 2:
        raise InputError(f"all edges lie in one class; {measure} is then 0/0, try `edge` instead")
    return lab.class_degree / lab.row.size, lab


def _sums_not_negative(
    row: NDArray[np.int64], terms: NDArray[np.int64], n: int
) -> NDArray[np.bool_]:
    """Whether the terms of each row add up to 0 or more, ``[n]``, without overflow.

    A term is high·2³¹ + low with 0 ≤ low < 2³¹; the two halves are added apart.
    """
    high, low = np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int64)
    np.add.at(high, row, terms >> 31)
    np.add.at(low, row, terms & (2**31 - 1))
    return np.asarray(high + (low >> 31) >= 0)
