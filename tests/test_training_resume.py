"""Training that is stopped at any moment goes on to the same results."""

from __future__ import annotations

import json
import os
import signal
from types import SimpleNamespace
from unittest.mock import patch

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

from pdgnn import InputError
from pdgnn.training import Task, loop, train
from pdgnn.training.checkpoint import RunFolder
from pdgnn.training.group import Group
from runs import RUNS, StopError, go, same, spec, stop_at


@pytest.fixture(autouse=True)
def look_often(monkeypatch):
    """Look at the runs after every step."""
    monkeypatch.setattr(loop, "LOOK_SECONDS", 0.0)


@pytest.mark.parametrize("most", [None, 2])
@pytest.mark.parametrize("curves", [False, True])
def test_a_training_stopped_anywhere_goes_on_to_the_same_results(tmp_path, most, curves):
    whole = go(RUNS, most_runs=most, curves=curves)
    for look in (1, 5, 16):
        folder = tmp_path / str(look)
        options = {"most_runs": most, "curves": curves, "folder": folder}
        with pytest.raises(StopError):
            go(RUNS, **options, progress=stop_at(look))
        assert len(list(folder.glob("under-way-*"))) == 1
        same(go(RUNS, **options), whole)
        assert not list(folder.glob("under-way-*"))
        assert not list(folder.glob(".pdgnn-*"))


def test_a_training_stopped_again_and_again_comes_to_its_end(tmp_path):
    whole, stops = go(RUNS), 0
    while True:
        try:
            found = go(RUNS, folder=tmp_path, progress=stop_at(3))
        except StopError:
            stops += 1
        else:
            break
    assert stops > 4
    same(found, whole)


def test_a_training_goes_on_in_other_groups(tmp_path):
    runs = [spec(split=i, seed=i, precision="float64", steps=8) for i in range(5)]
    whole = go(runs, curves=True)
    for first, then in ((2, 3), (5, 1), (1, 4)):
        folder = tmp_path / f"{first}-{then}"
        with pytest.raises(StopError):
            go(runs, folder=folder, most_runs=first, curves=True, progress=stop_at(6))
        found = go(runs, folder=folder, most_runs=then, curves=True)
        assert found == whole
        for a, b in zip(found, whole, strict=True):
            np.testing.assert_allclose(a.curves, b.curves, rtol=1e-6)
        assert not list(folder.glob("under-way-*"))


def test_killed_in_the_middle_of_a_step_it_goes_on_from_the_last_whole_state(tmp_path, monkeypatch):
    whole, keep, steps = go(RUNS, curves=True), Group._keep, []

    def fail_once(self, *args):
        steps.append(1)
        if len(steps) == 10:
            raise StopError
        keep(self, *args)

    monkeypatch.setattr(Group, "_keep", fail_once)
    with pytest.raises(StopError):
        go(RUNS, folder=tmp_path, save_seconds=0.0, curves=True)
    same(go(RUNS, folder=tmp_path, curves=True), whole)
    total = sum(r.steps_run for r in whole)
    assert len(steps) == total + 1  # all but the broken step are taken once


def test_killed_while_a_file_is_written_it_goes_on(tmp_path, monkeypatch):
    whole = go(RUNS)
    replace_file, calls = type(tmp_path).replace, []

    def fail(self, target):
        calls.append(self)
        if len(calls) == 5:
            raise StopError
        return replace_file(self, target)

    for _ in range(3):
        calls.clear()
        with monkeypatch.context() as patched:
            patched.setattr(type(tmp_path), "replace", fail)
            with pytest.raises(StopError):
                go(RUNS, folder=tmp_path, save_seconds=0.0)
    same(go(RUNS, folder=tmp_path), whole)


def test_finished_runs_are_not_run_again(tmp_path, monkeypatch):
    first = go(RUNS[:2], folder=tmp_path)
    more = go(RUNS, folder=tmp_path)
    assert more[:2] == first
    assert [r.seconds for r in more[:2]] == [r.seconds for r in first]
    monkeypatch.setattr(Group, "__init__", None)  # nothing is left to train
    same(go(RUNS[::-1], folder=tmp_path), more[::-1])


def test_curves_asked_for_later_are_trained_for(tmp_path):
    plain = go(RUNS, folder=tmp_path)
    assert all(r.curves is None for r in plain)
    with pytest.raises(StopError):
        go(RUNS, folder=tmp_path, curves=True, progress=stop_at(4))
    curved = go(RUNS, folder=tmp_path, curves=True)
    assert curved == plain
    same(curved, go(RUNS, curves=True))
    assert all(r.curves.shape == (r.steps_run, 3) for r in curved)
    assert all(r.curves is None for r in go(RUNS, folder=tmp_path))


def test_a_state_kept_without_curves_is_not_gone_on_with_when_they_are_asked_for(tmp_path):
    with pytest.raises(StopError):
        go(RUNS, folder=tmp_path, progress=stop_at(4))
    same(go(RUNS, folder=tmp_path, curves=True), go(RUNS, curves=True))
    with pytest.raises(StopError):
        go(RUNS, folder=tmp_path / "b", curves=True, progress=stop_at(4))
    same(go(RUNS, folder=tmp_path / "b"), go(RUNS))


def test_curves_are_those_of_the_result():
    for r in go([*RUNS, spec(patience=1, steps=9)], curves=True):
        val = r.curves[:, 1]
        assert r.step == int(val.argmax()) + 1
        assert r.val == pytest.approx(float(val.max()), abs=1e-7)
        assert r.test == pytest.approx(float(r.curves[r.step - 1, 2]), abs=1e-7)
        assert np.isfinite(r.curves).all()


