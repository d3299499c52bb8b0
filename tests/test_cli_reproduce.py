"""``pdgnn reproduce`` as a user has it: files, what made them, going on, and what goes wrong."""

from __future__ import annotations

import json
from functools import partial

import pytest

import commands
import pdgnn
from pdgnn.experiments import figure1
from pdgnn.training.checkpoint import RunFolder
from pdgnn.training.store import read_runs

TINY = figure1.Plan(
    num_nodes=60, homophily=(0.0, 0.5), gammas=(0.0, 1.0), graphs=2, steps=2, width=8
)
RUNS = len(figure1.figure1_specs(TINY))
run = partial(commands.run, "reproduce", "figure1", "--quick", columns=80)


@pytest.fixture(autouse=True)
def _tiny(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(figure1, "QUICK", TINY)


def rows(folder) -> list[dict]:
    return json.loads((folder / "meta.json").read_text())


def test_numbers_pictures_and_what_made_them(tmp_path):
    said = run("-o", "out")
    out = tmp_path / "out"
    assert {p.name for p in out.iterdir()} == {
        "figure1.csv", "figure1.png", "figure1.svg", "findings.txt", "meta.json",
    }  # fmt: skip
    assert (out / "findings.txt").read_text() == said.stdout
    (row,) = rows(out)
    assert row["command"] == "pdgnn reproduce figure1 --quick --device cpu --workers 1"
    assert row["runs"] == RUNS == len(read_runs(tmp_path / "paper.sqlite")[0])
    assert row["versions"]["pdgnn"].startswith(pdgnn.__version__)
    assert row["machine"].split()[1] == "cores,"
    assert row["seconds"] > 0


def test_a_second_call_trains_nothing_and_says_the_same(tmp_path):
    first = run("-o", "out")
    before = rows(tmp_path / "out")
    second = run("-o", "out")
    assert second.stdout == first.stdout
    assert rows(tmp_path / "out") == before


def test_what_was_stopped_is_on_record_and_goes_on(tmp_path, monkeypatch):
    keep, calls = RunFolder.add_results, []

    def stopped(self, *rest):
        keep(self, *rest)
        calls.append(len(read_runs(tmp_path / "paper.sqlite")[0]))
        raise KeyboardInterrupt

    with monkeypatch.context() as m:
        m.setattr(RunFolder, "add_results", stopped)
        said = run(code=130)
    assert "run the same command again" in said.stderr
    assert not (tmp_path / "figure1" / "figure1.csv").exists()
    run()
    assert [row["runs"] for row in rows(tmp_path / "figure1")] == [calls[0], RUNS - calls[0]]


@pytest.mark.parametrize("text", ["{", "{}"])
def test_a_damaged_record_is_one_line_before_anything_is_trained(tmp_path, text):
    (tmp_path / "figure1").mkdir()
    (tmp_path / "figure1" / "meta.json").write_text(text)
    said = run(code=2)
    assert said.stderr.startswith("error: figure1/meta.json: ")
    assert said.stderr.endswith("; move it away to begin a new one\n")
    assert len(said.stderr.splitlines()) == 1
    assert [p.name for p in (tmp_path / "figure1").iterdir()] == ["meta.json"]


def test_runs_may_be_kept_in_another_store(tmp_path):
    said = run("-o", "out", "--store", "mine.sqlite")
    assert not (tmp_path / "paper.sqlite").exists()
    assert len(read_runs(tmp_path / "mine.sqlite")[0]) == RUNS
    assert run("-o", "other", "--store", "mine.sqlite").stdout == said.stdout
    assert not (tmp_path / "other" / "meta.json").exists()  # nothing was trained


def test_the_plan_trains_nothing(tmp_path):
    assert run("--plan").stdout == f"{RUNS} of {RUNS} runs are left, of 2 steps each\n"
    assert [*tmp_path.iterdir()] == []
    (tmp_path / "paper.sqlite").touch()  # of a process that was killed before it wrote anything
    assert run("--plan").stdout == f"{RUNS} of {RUNS} runs are left, of 2 steps each\n"
    run()
    assert run("--plan").stdout == f"0 of {RUNS} runs are left, of 2 steps each\n"


def test_worker_processes_by_name_of_their_engine():
    said = run("-o", "here").stdout
    words = ("-o", "there", "--store", "there.sqlite", "--engine", "processes")
    assert run(*words).stdout == said
