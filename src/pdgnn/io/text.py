"""Tables as text: comma, tab or space between the columns; of edges with or without a header.

- ``.csv``: commas; semicolons or tabs if the first line has no comma. ``.tsv``: tabs.
- ``.txt``, ``.edges``, ``.edgelist``: commas if the first line has one, else any blank space.
- Lines that start with ``#`` or ``%`` before the first row are comments.
- The first row of an edge list is a header if it names source and target (and no node is called
  so), or if it is text where all rows below it are numbers. That of other tables always is.
"""

from __future__ import annotations

import csv
import gzip
import zlib
from io import BytesIO
from pathlib import Path
from typing import Any

from pdgnn.errors import InputError
from pdgnn.io.raw import RawGraph, brief, check_size
from pdgnn.io.table import (
    column_role,
    graph_from_table,
    is_integer_text,
    is_number_text,
    trimmed,
)

__all__ = ["edge_rows", "named_rows", "read_text"]

SEPARATORS = {".csv": ",;\t", ".tsv": "\t"}
VALUE_BYTES = 8  # what a value counts besides its text: its place in a column
MARKUP = (b"<!doctype", b"<html", b"<?xml")


def read_text(path: Path, max_bytes: int) -> RawGraph:
    """Read an edge list of two columns (source, target) or three (weight); see the module."""
    return graph_from_table(*edge_rows(path, max_bytes))


def edge_rows(path: Path, max_bytes: int) -> tuple[Any, list[str]]:
    """The rows of an edge list as a `pyarrow.Table` of text, and its columns' names or blanks."""
    table = _rows(path, max_bytes)
    names = _header(table)
    return (table.slice(1), names) if names else (table, [""] * table.num_columns)


def named_rows(path: Path, max_bytes: int) -> Any:
    """The rows below the header as a `pyarrow.Table` of text with the names in the header."""
    table = _rows(path, max_bytes)
    return table.slice(1).rename_columns([column[0].as_py() for column in table.columns])


def _rows(path: Path, max_bytes: int) -> Any:
    """All rows as a `pyarrow.Table` of text columns, a header being the first."""
    body = _without_comments(_text_bytes(path, max_bytes))
    suffix = path.with_suffix("").suffix if path.suffix.lower() == ".gz" else path.suffix
    separators = SEPARATORS.get(suffix.lower(), ",")
    first = _first_line(body)
    separator = next((s for s in separators if s in first), " ")
    if separator == " " and suffix.lower() in SEPARATORS:
        raise InputError(f"the first row has no {_spoken(separators)}; two columns are needed")
    if separator == " ":
        body = _single_spaces(body)
        first = _first_line(body)
    width = _width(first, separator)
    check_size(len(body) + VALUE_BYTES * width * body.count(b"\n"), max_bytes)
    return _parsed(body, separator, width)


def _first_line(body: bytes) -> str:
    end = body.find(b"\n")
    return body[: end if end >= 0 else None].decode()


def _width(line: str, separator: str) -> int:
    try:
        return len(next(csv.reader([line], delimiter=separator)))
    except csv.Error as e:
        raise InputError(f"the first row cannot be split into columns ({brief(e)})") from e


def _spoken(separators: str) -> str:
    words = {",": "comma", ";": "semicolon", "\t": "tab"}
    return " or ".join(words[s] for s in separators)


def _text_bytes(path: Path, max_bytes: int) -> bytes:
    """The whole file, unpacked, as UTF-8 with one kind of line end, or an error."""
    check_size(path.stat().st_size, max_bytes)
    data = _unpacked(path, max_bytes) if path.suffix.lower() == ".gz" else path.read_bytes()
    if b"\0" in data:
        raise InputError("this is binary data, not text; save the table as UTF-8 text")
    data = data.removeprefix(b"\xef\xbb\xbf")
    if not data.isascii():
        _check_utf8(data)
    if data[:200].lstrip().lower().startswith(MARKUP):
        raise InputError("this is a web page or XML, not a table; download the file itself")
    return data.replace(b"\r\n", b"\n").replace(b"\r", b"\n") if b"\r" in data else data


