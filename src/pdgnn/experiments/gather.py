"""A table of scores out of finished runs, whichever search or command made them.

Only runs of the paper's protocol count: its learning rate, dropout and so on, on Cora, CiteSeer and
PubMed those of its Appendix E too, or of one of the other systems a setting of its grid; and the
number of the split for a seed. No data need be on disk.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING

from pdgnn.baselines.grids import APPENDIX_E, GRIDS
from pdgnn.experiments.catalog import (
    PAPER_DATASETS,
    Experiment,
    find_experiment,
    metric_of,
    paper_name,
)
from pdgnn.experiments.grid import (
    UNTUNED,
    in_appendix,
    representatives,
    system_settings,
    system_steps,
)
from pdgnn.experiments.outcome import Cell, Row, ScoreTable, Tried
from pdgnn.experiments.paper import scope as paper_scope
from pdgnn.experiments.scopes import Classes, Scope, known_classes
from pdgnn.models import MODELS
from pdgnn.training.spec import RunSpec

if TYPE_CHECKING:
    from pdgnn.training.store import StoredRun

__all__ = ["Counts", "beyond_with_runs", "gather"]

PROTOCOL = RunSpec(dataset="any", model="any")
FIXED = ("heads", "reach", "patience")
"""Fields of a run that must be the protocol's; those that Appendix E searches may be of that."""
SPLITS = tuple(range(10))
PRECISIONS = ("float64", "float32", "tf32", "bfloat16")
"""The ones that count before others."""

_Place = tuple[str, str, bool]  # dataset, model, rewired
_Point = tuple[int, float, float, str]  # depth, α, γ, and what else its own setting has


@dataclass(frozen=True)
class Counts:
    """What a search knows of a cell."""

    settings: int
    runs_done: int
    runs_wanted: int


def gather(
    name: str,
    runs: Sequence[StoredRun],
    *,
    steps: int | None = None,
    splits: Sequence[int] | Mapping[str, Sequence[int]] | None = None,
    width: int | None = None,
    rows: Sequence[Row] | None = None,
    datasets: Sequence[str] | None = None,
    classes: Mapping[str, Classes] | None = None,
    metrics: Mapping[str, str] | None = None,
    counts: Mapping[tuple[str, str], Counts] | None = None,
) -> ScoreTable:
    """The table `name` of :data:`~pdgnn.experiments.catalog.EXPERIMENTS` out of `runs`.

    Args:
        name: ``"table1"``, ``"table2"`` or ``"homophilic"``.
        runs: Finished runs; of those that are the same, the last counts.
        steps: Of a run that was trained to the end; default: 1000, or the most there are.
        splits: That a setting needs, of all datasets or of each; default: 0 to 9, or all there are
            if `steps` is not 1000.
        width: Of the layers; default: 512, or the largest there is.
        rows: The rows; default: those of the experiment, and one for each other model of the runs,
            of the package's own those that the experiment has beyond the paper's.
        datasets: Default: those of the experiment, and others than the paper's that have runs.
        classes: Scopes with the same rewired graph, by dataset; those of the paper's are known.
        metrics: What scores are, by dataset; those of the paper's are known.
        counts: What a search knows of its cells, by row and dataset.
    """
    experiment = find_experiment(name)
    usable = [run for run in runs if _by_protocol(run.result.spec)]
    width = (
        _usual(PROTOCOL.width, {r.result.spec.width for r in usable if _is_ours(r)})
        if width is None
        else width
    )
    usable = _of_width(usable, width)
    if rows is None:
        rows = _rows(experiment, usable)
    if datasets is None:
        datasets = _datasets(experiment, rows, usable)
    mine = {(row.model, row.rewired) for row in rows}
    usable = [
        run
        for run in usable
        if run.result.spec.dataset in datasets
        and (run.result.spec.model, run.result.spec.rewired) in mine
    ]
    if steps is None:
        steps = _usual(PROTOCOL.steps, {run.result.spec.steps for run in usable if _is_ours(run)})
    if splits is None:
        whole = {r.result.spec.split for r in usable if r.result.spec.steps == steps}
        splits = SPLITS if steps == PROTOCOL.steps or not whole else tuple(sorted(whole))
    every = splits if isinstance(splits, Mapping) else dict.fromkeys(datasets, splits)
    index = _Index(usable, steps, {d: tuple(every.get(d, SPLITS)) for d in datasets})
    cells = {}
    for row in rows:
        for dataset in datasets:
            groups = index.groups(row, dataset, (classes or {}).get(dataset))
            count = (counts or {}).get((row.label, dataset))
            tried = index.tried(row, dataset, groups)
            said = experiment.published.get((row.label, dataset))
            done, wanted = index.counts(row, dataset, tried)
            alike = index.alike(row, dataset, groups)
            cells[row.label, dataset] = Cell(
                row,
                dataset,
                said,
                tried,
                settings=len(tried) if count is None else count.settings,
                grid=len(_grid_of(row.model, dataset)) if row.model in GRIDS else 0,
                runs_done=done if count is None else count.runs_done,
                runs_wanted=wanted if count is None else count.runs_wanted,
                alike=alike,
            )
    found = {dataset: (metrics or {}).get(dataset) or metric_of(dataset) for dataset in datasets}
    return ScoreTable(name, experiment.title, tuple(rows), tuple(datasets), found, cells)


