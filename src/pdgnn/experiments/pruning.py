"""What a search in stages saves and loses: done again on paper, with all settings to the end.

A shorter run is the beginning of a longer one, as no rate depends on how long it is: what a stage
would have seen is read from the curves of the whole runs.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from pdgnn.errors import InputError
from pdgnn.experiments.grid import Setting
from pdgnn.training.spec import RunResult, RunSpec
from pdgnn.training.stages import Stage, Staged, usual_stages
from pdgnn.training.summary import Summary, chosen, summarize

__all__ = ["Pruning", "pruning", "shortened"]


@dataclass(frozen=True)
class Pruning:
    """A row on a dataset; scores are in [0, 1]."""

    settings: int
    to_the_end: int  # settings that the search trained so far
    steps: int  # that the search took, of all runs
    all_steps: int  # that the whole grid takes
    searched: Summary  # what the search chooses
    best: Summary  # what validation chooses of the whole grid
    rank: int  # of the former in the whole grid, by validation, from 1 on
    best_test: float  # of the whole grid
    best_test_searched: float  # of the settings that the search trained to the end


def pruning(
    settings: Sequence[Setting],
    splits: Sequence[int],
    results: Iterable[RunResult],
    stages: Sequence[Stage] | None = None,
) -> Pruning:
    """The search of `settings` on paper.

    Args:
        settings: All of the grid.
        splits: That they were trained on.
        results: Of every setting on every split, all steps, with curves; others do not matter.
        stages: Of the search; default: :func:`~pdgnn.training.stages.usual_stages`.
    """
    every = Staged(settings, usual_stages(len(settings), exhaustive=True), splits)
    known = {result.spec.key: result for result in results}
    _check(every.specs(), known)
    staged = Staged(settings, stages or usual_stages(len(settings)), splits)
    while not staged.ended:
        staged.advance({spec.key: _part(spec, settings, known) for spec in staged.specs()})
    whole = summarize(known[spec.key] for spec in every.specs())
    kept = {c.spec for c in staged.alive}
    ended = [s for s in whole if replace(s.spec, split=0, seed=0) in kept]
    searched, best = chosen(ended), chosen(whole)
    if searched is None or best is None:
        raise InputError("no setting has a validation score; there is nothing to compare")
    return Pruning(
        len(settings),
        len(ended),
        sum(spec.steps for spec in staged.begun()),
        sum(spec.steps for spec in every.specs()),
        searched,
        best,
        1 + sum(s.val_mean > searched.val_mean for s in whole),
        max(s.test_mean for s in whole),
        max(s.test_mean for s in ended),
    )


def shortened(result: RunResult, steps: int) -> RunResult:
    """What a run with curves had come to after so many steps."""
    if result.curves is None:
        raise InputError("the curves of a run are missing; train with --curves")
    curves = result.curves[:steps]
    spec, taken = replace(result.spec, steps=steps), len(curves)
    seconds = result.seconds * taken / max(1, result.steps_run)
    ended = result.diverged_at
    ended = None if ended is None or ended > steps else ended
    if np.isnan(curves[:, 1]).all():
        return RunResult(spec, math.nan, math.nan, 0, taken, seconds, ended)
    best = int(np.nanargmax(curves[:, 1]))  # the first of equals, as in training
    val, test = (float(score) for score in curves[best, 1:])
    return RunResult(spec, val, test, best + 1, taken, seconds, ended)


def _part(spec: RunSpec, settings: Sequence[Setting], known: Mapping[str, RunResult]) -> RunResult:
    """The run of a stage, out of the one with all steps."""
    whole = known[replace(spec, steps=settings[0].spec.steps).key]
    return whole if spec.steps == whole.spec.steps else shortened(whole, spec.steps)


def _check(specs: Sequence[RunSpec], results: Mapping[str, RunResult]) -> None:
    missing = sum(spec.key not in results for spec in specs)
    if missing:
        raise InputError(
            f"{missing} of {len(specs)} runs are missing; run the search with --exhaustive and "
            "--curves into this store first"
        )
