"""The gradient node and the edges that lead to it (Section 3.3).

The first non-trivial eigenvector φ = φ^(1)(α,γ) places the nodes of a component on a line. The
gradient node is the rightmost one, v = argmax φ. Rewiring joins other nodes to it, so that what is
far away on the line comes within two hops. Components are never joined to each other.

Values of φ within 1e-6 · max|φ| of each other, the maximum taken over the component, count as
equal, as eigenpairs of large graphs are not much more accurate: among equal maxima the lowest index
is the gradient node, and a node exactly half the range away is far.
"""

from __future__ import annotations

from typing import Any, Literal, get_args

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from pdgnn.direction import checked_phi
from pdgnn.errors import InputError
from pdgnn.graph import Graph, GraphReport
from pdgnn.spectrum import eigenpairs

__all__ = ["Reach", "RewiredGraph", "check_reach", "gradient_node", "gradient_nodes", "rewire"]

Reach = Literal["all", "far"]

TIE = 1e-6
# Components named one by one in the words of a rewired graph.
NAMED = 3


class RewiredGraph(Graph):
    """A graph with edges added to the gradient nodes, and the record of what was added and why.

    Attributes:
        added: The new edges, each once, as (node, gradient node), ``[2, A]``.
        gradient_nodes: The gradient node of each component of the original graph, ``[C]``.
        reach: Which nodes were joined, "all" or "far".
        phi: φ of the original graph, ``[N]``.
    """

    def __init__(
        self,
        adjacency: sp.csr_array,
        report: GraphReport | None = None,
        node_ids: NDArray[Any] | None = None,
        *,
        added: Tensor,
        gradient_nodes: NDArray[np.int64],
        reach: Reach,
        phi: NDArray[np.float64],
    ) -> None:
        """Trust the arguments; :func:`rewire` is what makes them."""
        super().__init__(adjacency, report, node_ids)
        self.added = added
        self.gradient_nodes = gradient_nodes
        self.reach: Reach = reach
        self.phi = phi

    @property
    def why(self) -> list[str]:
        """What was added, in words: the rule, then the largest components one by one."""
        size = np.bincount(self.components)
        new = np.bincount(self.components[self.added[0].numpy()], minlength=size.size)
        rule = {
            "all": "every node not yet joined to the gradient node of its component",
            "far": "every such node at least half the range of φ from its gradient node",
        }
        lines = [f"{_count(new.sum(), 'edge')} added: {rule[self.reach]}"]
        order = np.argsort(-size, kind="stable")[: (size > 1).sum()]
        lines += [
            f"gradient node {self._name(self.gradient_nodes[c])}, "
            f"in a component of {size[c]:,} nodes: {_count(new[c], 'edge')}"
            for c in order[:NAMED]
        ]
        if order.size > NAMED:
            rest = order[NAMED:]
            text = _count(rest.size, "smaller component")
            lines.append(f"{text}: {_count(new[rest].sum(), 'edge')}")
        return lines

    def _name(self, node: int) -> Any:
        return node if self.node_ids is None else self.node_ids[node]

    def __repr__(self) -> str:
        return f"Rewired{super().__repr__()[:-1]}, added={self.added.shape[1]})"


def gradient_node(
    g: Graph, *, alpha: float = 1.0, gamma: float = 1.0, phi: Tensor | ArrayLike | None = None
) -> int:
    """The gradient node argmax φ of the largest component (the first one, among equally large).

    `phi` is φ where it is known already, ``[N]``; then `alpha` and `gamma` are not used.

    >>> path = Graph.from_edge_index([[0, 1, 2], [1, 2, 3]])
    >>> gradient_node(path)
    0
    >>> gradient_node(path, phi=[0.1, 0.5, 0.5, 0.2])
    1
    """
    largest = np.bincount(g.components).argmax()
    return int(gradient_nodes(g, alpha=alpha, gamma=gamma, phi=phi)[largest])


