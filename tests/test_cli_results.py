"""``pdgnn results`` as a user has it: the table, exports, runs brought together, errors."""

from __future__ import annotations

import csv
import io
import json
import math
import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

import commands
from pdgnn.report.runs import count_line, flat_runs, newest_last
from pdgnn.training import RunResult, RunSpec
from pdgnn.training.store import Store, StoredRun, read_runs

LAPTOP = {"machine": "2 cores", "command": "pdgnn train cora", "device": "cpu"}
SERVER = {"machine": "16 cores, a GPU", "command": "pdgnn reproduce table2", "device": "cuda"}
BASE = RunSpec(dataset="cora", model="pd-gat")
run = partial(commands.run, "results", columns=160)
refused = partial(commands.refused, "results", columns=160)


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("FORCE_COLOR", raising=False)


def results(test: float, *, spec: RunSpec = BASE, splits=(0, 1), **fields) -> list[RunResult]:
    return [
        RunResult(
            replace(spec, split=s, seed=s, **fields), test + 0.1, test + 0.02 * s, 3 + s % 5, 9, 0.5
        )
        for s in splits
    ]


def make_store(name: str, *batches: list[RunResult], about=LAPTOP, data: str = "1f") -> Path:
    with Store(name) as store:
        number = store.provenance_id(about)
        for batch in batches:
            store.add(batch, {r.spec.dataset: data for r in batch}, number)
    return Path(name)


def test_a_line_for_each_setting_the_newest_last_and_a_count():
    make_store("a.sqlite", results(0.7, gamma=0.5), results(0.4), results(0.9, model="gcn"))
    make_store("a.sqlite", results(0.5, gamma=0.5, splits=(2,)))  # of the first setting, later
    said = run("a.sqlite")
    assert said.stderr == ""
    head, *rows, about, count = said.stdout.splitlines()
    assert head.split()[:5] == ["dataset", "model", "γ", "runs", "test"]
    assert [row.split()[:4] for row in rows] == [
        ["cora", "PD-GAT", "1", "2"],
        ["cora", "GCN", "-", "2"],
        ["cora", "PD-GAT", "0.5", "3"],
    ]
    assert rows[0].split()[4:] == ["41.00", "±", "1.41", "50.00", "3", "to", "4", "1.0"]
    assert about.startswith("scores in percent")
    assert count.startswith("7 runs of 3 settings on 1 dataset by 1 machine, finished 20")


@pytest.mark.parametrize("many", [0, 1000])
def test_a_narrow_terminal_cuts_nothing_short(many, monkeypatch):
    monkeypatch.setattr("pdgnn.report.runs.MANY", many)
    make_store("a.sqlite", results(0.7, gamma=0.5), results(0.4))
    narrow, wide = (run("a.sqlite", columns=columns).stdout.splitlines() for columns in (40, 160))
    assert narrow[:3] == wide[:3]
    assert narrow[-1] != wide[-1]  # a sentence wraps


def test_a_long_list_is_printed_the_same(monkeypatch):
    """Above so many settings without the table of rich, which takes minutes for thousands."""
    rows = results(0.7, gamma=0.5), results(0.4), results(0.9, model="gcn", dataset="数据,x")
    make_store("a.sqlite", *rows)
    short = run("a.sqlite").stdout
    monkeypatch.setattr("pdgnn.report.runs.MANY", 0)
    monkeypatch.setattr("pdgnn.report.runs.Grid.add_row", None)
    assert run("a.sqlite").stdout == short


def test_a_condition_chooses_runs():
    make_store("a.sqlite", results(0.7, gamma=0.5), results(0.4, depth=3))
    said = run("a.sqlite", "--where", "model = 'pd-gat' and depth > 2").stdout
    assert said.splitlines()[-1].startswith("2 runs of 1 setting on 1 dataset")
    assert run("a.sqlite", "--where", "model = 'none'").stdout == "0 runs\n"
    head, *rows = run("a.sqlite", "--where", "depth > 9", "--csv").stdout.splitlines()
    assert head.startswith("dataset,model,depth,")
    assert rows == []


def test_runs_as_csv():
    make_store("a.sqlite", results(0.7, gamma=0.5), results(math.nan))
    rows = list(csv.DictReader(io.StringIO(run("a.sqlite", "--csv").stdout)))
    assert [row["gamma"] for row in rows] == ["0.5", "0.5", "1.0", "1.0"]
    assert [row["split"] for row in rows] == ["0", "1", "0", "1"]
    assert float(rows[1]["test"]) == pytest.approx(0.72)
    assert (rows[2]["test"], rows[0]["diverged_at"]) == ("", "")
    assert (rows[0]["data"], rows[0]["provenance"]) == ("1f", "1")
    chosen = run("a.sqlite", "--csv", "--columns", "test, model,test").stdout
    assert chosen.splitlines()[:2] == ["test,model", "0.7,pd-gat"]


