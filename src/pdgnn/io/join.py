"""Edges joined to a node table by the ids of the nodes.

Where every id on both sides is an integer they are compared as integers, so that ``3`` in a text
file, 3 in Parquet and ``3.0`` are one node. Else they are compared as they are written.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pdgnn.errors import InputError
from pdgnn.io.kinds import shown
from pdgnn.io.table import TEXT, as_integers, check_unicode, id_column

__all__ = ["check_unique", "ids_as_given", "joined"]

EXACT = r"^(0|-?[1-9][0-9]*)$"  # an integer that is written as it prints


def ids_as_given(column: Any) -> NDArray[Any]:
    """The ids ``[N]``: int64 where that prints them as they came, else text."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if str(column.type) not in TEXT:
        integers = as_integers(id_column(column, "id"))
        if integers is not None:
            return np.asarray(integers.to_numpy())
    elif pc.all(pc.match_substring_regex(column, EXACT)).as_py():
        try:
            return np.asarray(column.cast(pa.int64()).to_numpy())
        except pa.ArrowInvalid:  # beyond 64 bits
            pass
    ids = np.empty(len(column), dtype=object)
    ids[:] = column.cast(pa.large_string()).to_pylist()
    return ids


def joined(ids: Any, ends: Sequence[Any]) -> NDArray[np.int64]:
    """The rows ``[2, E]`` of a node table in whose id column both ends of each edge stand.

    `ids` are those of :func:`check_unique`, `ends` the columns of
    :func:`pdgnn.io.table.edge_columns`. An edge to a node that is not there is an error.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    columns: list[Any] = [as_integers(column) for column in (ids, *ends)]
    if any(column is None for column in columns):
        columns = [column.cast(pa.large_string()) for column in (ids, *ends)]
    keys = columns[0].combine_chunks()
    rows = [pc.index_in(end, value_set=keys) for end in columns[1:]]
    unknown = [end.filter(pc.is_null(row)) for end, row in zip(columns[1:], rows, strict=True)]
    if any(len(end) for end in unknown):
        raise _unknown_nodes(rows, unknown, keys)
    return np.stack([row.to_numpy() for row in rows]).astype(np.int64)  # [2, E]


def check_unique(column: Any) -> Any:
    """The id column, complete, each id once; else an error that names three that occur twice."""
    import pyarrow.compute as pc

    ids = id_column(column, "id")
    integers = as_integers(ids)
    counts = pc.value_counts(ids if integers is None else integers)
    twice = counts.filter(pc.greater(counts.field("counts"), 1)).field("values").to_pylist()
    if twice:
        many = "1 id occurs" if len(twice) == 1 else f"{len(twice):,} ids occur"
        raise InputError(f"{many} more than once: {shown(twice)}; give every node one row")
    check_unicode(ids)
    return ids


def _unknown_nodes(rows: Sequence[Any], unknown: Sequence[Any], keys: Any) -> InputError:
    import pyarrow as pa
    import pyarrow.compute as pc

    edges = int(pc.sum(pc.or_(*(pc.is_null(row) for row in rows))).as_py())
    found = pc.unique(pa.chunked_array([c for end in unknown for c in end.chunks]))
    names, hint = found.to_pylist(), ""
    if all(row[0].as_py() is None for row in rows):
        hint = " (if the first row is a header, call its columns source and target)"
    if _same_text(found, keys):
        hint = " (some are there in another Unicode form; write the ids of both tables in NFC)"
    return InputError(
        f"{edges:,} {'edge ends' if edges == 1 else 'edges end'} at {len(names):,} "
        f"{'node that is' if len(names) == 1 else 'nodes that are'} not in the node table: "
        f"{shown(names)}; add these nodes, or drop these edges{hint}"
    )


def _same_text(names: Any, keys: Any) -> bool:
    """Whether a name is that of a key but for how its accents are encoded, as é or as e with ´."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not pa.types.is_large_string(keys.type):
        return False
    here, there = (pc.utf8_normalize(column, form="NFC") for column in (names, keys))
    return bool(pc.any(pc.is_in(here, value_set=there)).as_py())
