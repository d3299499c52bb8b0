"""``pdgnn reproduce`` of the tables; that of Figure 1 is in test_cli_reproduce."""

from __future__ import annotations

import sys
from functools import partial

import pytest

import commands
from pdgnn.cli.own_models import split_models
from pdgnn.experiments.catalog import EXPERIMENTS
from pdgnn.experiments.request import known_labels
from pdgnn.models import MODELS
from pdgnn.training import stages
from pdgnn.training.store import Store

BOARD = "minesweeper-generated:size=6,seed=1"
SMALL = ("--datasets", BOARD, "--width", "8", "--steps", "5", "--splits", "0-1")

OWN = """
import torch
from pdgnn.training import Model

class Net(torch.nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.layer = torch.nn.Linear(inputs, outputs)

    def forward(self, x, edge_index):
        return self.layer(x)

mine = Model(build=lambda size, spec: Net(size.in_channels, size.out_channels), uses=["depth"])
number = 3
"""
run = partial(commands.run, "reproduce", columns=160)


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(stages, "LEAST_STEPS", 1)
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "own.py").write_text(OWN)
    (tmp_path / "broken.py").write_text("1 / 0")
    (tmp_path / "json.py").write_text(OWN)
    (tmp_path / "a-b.py").write_text(OWN)


def count(file) -> int:
    with Store(file, create=False) as store:
        return store.count()


def test_a_part_of_a_grid_is_drawn_and_named():
    words = ("table2", *SMALL, "--models", "FAGCN", "--most-settings", "3")
    planned = run(*words, "--plan", "--no-measure")
    assert "FAGCN" in planned.stdout
    assert "6 x 1, 4 x 5" in planned.stdout
    done = run(*words, "--no-measure")
    assert "3 of 16 (" in done.stdout
    assert count("paper.sqlite") == 10


@pytest.mark.usefixtures("without_h2gcn")
def test_the_list_names_every_experiment_and_what_is_not_there():
    said = run("--list").stdout
    for name in EXPERIMENTS:
        assert f"\n{name} " in said
    assert "no model yet for the rows H2GCN" in said


def test_plan_work_and_table(tmp_path):
    planned = run("table2", *SMALL, "--models", "GCN", "--plan")
    assert "10 x 1, 4 x 5" in planned.stdout
    assert "at most 14 runs are left, of 30 steps together, about " in planned.stdout
    assert not (tmp_path / "paper.sqlite").exists()
    done = run("table2", *SMALL, "--models", "GCN")
    assert "stage 2 of 2: 2 settings of GCN; 4 runs of 5 steps" in done.stderr
    assert "Table 2: benchmark" in done.stdout
    assert "by validation" in done.stdout
    assert count("paper.sqlite") == 14
    shown = run("table2", *SMALL, "--models", "GCN", "--table")
    assert shown.stdout == done.stdout[done.stdout.index("Table 2") :]
    again = run("table2", *SMALL, "--models", "GCN", "--no-measure")
    assert again.stdout.endswith(shown.stdout)
    assert count("paper.sqlite") == 14
    with Store("paper.sqlite") as store:
        (about,) = store.provenances().values()
    assert about["device"] == "cpu"
    assert "command" in about


def test_a_narrow_terminal_cuts_no_score_short():
    words = ("table2", *SMALL, "--models", "GCN", "--no-measure")
    run(*words)
    narrow, wide = (commands.run("reproduce", *words, columns=n).stdout for n in (40, 160))
    (planned, score) = [line for line in wide.splitlines() if "GCN" in line]
    assert " ± " in score
    assert planned in narrow.splitlines()
    assert score in narrow.splitlines()


def test_a_model_of_ones_own_beside_a_row(tmp_path):
    done = run("table2", *SMALL, "--models", "GCN,own.py:mine", "--store", "s.sqlite")
    assert {line.split()[0] for line in done.stdout.splitlines() if line.startswith("  ")} >= {
        "GCN",
        "mine",
    }
    with Store("s.sqlite") as store:
        assert {r.result.spec.model for r in store.runs()} == {"gcn", "mine"}