def _by_protocol(spec: RunSpec) -> bool:
    if spec.model in GRIDS:
        return spec.seed == spec.split and _own_setting(spec) in _grid_of(spec.model, spec.dataset)
    fixed = FIXED if in_appendix(spec) else (*FIXED, *APPENDIX_E.searched)
    return (
        spec.seed == spec.split
        and all(getattr(spec, name) == getattr(PROTOCOL, name) for name in fixed)
        and set(spec.options) <= set(spec.defaults)
    )


@cache
def _grid_of(model: str, dataset: str) -> frozenset[str]:
    """The settings of a system's grid."""
    base = RunSpec(dataset=dataset, model=model)
    return frozenset(_own_setting(s.spec) for s in system_settings(base, MODELS[model]))


def _own_setting(spec: RunSpec) -> str:
    """What a setting of a system is known by, however far it was trained and in what precision."""
    return replace(spec, split=0, seed=0, steps=1, precision="float32").key


def _of_width(runs: Sequence[StoredRun], width: int) -> list[StoredRun]:
    """Those of a width; a user's model that does not use it has the default in its runs.

    The other systems and Appendix E have their own.
    """
    models = {r.result.spec.model for r in runs if r.result.spec.width == width} | set(MODELS)
    return [
        run
        for run in runs
        if _has_own(run.result.spec)
        or run.result.spec.width == (width if run.result.spec.model in models else PROTOCOL.width)
    ]


def _is_ours(run: StoredRun) -> bool:
    return not _has_own(run.result.spec)


def _has_own(spec: RunSpec) -> bool:
    """Whether more than depth and scope tell its setting from others."""
    return spec.model in GRIDS or in_appendix(spec)


def _usual(usual: int, found: set[int]) -> int:
    return usual if not found or usual in found else max(found)


def _rows(experiment: Experiment, runs: Sequence[StoredRun]) -> list[Row]:
    """Those of the experiment, those beyond it that have runs, then the user's models."""
    found = dict.fromkeys(r.result.spec.model for r in runs if r.result.spec.model not in MODELS)
    scoped = {
        r.result.spec.model for r in runs if (r.result.spec.alpha, r.result.spec.gamma) != UNTUNED
    }
    mine = [Row(model, model, tuned=True if model in scoped else None) for model in found]
    return [*experiment.rows, *beyond_with_runs(experiment, runs), *mine]


def beyond_with_runs(experiment: Experiment, runs: Sequence[StoredRun]) -> list[Row]:
    """The rows that the paper's table lacks and that have runs by the protocol on its graphs."""
    specs = [r.result.spec for r in runs if r.result.spec.dataset in experiment.datasets]
    return [
        row
        for row in experiment.beyond
        if any(
            (spec.model, spec.rewired) == (row.model, row.rewired) and _by_protocol(spec)
            for spec in specs
        )
    ]


def _datasets(
    experiment: Experiment, rows: Sequence[Row], runs: Sequence[StoredRun]
) -> tuple[str, ...]:
    models = {row.model for row in rows if not row.absent}
    used = dict.fromkeys(r.result.spec.dataset for r in runs if r.result.spec.model in models)
    return (*experiment.datasets, *(name for name in used if name not in PAPER_DATASETS))


