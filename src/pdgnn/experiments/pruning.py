"""What a search in stages saves and what it loses, by runs that have both: the search done again on
paper, beside all settings trained to the end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pdgnn.errors import InputError
from pdgnn.experiments.grid import Setting
from pdgnn.training.spec import RunResult, RunSpec
from pdgnn.training.stages import Staged, usual_stages
from pdgnn.training.summary import Summary, chosen, summarize

__all__ = ["Pruning", "pruning"]


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
    settings: Sequence[Setting], splits: Sequence[int], results: Mapping[str, RunResult]
) -> Pruning:
    """The search of `settings` with the `results` of its runs and of all settings, by key."""
    staged = Staged(settings, usual_stages(len(settings)), splits)
    while not staged.ended:
        _check(staged.specs(), results)
        staged.advance(results)
    every = Staged(settings, usual_stages(len(settings), exhaustive=True), splits)
    _check(every.specs(), results)
    whole = summarize(results[spec.key] for spec in every.specs())
    kept = {c.spec for c in staged.alive}
    ended = [s for s in whole if _bare(s.spec, settings) in kept]
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


def _bare(spec: RunSpec, settings: Sequence[Setting]) -> RunSpec | None:
    """The spec of the setting that a run is of."""
    point = spec.depth, spec.alpha, spec.gamma
    found = (s.spec for s in settings if (s.spec.depth, s.spec.alpha, s.spec.gamma) == point)
    return next(found, None)


def _check(specs: Sequence[RunSpec], results: Mapping[str, RunResult]) -> None:
    missing = sum(spec.key not in results for spec in specs)
    if missing:
        raise InputError(
            f"{missing} of {len(specs)} runs are missing; run the search, and run it with "
            "exhaustive, into the same store first"
        )
