"""Runs on disk: those that are done, and the state of those that are under way.

Finished runs and their curves are in a results store (:mod:`pdgnn.training.store`). Beside it lie
``best-*.safetensors`` of runs whose logits or weights were asked for, ``under-way-*.safetensors``,
the state of a group each, and ``owner-*.lock``, held by each process that trains here. Files are
replaced whole, so that a run killed at any moment leaves the last state. The rows of a state are
single runs: it does not matter in which groups they go on.

What earlier versions have written (``results.jsonl``, ``tasks.json`` and ``curves-*.npy``) is taken
into the store when such a folder is trained into, and stays as it is.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import sqlite3
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar

from pdgnn.errors import InputError
from pdgnn.io.atomic import is_locked, open_lock
from pdgnn.training.rows import StoredRun
from pdgnn.training.spec import VERSION, RunResult, RunSpec
from pdgnn.training.state import Row, RunState
from pdgnn.training.state_files import (
    best_tensors,
    read_best,
    state_rows,
    state_runs,
    write_tensors,
)
from pdgnn.training.store import Key, Store
from pdgnn.training.stored_runs import read_folder, read_json, read_results

__all__ = ["RunFolder", "read_results"]

STORE = "runs.sqlite"
PARTIAL = (".pdgnn-*", ".tmp??????")
"""Files half written, as :func:`pdgnn.io.atomic.replacing` and safetensors name them."""
T = TypeVar("T")


class RunFolder:
    """Where a training keeps what it has, so that it goes on when it is started again.

    Args:
        path: The folder of one body of runs, in which a dataset's name means one content.
        store: The file of the finished runs, if it is not in `path`. Other data of the same name
            are then other runs.
    """

    def __init__(self, path: str | PathLike[str], *, store: Store | None = None) -> None:
        self.path, self._shared = Path(path), store is not None
        self._make()
        self.store = Store(self.path / STORE) if store is None else store
        self._data: dict[str, str] = {}
        self._owner: str | None = None
        if store is None:
            self._take_over()
            self._data = dict(map(tuple, self.store.question("SELECT dataset, data FROM tasks")))

    @classmethod
    def beside(cls, file: str | PathLike[str]) -> RunFolder:
        """That of a store: the states of its runs lie in the folder ``FILE-states``."""
        store = Store(file)
        return cls(store.path.with_name(f"{store.path.name}-states"), store=store)

    def close(self) -> None:
        """Close the store."""
        self.store.close()

    def __enter__(self) -> RunFolder:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- processes that share it ------------------------------------------------------------------

    @contextmanager
    def held(self) -> Iterator[None]:
        """Take part in the work: runs can be claimed until the block ends.

        Others may do so at the same time. What processes that were killed have left is removed.
        """
        owner = secrets.token_hex(8)
        with ExitStack() as stack:
            self._join(owner, stack)
            self._owner = owner
            try:
                yield
            finally:
                self._owner = None
                self._leave(owner)

    def _join(self, owner: str, stack: ExitStack) -> None:
        with self.store.transaction(durable=False) as db:  # nobody else comes or goes meanwhile
            self._make()
            stack.enter_context(open_lock(self._lock_file(owner), busy=f"{self.path} is in use"))
            self._clear(db, owner)

    def _leave(self, owner: str) -> None:
        """Drop the claims. On a full disk they stay, and count for nothing without the lock."""
        with suppress(InputError), self.store.transaction(durable=False) as db:
            db.execute("DELETE FROM claims WHERE owner = ?", (owner,))
            self._clear(db, owner)
            self._lock_file(owner).unlink(missing_ok=True)
            if self._shared:
                with suppress(OSError):  # it is not empty
                    self.path.rmdir()

    def _clear(self, db: sqlite3.Connection, owner: str) -> None:
        """Remove claims and locks of processes that are gone, and files that none is writing."""
        owners = {file.stem.removeprefix("owner-") for file in self.path.glob("owner-*.lock")}
        owners |= {name for (name,) in db.execute("SELECT DISTINCT owner FROM claims")}
        gone = {name for name in owners - {owner} if not self._is_alive(name)}
        db.executemany("DELETE FROM claims WHERE owner = ?", [(name,) for name in gone])
        for name in gone:
            self._lock_file(name).unlink(missing_ok=True)
        if owners <= gone | {owner}:
            for pattern in PARTIAL:
                for partial in self.path.glob(pattern):
                    partial.unlink(missing_ok=True)

    def _make(self) -> None:
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as e:
            raise InputError(f"cannot make the folder {self.path}: {e.strerror or e}") from e

    def _lock_file(self, owner: str) -> Path:
        return self.path / f"owner-{owner}.lock"

    def _is_alive(self, owner: str) -> bool:
        return owner == self._owner or is_locked(self._lock_file(owner))

    def claim(self, specs: Iterable[RunSpec], *, again: bool = False) -> set[str]:
        """The keys of those that are this process's to train; see :meth:`Store.claim`."""
        if self._owner is None:
            raise RuntimeError("runs are claimed within held()")
        keys = [self._key(spec) for spec in specs]
        return {key for _, key in self.store.claim(keys, self._owner, self._is_alive, again=again)}

    def release(self, specs: Iterable[RunSpec]) -> None:
        """Give up claims on these runs."""
        if self._owner is not None:
            self.store.release(self._owner, [self._key(spec) for spec in specs])

    def claimed_by_others(self, specs: Iterable[RunSpec]) -> set[str]:
        """The keys of those that another process, which is alive, is at."""
        claims = self.store.claims([self._key(spec) for spec in specs])
        living = {name: self._is_alive(name) for name in set(claims.values())}
        return {key for (_, key), name in claims.items() if name != self._owner and living[name]}

    # --- data -------------------------------------------------------------------------------------

    def check_tasks(self, fingerprints: Mapping[str, str]) -> None:
        """Say what the datasets are; in a folder, other contents of a name are an error."""
        if self._shared:
            self._data = dict(fingerprints)
            return
        if fingerprints.items() <= self._data.items():
            return
        with self.store.transaction() as db:
            known = dict(db.execute("SELECT dataset, data FROM tasks"))
            for name, data in fingerprints.items():
                if known.get(name, data) != data:
                    raise InputError(
                        f"{self.path} holds runs of a {name} with other edges, features, labels, "
                        "splits, metric or class weights; give another folder"
                    )
                db.execute("INSERT OR IGNORE INTO tasks VALUES (?, ?)", (name, data))
                unknown = "SELECT key FROM runs WHERE data = '' AND dataset = ?"
                keys = [key for (key,) in db.execute(unknown, (name,))]
                for table in ("runs", "curves"):
                    said = f"UPDATE OR IGNORE {table} SET data = ? WHERE data = '' AND key = ?"
                    db.executemany(said, [(data, key) for key in keys])
        self._data = {**known, **fingerprints}

    def _key(self, spec: RunSpec) -> Key:
        return self._data.get(spec.dataset, ""), spec.key

    def _take_over(self) -> None:
        """Put into the store what an earlier version has left here, once and in one piece."""
        files = [self.path / name for name in ("results.jsonl", "tasks.json")]
        stats = [file.stat() for file in files if file.exists()]
        mark = " ".join(f"{s.st_size}:{s.st_mtime_ns}" for s in stats)
        noted = self.store.question("SELECT value FROM notes WHERE name = 'earlier'")
        if not stats or (noted and noted[0][0] == mark):
            return
        runs: list[StoredRun] = []
        about: dict[int, dict[str, Any]] = {}
        if files[0].exists():
            runs, about = read_folder(self.path, curves=True)
        tasks = read_json(files[1]) if files[1].exists() else {}
        with self.store.transaction() as db:
            said = "INSERT OR IGNORE INTO tasks VALUES (?, ?)"
            db.executemany(said, [(name, str(data)) for name, data in tasks.items()])
            self.store.insert_missing(db, runs, about)
            db.execute("INSERT OR REPLACE INTO notes VALUES ('earlier', ?)", (mark,))

    # --- finished runs ----------------------------------------------------------------------------

    def results(
        self,
        wanted: Iterable[RunSpec] | None = None,
        *,
        curves: bool = False,
        keep: Sequence[str] = (),
    ) -> dict[str, RunResult]:
        """The finished runs, or those `wanted`, by the key of their spec.

        With `curves` and with ``keep=("logits", "weights")`` only those that have kept them.
        """
        keys = None if wanted is None else [self._key(spec) for spec in wanted]
        stored = self.store.results(keys, curves=curves)
        found = {key: result for (_, key), result in stored.items()}
        for key, result in list(found.items()) if keep else []:
            best = self._read_best(result)
            if result.step and not set(keep) <= best.keys():
                del found[key]
                continue
            asked: dict[str, Any] = {name: best.get(name) for name in keep}
            found[key] = replace(result, **asked)
        return found

    def add_results(self, results: Iterable[RunResult], provenance: int | None = None) -> None:
        """Keep these runs as finished; claims on them are dropped."""
        all_ = list(results)
        for result in all_:
            if result.logits is not None or result.weights is not None:
                self._write_best(result)
        self.store.add(all_, self._data, provenance)

    def _best_file(self, spec: RunSpec) -> Path:
        data, key = self._key(spec)
        return self.path / f"best-{data}{'-' if data else ''}{key}.safetensors"

    def _read_best(self, result: RunResult) -> dict[str, Any]:
        """The logits and the weights that were kept of a run."""
        file = self._best_file(result.spec)
        if not file.exists() and not self._shared:  # of an earlier version
            file = self.path / f"best-{result.spec.key}.safetensors"
        return read_best(file) if file.exists() else {}

    def _write_best(self, result: RunResult) -> None:
        found = self._read_best(result)
        given = {"logits": result.logits, "weights": result.weights}
        found |= {name: value for name, value in given.items() if value is not None}
        about = {"version": str(VERSION), "spec": result.spec.to_json()}
        write_tensors(self._best_file(result.spec), best_tensors(found), about)

    # --- runs under way ---------------------------------------------------------------------------

    def save_state(self, specs: Sequence[RunSpec], state: RunState) -> None:
        """Write the state of these runs, replacing an earlier one."""
        keys = [self._key(spec) for spec in specs]
        about = {
            "version": str(VERSION),
            "specs": json.dumps([s.to_json() for s in specs]),
            "data": json.dumps([data for data, _ in keys]),
        }
        name = hashlib.blake2b("".join(map("".join, keys)).encode(), digest_size=12).hexdigest()
        write_tensors(self.path / f"under-way-{name}.safetensors", state.tensors(), about)

    def drop_states(self, finished: Collection[str]) -> None:
        """Forget the files whose runs are all among those `finished`, given by their keys."""
        for file, keys in self._state_files():
            if all(key in finished for key in keys):
                file.unlink(missing_ok=True)

    def states(
        self, wanted: Collection[str], *, curves: bool = False, keep: Sequence[str] = ()
    ) -> dict[str, Row]:
        """The tensors of the `wanted` runs that are under way, by key; the furthest step wins.

        With `curves` and `keep` only of those that have kept them.
        """
        needed = [name for name, asked in _NEEDED.items() if asked in (*keep, curves and "curves")]
        found: dict[str, Row] = {}
        for file, keys in self._state_files():
            if not set(keys) & set(wanted):
                continue
            for key, row in zip(keys, _unless_gone(file, state_rows), strict=False):
                if key not in wanted or not all(row[name].numel() for name in needed):
                    continue
                if key not in found or row["step"] > found[key]["step"]:
                    found[key] = row
        return found

    def _state_files(self) -> list[tuple[Path, list[str]]]:
        """The files of states, and the keys of their runs; empty for those of other data."""
        found = []
        for file in sorted(self.path.glob("under-way-*.safetensors")):
            runs = _unless_gone(file, state_runs)
            keys = [s.key if d in ("", self._key(s)[0]) else "" for s, d in runs]
            if runs:
                found.append((file, keys))
        return found


_NEEDED = {"curves": "curves", "best_logits": "logits", "best_parameters": "weights"}
"""Tensors of a state that are there only if these were asked for."""


def _unless_gone(file: Path, read: Callable[[Path], list[T]]) -> list[T]:
    """What a file has; nothing if another process has deleted it meanwhile."""
    try:
        return read(file)
    except InputError:
        if file.exists():
            raise
        return []
