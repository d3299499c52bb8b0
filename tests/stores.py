"""What the tests of stores and of their exports share: results, a store of them, a refusal."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np

import keeping
from keeping import RUNS
from pdgnn.training import RunResult, RunSpec
from pdgnn.training.store import Store

DATA = {"board": "1f", "ring": "2f"}
CURVES = np.arange(18, dtype=np.float32).reshape(6, 3)


def result(run: RunSpec, **options) -> RunResult:
    return keeping.results(run, **options)[0]


RESULTS = [
    result(RUNS[0], curves=CURVES, memory=2**33),
    result(RUNS[1], val=math.nan, test=math.nan, step=0, diverged_at=6),
    result(replace(RUNS[2], dataset="ring", alpha=0.1, gamma=0.3, model="pd-gcn", rewired=True)),
    result(replace(RUNS[2], model="mine", options={"k": 3, "kind": "a'b", "flag": None})),
    result(replace(RUNS[2], model="mine", options={"k": 3, "j": 2.5}, defaults=("j",))),
]


def made_store(folder: Path) -> Path:
    """A store with some runs."""
    path = folder / "runs.sqlite"
    with Store(path) as store:
        store.add(RESULTS, DATA, store.provenance_id({"machine": "ours", "versions": {"a": "1"}}))
    return path


def refused(call, path: Path, message: str) -> None:
    """The call must fail in one line, and leave the file as it is, byte for byte."""
    before = path.read_bytes() if path.is_file() else None
    keeping.refused(call, path, message)
    assert before == (path.read_bytes() if path.is_file() else None)
    left = [p.name for p in path.parent.glob(f"{path.name}-*")]
    assert left == []


def same(one: RunResult, other: RunResult) -> None:
    """Equal, nan or not, down to what is not compared."""
    assert one.spec == other.spec
    assert one.spec.defaults == other.spec.defaults
    assert one.spec.key == other.spec.key
    assert one.to_dict() == other.to_dict()
