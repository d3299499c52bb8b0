"""What the tests of folders and stores of runs share: runs, results, states, a refusal."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from pdgnn import InputError
from pdgnn.training import RunResult, RunSpec
from pdgnn.training.state import RunState
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
