"""Runs of one setting taken together, known on paper."""

from __future__ import annotations

import math

import pytest

from pdgnn.training import RunResult, RunSpec
from pdgnn.training.summary import chosen, summarize
from runs import spec


def results(*specs: RunSpec, val: list[float], test: list[float]) -> list[RunResult]:
    return [RunResult(s, v, t, 3, 6, 0.5) for s, v, t in zip(specs, val, test, strict=True)]


def test_splits_and_seeds_are_taken_together_and_nothing_else():
    runs = [spec(split=1), spec(gamma=0.5), spec(seed=3), spec(lr=0.1), spec(split=1, seed=3)]
    found = summarize(results(*runs, val=[0.1, 0.2, 0.4, 0.5, 0.7], test=[0.0, 0.9, 0.3, 0.8, 0.6]))
    assert [[r.spec for r in s.results] for s in found] == [runs[::2], [runs[1]], [runs[3]]]
    assert found[0].test_mean == pytest.approx(0.3)
    assert found[0].test_std == pytest.approx(0.3)  # ddof 1: √(0.18 / 2)
    assert found[0].val_mean == pytest.approx(0.4)
    assert found[0].seconds == 1.5
    assert math.isnan(found[1].test_std)


def test_the_choice_is_by_validation_and_the_first_of_equals():
    runs = [spec(depth=d) for d in (1, 2, 3, 4)]
    found = summarize(results(*runs, val=[0.1, 0.8, 0.8, math.nan], test=[0.9, 0.2, 0.3, 0.4]))
    assert chosen(found) is found[1]
    assert chosen(found[3:]) is None
    assert chosen([]) is None


def test_a_run_without_a_score_leaves_none_to_the_setting():
    runs = [spec(split=i) for i in range(3)]
    nan = math.nan
    found = summarize(results(*runs, val=[0.1, nan, 0.2], test=[0.1, nan, 0.2]))[0]
    assert all(math.isnan(v) for v in (found.test_mean, found.test_std, found.val_mean))
    assert found.to_dict()["test_mean"] is None
    assert found.to_dict()["runs"][1]["test"] is None
    assert [run["split"] for run in found.to_dict()["runs"]] == [0, 1, 2]
    assert found.to_dict()["alpha"] is None  # GCN, which has no use for it
