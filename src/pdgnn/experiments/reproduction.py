"""The paper's experiments made anew: a plan, the runs, and the table with the published values."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from os import PathLike
from typing import TYPE_CHECKING, Any

from pdgnn.errors import InputError
from pdgnn.experiments.catalog import find_experiment
from pdgnn.experiments.figure1 import FULL, Figure1, figure1, figure1_specs
from pdgnn.experiments.gather import Counts, beyond_with_runs, gather
from pdgnn.experiments.grid import Setting, check_search, drawn, row_settings
from pdgnn.experiments.means import Means, TimeUpError, Until
from pdgnn.experiments.outcome import FactTable, Row, ScoreTable
from pdgnn.experiments.request import Request
from pdgnn.experiments.scopes import Classes, Scope, rewired_classes
from pdgnn.models import Model, find_model
from pdgnn.training.engines import Engine
from pdgnn.training.loop import Progress
from pdgnn.training.provenance import call, machine
from pdgnn.training.spec import RunResult, RunSpec
from pdgnn.training.stages import Staged, usual_stages
from pdgnn.training.store import StoredRun, is_begun, read_runs
from pdgnn.training.task import Task
from pdgnn.training.trainer import train

if TYPE_CHECKING:
    from pdgnn.training.trackers import Tracker

__all__ = ["CellSearch", "Reproduction", "reproduce"]


@dataclass
class CellSearch:
    """The search of a row on a dataset."""

    row: Row
    dataset: str
    settings: list[Setting]
    staged: Staged

    def counts(self, done: Callable[[list[RunSpec]], int]) -> Counts:
        """Settings, finished runs and wanted runs; of later stages the most that there can be."""
        begun = self.staged.begun()
        later = sum(runs for runs, _ in self.staged.most_runs()[1:])
        return Counts(len(self.settings), done(begun), len(begun) + later)


class Reproduction:
    """A table of scores in the making.

    Datasets are opened when they are asked for, and stay open. One that is not there is left out
    and told of, unless it was asked for by name.
    """

    def __init__(self, request: Request, means: Means | None = None) -> None:
        self.request, self.means = request, means or Means()
        self._engine = self.means.found_engine()
        self.results: dict[str, RunResult] = {}  # of this process, by key
        self.tasks: dict[str, Task] = {}
        self.cells: dict[str, list[CellSearch]] = {}  # by dataset
        self._classes: dict[str, Classes] = {}
        self._tracker: Tracker | None = None

    # --- what there is to do ----------------------------------------------------------------------

    def searches(self, dataset: str) -> list[CellSearch]:
        """The searches of all rows on a dataset; none if it is not there."""
        if dataset not in self.cells:
            task = self._open(dataset)
            found = (
                []
                if task is None
                else [self._cell(row, dataset) for row in self.request.trained_rows]
            )
            self.cells[dataset] = [cell for cell in found if cell is not None]
        return self.cells[dataset]

    def _open(self, dataset: str) -> Task | None:
        try:
            self.tasks[dataset] = Task.open(dataset, self.request.root)
        except (InputError, OSError) as e:
            if self.request.datasets is not None:
                raise
            self.means.say(f"{dataset} is left out: {e}")
            return None
        return self.tasks[dataset]

    def _cell(self, row: Row, dataset: str) -> CellSearch | None:
        request = self.request
        settings = row_settings(
            row,
            request.base(dataset),
            find_model(row.model, request.models),
            request.search,
            classes=partial(self._rewired, dataset),
        )
        settings = drawn(settings, request.most_settings)
        if not settings:
            self.means.say(
                f"{row.label} on {dataset} stays empty: the paper does not say its (α, γ); a "
                "coarse or full search finds them"
            )
            return None
        stages = usual_stages(len(settings), exhaustive=request.exhaustive)
        staged = Staged(settings, stages, request.splits_of(self.tasks[dataset]))
        return CellSearch(row, dataset, settings, staged)

    def _rewired(self, dataset: str, scopes: Sequence[Scope]) -> Classes:
        found = rewired_classes(self.tasks[dataset], scopes)
        if len(found) > len(self._classes.get(dataset, {})):
            self._classes[dataset] = found
        return found

    # --- the work ---------------------------------------------------------------------------------

    def run(self) -> bool:
        """Train what is missing, dataset by dataset; False if the minutes were over before."""
        engine = self._engine
        self._tracker = self.means.found_tracker()
        if self.means.minutes is not None:
            engine = Until(engine, time.monotonic() + 60 * self.means.minutes)
        about = machine() | call(self.means.command or self._call(), self.means.device)
        try:
            for dataset in self.request.all_datasets:
                for batch in self._batches(self.searches(dataset)):
                    self._search(batch, engine, about)
        except TimeUpError:
            return False
        finally:
            if self._tracker is not None:
                self._tracker.close()
        return True

    def _call(self) -> str:
        r = self.request
        return f"reproduce({r.name!r}, search={r.search.value!r}, steps={r.steps})"

    def _batches(self, cells: list[CellSearch]) -> list[list[CellSearch]]:
        """The rows to search together: all of them, or one after the other under a time limit."""
        if self.means.minutes is None:
            return [cells] if cells else []
        found: dict[tuple[str, bool], list[CellSearch]] = {}
        for cell in cells:
            found.setdefault((cell.row.model, cell.row.rewired), []).append(cell)
        return list(found.values())

    def _search(self, cells: list[CellSearch], engine: Engine, about: Mapping[str, Any]) -> None:
        """All stages of these; the shorter searches begin later, and all end together."""
        stages = max(cell.staged.left for cell in cells)
        for left in range(stages, 0, -1):
            active = [cell for cell in cells if cell.staged.left == left]
            specs = {spec.key: spec for cell in active for spec in cell.staged.specs()}
            self.means.say(_stage_text(active, f"stage {stages - left + 1} of {stages}", specs))
            self._train(list(specs.values()), engine, about, curves=left == 1)
            for cell in active:
                cell.staged.advance(self.results)

    def _train(
        self, specs: list[RunSpec], engine: Engine, about: Mapping[str, Any], *, curves: bool
    ) -> None:
        means = self.means
        found = train(
            specs,
            models=self.request.models,
            tasks=self.tasks,
            device=means.device,
            store=means.store,
            engine=engine,
            tracker=self._tracker,
            provenance=about,
            curves=curves and means.curves,
            most_runs=means.most_runs,
            recompute=means.recompute,
            save_seconds=means.save_seconds,
            progress=means.progress,
        )
        self.results |= {spec.key: r for spec, r in zip(specs, found, strict=True)}

    # --- what came of it --------------------------------------------------------------------------

    def table(self) -> ScoreTable:
        """The table of all that is finished, in this process or in the store."""
        request, runs = self.request, self._runs()
        done = {(run.result.spec.dataset, run.result.spec.key) for run in runs}

        def finished(specs: list[RunSpec]) -> int:
            return sum((spec.dataset, spec.key) in done for spec in specs)

        return gather(
            request.name,
            runs,
            steps=request.steps,
            splits={name: request.splits_of(task) for name, task in self.tasks.items()}
            if request.splits is None
            else request.splits,
            width=request.width,
            rows=request.shown_rows(beyond_with_runs(request.experiment, runs)),
            datasets=request.all_datasets,
            classes=self._classes,
            metrics={name: task.metric for name, task in self.tasks.items()},
            counts={
                (cell.row.label, cell.dataset): cell.counts(finished)
                for cells in self.cells.values()
                for cell in cells
            },
        )

    def _runs(self) -> list[StoredRun]:
        """Of the data at hand, where it was opened."""
        if self.means.store is None:
            return [
                StoredRun(r, self.tasks[r.spec.dataset].fingerprint(), None, "")
                for r in self.results.values()
            ]
        runs = read_runs(self.means.store)[0] if is_begun(self.means.store) else []
        data = {name: task.fingerprint() for name, task in self.tasks.items()}
        return [r for r in runs if data.get(r.result.spec.dataset, r.data) == r.data]


def _stage_text(cells: list[CellSearch], stage: str, specs: Mapping[str, RunSpec]) -> str:
    labels = ", ".join(cell.row.label for cell in cells)
    settings = sum(len(cell.staged.alive) for cell in cells)
    steps = max((spec.steps for spec in specs.values()), default=0)
    return (
        f"{cells[0].dataset}, {stage}: {settings} settings of {labels}; {len(specs)} runs of "
        f"{steps} steps"
    )


def reproduce(
    name: str,
    *,
    models: Mapping[str, Model] | None = None,
    rows: Sequence[str] | None = None,
    datasets: Sequence[str] | None = None,
    splits: Sequence[int] | None = None,
    steps: int = 1000,
    search: str = "published",
    exhaustive: bool = False,
    most_settings: int | None = None,
    width: int = 512,
    device: str = "cpu",
    precision: str = "float32",
    store: str | PathLike[str] | None = None,
    engine: str | Engine | None = None,
    workers: int = 1,
    address: str | None = None,
    tracker: str | Tracker | None = None,
    minutes: float | None = None,
    most_runs: int | None = None,
    curves: bool = False,
    root: str | PathLike[str] | None = None,
    progress: Callable[[Progress], None] | None = None,
    tell: Callable[[str], None] | None = None,
) -> ScoreTable | FactTable | Figure1:
    """Make a table or figure of the paper anew; what `store` has already is not trained again.

    Depth and (α, γ) are searched for by successive halving (:mod:`pdgnn.training.stages`): all
    settings on few splits and steps, the best on all splits and to the end.

    Args:
        name: One of :data:`~pdgnn.experiments.catalog.EXPERIMENTS`. The facts ("datasets",
            "homophily", "hyperparameters") train nothing; "figure1" takes its own settings.
        models: The user's own models, each a row; one that uses α or γ is searched like ours.
        rows: Which rows are trained and shown; default: all. An empty list trains the user's own
            alone, and shows all.
        datasets: Names of the experiment's, or whatever else :meth:`pdgnn.training.Task.open`
            opens; default: all of the experiment that are there.
        splits: Default: the first ten.
        steps: Of a run that is trained to the end.
        search: ``"published"`` (the paper's (α, γ)), ``"coarse"`` (25 of them and the paper's) or
            ``"full"`` (all 121); five depths each.
        exhaustive: Whether to train every setting to the end.
        most_settings: Where a row has more on a dataset, so many are drawn by a fixed seed.
        width: Of the layers; 512 in the paper.
        device: ``"cpu"`` or ``"cuda"``.
        precision: As of a :class:`~pdgnn.training.RunSpec`.
        store: The file that keeps finished runs; default: none.
        engine: ``"here"``, ``"processes"`` or ``"ray"``, or an engine.
        workers: Processes; see :func:`pdgnn.training.engines.find_engine`.
        address: Of a Ray cluster.
        tracker: ``"tensorboard:FOLDER"``, ``"mlflow:URI"``, or a tracker.
        minutes: Begin no group of runs after so many; rows are then searched one after the other.
        most_runs: The most runs to train at once; see :func:`~pdgnn.training.train`.
        curves: Whether to keep the curves of the runs that are trained to the end; those that were
            finished without are trained again.
        root: The folder of the datasets.
        progress: As for :func:`~pdgnn.training.train`.
        tell: Called with a line about each stage, and about what is left out.
    """
    means = Means(
        device=device,
        store=store,
        engine=engine,
        workers=workers,
        address=address,
        tracker=tracker,
        minutes=minutes,
        most_runs=most_runs,
        curves=curves,
        progress=progress,
        tell=tell,
    )
    kind = find_experiment(name).kind
    if kind == "facts":
        return _facts(name, datasets, means, root)
    if kind == "figure":
        return _figure1(means, root)
    request = Request(
        name=name,
        models=models or {},
        rows=rows,
        datasets=datasets,
        splits=splits,
        steps=steps,
        search=check_search(search),
        exhaustive=exhaustive,
        most_settings=most_settings,
        width=width,
        precision=precision,
        root=root,
    )
    work = Reproduction(request, means)
    work.run()
    return work.table()


def _facts(
    name: str,
    datasets: Sequence[str] | None,
    means: Means,
    root: str | PathLike[str] | None,
) -> FactTable:
    from pdgnn.experiments.facts import fact_table

    runs = [] if means.store is None else read_runs(means.store)[0]
    return fact_table(name, root=root, runs=runs, datasets=datasets)


def _figure1(means: Means, root: str | PathLike[str] | None) -> Figure1:
    about = machine() | call(means.command or "reproduce('figure1')", means.device)
    found = train(
        figure1_specs(),
        root=root,
        device=means.device,
        store=means.store,
        engine=means.found_engine(),
        provenance=about,
        progress=means.progress,
    )
    return figure1(found, FULL)
