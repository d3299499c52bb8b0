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
from pdgnn.training.spec import RunResult, RunSpec

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

ABOUT = b"pdgnn.provenances"


def export_parquet(
    path: str | PathLike[str],
    runs: Sequence[StoredRun],
    provenances: Mapping[int, Mapping[str, Any]] | None = None,
) -> None:
    """Write the runs as a Parquet file with the columns of a store; without curves.

    :func:`pdgnn.training.store.read_runs` reads it back, the facts about their trainings too.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = [row_of(r.result, r.data, r.provenance, r.finished) for r in runs]
    columns = {n: pa.array([row[n] for row in rows], _type(n)) for n in COLUMNS}
    facts = json.dumps({str(n): dict(about) for n, about in (provenances or {}).items()})
    table = pa.table(columns).replace_schema_metadata({ABOUT: facts.encode()})
    with replacing(path, follow=True) as partial:
        pq.write_table(table, partial, compression="zstd")


def _type(name: str) -> Any:
    import pyarrow as pa

    if name == "rewired":
        return pa.bool_()
    kind = COLUMNS[name].split()[0]
    return {"REAL": pa.float64(), "INTEGER": pa.int64(), "TEXT": pa.string()}[kind]


def read_parquet_runs(file: Path) -> tuple[list[StoredRun], dict[int, dict[str, Any]]]:
    """The runs of :func:`export_parquet`."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    with reading(file, "export it anew"):
        try:
            table = pq.read_table(file)
        except pa.ArrowException as e:
            raise ValueError(e) from e
        if missing := set(COLUMNS) - set(table.column_names):
            raise ValueError(f"it has no column {min(missing)}, which an export of runs has")
        facts = json.loads((table.schema.metadata or {}).get(ABOUT, b"{}"))
        about = {int(number): dict(said) for number, said in facts.items()}
        rows = table.select(list(COLUMNS)).to_pylist()
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
