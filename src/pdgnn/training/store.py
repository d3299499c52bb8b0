"""The results store: one SQLite file with a row for each finished run, shared by processes.

Runs are known by the fingerprint of their data and the key of their spec, so that a second start
does only what is missing. A process claims runs before it trains them; what finishes them drops the
claim in the same transaction, so that a run is either claimed by one process or finished, at every
moment. Claims of processes that are gone count for nothing.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from itertools import islice
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import Any

from pdgnn.training import statements
from pdgnn.training.database import create_schema, errors_of, open_database, open_for_reading
from pdgnn.training.rows import StoredRun, now, result_from_row
from pdgnn.training.spec import RunResult
from pdgnn.training.statements import CHUNK, SELECT, asked, insert, stored_runs, with_curves
from pdgnn.training.stored_runs import export_parquet, read_folder, read_parquet_runs

__all__ = ["Store", "StoredRun", "export_parquet", "is_begun", "read_runs"]

Key = tuple[str, str]
"""Of a run: the fingerprint of its data, and `spec.key`."""


class Store:
    """Finished runs in one SQLite file, for all processes of this machine.

    Args:
        path: The file. One that is no store, is damaged or is of a newer version is an error, and
            stays as it is.
        create: Whether to make the file if it is not there.
        writable: False to read alone, also what is read-only; nothing is made then.

    >>> import tempfile
    >>> from pdgnn.training import RunSpec
    >>> run = RunResult(RunSpec(dataset="cora", model="gcn"), 0.5, 0.4, 3, 9, 1.0)
    >>> with tempfile.TemporaryDirectory() as folder, Store(Path(folder, "a.sqlite")) as store:
    ...     store.add([run], {"cora": "1f"})
    ...     store.results() == {("1f", run.spec.key): run}
    True
    """

    def __init__(
        self, path: str | PathLike[str], *, create: bool = True, writable: bool = True
    ) -> None:
        self.path = Path(path)
        self._lock = threading.RLock()
        self._db = (
            open_database(self.path, create=create) if writable else open_for_reading(self.path)
        )

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file; the store cannot be used afterwards."""
        self._db.close()

    # --- finished runs ----------------------------------------------------------------------------

    def results(
        self, wanted: Iterable[Key] | None = None, *, curves: bool = False
    ) -> dict[Key, RunResult]:
        """The finished runs, or those `wanted`, in the order they were finished.

        With `curves` only those that have kept them.
        """
        found = {}
        for row in sorted(self._rows(wanted, curves=curves), key=lambda row: row["place"]):
            result = self._result(row)
            if curves:
                result = with_curves(result, row["curves"], self._place(row))
            found[row["data"], row["key"]] = result
        return found

    def missing(self, wanted: Iterable[Key]) -> list[Key]:
        """Those `wanted` that are not finished, in their order."""
        keys = list(wanted)
        done = {tuple(row) for row in self._chosen("SELECT data, key FROM runs", keys)}
        return [key for key in keys if key not in done]

    def count(self) -> int:
        """How many runs are finished."""
        with self._lock, errors_of(self.path):
            return int(self._db.execute("SELECT count(*) FROM runs").fetchone()[0])

    def runs(self, where: str | None = None, *, curves: bool = False) -> list[StoredRun]:
        """All finished runs, or those of which an SQL condition over the columns is true.

        They come in the order they were finished. With `curves` each carries those it has.

        Args:
            where: Such as ``"model = 'pd-gat' AND depth > 2"``. Nothing but this table can be read
                by it, and nothing written.
            curves: See above.
        """
        with self._lock:
            return list(stored_runs(self._db, self.path, where, curves=curves))

    def add(
        self, results: Iterable[RunResult], data: Mapping[str, str], provenance: int | None = None
    ) -> None:
        """Keep these runs as finished, all of them or, on an error, none; their claims are dropped.

        Args:
            results: Over what there was of the same runs. Curves that were kept stay where the
                new result has none and is the same otherwise.
            data: The fingerprint of each dataset (:meth:`pdgnn.training.Task.fingerprint`).
            provenance: From :meth:`provenance_id`.
        """
        stored = [StoredRun(r, data.get(r.spec.dataset, ""), provenance, now()) for r in results]
        with self.transaction() as db:
            for run in stored:
                insert(db, run)

    def merge(
        self,
        other: Store | Iterable[StoredRun],
        provenances: Mapping[int, Mapping[str, Any]] | None = None,
    ) -> int:
        """Add the runs of another store that are not here, in one transaction; how many.

        `provenances` are those of `other` where it is a list of runs.
        """
        about: Mapping[int, Mapping[str, Any]] = provenances or {}
        if isinstance(other, Store):
            about = other.provenances()
            other = other.runs(curves=True)
        with self.transaction() as db:
            return self.insert_missing(db, other, about)

    def insert_missing(
        self,
        db: sqlite3.Connection,
        runs: Iterable[StoredRun],
        provenances: Mapping[int, Mapping[str, Any]],
    ) -> int:
        """What :meth:`merge` does within its transaction."""
        known: dict[int, int] = {}
        count, has = 0, "SELECT 1 FROM runs WHERE data = ? AND key = ?"
        for run in runs:
            if db.execute(has, (run.data, run.result.spec.key)).fetchone():
                continue
            about = run.provenance
            if about is not None and about in provenances:
                if about not in known:
                    known[about] = statements.provenance_id(db, provenances[about])
                about = known[about]
            else:
                about = None
            insert(db, StoredRun(run.result, run.data, about, run.finished))
            count += 1
        return count

    # --- provenance -------------------------------------------------------------------------------

    def provenance_id(self, about: Mapping[str, Any]) -> int:
        """The id of these facts about a training, which are noted if they are new."""
        with self.transaction() as db:
            return statements.provenance_id(db, about)

    def provenances(self) -> dict[int, dict[str, Any]]:
        """All facts about trainings, by id."""
        with self._lock:
            return statements.provenances(self._db, self.path)

    # --- claims -----------------------------------------------------------------------------------

    def claim(
        self,
        wanted: Iterable[Key],
        owner: str,
        alive: Callable[[str], bool],
        *,
        again: bool = False,
    ) -> set[Key]:
        """Those `wanted` that are now this owner's to train.

        They are neither finished nor claimed by another owner that is `alive`; with `again`, for
        runs of which more is to be kept, finished ones are granted too. In one transaction.
        """
        keys, granted, living = list(wanted), set(), {owner: True}
        with self.transaction(durable=False) as db:
            taken = self.claims(keys)
            open_ = keys if again else self.missing(keys)
            for key in open_:
                other = taken.get(key, owner)
                if other not in living:
                    living[other] = alive(other)
                if other == owner or not living[other]:
                    granted.add(key)
            said = "INSERT OR REPLACE INTO claims VALUES (?, ?, ?)"
            db.executemany(said, [(*key, owner) for key in granted])
        return granted

    def claims(self, wanted: Iterable[Key]) -> dict[Key, str]:
        """The owners of those `wanted` that are claimed, alive or not."""
        chosen = self._chosen("SELECT data, key, owner FROM claims", wanted)
        return {(row["data"], row["key"]): row["owner"] for row in chosen}

    def release(self, owner: str, keys: Collection[Key] | None = None) -> None:
        """Drop the claims of this owner, or those on `keys`."""
        with self.transaction(durable=False) as db:
            if keys is None:
                db.execute("DELETE FROM claims WHERE owner = ?", (owner,))
            else:
                said = "DELETE FROM claims WHERE data = ? AND key = ? AND owner = ?"
                db.executemany(said, [(*key, owner) for key in keys])

    def question(self, text: str, values: tuple[Any, ...] = ()) -> list[Any]:
        """The rows of a SELECT."""
        with self._lock, errors_of(self.path):
            return asked(self._db, text, values)

    @contextmanager
    def transaction(self, *, durable: bool = True) -> Iterator[sqlite3.Connection]:
        """All that is done with the connection in this block, or nothing of it.

        It waits for other writers first. What is `durable` is on the disk at the end.
        """
        db = self._db
        with self._lock, errors_of(self.path):
            db.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
            db.execute("BEGIN IMMEDIATE")
            try:
                yield db
                db.execute("COMMIT")
            finally:
                if db.in_transaction:
                    db.execute("ROLLBACK")

    def _rows(self, wanted: Iterable[Key] | None, *, curves: bool) -> Iterator[sqlite3.Row]:
        select = f"SELECT runs.rowid AS place, {SELECT.removeprefix('SELECT ')}"
        if curves:
            select = select.replace(" FROM runs", ", curves.curves FROM runs")
            select += " JOIN curves USING (data, key)"
        if wanted is not None:
            yield from self._chosen(select, wanted)
            return
        with self._lock, errors_of(self.path):
            yield from asked(self._db, select)

    def _chosen(self, select: str, wanted: Iterable[Key]) -> Iterator[sqlite3.Row]:
        """The rows of a table that are `wanted`, asked for in chunks by their primary key."""
        by_data: dict[str, list[str]] = {}
        for data, key in wanted:
            by_data.setdefault(data, []).append(key)
        table = select.partition(" FROM ")[2].partition(" ")[0]
        for data, keys in by_data.items():
            left = iter(sorted(keys))  # neighbours in the file too
            while chunk := list(islice(left, CHUNK)):
                places = ", ".join("?" * len(chunk))
                said = f"{select} WHERE {table}.data = ? AND {table}.key IN ({places})"
                with self._lock, errors_of(self.path):
                    yield from asked(self._db, said, (data, *chunk))

    def _result(self, row: sqlite3.Row) -> RunResult:
        return result_from_row(row, self._place(row))  # type: ignore[arg-type]

    def _place(self, row: sqlite3.Row) -> str:
        return f"{self.path}, run {row['key']},"


