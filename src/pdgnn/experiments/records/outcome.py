"""The table of the records, made of finished runs: what validation chose, and what came of it.

Nothing here trains. Which setting a search chooses is found again from its runs: the stages are
gone through with the scores that are there.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import Any

from pdgnn.experiments.catalog import metric_of
from pdgnn.experiments.gather import PRECISIONS
from pdgnn.experiments.records.ablation import variants
from pdgnn.experiments.records.average import average_specs, best_average
from pdgnn.experiments.records.published import PublishedRecord, best_published
from pdgnn.experiments.records.spaces import (
    FRESH_SEEDS,
    SPLITS,
    Method,
    check_datasets,
    check_methods,
    space,
    stages_of,
)
from pdgnn.experiments.records.winners import Choice, winner
from pdgnn.experiments.significance import holm, paired, share_of
from pdgnn.training.spec import RunResult, RunSpec
from pdgnn.training.stages import Candidate, Staged
from pdgnn.training.store import StoredRun
from pdgnn.training.summary import chosen, mean_std, summarize

__all__ = [
    "RIVALS",
    "Line",
    "RecordTable",
    "choice_of",
    "final_specs",
    "gather_records",
    "replayed",
    "search_of",
]

RIVALS = ("gcn", "pd-gcn")
"""The methods that the others are compared with, split by split."""
Results = Mapping[str, RunResult]


def search_of(method: str, dataset: str, splits: Sequence[int], precision: str) -> Staged:
    """The search of a method on a graph, at its beginning."""
    settings = space(method, dataset, precision=precision)
    candidates = [Candidate(spec) for spec in settings]
    return Staged(candidates, stages_of(method, len(settings)), splits)


def replayed(staged: Staged, results: Results) -> Choice | None:
    """Take a search as far as `results`, by key, go; what it chooses, if that is to its end.

    Only validation scores count: those of the last stage, on all splits and to the end.
    """
    last: list[RunSpec] = []
    while not staged.ended:
        last = staged.specs()
        if any(spec.key not in results for spec in last):
            return None
        staged.advance(results)
    best = chosen(summarize(replace(results[s.key], spec=s) for s in last))
    if best is None:
        return None
    spec = replace(best.spec, split=0, seed=0)
    return Choice(spec, len(staged.candidates), best.val_mean, "search")


def choice_of(
    method: str, dataset: str, splits: Sequence[int], precision: str, results: Results
) -> Choice | None:
    """What a search has chosen whose runs are all among `results`, else that of the package."""
    found = replayed(search_of(method, dataset, splits, precision), results)
    return found or winner(dataset, method, precision=precision)


def final_specs(
    spec: RunSpec, splits: Sequence[int], seeds: Sequence[int] = FRESH_SEEDS
) -> list[RunSpec]:
    """A setting on all splits with seeds that no stage of a search has."""
    return [replace(spec, split=s, seed=seed) for s in splits for seed in seeds]


@dataclass(frozen=True)
class Line:
    """A setting on a graph: a method's choice, or a variant of one. Scores are in percent."""

    label: str
    spec: RunSpec | None = None  # None: nothing is chosen yet
    tried: int = 0  # settings that it was chosen of
    source: str = ""  # "search" of these runs, or "package"
    search_val: float | None = None  # its mean validation score in that search, in [0, 1]
    weight: float | None = None  # of the trees in an average
    val: tuple[float, ...] = ()  # of the final runs
    test: tuple[float, ...] = ()
    places: tuple[tuple[int, int], ...] = ()  # split and seed of each
    wanted: int = 0
    p: Mapping[str, float] | None = None  # against each rival, adjusted; nan: no test

    @property
    def whole(self) -> bool:
        """Whether all final runs are there."""
        return 0 < self.wanted == len(self.test)

    @property
    def mean(self) -> float:
        """Of the test scores of all splits and seeds; nan without any."""
        return mean_std(self.test)[0] if self.test else math.nan

    @property
    def std(self) -> float:
        """Of the same (ddof 1)."""
        return mean_std(self.test)[1] if self.test else math.nan

    @property
    def val_mean(self) -> float:
        """Of their validation scores."""
        return mean_std(self.val)[0] if self.val else math.nan

    def beside(self, other: Line) -> tuple[list[float], list[float]]:
        """Test scores of both by split, each the mean over the seeds that both have on it."""
        first, second = (dict(zip(x.places, x.test, strict=True)) for x in (self, other))
        seeds: dict[int, list[int]] = {}
        for split, seed in first:
            if (split, seed) in second:
                seeds.setdefault(split, []).append(seed)
        ours, theirs = (
            [fmean(scores[split, seed] for seed in seeds[split]) for split in sorted(seeds)]
            for scores in (first, second)
        )
        return ours, theirs

    def to_dict(self) -> dict[str, Any]:
        """Plain values, None for nan."""
        numbers = {"mean": self.mean, "std": self.std, "val": self.val_mean, **(self.p or {})}
        plain = {n: None if math.isnan(v) else v for n, v in numbers.items()}
        setting = None if self.spec is None else self.spec.to_dict()
        for name in ("dataset", "split", "seed", "defaults"):
            if setting is not None:
                del setting[name]
        return {
            "label": self.label,
            "setting": setting,
            "weight": self.weight,
            "tried": self.tried,
            "source": self.source or None,
            "runs": len(self.test),
            "wanted": self.wanted,
            **{n: plain[n] for n in ("mean", "std", "val")},
            "p": {name: plain[name] for name in self.p or {}},
        }