def test_runs_as_json_with_what_made_them():
    make_store("a.sqlite", results(0.7, splits=(0,)), results(math.nan, depth=3, splits=(0,)))
    found = json.loads(run("a.sqlite", "--json").stdout)
    assert found["provenances"] == {"1": LAPTOP}
    assert [(r["model"], r["depth"], r["test"]) for r in found["runs"]] == [
        ("pd-gat", 2, 0.7),
        ("pd-gat", 3, None),
    ]
    few = json.loads(run("a.sqlite", "--json", "--columns", "depth").stdout)
    assert few["runs"] == [{"depth": 2}, {"depth": 3}]


@pytest.mark.parametrize("suffix", ["csv", "json", "parquet"])
def test_files_are_written_and_not_replaced_unasked(suffix):
    make_store("a.sqlite", results(0.7))
    name = f"out/runs.{suffix}"
    said = run("a.sqlite", "-o", name)  # the form is that of the name
    assert said.stdout == ""
    assert said.stderr == f"2 runs are in {name}\n"
    before = Path(name).read_bytes()
    refused("a.sqlite", f"--{suffix}", "-o", name, message="the file exists")
    assert Path(name).read_bytes() == before
    run("a.sqlite", f"--{suffix}", "-o", name, "--force", "--where", "split = 0")
    assert Path(name).read_bytes() != before
    assert [p.name for p in Path("out").iterdir()] == [f"runs.{suffix}"]


def test_what_is_read_is_not_replaced():
    make_store("a.sqlite", results(0.7))
    run("a.sqlite", "-o", "a.parquet")
    before = Path("a.parquet").read_bytes()
    few = ("-o", "a.parquet", "--where", "split = 0", "--force")
    for read in (["a.parquet"], ["b.sqlite", "--add", "a.parquet"]):
        refused(*read, *few, message="a.parquet: the runs are read from this file; name another")
    assert Path("a.parquet").read_bytes() == before
    assert not Path("b.sqlite").exists()


def test_what_goes_to_stdout_is_what_goes_to_a_file():
    make_store("a.sqlite", results(0.7))
    for form in ("csv", "json", "parquet"):
        run("a.sqlite", "-o", f"runs.{form}")
        assert run("a.sqlite", f"--{form}").stdout_bytes == Path(f"runs.{form}").read_bytes()


def test_an_export_is_read_like_a_store():
    make_store("a.sqlite", results(0.7, gamma=0.5), results(0.4))
    run("a.sqlite", "-o", "runs.parquet")
    assert read_runs("runs.parquet") == read_runs("a.sqlite")
    for words in (["--csv"], ["--json"], [], ["--where", "gamma < 1"]):
        assert run("runs.parquet", *words).stdout == run("a.sqlite", *words).stdout


def old_folder(name: str, *batches: list[RunResult]) -> None:
    """A folder as earlier versions kept it."""
    folder = Path(name)
    folder.mkdir()
    runs = [json.dumps(r.to_dict()) for batch in batches for r in batch]
    (folder / "results.jsonl").write_text("\n".join(runs) + "\n")
    (folder / "tasks.json").write_text(json.dumps({"cora": "1f"}))
    (folder / "meta.json").write_text(json.dumps([SERVER]))


def test_a_folder_of_an_earlier_version_is_read():
    old_folder("runs", results(0.7), results(0.4, depth=3))
    said = run("runs").stdout
    assert said.splitlines()[-1] == "4 runs of 2 settings on 1 dataset by 1 machine"
    assert run("runs", "--where", "depth = 3").stdout.startswith("dataset")
    assert sorted(p.name for p in Path("runs").iterdir()) == [
        "meta.json", "results.jsonl", "tasks.json",
    ]  # fmt: skip


def test_runs_of_others_are_added_once():
    make_store("all.sqlite", results(0.7))
    make_store("other.sqlite", results(0.7), results(0.4, depth=3), about=SERVER)
    old_folder("old", results(0.4, depth=3), results(0.5, depth=4))
    run("other.sqlite", "-o", "other.parquet")
    said = run("all.sqlite", "--add", "other.parquet", "--add", "old")
    assert said.stderr.splitlines() == [
        "2 runs of other.parquet were added to all.sqlite",
        "2 runs of old were added to all.sqlite",
    ]
    assert said.stdout.splitlines()[-1].startswith("6 runs of 3 settings on 1 dataset by 2 mach")
    again = run("all.sqlite", "--add", "other.sqlite", "--add", "old")
    assert [line[0] for line in again.stderr.splitlines()] == ["0", "0"]
    runs, about = read_runs("all.sqlite")
    assert [about[r.provenance]["machine"] for r in runs] == ["2 cores"] * 2 + [
        SERVER["machine"]
    ] * 4


def test_adding_makes_a_store_of_an_old_folder():
    old_folder("old", results(0.7))
    run("new.sqlite", "--add", "old")
    assert [r.result for r in read_runs("new.sqlite")[0]] == results(0.7)


