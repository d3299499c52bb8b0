"""Folders that earlier versions wrote: their runs are taken over, and damage is named."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from keeping import RUNS, keys, refused, results, state
from pdgnn import InputError
from pdgnn.training import RunResult, RunSpec, store
from pdgnn.training.checkpoint import RunFolder
from pdgnn.training.store import Store
from runs import spec


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
