"""What the runs of one setting came to: the splits and seeds of it, taken together."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from statistics import fmean, stdev
from typing import Any

from pdgnn.training.spec import RunResult, RunSpec

__all__ = ["Summary", "chosen", "summarize"]


@dataclass(frozen=True)
class Summary:
    """The runs that differ in nothing but their split and their seed."""

    spec: RunSpec  # of the first of them
    results: list[RunResult]

    @property
    def test_mean(self) -> float:
        """Mean of the test scores at the best validation steps; nan if a run has none."""
        return fmean(r.test for r in self.results)

    @property
    def test_std(self) -> float:
        """Their standard deviation (ddof 1); nan of a single run."""
        scores = [r.test for r in self.results]
        return stdev(scores) if len(scores) > 1 and all(map(math.isfinite, scores)) else math.nan

    @property
    def val_mean(self) -> float:
        """Mean of the best validation scores; nan if a run has none."""
        return fmean(r.val for r in self.results)

    @property
    def seconds(self) -> float:
        """Time that the runs took."""
        return sum(r.seconds for r in self.results)

    @property
    def diverged(self) -> list[RunResult]:
        """The runs whose loss was not finite at some step."""
        return [r for r in self.results if r.diverged_at is not None]

    @property
    def scoped(self) -> bool:
        """Whether α and γ matter to these runs."""
        return self.spec.scoped

    def to_dict(self) -> dict[str, Any]:
        """Plain values, None for nan, and for α and γ where they do not matter."""
        setting = asdict(self.spec)
        for name in ("dataset", "split", "seed"):
            del setting[name]
        if not self.scoped:
            setting |= {"alpha": None, "gamma": None}
        runs = [r.to_dict() for r in self.results]
        for run in runs:
            spec = run.pop("spec")
            run |= {"split": spec["split"], "seed": spec["seed"]}
        names = ("test_mean", "test_std", "val_mean")
        numbers = {name: getattr(self, name) for name in names}
        numbers = {name: None if math.isnan(v) else v for name, v in numbers.items()}
        return {**setting, **numbers, "seconds": self.seconds, "runs": runs}


def summarize(results: Iterable[RunResult]) -> list[Summary]:
    """One summary for each setting, in the order of their first runs.

    >>> spec = RunSpec(dataset="cora", model="gcn")
    >>> runs = [RunResult(replace(spec, split=i), 0.5, 0.4 + i / 10, 3, 9, 1.0) for i in (0, 1)]
    >>> [(round(s.test_mean, 4), round(s.test_std, 4), s.val_mean) for s in summarize(runs)]
    [(0.45, 0.0707, 0.5)]
    """
    groups: dict[RunSpec, list[RunResult]] = {}
    for r in results:
        groups.setdefault(replace(r.spec, split=0, seed=0), []).append(r)
    return [Summary(group[0].spec, group) for group in groups.values()]


def chosen(summaries: Sequence[Summary]) -> Summary | None:
    """The one with the highest mean validation score, the first of equals; None if none has one."""
    able = [s for s in summaries if not math.isnan(s.val_mean)]
    return max(able, key=lambda s: s.val_mean, default=None)
