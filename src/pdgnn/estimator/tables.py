"""Whatever holds a graph and its nodes in Python, as a :class:`~pdgnn.io.nodes.NodeTable`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import replace
from os import PathLike
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor

from pdgnn.diffusion import as_graph, is_missing
from pdgnn.errors import InputError
from pdgnn.graph import Graph
from pdgnn.io.kinds import check_names, decoded, shown
from pdgnn.io.labels import check_labels, labels_of_codes, split_of_masks
from pdgnn.io.node_table import NodeTable, Wanted, given_columns
from pdgnn.io.nodes import node_table_of_source, read_nodes
from pdgnn.io.npz import SPLITS
from pdgnn.io.sources import Source
from pdgnn.io.table import edge_columns, without_index

__all__ = ["as_node_table"]


def as_node_table(
    data: Any = None,
    y: Any = None,
    *,
    nodes: Any = None,
    edges: Any = None,
    label: str | None = None,
    id: str | None = None,
    drop: str | Iterable[str] = (),
    split: int = 0,
    fitted: bool = False,
) -> NodeTable:
    """The graph, ids, features, labels and split of what a user has.

    `data` is one of these, or else `nodes` and `edges` are given:

    - a PyG `Data`: x, edge_index, edge_weight, y (−1: no label) and the masks, ``[N]`` or
      ``[N, S]``, of which `split` chooses a column;
    - a NetworkX graph whose nodes have attributes, `label` being one of them;
    - a file, a folder or the name of a dataset, as :func:`~pdgnn.io.nodes.read_nodes` takes it;
      an opened :class:`~pdgnn.io.sources.Source`;
    - an array ``X`` ``[N, F]`` or a table of features with labels `y` ``[N]`` (None or nan: no
      label) and `edges`: an edge_index ``[2, E]``, a SciPy adjacency matrix or a
      :class:`~pdgnn.Graph`, None being a graph without edges; or such a Graph itself;
    - `nodes` and `edges`: tables (pandas, Polars, PyArrow, or whatever else has Arrow's stream
      interface), joined by the column `id`. The index of a pandas frame is not looked at.

    `id`, `label`, `drop`, `split` and `fitted` are those of :func:`~pdgnn.io.nodes.read_nodes`.

    >>> table = as_node_table([[0.5], [1.0], [2.0]], ["a", "b", None], edges=[[0, 1], [1, 2]],
    ...                       fitted=True)
    >>> table.graph, table.ids.tolist(), table.labels.tolist()
    (Graph(num_nodes=3, num_edges=2), [0, 1, 2], ['a', 'b', None])
    """
    wanted = Wanted.of(id, label, drop, fitted)
    if data is None and (nodes is None or edges is None):
        raise InputError("there is no graph; give data, or nodes= and edges=")
    if data is not None and nodes is not None and not _is_path(data):
        raise InputError("data and nodes= are both given; give one of them")
    if nodes is not None and _is_path(nodes) != _is_path(edges if data is None else data):
        raise InputError("of nodes and edges one is a file; give two files, or two tables")
    if data is None and not _is_path(nodes):
        return _of_tables(nodes, edges, y, wanted)
    if data is None:
        data, edges = edges, None
    whole = _of_whole(data, nodes, wanted, split)
    if whole is None:
        return _of_arrays(data, y, edges, wanted)
    _refuse(y=y, edges=edges)
    return whole


def _of_whole(data: Any, nodes: Any, wanted: Wanted, split: int) -> NodeTable | None:
    """The table of what holds a graph and its labels; None of anything else."""
    if isinstance(data, NodeTable):
        return data
    if isinstance(data, Source):
        return node_table_of_source(data, wanted, split=split)
    if _is_data(data):
        return _of_data(data, wanted, split)
    if _is_networkx(data):
        return _of_networkx(data, wanted)
    if not _is_path(data):
        return None
    w = wanted
    return read_nodes(
        data, nodes, id=w.id, label=w.label, drop=w.drop, split=split, fitted=w.fitted
    )


def _is_path(value: Any) -> bool:
    return isinstance(value, str | PathLike)


def _is_data(value: Any) -> bool:
    return type(value).__module__.startswith("torch_geometric.data")


def _is_networkx(value: Any) -> bool:
    return all(hasattr(value, name) for name in ("nodes", "edges", "is_multigraph"))


def _is_frame(value: Any) -> bool:
    if sp.issparse(value):
        return False
    return hasattr(value, "__arrow_c_stream__") or hasattr(value, "iloc") or isinstance(value, dict)


def _refuse(**given: Any) -> None:
    for name, value in given.items():
        if value is not None:
            raise InputError(f"{name} is part of the data here; leave {name} out")


def as_arrow(frame: Any, role: str) -> Any:
    """A table of any library as a `pyarrow.Table`."""
    import pyarrow as pa

    try:
        if hasattr(frame, "iloc"):  # pandas, whose own stream would have the index in it
            return pa.Table.from_pandas(frame, preserve_index=False)
        return frame if isinstance(frame, pa.Table) else pa.table(frame)
    except (pa.ArrowException, TypeError, ValueError) as e:
        said = " ".join(str(e).split())[:120]
        raise InputError(f"{role} cannot be read as a table ({said}); mend or drop it") from e


def _of_tables(nodes: Any, edges: Any, y: Any, wanted: Wanted) -> NodeTable:
    if not _is_frame(nodes):
        raise InputError(f"nodes= must be a table or a file, not {type(nodes).__name__}")
    import pyarrow as pa

    _refuse(y=y)
    rows = as_arrow(nodes, "nodes")
    if _is_frame(edges):
        given = given_columns(rows, wanted)
        pairs = as_arrow(edges, "edges")
        names = without_index(pairs.column_names)
        check_names(names)
        pairs = pa.table({name: decoded(pairs.column(name)) for name in names})
        return given.with_edges("table", *edge_columns(pairs, names))
    given = given_columns(rows, wanted, _row_numbers(rows, wanted))
    return given.with_graph("table", as_graph(edges, rows.num_rows, given.ids))


def _row_numbers(rows: Any, wanted: Wanted) -> Any:
    """The ids of a table without a column of them; None where there is one, or should be."""
    names = rows.column_names
    if wanted.id in names or any(name.lower() == "id" for name in names):
        return None
    if wanted.id is not None and not wanted.fitted:
        return None
    return _column(np.arange(rows.num_rows))


def _column(values: Any) -> Any:
    import pyarrow as pa

    return pa.chunked_array([pa.array(values)])


def _of_data(data: Any, wanted: Wanted, split: int) -> NodeTable:
    wanted.refuse_columns()
    if not hasattr(data, "edge_index"):
        raise InputError(f"this {type(data).__name__} has no edge_index; give a plain Data")
    x, y = getattr(data, "x", None), getattr(data, "y", None)
    if x is None and y is not None and "num_nodes" not in data:  # PyG would count edges' ends
        data = copy(data)
        data.num_nodes = len(y)
    graph = Graph.from_data(data)
    n = graph.num_nodes
    masks = {p: _mask(_numpy(data[f"{p}_mask"]), p, n) for p in SPLITS if f"{p}_mask" in data}
    table = NodeTable(
        name=str(getattr(data, "name", None) or "data"),
        graph=graph,
        ids=np.arange(n),
        features=None if x is None else _matrix(_numpy(x), "x", n),
        labels=None if y is None else labels_of_codes(_codes(_numpy(y), n)),
        split=split_of_masks(masks, split) if masks else None,
    )
    return _checked(table, wanted, "set data.y to one integer for each node, -1 without a label")


def _numpy(value: Any) -> NDArray[Any]:
    if not isinstance(value, Tensor):
        return np.asarray(value)
    value = value.detach().cpu()
    if value.layout != torch.strided:
        value = value.to_dense()
    array: NDArray[Any] = (value.float() if value.dtype == torch.bfloat16 else value).numpy()
    return array


def _codes(y: NDArray[Any], n: int) -> NDArray[np.int64]:
    y = y[:, 0] if y.ndim == 2 and y.shape[1] == 1 else y
    if y.shape != (n,):
        raise InputError(f"y has shape {y.shape}; give one label for each of {n:,} nodes")
    if y.dtype.kind not in "biu":
        raise InputError(f"y holds {y.dtype}; give integers, -1 for a node without a label")
    return y.astype(np.int64)


def _mask(mask: NDArray[Any], part: str, n: int) -> NDArray[np.bool_]:
    """``[S, N]`` from ``[N]`` or ``[N, S]``."""
    if mask.ndim not in (1, 2) or len(mask) != n or mask.dtype != bool:
        raise InputError(
            f"{part}_mask is {mask.dtype} of shape {mask.shape}; give bool [{n}] or [{n}, splits]"
        )
    return mask.reshape(n, -1).T


def _matrix(x: Any, name: str, n: int | None = None) -> NDArray[np.float32]:
    """``[N, F]`` in float32, nan allowed; the errors are scikit-learn's."""
    from sklearn.utils.validation import check_array

    with _in_one_line():
        checked: NDArray[np.float32] = check_array(
            x, dtype=np.float32, ensure_all_finite="allow-nan", input_name=name
        )
    if n is not None and len(checked) != n:
        raise InputError(f"{name} has {len(checked):,} rows, and there are {n:,} nodes")
    return checked


