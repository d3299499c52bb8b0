"""The SQLite file of a results store: opened only if it is one, and every error in one line.

What a file is stands in the first hundred bytes of it (the SQLite header), which are read before
SQLite opens it: a file of something else, of a newer version or cut short is never written to.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from pdgnn.errors import InputError

__all__ = [
    "COLUMNS",
    "create_schema",
    "errors_of",
    "only_reading_runs",
    "open_database",
    "open_for_reading",
]

APPLICATION_ID = 0x70646776  # "pdgv"
SCHEMA_VERSION = 1
BUSY_SECONDS = 60.0
"""How long to wait for another process that writes."""
MAGIC, HEADER = b"SQLite format 3\0", 100
REMEDY = "it was left as it is; name another file, or move it away"

COLUMNS = {
    "data": "TEXT NOT NULL",  # Task.fingerprint; empty: not known, of a folder of earlier versions
    "key": "TEXT NOT NULL",
    "dataset": "TEXT NOT NULL",
    "model": "TEXT NOT NULL",
    "depth": "INTEGER",
    "width": "INTEGER",
    "heads": "INTEGER",
    "split": "INTEGER",
    "seed": "INTEGER",
    "alpha": "REAL",
    "gamma": "REAL",
    "rewired": "INTEGER",
    "reach": "TEXT",
    "lr": "REAL",
    "weight_decay": "REAL",
    "dropout": "REAL",
    "steps": "INTEGER",
    "patience": "INTEGER",
    "precision": "TEXT",
    "options": "TEXT NOT NULL",
    "spec": "TEXT NOT NULL",
    "val": "REAL",
    "test": "REAL",
    "step": "INTEGER NOT NULL",
    "steps_run": "INTEGER NOT NULL",
    "seconds": "REAL NOT NULL",
    "diverged_at": "INTEGER",
    "memory": "INTEGER",
    "provenance": "INTEGER",
    "finished": "TEXT NOT NULL",
}
"""Of the table ``runs``, and their types."""
SCHEMA = f"""
CREATE TABLE runs ({", ".join(f"{n} {t}" for n, t in COLUMNS.items())}, PRIMARY KEY (data, key));
CREATE TABLE curves (data TEXT, key TEXT, curves BLOB NOT NULL, PRIMARY KEY (data, key));
CREATE TABLE provenances (id INTEGER PRIMARY KEY, facts TEXT NOT NULL UNIQUE);
CREATE TABLE claims (data TEXT, key TEXT, owner TEXT NOT NULL, PRIMARY KEY (data, key))
    WITHOUT ROWID;
