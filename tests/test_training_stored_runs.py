"""Finished runs as Parquet files and folders: they read back, and what is none is one line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pdgnn.training.database import COLUMNS
from pdgnn.training.rows import row_of
from pdgnn.training.store import StoredRun, export_parquet, read_runs
from stores import RESULTS, made_store, refused, same


@pytest.fixture
def file(tmp_path) -> Path:
    return made_store(tmp_path)


def test_a_parquet_file_reads_back(file, tmp_path):
    runs, about = read_runs(file)
    export_parquet(tmp_path / "runs.parquet", runs, about)
    again, again_about = read_runs(tmp_path / "runs.parquet")
    assert (len(again), again_about) == (5, about)
    for one, other in zip(again, runs, strict=True):
        same(one.result, other.result)
        assert (one.data, one.provenance, one.finished) == (
            other.data,
            other.provenance,
            other.finished,
        )
    chosen, _ = read_runs(tmp_path / "runs.parquet", where="model = 'mine'")
    assert [run.result.spec.model for run in chosen] == ["mine", "mine"]
    export_parquet(tmp_path / "none.parquet", [])
    assert read_runs(tmp_path / "none.parquet") == ([], {})


def test_what_is_no_export_is_one_line(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    bad = tmp_path / "a.parquet"
    refused(lambda: read_runs(bad), bad, "cannot read")
    bad.write_bytes(b"PAR1 and so on")
    refused(lambda: read_runs(bad), bad, "; export it anew")
    pq.write_table(pa.table({"a": [1]}), bad)
    refused(lambda: read_runs(bad), bad, "it has no column alpha")
    export_parquet(bad, [StoredRun(RESULTS[0], "1f", None, "")])
    table = pq.read_table(bad)
    pq.write_table(table.set_column(table.column_names.index("val"), "val", pa.array([7.0])), bad)
    refused(lambda: read_runs(bad), bad, "row 1, is damaged or of another version (val must be")


def test_the_runs_of_this_repository_are_read():
    file = Path(__file__).parents[1] / "results" / "paper.parquet"
    runs, about = read_runs(file)
    assert len(runs) > 10_000
    assert all(run.data and run.provenance in about for run in runs)
    assert len({(run.data, run.result.spec.key) for run in runs}) == len(runs)
    chosen = read_runs(file, where="model = 'pd-gat' AND split = 3")[0]
    assert {(r.result.spec.model, r.result.spec.split) for r in chosen} == {("pd-gat", 3)}


def test_a_folder_without_runs_is_one_line(tmp_path):
    refused(lambda: read_runs(tmp_path), tmp_path, "holds no finished runs")


def test_exports_of_earlier_versions_are_read(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    about = {"1": {"machine": "ours"}}
    rows = [row_of(r, "1f", 1, "2026-01-01T00:00:00+00:00") for r in RESULTS]
    assert all(list(row) == list(COLUMNS) for row in rows)
    table = pa.table({name: [row[name] for row in rows] for name in COLUMNS})
    old = table.replace_schema_metadata({"pdgnn.provenances": json.dumps(about)})
    pq.write_table(old, tmp_path / "old.parquet")
    runs, facts = read_runs(tmp_path / "old.parquet")
    assert facts == {1: {"machine": "ours"}}
    for run, result in zip(runs, RESULTS, strict=True):
        same(run.result, result)
        assert (run.data, run.provenance, run.result.memory) == ("1f", 1, result.memory)


def test_an_export_of_a_newer_version_is_one_line(tmp_path):
    import pyarrow.parquet as pq

    file = tmp_path / "new.parquet"
    export_parquet(file, [StoredRun(RESULTS[0], "1f", None, "")])
    table = pq.read_table(file)
    pq.write_table(table.replace_schema_metadata({"pdgnn.version": "99"}), file)
    refused(lambda: read_runs(file), file, "of version 99; update pdgnn to read it")
