"""An undirected, simple graph in CSR form, checked once and then trusted.

Every other module takes a :class:`Graph`. Whatever the input looked like (directed, doubled,
looped, weighted, disconnected), a `Graph` has a symmetric adjacency matrix with a zero diagonal and
positive weights, and its :class:`GraphReport` says what had to be changed to get there.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from pdgnn.errors import InputError, check_whole
from pdgnn.io import RawGraph, read_graph_file
from pdgnn.io.raw import checked_weights

if TYPE_CHECKING:
    import networkx as nx
    from torch_geometric.data import Data

__all__ = ["Graph", "GraphReport"]


@dataclass(frozen=True)
class GraphReport:
    """What was changed to make the input undirected and simple; all counts are of input entries.

    >>> print(Graph.from_edge_index([[0, 1, 1, 2], [0, 2, 2, 1]]).report)
    1 self-loop dropped; 1 duplicate edge merged
    """

    self_loops: int = 0
    duplicates: int = 0
    one_way: int = 0
    zero_weights: int = 0
    unequal_weights: int = 0

    @property
    def changed(self) -> bool:
        """Whether anything was changed at all."""
        return any(getattr(self, f.name) for f in fields(self))

    def lines(self) -> list[str]:
        """One sentence for each kind of change."""
        said = [
            (self.self_loops, "self-loop{s} dropped"),
            (self.duplicates, "duplicate edge{s} merged"),
            (self.one_way, "one-way edge{s} made two-way"),
            (self.zero_weights, "edge{s} of weight zero dropped"),
            (self.unequal_weights, "edge{s} given several weights, the largest kept"),
        ]
        return [f"{n:,} {text.format(s='' if n == 1 else 's')}" for n, text in said if n]

    def __str__(self) -> str:
        return "; ".join(self.lines()) or "nothing was changed"


class Graph:
    """A checked, undirected, simple graph with positive edge weights (1 where none are given).

    Build one with a ``from_...`` method or :meth:`load`. A graph never changes after that.

    >>> g = Graph.from_edge_index([[0, 1, 2], [1, 2, 0]], num_nodes=4)
    >>> g
    Graph(num_nodes=4, num_edges=3)
    >>> g.degree.tolist()
    [2.0, 2.0, 2.0, 0.0]
    """

    def __init__(
        self,
        adjacency: sp.csr_array,
        report: GraphReport | None = None,
        node_ids: NDArray[Any] | None = None,
    ) -> None:
        """Trust `adjacency`; the ``from_...`` methods are the ones that check."""
        self._adjacency = adjacency
        self.report = report or GraphReport()
        self.node_ids = node_ids

    @classmethod
    def from_edge_index(
        cls,
        edge_index: Tensor | ArrayLike,
        num_nodes: int | None = None,
        edge_weight: Tensor | ArrayLike | None = None,
        *,
        node_ids: Sequence[Any] | NDArray[Any] | None = None,
    ) -> Graph:
        """Build from a ``[2, E]`` array of node ids, in either or both directions.

        An edge that occurs several times, or both ways, counts once; with weights, the largest is
        kept. `num_nodes` defaults to the largest id plus one.
        """
        index = _checked_edge_index(edge_index)
        n = _checked_num_nodes(index, num_nodes)
        weight = None if edge_weight is None else _checked_weight(edge_weight, index.shape[1])
        ids = None if node_ids is None else np.asarray(node_ids)
        if ids is not None and ids.shape != (n,):
            raise InputError(f"node_ids has shape {ids.shape}; give one id for each of {n} nodes")
        adjacency, report = _undirected_simple(index, weight, n)
        return cls(adjacency, report, ids)

    @classmethod
    def from_data(cls, data: Data) -> Graph:
        """Build from a PyG `Data`; its ``edge_weight`` is used where it has one."""
        if getattr(data, "edge_index", None) is None:
            raise InputError(f"this {type(data).__name__} has no edge_index; give a Data with one")
        return cls.from_edge_index(data.edge_index, data.num_nodes, data.edge_weight)

    @classmethod
    def from_scipy(cls, matrix: Any) -> Graph:
        """Build from a square SciPy sparse matrix or array, symmetric or not.

        Entries that are stored twice are added up, as everywhere in SciPy.
        """
        if not sp.issparse(matrix):
            raise InputError(f"from_scipy needs a SciPy sparse matrix, not {type(matrix).__name__}")
        if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
            raise InputError(f"an adjacency matrix must be square, not {matrix.shape}")
        coo = matrix.tocoo(copy=True)
        coo.sum_duplicates()
        if np.iscomplexobj(coo.data):
            raise InputError("edge weights must be real numbers; take the real part first")
        return cls.from_edge_index(np.stack(coo.coords), matrix.shape[0], coo.data)

    @classmethod
    def from_networkx(cls, graph: nx.Graph, *, weight: str | None = "weight") -> Graph:
        """Build from a NetworkX graph of any kind; `node_ids` keeps the names of its nodes.

        Edges take their weight from the attribute `weight`, and 1 where it is missing.
        """
        if not (hasattr(graph, "nodes") and hasattr(graph, "edges")):
            raise InputError(f"from_networkx needs a NetworkX graph, not {type(graph).__name__}")
        names = list(graph.nodes)
        place = {name: i for i, name in enumerate(names)}
        edges = list(graph.edges(data=weight, default=1) if weight else graph.edges(data=False))
        index = np.array([[place[e[0]], place[e[1]]] for e in edges], dtype=np.int64).reshape(-1, 2)
        values = [e[2] for e in edges] if weight else None
        ids = np.empty(len(names), dtype=object)
        ids[:] = names
        return cls.from_edge_index(index.T, len(names), values, node_ids=ids)

    @classmethod
    def load(cls, path: str | PathLike[str], *, max_bytes: int | None = None) -> Graph:
        """Read a graph from a file: CSV, TSV or Parquet edge list, benchmark ``.npz``, GraphML.

        One that unpacks to more than `max_bytes` is refused (default: 8 GB, or an eighth of the
        memory where that is less); see :func:`pdgnn.io.read_graph_file`.
        """
        return cls.from_raw(read_graph_file(path, max_bytes=max_bytes))

    @classmethod
    def from_raw(cls, raw: RawGraph) -> Graph:
        """Build from what :func:`pdgnn.io.read_graph_file` reads."""
        return cls.from_edge_index(
            raw.edge_index, raw.num_nodes, raw.edge_weight, node_ids=raw.node_ids
        )

    @property
    def num_nodes(self) -> int:
        """The number of nodes N, isolated ones included."""
        return int(self._adjacency.shape[0])

    @property
    def num_edges(self) -> int:
        """The number of undirected edges, each counted once."""
        return int(self._adjacency.nnz // 2)

    @cached_property
    def is_weighted(self) -> bool:
        """Whether any edge weight differs from 1."""
        return bool((self._adjacency.data != 1.0).any())

    @cached_property
    def degree(self) -> NDArray[np.float64]:
        """The (weighted) degree d_i = Σ_j a_ij of each node, ``[N]``."""
        rows = np.flatnonzero(np.diff(self._adjacency.indptr))  # those with edges
        degree = np.zeros(self.num_nodes)
        degree[rows] = np.add.reduceat(self._adjacency.data, self._adjacency.indptr[rows])
        degree.flags.writeable = False
        return degree

    def adjacency(self) -> sp.csr_array:
        """A copy of the symmetric adjacency matrix A, float64, with a zero diagonal."""
        return self._adjacency.copy()

    @cached_property
    def edge_index(self) -> Tensor:
        """Both directions of every edge as PyG has them, ``[2, 2 * num_edges]``, sorted by row."""
        coo = self._adjacency.tocoo()
        return torch.from_numpy(np.stack(coo.coords).astype(np.int64))  # [2, 2E]

    @cached_property
    def edge_weight(self) -> Tensor:
        """The weights in the order of :attr:`edge_index`, float64."""
        return torch.from_numpy(self._adjacency.data.copy())

    @cached_property
    def components(self) -> NDArray[np.int64]:
        """The connected component of each node, ``[N]``, numbered in order of first appearance."""
        if self.num_nodes <= 2 * self._adjacency.nnz:
            _, labels = sp.csgraph.connected_components(self._adjacency, directed=False)
            return np.asarray(labels, dtype=np.int64)
        nodes, core = self.core()  # it has more entries than nodes
        labels = core.components
        lowest = nodes[np.unique(labels, return_index=True)[1]]  # of each component with edges
        starts = np.ones(self.num_nodes, dtype=bool)  # whether a component starts at this node
        starts[nodes], starts[lowest] = False, True
        components = np.cumsum(starts)
        components -= 1
        components[nodes] = components[lowest[labels]]
        return components

    @cached_property
    def num_components(self) -> int:
        """The number of connected components; an isolated node is one."""
        return int(self.components.max(initial=-1)) + 1

    def core(self) -> tuple[NDArray[np.int64], Graph]:
        """The nodes that have edges, ascending, and the graph of these nodes alone.

        >>> nodes, core = Graph.from_edge_index([[7, 9], [9, 2]]).core()
        >>> nodes.tolist(), core.edge_index.tolist()
        ([2, 7, 9], [[0, 1, 2, 2], [2, 2, 0, 1]])
        """
        nodes, small = _compact(self.edge_index.numpy())
        adjacency = sp.csr_array((self._adjacency.data, small), shape=2 * nodes.shape)
        ids = None if self.node_ids is None else self.node_ids[nodes]
        return nodes, Graph(adjacency, self.report, ids)

    @cached_property
    def fingerprint(self) -> str:
        """A hash of the nodes, edges and weights: equal graphs have equal fingerprints."""
        a = self._adjacency
        digest = hashlib.blake2b(digest_size=16)
        digest.update(np.int64(self.num_nodes).tobytes())
        for part, dtype in ((a.indptr, np.int64), (a.indices, np.int64), (a.data, np.float64)):
            for start in range(0, part.size, 1 << 20):  # no second copy of it all
                block = np.ascontiguousarray(part[start : start + (1 << 20)], dtype=dtype)
                digest.update(block.data)
        return digest.hexdigest()

    def has_edge(self, i: int, j: int) -> bool:
        """Whether nodes i and j are joined."""
        i, j = self.node(i), self.node(j)
        row = self._adjacency.indices[self._adjacency.indptr[i] : self._adjacency.indptr[i + 1]]
        return bool((row == j).any())

    def node(self, i: int) -> int:
        """`i` itself if it is a node of this graph; an error that says so if not."""
        if not isinstance(i, int | np.integer) or isinstance(i, bool):
            raise InputError(f"a node is an integer, not {i!r}")
        if not 0 <= i < self.num_nodes:
            raise InputError(f"node {i} does not exist; nodes are 0 to {self.num_nodes - 1}")
        return int(i)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Graph) and self.fingerprint == other.fingerprint

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def __repr__(self) -> str:
        weighted = ", weighted" if self.is_weighted else ""
        return f"Graph(num_nodes={self.num_nodes}, num_edges={self.num_edges}{weighted})"


def _as_numpy(name: str, values: Tensor | ArrayLike) -> NDArray[Any]:
    if isinstance(values, Tensor):
        values = values.detach().cpu()
        values = values.float() if values.dtype == torch.bfloat16 else values
    try:
        return np.asarray(values)
    except (TypeError, ValueError, RuntimeError) as e:  # the last: torch.export, vmap
        raise InputError(f"{name} is ragged, sparse or traced; give plain values") from e


def _checked_edge_index(edge_index: Tensor | ArrayLike) -> NDArray[np.int64]:
    index = _as_numpy("edge_index", edge_index)
    if index.size == 0:
        index = np.zeros((2, 0), dtype=np.int64)
    if index.ndim != 2 or index.shape[0] != 2:
        hint = "; transpose it" if index.ndim == 2 and index.shape[1] == 2 else ""
        raise InputError(f"edge_index has shape {index.shape}, expected [2, E]{hint}")
    if index.dtype.kind not in "iu":
        raise InputError(f"edge_index holds {index.dtype}; node ids must be integers")
    if index.dtype == np.uint64 and index.max(initial=0) > np.iinfo(np.int64).max:
        raise InputError("edge_index holds ids beyond 64-bit signed integers; renumber the nodes")
    index = index.astype(np.int64, copy=False)
    if index.min(initial=0) < 0:
        raise InputError(f"edge_index holds the negative id {index.min()}; ids start at 0")
    return index


def _checked_num_nodes(index: NDArray[np.int64], num_nodes: int | None) -> int:
    largest = int(index.max(initial=-1))
    if num_nodes is None:
        num_nodes = largest + 1
        if num_nodes > max(1_000_000, 1000 * index.shape[1]):
            raise InputError(
                f"the largest id is {largest}, far beyond the {index.shape[1]} edges given; "
                "renumber the nodes from 0, or pass num_nodes if this is meant"
            )
    num_nodes = check_whole("num_nodes", num_nodes, 0)
    if num_nodes == 0:
        raise InputError("the graph has no nodes; give at least one edge, or num_nodes")
    if largest >= num_nodes:
        raise InputError(f"node {largest} does not exist: num_nodes is {num_nodes}")
    return num_nodes


def _checked_weight(edge_weight: Tensor | ArrayLike, num_entries: int) -> NDArray[np.float64]:
    weight = _as_numpy("edge_weight", edge_weight)
    if weight.ndim == 2 and weight.shape[1] == 1:
        weight = weight[:, 0]
    if weight.shape != (num_entries,):
        raise InputError(f"edge_weight has shape {weight.shape}, expected [{num_entries}]")
    if weight.dtype.kind not in "biuf":
        raise InputError(f"edge_weight holds {weight.dtype}; weights must be real numbers")
    return checked_weights(weight.astype(np.float64), lambda i: f"edge_weight[{i}]")


def _undirected_simple(
    index: NDArray[np.int64], weight: NDArray[np.float64] | None, n: int
) -> tuple[sp.csr_array, GraphReport]:
    """The symmetric CSR matrix of the edges, loop-free and merged, and what that changed.

    Where most nodes have no edge, it is built for the others: a node without costs 4 bytes.
    """
    if n > 2 * index.size:
        nodes, small = _compact(index)
        adjacency, report = _undirected_simple(small, weight, nodes.size)
        return _spread(adjacency, nodes, n), report
    loops = index[0] == index[1]
    keep = ~loops if weight is None else ~loops & (weight > 0)
    row, col = index[0, keep], index[1, keep]  # [E']
    counts = sp.coo_array((np.ones(row.size, dtype=np.int64), (row, col)), shape=(n, n)).tocsr()
    pattern = counts.astype(bool)
    both = (pattern + pattern.T).tocsr()  # [N, N] boolean, one entry for each direction
    if weight is None:
        adjacency, unequal = both.astype(np.float64), 0
    else:
        adjacency, unequal = _largest_weights(row, col, weight[keep], n)
    adjacency.sort_indices()
    report = GraphReport(
        self_loops=int(loops.sum()),
        duplicates=int(row.size - counts.nnz),
        one_way=int(both.nnz - counts.nnz),
        zero_weights=int((~loops).sum() - keep.sum()),
        unequal_weights=unequal,
    )
    return adjacency, report


def _compact(index: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The nodes that occur in ``[2, E]``, ascending, and the same edges between 0, 1, 2, ..."""
    nodes, small = np.unique(index, return_inverse=True)
    return nodes, small.reshape(2, -1)


