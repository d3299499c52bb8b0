"""What runs came to: as a flat table, and the splits and seeds of a setting taken together."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from statistics import fmean, stdev
from typing import Any

from pdgnn.training.rows import NUMBERS as SCORES_AND_STEPS
from pdgnn.training.spec import SETTINGS, RunResult, RunSpec

__all__ = ["Summary", "chosen", "mean_std", "summarize", "to_arrow"]


def mean_std(scores: Iterable[float]) -> tuple[float, float]:
    """Mean and standard deviation (ddof 1) of scores; nan if one is nan, no deviation of one alone.

    >>> mean_std([0.25, 0.5, 0.75]), mean_std([0.5])
    ((0.5, 0.25), (0.5, nan))
    """
    values = list(scores)
    able = len(values) > 1 and all(map(math.isfinite, values))
    return fmean(values), stdev(values) if able else math.nan


@dataclass(frozen=True)
class Summary:
    """The runs that differ in nothing but their split and their seed."""

    spec: RunSpec  # of the first of them
    results: list[RunResult]

    @property
    def test_mean(self) -> float:
        """Mean of the test scores at the best validation steps; nan if a run has none."""
        return mean_std(r.test for r in self.results)[0]

    @property
    def test_std(self) -> float:
        """Their standard deviation (ddof 1); nan of a single run."""
        return mean_std(r.test for r in self.results)[1]

    @property
    def val_mean(self) -> float:
        """Mean of the best validation scores; nan if a run has none."""
        return mean_std(r.val for r in self.results)[0]

    @property
    def seconds(self) -> float:
        """Time that the runs took."""
        return sum(r.seconds for r in self.results)

    @property
    def diverged(self) -> list[RunResult]:
        """The runs whose loss was not finite at some step."""
        return [r for r in self.results if r.diverged_at is not None]

    def uses(self, field: str) -> bool:
        """Whether a field such as ``"gamma"`` matters to these runs."""
        return self.spec.uses(field)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, None for nan, and for α and γ where they do not matter."""
        setting = self.spec.to_dict()
        for name in ("dataset", "split", "seed", "defaults"):
            del setting[name]
        setting |= {name: None for name in ("alpha", "gamma") if not self.uses(name)}
        runs = [r.to_dict() for r in self.results]
        for run in runs:
            spec = run.pop("spec")
            del run["version"]
            run |= {"split": spec["split"], "seed": spec["seed"]}
        means = {n: getattr(self, n) for n in ("test_mean", "test_std", "val_mean")}
        numbers = {name: None if math.isnan(v) else v for name, v in means.items()}
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


NUMBERS = (*SCORES_AND_STEPS, "memory")
"""What a table has of a result."""


def to_arrow(results: Iterable[RunResult] | str | PathLike[str]) -> Any:
    """Finished runs as a flat `pyarrow.Table`: a column for each setting, option and number.

    `results` are what :func:`~pdgnn.training.train` returned, or the folder or store that it kept
    them in.
    The options of a model have a column each, null for runs of other models, and called
    ``option.NAME`` where a setting has that name. Scores that are not there are null.

    >>> spec = RunSpec(dataset="cora", model="gcn")
    >>> table = to_arrow([RunResult(spec, 0.5, 0.4, 3, 9, 1.0)])
    >>> table.select(["model", "depth", "val", "test"]).to_pylist()
    [{'model': 'gcn', 'depth': 2, 'val': 0.5, 'test': 0.4}]
    """
    import pyarrow as pa

    if isinstance(results, str | PathLike):
        from pdgnn.training.store import read_runs

        results = [run.result for run in read_runs(results)[0]]
    runs = list(results)
    columns: dict[str, Any] = {n: [getattr(r.spec, n) for r in runs] for n in SETTINGS}
    for name in dict.fromkeys(n for r in runs for n in r.spec.options):
        taken = name in columns or name in NUMBERS
        own = f"option.{name}" if taken else name
        columns[own] = _column([r.spec.options.get(name) for r in runs])
    for name in NUMBERS[:2]:
        values = [None if math.isnan(v) else v for v in (getattr(r, name) for r in runs)]
        columns[name] = pa.array(values, pa.float64())
    for name in NUMBERS[2:]:
        columns[name] = [getattr(r, name) for r in runs]
    whole = ("patience", "diverged_at", "memory")
    return pa.table({n: pa.array(v, pa.int64()) if n in whole else v for n, v in columns.items()})


def _column(values: list[Any]) -> list[Any]:
    """Values of one type: as they are, numbers all as floats if some are, else as text."""
    types = {type(v) for v in values if v is not None}
    if types <= {int, float} and float in types:
        return [None if v is None else float(v) for v in values]
    return values if len(types) < 2 else [None if v is None else str(v) for v in values]