@contextmanager
def _in_one_line() -> Iterator[None]:
    """An error of scikit-learn's checks as an `InputError` of one line."""
    try:
        yield
    except ValueError as e:
        raise InputError(" ".join(str(e).split())) from e


def _checked(table: NodeTable, wanted: Wanted, remedy: str) -> NodeTable:
    if wanted.fitted:
        return table
    if table.labels is None:
        raise InputError(f"there are no labels to learn from; {remedy}")
    check_labels(table.labels, table.split)
    return table


def _of_networkx(graph: Any, wanted: Wanted) -> NodeTable:
    import pyarrow as pa

    g = Graph.from_networkx(graph)
    keys: dict[str, None] = {}
    for _, attributes in graph.nodes(data=True):
        keys |= dict.fromkeys(map(str, attributes))
    columns = {}
    for key in keys:
        if key in wanted.drop:
            columns[key] = pa.nulls(g.num_nodes)
            continue
        values = [attributes.get(key) for _, attributes in graph.nodes(data=True)]
        try:
            columns[key] = pa.array(values)
        except (pa.ArrowException, TypeError, ValueError) as e:
            raise InputError(
                f"the node attribute {shown([key])} mixes kinds of values; mend or drop it (drop=)"
            ) from e
    ids = _column(_networkx_ids(list(graph.nodes)))
    if g.num_edges == 0 and not wanted.fitted:
        raise InputError("the graph has no edges; give at least one")
    given = given_columns(pa.table(columns), wanted, ids)
    return given.with_graph(str(graph.name or "graph"), Graph(g._adjacency, g.report, given.ids))


