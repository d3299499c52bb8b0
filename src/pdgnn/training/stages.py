"""Successive halving over ordinary runs, each of which a store keeps: what is judged on few splits
and steps first, and what goes on to all of them.

:func:`pdgnn.training.search` carries the state of a run from rung to rung; here a stage is a list
of runs like any others, so that a search that was killed goes on from the finished ones, and so
that other searches and tables find them. Nothing is carried over: as the splits grow with the
steps, what could be is a few percent of the work.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from pdgnn.training.spec import RunResult, RunSpec

__all__ = ["FEW", "LEAST_STEPS", "Candidate", "Stage", "Staged", "usual_stages"]

FEW = 12
"""Candidates up to which there are two stages and not three."""
LEAST_STEPS = 50
"""Steps of a stage, or all, if these are fewer."""


@dataclass(frozen=True)
class Stage:
    """Who takes part, on how many splits, and for which share of the steps."""

    keep: int | None = None  # the best so many of the stage before; None: all of them
    splits: int | None = None  # the first so many; None: all
    share: float = 1.0

    def steps(self, steps: int) -> int:
        """Of runs that have so many in the end.

        >>> Stage(share=1 / 20).steps(1000), Stage(share=1 / 20).steps(200), Stage().steps(20)
        (50, 50, 20)
        """
        return min(steps, max(LEAST_STEPS, math.ceil(round(steps * self.share, 6))))


@dataclass(frozen=True)
class Candidate:
    """A setting: a run of split 0 with all its steps.

    Of those with the same `always`, all are in every stage but the last, and the best is in that
    too, whatever the others score.
    """

    spec: RunSpec
    always: str = ""


def usual_stages(count: int, *, exhaustive: bool = False) -> tuple[Stage, ...]:
    """The stages of so many candidates.

    More than :data:`FEW`: all on 2 splits for a twentieth of the steps, a fifteenth of them (at
    least 12) on all splits for a fifth, 4 on all splits to the end. Few: all on 3 splits for a
    fifth, 2 to the end. `exhaustive`: all of them to the end at once.

    >>> [stage.keep for stage in usual_stages(605)], [stage.keep for stage in usual_stages(5)]
    ([None, 41, 4], [None, 2])
    """
    if exhaustive:
        return (Stage(),)
    if count <= FEW:
        return (Stage(None, 3, 1 / 5), Stage(2))
    return (Stage(None, 2, 1 / 20), Stage(max(FEW, math.ceil(count / 15)), None, 1 / 5), Stage(4))


class Staged:
    """A search: the runs of its stage, and the next stage when they are finished.

    Candidates are judged by the mean of their best validation scores; one that has none is the
    worst. A run's seed is the number of its split.
    """

    def __init__(
        self, candidates: Sequence[Candidate], stages: Sequence[Stage], splits: Sequence[int]
    ) -> None:
        self.candidates, self.stages, self.splits = list(candidates), tuple(stages), tuple(splits)
        self.alive, self.number = self.candidates, 0  # in the stage under way, and which it is
        self._wanted: dict[str, RunSpec] = {}  # of the stages begun
        self._want()

    @property
    def ended(self) -> bool:
        """Whether all stages are over."""
        return self.number == len(self.stages)

    @property
    def left(self) -> int:
        """Stages that are not over."""
        return len(self.stages) - self.number

    def specs(self) -> list[RunSpec]:
        """The runs of the stage under way, finished or not; none after the last."""
        if self.ended:
            return []
        return [run for c in self.alive for run in self._runs(c, self.stages[self.number])]

    def advance(self, results: Mapping[str, RunResult]) -> None:
        """The runs of this stage are finished; `results` has them by their key."""
        stage = self.stages[self.number]
        scores = [fmean(results[r.key].val for r in self._runs(c, stage)) for c in self.alive]
        self.number += 1
        if not self.ended:
            last = self.left == 1
            self.alive = _kept(self.alive, scores, self.stages[self.number].keep, last=last)
            self._want()

    def begun(self) -> list[RunSpec]:
        """The runs of all stages that were begun, each once."""
        return list(self._wanted.values())

    def most_runs(self) -> list[tuple[int, int]]:
        """Runs and steps of each stage from this one on; which of them go on is not known, so it is
        the most that they can be.
        """
        found, count = list[tuple[int, int]](), len(self.alive)
        tags = [c.always for c in self.candidates if c.always]
        for stage in self.stages[self.number :]:
            if found and stage.keep is not None:
                last = len(found) + self.number == len(self.stages) - 1
                extra = len(set(tags)) if last else len(tags)
                count = min(count, stage.keep + extra)
            runs = self._runs(self.candidates[0], stage) if self.candidates else []
            found.append((count * len(runs), runs[0].steps if runs else 0))
        return found

    def _want(self) -> None:
        self._wanted |= {spec.key: spec for spec in self.specs()}

    def _runs(self, candidate: Candidate, stage: Stage) -> list[RunSpec]:
        spec = replace(candidate.spec, steps=stage.steps(candidate.spec.steps))
        return [replace(spec, split=s, seed=s) for s in self.splits[: stage.splits]]


def _kept(
    candidates: Sequence[Candidate], scores: Sequence[float], keep: int | None, *, last: bool
) -> list[Candidate]:
    """The best, and those that are in whatever they score; the best first.

    Few steps on few splits leave many equal scores. Which of them go on is up to their keys, as
    good as drawn by lot: in the order of the grid it would be one corner of it.
    """
    able = [-math.inf if math.isnan(score) else score for score in scores]
    order = sorted(range(len(candidates)), key=lambda i: (-able[i], candidates[i].spec.key))
    chosen = dict.fromkeys(order[:keep])
    seen = set[str]()
    for i in order:
        tag = candidates[i].always
        if tag and not (last and tag in seen):
            chosen[i] = None
            seen.add(tag)
    return [candidates[i] for i in sorted(chosen, key=order.index)]
