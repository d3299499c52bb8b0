"""Runs dealt out to processes: the same numbers, and nothing lost, whoever is killed."""

from __future__ import annotations

import json
import multiprocessing
import os
import pickle
import signal
import socket
import subprocess
import sys
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn import functional as F  # noqa: N812
from typer.testing import CliRunner

from pdgnn import InputError
from pdgnn.cli import app
from pdgnn.models import MODELS
from pdgnn.ops import use_backend
from pdgnn.training import Progress, Task, loop, train
from pdgnn.training.checkpoint import RunFolder
from pdgnn.training.engines import Job, processes
from pdgnn.training.inputs import InputCache
from pdgnn.training.ledger import Ledger
from pdgnn.training.share import Settings
from pdgnn.training.spec import resolved
from pdgnn.training.state import RunState
from pdgnn.training.trainer import _shares
from runs import StopError, board, go, spec, stop_at

NAMES = ("gcn", "pd-gat", "gcn", "pd-gcn")
RUNS = [spec(split=i, seed=i, model=m, gamma=0.5) for i, m in enumerate(NAMES)]
LIMIT = 600
"""Seconds after which a process that should end is taken for one that never does."""
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


def test_workers_take_groups_and_go_on_with_what_others_began(tmp_path, monkeypatch):
    monkeypatch.setattr(loop, "LOOK_SECONDS", 0.0)  # here, after every step
    runs = [spec(split=i, seed=i, model=m) for m in ("gcn", "mlp") for i in range(3)]
    options = {"curves": True, "most_runs": 2}
    alone = go(runs, **options)
    with pytest.raises(StopError):
        go(runs, **options, folder=tmp_path, save_seconds=0.0, progress=stop_at(3))
    begun = RunFolder(tmp_path).states([run.key for run in runs], curves=True)
    assert {key: int(row["step"]) for key, row in begun.items()} == {r.key: 2 for r in runs[:2]}

    told: dict[tuple[str, ...], list[tuple[int, int]]] = {}
    tell = processes.WorkerPool._tell

    def noted(self, worker, p):
        told.setdefault(tuple(s.key for s in p.specs), []).append((worker.process.pid, p.step))
        tell(self, worker, p)

    monkeypatch.setattr(processes.WorkerPool, "_tell", noted)
    found = go(runs, **options, workers=2, folder=tmp_path)
    assert found == alone
    for a, b in zip(found, alone, strict=True):
        assert np.array_equal(a.curves, b.curves)
    shares = [runs[:2], runs[2:3], runs[3:5], runs[5:]]
    assert set(told) == {tuple(run.key for run in share) for share in shares}
    for keys, looks in told.items():
        assert len({worker for worker, _ in looks}) == 1  # the group is one worker's
        steps = [step for _, step in looks]
        assert steps == sorted(steps)
        assert (steps[0], steps[-1]) == (2 if keys[0] in begun else 0, 6)
    assert not list(tmp_path.glob("under-way-*"))


def test_a_gpu_is_shared_out_by_groups_and_its_memory_evenly():
    inputs, gpu = InputCache({"board": board()}, {}), Settings(torch.device("cuda"))
    runs = [spec(model=m, seed=i) for i in range(3) for m in ("gcn", "mlp")]
    shares = _shares(runs, inputs, gpu)
    assert shares == [runs[::2], runs[1::2]]
    job = Job(shares, inputs, gpu, Ledger({run.key: run for run in runs}), {})
    told = pickle.loads(processes.packed(job))
    assert told.at(torch.device("cuda"), 0.25).settings == replace(gpu, memory=0.25)
    assert (told.inputs.tasks.keys(), told.keeps, told.backends) == ({"board"}, False, [])
    cpu = Settings(torch.device("cpu"))
    assert _shares(runs, inputs, cpu) == [[run] for run in (*runs[::2], *runs[1::2])]
    assert [len(share) for share in _shares(runs, inputs, replace(cpu, most_runs=2))] == [
        2,
        1,
        2,
        1,
    ]


class Signals:
    """Those that this process gets from here on."""

    def __init__(self) -> None:
        self.ours, self.theirs = socket.socketpair()
        self.theirs.setblocking(False)
        signal.set_wakeup_fd(self.theirs.fileno())

    def wait(self) -> None:
        """Until there was one."""
        self.ours.recv(1)


HAD: list[Signals] = []


def waiting_loss(outputs, target, train, step):
    """Where the test says so, step 5 goes on only after a signal, in it or since the first step."""
    if "PDGNN_TEST_WAITS" in os.environ and int(step) == 1:
        HAD.append(Signals())
    if "PDGNN_TEST_WAITS" in os.environ and int(step) == 5:
        HAD[-1].wait()
    return F.binary_cross_entropy_with_logits(outputs[:, 0], target.float(), train.float())