def _networkx_ids(names: list[Any]) -> list[Any]:
    integers = all(isinstance(n, int | np.integer) and not isinstance(n, bool) for n in names)
    if integers and all(-(2**63) <= n < 2**63 for n in names):
        return [int(name) for name in names]
    if all(isinstance(name, str) for name in names):
        return names
    wrong = next(name for name in names if not isinstance(name, str))
    raise InputError(
        f"nodes are all called by integers or all by text, and this one by {repr(wrong)[:40]}; "
        "rename them (networkx.relabel_nodes)"
    )


def _of_arrays(x: Any, y: Any, edges: Any, wanted: Wanted) -> NodeTable:
    """Features, labels and edges side by side, as scikit-learn has them."""
    if isinstance(x, Graph):
        _refuse(edges=edges)
        x, edges = None, x
    if _is_frame(x):
        return _of_frame(x, y, edges, wanted)
    wanted.refuse_columns()
    features = None if x is None else _matrix(_dense(x), "X")
    n = edges.num_nodes if features is None else len(features)
    graph = as_graph(edges, n)
    table = NodeTable(
        name="arrays",
        graph=graph,
        ids=np.arange(n) if graph.node_ids is None else graph.node_ids,
        features=features,
        labels=_labels(y, n),
    )
    return _checked(table, wanted, NEEDS_Y)


def _dense(x: Any) -> Any:
    if sp.issparse(x):
        return x.toarray()
    return _numpy(x) if isinstance(x, Tensor) else x


NEEDS_Y = "PDClassifier requires y to be passed, but the target y is None"


def _of_frame(frame: Any, y: Any, edges: Any, wanted: Wanted) -> NodeTable:
    """A table of features whose rows are the nodes; its labels are `y`, or its column `label`."""
    rows = as_arrow(frame, "data")
    n = rows.num_rows
    column = wanted.label if y is None else None
    given = given_columns(
        rows, replace(wanted, label=column, fitted=True), _row_numbers(rows, wanted)
    )
    if y is not None:
        given.labels = _labels(y, n)
    table = given.with_graph("table", as_graph(edges, n, given.ids))
    return _checked(table, wanted, f"name their column by label=, or pass y ({NEEDS_Y})")


def _labels(y: Any, n: int) -> NDArray[np.object_] | None:
    """Labels ``[N]`` of any array; None or nan is a node without one."""
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import column_or_1d

    if y is None:
        return None
    with _in_one_line():
        values = column_or_1d(_numpy(y) if isinstance(y, Tensor) else y, warn=True)
    if len(values) != n:
        raise InputError(
            f"Found input variables with inconsistent numbers of samples: {[n, len(values)]}"
        )
    labels = np.empty(n, dtype=object)
    labels[:] = [None if is_missing(v) else v for v in values.tolist()]
    known = np.array([label is not None for label in labels], dtype=bool)
    if values.dtype.kind == "f":
        if np.isinf(values).any():
            raise InputError("Input y contains infinity or a value too large for dtype('float64').")
        with _in_one_line():
            check_classification_targets(values[known])
        labels[known] = [int(v) for v in labels[known]]
    return labels
