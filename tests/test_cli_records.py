"""``pdgnn records`` as a user has it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from pdgnn.cli import app
from pdgnn.experiments.records import spaces
from pdgnn.training.store import read_runs
from recording import small_graph


@pytest.fixture(autouse=True)
def graph(tmp_path, monkeypatch) -> str:
    """Every test in a folder of its own, with one small graph that has two splits."""
    monkeypatch.chdir(tmp_path)
    return small_graph(tmp_path, monkeypatch)


def run(*words: str, code: int = 0):
    result = CliRunner().invoke(app, ["records", "--splits", "0-1", *words], env={"COLUMNS": "140"})
    assert result.exit_code == code, result.output
    return result


def count() -> int:
    return len(read_runs("records.sqlite")[0])


def test_the_list_has_graphs_published_scores_and_sizes():
    said = run("--list").stdout
    assert "best published" in said
    assert "graph.npz" in said
    assert " 3 " in said  # settings of PD-Net


def test_plan_search_final_and_table(graph):
    small = ("--datasets", graph, "--models", "pd-net,pd-trees,average")
    planned = run(*small, "--search", "--final", "--plan", "--markdown", "new/table.md").stdout
    assert "at most" in planned
    assert not Path("records.sqlite").exists()
    assert not Path("new").exists()
    done = run(*small, "--search", "--final")
    assert "stage 1 of 2: 3 settings of PD-Net; 6 of 6 runs to train" in done.stderr
    assert "of 3 settings of PD-Net validation chose one with 100.00" in done.stderr
    assert "PD-Net and pd-trees, averaged" in done.stdout
    before = count()
    shown = run(*small)
    assert done.stdout.endswith(shown.stdout)
    again = run(*small, "--search", "--final")
    assert again.stdout.endswith(shown.stdout)
    assert again.stderr.count("runs to train") == 0
    assert count() == before
    found = json.loads(run(*small, "--json").stdout)[graph]["methods"]
    assert found["pd-net"]["runs"] == found["pd-net"]["wanted"] == 6
    assert found["average"]["weight"] == 0.0
    run(*small, "--markdown", "table.md")
    assert "| PD-Net |" in Path("table.md").read_text()


def test_an_ablation(graph):
    small = ("--datasets", graph, "--models", "pd-net")
    run(*small, "--search", "--final")
    said = run(*small, "--ablation").stdout
    assert "no path to itself" in said
    assert "attention (GAT) for P" in said


def test_json_is_all_that_stdout_has(graph):
    done = run("--datasets", graph, "--models", "pd-trees", "--search", "--json")
    assert json.loads(done.stdout)[graph]["methods"]["pd-trees"]["tried"] == 2


def test_minutes_that_are_over(graph):
    said = run("--datasets", graph, "--models", "pd-net", "--search", "--minutes", "0").stderr
    assert "the minutes are over; what is done is in records.sqlite" in said


def test_stopped_by_ctrl_c(graph, monkeypatch):
    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("pdgnn.training.engines.here.train_share", stop)
    said = run("--datasets", graph, "--models", "pd-net", "--search", code=130).stderr
    assert "what is done is in records.sqlite; run the same command again" in said


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--datasets", "nowhere"], "there are no records of 'nowhere'; choose among "),
        (["--models", "gat"], "unknown model 'gat'; choose among pd-net, pd-trees"),
        (["--models", ","], "--models is empty"),
        (["--splits", "a"], "--splits takes whole numbers"),
        (["--models", "pd-trees", "--final"], "no setting of pd-trees on "),
        (["--models", "pd-net", "--ablation"], "no setting of pd-net on "),
        (["--models", "pd-trees", "--ablation"], "an ablation is one of pd-net; name it among"),
        (["--plan"], "--plan tells in a table what --search, --final or --ablation would do"),
        (["--search", "--plan", "--json"], "leave --json out"),
        (["--store", "nothing.sqlite"], "there is no results store nothing.sqlite; check the name"),
        (["--search", "--plan", "--splits", "1,2"], "graph.npz has splits 0 to 1; there is no 2"),
        (["--search", "--markdown", "t.txt"], "t.txt: files of this kind are not written; use .md"),
        (["--search", "--workers", "0"], "workers must be a whole number of at least 1"),
    ],
)
def test_what_cannot_be_asked_for(words, message):
    said = run(*words, code=2)
    assert message in said.stderr
    assert said.stderr.startswith("error: ")
    assert said.stderr.count("\n") == 1
    assert said.stdout == ""


def test_a_foreign_file_is_left_as_it_is(graph):
    Path("records.sqlite").write_text("my notes, which are precious to me" * 20)
    said = run("--datasets", graph, "--models", "pd-net", "--search", code=2)
    assert said.stderr.startswith("error: ")
    assert Path("records.sqlite").read_text().startswith("my notes")


def test_an_empty_file_is_a_store_that_is_still_to_be_made(graph):
    Path("records.sqlite").touch()  # of a process that was killed before it wrote anything
    assert "at most" in run("--datasets", graph, "--models", "pd-net", "--search", "--plan").stdout


def test_without_a_store_the_table_is_empty(graph):
    said = run().stdout
    assert "PD-Net" in said
    assert not Path("records.sqlite").exists()
    assert list(spaces.NETWORKS) == [graph]
