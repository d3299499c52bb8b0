"""From the columns of an edge list to numbered nodes and weights.

Columns are chosen by name where the names of both ends are known (``source``, ``src``, ``from``,
``u``, ...; ``target``, ``dst``, ``to``, ``v``, ...; ``weight``, ``w``), and columns beyond these
are then left out, but for a third that is alone: it could be the weights. Otherwise the order
decides: source, target, and weight if there are three.

Both ends decide together what ids are. Where every id is an integer from 0 on, they are used as
they are, and there are max + 1 nodes; ``3.0`` and ``3.000e+00`` are 3. All others are names, as
they are written: nodes are then numbered in the order in which they first appear, row by row. Names
are text, a mix of text and integers, negative integers, integers with leading zeros or beyond 64
bits, and integers so sparse that nearly all nodes would have no edge (beyond 100,000 and beyond 10
times the number of edges).

A "row" in an error counts rows of data from 1, without comments, header and blank lines.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pdgnn.errors import InputError
from pdgnn.io.raw import RawGraph, checked_weights, largest_id_allowed

__all__ = [
    "NUMBER",
    "TEXT",
    "as_integers",
    "check_unicode",
    "choose_columns",
    "column_role",
    "edge_columns",
    "graph_from_table",
    "id_column",
    "is_integer_text",
    "is_number_text",
    "trimmed",
    "without_index",
]

ROLES = ("source", "target", "weight")
NAMES = {
    "source": {"source", "src", "from", "u", "i", "node1", "nodea", "id1"},
    "target": {"target", "tgt", "to", "dst", "dest", "v", "j", "node2", "nodeb", "id2"},
    "weight": {"weight", "weights", "edgeweight", "w"},
}
TEXT = {"string", "large_string", "string_view"}
# Pandas and NumPy's savetxt write integers that became floats as "3.0" and as "3.000e+00".
INTEGER = r"^(0|-?[1-9][0-9]*)(\.0*)?$"
WITH_EXPONENT = r"^[0-9]\.[0-9]*e[+-]?[0-9]+$"
EXACT_BELOW = 2**53  # a float64 below it stands for one integer
NUMBER = r"(?i)^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?$|^[+-]?(nan|inf|infinity)$"


def graph_from_table(table: Any, names: Sequence[str]) -> RawGraph:
    """The graph in a `pyarrow.Table` whose columns are called `names` ("" where they are not)."""
    ends, weights = edge_columns(table, names)
    edge_index, num_nodes, node_ids = _number_nodes(ends)
    return RawGraph(edge_index, num_nodes, weights, node_ids)


def edge_columns(table: Any, names: Sequence[str]) -> tuple[list[Any], NDArray[np.float64] | None]:
    """The ids of both ends, as columns of integers or of text, and the weights if there are any."""
    source, target, weight = choose_columns(names)
    if table.num_rows == 0:
        raise InputError("there are no edges in it; give at least one row")
    ends = [
        id_column(table.column(i), role) for i, role in ((source, "source"), (target, "target"))
    ]
    return ends, None if weight is None else _as_weights(table.column(weight))


def column_role(name: str) -> str | None:
    """Which of source, target and weight a column's name stands for.

    >>> column_role("From Node ID"), column_role("dst"), column_role("Weight"), column_role("year")
    ('source', 'target', 'weight', None)
    """
    plain = "".join(c for c in name.lower() if c.isalnum())
    stem = plain.removesuffix("id").removesuffix("node")
    key = stem if len(stem) > 1 else plain  # "uid" is not "u"
    return next((role for role in ROLES if key in NAMES[role]), None)


def without_index(names: Sequence[str]) -> list[str]:
    """The columns less the index that pandas writes into Parquet, which only numbers the rows.

    >>> without_index(["id", "age", "__index_level_0__"])
    ['id', 'age']
    """
    return [name for name in names if not re.fullmatch(r"__index_level_\d+__", name)]


def choose_columns(names: Sequence[str]) -> tuple[int, int, int | None]:
    """The places of source, target and weight among columns called `names`.

    >>> choose_columns(["id", "to", "from", "w"]), choose_columns(["", "", ""])
    ((2, 1, 3), (0, 1, 2))
    """
    roles = [column_role(name) for name in names]
    shown = ", ".join(name or "?" for name in names)
    if len(names) < 2:
        raise InputError("there is one column only; an edge needs two, source and target")
    for role in ROLES:
        if roles.count(role) > 1:
            raise InputError(f"several columns could be the {role} ({shown}); keep one of them")
    if "source" in roles and "target" in roles:
        if len(names) == 3 and "weight" not in roles:
            extra = names[roles.index(None)]
            raise InputError(f"column {extra!r} is unknown; name it 'weight', or leave it out")
        weight = roles.index("weight") if "weight" in roles else None
        return roles.index("source"), roles.index("target"), weight
    in_place = all(role in (None, place) for role, place in zip(roles, ROLES, strict=False))
    if len(names) > 3 or not in_place:
        raise InputError(
            f"which of the {len(names)} columns are the ends of an edge is not clear ({shown}); "
            "give a header with source, target and, if there is one, weight"
        )
    return 0, 1, 2 if len(names) == 3 else None


def is_integer_text(column: Any) -> bool:
    """Whether every value of a text column is an integer without leading zeros, or such a float."""
    return any(_all_match(column, p) for p in (INTEGER, WITH_EXPONENT))


def is_number_text(column: Any) -> bool:
    """Whether every value of a text column is a number."""
    return _all_match(column, NUMBER)


def _all_match(column: Any, pattern: str) -> bool:
    import pyarrow.compute as pc

    parts = (column.slice(0, 1000), column.slice(1000))  # most columns that fail do so early
    return all(pc.all(pc.match_substring_regex(p, pattern), min_count=0).as_py() for p in parts)


def trimmed(column: Any) -> Any:
    """A text column without spaces around its values."""
    import pyarrow as pa
    import pyarrow.compute as pc

    return pc.utf8_trim_whitespace(column.cast(pa.large_string()))


def _first_missing(column: Any) -> int:
    """The first row that is null, NaN or empty; -1 if there is none."""
    import pyarrow.compute as pc

    missing = pc.is_null(column, nan_is_null=True)
    if str(column.type) in TEXT:
        missing = pc.or_(missing, pc.equal(pc.fill_null(column, ""), ""))
    return int(pc.index(missing, value=True).as_py())


def _plain(column: Any, role: str) -> Any:
    """The column without spaces around its values, complete, or an error."""
    if str(column.type) in TEXT:
        column = trimmed(column)
    row = _first_missing(column)
    if row >= 0:
        raise InputError(f"row {row + 1} has no {role}; fill it in, or drop the row")
    return column


def id_column(column: Any, role: str) -> Any:
    """A complete column of integers or of text, or an error."""
    import pyarrow as pa

    column = _plain(column, role)
    if pa.types.is_floating(column.type):
        try:
            return column.cast(pa.float64()).cast(pa.int64())
        except pa.ArrowInvalid as e:
            raise InputError(
                f"the {role} column holds fractions or numbers beyond 64 bits; ids are integers"
            ) from e
    if str(column.type) in TEXT or pa.types.is_integer(column.type):
        return column
    raise InputError(f"the {role} column holds {column.type}; ids are integers or text")


def as_integers(column: Any) -> Any | None:
    """The ids as int64, or None where one of them is no integer or beyond 64 bits."""
    import pyarrow as pa
    import pyarrow.compute as pc

    try:
        if str(column.type) not in TEXT:
            return column.cast(pa.int64())
        if _all_match(column, INTEGER):  # digit by digit: a float64 would merge the largest
            if pc.any(pc.match_substring(column, ".")).as_py():
                column = pc.replace_substring_regex(column, r"\.0*$", "")
            return column.cast(pa.int64())
        if _all_match(column, WITH_EXPONENT):
            numbers = column.cast(pa.float64())
            return numbers.cast(pa.int64()) if pc.max(numbers).as_py() < EXACT_BELOW else None
    except pa.ArrowInvalid:
        pass
    return None


def _number_nodes(ends: Sequence[Any]) -> tuple[NDArray[np.int64], int, NDArray[Any] | None]:
    """``[2, E]`` node numbers, the number of nodes, and their names where ids are not numbers."""
    import pyarrow as pa

    source, target = (as_integers(column) for column in ends)
    if source is None or target is None:
        source, target = (column.cast(pa.large_string()) for column in ends)
    else:
        index = np.stack([source.to_numpy(), target.to_numpy()])  # [2, E]
        if index.min() >= 0 and index.max() <= largest_id_allowed(index.shape[1]):
            return index, int(index.max()) + 1, None
    encoded = pa.concat_arrays(source.chunks + target.chunks).dictionary_encode()  # [2 * E]
    codes, order = _by_first_appearance(encoded.indices.to_numpy().reshape(2, -1))
    check_unicode(encoded.dictionary)
    names = encoded.dictionary.to_numpy(zero_copy_only=False)[order]
    return codes, len(names), names


def check_unicode(names: Any) -> None:
    """An error where two `names` differ only in how accents are encoded, as é or as e with ´."""
    import pyarrow.compute as pc

    if str(names.type) not in TEXT or pc.all(pc.string_is_ascii(names)).as_py():
        return
    counts = pc.value_counts(pc.utf8_normalize(names, form="NFC"))
    twice = counts.filter(pc.greater(counts.field("counts"), 1)).field("values").to_pylist()
    if twice:
        raise InputError(
            f"the id {twice[0][:40]!r} is written in several Unicode forms, each of which would be "
            "a node; write all ids in NFC"
        )


def _by_first_appearance(codes: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Renumber ``[2, E]`` codes 0..K-1 row by row of the file; also the old code of each new one.

    >>> codes, order = _by_first_appearance(np.array([[0, 1], [2, 0]]))
    >>> codes.tolist(), order.tolist()
    ([[0, 2], [1, 0]], [0, 2, 1])
    """
    flat = codes.T.ravel()  # [2 * E]
    first = np.empty(int(flat.max()) + 1, dtype=np.int64)
    first[flat[::-1]] = np.arange(flat.size)[::-1]  # the last one written stays: the earliest
    order = np.argsort(first)
    place = np.empty_like(order)
    place[order] = np.arange(order.size)
    return place[codes], order


def _as_weights(column: Any) -> NDArray[np.float64]:
    import pyarrow as pa
    import pyarrow.compute as pc

    column = _plain(column, "weight")
    if str(column.type) in TEXT and not is_number_text(column):
        row = int(pc.index(pc.match_substring_regex(column, NUMBER), value=False).as_py())
        shown = column[row].as_py()[:40]
        raise InputError(f"the weight in row {row + 1} is {shown!r}; weights must be numbers")
    try:
        return checked_weights(column.cast(pa.float64(), safe=False).to_numpy())
    except pa.ArrowException as e:
        raise InputError(f"the weight column holds {column.type}; weights must be numbers") from e
