from __future__ import annotations

import math
from dataclasses import replace

from pdgnn.training import RunResult, RunSpec
from pdgnn.training.stages import Candidate, Stage, Staged, usual_stages

SPEC = RunSpec(dataset="any", model="gcn", steps=1000)


def candidates(count: int, always: dict[int, str] | None = None) -> list[Candidate]:
    tags = always or {}
    return [Candidate(replace(SPEC, depth=i + 1), tags.get(i, "")) for i in range(count)]


def finished(staged: Staged, score) -> dict[str, RunResult]:
    return {
        spec.key: RunResult(spec, score(spec), 0.5, 1, spec.steps, 1.0) for spec in staged.specs()
    }


def depths(staged: Staged) -> list[int]:
    return [c.spec.depth for c in staged.alive]


def test_all_runs_of_a_large_search():
    staged = Staged(candidates(605), usual_stages(605), range(10))
    seen = []
    while not staged.ended:
        runs = staged.specs()
        assert all(run.seed == run.split for run in runs)
        seen.append((len(staged.alive), {r.split for r in runs}, {r.steps for r in runs}))
        staged.advance(finished(staged, lambda spec: spec.depth / 1000))
    ten = set(range(10))
    assert seen == [(605, {0, 1}, {50}), (41, ten, {200}), (4, ten, {1000})]
    assert depths(staged) == [605, 604, 603, 602]
    assert len(staged.begun()) == 605 * 2 + 410 + 40
    assert staged.specs() == []


def test_few_candidates_have_two_stages_and_exhaustive_one():
    assert [(s.keep, s.splits) for s in usual_stages(12)] == [(None, 3), (2, None)]
    assert usual_stages(605, exhaustive=True) == (Stage(),)
    staged = Staged(candidates(5), usual_stages(5), (4, 7))
    assert {(run.split, run.steps) for run in staged.specs()} == {(4, 200), (7, 200)}


def test_equals_go_on_as_if_by_lot_and_one_without_a_score_does_not():
    found = []
    for given in (candidates(100), candidates(100)[::-1]):
        staged = Staged(given, [Stage(splits=1), Stage(20)], range(3))
        staged.advance(finished(staged, lambda spec: math.nan if spec.depth < 31 else 0.5))
        found.append(depths(staged))
    assert found[0] == found[1]  # whatever the order
    assert min(found[0]) >= 31
    assert 40 < sum(found[0]) / 20 < 92  # and from all over the grid


def test_the_best_of_each_kind_is_in_to_the_end():
    always = {0: "untuned", 1: "untuned", 2: "published"}
    stages = [Stage(splits=1, share=0.05), Stage(4, None, 0.2), Stage(2)]
    staged = Staged(candidates(20, always), stages, range(2))
    assert staged.most_runs() == [(20, 50), (14, 200), (8, 1000)]
    staged.advance(finished(staged, lambda spec: spec.depth / 100))
    assert depths(staged) == [20, 19, 18, 17, 3, 2, 1]
    staged.advance(finished(staged, lambda spec: 0.9 if spec.depth == 1 else spec.depth / 100))
    assert depths(staged) == [1, 20, 3]
    assert staged.most_runs() == [(6, 1000)]


def test_a_run_that_is_in_two_stages_is_wanted_once():
    staged = Staged(candidates(2), [Stage(splits=1), Stage(1)], range(3))
    staged.advance(finished(staged, lambda spec: 0.5))
    assert len(staged.specs()) == 3
    assert len(staged.begun()) == 4