@dataclass(frozen=True)
class RecordTable:
    """All graphs: the methods, and what the parts of PD-Net's recipe are worth."""

    datasets: tuple[str, ...]
    metrics: Mapping[str, str]
    published: Mapping[str, PublishedRecord | None]
    methods: tuple[Method, ...]
    lines: Mapping[tuple[str, str], Line]  # by graph and name of the method
    ablations: Mapping[str, tuple[Line, ...]]  # by graph; the recipe as tuned is the first

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            dataset: {
                "metric": self.metrics[dataset],
                "published": _published(self.published[dataset]),
                "methods": {m.name: self.lines[dataset, m.name].to_dict() for m in self.methods},
                "ablation": [line.to_dict() for line in self.ablations.get(dataset, ())],
            }
            for dataset in self.datasets
        }


def _published(record: PublishedRecord | None) -> dict[str, Any] | None:
    return None if record is None else {"mean": record.mean, "std": record.std, "by": record.by}


def gather_records(
    runs: Iterable[StoredRun],
    *,
    datasets: Sequence[str] | None = None,
    methods: Sequence[str] | None = None,
    splits: Sequence[int] = SPLITS,
) -> RecordTable:
    """The table of these runs; cells without any are empty.

    A setting that these runs chose comes before that of the package. Networks may have been trained
    in several precisions: the one with the most final runs counts.
    """
    names, chosen_methods = check_datasets(datasets), check_methods(methods)
    known: dict[str, dict[str, RunResult]] = {name: {} for name in names}
    for run in runs:
        if run.result.spec.dataset in known:
            known[run.result.spec.dataset][run.result.spec.key] = run.result
    gathered = {name: _Gathered(name, known[name], tuple(splits)) for name in names}
    lines = {
        (name, method.name): gathered[name].line(method)
        for name in names
        for method in chosen_methods
    }
    return RecordTable(
        names,
        {name: metric_of(name) for name in names},
        {name: best_published(name) for name in names},
        chosen_methods,
        _compared(lines, gathered),
        {name: found for name in names if (found := gathered[name].ablation())},
    )


