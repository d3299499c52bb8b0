"""Runs dealt out to processes: the same numbers, and nothing lost, whoever is killed."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from pdgnn import InputError
from pdgnn.cli import app
from pdgnn.ops import use_backend
from pdgnn.training import Progress, Task, train, workers
from pdgnn.training.checkpoint import RunFolder
from pdgnn.training.state import RunState
from runs import TASKS, board, spec

MODELS = ("gcn", "pd-gat", "gcn", "pd-gcn")
RUNS = [spec(split=i, seed=i, model=m, gamma=0.5) for i, m in enumerate(MODELS)]
LONG = [spec(split=i, seed=i, steps=300) for i in range(3)]
ARGUMENTS = [
    *("train", "minesweeper-generated:size=10", "-m", "gcn", "--width", "16", "--steps", "150"),
    *("--splits", "0-3", "--json"),
]


@pytest.fixture(autouse=True)
def one_thread():
    """What each of the workers has."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def go(specs, **options):
    return train(specs, tasks=TASKS, **options)


def test_the_same_numbers_come_from_workers(tmp_path):
    told: list[Progress] = []
    with use_backend("reference"):  # which the workers must be told
        alone = go(RUNS, curves=True)
        found = go(RUNS, curves=True, workers=2, folder=tmp_path, progress=told.append)
    assert found == alone
    for a, b in zip(found, alone, strict=True):
        assert np.array_equal(a.curves, b.curves)
    other = go(RUNS, curves=True)
    assert any(not np.array_equal(a.curves, b.curves) for a, b in zip(found, other, strict=True))
    assert {p.runs for p in told} == {4}
    assert [p.runs_done for p in told] == sorted(p.runs_done for p in told)
    assert all(1 <= len(p.specs) <= 2 and p.step <= p.steps for p in told)
    assert {s.key for p in told for s in p.specs} == {s.key for s in RUNS}
    assert go(RUNS, curves=True, workers=2, folder=tmp_path) == alone  # nothing is left to do
    assert go([], workers=2) == []
    assert not multiprocessing.active_children()


def test_a_worker_that_is_killed_is_told_and_the_others_save(tmp_path):
    whole = go(LONG)

    def kill_one(p: Progress) -> None:
        if len(p.specs) == 2 and p.step > 1:
            os.kill(multiprocessing.active_children()[0].pid, signal.SIGKILL)

    said = "a worker process was killed by signal 9 while it trained gcn on board; if there was not"
    with pytest.raises(InputError, match=said):
        go(LONG, workers=2, folder=tmp_path, save_seconds=0.0, progress=kill_one)
    assert not multiprocessing.active_children()
    states = RunFolder(tmp_path).states([s.key for s in LONG])
    assert len(states) == 2
    steps = [int(row["step"]) for row in states.values()]
    assert 0 < max(steps) < 300

    assert go(LONG, folder=tmp_path) == whole
    assert not list(tmp_path.glob("under-way-*"))


def test_an_error_in_a_worker_is_raised_as_it_is(tmp_path, monkeypatch):
    counts, start = [], workers._Crew.start

    def noted(self, count):
        counts.append(count)
        start(self, count)

    monkeypatch.setattr(workers._Crew, "start", noted)
    folder = RunFolder(tmp_path)
    bad = RunState.new(torch.zeros(1, 3))
    folder.save_state(RUNS[:1], bad)
    with pytest.raises(InputError, match="not one of this model and graph; start it anew"):
        go(RUNS[:1], folder=tmp_path, workers=9)
    assert counts == [1]  # no more than there are runs


class BrokenTask(Task):
    """One that no model can be made for."""

    @property
    def out_channels(self) -> int:
        raise ZeroDivisionError("a bug")


def test_a_bug_in_a_worker_comes_with_its_traceback():
    b = board()
    task = BrokenTask("board", b.graph, b.x, b.y, b.masks)
    with pytest.raises(RuntimeError, match=r"in a worker(?s:.)*out_channels(?s:.)*Error: a bug"):
        train(RUNS[:1], tasks={"board": task}, workers=2)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"workers": 0}, "workers must be a whole number of at least 1, not 0"),
        ({"workers": True}, "workers must be a whole number of at least 1, not True"),
        ({"workers": 2.0}, "workers must be a whole number of at least 1, not 2.0"),
        ({"workers": 2, "device": "cuda"}, "workers share the cores of a CPU; a GPU trains many"),
        ({"workers": 2, "most_runs": 2}, "a worker trains one run at a time; give workers or"),
    ],
)
def test_bad_numbers_of_workers_are_one_line(tmp_path, monkeypatch, options, message):
    monkeypatch.setattr("pdgnn.training.trainer.check_device", lambda d, what: torch.device(d))
    with pytest.raises(InputError) as caught:
        go(RUNS, folder=tmp_path / "new", **options)
    assert str(caught.value).startswith(message)
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    "command", [["train", "minesweeper-generated:size=6"], ["reproduce", "figure1"]]
)
def test_the_commands_pass_the_number_on(tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    ended = CliRunner().invoke(app, [*command, "--workers", "0"])
    assert ended.exit_code == 2
    assert ended.stderr == "error: workers must be a whole number of at least 1, not 0\n"
    assert list(tmp_path.glob("*")) == []


def started(folder) -> subprocess.Popen:
    """The command, in a process group of its own, with a first run finished and others begun."""
    running = subprocess.Popen(
        [sys.executable, "-m", "pdgnn", *ARGUMENTS, "--workers", "2", "--folder", str(folder)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    end = time.monotonic() + 60
    while not (folder / "results.jsonl").exists():
        assert time.monotonic() < end
        time.sleep(0.05)
    return running


def test_ctrl_c_keeps_the_states_and_the_command_goes_on(tmp_path):
    running = started(tmp_path)
    os.killpg(running.pid, signal.SIGINT)
    _, said = running.communicate(timeout=60)
    assert running.returncode == 130
    assert said == f"stopped; what is done is in {tmp_path}; run the same command again to go on\n"
    assert list(tmp_path.glob("under-way-*"))
    again = CliRunner().invoke(app, [*ARGUMENTS, "--folder", str(tmp_path)])  # one is enough now
    assert rows(again.stdout) == rows(CliRunner().invoke(app, ARGUMENTS).stdout)
    assert not list(tmp_path.glob("under-way-*"))


def rows(printed: str) -> list:
    """The scores of every run of the table."""
    found = json.loads(printed)["rows"][0]["runs"]
    assert len(found) == 4
    return [{k: v for k, v in run.items() if k != "seconds"} for run in found]


def test_workers_do_not_outlive_a_killed_parent(tmp_path):
    running = started(tmp_path)
    running.kill()
    running.communicate(timeout=20)  # to the end of stderr, which every worker has too
    assert running.returncode == -signal.SIGKILL
    with RunFolder(tmp_path).held():
        pass


def test_a_script_that_is_not_guarded_ends_and_is_told_why(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "from pdgnn.training import RunSpec, train\n"
        "run = RunSpec(dataset='minesweeper-generated:size=6', model='gcn', width=8, steps=2)\n"
        "train([run], workers=2)\n"
    )
    ended = subprocess.run(
        [sys.executable, script], capture_output=True, text=True, check=False, timeout=60
    )
    assert ended.returncode == 1
    last = ended.stderr.splitlines()[-1]
    assert "a worker process ended with exit code 1 before it began; a script must call" in last
