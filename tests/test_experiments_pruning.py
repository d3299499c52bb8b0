from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from pdgnn import InputError
from pdgnn.experiments.grid import Setting
from pdgnn.experiments.pruning import pruning, shortened
from pdgnn.training import RunResult, RunSpec
from pdgnn.training.stages import Stage
from runs import go, spec

SPEC = RunSpec(dataset="any", model="pd-gcn", steps=1000)
SETTINGS = [Setting(replace(SPEC, depth=d, gamma=g / 10)) for d in (1, 2) for g in range(10)]


def curve(spec, score) -> np.ndarray:
    """Validation and test scores of every step, which `score` gives."""
    return np.array([[1.0, *score(spec, step)] for step in range(1, 1001)], dtype=np.float32)


def finished(score) -> list[RunResult]:
    """All settings on ten splits to the end."""
    found = []
    for s in SETTINGS:
        curves = curve(s.spec, score)
        val, test = curves[:, 1].max(), curves[curves[:, 1].argmax(), 2]
        for i in range(10):
            spec = replace(s.spec, split=i, seed=i)
            step = int(curves[:, 1].argmax()) + 1
            found.append(RunResult(spec, float(val), float(test), step, 1000, 1.0, curves=curves))
    return found


def test_a_search_that_finds_the_best():
    found = pruning(
        SETTINGS, range(10), finished(lambda s, _: (s.gamma / 2 + s.depth / 9, s.gamma))
    )
    assert found.searched.spec == found.best.spec
    assert (found.searched.spec.gamma, found.searched.spec.depth) == (0.9, 2)
    assert (found.rank, found.settings, found.to_the_end) == (1, 20, 4)
    assert found.steps == 20 * 2 * 50 + 12 * 10 * 200 + 4 * 10 * 1000
    assert found.all_steps == 20 * 10 * 1000
    assert found.best_test == found.best_test_searched == pytest.approx(0.9)


def late(spec, step):
    """One setting is the best at the last step alone."""
    slow = spec.gamma == 0.0 and spec.depth == 1
    return (1.0, 1.0) if slow and step == 1000 else (0.0 if slow else spec.gamma, 0.5)


def test_a_setting_that_is_slow_to_begin_is_lost():
    found = pruning(SETTINGS, range(10), finished(late))
    assert (found.best.spec.gamma, found.best_test) == (0.0, 1.0)
    assert (found.searched.spec.gamma, found.best_test_searched) == (pytest.approx(0.9), 0.5)
    assert found.rank == 2
    other = pruning(SETTINGS, range(10), finished(late), [Stage()])
    assert other.searched.spec == other.best.spec  # all of them to the end


def test_runs_that_are_missing():
    with pytest.raises(InputError, match="200 of 200 runs are missing; run the search with"):
        pruning(SETTINGS, range(10), [])
    without = [replace(result, curves=None) for result in finished(late)]
    with pytest.raises(InputError, match="the curves of a run are missing; train with --curves"):
        pruning(SETTINGS, range(10), without)


def test_a_shorter_run_is_the_beginning_of_a_longer_one():
    runs = [spec(split=i, seed=i, steps=9, model="pd-gcn") for i in range(3)]
    wholes = go(runs, curves=True)
    for steps in (1, 4, 8):
        short = go([replace(run, steps=steps) for run in runs])
        for one, whole in zip(short, wholes, strict=True):
            part = shortened(whole, steps)
            assert (part.spec, part.step, part.steps_run) == (one.spec, one.step, one.steps_run)
            assert (part.val, part.test) == (pytest.approx(one.val), pytest.approx(one.test))


def test_a_run_that_diverged_has_what_it_had_before():
    curves = np.array([[1, 0.5, 0.4], [1, 0.6, 0.3], [np.nan] * 3], dtype=np.float32)
    whole = RunResult(spec(steps=9), 0.6, 0.3, 2, 3, 3.0, 3, curves=curves)
    assert shortened(whole, 2) == RunResult(
        spec(steps=2), float(curves[1, 1]), float(curves[1, 2]), 2, 2, 2.0
    )
    assert shortened(whole, 5).diverged_at == 3
    none = shortened(replace(whole, curves=np.full((3, 3), np.nan, np.float32)), 2)
    assert (none.step, math.isnan(none.val)) == (0, True)
