"""The spectral embedding along γ, as the page of a fitted classifier draws it.

Of the largest component (or of a connected part of it, where the work would be too much), φ¹ and φ²
at γ = 0, 0.1, ..., 1 (0, 0.2, ..., 1 where they are many), each turned to match the one before, so
that points move and do not jump.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from pdgnn.errors import ConvergenceError
from pdgnn.graph import Graph
from pdgnn.rewiring import TIE, gradient_node
from pdgnn.spectrum import eigenpairs_path

__all__ = ["EmbeddingPath", "aligned", "by_order", "connected_part", "embedding_path", "map_data"]

WORK = {40_000: 11, 60_000: 6}
"""How many γ are solved for a component of up to so many nodes and edges: 1 to 3 s on one core."""
MOST_PART = 6_000
"""Nodes of the part that is solved where the largest component is more than that."""
GRID = 1000
"""Coordinates are whole numbers from −GRID to GRID: finer than a screen shows."""


@dataclass(frozen=True)
class EmbeddingPath:
    """φ¹ and φ² of `nodes` at each γ, turned to match each other, and the gradient nodes.

    Attributes:
        gammas: ascending, ``[G]``; the γ asked for is one of them.
        chosen: the place of that γ; its axes are φ¹ and φ² themselves.
        nodes: the numbers of the nodes solved, ascending, ``[n]``.
        graph: the graph of these nodes alone.
        positions: ``[G, n, 2]``, each of Frobenius norm 1.
        gradient: the gradient node of each γ, a place in `nodes`, ``[G]``.
        partial: whether `nodes` are a part of the largest component only.
    """

    gammas: list[float]
    chosen: int
    nodes: NDArray[np.int64]
    graph: Graph
    positions: NDArray[np.float64]
    gradient: NDArray[np.int64]
    partial: bool


def embedding_path(
    g: Graph, *, alpha: float, gamma: float, hub: int | None = None
) -> tuple[EmbeddingPath | None, str]:
    """The embedding along γ at `alpha`, or None and the reason in a sentence.

    `hub` is the gradient node of the largest component at (α, γ), where it is known: a part of a
    large component is grown from it, and has it in the place of its own.
    """
    nodes, steps, partial = _to_solve(g, hub)
    if nodes.size < 3:
        return None, "No part of the graph has three joined nodes, so there is nothing to embed."
    graph = g if nodes.size == g.num_nodes else Graph(g._adjacency[nodes][:, nodes])
    gammas = sorted({*(i / (steps - 1) for i in range(steps)), float(gamma)})
    try:
        spectra = eigenpairs_path(graph, gammas, k=2)
    except ConvergenceError as e:
        return None, f"The spectral embedding is left out: {e}."
    phi = np.stack([s.eigenvectors(alpha) for s in spectra])  # [G, n, 2]
    gradient = np.array([gradient_node(graph, phi=at[:, 0]) for at in phi])
    chosen = gammas.index(float(gamma))
    if hub is not None:
        gradient[chosen] = np.searchsorted(nodes, hub)
    found = aligned(phi, chosen)
    return EmbeddingPath(gammas, chosen, nodes, graph, found, gradient, partial), ""


def _to_solve(g: Graph, hub: int | None) -> tuple[NDArray[np.int64], int, bool]:
    """The nodes of the largest component or a part of it, the number of γ, and whether a part."""
    nodes = np.flatnonzero(g.components == np.bincount(g.components).argmax())
    edges = int(np.diff(g._adjacency.indptr)[nodes].sum()) // 2
    for most, steps in WORK.items():
        if nodes.size + edges <= most:
            return nodes, steps, False
    most, steps = next(iter(WORK.items()))
    start = int(np.random.default_rng(0).choice(nodes)) if hub is None else hub
    part = connected_part(g, start, MOST_PART)
    while part.size > 3 and part.size + g._adjacency[part][:, part].nnz // 2 > most:
        part = part[: part.size // 2]
    return np.sort(part), steps, True


def connected_part(g: Graph, start: int, most: int) -> NDArray[np.int64]:
    """Nodes reached from `start`, at most `most`, in the order in which they were reached.

    Every node has a random rank; the next is the one of lowest rank next to those reached. The
    first n of them are joined, for every n, and hubs are no likelier than others once in reach.

    >>> connected_part(Graph.from_edge_index([[0, 1, 2, 4], [1, 2, 3, 5]]), 0, 3).tolist()
    [0, 1, 2]
    """
    rank = np.random.default_rng(0).permutation(g.num_nodes)
    indptr, indices = g._adjacency.indptr, g._adjacency.indices
    found: list[int] = []
    seen, border = {start}, [(0, start)]
    while border and len(found) < most:
        node = heapq.heappop(border)[1]
        found.append(node)
        for other in indices[indptr[node] : indptr[node + 1]].tolist():
            if other not in seen:
                seen.add(other)
                heapq.heappush(border, (int(rank[other]), other))
    return np.array(found, dtype=np.int64)


def aligned(phi: NDArray[np.float64], fixed: int) -> NDArray[np.float64]:
    """Each ``[n, 2]`` of `phi` scaled to norm 1 and turned or mirrored to match its neighbour.

    From the one at `fixed`, which is not turned, outwards: X R with the orthogonal R that makes
    ‖X R − Y‖ least, R = U Vᵀ of the singular value decomposition of Xᵀ Y (Procrustes).

    >>> turned = aligned(np.array([[[1.0, 0], [0, 1], [0, 0]], [[0, -1], [1, 0], [0, 0]]]), 0)
    >>> bool(np.allclose(turned[0], turned[1]))
    True
    """
    size = np.linalg.norm(phi, axis=(1, 2), keepdims=True)
    found: NDArray[np.float64] = phi / np.where(size > 0, size, 1.0)
    later = ((i, i - 1) for i in range(fixed + 1, len(found)))
    earlier = ((i, i + 1) for i in range(fixed - 1, -1, -1))
    for i, matched in (*later, *earlier):
        u, _, vt = np.linalg.svd(found[i].T @ found[matched])
        found[i] = found[i] @ (u @ vt)
    return found


def by_order(positions: NDArray[np.float64]) -> NDArray[np.int64]:
    """The order of the points along each coordinate, from −1000 for the first to 1000.

    By value, a few nodes would lie far from all others on many graphs. Values within 1e-6 of the
    largest of each other count as equal, as for the gradient node, and share their mean place.

    >>> by_order(np.array([[0.0, 5.0], [0.1, 5.0], [7.0, 4.0], [99.0, 6.0]])).tolist()
    [[-1000, 0], [-333, 0], [333, -1000], [1000, 1000]]
    """
    step = TIE * np.abs(positions).max(axis=0)
    values = np.rint(positions / np.where(step > 0, step, 1.0))
    rank = rankdata(values, axis=0)  # [n, 2]
    low, high = rank.min(axis=0), rank.max(axis=0)
    share = (rank - low) / np.where(high > low, high - low, 1.0)  # [n, 2], in [0, 1]
    return np.asarray(np.rint(GRID * (2.0 * share - 1.0)), dtype=np.int64)


def map_data(
    path: EmbeddingPath, order: NDArray[np.int64], added: NDArray[np.int64] | None = None
) -> dict[str, Any]:
    """What the page draws: points are places in `order`, the node numbers of the page's list.

    `xy` has x0, y0, x1, y1, ... for each γ; `gradient` the point that is the gradient node and
    `joined` the points that have an edge to it, to which rewiring adds none. `added` are the nodes
    that the model's rewiring gave an edge to their gradient node, where it is rewired.
    """
    place = np.searchsorted(path.nodes, order)  # of each listed node among the solved
    place[place == path.nodes.size] = 0
    listed = np.flatnonzero(path.nodes[place] == order)
    shown = place[listed]  # [p], places among the solved
    point = np.full(path.nodes.size, -1)
    point[shown] = np.arange(shown.size)
    joined = []
    for v in path.gradient:
        near = point[path.graph._adjacency[[int(v)]].indices]
        joined.append(np.sort(near[near >= 0]).tolist())
    if added is not None:
        spared = np.flatnonzero(~np.isin(path.nodes[shown], added))
        joined[path.chosen] = spared[spared != point[path.gradient[path.chosen]]].tolist()
    return {
        "gammas": [round(gamma, 4) for gamma in path.gammas],
        "chosen": path.chosen,
        "points": listed.tolist(),
        "xy": [by_order(at[shown]).ravel().tolist() for at in path.positions],
        "gradient": point[path.gradient].tolist(),
        "joined": joined,
    }
