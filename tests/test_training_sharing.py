"""Trainings into one store: killed at any moment, side by side, and on a disk that is full."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from pdgnn import InputError
from pdgnn.cli import app
from pdgnn.training import Progress, RunResult, ledger, loop, statements, train
from pdgnn.training import store as store_module
from pdgnn.training.engines import Job
from pdgnn.training.store import read_runs
from runs import TASKS, board, go, spec

HERE = Path(__file__).parent
LIMIT = 300


def test_trainings_that_are_killed_come_to_the_same_results_and_do_no_run_twice(tmp_path):
    """Trainings and reproductions, alone, two on one store, and one that waits for another.

    See killing.py.
    """
    ended = subprocess.run(
        [sys.executable, str(HERE / "killing.py"), str(tmp_path)],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(map(str, sys.path))},
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT,
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.splitlines() == [
        *("training one", "training two", "training taken_over"),
        *("reproduction one", "reproduction two"),
    ]


@pytest.fixture
def small_disk(tmp_path) -> Iterator[Path]:
    """A folder on a disk of half a megabyte, where such a thing can be made."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", str(folder)]
    if (
        shutil.which("mount") is None
        or subprocess.run(mount, check=False, capture_output=True).returncode
    ):
        pytest.skip("a small disk cannot be mounted here")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


MANY = [spec(seed=i, split=i % 10, steps=2) for i in range(12)]


def test_a_disk_that_is_full_loses_nothing_and_is_one_line(small_disk, monkeypatch):
    monkeypatch.setattr(loop, "LOOK_SECONDS", 0.0)
    store, ballast = small_disk / "runs.sqlite", small_disk / "ballast"
    whole, done = go(MANY), []

    def fill(p: Progress) -> None:
        """When some runs are finished, let nothing fit any more."""
        if p.runs_done == 5 and not ballast.exists():
            with suppress(OSError), ballast.open("wb", buffering=0) as file:
                while file.write(b"x" * 512):
                    pass
        done.append(p.runs_done)

    with pytest.raises(InputError) as caught:
        go(MANY, store=store, save_seconds=0.0, progress=fill)
    said = str(caught.value)
    assert str(small_disk) in said
    assert "full" in said or "No space left" in said
    assert "\n" not in said
    kept = [run.result for run in read_runs(store)[0]]
    assert kept == whole[: len(kept)]
    assert len(kept) >= 5
    again = CliRunner().invoke(
        app,
        [
            "train",
            "minesweeper-generated:size=6",
            "--model",
            "gcn",
            "--steps",
            "2",
            "--width",
            "8",
            "--folder",
            str(small_disk / "runs"),
        ],
    )
    assert again.exit_code == 2
    assert again.stderr.startswith("error: ")
    assert again.stderr.count("\n") == 1
    ballast.unlink()
    assert go(MANY, store=store) == whole
    assert len(read_runs(store)[0]) == len(MANY)


def test_a_write_that_fails_ends_a_training_in_one_line_and_it_goes_on(tmp_path, monkeypatch):
    """The same by a limit within SQLite, wherever there is no small disk."""
    store, insert, calls = tmp_path / "runs.sqlite", statements.insert, []

    def full(db, run) -> None:
        calls.append(run)
        if len(calls) == 6:
            pages = db.execute("PRAGMA page_count").fetchone()[0]
            db.execute(f"PRAGMA max_page_count = {pages}")
            db.execute("CREATE TABLE more AS SELECT randomblob(100000)")
        insert(db, run)

    with monkeypatch.context() as patched:
        patched.setattr(store_module, "insert", full)
        with pytest.raises(InputError, match="the disk is full; free some space and go on"):
            go(MANY, store=store)
    assert len(read_runs(store)[0]) == 5
    assert go(MANY, store=store) == go(MANY)


