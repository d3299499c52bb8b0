"""The folder of a training: what is kept reads back, and what is damaged is named."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from keeping import RUNS, keys, refused, results, state
from pdgnn import InputError
from pdgnn.training.checkpoint import RunFolder
from pdgnn.training.state import RunState
from runs import spec


def test_results_and_curves_read_back(tmp_path):
    curves = np.arange(18, dtype=np.float32).reshape(6, 3)
    folder = RunFolder(tmp_path / "a" / "b")
    folder.add_results(results(RUNS[0]))
    folder.add_results(results(RUNS[1], curves=curves, diverged_at=6, val=float("nan")))
    again = RunFolder(tmp_path / "a" / "b")
    assert list(again.results()) == keys(*RUNS[:2])
    assert again.results()[RUNS[0].key] == results(RUNS[0])[0]
    assert again.results()[RUNS[1].key].curves is None
    kept = again.results(curves=True)
    assert list(kept) == keys(RUNS[1])
    assert np.array_equal(kept[RUNS[1].key].curves, curves)
    assert folder.results(curves=True).keys() == kept.keys()
    assert list(again.results(RUNS[1:])) == keys(RUNS[1])


def test_logits_and_weights_read_back(tmp_path):
    folder, logits = RunFolder(tmp_path), torch.arange(6.0).view(3, 2)
    weights = {"lin.weight": torch.ones(2, 2), "rate": torch.tensor(0.5)}
    folder.add_results(results(RUNS[0], logits=logits))
    folder.add_results(results(RUNS[1], logits=logits, weights=weights))
    folder.add_results(results(RUNS[2], step=0, val=float("nan"), test=float("nan")))
    again = RunFolder(tmp_path)
    assert all(r.logits is None and r.weights is None for r in again.results().values())
    assert list(again.results(keep=("logits",))) == keys(*RUNS)  # the last has no best step
    both = again.results(keep=("logits", "weights"))
    assert list(both) == keys(RUNS[1], RUNS[2])
    assert torch.equal(both[RUNS[1].key].logits, logits)
    assert both[RUNS[1].key].weights.keys() == weights.keys()
    assert all(torch.equal(both[RUNS[1].key].weights[n], t) for n, t in weights.items())
    again.add_results(results(RUNS[0], weights=weights))  # beside the logits
    assert set(again.results(keep=("logits", "weights"))) == set(keys(*RUNS))
    file = tmp_path / f"best-{RUNS[1].key}.safetensors"
    file.write_bytes(file.read_bytes()[:50])
    refused(lambda: again.results(keep=("logits",)), file, "; delete it to train this run anew")


def test_states_read_back_run_by_run_and_the_furthest_wins(tmp_path):
    folder = RunFolder(tmp_path)
    folder.save_state(RUNS, state(step=4))
    folder.save_state(RUNS[:2], state(2, step=9))
    folder.save_state(RUNS[2:], state(1, step=2))
    found = folder.states(keys(*RUNS, spec(seed=77)))
    assert [int(found[key]["step"]) for key in keys(*RUNS)] == [9, 9, 4]
    assert found[RUNS[2].key]["parameters"].tolist() == [10.0, 11.0, 12.0, 13.0, 14.0]
    assert list(folder.states(keys(RUNS[1]))) == keys(RUNS[1])
    folder.save_state(RUNS, state(step=5))  # over the first of them
    assert len(list(tmp_path.glob("under-way-*"))) == 3


def test_states_without_curves_do_not_do_where_curves_are_asked_for(tmp_path):
    folder = RunFolder(tmp_path)
    folder.save_state(RUNS[:1], state(1))
    folder.save_state(RUNS[1:], state(2, curves=6))
    assert set(folder.states(keys(*RUNS), curves=True)) == set(keys(*RUNS[1:]))
    assert set(folder.states(keys(*RUNS))) == set(keys(*RUNS))


def test_states_without_what_is_to_be_kept_do_not_do(tmp_path):
    folder = RunFolder(tmp_path)
    kept = RunState.new(torch.zeros(1, 5), {"rate": torch.zeros(1)}, logits=(4, 2), weights=True)
    folder.save_state(RUNS[:1], kept)
    folder.save_state(RUNS[1:], state(2))
    for keep in (("logits",), ("weights",), ("logits", "weights")):
        assert list(folder.states(keys(*RUNS), keep=keep)) == keys(RUNS[0])
    assert len(folder.states(keys(*RUNS))) == 3


def test_a_state_is_dropped_when_all_its_runs_are_finished(tmp_path):
    folder = RunFolder(tmp_path)
    folder.save_state(RUNS[:2], state(2))
    folder.save_state(RUNS[1:], state(2))
    folder.drop_states(keys(*RUNS[:2]))
    assert set(folder.states(keys(*RUNS))) == set(keys(*RUNS[1:]))
    folder.drop_states(keys(*RUNS))
    folder.close()
    assert [p.name for p in tmp_path.iterdir()] == ["runs.sqlite"]


def test_what_a_killed_process_has_left_is_removed_unless_another_is_at_work(tmp_path):
    partial, lock = tmp_path / ".pdgnn-0123.safetensors", tmp_path / "owner-00.lock"
    (tmp_path / ".tmpXle1p6").write_text("as safetensors calls it")
    one, other = RunFolder(tmp_path), RunFolder(tmp_path)
    with one.held():
        partial.write_text("of one that is writing it")
        lock.write_text("")
        with other.held():
            assert partial.exists()
            assert not lock.exists()
            assert len(list(tmp_path.glob("owner-*.lock"))) == 2
    with one.held():
        assert not partial.exists()
    one.close()
    other.close()
    assert [p.name for p in tmp_path.iterdir()] == ["runs.sqlite"]


def test_two_share_the_runs_and_claims_end_with_their_owner(tmp_path):
    one, other = RunFolder(tmp_path), RunFolder(tmp_path)
    with pytest.raises(RuntimeError, match="within held"):
        one.claim(RUNS)
    with one.held(), other.held():
        assert one.claim(RUNS[:2]) == set(keys(*RUNS[:2]))
        assert one.claim(RUNS[:2]) == set(keys(*RUNS[:2]))  # its own
        assert other.claim(RUNS) == set(keys(RUNS[2]))
        assert other.claimed_by_others(RUNS) == set(keys(*RUNS[:2]))
        one.add_results(results(RUNS[0]))
        assert other.claim(RUNS) == set(keys(RUNS[2]))
        assert other.claim(RUNS, again=True) == set(keys(RUNS[0], RUNS[2]))
        one.release(RUNS[1:2])
        assert other.claim(RUNS[1:]) == set(keys(*RUNS[1:]))
    with one.held():
        assert one.claim(RUNS) == set(keys(*RUNS[1:]))


def test_claims_of_a_process_that_is_gone_are_free(tmp_path):
    folder = RunFolder(tmp_path)
    gone = [(*folder._key(run), "gone") for run in RUNS]
    with folder.held():
        with folder.store.transaction() as db:
            db.executemany("INSERT INTO claims VALUES (?, ?, ?)", gone)
        assert folder.claimed_by_others(RUNS) == set()
        assert folder.claim(RUNS[:1]) == set(keys(RUNS[0]))
        assert len(folder.store.claims([folder._key(run) for run in RUNS])) == 3
    assert folder.store.claims([folder._key(run) for run in RUNS]) == {}


def test_a_lock_that_is_a_symbolic_link_is_no_lock(tmp_path):
    other, folder = tmp_path / "precious.txt", RunFolder(tmp_path / "runs")
    other.write_text("as it was")
    for target in (other, tmp_path / "not there"):
        (tmp_path / "runs" / "owner-00.lock").symlink_to(target)
        with folder.held():
            assert len(list((tmp_path / "runs").glob("owner-*.lock"))) == 1
    assert other.read_text() == "as it was"
    assert {p.name for p in tmp_path.iterdir()} == {"precious.txt", "runs"}


def test_what_another_has_added_meanwhile_is_kept(tmp_path):
    one, other = RunFolder(tmp_path), RunFolder(tmp_path)
    with one.held():
        one.add_results(results(RUNS[0]))
    with other.held():
        other.add_results(results(RUNS[1]))
    assert list(RunFolder(tmp_path).results()) == keys(*RUNS[:2])


def test_a_dataset_that_has_changed_is_an_error(tmp_path):
    folder = RunFolder(tmp_path)
    folder.check_tasks({"a": "1", "b": "2"})
    folder.check_tasks({"b": "2", "c": "3"})
    with pytest.raises(InputError, match="holds runs of a c with other edges, features, labels"):
        RunFolder(tmp_path).check_tasks({"a": "1", "d": "5", "c": "4"})
    known = folder.store.question("SELECT dataset, data FROM tasks")
    assert dict(map(tuple, known)) == {"a": "1", "b": "2", "c": "3"}


def test_a_dataset_that_has_changed_is_other_data_to_a_store(tmp_path):
    one, other = (RunFolder.beside(tmp_path / "a.sqlite") for _ in range(2))
    one.check_tasks({"board": "1"})
    other.check_tasks({"board": "2"})
    logits = torch.arange(6.0).view(3, 2)
    one.add_results(results(RUNS[0], logits=logits))
    one.save_state(RUNS[1:], state(2))
    assert other.results(RUNS) == {}
    assert other.states(keys(*RUNS)) == {}
    other.drop_states(keys(*RUNS))
    other.add_results(results(RUNS[0], test=0.75, logits=logits + 1))
    other.save_state(RUNS[1:], state(2, step=9))
    assert one.results(RUNS, keep=("logits",))[RUNS[0].key].logits.tolist() == logits.tolist()
    assert one.results(RUNS)[RUNS[0].key].test == 0.25
    assert [int(row["step"]) for row in one.states(keys(*RUNS)).values()] == [4, 4]
    assert [int(row["step"]) for row in other.states(keys(*RUNS)).values()] == [9, 9]
    with one.held(), other.held():
        assert one.claim(RUNS) == other.claim(RUNS) == set(keys(*RUNS[1:]))


def written(folder: Path) -> Path:
    RunFolder(folder).save_state(RUNS, state())
    return next(folder.glob("under-way-*"))


def test_a_state_cut_short_anywhere_is_one_line(tmp_path):
    file = written(tmp_path)
    whole = file.read_bytes()
    for size in (0, 4, 8, 100, len(whole) // 2, len(whole) - 1):
        file.write_bytes(whole[:size])
        for call in (RunFolder(tmp_path).states, RunFolder(tmp_path).drop_states):
            refused(lambda call=call: call(keys(*RUNS)), file, "; delete it to start its runs anew")
    file.write_bytes(whole)
    assert len(RunFolder(tmp_path).states(keys(*RUNS))) == 3


def other_tensors(kind: str) -> dict[str, torch.Tensor]:
    tensors = state().tensors()
    if kind == "missing":
        del tensors["mean"]
    elif kind == "rows":
        tensors["best"] = tensors["best"][:2].clone()
    elif kind == "scalar":
        tensors["step"] = torch.tensor(3)
    return tensors


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("missing", "other tensors than those of runs"),
        ("rows", "tensors of other than 3 runs"),
        ("scalar", "tensors of other than 3 runs"),
    ],
)
def test_a_state_of_other_tensors_is_one_line(tmp_path, kind, message):
    file = written(tmp_path)
    save_file(other_tensors(kind), file, ABOUT)
    refused(lambda: RunFolder(tmp_path).states(keys(*RUNS)), file, message)


ABOUT = {"version": "2", "specs": json.dumps([s.to_json() for s in RUNS])}


def test_a_state_with_a_tensor_more_is_not_gone_on_with(tmp_path):
    save_file(state().tensors() | {"extra": torch.zeros(3)}, written(tmp_path), ABOUT)
    rows = RunFolder(tmp_path).states(keys(*RUNS))
    with pytest.raises(InputError, match="not one of this model and graph; start it anew"):
        state().going_on([rows[key] for key in keys(*RUNS)])


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("step", -1, "step -1, best step 0, diverged at 0"),
        ("step", 21, "step 21, best step 0, diverged at 0"),
        ("best_step", -3, "step 4, best step -3, diverged at 0"),
        ("best_step", 5, "step 4, best step 5, diverged at 0"),
        ("diverged_at", -1, "step 4, best step 0, diverged at -1"),
        ("diverged_at", 5, "step 4, best step 0, diverged at 5"),
        ("best", 99.0, "a score outside [0, 1]"),
        ("score", -0.5, "a score outside [0, 1]"),
        ("score", float("inf"), "a score outside [0, 1]"),
        ("seconds", -1.0, "-1.0 seconds"),
        ("seconds", float("nan"), "nan seconds"),
    ],
)
def test_a_state_that_no_run_can_come_to_is_one_line(tmp_path, name, value, message):
    file, tensors = written(tmp_path), state().tensors()
    tensors[name][1] = value
    save_file(tensors, file, ABOUT)
    refused(lambda: RunFolder(tmp_path).states(keys(*RUNS)), file, message)


@pytest.mark.parametrize(
    ("about", "message"),
    [
        (None, "version None, not 2"),
        ({"version": "0", "specs": "[]"}, "version 0, not 2"),
        ({"version": "3", "specs": "[]"}, "version 3, not 2"),
        ({"version": "two", "specs": "[]"}, "is damaged or of another version"),
        ({"version": "2"}, "'specs'"),
        ({"version": "2", "specs": "3"}, "is damaged"),
        ({"version": "2", "specs": "[3]"}, "this is not a run: '3'"),
        ({"version": "2", "specs": '["{}"]'}, "a run needs dataset and model"),
        ({"version": "2", "specs": "[" * 100_000}, "maximum recursion depth"),
    ],
)
def test_a_state_of_something_else_is_one_line(tmp_path, about, message):
    file = written(tmp_path)
    save_file(state().tensors(), file, about)
    refused(lambda: RunFolder(tmp_path).states(keys(*RUNS)), file, message)


def test_a_folder_that_cannot_be_is_one_line(tmp_path):
    (tmp_path / "file").write_text("")
    refused(lambda: RunFolder(tmp_path / "file"), tmp_path / "file", "cannot make the folder")
    refused(lambda: RunFolder(tmp_path / "file" / "a"), tmp_path / "file" / "a", "cannot make")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_write_that_fails_leaves_what_was_there(tmp_path, monkeypatch):
    folder = RunFolder(tmp_path)
    folder.save_state(RUNS, state(step=4))
    before = {p.name: p.read_bytes() for p in tmp_path.glob("*.safetensors")}

    def fail(*_):
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(InputError, match="No space left"):
        folder.save_state(RUNS, state(step=5))
    with pytest.raises(InputError, match="No space left"):
        folder.add_results(results(RUNS[0], logits=torch.zeros(3, 2)))
    assert {p.name: p.read_bytes() for p in tmp_path.glob("*.safetensors")} == before
    assert folder.results() == {}