def test_nothing_is_added_if_one_of_the_others_is_wrong():
    make_store("other.sqlite", results(0.7))
    old_folder("old", results(0.7))
    refused("all.sqlite", "--add", "other.sqlite", "--add", "none.sqlite", message="none.sqlite")
    assert not Path("all.sqlite").exists()
    run("other.sqlite", "-o", "runs.parquet")
    before = Path("runs.parquet").read_bytes()
    refused("runs.parquet", "--add", "other.sqlite", message="is an export")
    refused("old", "--add", "other.sqlite", message="of an earlier version")
    assert Path("runs.parquet").read_bytes() == before
    assert not Path("old/runs.sqlite").exists()


def test_what_is_wrong_is_one_line():
    make_store("a.sqlite", results(0.7))
    Path("text.sqlite").write_text("not a database, but a text that is long enough to be read" * 9)
    Path("empty").mkdir()
    refused("none.sqlite", message="none.sqlite")
    refused("text.sqlite", message="is not a results store")
    refused("empty", message="holds no finished runs")
    refused("a.sqlite", "--where", "modl = 2", message="the columns are data, key, dataset, model")
    refused("a.sqlite", "--where", "1; drop table runs", message="no condition on runs")
    refused("a.sqlite", "--csv", "--json", message="choose one of --csv and --json")
    refused("a.sqlite", "--csv", "--columns", "gama", message="no column 'gama'; the columns are")
    refused("a.sqlite", "--csv", "--columns", ",", message="--columns is empty")
    refused("a.sqlite", "--columns", "gamma", message="--columns is for --csv and --json")
    refused("a.sqlite", "-o", "runs.txt", message="use .csv, .json or .parquet")
    refused("a.sqlite", "--csv", "-o", "runs.json", message="use .csv")
    refused("a.sqlite", "--csv", "-o", ".", message="")
    assert len(read_runs("a.sqlite")[0]) == 2


def test_binary_is_not_written_to_a_terminal(monkeypatch):
    from pdgnn.cli import results as command
    from pdgnn.errors import InputError

    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    with pytest.raises(InputError, match="name a file with -o"):
        command._form({command.Form.parquet: True}, None)
    assert command._form({command.Form.parquet: True}, Path("a.parquet")) == "parquet"


@pytest.mark.parametrize("form", ["--csv", "--parquet"])
def test_a_reader_that_has_had_enough_is_no_error(form):
    make_store("a.sqlite", results(0.5))
    command = [sys.executable, "-m", "pdgnn", "results", "a.sqlite", form]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.close()  # before anything is written, as `head -0` does
        said = process.stderr.read()
        assert process.wait() == 141
    assert said == b""


def test_what_users_have_typed_gives_the_terminal_no_orders():
    spec = replace(BASE, dataset="a\x1b[31m\nb", model="mi\x1bne")
    make_store("a.sqlite", results(0.7, spec=spec))
    said = run("a.sqlite").stdout
    assert "\x1b" not in said
    assert len(said.splitlines()) == 4


def stored(batch: list[RunResult], *, data: str = "1f", about: int | None = 1) -> list[StoredRun]:
    return [StoredRun(r, data, about, "2026-11-16T10:00:00") for r in batch]


def test_the_same_setting_on_other_data_is_another():
    runs = stored(results(0.7)) + stored(results(0.5), data="2e")
    found = [(data, round(s.test_mean, 2)) for data, s in newest_last(runs)]
    assert found == [("1f", 0.71), ("2e", 0.51)]
    make_store("a.sqlite", results(0.7), data="1f0000000000")
    make_store("a.sqlite", results(0.5), data="2e0000000000")
    head, first, second, *_ = run("a.sqlite").stdout.splitlines()
    assert head.split()[:3] == ["dataset", "data", "model"]
    assert (first.split()[1], second.split()[1]) == ("1f000000", "2e000000")


def test_the_count_says_what_is_not_known_and_what_diverged():
    runs = stored(results(0.7)) + stored([replace(r, diverged_at=2) for r in results(0.5, lr=9.0)])
    runs[0] = replace(runs[0], provenance=None, finished="")
    runs[1] = replace(runs[1], finished="2026-11-15T10:00:00")
    assert count_line(runs, {1: LAPTOP}, settings=2) == (
        "4 runs of 2 settings on 1 dataset by 1 machine (1 not known), 2 diverged, "
        "finished 2026-11-15 to 2026-11-16"
    )
    assert count_line(runs[:1], {}, settings=1) == "1 run of 1 setting on 1 dataset"


def test_an_option_may_have_the_name_of_a_column():
    spec = RunSpec(dataset="cora", model="mine", options={"data": 3, "k": 2})
    table = flat_runs(stored(results(0.7, spec=spec)))
    assert table.column("data").to_pylist() == [3, 3]
    assert table.column("run.data").to_pylist() == ["1f", "1f"]
    assert table.column("k").to_pylist() == [2, 2]
