from __future__ import annotations

from dataclasses import replace

import pytest

from pdgnn import InputError
from pdgnn.experiments.grid import Setting
from pdgnn.experiments.pruning import pruning
from pdgnn.training import RunResult, RunSpec

SPEC = RunSpec(dataset="any", model="pd-gcn", steps=1000)
SETTINGS = [Setting(replace(SPEC, depth=d, gamma=g / 10)) for d in (1, 2) for g in range(10)]


def finished(score) -> dict[str, RunResult]:
    """Every run that any search could ask for."""
    specs = [
        replace(s.spec, steps=steps, split=i, seed=i)
        for s in SETTINGS
        for steps in (50, 200, 1000)
        for i in range(10)
    ]
    return {spec.key: RunResult(spec, *score(spec), 1, spec.steps, 1.0) for spec in specs}


def test_a_search_that_finds_the_best():
    found = pruning(SETTINGS, range(10), finished(lambda s: (s.gamma / 2 + s.depth / 9, s.gamma)))
    assert found.searched.spec == found.best.spec
    assert (found.searched.spec.gamma, found.searched.spec.depth) == (0.9, 2)
    assert (found.rank, found.settings, found.to_the_end) == (1, 20, 6)
    assert found.steps == 20 * 2 * 50 + 12 * 10 * 200 + 6 * 10 * 1000
    assert found.all_steps == 20 * 10 * 1000
    assert found.best_test == found.best_test_searched == pytest.approx(0.9)


def test_a_setting_that_is_slow_to_begin_is_lost():
    def score(spec):
        late = spec.gamma == 0.0 and spec.depth == 1
        return (1.0, 1.0) if late and spec.steps == 1000 else (0.0 if late else spec.gamma, 0.5)

    found = pruning(SETTINGS, range(10), finished(score))
    assert (found.best.spec.gamma, found.best_test) == (0.0, 1.0)
    assert (found.searched.spec.gamma, found.best_test_searched) == (0.9, 0.5)
    assert found.rank == 2


def test_runs_that_are_missing():
    with pytest.raises(InputError, match="40 of 40 runs are missing; run the search"):
        pruning(SETTINGS, range(10), {})