def _spread(small: sp.csr_array, nodes: NDArray[np.int64], n: int) -> sp.csr_array:
    """The ``[N, N]`` matrix whose rows and columns `nodes`, ascending, are those of `small`."""
    dtype = np.int32 if n < 2**31 and small.nnz < 2**31 else np.int64
    try:
        indptr = np.zeros(n + 1, dtype=dtype)
    except (MemoryError, ValueError) as e:
        raise InputError(f"there is no memory for {n} nodes; number those with edges anew") from e
    indptr[nodes + 1] = np.diff(small.indptr)
    np.cumsum(indptr, out=indptr)
    indices = nodes[small.indices].astype(dtype)
    return sp.csr_array((small.data, indices, indptr), shape=(n, n))


def _largest_weights(
    row: NDArray[np.int64], col: NDArray[np.int64], weight: NDArray[np.float64], n: int
) -> tuple[sp.csr_array, int]:
    """The symmetric matrix of the largest weight given to each pair, and how many pairs differ."""
    low, high = np.minimum(row, col), np.maximum(row, col)
    order = np.lexsort((high, low))
    low, high, weight = low[order], high[order], weight[order]
    first = np.flatnonzero(np.diff(low, prepend=-1) | np.diff(high, prepend=-1))
    if first.size == 0:
        return sp.csr_array((n, n), dtype=np.float64), 0
    largest = np.maximum.reduceat(weight, first)
    unequal = int((largest != np.minimum.reduceat(weight, first)).sum())
    ends = np.stack([low[first], high[first]])
    coords = tuple(np.concatenate([ends, ends[::-1]], axis=1))
    return sp.coo_array((np.tile(largest, 2), coords), shape=(n, n)).tocsr(), unequal
