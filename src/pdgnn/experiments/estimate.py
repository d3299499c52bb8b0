"""What a reproduction takes, before it begins: runs of each stage, and a guess of the time."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from pdgnn.experiments.reproduction import CellSearch, Reproduction
from pdgnn.models import Model
from pdgnn.training.cost import step_seconds
from pdgnn.training.spec import RunResult, RunSpec
from pdgnn.training.stages import Staged
from pdgnn.training.store import Store, is_begun
from pdgnn.training.task import Task
from pdgnn.training.trainer import train

__all__ = ["CellPlan", "ReproductionPlan", "make_plan"]

PROBE_STEPS = {"cpu": (1, 5), "cuda": (10, 60)}
"""A short and a long training, in steps: the difference of their times is that of the steps."""
PROBE_RUNS = {"cpu": 1, "cuda": 20}
SLOW_SECONDS = 10.0
"""Where the short training takes longer, nothing is measured beyond it."""


@dataclass(frozen=True)
class CellPlan:
    """A row on a dataset: its settings, and the runs and steps of each stage.

    Which settings go on to a stage is known once the stage before is finished; until then its runs
    are the most that there can be. `done` runs are finished, those of the first stages first.
    """

    label: str
    dataset: str
    settings: int
    stages: tuple[tuple[int, int], ...]  # runs, steps
    done: int
    seconds: float | None = None  # nobody has measured

    @property
    def runs(self) -> int:
        """Runs of all stages."""
        return sum(runs for runs, _ in self.stages)

    @property
    def run_steps(self) -> int:
        """Steps of all runs that are not finished."""
        found, done = 0, self.done
        for runs, steps in self.stages:
            found += max(runs - done, 0) * steps
            done = max(done - runs, 0)
        return found


@dataclass(frozen=True)
class ReproductionPlan:
    """Of all rows and datasets."""

    cells: tuple[CellPlan, ...]

    @property
    def runs(self) -> int:
        """At most; runs that two rows share count twice."""
        return sum(cell.runs - cell.done for cell in self.cells)

    @property
    def run_steps(self) -> int:
        """At most."""
        return sum(cell.run_steps for cell in self.cells)

    @property
    def seconds(self) -> float | None:
        """A rough upper bound; None if nothing was measured."""
        known = [cell.seconds for cell in self.cells if cell.seconds is not None]
        return sum(known) if len(known) == len(self.cells) else None


def make_plan(work: Reproduction, *, measure: bool = True) -> ReproductionPlan:
    """What there is to do, and how long it takes.

    On each dataset a few steps of one model are timed; other models and depths are set in
    proportion by what :mod:`pdgnn.training.cost` says of them. Eigenvectors come on top.
    """
    plans = []
    for dataset in work.request.all_datasets:
        cells = work.searches(dataset)
        found = [_cell_plan(work, cell) for cell in cells]
        if measure and any(plan.run_steps for plan in found):
            task, models = work.tasks[dataset], work.request.models
            pace = _pace(cells, task, models, work.means.device)
            found = [
                replace(plan, seconds=pace.seconds(plan, _cost(cell, task, models)))
                for plan, cell in zip(found, cells, strict=True)
            ]
        plans += found
    return ReproductionPlan(tuple(plans))


def _cell_plan(work: Reproduction, cell: CellSearch) -> CellPlan:
    """The search followed as far as the store has its runs, without training any."""
    staged = Staged(cell.settings, cell.staged.stages, cell.staged.splits)
    stages, done = list[tuple[int, int]](), 0
    while not staged.ended:
        specs = staged.specs()
        curves = work.means.curves and staged.left == 1
        found = _finished(work, cell.dataset, specs, curves=curves)
        done += len(found)
        if len(found) < len(specs):
            stages += staged.most_runs()
            break
        stages.append((len(specs), specs[0].steps))
        staged.advance(found)
    return CellPlan(cell.row.label, cell.dataset, len(cell.settings), tuple(stages), done)


def _finished(
    work: Reproduction, dataset: str, specs: Sequence[RunSpec], *, curves: bool
) -> dict[str, RunResult]:
    """Those of the runs that the store has, by key; with `curves` those that have theirs."""
    file = work.means.store
    if file is None or not is_begun(file):
        return {}
    data = work.tasks[dataset].fingerprint()
    with Store(file, writable=False) as store:
        found = store.results([(data, spec.key) for spec in specs], curves=curves)
    return {key: result for (_, key), result in found.items()}


def _cost(cell: CellSearch, task: Task, models: Mapping[str, Model]) -> float:
    """Of a step of a run, relative to others: the mean over the depths."""
    depths = {s.spec.depth: s.spec for s in cell.settings}
    costs = [step_seconds(spec, task, "cpu", models) for spec in depths.values()]
    return sum(costs) / len(costs)


@dataclass(frozen=True)
class _Pace:
    """What was measured on a dataset."""

    begin: float  # seconds of a run before its first step
    step: float  # seconds of a step for each second that it is estimated at

    def seconds(self, plan: CellPlan, cost: float) -> float:
        return self.begin * (plan.runs - plan.done) + self.step * cost * plan.run_steps


def _pace(
    cells: Sequence[CellSearch], task: Task, models: Mapping[str, Model], device: str
) -> _Pace:
    """By two short trainings of one model at a middle depth, after one that compiles kernels."""
    middle = cells[0].settings[len(cells[0].settings) // 2].spec
    count, (few, more) = PROBE_RUNS[device], PROBE_STEPS[device]
    specs = [replace(middle, split=i % task.num_splits, seed=i) for i in range(count)]
    _timed(specs, 1, task, models, device)
    short = _timed(specs, few, task, models, device)
    if short > SLOW_SECONDS:
        step, begin = short / few, 0.0
    else:
        step = max(_timed(specs, more, task, models, device) - short, 0.0) / (more - few)
        begin = max(short - few * step, 0.0)
    return _Pace(begin / count, step / count / step_seconds(middle, task, "cpu", models))


def _timed(
    specs: Sequence[RunSpec], steps: int, task: Task, models: Mapping[str, Model], device: str
) -> float:
    begun = time.perf_counter()
    runs = [replace(spec, steps=steps) for spec in specs]
    train(runs, tasks={runs[0].dataset: task}, models=models, device=device)
    return time.perf_counter() - begun