def test_a_state_of_another_model_is_an_error_not_a_fresh_start(tmp_path):
    with pytest.raises(StopError):
        go(RUNS[:1], folder=tmp_path, progress=stop_at(3))
    folder = RunFolder(tmp_path)
    row = folder.states([RUNS[0].key])[RUNS[0].key]
    for name in ("parameters", "buffers.seed"):
        bad = {n: t[None] for n, t in row.items()}
        bad[name] = torch.cat([bad[name].view(1, -1), bad[name].view(1, -1)], dim=1)
        folder.save_state(RUNS[:1], SimpleNamespace(tensors=bad.copy))
        with pytest.raises(InputError, match="not one of this model and graph; start it anew"):
            go(RUNS[:1], folder=tmp_path)


def test_a_state_of_version_1_is_gone_on_with(tmp_path):
    whole = go(RUNS[2:3], curves=True)
    with pytest.raises(StopError):
        go(RUNS[2:3], curves=True, folder=tmp_path, progress=stop_at(4))
    file = next(tmp_path.glob("under-way-*"))
    with safe_open(file, framework="pt") as stored:
        (text,) = json.loads(stored.metadata()["specs"])
        new = ("best_logits", "best_parameters", "buffers.")
        tensors = {n: stored.get_tensor(n) for n in stored.keys() if not n.startswith(new)}  # noqa: SIM118
    run = json.loads(text)
    assert run.pop("options") == {}
    assert run.pop("defaults") == []
    run["scope"] = run.pop("reach")
    file.unlink()
    about = {"version": "1", "specs": json.dumps([json.dumps(run)])}
    save_file(tensors, tmp_path / "under-way-of-old.safetensors", about)
    steps, step = [], Group.train_step
    with patch.object(Group, "train_step", lambda self: steps.append(1) or step(self)):
        same(go(RUNS[2:3], curves=True, folder=tmp_path), whole)
    assert len(steps) == RUNS[2].steps - 3
    assert not list(tmp_path.glob("under-way-*"))


@pytest.mark.parametrize("keep", [("logits",), ("weights",), ("logits", "weights")])
def test_what_is_kept_of_the_best_step_does_not_depend_on_a_stop(tmp_path, keep):
    whole = go(RUNS, keep=keep)
    for look in (1, 5, 16):
        folder = tmp_path / str(look)
        with pytest.raises(StopError):
            go(RUNS, keep=keep, folder=folder, progress=stop_at(look))
        for found in (go(RUNS, keep=keep, folder=folder), go(RUNS, keep=keep, folder=folder)):
            assert found == whole
            for a, b in zip(found, whole, strict=True):
                for name in ("logits", "weights"):
                    one, other = getattr(a, name), getattr(b, name)
                    assert (one is None) == (other is None) == (name not in keep)
                if "logits" in keep:
                    assert torch.equal(a.logits, b.logits)
                if "weights" in keep:
                    assert a.weights.keys() == b.weights.keys()
                    assert all(torch.equal(t, b.weights[n]) for n, t in a.weights.items())


def test_a_folder_of_other_data_is_an_error(tmp_path):
    go(RUNS[:1], folder=tmp_path)
    other = Task.open("minesweeper-generated:size=6,seed=2")
    with pytest.raises(InputError, match="holds runs of a board with other edges"):
        train(RUNS[:1], tasks={"board": other}, folder=tmp_path)


def test_a_damaged_folder_is_an_error_before_anything_is_trained(tmp_path, monkeypatch):
    (tmp_path / "results.jsonl").write_text("{")
    monkeypatch.setattr(Group, "__init__", None)
    with pytest.raises(InputError, match=r"results.jsonl, line 1, is damaged"):
        go(RUNS, folder=tmp_path)
    (tmp_path / "results.jsonl").unlink()
    (tmp_path / "under-way-0.safetensors").write_text("what is this")
    with pytest.raises(InputError, match=r"under-way-0.safetensors is damaged"):
        go(RUNS, folder=tmp_path)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_waits_for_the_end_of_a_step_and_the_state_is_kept(tmp_path, monkeypatch, number):
    def end(*_):
        raise SystemExit(143)

    before = signal.signal(signal.SIGTERM, end)
    whole, loss, calls = go(RUNS, curves=True), Group._loss, []

    def interrupted(self):
        calls.append(1)
        if len(calls) == 9:
            os.kill(os.getpid(), number)  # in the middle of a step
        return loss(self)

    try:
        with monkeypatch.context() as patched:
            patched.setattr(Group, "_loss", interrupted)
            with pytest.raises(KeyboardInterrupt if number == signal.SIGINT else SystemExit):
                go(RUNS, folder=tmp_path, curves=True)
        assert len(calls) == 9
        assert signal.getsignal(signal.SIGTERM) is end
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
        states = RunFolder(tmp_path).states([s.key for s in RUNS], curves=True)
        assert [int(row["step"]) for row in states.values()] == [3]  # 6 of the first run and 3
        same(go(RUNS, folder=tmp_path, curves=True), whole)
    finally:
        signal.signal(signal.SIGTERM, before)


def test_a_second_signal_does_not_wait_and_keeps_no_half_step(tmp_path, monkeypatch):
    whole, loss = go(RUNS[:1]), Group._loss

    def interrupted(self):
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)
        return loss(self)

    with monkeypatch.context() as patched:
        patched.setattr(Group, "_loss", interrupted)
        with pytest.raises(KeyboardInterrupt):
            go(RUNS[:1], folder=tmp_path)
    assert RunFolder(tmp_path).states([RUNS[0].key]) == {}
    same(go(RUNS[:1], folder=tmp_path), whole)