def test_a_worker_that_is_killed_is_told_and_the_others_save(tmp_path, monkeypatch):
    model = replace(MODELS["gcn"], loss=waiting_loss)
    runs = [spec(split=i, seed=i, model="waiting", steps=12) for i in range(3)]
    runs, models = [resolved(run, model) for run in runs], {"waiting": model}
    whole, killed = go(runs, models=models), []

    def kill_one(p: Progress) -> None:
        """When both are under way, neither of which can end."""
        if len(p.specs) == 2 and p.step > 1 and not killed:
            killed.append(multiprocessing.active_children()[0].pid)
            os.kill(killed[0], signal.SIGKILL)

    said = "a worker process was killed by signal 9 while it trained waiting on board; if there was"
    options = {"models": models, "workers": 2, "folder": tmp_path, "save_seconds": 0.0}
    with monkeypatch.context() as patched:
        patched.setenv("PDGNN_TEST_WAITS", "1")
        with pytest.raises(InputError, match=said):
            go(runs, **options, progress=kill_one)
    assert not multiprocessing.active_children()
    states = RunFolder(tmp_path).states([s.key for s in runs])
    assert set(states) == {s.key for s in runs[:2]}
    steps = [int(row["step"]) for row in states.values()]
    assert 0 < max(steps) <= 5

    assert go(runs, models=models, folder=tmp_path) == whole
    assert not list(tmp_path.glob("under-way-*"))


def test_an_error_in_a_worker_is_raised_as_it_is(tmp_path, monkeypatch):
    counts, start = [], processes.WorkerPool.start

    def noted(self, places):
        counts.append(len(places))
        start(self, places)

    monkeypatch.setattr(processes.WorkerPool, "start", noted)
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
    task = BrokenTask(**{f.name: getattr(board(), f.name) for f in fields(Task)})
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


WAITING = """
import math
from pdgnn.cli import progress
from pdgnn.training.group import Group
from test_training_engines_processes import Signals
step = Group.train_step
def waiting(self):
    step(self)
    if self.specs[0].split > 0 and int(self.state.step[0]) == 5:
        signals = Signals()
        print("waiting", flush=True)
        signals.wait()
Group.train_step, progress.LINE_SECONDS = waiting, math.inf  # however long it takes
if __name__ == "__main__":
    from pdgnn.cli import main
    main()
"""


def started(folder) -> subprocess.Popen:
    """The command, in a process group of its own, its first run finished, two others half way."""
    script = folder.with_name("waiting.py")
    script.write_text(WAITING)  # which every worker imports
    running = subprocess.Popen(
        [sys.executable, str(script), *ARGUMENTS, "--workers", "2", "--folder", str(folder)],
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path])},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert [running.stdout.readline() for _ in range(2)] == ["waiting\n"] * 2
    assert [r.spec.split for r in RunFolder(folder).results().values()] == [0]
    return running


def test_ctrl_c_keeps_the_states_and_the_command_goes_on(tmp_path):
    folder = tmp_path / "runs"
    running = started(folder)
    os.killpg(running.pid, signal.SIGINT)
    out, said = running.communicate(timeout=LIMIT)
    assert (running.returncode, out) == (130, "")
    assert said == f"stopped; what is done is in {folder}; run the same command again to go on\n"
    again = [*ARGUMENTS, "--folder", str(folder)]  # one process is enough now
    begun = {f.name for f in folder.glob("under-way-*")}
    assert len(begun) == 2
    steps, step = [], loop.Group.train_step
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(loop.Group, "train_step", lambda self: steps.append(1) or step(self))
        found = CliRunner().invoke(app, again)
    assert len(steps) == 145 + 145 + 150
    assert rows(found.stdout) == rows(CliRunner().invoke(app, ARGUMENTS).stdout)
    assert not list(folder.glob("under-way-*"))


def rows(printed: str) -> list:
    """The scores of every run of the table."""
    found = json.loads(printed)["rows"][0]["runs"]
    assert len(found) == 4
    return [{k: v for k, v in run.items() if k != "seconds"} for run in found]


def test_workers_do_not_outlive_a_killed_parent(tmp_path):
    running = started(tmp_path / "runs")
    running.kill()
    running.communicate(timeout=LIMIT)  # to the end of stderr, which every worker has too
    assert running.returncode == -signal.SIGKILL
    with RunFolder(tmp_path / "runs").held():
        pass


def test_a_script_that_is_not_guarded_ends_and_is_told_why(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "from pdgnn.training import RunSpec, train\n"
        "run = RunSpec(dataset='minesweeper-generated:size=6', model='gcn', width=8, steps=2)\n"
        "train([run], workers=2)\n"
    )
    ended = subprocess.run(
        [sys.executable, script], capture_output=True, text=True, check=False, timeout=LIMIT
    )
    assert ended.returncode == 1
    last = ended.stderr.splitlines()[-1]
    assert "a worker process ended with exit code 1 before it began; a script must call" in last