def test_a_model_of_ones_own_alone():
    """On a graph that the paper does not have, rows without runs have nothing to show."""
    done = run("table2", *SMALL, "--models", "own.py:mine", "--no-measure")
    assert "  mine " in done.stdout
    assert "PD-GAT-sep (rewired)" not in done.stdout
    with Store("paper.sqlite") as store:
        assert {r.result.spec.model for r in store.runs()} == {"mine"}


NAMED = """
def build(size, spec):
    return Net(size.in_channels, size.out_channels)

mine = Model(build=build, uses=["depth"])
"""


def test_a_model_of_ones_own_in_worker_processes(tmp_path):
    """Its functions are at the top of its file, and are imported there by its name."""
    (tmp_path / "named_model.py").write_text(OWN.partition("mine = ")[0] + NAMED)
    done = run(
        "table2", *SMALL, "--models", "named_model.py:mine", "--no-measure", "--workers", "2"
    )
    assert "mine" in done.stdout
    with Store("paper.sqlite") as store:
        assert {r.result.spec.model for r in store.runs()} == {"mine"}


def test_minutes_that_are_over():
    said = run("table2", *SMALL, "--models", "GCN", "--minutes", "0", "--no-measure")
    assert "the minutes are over; what is done is in paper.sqlite" in said.stderr


def test_stopped_by_ctrl_c(monkeypatch):
    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("pdgnn.training.engines.here.train_share", stop)
    said = run("table2", *SMALL, "--models", "GCN", "--no-measure", code=130)
    assert "what is done is in paper.sqlite; run the same command again" in said.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["table9"], "unknown experiment 'table9'; choose one of table1"),
        (["table2", "--models", "no.py:mine"], "there is no file no.py; give a model of yours"),
        (["table2", "--models", "own.py:other"], "own.py has no 'other'; give the name of a Model"),
        (
            ["table2", "--models", "own.py:number"],
            "number of own.py is no pdgnn.training.Model",
        ),
        (["table2", "--models", "broken.py:mine"], "broken.py cannot be run: ZeroDivisionError"),
        (["table2", "--models", "json.py:mine"], "json.py has the name of another module, json"),
        (["table2", "--models", "a-b.py:mine"], "a-b.py cannot be imported; call it like"),
        (["table2", "--models", "GCN,XYZ"], "table2 has no row 'XYZ'; it has 'GCN'"),
        (["table2", "--models", "H2GCN"], "there is no model for H2GCN yet"),
        (["table2", "--models", ","], "--models is empty"),
        (["table2", "--datasets", "cora"], "table2 has no cora"),
        (["table2", "--most-settings", "0"], "most_settings must be a whole number"),
        (["table2", "--splits", "a"], "--splits takes whole numbers"),
        (["table2", "--table"], "there is no file paper.sqlite; name a store with --store"),
        (["table2", "--quick"], "--quick and --output are for figure1, not for table2"),
        (["table2", "--engine", "here", "--address", "a"], "an address is that of a Ray cluster"),
    ],
)
@pytest.mark.usefixtures("without_h2gcn")
def test_what_cannot_be_asked_for(words, message):
    said = run(*words, code=2)
    assert message in said.stderr
    assert said.stderr.startswith("error: ")


def test_a_foreign_file_is_left_as_it_is(tmp_path):
    (tmp_path / "paper.sqlite").write_text("my notes, which are precious to me" * 20)
    said = run("table2", *SMALL, "--models", "GCN", "--no-measure", code=2)
    assert said.stderr.startswith("error: ")
    assert (tmp_path / "paper.sqlite").read_text().startswith("my notes")


def test_facts_need_no_store():
    said = run("hyperparameters")
    assert "PD-GAT" in said.stdout