class _Index:
    """The runs by dataset, model and setting."""

    def __init__(
        self, runs: Sequence[StoredRun], steps: int, splits: Mapping[str, tuple[int, ...]]
    ) -> None:
        self.steps, self.splits = steps, splits
        self.data = {run.result.spec.dataset: run.data for run in runs}  # the last one counts
        self.found: dict[_Place, dict[_Point, list[StoredRun]]] = {}
        for run in runs:
            spec = run.result.spec
            if self.data[spec.dataset] != run.data or spec.split not in splits[spec.dataset]:
                continue
            if spec.steps <= self.steps_of(spec.model):
                place = spec.dataset, spec.model, spec.rewired
                own = _own_setting(spec) if _has_own(spec) else ""
                point = spec.depth, spec.alpha, spec.gamma, own
                self.found.setdefault(place, {}).setdefault(point, []).append(run)

    def steps_of(self, model: str) -> int:
        """Of a run that was trained to the end."""
        return system_steps(model, self.steps) if model in GRIDS else self.steps

    def groups(self, row: Row, dataset: str, given: Classes | None) -> list[tuple[Scope, ...]]:
        """Scopes that are one setting, of a row that rewires and does nothing else with them."""
        model = MODELS.get(row.model)
        if row.tuned is None or not row.rewired or model is None or "gamma" in model.uses:
            return []
        known = given or known_classes(self.data.get(dataset, ""))
        said = paper_scope(paper_name(row), dataset)
        return [] if known is None else representatives(known, said)

    def tried(
        self, row: Row, dataset: str, groups: Sequence[tuple[Scope, ...]]
    ) -> tuple[Tried, ...]:
        """Every setting of a row on a dataset, as far as it was trained."""
        found = self._settings(row, dataset, groups)
        return tuple(self._furthest(runs, group) for group, runs in found)

    def alike(
        self, row: Row, dataset: str, groups: Sequence[tuple[Scope, ...]]
    ) -> tuple[Tried, ...]:
        """The settings that were trained alike, of which there are the most; none of Appendix E."""
        stages: dict[tuple[int, str, tuple[int, ...]], list[Tried]] = {}
        for group, runs in self._settings(row, dataset, groups):
            if row.model not in GRIDS and in_appendix(runs[0].result.spec):
                continue
            parts = _parts(runs)
            for key in parts:
                t = self._tried(key, parts, group)
                stages.setdefault((t.spec.steps, t.spec.precision, t.splits), []).append(t)
        most = max(stages, key=lambda stage: (len(stages[stage]), stage), default=None)
        return () if most is None else tuple(stages[most])

    def _settings(
        self, row: Row, dataset: str, groups: Sequence[tuple[Scope, ...]]
    ) -> list[tuple[tuple[Scope, ...], list[StoredRun]]]:
        """The scopes, if it has some, and the runs of each setting, the shallowest first."""
        of_scope = {scope: group for group in groups for scope in group}
        runs: dict[tuple[int, tuple[Scope, ...], str], list[StoredRun]] = {}
        for (depth, alpha, gamma, own), found in self.found.get(_place(row, dataset), {}).items():
            group = of_scope.get((alpha, gamma), ((alpha, gamma),))
            runs.setdefault((depth, group, own), []).extend(found)
        return [
            (() if row.tuned is None else group, found)
            for (_, group, _), found in sorted(runs.items(), key=lambda item: item[0][0])
            if row.tuned is not False or UNTUNED in group
        ]

    def counts(self, row: Row, dataset: str, tried: Sequence[Tried]) -> tuple[int, int]:
        """Runs that there are, and that there have to be at least for one whole setting."""
        found = self.found.get(_place(row, dataset), {})
        shown = {(t.spec.depth, scope) for t in tried for scope in t.scopes or (_scope(t.spec),)}
        done = sum(len(runs) for (d, a, g, _), runs in found.items() if (d, (a, g)) in shown)
        if row.absent or any(t.whole for t in tried):
            return done, done
        whole = self.steps_of(row.model)
        most = max((len(t.splits) for t in tried if t.spec.steps == whole), default=0)
        return done, done + len(self.splits[dataset]) - most

    def _furthest(self, runs: Sequence[StoredRun], scopes: tuple[Scope, ...]) -> Tried:
        """The runs of one precision and one number of steps that say the most."""
        parts = _parts(runs)

        def rank(key: _Part) -> tuple[bool, int, int, int]:
            precision, steps, _ = key
            return self._whole(key, parts), steps, len(parts[key]), -PRECISIONS.index(precision)

        return self._tried(max(parts, key=rank), parts, scopes)

    def _whole(self, key: _Part, parts: Mapping[_Part, Mapping[int, StoredRun]]) -> bool:
        spec = next(iter(parts[key].values())).result.spec
        return key[1] == self.steps_of(spec.model) and len(parts[key]) == len(
            self.splits[spec.dataset]
        )

    def _tried(
        self,
        key: _Part,
        parts: Mapping[_Part, Mapping[int, StoredRun]],
        scopes: tuple[Scope, ...],
    ) -> Tried:
        chosen = [parts[key][split] for split in sorted(parts[key])]
        own = _scope(chosen[0].result.spec)
        ids = dict.fromkeys(run.provenance for run in chosen if run.provenance is not None)
        return Tried(
            chosen[0].result.spec,
            tuple(run.result.spec.split for run in chosen),
            tuple(100 * run.result.val for run in chosen),
            tuple(100 * run.result.test for run in chosen),
            sum(run.result.seconds for run in chosen),
            self._whole(key, parts),
            tuple(ids),
            (own, *(scope for scope in scopes if scope != own)) if scopes else (),
        )


_Part = tuple[str, int, Scope]  # precision, steps, the scope that stands for others


def _parts(runs: Sequence[StoredRun]) -> dict[_Part, dict[int, StoredRun]]:
    """The runs of a setting, grouped by precision, steps and scope; in a group by split."""
    parts: dict[_Part, dict[int, StoredRun]] = {}
    for run in runs:
        spec = run.result.spec
        parts.setdefault((spec.precision, spec.steps, _scope(spec)), {})[spec.split] = run
    return parts


def _place(row: Row, dataset: str) -> _Place:
    return dataset, row.model, row.rewired


def _scope(spec: RunSpec) -> Scope:
    return spec.alpha, spec.gamma