def test_two_trainings_in_one_process_share_the_work(tmp_path, monkeypatch):
    monkeypatch.setattr(ledger, "WAIT_SECONDS", 0.01)
    whole, found, told = go(MANY), {}, []
    began = threading.Event()

    def first(p: Progress) -> None:
        began.set()
        told.append(p.runs_done)

    def work(number: int, **options) -> None:
        found[number] = go(MANY, store=tmp_path / "a.sqlite", **options)

    other = threading.Thread(target=work, args=(1,), kwargs={"progress": first})
    other.start()
    began.wait(60)
    work(2)
    other.join()
    assert found[1] == found[2] == whole
    runs, about = read_runs(tmp_path / "a.sqlite")
    assert len(runs) == len(MANY)
    assert {run.provenance for run in runs} <= set(about)
    assert [p.name for p in tmp_path.iterdir()] == ["a.sqlite"]


def test_runs_know_what_made_them(tmp_path):
    go(MANY[:1], store=tmp_path / "a.sqlite")
    go(MANY[:2], store=tmp_path / "a.sqlite", provenance={"command": "mine"})
    go(MANY[:2], store=tmp_path / "a.sqlite", provenance={"command": "nothing was left"})
    runs, about = read_runs(tmp_path / "a.sqlite")
    assert [run.provenance for run in runs] == [1, 2]
    assert set(about) == {1, 2}
    assert set(about[1]) == {"command", "date", "device", "machine", "python", "versions"}
    assert about[1]["device"] == "cpu"
    assert about[2] == {"command": "mine"}


def test_other_data_of_the_same_name_are_other_runs(tmp_path):
    store = tmp_path / "a.sqlite"
    one = go(MANY[:2], store=store, keep=("logits",))
    other = train(MANY[:2], tasks={"board": board(2)}, store=store, keep=("logits",))
    assert len(read_runs(store)[0]) == 4
    for kept, tasks in ((one, TASKS), (other, {"board": board(2)})):
        again = train(MANY[:2], tasks=tasks, store=store, keep=("logits",))
        assert again == kept
        assert all(torch.equal(a.logits, b.logits) for a, b in zip(again, kept, strict=True))


def test_more_asked_for_later_is_trained_for(tmp_path):
    store = tmp_path / "a.sqlite"
    plain = go(MANY[:2], store=store)
    curved = go(MANY[:3], store=store, curves=True)
    assert curved[:2] == plain
    assert all(r.curves is not None for r in curved)
    assert len(read_runs(store)[0]) == 3


def test_a_folder_and_a_store_are_too_much(tmp_path):
    with pytest.raises(InputError, match="in a folder or in a store; give one of them"):
        go(MANY[:1], store=tmp_path / "a", folder=tmp_path / "b")
    (tmp_path / "letter").write_text("not a store, and long enough to be looked at " * 9)
    with pytest.raises(InputError, match="letter is not a results store"):
        go(MANY[:1], store=tmp_path / "letter")
    assert [p.name for p in tmp_path.iterdir()] == ["letter"]


class Tracker:
    """Notes runs, and fails at the third."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def run(self, result: RunResult) -> None:
        self.seen.append(result.spec.key)
        if len(self.seen) == 3:
            raise OSError("no connection")


def test_a_tracker_is_told_of_each_run_and_its_failure_is_a_warning(tmp_path):
    tracker = Tracker()
    with pytest.warns(UserWarning, match="tracker has failed and is told no more: OSError: no"):
        found = go(MANY, store=tmp_path / "a.sqlite", tracker=tracker)
    assert found == go(MANY)
    assert tracker.seen == [run.key for run in MANY[:3]]


class Lazy:
    """An engine that takes runs and does not train them."""

    def train(self, job: Job) -> None:
        job.ledger.take(job.shares[0])


def test_an_engine_that_does_not_finish_what_it_took_is_an_error(tmp_path):
    with pytest.raises(RuntimeError, match="the engine has not finished 1 runs that it took"):
        go(MANY, store=tmp_path / "a.sqlite", engine=Lazy())