CREATE TABLE tasks (dataset TEXT PRIMARY KEY, data TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE notes (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
"""


def open_database(path: Path, *, create: bool = True) -> sqlite3.Connection:
    """A connection to the store `path`, which is made if it is not there and may be.

    Transactions are up to the caller. WAL: readers and one writer do not wait for each other; on a
    file system that does not support it, they do.
    """
    if "\0" in str(path):
        raise InputError(f"no file can have the name {str(path)!r}; name another")
    if _is_new(path, create=create):
        with errors_of(path):
            _connect(path, "rwc").close()
    with errors_of(path):
        db = _connect(path, "rw" if os.access(path, os.W_OK) else "ro")
        try:
            if os.access(path, os.W_OK):
                create_schema(db)
                _use_wal(db)
            db.execute("SELECT 1 FROM runs LIMIT 1")
        except BaseException:
            db.close()
            raise
    return db


def open_for_reading(path: Path) -> sqlite3.Connection:
    """A connection that does not write; also to a file, or in a folder, that is read-only."""
    _is_new(path, create=False)
    able = os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)
    with errors_of(path):
        db = _connect(path, "rw" if able else "ro")  # "ro" leaves the files of WAL behind
        try:
            db.execute("PRAGMA query_only = ON")
            db.execute("SELECT 1 FROM runs LIMIT 1")
        except sqlite3.OperationalError as e:
            db.close()
            if _name(e) not in ("SQLITE_CANTOPEN", "SQLITE_READONLY_DIRECTORY"):
                raise
            db = _connect(path, "ro&immutable=1")  # no place for the files that WAL needs
        except BaseException:
            db.close()
            raise
    return db


def _connect(path: Path, mode: str) -> sqlite3.Connection:
    uri = f"{path.resolve().as_uri()}?mode={mode}"
    return sqlite3.connect(
        uri, uri=True, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
    )


def create_schema(db: sqlite3.Connection) -> None:
    """Make the tables in one transaction, unless they are there; also if others do so now.

    Before WAL is used, so that the mark of the file is in the file itself from its first byte on.
    """
    if db.execute("PRAGMA user_version").fetchone()[0]:
        return
    db.execute("BEGIN IMMEDIATE")
    try:
        if not db.execute("PRAGMA user_version").fetchone()[0]:
            for statement in SCHEMA.split(";"):
                db.execute(statement)
            db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            db.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise


def _use_wal(db: sqlite3.Connection) -> None:
    """Switch to WAL where the file system has it; others may be switching too."""
    end = time.monotonic() + BUSY_SECONDS
    while db.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
        try:
            db.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as e:
            if not _name(e).startswith("SQLITE_BUSY") or time.monotonic() > end:
                raise
            time.sleep(0.01)
        else:
            return


# --- what a file is -------------------------------------------------------------------------------


def _is_new(path: Path, *, create: bool) -> bool:
    """Whether `path` is still to be made; an error if it is anything but a whole store."""
    try:
        if path.is_dir():
            raise InputError(f"{path} is a folder, not a results store; name a file")
        if not path.exists():
            if not create:
                raise InputError(f"there is no results store {path}; check the name")
            path.parent.mkdir(parents=True, exist_ok=True)
            return True
        if not path.is_file():
            raise InputError(f"{path} is not a regular file, and so no results store; {REMEDY}")
        if not path.stat().st_size:  # of a process that was killed before it wrote anything
            if not create:
                raise InputError(f"{path} is empty, not a results store; check the name")
            return True
        _check_header(path)
    except (OSError, ValueError) as e:
        if isinstance(e, InputError):
            raise
        said = getattr(e, "strerror", None) or e
        raise InputError(f"cannot open the results store {path}: {said}") from e
    return False


def _check_header(path: Path) -> None:
    with path.open("rb") as file:
        header = file.read(HEADER)
    if not header.startswith(MAGIC[: len(header)]):
        raise InputError(f"{path} is not a results store; {REMEDY}")
    if len(header) < HEADER:
        raise InputError(f"{path} is damaged: it was cut short; {REMEDY}")
    if int.from_bytes(header[68:72], "big") != APPLICATION_ID:
        raise InputError(f"{path} is a database of another program, not of runs; {REMEDY}")
    version = int.from_bytes(header[60:64], "big")
    if version > SCHEMA_VERSION:
        raise InputError(
            f"{path} is a results store of version {version}, this pdgnn knows {SCHEMA_VERSION}; "
            "update pdgnn to use it"
        )
    if _cut_short(path):
        raise InputError(f"{path} is damaged: it was cut short; {REMEDY}")


def _cut_short(path: Path) -> bool:
    """Whether the file has fewer bytes than its header says.

    While the log beside it (WAL) is not yet all in it, that is as it should be; looked at thrice,
    as another process may be moving the log's pages into the file now.
    """
    for pause in (0.05, 0.2, 0.0):
        log = path.with_name(f"{path.name}-wal")
        with path.open("rb") as file:
            header, size = file.read(HEADER), file.seek(0, os.SEEK_END)
        page = int.from_bytes(header[16:18], "big")
        pages = int.from_bytes(header[28:32], "big")
        if size >= pages * (65536 if page == 1 else page):
            return False
        with suppress(FileNotFoundError):
            if log.stat().st_size:
                return False
        time.sleep(pause)
    return True


# --- errors ---------------------------------------------------------------------------------------


@contextmanager
def errors_of(path: Path) -> Iterator[None]:
    """What SQLite says of the store `path`, in one line with the remedy."""
    try:
        yield
    except sqlite3.Error as e:
        name = _name(e)
        for begin, said in _SAID.items():
            if name.startswith(begin):
                raise InputError(f"{path}: {said} ({e})") from e
        if isinstance(e, sqlite3.ProgrammingError):
            raise
        raise InputError(f"{path}: cannot be used as a results store ({e}); {REMEDY}") from e


_KEPT = "all that was finished before is kept"
_SAID = {
    "SQLITE_FULL": f"cannot be written: the disk is full; free some space and go on: {_KEPT}",
    "SQLITE_IOERR": f"cannot be written or read; look after the disk and go on: {_KEPT}",
    "SQLITE_BUSY": "another process has been writing to it for a long time; try again later",
    "SQLITE_READONLY": "cannot be written: it, or its folder, is read-only; name another file",
    "SQLITE_CANTOPEN": "cannot be opened; check that its folder is there and may be written to",
    "SQLITE_CORRUPT": f"is damaged; {REMEDY}",
    "SQLITE_NOTADB": f"is damaged; {REMEDY}",
}


def _name(e: Exception) -> str:
    return str(getattr(e, "sqlite_errorname", ""))


def only_reading_runs(action: int, one: str | None, *_: str | None) -> int:
    """An SQLite authorizer: nothing but SELECT, columns of ``runs`` and plain functions."""
    allowed = action in (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_FUNCTION)
    if action == sqlite3.SQLITE_READ:
        allowed = one == "runs"
    return sqlite3.SQLITE_OK if allowed else sqlite3.SQLITE_DENY