def gradient_nodes(
    g: Graph, *, alpha: float = 1.0, gamma: float = 1.0, phi: Tensor | ArrayLike | None = None
) -> NDArray[np.int64]:
    """The gradient node of each component, ``[num_components]``; an isolated node is its own.

    >>> gradient_nodes(Graph.from_edge_index([[0, 3], [1, 4]], num_nodes=5)).tolist()
    [0, 2, 3]
    """
    return _rightmost(g, _embedding(g, alpha, gamma, phi))


def rewire(
    g: Graph,
    *,
    alpha: float = 1.0,
    gamma: float = 1.0,
    reach: Reach = "all",
    phi: Tensor | ArrayLike | None = None,
) -> RewiredGraph:
    """`g` with edges added between nodes and the gradient node v of their component.

    ``reach="all"`` joins every node that is not joined to v yet; ``reach="far"`` only those of them
    with φ_v − φ_i at least half of max φ − min φ in their component. New edges have weight 1, in a
    weighted graph too. φ is that of `g`; `phi` hands it over where it is known already, ``[N]``,
    and then `alpha` and `gamma` are not used.

    Rewiring once more with the same `phi` adds nothing. Without `phi` it may: the rewired graph has
    another φ.

    >>> path = Graph.from_edge_index([[0, 1, 2, 3], [1, 2, 3, 4]])
    >>> far = rewire(path, reach="far")
    >>> far, far.added.tolist()
    (RewiredGraph(num_nodes=5, num_edges=7, added=3), [[2, 3, 4], [0, 0, 0]])
    >>> print(*far.why, sep="\\n")
    3 edges added: every such node at least half the range of φ from its gradient node
    gradient node 0, in a component of 5 nodes: 3 edges
    """
    check_reach(reach)
    values = _embedding(g, alpha, gamma, phi)
    rightmost = _rightmost(g, values)
    wanted = np.ones(g.num_nodes, dtype=bool) if reach == "all" else _far(g, values)
    wanted[rightmost] = False
    wanted[g._adjacency[rightmost].indices] = False  # joined already
    nodes = np.flatnonzero(wanted)
    added = np.stack([nodes, rightmost[g.components[nodes]]])  # [2, A]
    both = np.concatenate([added, added[::-1]], axis=1)  # [2, 2A]
    new = sp.coo_array((np.ones(both.shape[1]), tuple(both)), shape=g._adjacency.shape)
    adjacency = (g._adjacency + new).tocsr()
    adjacency.sort_indices()
    return RewiredGraph(
        adjacency,
        g.report,
        g.node_ids,
        added=torch.from_numpy(added),
        gradient_nodes=rightmost,
        reach=reach,
        phi=values,
    )


def check_reach(reach: str) -> None:
    """An error unless `reach` is one of the two there are."""
    if reach not in get_args(Reach):
        raise InputError(f"reach must be 'all' or 'far', not {reach!r}")


def _embedding(
    g: Graph, alpha: float, gamma: float, phi: Tensor | ArrayLike | None
) -> NDArray[np.float64]:
    if phi is None:
        return eigenpairs(g, gamma=gamma).eigenvectors(alpha)[:, 0]
    return checked_phi(g, phi).detach().double().cpu().numpy()


def _extremes(
    g: Graph, phi: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """The maximum, the minimum and the tolerance of equality in the component of each node."""
    high, low = np.full(g.num_components, -np.inf), np.full(g.num_components, np.inf)
    np.maximum.at(high, g.components, phi)
    np.minimum.at(low, g.components, phi)
    tie = TIE * np.maximum(np.abs(high), np.abs(low))
    return high[g.components], low[g.components], tie[g.components]


def _rightmost(g: Graph, phi: NDArray[np.float64]) -> NDArray[np.int64]:
    high, _, tie = _extremes(g, phi)
    top = np.flatnonzero(phi >= high - tie)
    _, first = np.unique(g.components[top], return_index=True)  # [C]
    return top[first]


def _far(g: Graph, phi: NDArray[np.float64]) -> NDArray[np.bool_]:
    high, low, tie = _extremes(g, phi)
    span = high - low
    return np.asarray((high - phi >= span / 2.0 - tie) & (span > tie))


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
