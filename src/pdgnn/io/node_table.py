"""From the columns of a node table to ids, features, labels and a split, joined with the edges."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pdgnn.errors import InputError
from pdgnn.graph import Graph
from pdgnn.io.join import check_unique, ids_as_given, joined
from pdgnn.io.kinds import check_names, check_types, decoded, plain_column, shown
from pdgnn.io.labels import check_labels, labels_of_column, split_of_column
from pdgnn.io.table import without_index

__all__ = ["GivenColumns", "NodeTable", "Wanted", "given_columns"]


@dataclass
class NodeTable:
    """A graph of N nodes and what is known of them, in the order of the node table.

    - `ids` ``[N]``: int64, or text in an object array, as they came in.
    - `features`: a `pyarrow.Table` of N rows whose columns are float64, bool or text with nulls, or
      a float32 matrix ``[N, F]``; None where there are none.
    - `labels` ``[N]``: int, str or bool as they came, None for a node without one; None as a whole
      where there are none, which only a table for a fitted model may have.
    - `split` ``[N]``: 0 train, 1 val, 2 test, −1 in no part; None where there is no split.
    - `dropped`: the columns that were left out on request.
    """

    name: str
    graph: Graph
    ids: NDArray[Any]
    features: Any = None
    labels: NDArray[np.object_] | None = None
    split: NDArray[np.int8] | None = None
    id_name: str = "id"
    label_name: str = "label"
    dropped: tuple[str, ...] = ()

    @property
    def num_nodes(self) -> int:
        """The number of nodes N."""
        return self.graph.num_nodes


@dataclass(frozen=True)
class Wanted:
    """Which columns hold what, as a user says it; see :func:`pdgnn.io.nodes.read_nodes`."""

    id: str | None = None
    label: str | None = None
    drop: tuple[str, ...] = ()
    fitted: bool = False

    @classmethod
    def of(
        cls, id: str | None, label: str | None, drop: str | Iterable[str], fitted: bool
    ) -> Wanted:
        """`drop` may be one name or several."""
        names = (drop,) if isinstance(drop, str) else tuple(drop)
        for name in names:
            if name in (id, label):
                raise InputError(f"column {shown([name])} is asked for and dropped; choose one")
        return cls(id, label, names, fitted)

    def kept(self, names: Sequence[str]) -> list[str]:
        """The columns that are not dropped; an error if one that is to be is not there."""
        names = without_index(names)
        check_names(names)
        for name in self.drop:
            if name not in names and not self.fitted:
                raise InputError(
                    f"there is no column {shown([name])} to drop; {_they_are(names, name)}"
                )
        return [name for name in names if name not in self.drop]

    def refuse_columns(self) -> None:
        """An error if a column is named where there are none."""
        if (self.drop or self.id is not None) and not self.fitted:
            raise InputError("it has no named columns; id and drop (--id, --drop) are for tables")


@dataclass
class GivenColumns:
    """A node table without its edges; `keys` is the id column that edges are joined to."""

    ids: NDArray[Any]
    keys: Any
    features: Any
    labels: NDArray[np.object_] | None
    split: NDArray[np.int8] | None
    id_name: str
    label_name: str
    dropped: tuple[str, ...]

    def with_graph(self, name: str, graph: Graph) -> NodeTable:
        """The table of the nodes of `graph`, which are these rows in this order."""
        if graph.num_nodes != len(self.ids):
            raise InputError(
                f"the graph has {graph.num_nodes:,} nodes and the table {len(self.ids):,} rows; "
                "give one row for each node"
            )
        return NodeTable(
            name=name,
            graph=graph,
            ids=self.ids,
            features=self.features,
            labels=self.labels,
            split=self.split,
            id_name=self.id_name,
            label_name=self.label_name,
            dropped=self.dropped,
        )

    def with_edges(
        self, name: str, ends: Sequence[Any], weights: NDArray[np.float64] | None
    ) -> NodeTable:
        """The table joined with edges, as :func:`pdgnn.io.table.edge_columns` gives them."""
        index = joined(self.keys, ends)
        graph = Graph.from_edge_index(index, len(self.ids), weights, node_ids=self.ids)
        return self.with_graph(name, graph)


def given_columns(rows: Any, wanted: Wanted, ids: Any = None) -> GivenColumns:
    """What the columns of a `pyarrow.Table` are; `ids` is an id column that is not among them."""
    kept = wanted.kept(rows.column_names)
    rows = rows.select(kept)
    check_types(rows.schema)
    id_name = "id"
    if ids is None:
        id_name = _named(kept, wanted.id, "id")
        ids = rows.column(id_name)
    elif wanted.id is not None and not wanted.fitted:
        raise InputError(f"the ids are not a column here; leave id={wanted.id!r} (--id) out")
    ids = decoded(ids)
    if len(ids) == 0:
        raise InputError("there are no nodes in it, only the names of columns; give some rows")
    keys = check_unique(ids)
    label_name = _label_name(kept, wanted)
    split_name = next((name for name in kept if name.lower() == "split"), None)
    labels = None if label_name is None else labels_of_column(rows.column(label_name), label_name)
    split = None if split_name is None else split_of_column(rows.column(split_name))
    if not wanted.fitted and labels is not None:
        check_labels(labels, split)
    rest = [name for name in kept if name not in (id_name, label_name, split_name)]
    return GivenColumns(
        ids=ids_as_given(ids),
        keys=keys,
        features=_features(rows.select(rest)) if rest else None,
        labels=labels,
        split=split,
        id_name=id_name,
        label_name=label_name or wanted.label or "label",
        dropped=wanted.drop,
    )


def _features(rows: Any) -> Any:
    import pyarrow as pa

    return pa.table({name: plain_column(rows.column(name)) for name in rows.column_names})


def _they_are(names: Sequence[str], wanted: object) -> str:
    """What the columns are called, the one most like `wanted` first.

    >>> _they_are(["id", "role"], "rol"), _they_are([], "rol")
    ("did you mean 'role'? columns are 'id', 'role'", 'there are no columns')
    """
    if not names:
        return "there are no columns"
    near = get_close_matches(str(wanted), names, 1)
    return (f"did you mean {shown(near)}? " if near else "") + f"columns are {shown(names, 8)}"


def _named(names: Sequence[str], said: str | None, usual: str) -> str:
    """The column called `said`, or else the one called `usual` in upper or lower case."""
    if said is not None:
        if said not in names:
            raise InputError(f"there is no column {shown([said])}; {_they_are(names, said)}")
        return said
    found = [name for name in names if name.lower() == usual]
    if len(found) > 1:
        raise InputError(
            f"columns {shown(found)} could all be meant; say which ({usual}=, --{usual})"
        )
    if not found:
        raise InputError(
            f"there is no column {usual!r}; {_they_are(names, usual)}: say which is meant "
            f"({usual}=, --{usual})"
        )
    return found[0]


def _label_name(names: Sequence[str], wanted: Wanted) -> str | None:
    if wanted.fitted and wanted.label not in names:
        return None
    return _named(names, wanted.label, "label")
