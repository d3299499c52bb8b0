"""The folder of a training: what is kept reads back, and what is damaged is named."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from pdgnn import InputError
from pdgnn.training import RunResult, RunSpec
from pdgnn.training.checkpoint import RunFolder
from pdgnn.training.state import RunState
from runs import spec

RUNS = [spec(seed=i) for i in range(3)]


def results(*specs: RunSpec, **options) -> list[RunResult]:
    made = {"val": 0.5, "test": 0.25, "step": 3, "steps_run": 6, "seconds": 1.5, **options}
    return [RunResult(s, **made) for s in specs]


def state(runs: int = 3, *, step: int = 4, curves: int = 0) -> RunState:
    made = RunState.new(torch.arange(5.0 * runs).reshape(runs, 5), curve_steps=curves)
    made.step += step
    return made


def keys(*specs: RunSpec) -> list[str]:
    return [s.key for s in specs]


def refused(call, file: Path | str, message: str) -> None:
    """The call must fail with one line that names the file and has `message`."""
    with pytest.raises(InputError) as caught:
        call()
    assert str(file) in str(caught.value)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


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
    for line in (tmp_path / "a" / "b" / "results.jsonl").read_text().splitlines():
        json.loads(line, parse_constant=pytest.fail)  # no NaN, which is no JSON


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


def test_a_state_is_dropped_when_all_its_runs_are_finished(tmp_path):
    folder = RunFolder(tmp_path)
    folder.save_state(RUNS[:2], state(2))
    folder.save_state(RUNS[1:], state(2))
    folder.drop_states(keys(*RUNS[:2]))
    assert set(folder.states(keys(*RUNS))) == set(keys(*RUNS[1:]))
    folder.drop_states(keys(*RUNS))
    assert not list(tmp_path.iterdir())


def test_a_folder_is_held_by_one_at_a_time(tmp_path):
    (tmp_path / ".pdgnn-0123.safetensors").write_text("of a process that was killed")
    with RunFolder(tmp_path).held():
        assert [p.name for p in tmp_path.iterdir()] == [".lock"]
        other = RunFolder(tmp_path).held()
        refused(other.__enter__, tmp_path, "another training is using")
    with RunFolder(tmp_path).held():
        pass


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
        RunFolder(tmp_path).check_tasks({"a": "1", "c": "4"})
    assert json.loads((tmp_path / "tasks.json").read_text()) == {"a": "1", "b": "2", "c": "3"}
    (tmp_path / "tasks.json").write_text("{")
    refused(lambda: folder.check_tasks({}), tmp_path / "tasks.json", "is damaged")


GOOD = json.dumps(results(RUNS[0])[0].to_dict())


@pytest.mark.parametrize(
    "content",
    [
        GOOD[:-9].encode(),
        f"{GOOD}\n{GOOD[:40]}".encode(),
        b"[]\n",
        b"3\n",
        b"{}\n",
        b"\n",
        b"\xff\xfe\n",
        GOOD.replace('"val"', '"value"').encode(),
        GOOD.replace('"gcn"', '"no such model"').encode(),
        b"\x00" * 100,
    ],
)
def test_damaged_results_are_one_line(tmp_path, content):
    file = tmp_path / "results.jsonl"
    file.write_bytes(content)
    refused(lambda: RunFolder(tmp_path), file, "; move it away")
    assert file.read_bytes() == content


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
    elif kind == "more":
        tensors["extra"] = torch.zeros(3)
    elif kind == "rows":
        tensors["best"] = tensors["best"][:2].clone()
    elif kind == "scalar":
        tensors["step"] = torch.tensor(3)
    return tensors


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("missing", "other tensors than those of runs"),
        ("more", "other tensors than those of runs"),
        ("rows", "tensors of other than 3 runs"),
        ("scalar", "tensors of other than 3 runs"),
    ],
)
def test_a_state_of_other_tensors_is_one_line(tmp_path, kind, message):
    file = written(tmp_path)
    about = {"version": "1", "specs": json.dumps([s.to_json() for s in RUNS])}
    save_file(other_tensors(kind), file, about)
    refused(lambda: RunFolder(tmp_path).states(keys(*RUNS)), file, message)


@pytest.mark.parametrize(
    ("about", "message"),
    [
        (None, "version None, not 1"),
        ({"version": "0", "specs": "[]"}, "version 0, not 1"),
        ({"version": "1"}, "'specs'"),
        ({"version": "1", "specs": "3"}, "is damaged"),
        ({"version": "1", "specs": "[3]"}, "this is not a run: '3'"),
        ({"version": "1", "specs": '["{}"]'}, "a run needs dataset and model"),
    ],
)
def test_a_state_of_something_else_is_one_line(tmp_path, about, message):
    file = written(tmp_path)
    save_file(state().tensors(), file, about)
    refused(lambda: RunFolder(tmp_path).states(keys(*RUNS)), file, message)


def test_damaged_curves_are_one_line(tmp_path):
    folder = RunFolder(tmp_path)
    folder.add_results(results(RUNS[0], curves=np.zeros((6, 3), np.float32)))
    file = next(tmp_path.glob("curves-*"))
    for content in (b"", file.read_bytes()[:100], b"PK\x03\x04 and more", b"x" * 300):
        file.write_bytes(content)
        refused(lambda: folder.results(curves=True), file, "; delete it to train this run anew")
    np.save(file, np.zeros((5, 3), np.float32))
    refused(lambda: folder.results(curves=True), file, "float32 of shape [5, 3]")


def test_a_folder_that_cannot_be_is_one_line(tmp_path):
    (tmp_path / "file").write_text("")
    refused(lambda: RunFolder(tmp_path / "file"), tmp_path / "file", "cannot make the folder")
    refused(lambda: RunFolder(tmp_path / "file" / "a"), tmp_path / "file" / "a", "cannot make")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_write_that_fails_leaves_what_was_there(tmp_path, monkeypatch):
    folder = RunFolder(tmp_path)
    folder.save_state(RUNS, state(step=4))
    before = {p.name: p.read_bytes() for p in tmp_path.iterdir()}

    def fail(*_):
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(InputError, match="No space left"):
        folder.save_state(RUNS, state(step=5))
    with pytest.raises(InputError, match="No space left"):
        folder.add_results(results(RUNS[0]))
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == before
