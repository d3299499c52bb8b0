"""How much a model's score depends on (α, γ): its spread over the scopes that were tried.

A search trains most scopes on few splits and steps, and few to the end. Scores are compared only
where both models were trained alike: the same graph, depth, steps, splits and other settings, on
the same scopes.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from statistics import fmean, stdev
from typing import NamedTuple

from pdgnn.experiments.outcome import ScoreTable
from pdgnn.models import Scalar
from pdgnn.training.spec import RunResult, RunSpec

__all__ = ["Spread", "Spreads", "spreads"]

LEAST_SCOPES = 4
"""Fewer than these have no spread worth a sentence."""
Scope = tuple[float, float]
Scores = tuple[float, float]  # validation and test, in percent
Run = tuple[RunSpec, int, Scores]  # with its split
Runs = dict[Scope, dict[int, Scores]]  # by split


class _Stage(NamedTuple):
    """What two runs must have in common to be trained alike."""

    dataset: str
    steps: int
    width: int
    lr: float
    weight_decay: float
    dropout: float
    patience: int | None
    precision: str
    options: Mapping[str, Scalar]


@dataclass(frozen=True)
class Spread:
    """Of the mean scores of a model over the scopes, in points; the mean over depths."""

    test: float  # highest − lowest mean test score
    test_std: float
    val: float
    val_std: float
    test_with_graph: float | None  # `test` without γ = 0, where P is the identity


@dataclass(frozen=True)
class Spreads:
    """Both models on a graph, trained alike."""

    dataset: str
    one: Spread
    other: Spread
    scopes: int  # at each depth; the fewest
    depths: tuple[int, ...]
    splits: int
    steps: int

    @property
    def wider(self) -> bool:
        """Whether the first is the more sensitive: both its range and its deviation are larger."""
        return self.one.test > self.other.test and self.one.test_std > self.other.test_std


def spreads(
    one: str,
    other: str,
    datasets: Iterable[str],
    *,
    tables: Mapping[str, ScoreTable] | None = None,
    results: Iterable[RunResult] = (),
) -> list[Spreads]:
    """The spreads of two models on each graph that both were searched on.

    Runs are taken from `results` and from what the `tables` have of them. Of several stages of a
    search the one with the most settings in common counts, then that with the most steps.
    """
    runs = _grouped(chain(_of_results(results), _of_tables(tables or {})), (one, other))
    found = []
    for dataset in datasets:
        stages = [key for key in runs if key.dataset == dataset]
        able = [s for key in stages if (s := _compared(key, runs[key], one, other)) is not None]
        if able:
            found.append(max(able, key=lambda s: (s[0], s[1].steps, s[1].splits))[1])
    return found


def _of_results(results: Iterable[RunResult]) -> Iterator[Run]:
    for r in results:
        yield r.spec, r.spec.split, (100 * r.val, 100 * r.test)


def _of_tables(tables: Mapping[str, ScoreTable]) -> Iterator[Run]:
    """The runs that tables are made of, as far as they say."""
    for tried in (t for table in tables.values() for c in table.cells.values() for t in c.tried):
        for split, *scores in zip(tried.splits, tried.val, tried.test, strict=True):
            yield tried.spec, split, (scores[0], scores[1])


def _grouped(
    runs: Iterable[Run], models: Sequence[str]
) -> dict[_Stage, dict[tuple[str, int], Runs]]:
    """Runs by what must be alike, then by model and depth, scope and split."""
    found: dict[_Stage, dict[tuple[str, int], Runs]] = {}
    for spec, split, scores in runs:
        if spec.model not in models or spec.rewired or math.isnan(sum(scores)):
            continue
        stage = _Stage(*(getattr(spec, name) for name in _Stage._fields))
        of_model = found.setdefault(stage, defaultdict(dict))[spec.model, spec.depth]
        of_model.setdefault((spec.alpha, spec.gamma), {}).setdefault(split, scores)
    return found


def _compared(
    stage: _Stage, runs: Mapping[tuple[str, int], Runs], one: str, other: str
) -> tuple[int, Spreads] | None:
    """The spreads at a stage, and how many settings they are of."""
    depths = sorted({depth for _, depth in runs})
    pairs = {d: (runs.get((one, d), {}), runs.get((other, d), {})) for d in depths}
    options = {frozenset(s) for both in pairs.values() for r in both for s in r.values()}
    best: tuple[int, Spreads] | None = None
    for splits in sorted(options, key=lambda s: (len(s), sorted(s))):
        scopes = {d: _common(both, splits) for d, both in pairs.items()}
        able = [d for d in depths if len(scopes[d]) >= LEAST_SCOPES]
        size = sum(len(scopes[d]) for d in able)
        if able and (best is None or size >= best[0]):
            two = [_mean([_spread(pairs[d][i], scopes[d], splits) for d in able]) for i in (0, 1)]
            fewest = min(len(scopes[d]) for d in able)
            made = Spreads(
                stage.dataset, two[0], two[1], fewest, tuple(able), len(splits), stage.steps
            )
            best = size, made
    return best


def _common(both: Sequence[Runs], splits: frozenset[int]) -> list[Scope]:
    """The scopes that both models were trained on all of these splits with."""
    return [s for s in both[0] if s in both[1] and all(splits <= set(r[s]) for r in both)]


def _spread(runs: Runs, scopes: Sequence[Scope], splits: frozenset[int]) -> Spread:
    val, test = ([fmean(runs[s][i][k] for i in splits) for s in scopes] for k in (0, 1))
    seeing = [t for t, (_, gamma) in zip(test, scopes, strict=True) if gamma > 0]
    seen = max(seeing) - min(seeing) if len(seeing) >= LEAST_SCOPES else None
    return Spread(max(test) - min(test), stdev(test), max(val) - min(val), stdev(val), seen)


def _mean(found: Sequence[Spread]) -> Spread:
    seen = [s.test_with_graph for s in found if s.test_with_graph is not None]
    return Spread(
        test=fmean(s.test for s in found),
        test_std=fmean(s.test_std for s in found),
        val=fmean(s.val for s in found),
        val_std=fmean(s.val_std for s in found),
        test_with_graph=fmean(seen) if seen else None,
    )
