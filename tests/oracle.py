"""The spectrum by its definition: dense, one component at a time, one projector after another."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import networkx as nx
import numpy as np

from pdgnn import Graph

ITERATIVE = ("lanczos", "lu", "amg")
SAME = 1e-8
"""Eigenvalues of these small graphs agree to 1e-12, or differ by far more than this."""
TIE = 1e-6


@dataclass
class Expected:
    """What a Spectrum should hold; `eigenvalues` and `multiplicity` are the largest component's."""

    eigenvalues: np.ndarray  # [k]
    component_eigenvalues: np.ndarray  # [components, k]
    u: np.ndarray  # [N, k]
    multiplicity: int
    gap: float


def symmetric(g: Graph, gamma: float) -> np.ndarray:
    """L^(1/2,γ) of Definition 3.1, and L itself at γ = 0; a node without edges has a row of 0."""
    a = g.adjacency().toarray()
    degree = a.sum(axis=1)
    m = np.where(degree > 0, gamma * degree + (1 - gamma), 1.0)
    laplacian = np.diag(degree) - a
    return laplacian if gamma == 0 else gamma * np.diag(m**-0.5) @ laplacian @ np.diag(m**-0.5)


@cache
def by_hand(g: Graph, gamma: float, k: int = 1) -> Expected:
    """Eigenvalues by NumPy; Π e_i / ‖Π e_i‖ at the largest Π_ii, the lowest index among ties."""
    s = symmetric(g, gamma)
    parts = list(nx.connected_components(nx.from_scipy_sparse_array(g.adjacency())))
    u = np.zeros((g.num_nodes, k))
    every = np.full((len(parts), k), np.nan)
    answers = {}
    for c, part in enumerate(parts):  # in order of their first node
        nodes = np.array(sorted(part))
        values, vectors = np.linalg.eigh(s[np.ix_(nodes, nodes)])
        values, vectors = values[1:], vectors[:, 1:]
        width = min(k, values.size)
        every[c, :width] = values[:width]
        u[nodes, :width] = _canonical(values, vectors, width)
        other = np.flatnonzero(values > values[0] * (1 + SAME)) if values.size else []
        first = int(other[0]) if len(other) else values.size
        answers[c] = (first, values[first] - values[0] if len(other) else np.nan)
    largest = max(range(len(parts)), key=lambda c: len(parts[c]))
    return Expected(every[largest], every, u, *answers[largest])


def _canonical(values: np.ndarray, vectors: np.ndarray, k: int) -> np.ndarray:
    """One eigenspace after another; inside one, Π − u uᵀ takes the place of Π."""
    chosen = np.zeros((len(vectors), k))
    for q in range(k):
        same = np.abs(values - values[q]) <= SAME * values[q]
        before = np.flatnonzero(same[:q])
        projector = vectors[:, same] @ vectors[:, same].T - chosen[:, before] @ chosen[:, before].T
        diagonal = projector.diagonal()
        pivot = np.flatnonzero(diagonal >= (1 - TIE) * diagonal.max())[0]
        chosen[:, q] = projector[:, pivot] / np.linalg.norm(projector[:, pivot])
    return chosen


def vector_error(u: np.ndarray, expected: np.ndarray) -> float:
    """The largest difference, of any column, relative to that column's largest entry."""
    top = np.abs(expected).max(axis=0)
    return float((np.abs(u - expected).max(axis=0) / np.where(top > 0, top, 1.0)).max())


def relabelled(g: Graph, seed: int = 0) -> Graph:
    """The same graph with its nodes in another order."""
    order = np.random.default_rng(seed).permutation(g.num_nodes)
    return Graph.from_edge_index(order[g.edge_index.numpy()], g.num_nodes, g.edge_weight)


def spider(legs: int, length: int, extra: int = 0) -> Graph:
    """`legs` paths of `length` nodes joined at node 0, and one of `extra` nodes."""
    graph = nx.empty_graph(1)
    for size in [length] * legs + [extra] * (extra > 0):
        start = graph.number_of_nodes()
        nx.add_path(graph, [0, *range(start, start + size)])
    return Graph.from_networkx(graph)


def lobes(cliques: list[int], paths: int, length: int) -> Graph:
    """Cliques of these sizes hung by one edge each on a core of 8 nodes, and `paths` paths.

    The cliques have a low ratio of cut to volume and lead at γ = 1; the paths have a low ratio of
    cut to nodes and lead at γ = 0. Paths of one length make an eigenvalue that repeats.
    """
    graph = nx.complete_graph(8)
    for size in cliques:
        start = graph.number_of_nodes()
        graph.add_edges_from((start + i, start + j) for i in range(size) for j in range(i))
        graph.add_edge(0, start)
    for _ in range(paths):
        start = graph.number_of_nodes()
        nx.add_path(graph, [1, *range(start, start + length)])
    return Graph.from_networkx(graph)


def three_leaders(copies: int) -> Graph:
    """Cliques lead at γ = 1, a path at γ = 0, and `copies` regular graphs only in between.

    With γ → 0 a lobe's weight goes from its volume to its number of nodes: for the cliques it
    falls fastest, for the path slowest, and the regular graphs are the heaviest around γ = 0.2.
    """
    graph = nx.complete_graph(8)
    regular = nx.random_regular_graph(5, 60, seed=3)
    for lobe in [nx.complete_graph(size) for size in [18, 19, 20, 21] * 3] + [regular] * copies:
        start = graph.number_of_nodes()
        graph.add_edges_from((start + i, start + j) for i, j in lobe.edges)
        graph.add_edge(0, start)
    start = graph.number_of_nodes()
    nx.add_path(graph, [0, *range(start, start + 14)])
    return Graph.from_networkx(graph)
