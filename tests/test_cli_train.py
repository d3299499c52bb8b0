"""``pdgnn train`` as a user has it: the table, files, going on, one line for what goes wrong."""

from __future__ import annotations

import csv
import json
import math
import statistics
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
import pytest

import commands
from filing import npz
from pdgnn.models import MODELS
from pdgnn.report.training import METRIC_NAMES
from pdgnn.training import RunSpec, Task, loop, train
from pdgnn.training.checkpoint import RunFolder
from pdgnn.training.group import Group

BOARD = "minesweeper-generated:size=6,seed=1"
SMALL = ("--width", "8", "--heads", "2", "--depth", "1", "--steps", "4", "--lr", "0.01")
run = partial(commands.run, "train", columns=120)
refused = partial(commands.refused, "train", columns=120)


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """Every test in a folder of its own; no line says how far it is, however long it takes."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("pdgnn.cli.progress.LINE_SECONDS", math.inf)
    monkeypatch.delenv("FORCE_COLOR", raising=False)


def files() -> set[str]:
    return {path.name for path in Path().iterdir()} - {"cache"}


def spec(**options) -> RunSpec:
    small = {"dataset": BOARD, "model": "pd-gat", "width": 8, "heads": 2, "depth": 1}
    return RunSpec(**{**small, "steps": 4, "lr": 0.01, **options})


def table(text: str) -> list[list[str]]:
    """The lines of the table, cut into their cells."""
    lines = [line.strip() for line in text.splitlines()]
    start = next(i for i, line in enumerate(lines) if line.startswith("model"))
    return [[cell.strip() for cell in line.split("  ") if cell.strip()] for line in lines[start:]]


def test_the_table_is_that_of_the_library():
    longer = {"steps": 12, "lr": 0.05}
    results = train([spec(split=i, seed=s, **longer) for i in (0, 1, 2) for s in (0, 1)])
    words = ("--splits", "0-2", "--seeds", "2", "--steps", "12", "--lr", "0.05")
    said = run(BOARD, *SMALL, *words)
    lines = said.stdout.splitlines()
    assert lines[:2] == [
        BOARD,
        "  ROC AUC in percent; test at each run's best validation step",
    ]
    heads, row = table(said.stdout)
    assert heads == ["model", "runs", "test", "validation", "best step", "seconds"]
    tests = [100 * r.test for r in results]
    steps = [r.step for r in results]
    assert min(steps) < max(steps)
    assert row[:-1] == [
        *("PD-GAT", "6"),
        f"{statistics.fmean(tests):.2f} ± {statistics.stdev(tests):.2f}",
        f"{statistics.fmean(100 * r.val for r in results):.2f}",
        f"{min(steps)} to {max(steps)}",
    ]
    assert said.stderr == ""
    assert files() == set()


def test_a_grid_has_a_line_for_each_point_and_none_where_the_scope_does_not_matter():
    words = ("-m", "pd-gcn,gat", "--alpha", "0,0.5", "--gamma", "0.2", "--depth", "1-2")
    said = run(BOARD, *SMALL, *words, "--splits", "3").stdout
    heads, *rows = table(said)[:7]
    assert heads[:5] == ["model", "α", "depth", "runs", "test"]  # γ is the same in all
    assert [row[:4] for row in rows] == [
        ["PD-GCN", "0", "1", "1"],
        ["PD-GCN", "0.5", "1", "1"],
        ["PD-GCN", "0", "2", "1"],
        ["PD-GCN", "0.5", "2", "1"],
        ["GAT", "-", "1", "1"],
        ["GAT", "-", "2", "1"],
    ]
    assert all("±" not in row[4] for row in rows)  # of a single run
    best = max(float(row[5]) for row in rows)
    assert "  By mean validation score: " in said
    first = next(row for row in rows if float(row[5]) == best)
    assert f"with a test score of {first[4]}." in " ".join(said.split())


def test_every_number_may_be_a_list():
    words = ("--lr", "0.01,0.003", "--width", "8,16", "--dropout", "0,0.5", "--patience", "2-3")
    found = json.loads(run(BOARD, *SMALL, *words, "-m", "gcn", "--splits", "0", "--json").stdout)
    points = [(r["width"], r["lr"], r["dropout"], r["patience"]) for r in found["rows"]]
    expected = product((8, 16), (0.01, 0.003), (0.0, 0.5), (2, 3))
    assert points == list(expected)
    said = run(BOARD, *SMALL, "--lr", "0.01,0.003", "-m", "gcn", "--splits", "0").stdout
    heads, *rows = table(said)[:3]
    assert heads[:3] == ["model", "lr", "runs"]
    assert [row[1] for row in rows] == ["0.01", "0.003"]


def test_an_option_that_is_a_text_gets_the_text_and_others_none_and_numbers(monkeypatch):
    mine = replace(MODELS["gcn"], options={"kind": "some", "rate": None})
    monkeypatch.setitem(MODELS, "mine", mine)
    words = ("-m", "mine", "--option", "kind=none,2", "--option", "rate=none,2")
    found = json.loads(run(BOARD, *SMALL, *words, "--splits", "0", "--json").stdout)
    points = [(r["options"]["kind"], r["options"]["rate"]) for r in found["rows"]]
    assert points == list(product(("none", "2"), (None, 2)))


def test_the_models_are_listed_without_a_graph():
    said = run("--list").stdout
    for name, model in MODELS.items():
        assert f"{name} " in said
        assert f" {model.name} " in said


@pytest.mark.parametrize("metric", METRIC_NAMES)
def test_the_metric_and_the_weights_of_the_classes_are_those_asked_for(metric):
    words = (*SMALL, "-m", "gcn", "--splits", "0", "--metric", metric, "--balanced")
    found = json.loads(run(BOARD, *words, "--json").stdout)
    assert found["metric"] == metric
    task = Task.open(BOARD, metric=metric, class_weights="balanced")
    (result,) = train([spec(model="gcn")], tasks={BOARD: task})
    assert found["rows"][0]["test_mean"] == result.test
    said = run(BOARD, *words).stdout
    assert f"  {METRIC_NAMES[metric]} in percent; test at each run's best" in said


def test_rewired_graphs_have_a_scope_for_every_model():
    words = ("-m", "gat", "--rewired", "--reach", "far", "--alpha", "0,1", "--splits", "0")
    found = json.loads(run(BOARD, *SMALL, *words, "--json").stdout)
    assert [(r["alpha"], r["rewired"], r["reach"]) for r in found["rows"]] == [
        (0.0, True, "far"),
        (1.0, True, "far"),
    ]
    runs = [spec(model="gat", rewired=True, reach="far", alpha=a) for a in (0.0, 1.0)]
    assert [r["test_mean"] for r in found["rows"]] == [r.test for r in train(runs)]
    assert "GAT (rewired, far)" in run(BOARD, *SMALL, *words).stdout


def test_json_is_one_object_with_every_run():
    words = ("-m", "gcn,pd-gat", "--gamma", "0.5", "--splits", "0,2", "--precision", "float64")
    result = run(BOARD, *SMALL, *words, "--json", "--patience", "2", "--dropout", "0.5")
    found = json.loads(result.stdout, parse_constant=pytest.fail)
    assert result.stderr == ""
    assert (found["name"], found["metric"]) == (BOARD, "roc_auc")
    vals = [row["val_mean"] for row in found["rows"]]
    assert found["chosen_by_validation"] == vals.index(max(vals))
    gcn, pd_gat = found["rows"]
    assert (gcn["model"], gcn["alpha"], gcn["gamma"]) == ("gcn", None, None)
    assert (pd_gat["alpha"], pd_gat["gamma"], pd_gat["depth"]) == (1.0, 0.5, 1)
    options = {"precision": "float64", "patience": 2, "dropout": 0.5}
    results = train([spec(gamma=0.5, split=i, **options) for i in (0, 2)])
    assert [(r["split"], r["test"], r["step"], r["steps_run"]) for r in pd_gat["runs"]] == [
        (r.spec.split, r.test, r.step, r.steps_run) for r in results
    ]
    assert pd_gat["test_std"] == statistics.stdev(r.test for r in results)
    assert {name: pd_gat[name] for name in options} == options


def test_a_file_of_the_heterophilous_form_trains_on_all_its_splits():
    task = Task.open(BOARD)
    arrays = {"edges": task.graph.edge_index.T.numpy(), "node_features": task.x.numpy()}
    arrays["node_labels"] = task.y.numpy()
    masks = dict(zip(("train", "val", "test"), task.masks.numpy().swapaxes(0, 1), strict=True))
    masks = {f"{part}_masks": mask for part, mask in masks.items()}
    Path("board.npz").write_bytes(npz(**arrays, **masks))
    one, other = (json.loads(run(g, *SMALL, "--json").stdout) for g in ("board.npz", BOARD))
    assert one["name"] == "board.npz"
    assert len(one["rows"][0]["runs"]) == 10
    assert one["rows"][0]["test_mean"] == other["rows"][0]["test_mean"]
    Path("bare.npz").write_bytes(npz(edges=arrays["edges"]))
    refused("bare.npz", *SMALL, message="has no node features and no labels and no splits, so the")
    Path("bare.csv").write_text("0,1\n1,2\n")
    refused("bare.csv", *SMALL, message="bare.csv has no node features and no labels")


def test_curves_are_written_step_by_step():
    words = ("-m", "gcn", "--splits", "0,1", "--seeds", "5-5")
    said = run(BOARD, *SMALL, *words, "--curves", "new/curves.csv")
    assert said.stderr == "the curves are in new/curves.csv\n"
    with Path("new/curves.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 8
    assert list(rows[0]) == ["model", "split", "seed", "step", "loss", "val", "test"]
    results = train([spec(model="gcn", split=i, seed=5) for i in (0, 1)], curves=True)
    for r in results:
        mine = [row for row in rows if row["split"] == str(r.spec.split)]
        assert [row["step"] for row in mine] == ["1", "2", "3", "4"]
        found = [[float(row[name]) for name in ("loss", "val", "test")] for row in mine]
        np.testing.assert_allclose(found, r.curves, rtol=1e-6)
    words = ("-m", "gcn,pd-gcn", "--gamma", "0,0.5", "--depth", "1-2", "--splits", "0")
    run(BOARD, *SMALL, *words, "--curves", "new/curves.csv")  # an old file is replaced
    with Path("new/curves.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0])[:5] == ["model", "gamma", "depth", "split", "seed"]  # what differs
    found = {(row["model"], row["gamma"], row["depth"]) for row in rows}
    expected = {("gcn", "-", d) for d in "12"} | set(product(["pd-gcn"], ["0", "0.5"], "12"))
    assert found == expected
    assert len(rows) == 4 * len(found)
    assert [path.name for path in Path("new").iterdir()] == ["curves.csv"]


def test_what_diverged_is_told_with_its_step():
    words = ("--lr", "1e30", "-m", "gcn", "--splits", "0", "--curves", "c.csv")
    said = run(BOARD, *SMALL, *words)
    assert table(said.stdout)[1][2:4] == ["none", "none"]
    assert "  Diverged at step 2: GCN, split 0, seed 0; it has no score.\n" in said.stdout
    assert said.stdout.endswith("  A smaller --lr may help.\n")
    assert Path("c.csv").read_text().splitlines()[2].endswith(",2,,,")
    row = json.loads(run(BOARD, *SMALL, *words, "--json").stdout, parse_constant=pytest.fail)
    assert row["chosen_by_validation"] is None
    assert row["rows"][0]["test_mean"] is None
    assert row["rows"][0]["runs"][0]["diverged_at"] == 2


def test_a_folder_keeps_what_is_done():
    words = (BOARD, *SMALL, "--splits", "0,1", "--folder", "runs")
    first = run(*words)
    assert len(RunFolder("runs").results()) == 2
    assert run(*words).stdout == first.stdout  # seconds and all
    more = json.loads(run(*words[:-4], "--splits", "0-2", "--folder", "runs", "--json").stdout)
    assert len(more["rows"][0]["runs"]) == 3


def test_layers_computed_again_give_the_same_table(monkeypatch):
    chosen, init = [], Group.__init__

    def noted(self, *args, **options):
        chosen.append(options["recompute"])
        init(self, *args, **options)

    monkeypatch.setattr(Group, "__init__", noted)
    words = (BOARD, *SMALL, "--splits", "0,1")
    one, other = (table(run(*words, *more).stdout)[1] for more in ((), ("--recompute",)))
    assert one[:-1] == other[:-1]  # all but the seconds
    assert chosen == [False, False, True, True]


def test_ctrl_c_keeps_the_state_and_says_how_to_go_on(monkeypatch):
    monkeypatch.setattr(loop, "LOOK_SECONDS", 0.0)
    whole = json.loads(run(BOARD, *SMALL, "--splits", "0,1", "--json").stdout)
    words = (BOARD, *SMALL, "--splits", "0,1", "--json")
    look, calls = loop.Watch.look, []

    def interrupted(self):
        calls.append(1)
        if len(calls) == 8:
            raise KeyboardInterrupt
        return look(self)

    for folder, said in (
        ((), "stopped; nothing is kept, as there was no --folder\n"),
        (
            ("--folder", "runs"),
            "stopped; what is done is in runs; run the same command again to go on\n",
        ),
    ):
        calls.clear()
        with monkeypatch.context() as patched:
            patched.setattr(loop.Watch, "look", interrupted)
            result = run(*words, *folder, "--curves", "c.csv", code=130)
        assert (result.stdout, result.stderr) == ("", said)
    assert files() == {"runs"}
    assert len(RunFolder("runs").results()) == 1
    states = RunFolder("runs").states([spec(split=1).key])
    assert [int(row["step"]) for row in states.values()] == [2]
    again = json.loads(run(*words, "--folder", "runs").stdout)
    assert again["rows"][0]["test_mean"] == whole["rows"][0]["test_mean"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["-m", "gtn"], "unknown model 'gtn'; choose one of mlp, resnet"),
        (["-m", " , "], "--model is empty"),
        (["--alpha", "2"], "alpha must be a number in [0, 1], not 2.0"),
        (["--alpha", "0,x"], "--alpha takes numbers such as 0,0.5,1, not '0,x'"),
        (["--gamma", "nan"], "gamma must be a number in [0, 1], not nan"),
        (["--gamma", ""], "--gamma is empty"),
        (["--depth", "0"], "depth must be a whole number of at least 1 and below 1001, not 0"),
        (["--depth", "1.5"], "--depth takes whole numbers such as 0,1,2 or 0-4, not '1.5'"),
        (["--width", "12", "-m", "gat"], "width 12 does not split into 8 equal heads"),
        (["--width", "0"], "width must be a whole number of at least 1 and below 131072, not 0"),
        (["--splits", "5-2"], "--splits has 5-2; give the lower end first"),
        (["--splits", "0-99999999999"], "--splits has 0-99999999999"),
        (["--splits", "some"], "--splits takes whole numbers such as 0,1,2 or 0-4, not 'some'"),
        (["--splits", "-1"], "--splits takes whole numbers"),
        (["--seeds", "0"], "--seeds takes at least 1"),
        (["--seeds", "²"], "--seeds takes whole numbers"),
        (["--lr", "-1"], "lr must be a number of at least 0, and finite, not -1.0"),
        (["--lr", "inf"], "lr must be a number of at least 0, and finite, not inf"),
        (["--dropout", "1"], "dropout must be a number in [0, 1), not 1.0"),
        (
            ["--steps", "0"],
            "steps must be a whole number of at least 1 and below 1000000000, not 0",
        ),
        (["--depth", "99999999999"], "depth must be a whole number of at least 1 and below 1001"),
        (["--width", "1000000000"], "width must be a whole number of at least 1 and below 131072"),
        (["--width", "wide"], "--width takes whole numbers such as 0,1,2 or 0-4, not 'wide'"),
        (["--dropout", "0,half"], "--dropout takes numbers such as 0,0.5,1, not '0,half'"),
        (["--option", "k"], "--option takes NAME=VALUES such as k=2,4, not 'k'"),
        (
            ["--option", "k=2", "-m", "gcn,gat"],
            "--option: gcn, gat has no option 'k'; see pdgnn tr",
        ),
        (["--patience", "0"], "patience must be a whole number of at least 1, not 0"),
        (["--folder", "file"], "--folder file is a file; name a folder"),
        (["--curves", "c.txt"], "c.txt: files of this kind are not written; use .csv"),
        (["--curves", "file/c.csv"], "file is a file, not a folder"),
        ([], "gone.npz: there is no such file"),
    ],
)
def test_bad_options_are_one_line_before_anything_is_read(words, message):
    Path("file").write_text("")
    refused("gone.npz", *words, message=message)
    refused("gone.npz", *words, "--json", message=message)
    assert files() == {"file"}


def test_what_goes_wrong_later_is_one_line_too(monkeypatch):
    refused(BOARD, *SMALL, "--splits", "9,10", "--folder", "runs", message="there is no 10")
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    refused("gone.npz", "--device", "cuda", message="needs a CUDA GPU and there is none")
    assert files() == set()
    run(BOARD, *SMALL, "--splits", "0", "--folder", "runs")
    Path("runs/results.jsonl").write_text("{}\n")
    refused(BOARD, *SMALL, "--folder", "runs", message="results.jsonl, line 1, is damaged")


def test_wrong_usage_exits_with_2():
    for words in ([], [BOARD, "--metric", "best"], [BOARD, "--precision", "int8"]):
        result = run(*words, code=2)
        assert "Usage: " in result.stderr
        assert result.stdout == ""
    assert "pdgnn train minesweeper -m pd-gat,gat" in run("--help").stdout


def test_without_a_terminal_a_line_is_said_now_and_then(monkeypatch):
    monkeypatch.setattr("pdgnn.cli.progress.LINE_SECONDS", 0.0)
    monkeypatch.setattr(loop, "LOOK_SECONDS", 0.0)
    said = run(BOARD, *SMALL, "-m", "gcn", "--splits", "0,1").stderr.splitlines()
    assert len(said) == 10
    assert said[0] == "0/2 runs, GCN at step 0/4"
    assert said[9].startswith("1/2 runs, GCN at step 4/4, best val ")
    assert said[9].endswith(" so far, 0:00 left")
