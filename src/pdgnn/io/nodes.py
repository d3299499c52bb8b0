"""Reading a graph and its node table from files, or from a dataset by its name.

A node table has one row for each node: its id, its label, a column ``split`` (train, val, test)
if there is one, and features. Edges are joined to it by the ids. Nodes without edges and nodes
without a label are fine; an edge to a node without a row is an error.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from pdgnn.errors import InputError
from pdgnn.graph import Graph
from pdgnn.io import TABLES, file_suffix, parquet, text
from pdgnn.io.graphml import read_graphml_nodes
from pdgnn.io.join import check_unique, ids_as_given
from pdgnn.io.kinds import check_types, shown
from pdgnn.io.labels import check_labels, labels_of_codes, split_of_masks
from pdgnn.io.node_table import NodeTable, Wanted, given_columns
from pdgnn.io.raw import checked_max_bytes, naming
from pdgnn.io.sources import Source, is_dataset, open_source
from pdgnn.io.table import edge_columns

__all__ = ["NodeTable", "node_table_of_source", "read_nodes"]


def read_nodes(
    edges: str | PathLike[str],
    nodes: str | PathLike[str] | None = None,
    *,
    id: str | None = None,
    label: str | None = None,
    drop: Iterable[str] = (),
    split: int = 0,
    root: str | PathLike[str] | None = None,
    max_bytes: int | None = None,
    fitted: bool = False,
) -> NodeTable:
    """Read a graph and its node table.

    `edges` is an edge list and `nodes` a table (CSV, TSV or TXT, each also .gz, or Parquet); or
    `edges` alone is a folder that holds ``nodes.*`` and ``edges.*``, a GraphML file with node
    attributes, a benchmark ``.npz`` or the name of a dataset. Of the latter two, `split` chooses
    one of the stored splits, and `root` is the folder of the datasets.

    `id` and `label` name columns; by default those called "id" and "label". The columns `drop` are
    left out. A file that holds more than `max_bytes` is refused, as in
    :func:`pdgnn.io.read_graph_file`. For a model that is `fitted` already, `id`, `label` and `drop`
    may name columns that are not there, and what labels there are is not checked.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "edges.csv").write_text("source,target\\nann,bob\\nbob,cid\\n")
    ...     rows = "id,age,role\\ncid,30,x\\nann,41,x\\nbob,28,y\\ndan,35,y\\n"
    ...     _ = Path(folder, "nodes.csv").write_text(rows)
    ...     table = read_nodes(folder, label="role")
    >>> table.ids.tolist(), table.labels.tolist(), table.graph.degree.tolist()
    (['cid', 'ann', 'bob', 'dan'], ['x', 'x', 'y', 'y'], [1.0, 1.0, 2.0, 0.0])
    >>> table.features.to_pydict()
    {'age': [30.0, 41.0, 28.0, 35.0]}
    """
    limit, path = checked_max_bytes(max_bytes), Path(edges)
    wanted = Wanted.of(id, label, drop, fitted)
    if nodes is not None:
        return _from_files(path, Path(nodes), limit, wanted)
    if is_dataset(str(edges)):
        return node_table_of_source(open_source(str(edges), root), wanted, split=split)
    if path.is_dir():
        return _from_files(*_in_folder(path), limit, wanted)
    if path.name.lower().endswith(".graphml"):
        return _from_graphml(path, limit, wanted)
    if path.name.lower().endswith(TABLES):
        raise InputError(f"{path}: these are edges alone; name the node table too (--nodes)")
    source = open_source(str(edges), root, max_bytes=limit)
    with naming(path):
        return node_table_of_source(source, wanted, split=split)


def _in_folder(folder: Path) -> tuple[Path, Path]:
    """The files ``edges.*`` and ``nodes.*`` of a folder, one of each."""
    with naming(folder):
        return _the_one(folder, "edges"), _the_one(folder, "nodes")


def _the_one(folder: Path, stem: str) -> Path:
    names = {f"{stem}{suffix}" for suffix in TABLES}
    found = sorted(path for path in folder.iterdir() if path.name.lower() in names)
    if not found:
        raise InputError(f"there is no {stem}.csv in it (nor {stem}.tsv, {stem}.parquet, ...)")
    if len(found) > 1:
        raise InputError(f"it holds {shown(path.name for path in found)}; keep one of them")
    try:
        inside = folder.resolve() in found[0].resolve().parents
    except (OSError, RuntimeError):  # a link to itself
        inside = False
    if not inside:
        raise InputError(f"{found[0].name} is a link out of the folder; put the file itself there")
    return found[0]


def _from_files(edges: Path, nodes: Path, limit: int, wanted: Wanted) -> NodeTable:
    with naming(nodes):
        if file_suffix(nodes, TABLES) == ".parquet":
            rows = parquet.named_rows(nodes, limit, lambda schema: _kept(schema, wanted))
            given = given_columns(rows, replace(wanted, drop=()))
            given.dropped = wanted.drop
        else:
            given = given_columns(text.named_rows(nodes, limit), wanted)
    with naming(edges):
        read = parquet if file_suffix(edges, TABLES) == ".parquet" else text
        ends, weights = edge_columns(*read.edge_rows(edges, limit))
        return given.with_edges(edges.name, ends, weights)


def _kept(schema: Any, wanted: Wanted) -> list[str]:
    kept = wanted.kept(schema.names)
    check_types(schema.field(name) for name in kept)
    return kept


def _from_graphml(path: Path, limit: int, wanted: Wanted) -> NodeTable:
    import pyarrow as pa

    with naming(path):
        file_suffix(path, [".graphml"])
        raw, attributes = read_graphml_nodes(path, limit)
        if raw.edge_index.shape[1] == 0:
            raise InputError("there are no edges in it; give at least one")
        ids = pa.chunked_array([pa.array(raw.node_ids, pa.large_string())])
        rows = pa.table({k: pa.array(v, pa.large_string()) for k, v in attributes.items()})
        given = given_columns(rows, wanted, ids)
        graph = Graph.from_edge_index(
            raw.edge_index, raw.num_nodes, raw.edge_weight, node_ids=given.ids
        )
        return given.with_graph(path.name, graph)


def node_table_of_source(source: Source, wanted: Wanted, *, split: int = 0) -> NodeTable:
    """The table of a benchmark graph, whose features are a matrix; `split` chooses one of several.

    Ids are those that the file names, or else the numbers of the nodes.
    """
    import pyarrow as pa

    wanted.refuse_columns()
    if wanted.label is not None and not wanted.fitted:
        raise InputError("its labels have no name; leave label= (--label) out")
    labels = None if source.labels is None else labels_of_codes(source.labels)
    parts = None if source.masks is None else split_of_masks(source.masks, split)
    if labels is None and not wanted.fitted:
        raise InputError("there are no labels in it; add node_labels")
    if source.graph.num_edges == 0:
        raise InputError("there are no edges in it; give at least one")
    if labels is not None and not wanted.fitted:
        check_labels(labels, parts)
    ids = source.graph.node_ids
    if ids is not None:
        ids = ids_as_given(check_unique(pa.chunked_array([pa.array(ids.tolist())])))
    return NodeTable(
        name=source.name,
        graph=source.graph,
        ids=np.arange(source.graph.num_nodes) if ids is None else ids,
        features=source.features,
        labels=labels,
        split=parts,
    )