@dataclass(frozen=True)
class _Gathered:
    """The runs of one graph, by key."""

    dataset: str
    results: Results
    splits: tuple[int, ...]
    choices: dict[str, Choice | None] = field(default_factory=dict)
    """Those that were asked for, by method."""

    def line(self, method: Method) -> Line:
        if method.name == "average":
            return self._average(method)
        choice = self.choice(method.name)
        if choice is None:
            return Line(method.label)
        line = self._line(method.label, choice.spec)
        return replace(line, tried=choice.settings, source=choice.source, search_val=choice.val)

    def choice(self, method: str) -> Choice | None:
        """What validation chose."""
        if method not in self.choices:
            self.choices[method] = self._found_choice(method)
        return self.choices[method]

    def _found_choice(self, method: str) -> Choice | None:
        """In the precision of a search before that of the package, then of the most final runs."""
        used = {r.spec.precision for r in self.results.values()} or {"float32"}
        found = []
        for precision in sorted(used, key=PRECISIONS.index):
            own = choice_of(method, self.dataset, self.splits, precision, self.results)
            if own is not None:
                done = sum(s.key in self.results for s in final_specs(own.spec, self.splits))
                found.append((own.source == "search", done, own))
        return max(found, key=lambda three: three[:2], default=(False, 0, None))[2]

    def ablation(self) -> tuple[Line, ...]:
        """The variants of PD-Net's recipe; none where only the recipe itself has runs."""
        choice = self.choice("pd-net")
        if choice is None:
            return ()
        lines = [self._line(label, spec) for label, spec in variants(choice.spec).items()]
        if not any(line.test for line in lines[1:]):
            return ()
        ps = holm(_p(self.dataset, self.splits, line, lines[0]) for line in lines[1:])
        return (
            lines[0],
            *(replace(line, p={"as tuned": p}) for line, p in zip(lines[1:], ps, strict=True)),
        )

    def _average(self, method: Method) -> Line:
        network, trees = self.choice("pd-net"), self.choice("pd-trees")
        if network is None or trees is None:
            return Line(method.label)
        places = [(s, seed) for s in self.splits for seed in FRESH_SEEDS]
        rows = (
            average_specs(network.spec, trees.spec, places, crossed=crossed)
            for crossed in (True, False)
        )
        best = next(filter(None, (best_average(some, self.results) for some in rows)), None)
        if best is None:
            return Line(method.label, wanted=len(places))
        weight = float(best.spec.options["weight"] or 0)
        line = _scored(method.label, best.spec, best.results, len(places))
        return replace(line, tried=network.settings + trees.settings, weight=weight)

    def _line(self, label: str, spec: RunSpec) -> Line:
        wanted = final_specs(spec, self.splits)
        found = [self.results[s.key] for s in wanted if s.key in self.results]
        return _scored(label, spec, found, len(wanted))


def _scored(label: str, spec: RunSpec, results: Sequence[RunResult], wanted: int) -> Line:
    return Line(
        label,
        spec,
        val=tuple(100 * r.val for r in results),
        test=tuple(100 * r.test for r in results),
        places=tuple((r.spec.split, r.spec.seed) for r in results),
        wanted=wanted,
    )


def _compared(
    lines: Mapping[tuple[str, str], Line], gathered: Mapping[str, _Gathered]
) -> dict[tuple[str, str], Line]:
    """The lines with p against each rival, adjusted by Holm over the table."""
    rivals = {
        (dataset, name): lines.get((dataset, name))
        or gathered[dataset].line(check_methods([name])[0])
        for dataset in gathered
        for name in RIVALS
    }
    found = {
        (place, name): _p(place[0], gathered[place[0]].splits, line, rivals[place[0], name])
        for place, line in lines.items()
        for name in RIVALS
        if place[1] not in RIVALS
    }
    adjusted = dict(zip(found, holm(found.values()), strict=True))
    return {
        place: replace(line, p={n: adjusted[place, n] for n in RIVALS if (place, n) in adjusted})
        for place, line in lines.items()
    }


def _p(dataset: str, splits: Sequence[int], one: Line, other: Line) -> float:
    """Of the corrected paired t test over splits; nan where they do not share a seed on each."""
    ours, theirs = one.beside(other)
    if len(ours) < len(splits):
        return math.nan
    return paired(ours, theirs, test_share=share_of(dataset))
