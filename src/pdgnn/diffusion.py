"""Diffused features: [z, P z, P² z, …] for several scopes (α, γ), for any tabular learner.

P^(α,γ) is the diffusion matrix of :mod:`pdgnn.laplacian`. At (1, 1), P z is the mean over a node's
neighbours. At (0, 1), each neighbour's value is divided by the neighbour's degree and a node gets
the sum, which tends to grow with its own degree.

>>> g = Graph.from_edge_index([[0, 0], [1, 2]])
>>> diffused(g, [[1.0], [2.0], [4.0]], scopes=((1, 1),), hops=2).tolist()
[[1.0, 3.0, 1.0], [2.0, 1.0, 3.0], [4.0, 1.0, 3.0]]
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import ArrayLike, NDArray
from scipy.sparse.linalg import svds
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.utils.validation import _check_feature_names_in, check_is_fitted, validate_data
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.data.datapipes import functional_transform
from torch_geometric.transforms import BaseTransform

from pdgnn.errors import InputError, check_whole
from pdgnn.graph import Graph
from pdgnn.laplacian import check_scopes, diffusion_matrix

__all__ = ["DiffusionFeatures", "diffused", "label_shares", "singular_directions"]

Scopes = Sequence[tuple[float, float]]
Matrix = Any
"""A NumPy array or a SciPy CSR array ``[N, F]``."""
GRAM_LIMIT = 2048
"""Singular vectors of a matrix whose smaller side is at most this come from its Gram matrix."""


def diffused(
    graph: Graph,
    x: ArrayLike | sp.sparray,
    *,
    scopes: Scopes = ((0, 1), (1, 1)),
    hops: int = 4,
) -> Matrix:
    """[x, P x, …, P^hops x] for each scope in turn, ``[N, F * (1 + len(scopes) * hops)]``.

    Products are taken in float64; the result is float32 where `x` is, and sparse where `x` is. Its
    cost is linear in the edges: hops × scopes × F products of a sparse matrix and a vector.
    """
    scopes, hops = check_scopes(scopes), check_whole("hops", hops, 0)
    x = sp.csr_array(x) if sp.issparse(x) else np.asarray(x)
    if x.ndim != 2 or x.shape[0] != graph.num_nodes:
        raise InputError(f"x has shape {x.shape}; give a row for each of {graph.num_nodes} nodes")
    kind = np.float32 if x.dtype == np.float32 else np.float64
    blocks = [x.astype(kind)]
    for alpha, gamma in scopes if hops else ():
        p = diffusion_matrix(graph, alpha=alpha, gamma=gamma)
        hop = x.astype(np.float64)
        for _ in range(hops):
            hop = p @ hop  # [N, F]
            blocks.append(hop.astype(kind))
    return _beside(blocks)


def label_shares(
    graph: Graph, one_hot: sp.csr_array, *, scopes: Scopes = ((0, 1), (1, 1))
) -> NDArray[np.float64]:
    """(P − diag P) Y for each scope, ``[N, C * len(scopes)]``: the known labels of the neighbours.

    `one_hot` is Y, ``[N, C]``, with a row of zeros where a label is not known. With the diagonal
    removed (it is not zero at γ < 1, nor for a node without edges) no node has its own label in its
    row. There is one hop only: (P²)_ii > 0, as a walk of two steps comes back, so that a second hop
    would hand a training node its own label, which a node to be predicted does not have.

    >>> known = sp.csr_array([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]])
    >>> g = Graph.from_edge_index([[0, 0], [1, 2]])
    >>> label_shares(g, known, scopes=((1, 1),)).tolist()
    [[0.0, 0.5], [1.0, 0.0], [1.0, 0.0]]
    """
    blocks = []
    for alpha, gamma in check_scopes(scopes):
        p = diffusion_matrix(graph, alpha=alpha, gamma=gamma)
        blocks.append(((p - sp.diags_array(p.diagonal())) @ one_hot).toarray())
    return np.concatenate(blocks, axis=1)


def reduction(x: Matrix, reduce: int | None) -> NDArray[np.float64] | None:
    """:func:`singular_directions` where `x` has more than 2 · `reduce` columns; None where not."""
    if reduce is None or x.shape[1] <= 2 * check_whole("reduce", reduce):
        return None
    return singular_directions(x, reduce)


def singular_directions(x: Matrix, count: int) -> NDArray[np.float64]:
    """The leading right singular vectors of `x`, ``[count, F]``, each with its largest entry > 0.

    There are fewer where `x` has fewer rows or columns. Nothing is random: they come from the
    smaller Gram matrix, or from Lanczos with a fixed start where that would be large.
    """
    rows, columns = x.shape
    k = min(count, rows, columns)
    wide = sp.csr_array(x, dtype=np.float64) if sp.issparse(x) else x.astype(np.float64)
    if min(rows, columns) <= max(GRAM_LIMIT, k + 1):
        directions = _from_gram(wide, k)
    else:
        start = np.random.default_rng(0).standard_normal(min(rows, columns))
        _, values, directions = svds(wide, k, v0=start, return_singular_vectors="vh")
        directions = _nonzero(values[::-1], directions[::-1])  # [k, F]
    largest = np.abs(directions).argmax(axis=1)
    signs = np.where(directions[np.arange(k), largest] < 0, -1.0, 1.0)
    return np.asarray(directions * signs[:, None])


def _from_gram(x: Matrix, k: int) -> NDArray[np.float64]:
    """Right singular vectors by the eigenvectors of XᵀX, or of XXᵀ where that is the smaller."""
    from scipy.linalg import eigh

    rows, columns = x.shape
    gram = x.T @ x if columns <= rows else x @ x.T
    gram = gram.toarray() if sp.issparse(gram) else gram
    side = len(gram)
    squares, vectors = eigh(gram, subset_by_index=(side - k, side - 1))
    values, vectors = np.sqrt(squares[::-1].clip(min=0)), vectors[:, ::-1]  # the largest first
    if columns > rows:
        vectors = x.T @ vectors / np.where(values > 0, values, 1.0)  # [F, k]
    return _nonzero(values, vectors.T)


def _nonzero(values: NDArray[np.float64], directions: NDArray[np.float64]) -> NDArray[np.float64]:
    """`directions` ``[k, F]``, zero beyond the rank, where they would be those of rounding."""
    kept = values > 1e-6 * values.max(initial=0.0)
    return np.where(kept[:, None], directions, 0.0)


def node_inputs(
    graph: Graph, x: Matrix, components: NDArray[np.float64] | None, *, degree: bool = True
) -> Matrix:
    """What is diffused, z ``[N, F']``: x or what stands for it, and log(1 + degree).

    For x stand its products with the singular vectors `components` and its sum over each row.
    """
    z = x
    if components is not None:
        total = np.asarray(x.sum(axis=1)).reshape(-1, 1)
        z = np.concatenate([x @ components.T, total], axis=1).astype(x.dtype)
    return _beside([z, np.log1p(graph.degree)[:, None].astype(x.dtype)]) if degree else z


def as_graph(graph: Any, num_nodes: int, node_ids: NDArray[Any] | None = None) -> Graph:
    """A :class:`Graph` of `num_nodes` from what a user calls one.

    That is a Graph, a PyG `Data`, a SciPy adjacency matrix, an edge_index between nodes called
    `node_ids`, or None, for no edges.
    """
    if isinstance(graph, Graph):
        g = graph
    elif isinstance(graph, Data):
        g = Graph.from_data(graph)
    elif sp.issparse(graph):
        g = Graph.from_scipy(graph)
    elif not isinstance(graph, Tensor | np.ndarray | Sequence | None) or isinstance(graph, str):
        raise InputError(
            f"graph is of type {type(graph).__name__}; give a pdgnn.Graph (its load and "
            "from_networkx read others), an edge_index [2, E], a SciPy matrix or a PyG Data"
        )
    else:
        edges = [[], []] if graph is None else graph
        g = Graph.from_edge_index(edges, num_nodes, node_ids=node_ids)
    if g.num_nodes != num_nodes:
        raise InputError(
            f"the graph has {g.num_nodes:,} nodes, and there are {num_nodes:,} rows; give one row "
            "for each node, in their order"
        )
    return g


@functional_transform("pd_diffusion_features")
class DiffusionFeatures(TransformerMixin, BaseEstimator, BaseTransform):  # type: ignore[misc]
    """[z, P z, P² z, …] for several scopes: a scikit-learn transformer and a PyG transform.

    (Functional name: ``pd_diffusion_features``.) z are the features, or singular vectors of them
    and their sum where they are many, with log(1 + degree) beside them. Rows are *all* nodes of a
    graph: transform them together, then give the rows of the training nodes to a classifier.

    Args:
        scopes: The pairs (α, γ) of the diffusion matrices.
        hops: The highest power of each.
        degree: Whether log(1 + degree) is a feature.
        labels: Whether the labels `y` known among a node's neighbours are features too, as in
            :func:`label_shares`. An unknown label is −1, None or nan. A node's own label is never
            in its row. On another graph than the fitted one no label is known, and they are 0.
        reduce: How many singular vectors stand for the features, together with their sum over a
            row, where there are more than twice as many features; None keeps all.

    Attributes:
        graph_: The graph that was fitted; None if there was none.
        components_: The singular vectors ``[reduce, F]``; None where features are as they are.
        classes_: The known labels, with ``labels=True``.

    >>> import pdgnn
    >>> data = pdgnn.datasets.load("minesweeper-generated:size=10")
    >>> DiffusionFeatures().fit_transform(data.x.numpy(), graph=data.edge_index).shape
    (100, 72)
    >>> DiffusionFeatures(hops=1)(data)
    Data(x=[100, 24], edge_index=[2, 684], y=[100], ...)
    """

    def __init__(
        self,
        scopes: Scopes = ((0, 1), (1, 1)),
        hops: int = 4,
        degree: bool = True,
        labels: bool = False,
        reduce: int | None = 32,
    ) -> None:
        self.scopes = scopes
        self.hops = hops
        self.degree = degree
        self.labels = labels
        self.reduce = reduce

    def fit(self, X: Any, y: Any = None, *, graph: Any = None) -> Self:
        """Keep the graph, the singular vectors and the labels.

        `graph` is a :class:`Graph`, an edge_index ``[2, E]``, a SciPy adjacency matrix or a PyG
        `Data`, with a node for each row of `X`; `X` may be a SciPy sparse matrix.
        """
        check_scopes(self.scopes), check_whole("hops", self.hops, 0)
        X = validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32])
        if graph is None:
            warnings.warn(
                "no graph was given: every row is a node without edges, and P x = x; "
                "pass graph= to diffuse",
                UserWarning,
                stacklevel=2,
            )
        self.graph_ = None if graph is None else as_graph(graph, X.shape[0])
        self.components_ = reduction(X, self.reduce)
        if self.labels:
            self.classes_, self.one_hot_ = _one_hot(y, X.shape[0])
        return self

    def transform(self, X: Any, *, graph: Any = None) -> Matrix:
        """``[N, F']``; on the graph that was fitted unless another is given."""
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=False)
        if graph is not None:
            g = as_graph(graph, X.shape[0])
        elif self.graph_ is None:
            g = as_graph(None, X.shape[0])
        elif self.graph_.num_nodes == X.shape[0]:
            g = self.graph_
        else:
            raise InputError(
                f"X has {X.shape[0]} rows and the fitted graph {self.graph_.num_nodes} nodes; pass "
                "the graph of these rows as graph="
            )
        z = node_inputs(g, X, self.components_, degree=self.degree)
        found = diffused(g, z, scopes=self.scopes, hops=self.hops)
        if not self.labels:
            return found
        nothing = sp.csr_array((g.num_nodes, self.classes_.size))
        known = self.one_hot_ if g == self.graph_ else nothing
        shares = label_shares(g, known, scopes=self.scopes).astype(found.dtype)
        return _beside([found, shares])

    def fit_transform(self, X: Any, y: Any = None, *, graph: Any = None) -> Matrix:
        """:meth:`fit`, and the features of the same rows."""
        return self.fit(X, y, graph=graph).transform(X)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """Names such as ``"x3"``, ``"P(0,1)^2 x3"`` and ``"P(1,1) label=red"``."""
        check_is_fitted(self)
        names = list(_check_feature_names_in(self, input_features))
        if self.components_ is not None:
            names = [f"svd{i}" for i in range(len(self.components_))] + ["sum"]
        names += ["log_degree"] * bool(self.degree)
        scopes = [f"P({alpha:g},{gamma:g})" for alpha, gamma in check_scopes(self.scopes)]
        every = names + [
            f"{s}^{k} {n}" for s in scopes for k in range(1, self.hops + 1) for n in names
        ]
        if self.labels:
            every += [f"{s} label={c}" for s in scopes for c in self.classes_]
        return np.array(every, dtype=object)

    def forward(self, data: Data) -> Data:
        """`data` with these features in the place of x, float32.

        Fitted on this graph unless it has been fitted before: where several graphs are transformed
        one by one, fit it first, so that their columns mean the same. With ``labels=True`` the
        labels are those of ``data.train_mask``.
        """
        if not isinstance(data, Data) or data.x is None:
            raise InputError("DiffusionFeatures needs a PyG Data with node features x; set data.x")
        x = data.x.detach().cpu().float().numpy()
        fitted = hasattr(self, "components_")
        features = self if fitted else clone(self).fit(x, self._training_labels(data), graph=data)
        found = features.transform(x, graph=data).astype(np.float32)
        data.x = torch.from_numpy(found).to(data.x.device)
        return data

    def _training_labels(self, data: Data) -> Any:
        if not self.labels:
            return None
        mask = data.train_mask if "train_mask" in data else None
        if data.y is None or mask is None or mask.ndim != 1:
            raise InputError(
                "labels=True needs data.y and a data.train_mask [N], as no other label may be "
                "known; set them, for one split"
            )
        return torch.where(mask, data.y.flatten(), -1).cpu().numpy()

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required = bool(self.labels)
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _beside(blocks: Sequence[Matrix]) -> Matrix:
    """The columns of these matrices, sparse where the first is."""
    if sp.issparse(blocks[0]):
        return sp.hstack(blocks, format="csr")
    return np.concatenate(blocks, axis=1)


def _one_hot(y: Any, num_nodes: int) -> tuple[NDArray[Any], sp.csr_array]:
    """The classes ``[C]`` among `y` and Y ``[N, C]``; −1, None and nan are no class."""
    if y is None:
        raise InputError("labels=True needs y, with -1 where a label is not known; pass y to fit")
    values = np.asarray(y)
    if values.shape != (num_nodes,):
        raise InputError(f"y has shape {values.shape}; give a label for each of {num_nodes} rows")
    known = np.array([_is_label(v) for v in values.tolist()], dtype=bool)
    try:
        classes, codes = np.unique(values[known], return_inverse=True)
    except TypeError as e:
        raise InputError("y holds labels of several types; make them all numbers or text") from e
    rows = np.flatnonzero(known)
    entries = (np.ones(rows.size), (rows, codes))
    return classes, sp.csr_array(entries, shape=(num_nodes, classes.size))


def is_missing(value: Any) -> bool:
    """Whether a label is None or nan."""
    return value is None or (isinstance(value, float) and math.isnan(value))


def _is_label(value: Any) -> bool:
    return not is_missing(value) and value != -1
