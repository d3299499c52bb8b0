"""The kinds of columns in a node table: numbers, truth values and categories; others are refused.

A column that a text file gave is one of numbers if every value is a number, those missing aside;
``007`` is no number here but a code. Missing are empty values and, where all others are numbers,
``NA``, ``<NA>``, ``N/A``, ``#N/A``, ``NaN``, ``null`` and ``None``.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import Any

from pdgnn.errors import InputError
from pdgnn.io.table import NUMBER, TEXT, is_number_text, trimmed

__all__ = [
    "MISSING",
    "among_numbers",
    "check_names",
    "check_types",
    "decoded",
    "plain_column",
    "shown",
]

MISSING = ("", "NA", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan", "NAN", "null", "NULL", "None")
CODE = r"^[+-]?0[0-9]"  # a leading zero


def shown(names: Iterable[object], most: int = 3) -> str:
    """The first few of `names`, in quotes where they are text, and how many more there are.

    >>> shown(["a", "b", "c", "d"]), shown([3, 5])
    ("'a', 'b', 'c' and 1 more", '3, 5')
    """
    names = list(names)
    said = ", ".join(repr(name[:40] if isinstance(name, str) else name) for name in names[:most])
    more = len(names) - most
    return f"{said} and {more:,} more" if more > 0 else said


def check_names(names: Iterable[str]) -> None:
    """An error if two columns have the same name, or one has none."""
    seen: set[str] = set()
    for name in names:
        if not name:
            raise InputError("a column has no name; give every column one in the first row")
        if name in seen:
            raise InputError(f"two columns are called {shown([name])}; rename one of them")
        seen.add(name)


def check_types(schema: Iterable[Any]) -> None:
    """An error that names a column of dates, lists or whatever else is never a feature."""
    for field in schema:
        if not _is_plain(field.type):
            raise InputError(
                f"column {shown([field.name])} holds {field.type}, which is neither a number nor a "
                "category; turn it into one, or drop it (drop=, --drop)"
            )


def _is_plain(kind: Any) -> bool:
    import pyarrow as pa

    t = pa.types
    if t.is_dictionary(kind):
        return _is_plain(kind.value_type)
    tests = (t.is_integer, t.is_floating, t.is_decimal, t.is_boolean, t.is_null)
    return str(kind) in TEXT or any(test(kind) for test in tests)


def decoded(column: Any) -> Any:
    """The column with categories as what they stand for, and text in its plain form."""
    import pyarrow as pa

    if pa.types.is_dictionary(column.type):
        values = column.type.value_type
        kind = pa.large_string() if str(values) in TEXT else values
        parts = [part.dictionary.cast(kind).take(part.indices) for part in column.chunks]
        return pa.chunked_array(parts, kind)
    return column.cast(pa.large_string()) if str(column.type) in TEXT else column


def plain_column(column: Any) -> Any:
    """A column as float64, bool or large_string, what is missing being null."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = column.type
    if pa.types.is_dictionary(kind):  # categories, also where they are written as numbers
        return _text(decoded(column).cast(pa.large_string()))
    if str(kind) in TEXT:
        text = _text(column)
        return _numbers(text) if _is_numbers(text) else text
    if pa.types.is_boolean(kind):
        return column
    numbers = column.cast(pa.float64(), safe=False)
    return pc.if_else(pc.is_nan(numbers), None, numbers)


def _text(column: Any) -> Any:
    """Text without spaces around it, null where it is empty."""
    import pyarrow.compute as pc

    column = trimmed(column)
    return pc.if_else(pc.equal(column, ""), None, column)


def _is_numbers(text: Any) -> bool:
    import pyarrow.compute as pc

    for part in (text.slice(0, 1000), text.slice(1000)):  # most columns that fail do so early
        held = _without_missing(part).drop_null()
        if not is_number_text(held) or pc.any(pc.match_substring_regex(held, CODE)).as_py():
            return False
    return True


def among_numbers(values: Collection[str]) -> list[str]:
    """The `values` that are no numbers, where at least half of them are; else none.

    >>> among_numbers(["1.5", "?", "20"]), among_numbers(["1", "b", "c"])
    (['?'], [])
    """
    odd = [v for v in values if re.match(CODE, v) or not re.match(NUMBER, v)]
    return odd if 2 * len(odd) <= len(values) else []


def _without_missing(text: Any) -> Any:
    """The same with null for the spellings of a missing number."""
    import pyarrow as pa
    import pyarrow.compute as pc

    return pc.if_else(pc.is_in(text, value_set=pa.array(MISSING, text.type)), None, text)


def _numbers(text: Any) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

    numbers = _without_missing(text).cast(pa.float64())
    return pc.if_else(pc.is_nan(numbers), None, numbers)