def test_labels_may_have_commas():
    labels = known_labels(EXPERIMENTS["table1"])
    rows, own = split_models("GAT + R, tuned,GCN, PD-GAT, α = γ = 1,own.py:mine", labels)
    assert rows == ["GAT + R, tuned", "GCN", "PD-GAT, α = γ = 1"]
    assert [*own] == ["mine"]
    assert "mine" not in MODELS


TWO = """
def other(size, spec):
    return Net(size.in_channels, size.out_channels)

another = Model(build=other, uses=["depth"])
"""


def test_two_models_of_one_file_in_worker_processes(tmp_path):
    """The file is run once, so that both have functions which workers can import."""
    (tmp_path / "two_models.py").write_text(OWN.partition("mine = ")[0] + NAMED + TWO)
    models = "two_models.py:mine,two_models.py:another"
    run("table2", *SMALL, "--models", models, "--no-measure", "--workers", "2")
    with Store("paper.sqlite") as store:
        assert {r.result.spec.model for r in store.runs()} == {"mine", "another"}


@pytest.mark.parametrize(
    ("other", "name", "message"),
    [
        ("else/own.py", "second", "own.py has the name of another module, own; rename the file"),
        ("else/third.py", "mine", "--models has two models called mine; rename one of them"),
    ],
)
def test_models_that_would_be_taken_for_one_another(tmp_path, other, name, message):
    (tmp_path / "else").mkdir()
    (tmp_path / other).write_text(OWN.replace("mine =", f"{name} ="))
    commands.refused(
        "reproduce", "table2", "--models", f"own.py:mine,{other}:{name}", message=message
    )


def test_the_plan_knows_what_is_done_of_every_stage():
    words = ("table2", *SMALL, "--models", "GCN", "--no-measure")
    run(*words)
    said = run(*words, "--plan").stdout
    assert "10 x 1, 4 x 5    14" in said
    assert said.endswith("nothing is left to train\n")
    again = run(*words, "--curves", "--plan").stdout  # those of the last stage, for their curves
    assert "at most 4 runs are left, of 20 steps together" in again


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--minutes", "nan"], "minutes must be a number of at least 0"),
        (["--minutes", "-1"], "minutes must be a number of at least 0"),
        (["--most-runs", "0"], "most_runs must be a whole number of at least 1"),
        (["--tracker", "w"], "unknown tracker 'w'"),
        (["--splits", "2,99"], "has splits 0 to 9; there is no 99"),
        (["--plan", "--table"], "choose one of --plan and --table"),
    ],
)
def test_what_cannot_be_is_said_before_a_plan_is_shown(tmp_path, words, message):
    base = ("reproduce", "table2", *SMALL, "--models", "GCN", "--no-measure")
    commands.refused(*base, *words, message=message, columns=160)
    assert not (tmp_path / "paper.sqlite").exists()


def test_a_gpu_that_is_not_there_is_said_before_a_plan_is_shown(monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    words = ("table2", *SMALL, "--models", "GCN", "--no-measure", "--device", "cuda")
    commands.refused("reproduce", *words, message="device='cuda' needs a CUDA GPU")
    assert "at most" in run(*words, "--plan").stdout


def test_facts_of_some_graphs():
    said = run("hyperparameters", "--datasets", "minesweeper,tolokers").stdout
    assert "PD-GAT, tolokers" in said
    assert "questions" not in said


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["homophily", "--steps", "5"], "homophily trains nothing and does not take --steps"),
        (["datasets", "--models", "GCN"], "datasets trains nothing and does not take --models"),
        (["datasets", "--datasets", "mine"], "datasets has no mine; it has cora, citeseer"),
        (["hyperparameters", "--datasets", "cora"], "hyperparameters has no cora; it has roman"),
        (["figure1", "--steps", "5"], "figure1 has settings of its own and does not take --steps"),
        (["figure1", "-o", "x", "--table"], "figure1 has settings of its own and does not take"),
    ],
)
def test_options_that_an_experiment_does_not_heed(tmp_path, words, message):
    commands.refused("reproduce", *words, message=message)
    assert not (tmp_path / "figure1").exists()
