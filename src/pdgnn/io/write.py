"""Writing graphs to files, each of which is read back and compared before it takes its name."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from os import PathLike
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from pdgnn.errors import InputError
from pdgnn.graph import Graph
from pdgnn.io.atomic import replacing
from pdgnn.io.sources import Source

__all__ = ["GRAPH_SUFFIXES", "check_model_folder", "check_output", "check_place", "write_graph"]


def check_output(
    path: str | PathLike[str],
    suffixes: Iterable[str],
    *,
    force: bool = False,
    sources: Iterable[Path] = (),
) -> Path:
    """`path` if a file of one of these kinds can be written there; its folder is made.

    A file that exists is an error unless `force`, and one of the `sources` of runs always: they
    are read. To be called before the work whose result is to be written.
    """
    path, known = Path(path), tuple(suffixes)
    if path.suffix.lower() not in known:
        raise InputError(f"{path}: files of this kind are not written; use {', '.join(known)}")
    if path.is_dir():
        raise InputError(f"{path}: this is a folder; name a file in it")
    if path.exists() and not force:
        raise InputError(f"{path}: the file exists; name another, or replace it with --force")
    if path.exists() and any(source.exists() and source.samefile(path) for source in sources):
        raise InputError(f"{path}: the runs are read from this file; name another to write to")
    check_place(path)
    return path


def check_model_folder(folder: str | PathLike[str], *, force: bool = False) -> Path:
    """`folder` if a model may be written there; the folder that it is in is made.

    Nothing may be there; with `force` another model may be, and nothing else.
    """
    target = Path(folder)
    if target.is_symlink() or (target.exists() and not target.is_dir()):
        raise InputError(f"{target} is a file or a link; name a folder that is not there yet")
    if target.exists() and any(target.iterdir()):
        config = target / "config.json"
        if not config.is_file() or b'"format"' not in config.read_bytes():
            raise InputError(f"{target} holds other files; name a folder that is not there yet")
        if not force:
            raise InputError(f"{target} holds a model already; use --force to replace it")
    check_place(target)
    return target


def check_place(path: Path) -> None:
    """An error if nothing can be written at `path`; the folder that it is in is made."""
    above = path.resolve().parent
    if above.exists() and not above.is_dir():
        raise InputError(f"{path}: cannot be written: {path.parent} is a file, not a folder")
    try:
        above.mkdir(parents=True, exist_ok=True)
    except OSError as e:
        raise InputError(f"{path}: cannot be written: {e.strerror or e}") from e
    if not os.access(above, os.W_OK | os.X_OK):
        raise InputError(f"{path}: cannot be written: its folder is read-only")


def write_graph(source: Source, path: str | PathLike[str], *, force: bool = False) -> None:
    """Write a graph, each undirected edge once, in the form that the suffix of `path` names.

    - ``.csv``, ``.tsv``, ``.parquet``: the columns source, target and, for a weighted graph,
      weight, with the ids that the nodes had where they were read.
    - ``.npz``: the arrays of the heterophilous benchmark, features, labels and splits too.
    - ``.graphml``: nodes, edges and weights.

    The file is read back before it takes its name, and must give the same nodes, edges and weights:
    an edge list cannot hold a node without edges, for one, and is then refused.
    """
    path = check_output(path, WRITERS, force=force)
    with replacing(path, follow=True) as partial:
        with partial.open("xb") as file:
            WRITERS[path.suffix.lower()](source, file)
        _check_read_back(source.graph, partial, path)


def _check_read_back(g: Graph, partial: Path, path: Path) -> None:
    by_name = g.node_ids is not None and path.suffix.lower() != ".npz"
    try:
        harm = _difference(g, Graph.load(partial, max_bytes=sys.maxsize), by_name=by_name)
    except InputError as e:
        harm = str(e).removeprefix(f"{partial}: ")
    if harm is None:
        return
    others = " or ".join(s for s in (".graphml", ".npz") if s != path.suffix.lower())
    raise InputError(f"{path}: a file of this kind cannot hold this graph ({harm}); use {others}")


def _difference(g: Graph, back: Graph, *, by_name: bool) -> str | None:
    """How `back` is another graph than `g`, nodes being compared by number or by name."""
    if back.num_nodes != g.num_nodes:
        return f"it would have {back.num_nodes:,} nodes instead of {g.num_nodes:,}"
    if by_name:
        names, again = _names(g), _names(back)
        here, there = np.argsort(names), np.argsort(again)
        if (names[here] != again[there]).any():
            return "its nodes would have other names"
        g, back = _permuted(g, here), _permuted(back, there)
    return None if back == g else "its edges would be mixed up"


def _names(g: Graph) -> NDArray[np.object_]:
    """The ids as text, ``[N]``."""
    ids = range(g.num_nodes) if g.node_ids is None else g.node_ids.tolist()
    return np.array([*map(str, ids), ""], dtype=object)[:-1]


def _permuted(g: Graph, order: NDArray[np.int64]) -> Graph:
    a = g._adjacency[order][:, order]
    a.sort_indices()
    return Graph(a)


def _edges_once(g: Graph) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """Ends i < j and weight of each edge, by j and then by i from the highest down.

    Names are numbered by first appearance when they are read. In this order they appear as they
    are numbered here, if any order of rows does that: a node then has a lower neighbour or is
    joined to the next one.

    >>> i, j, _ = _edges_once(Graph.from_edge_index([[0, 0, 2, 0], [1, 3, 3, 2]]))
    >>> list(zip(i.tolist(), j.tolist()))
    [(0, 1), (0, 2), (2, 3), (0, 3)]
    """
    upper = sp.triu(g._adjacency, k=1).tocoo()
    i, j = (ends.astype(np.int64) for ends in upper.coords)
    order = np.lexsort((-i, j))
    return i[order], j[order], upper.data[order]


def _table(g: Graph) -> Any:
    """The edge list as a `pyarrow.Table`."""
    import pyarrow as pa

    i, j, weight = _edges_once(g)
    columns: dict[str, Any] = {"source": i, "target": j}
    if g.node_ids is not None:
        names = pa.array(g.node_ids if g.node_ids.dtype.kind in "iu" else _names(g))
        columns = {role: names.take(pa.array(ends)) for role, ends in columns.items()}
    return pa.table(columns | ({"weight": weight} if g.is_weighted else {}))


def _write_text(source: Source, file: BinaryIO, *, separator: str) -> None:
    from pyarrow import csv

    table = _table(source.graph)
    file.write(separator.join(table.column_names).encode() + b"\n")
    # names are put in quotes, so that not even one that starts with # is a comment
    csv.write_csv(table, file, csv.WriteOptions(include_header=False, delimiter=separator))


def _write_csv(source: Source, file: BinaryIO) -> None:
    _write_text(source, file, separator=",")


def _write_tsv(source: Source, file: BinaryIO) -> None:
    _write_text(source, file, separator="\t")


def _write_parquet(source: Source, file: BinaryIO) -> None:
    import pyarrow.parquet as pq

    pq.write_table(_table(source.graph), file)


def _write_npz(source: Source, file: BinaryIO) -> None:
    g = source.graph
    i, j, weight = _edges_once(g)
    arrays: dict[str, NDArray[Any]] = {"edges": np.stack([i, j], axis=1)}  # [E, 2]
    arrays["num_nodes"] = np.array(g.num_nodes)
    if g.is_weighted:
        arrays["edge_weight"] = weight
    if g.node_ids is not None:
        arrays["node_ids"] = _names(g).astype(str)
    if source.features is not None:
        arrays["node_features"] = source.features
    if source.labels is not None:
        arrays["node_labels"] = source.labels
    for part, mask in (source.masks or {}).items():
        arrays[f"{part}_masks"] = mask
    np.savez_compressed(file, allow_pickle=False, **arrays)


def _write_graphml(source: Source, file: BinaryIO) -> None:
    import networkx as nx

    g = source.graph
    names = (np.arange(g.num_nodes) if g.node_ids is None else g.node_ids).tolist()
    i, j, weight = _edges_once(g)
    ends = [names[n] for n in i.tolist()], [names[n] for n in j.tolist()]
    graph = nx.Graph()
    graph.add_nodes_from(names)
    if g.is_weighted:
        graph.add_weighted_edges_from(zip(*ends, weight.tolist(), strict=True))
    else:
        graph.add_edges_from(zip(*ends, strict=True))
    nx.write_graphml(graph, file)


WRITERS: dict[str, Callable[[Source, BinaryIO], None]] = {
    ".csv": _write_csv,
    ".tsv": _write_tsv,
    ".parquet": _write_parquet,
    ".npz": _write_npz,
    ".graphml": _write_graphml,
}
GRAPH_SUFFIXES = tuple(WRITERS)