def is_begun(path: str | PathLike[str]) -> bool:
    """Whether there is anything to read at `path`.

    An empty file is of a process that was killed before it wrote anything, or that is about to.
    """
    file = Path(path)
    return file.is_dir() or (file.exists() and file.stat().st_size > 0)


def read_runs(
    path: str | PathLike[str], *, where: str | None = None, curves: bool = False
) -> tuple[list[StoredRun], dict[int, dict[str, Any]]]:
    """The finished runs that are kept at `path`, and the facts about their trainings by id.

    Args:
        path: A store, an export of one (``.parquet``), or the folder of ``train(folder=...)`` of
            this or an earlier version. Nothing is written.
        where: As in :meth:`Store.runs`.
        curves: As in :meth:`Store.runs`.
    """
    file = Path(path)
    if file.is_dir():
        if not (file / "runs.sqlite").exists():
            return _through_store(*read_folder(file, curves=curves), where, file)
        file = file / "runs.sqlite"
    elif file.suffix == ".parquet":
        return _through_store(*read_parquet_runs(file), where, file)
    with closing(open_for_reading(file)) as db:
        return list(stored_runs(db, file, where, curves=curves)), statements.provenances(db, file)


def _through_store(
    runs: list[StoredRun], about: dict[int, dict[str, Any]], where: str | None, path: Path
) -> tuple[list[StoredRun], dict[int, dict[str, Any]]]:
    """Those of the runs for which `where` is true."""
    if where is None:
        return runs, about
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as db:
        create_schema(db)
        for run in runs:
            insert(db, run)
        chosen = stored_runs(db, path, where, curves=False)
        keys = {(run.data, run.result.spec.key) for run in chosen}
    return [run for run in runs if (run.data, run.result.spec.key) in keys], about