def _unpacked(path: Path, max_bytes: int) -> bytes:
    """The contents of a gzip file, read no further than the limit."""
    data, lines = BytesIO(), 0
    try:
        with gzip.open(path) as file:
            while chunk := file.read(1 << 20):
                data.write(chunk)
                lines += chunk.count(b"\n")
                check_size(data.tell() + 2 * VALUE_BYTES * lines, max_bytes)
    except (EOFError, gzip.BadGzipFile, zlib.error) as e:
        raise InputError("not a whole gzip file; it was cut short or is not gzip") from e
    return data.getvalue()


def _check_utf8(data: bytes) -> None:
    try:
        data.decode()
    except UnicodeDecodeError as e:
        raise InputError(f"byte {e.start} is not UTF-8 text; save the file as UTF-8") from e


def _without_comments(data: bytes) -> bytes:
    """The rows, from the first line that is neither blank nor a comment."""
    start = 0
    while start < len(data):
        end = data.find(b"\n", start) + 1 or len(data)
        line = data[start:end].strip()
        if line and not line.startswith((b"#", b"%")):
            break
        start = end
    body = data[start:]
    if not body:
        raise InputError("there are no rows in it, only comments or blank lines")
    for mark in (b"\n#", b"\n%"):
        if (place := _outside_quotes(body, mark)) >= 0:
            line_number = data.count(b"\n", 0, start + place) + 2
            raise InputError(
                f"line {line_number} is a comment amid the rows; move it to the top of the file "
                "(or put quotes around a name that starts so)"
            )
    return body


def _outside_quotes(body: bytes, mark: bytes) -> int:
    """Where `mark` is found first, values in quotes aside; -1 where it is not.

    >>> _outside_quotes(b'a,"b\\n#c"\\n#d', b"\\n#")
    8
    """
    place, counted, quotes = body.find(mark), 0, 0
    while place >= 0:
        quotes += body.count(b'"', counted, place)
        if quotes % 2 == 0:
            break
        counted, place = place, body.find(mark, place + 1)
    return place


def _single_spaces(body: bytes) -> bytes:
    """One space between columns, none at the ends of a line."""
    body = body.replace(b"\t", b" ").strip()
    while b"  " in body:
        body = body.replace(b"  ", b" ")
    return body.replace(b" \n", b"\n").replace(b"\n ", b"\n")


def _parsed(body: bytes, separator: str, width: int) -> Any:
    """All rows as a `pyarrow.Table` of text columns named 0, 1, ..."""
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    ragged: list[str] = []

    def remember(row: Any) -> str:
        ragged.append(f"the row {row.text[:40]!r} has {row.actual_columns} columns, not {width}")
        return "error"

    names = [str(i) for i in range(width)]
    try:
        table = arrow_csv.read_csv(
            pa.BufferReader(body),
            # one thread: others may outlive an error, and then abort the process when it ends
            read_options=arrow_csv.ReadOptions(
                column_names=names, block_size=1 << 22, use_threads=False
            ),
            parse_options=arrow_csv.ParseOptions(
                delimiter=separator,
                invalid_row_handler=remember,
                newlines_in_values=b'"' in body,
            ),
            convert_options=arrow_csv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.string())
            ),
        )
    except pa.ArrowInvalid as e:
        harm = ragged[0] if ragged else f"it cannot be split into rows ({brief(e)})"
        raise InputError(f"{harm}; every row needs the same columns as the first") from e
    return pa.table([trimmed(column) for column in table.columns], names=names)


def _header(table: Any) -> list[str] | None:
    """The names in the first row if it is a header, else None."""
    import pyarrow.compute as pc

    first = [column[0].as_py() for column in table.columns]
    roles = [column_role(name) for name in first]
    rest = table.slice(1)
    if "source" in roles and "target" in roles:
        ends = [i for i, role in enumerate(roles) if role in ("source", "target")]
        used = (pc.any(pc.equal(rest.column(i), first[j])).as_py() for i in ends for j in ends)
        return None if any(used) else first
    if rest.num_rows == 0 or table.num_columns not in (2, 3):
        return None
    if any(is_number_text(column.slice(0, 1)) for column in table.columns):
        return None
    ids_below = all(is_integer_text(rest.column(i)) for i in (0, 1))
    weights_below = len(first) == 3 and is_number_text(rest.column(2))
    return first if ids_below or weights_below else None
