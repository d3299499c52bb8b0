"""Everything that the page of a fitted classifier shows, gathered from the classifier."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from pdgnn.errors import ConvergenceError
from pdgnn.graph import Graph
from pdgnn.laplacian import diffusion_matrix
from pdgnn.report.fitted_data import (
    calibration,
    confusion,
    held_out,
    neighbour_lists,
    node_data,
    sample_nodes,
    shortened,
    similar_nodes,
)
from pdgnn.report.fitted_map import EmbeddingPath, embedding_path, map_data
from pdgnn.report.plots import COLOURS
from pdgnn.report.training import METRIC_NAMES
from pdgnn.rewiring import RewiredGraph, rewire
from pdgnn.spectrum import first_eigenvector

__all__ = ["Facts", "gather"]

MOST_COLOURS = 6
"""Of the palette: its seventh is black, which is lost on a dark page."""


@dataclass(frozen=True)
class Facts:
    """A fitted classifier, and what its page says besides; see :func:`gather`.

    Attributes:
        clf: the classifier, with its fitted attributes.
        names: the classes as text, ``[C]``.
        graph: the graph as given; `used` is the rewired one, where the model is rewired.
        held: which nodes have a label and honest probabilities, ``[N]``.
        matrix: the confusion matrix of these, or None where there are none.
        reliability: their calibration, or None.
        weighing: what the weights of neighbours are, in words.
        path: the embedding along γ, or None; then `no_map` says why.
        shown: how many nodes have their details on the page.
        data: what the page's script reads.
    """

    clf: Any
    names: list[str]
    graph: Graph
    used: Graph
    held: NDArray[np.bool_]
    matrix: NDArray[np.int64] | None
    reliability: dict[str, Any] | None
    weighing: str
    path: EmbeddingPath | None
    no_map: str
    shown: int
    data: dict[str, Any]

    @property
    def name(self) -> str:
        """Of the table that was fitted."""
        return str(self.clf.table_.name)

    @property
    def model(self) -> str:
        """What was chosen, as the leaderboard calls it, which it leads."""
        return str(self.clf.leaderboard_[0]["name"])

    @property
    def metric(self) -> str:
        """The score's name."""
        return METRIC_NAMES.get(self.clf.estimate_.metric, str(self.clf.estimate_.metric))


def gather(clf: Any) -> Facts:
    """All that the page of `clf` says; a few seconds for graphs of any size."""
    g, y = clf.table_.graph, np.asarray(clf.y_, dtype=np.int64)
    names = [str(c) for c in clf.classes_]
    used = _used(clf, g)
    held = held_out(clf.honest_, y)
    weights, weighing = _weights(clf, used)
    path, no_map = embedding_path(g, alpha=clf.alpha_, gamma=clf.gamma_, hub=_hub(used))
    reliability = calibration(clf.honest_[held], y[held]) if held.any() else None
    data, shown = _data(clf, y, names, weights, used, path)
    data["bins"] = reliability and [reliability[key] for key in ("low", "right", "count")]
    return Facts(
        clf=clf,
        names=names,
        graph=g,
        used=used,
        held=held,
        matrix=_matrix(clf, y, held),
        reliability=reliability,
        weighing=weighing,
        path=path,
        no_map=no_map,
        shown=shown,
        data=data,
    )


def _used(clf: Any, g: Graph) -> Graph:
    """The graph that the model sees; as given, where φ cannot be had again."""
    if not clf.rewired_ or g.num_edges == 0:
        return g
    try:
        return rewire(g, phi=first_eigenvector(g, alpha=clf.alpha_, gamma=clf.gamma_))
    except ConvergenceError:
        return g


def _hub(used: Graph) -> int | None:
    """The gradient node of the largest component, where the graph is rewired."""
    if not isinstance(used, RewiredGraph):
        return None
    return int(used.gradient_nodes[np.bincount(used.components).argmax()])


def _weights(clf: Any, used: Graph) -> tuple[sp.csr_array, str]:
    """What each node (row) takes from each other one, ``[N, N]`` sparse, and what that is."""
    if (attention := clf.attention_) is not None:
        (source, target), values = attention
        shape = (used.num_nodes, used.num_nodes)
        matrix = sp.coo_array((values, (target, source)), shape=shape).tocsr()
        return matrix, "the attention of the best network, averaged over its heads"
    said = f"the weights of diffusion P^(α,γ) at α = {clf.alpha_:g}, γ = {clf.gamma_:g}"
    if not clf.has_scope_:
        said += " (the model has no scope of its own, so these are for orientation only)"
    return diffusion_matrix(used, alpha=clf.alpha_, gamma=clf.gamma_), said


def _matrix(clf: Any, y: NDArray[np.int64], held: NDArray[np.bool_]) -> NDArray[np.int64] | None:
    if not held.any():
        return None
    return confusion(y[held], clf.honest_[held].argmax(axis=1), len(clf.classes_))


def _data(
    clf: Any,
    y: NDArray[np.int64],
    names: list[str],
    weights: sp.csr_array,
    used: Graph,
    path: EmbeddingPath | None,
) -> tuple[dict[str, Any], int]:
    n = used.num_nodes
    always = np.array([], dtype=np.int64) if path is None else path.nodes[path.gradient]
    added = used.added.numpy() if isinstance(used, RewiredGraph) else None
    pool = path.nodes if path is not None and path.partial else np.arange(n)
    nodes = sample_nodes(y, pool, np.unique(always))
    lists = neighbour_lists(weights, _pattern(added, n), nodes)
    lists["count"] = np.diff(used._adjacency.indptr)[nodes].tolist()
    lists["near"] = shortened(lists["near"], clf.table_.ids, nodes)
    part = np.asarray(clf.part_)
    listed = node_data(clf.table_.ids, y, part, clf.proba_, clf.honest_, lists, nodes)
    labelled = np.flatnonzero(y[nodes] >= 0)
    proba = np.nan_to_num(clf.proba_)
    listed["like"] = similar_nodes(proba[nodes], np.asarray(clf.x_)[nodes], labelled)
    data = {
        "classes": names,
        "colours": COLOURS[:MOST_COLOURS],
        "nodes": listed,
        "map": path and map_data(path, nodes, None if added is None else added[0]),
        "rewired": bool(clf.rewired_),
    }
    return data, int(nodes.size)


def _pattern(added: NDArray[np.int64] | None, n: int) -> sp.csr_array:
    """An entry for each added edge, both ways, ``[N, N]`` sparse."""
    ends = np.empty((2, 0), dtype=np.int64) if added is None else added
    both = np.concatenate([ends, ends[::-1]], axis=1)  # [2, 2A]
    return sp.coo_array((np.ones(both.shape[1]), tuple(both)), shape=(n, n)).tocsr()
