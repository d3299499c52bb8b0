"""The folder of a training: what is kept reads back, and what is damaged is named."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from pdgnn import InputError
from pdgnn.training import RunResult, RunSpec, store
from pdgnn.training.checkpoint import RunFolder
from pdgnn.training.state import RunState
from pdgnn.training.store import Store
from runs import spec

RUNS = [spec(seed=i, steps=20) for i in range(3)]


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


# --- what earlier versions wrote ------------------------------------------------------------------


def old_folder(path: Path, *found: RunResult, tasks: dict | None = None) -> dict[str, bytes]:
    """A folder as versions before the store wrote it; its files."""
    path.mkdir(exist_ok=True)
    lines = [json.dumps(r.to_dict()) for r in found]
    (path / "results.jsonl").write_text("".join(f"{line}\n" for line in lines))
    for r in found:
        if r.curves is not None:
            np.save(path / f"curves-{r.spec.key}.npy", r.curves)
    if tasks is not None:
        (path / "tasks.json").write_text(json.dumps(tasks))
    return {p.name: p.read_bytes() for p in path.iterdir()}


CURVES = np.arange(18, dtype=np.float32).reshape(6, 3)


def test_runs_of_an_earlier_version_are_taken_over_and_its_files_stay(tmp_path):
    found = results(RUNS[0], curves=CURVES) + results(RUNS[1])
    before = old_folder(tmp_path, *found, tasks={"board": "1f"})
    for _ in range(2):
        with RunFolder(tmp_path) as folder:
            assert list(folder.results().values()) == found
            assert np.array_equal(folder.results(curves=True)[RUNS[0].key].curves, CURVES)
            assert {run.data for run in folder.store.runs()} == {"1f"}
            with pytest.raises(InputError, match="holds runs of a board with other edges"):
                folder.check_tasks({"board": "2f"})
    with RunFolder(tmp_path) as folder:
        folder.add_results(results(RUNS[0], test=0.75))  # what is newer stays
    (tmp_path / "results.jsonl").write_text(
        "\n".join(map(json.dumps, map(RunResult.to_dict, [*found, *results(RUNS[2])])))
    )
    with RunFolder(tmp_path) as folder:
        assert [r.test for r in folder.results().values()] == [0.75, 0.25, 0.25]
    after = {p.name: p.read_bytes() for p in tmp_path.iterdir()}
    assert {n: after[n] for n in before if n != "results.jsonl"} == {
        n: b for n, b in before.items() if n != "results.jsonl"
    }


def test_runs_without_a_fingerprint_are_those_of_the_first_data_of_that_name(tmp_path):
    old_folder(tmp_path, *results(RUNS[0], curves=CURVES))
    with RunFolder(tmp_path) as folder:
        assert [run.data for run in folder.store.runs()] == [""]
        folder.check_tasks({"board": "1f", "ring": "2f"})
        assert [run.data for run in folder.store.runs(curves=True)] == ["1f"]
        assert list(folder.results(RUNS, curves=True)) == keys(RUNS[0])


def test_what_is_taken_over_is_so_in_one_piece(tmp_path, monkeypatch):
    found = results(*RUNS)
    old_folder(tmp_path, *found)
    insert, calls = store.insert, []

    def fail(db, run):
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        insert(db, run)

    with monkeypatch.context() as patched:
        patched.setattr(store, "insert", fail)
        with pytest.raises(KeyboardInterrupt):
            RunFolder(tmp_path)
    with Store(tmp_path / "runs.sqlite") as left:
        assert left.runs() == []
    assert list(RunFolder(tmp_path).results().values()) == found


def test_damaged_tasks_are_one_line(tmp_path):
    (tmp_path / "tasks.json").write_text("{")
    refused(lambda: RunFolder(tmp_path), tmp_path / "tasks.json", "is damaged")


GOOD = json.dumps(results(RUNS[0])[0].to_dict())


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (GOOD[:-9].encode(), "line 1,"),
        (f"{GOOD}\n{GOOD[:40]}".encode(), "line 2,"),
        (b"[]\n", "a result has"),
        (b"3\n", "a result has"),
        (b"{}\n", "a result has"),
        (b"\n", "line 1,"),
        (b"\xff\xfe\n", "is damaged"),
        (GOOD.replace('"val"', '"value"').encode(), "a result has"),
        (GOOD.replace('"gcn"', '""').encode(), "model must be a name, not ''"),
        (GOOD.replace('"val": 0.5', '"val": 99').encode(), "val must be a number in [0, 1], not 9"),
        (GOOD.replace("0.25", "-1e400").encode(), "test must be a number in [0, 1], not -inf"),
        (GOOD.replace('"version": 2', '"version": 3').encode(), "version 3; update pdgnn to read"),
        pytest.param(b"[" * 100_000, "maximum recursion depth", id="brackets"),
        pytest.param(b'{"a":' * 100_000, "maximum recursion depth", id="braces"),
        pytest.param(GOOD.replace("20", "1" * 5000).encode(), "line 1,", id="digits"),
        (b"\x00" * 100, "line 1,"),
    ],
)
def test_damaged_results_are_one_line(tmp_path, content, message):
    file = tmp_path / "results.jsonl"
    file.write_bytes(content)
    refused(lambda: RunFolder(tmp_path), file, "; move it away")
    refused(lambda: RunFolder(tmp_path), file, message)
    assert file.read_bytes() == content


# --- what version 1 wrote -------------------------------------------------------------------------


def first_version(run: RunSpec) -> dict:
    """A run as version 1 wrote it."""
    names = ("dataset", "model", "depth", "width", "heads", "split", "seed", "alpha", "gamma")
    names += ("rewired", "reach", "lr", "weight_decay", "dropout", "steps", "patience", "precision")
    written = {"scope" if n == "reach" else n: getattr(run, n) for n in names}
    assert len(written) == 17
    return written


def first_key(run: RunSpec) -> str:
    text = json.dumps(first_version(run), sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=12).hexdigest()


LINE = (
    '{"spec": {"dataset": "chameleon-filtered", "model": "gat", "depth": 2, "width": 512, '
    '"heads": 8, "split": 3, "seed": 3, "alpha": 0.5, "gamma": 0.25, "rewired": REWIRED, '
    '"scope": "far", "lr": 3e-05, "weight_decay": 0.0, "dropout": 0.2, "steps": 1000, '
    '"patience": null, "precision": "float32"}, "val": 0.4634146341463415, '
    '"test": 0.4484536082474227, "step": 44, "steps_run": 1000, "seconds": 0.73, '
    '"diverged_at": null}\n'
)


def test_results_of_version_1_are_read_and_known_by_the_keys_of_now(tmp_path):
    both = LINE.replace("REWIRED", "true") + LINE.replace("REWIRED", "false")
    (tmp_path / "results.jsonl").write_text(both)
    folder = RunFolder(tmp_path)
    rewired = RunSpec(
        dataset="chameleon-filtered",
        model="gat",
        split=3,
        seed=3,
        alpha=0.5,
        gamma=0.25,
        rewired=True,
        reach="far",
    )
    plain = RunSpec(dataset="chameleon-filtered", model="gat", split=3, seed=3)
    found = folder.results()
    assert list(found) == keys(rewired, plain)  # where α, γ and reach are not used
    one = found[rewired.key]
    assert one.spec == rewired
    assert (one.val, one.test, one.step) == (0.4634146341463415, 0.4484536082474227, 44)
    folder.add_results(results(RUNS[0]))
    assert list(RunFolder(tmp_path).results()) == keys(rewired, plain, RUNS[0])
    assert (tmp_path / "results.jsonl").read_text() == both


def test_scope_is_a_field_of_version_1_alone(tmp_path):
    line = json.loads(LINE.replace("REWIRED", "true"))
    (tmp_path / "results.jsonl").write_text(json.dumps({**line, "version": 2}))
    refused(lambda: RunFolder(tmp_path), tmp_path, "a run needs dataset and model, and knows")


def test_curves_of_version_1_are_found(tmp_path):
    run, curves = spec(gamma=0.5, heads=4), np.arange(18, dtype=np.float32).reshape(6, 3)
    line = results(run)[0].to_dict() | {"spec": first_version(run)}
    del line["version"]
    (tmp_path / "results.jsonl").write_text(json.dumps(line))
    np.save(tmp_path / f"curves-{first_key(run)}.npy", curves)
    found = RunFolder(tmp_path).results(curves=True)
    assert list(found) == keys(spec())
    assert np.array_equal(found[run.key].curves, curves)


def test_states_of_version_1_are_read(tmp_path):
    new = {"best_logits", "best_parameters"}
    tensors = {n: t for n, t in state().tensors().items() if n not in new}
    runs = [replace(run, rewired=True, reach="far", dropout=0.25) for run in RUNS]
    specs = json.dumps([json.dumps(first_version(run)) for run in runs])
    save_file(tensors, tmp_path / "under-way-1.safetensors", {"version": "1", "specs": specs})
    found = RunFolder(tmp_path).states(keys(*runs))
    assert list(found) == keys(*runs)
    for i, run in enumerate(runs):
        row = found[run.key]
        assert torch.equal(row["parameters"], tensors["parameters"][i])
        assert (row["best_logits"].numel(), row["best_parameters"].numel()) == (0, 0)
        own = {n: row[f"buffers.{n}"].item() for n in ("rate", "seed", "step")}
        assert own == {"rate": 0.25, "seed": run.seed, "step": 4}


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


def test_damaged_curves_of_an_earlier_version_are_one_line(tmp_path):
    old_folder(tmp_path, *results(RUNS[0], curves=CURVES))
    file = next(tmp_path.glob("curves-*"))
    for content in (b"", file.read_bytes()[:100], b"PK\x03\x04 and more", b"x" * 300):
        file.write_bytes(content)
        refused(lambda: RunFolder(tmp_path), file, "; delete it to train this run anew")
    np.save(file, np.zeros((5, 3), np.float32))
    refused(lambda: RunFolder(tmp_path), file, "float32 of shape [5, 3]")
    file.unlink()
    assert RunFolder(tmp_path).results(curves=True) == {}


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
