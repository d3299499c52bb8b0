"""Results as rows of JSON files: the machine, the versions, the command, the date, the seconds."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

from pdgnn.errors import InputError
from pdgnn.io.atomic import replacing
from pdgnn.training.provenance import PACKAGES, Row, call, machine

__all__ = ["PACKAGES", "Row", "call", "machine", "read_rows", "recorded", "write_rows"]

SHARED = ("machine", "python", "versions")
AS_ABOVE = {"made": "as above"}
"""In the place of these fields, where they are those of the row above."""


def read_rows(path: Path) -> list[Row]:
    """What write_rows has written, or nothing where there is no file."""
    if not path.exists():
        return []
    try:
        rows = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as e:
        raise InputError(f"{path}: cannot be read ({e}); move it away to begin a new one") from e
    if not isinstance(rows, list):
        raise InputError(f"{path}: this is no list of rows; move it away to begin a new one")
    above: Row = {}
    for row in rows:
        if AS_ABOVE.items() <= row.items():
            del row["made"]
            row.update(_shared(above))
        above = row
    return rows


def _shared(row: Row) -> Row:
    return {key: row[key] for key in SHARED if key in row}


def write_rows(path: Path, rows: Sequence[Row]) -> None:
    """Write the rows as JSON, one on each line, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    short = [*rows[:1]]
    for above, row in pairwise(rows):
        alike = _shared(row) and _shared(row) == _shared(above)
        short.append({k: row[k] for k in row if k not in SHARED} | AS_ABOVE if alike else row)
    lines = ",\n".join(json.dumps(row, ensure_ascii=False) for row in short)
    with replacing(path) as partial:
        partial.write_text(f"[\n{lines}\n]\n", encoding="utf-8")


@contextmanager
def recorded(path: Path, command: str, device: str, count: Callable[[], int]) -> Iterator[None]:
    """Add a row to the file `path`: what was called here and made so many more by `count`.

    Also if the work is stopped; not if it made none.
    """
    rows, begun, before = read_rows(path), time.perf_counter(), count()
    called = call(command, device)
    try:
        yield
    finally:
        made = count() - before
        if made > 0:
            seconds = round(time.perf_counter() - begun, 1)
            write_rows(path, [*rows, machine() | called | {"runs": made, "seconds": seconds}])
