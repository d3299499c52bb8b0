"""The statements of a results store: rows asked for and put in, over one connection."""

from __future__ import annotations

import json
import sqlite3
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from pdgnn.errors import InputError
from pdgnn.training.database import COLUMNS, errors_of, only_reading_runs
from pdgnn.training.rows import NUMBERS, StoredRun, result_from_row, row_of
from pdgnn.training.spec import RunResult

__all__ = [
    "CHUNK",
    "SELECT",
    "asked",
    "insert",
    "provenance_id",
    "provenances",
    "stored_runs",
    "with_curves",
]

CHUNK = 500
"""Values in one question; SQLite takes at least 999."""
NEEDED = ("data", "key", "spec", *NUMBERS, "memory", "provenance", "finished")
SELECT = f"SELECT {', '.join(f'runs.{n}' for n in NEEDED)} FROM runs"
"""All that a :class:`StoredRun` is made of, but for curves."""


def asked(db: sqlite3.Connection, text: str, values: tuple[Any, ...] = ()) -> list[sqlite3.Row]:
    """The rows of a SELECT."""
    cursor = db.cursor()
    cursor.row_factory = sqlite3.Row
    return cursor.execute(text, values).fetchall()


def stored_runs(
    db: sqlite3.Connection, path: Path, where: str | None, *, curves: bool
) -> Iterator[StoredRun]:
    """The runs of which the condition is true, in the order they were finished."""
    select = SELECT
    if curves:
        select = select.replace(" FROM runs", ", curves.curves FROM runs")
        select += " LEFT JOIN curves USING (data, key)"
    with errors_of(path):
        if where is None:
            rows = asked(db, f"{select} ORDER BY runs.rowid")
        else:
            numbers = _checked_where(db, where)
            parts = [numbers[i : i + CHUNK] for i in range(0, len(numbers), CHUNK)]
            chosen = [f"{select} WHERE runs.rowid IN ({str(p)[1:-1]})" for p in parts]
            rows = [row for text in chosen for row in asked(db, f"{text} ORDER BY runs.rowid")]
    for row in rows:
        place = f"{path}, run {row['key']},"
        result = result_from_row(row, place)  # type: ignore[arg-type]
        if curves and row["curves"] is not None:
            result = with_curves(result, row["curves"], place)
        yield StoredRun(result, row["data"], row["provenance"], row["finished"])


def _checked_where(db: sqlite3.Connection, where: str) -> list[int]:
    """The numbers of the rows that a user's condition is true of.

    Twice, in two places of a statement: only a single whole expression fits both.
    """
    db.set_authorizer(only_reading_runs)
    try:
        db.execute(f"SELECT CASE WHEN (\n{where}\n) THEN 1 END FROM runs LIMIT 0")
        found = db.execute(f"SELECT rowid FROM runs WHERE (\n{where}\n) ORDER BY rowid")
        return [number for (number,) in found]
    except (sqlite3.Error, sqlite3.Warning, ValueError) as e:
        if getattr(e, "sqlite_errorname", "").startswith(("SQLITE_CORRUPT", "SQLITE_IOERR")):
            raise
        said = str(e).partition("\n")[0]
        raise InputError(
            f"this is no condition on runs: {where!r} ({said}); the columns are "
            f"{', '.join(COLUMNS)}"
        ) from e
    finally:
        db.set_authorizer(None)


def insert(db: sqlite3.Connection, run: StoredRun) -> None:
    """Put a run in the place of what there is of it, and drop the claim on it."""
    result = run.result
    row = row_of(result, run.data, run.provenance, run.finished)
    if result.curves is not None:
        packed = zlib.compress(np.ascontiguousarray(result.curves.T, np.dtype("<f4")).tobytes())
        said = "INSERT OR REPLACE INTO curves VALUES (:data, :key, :curves)"
        db.execute(said, {"data": row["data"], "key": row["key"], "curves": packed})
    else:  # those of another outcome are not this run's
        alike = " AND ".join(f"{n} IS :{n}" for n in NUMBERS if n != "seconds")
        same = f"SELECT 1 FROM runs WHERE data = :data AND key = :key AND {alike}"
        said = f"DELETE FROM curves WHERE data = :data AND key = :key AND NOT EXISTS ({same})"
        db.execute(said, row)
    names = list(COLUMNS)
    changed = ", ".join(f"{n} = excluded.{n}" for n in names)
    db.execute(
        f"INSERT INTO runs ({', '.join(names)}) VALUES ({', '.join(f':{n}' for n in names)}) "
        f"ON CONFLICT (data, key) DO UPDATE SET {changed}",
        row,
    )
    db.execute("DELETE FROM claims WHERE data = :data AND key = :key", row)


def with_curves(result: RunResult, packed: Any, place: str) -> RunResult:
    """The result with its curves, as :func:`insert` packs them."""
    try:
        flat = np.frombuffer(zlib.decompress(packed), np.dtype("<f4"))
        curves = flat.reshape(3, result.steps_run).T.astype(np.float32)
    except (zlib.error, ValueError, TypeError) as e:
        raise InputError(f"the curves of {place} are damaged ({e}); move it away") from e
    return replace(result, curves=np.ascontiguousarray(curves))


def provenance_id(db: sqlite3.Connection, about: Mapping[str, Any]) -> int:
    """The id of these facts, which are noted if they are new."""
    facts = json.dumps(dict(about), sort_keys=True, ensure_ascii=False)
    db.execute("INSERT OR IGNORE INTO provenances (facts) VALUES (?)", (facts,))
    found = db.execute("SELECT id FROM provenances WHERE facts = ?", (facts,)).fetchone()
    return int(found[0])


def provenances(db: sqlite3.Connection, path: Path) -> dict[int, dict[str, Any]]:
    """All facts about trainings, by id."""
    with errors_of(path):
        rows = db.execute("SELECT id, facts FROM provenances ORDER BY id").fetchall()
    try:
        return {int(number): dict(json.loads(facts)) for number, facts in rows}
    except (ValueError, TypeError) as e:
        raise InputError(f"{path}: its provenances are damaged ({e}); move it away") from e
