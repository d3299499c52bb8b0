"""Finished runs in other forms than a store: folders of earlier versions, and Parquet files."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from pdgnn.errors import DAMAGE, InputError
from pdgnn.io.atomic import replacing
from pdgnn.training.database import COLUMNS
from pdgnn.training.rows import StoredRun, result_from_row, row_of
from pdgnn.training.spec import SETTINGS, VERSION, RunResult, RunSpec

__all__ = ["export_parquet", "read_folder", "read_parquet_runs", "read_results", "reading"]


def read_folder(
    folder: Path, *, curves: bool = False
) -> tuple[list[StoredRun], dict[int, dict[str, Any]]]:
    """The runs of a folder of earlier versions, and what ``meta.json`` says of their trainings.

    That file does not say which run is whose: where there was one training alone, they are its.
    """
    file, tasks, meta = (folder / n for n in ("results.jsonl", "tasks.json", "meta.json"))
    if not file.exists():
        raise InputError(f"{folder} holds no finished runs; name a folder of train(folder=...)")
    data = read_json(tasks) if tasks.exists() else {}
    found = read_results(file)
    if curves:
        found = [with_old_curves(folder, result) for result in found]
    about = dict(enumerate(_read_meta(meta), 1)) if meta.exists() else {}
    whose = 1 if len(about) == 1 else None
    return [StoredRun(r, str(data.get(r.spec.dataset, "")), whose, "") for r in found], about


def read_results(file: Path) -> list[RunResult]:
    """The finished runs in a ``results.jsonl``; an error names the line that is none."""
    found = []
    with reading(file, "move it away"):
        lines = file.read_text(encoding="utf-8").splitlines()
    for number, line in enumerate(lines, 1):
        with reading(file, "move it away", place=f", line {number},"):
            found.append(RunResult.from_dict(json.loads(line)))
    return found


def with_old_curves(folder: Path, result: RunResult) -> RunResult:
    """The result with the curves that lie in a folder of an earlier version, if there are."""
    for key in (result.spec.key, _first_key(result.spec)):
        file = folder / f"curves-{key}.npy"
        if file.exists():
            return replace(result, curves=_read_curves(file, result.steps_run))
    return result


def read_json(file: Path) -> dict[str, Any]:
    """The object in a JSON file."""
    with reading(file, "move it away"):
        return dict(json.loads(file.read_text(encoding="utf-8")))


@contextmanager
def reading(file: Path, remedy: str, *, place: str = "") -> Iterator[None]:
    """What is wrong with a file, in one line."""
    try:
        yield
    except OSError as e:
        raise InputError(f"cannot read {file}: {e.strerror or e}") from e
    except DAMAGE as e:
        said = str(e).partition("\n")[0][:160]
        raise InputError(
            f"{file}{place} is damaged or of another version ({said}); {remedy}"
        ) from e


def _read_meta(file: Path) -> list[dict[str, Any]]:
    with reading(file, "move it away"):
        return [dict(row) for row in json.loads(file.read_text(encoding="utf-8"))]


def _first_key(spec: RunSpec) -> str:
    """The key that version 1 gave to this run."""
    said = spec.to_dict()
    del said["options"], said["defaults"]
    said["scope"] = said.pop("reach")
    text = json.dumps(said, sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=12).hexdigest()


def _read_curves(file: Path, steps: int) -> Any:
    with reading(file, "delete it to train this run anew"), file.open("rb") as stored:
        kept = np.lib.format.read_array(stored, allow_pickle=False)
        if kept.shape != (steps, 3) or kept.dtype != np.float32:
            raise ValueError(f"{kept.dtype} of shape {list(kept.shape)}")
        return kept


# --- Parquet --------------------------------------------------------------------------------------

ABOUT, FORM = b"pdgnn.provenances", b"pdgnn.version"
EXPORTED = (*(name for name in COLUMNS if name not in ("key", "spec")), "defaults")
"""The columns of an export: those of a store but for what the others say already, which would be
two thirds of the file."""


def export_parquet(
    path: str | PathLike[str],
    runs: Sequence[StoredRun],
    provenances: Mapping[int, Mapping[str, Any]] | None = None,
) -> None:
    """Write the runs as a Parquet file with the columns :data:`EXPORTED`; without curves.

    :func:`pdgnn.training.store.read_runs` reads it back, the facts about their trainings too.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = [
        row_of(r.result, r.data, r.provenance, r.finished)
        | {"defaults": json.dumps(r.result.spec.defaults)}
        for r in runs
    ]
    columns = {n: pa.array([row[n] for row in rows], _type(n)) for n in EXPORTED}
    facts = json.dumps({str(n): dict(about) for n, about in (provenances or {}).items()})
    about = {ABOUT: facts.encode(), FORM: str(VERSION).encode()}
    table = pa.table(columns).replace_schema_metadata(about)
    with replacing(path, follow=True) as partial:
        pq.write_table(table, partial, compression="zstd", compression_level=19)


def _type(name: str) -> Any:
    import pyarrow as pa

    if name == "rewired":
        return pa.bool_()
    kind = COLUMNS.get(name, "TEXT").split()[0]
    return {"REAL": pa.float64(), "INTEGER": pa.int64(), "TEXT": pa.string()}[kind]


def read_parquet_runs(file: Path) -> tuple[list[StoredRun], dict[int, dict[str, Any]]]:
    """The runs of :func:`export_parquet`; earlier versions have a column ``spec``."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    with reading(file, "export it anew"):
        try:
            table = pq.read_table(file)
        except pa.ArrowException as e:
            raise ValueError(e) from e
        wanted = {*EXPORTED, "spec"} - {"defaults" if "spec" in table.column_names else "spec"}
        if missing := wanted - set(table.column_names):
            raise ValueError(f"it has no column {min(missing)}, which an export of runs has")
        said = table.schema.metadata or {}
        facts, version = json.loads(said.get(ABOUT, b"{}")), int(said.get(FORM, VERSION))
        about = {int(number): dict(fact) for number, fact in facts.items()}
        rows = [_with_spec(row, version) for row in table.select(sorted(wanted)).to_pylist()]
    found = [
        StoredRun(
            result_from_row(row, f"{file}, row {i},"),
            row["data"],
            row["provenance"],
            row["finished"],
        )
        for i, row in enumerate(rows, 1)
    ]
    return found, about


def _with_spec(row: dict[str, Any], version: int) -> dict[str, Any]:
    """A row with its spec, put together from the other columns where it has none."""
    if "spec" in row:
        return row
    own = {name: json.loads(row[name]) for name in ("options", "defaults")}
    spec = {"version": version, **{name: row[name] for name in SETTINGS}, **own}
    return {**row, "spec": json.dumps(spec)}
