"""Runs dealt out to processes: the same numbers, and nothing lost, whoever is killed."""

from __future__ import annotations

import json
import multiprocessing
import os
import pickle
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
from pdgnn.training.trainer import _Job
from runs import StopError, board, go, spec, stop_at

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


def test_workers_take_groups_and_go_on_with_what_others_began(tmp_path):
    runs = [spec(split=i, seed=i, model=m) for m in ("gcn", "mlp") for i in range(3)]
    options = {"curves": True, "most_runs": 2}
    alone = go(runs, **options)
    told: list[Progress] = []
    with pytest.raises(StopError):
        go(runs, **options, folder=tmp_path, save_seconds=0.0, progress=stop_at(3))
    states = RunFolder(tmp_path).states([run.key for run in runs], curves=True)
    assert {int(row["step"]) for row in states.values()} == {3}  # after looks at 0 and 1
    found = go(runs, **options, workers=2, folder=tmp_path, progress=told.append)
    for a, b in zip(found, alone, strict=True):
        assert np.array_equal(a.curves, b.curves)
    assert max(len(p.specs) for p in told) > 2  # both workers are at a group


def test_a_gpu_is_shared_out_by_groups_and_its_memory_evenly():
    job = _Job({}, None, torch.device("cuda"), False, 1.0, None, True, False, None)
    runs = [spec(model=m, seed=i) for i in range(3) for m in ("gcn", "mlp")]
    assert job._shares(runs) == [runs[::2], runs[1::2]]
    told, *_ = pickle.loads(workers.WorkerPool(job, [], 4)._told)
    assert told.memory == 0.25
    job.device = torch.device("cpu")
    assert job._shares(runs) == [[run] for run in runs]
    job.most_runs = 2
    assert [len(share) for share in job._shares(runs)] == [2, 1, 2, 1]


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
    counts, start = [], workers.WorkerPool.start

    def noted(self, count):
        counts.append(count)
        start(self, count)

    monkeypatch.setattr(workers.WorkerPool, "start", noted)
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
    ],
)
def test_bad_numbers_of_workers_are_one_line(tmp_path, options, message):
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
