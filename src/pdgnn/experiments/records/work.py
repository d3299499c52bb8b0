"""The work of ``pdgnn records``: searches by validation, final runs with fresh seeds, ablations."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any

from pdgnn.errors import InputError, check_whole
from pdgnn.experiments.estimate import CellPlan, ReproductionPlan
from pdgnn.experiments.means import Means, TimeUpError, Until
from pdgnn.experiments.records.ablation import variants
from pdgnn.experiments.records.average import average_specs, averaged, halves
from pdgnn.experiments.records.outcome import (
    RecordTable,
    choice_of,
    final_specs,
    gather_records,
    replayed,
    search_of,
)
from pdgnn.experiments.records.spaces import (
    FRESH_SEEDS,
    METHODS,
    OWN_MODELS,
    SPLITS,
    Method,
    check_datasets,
    check_methods,
    space,
)
from pdgnn.experiments.records.trees import TreesEngine, check_installed
from pdgnn.experiments.records.winners import Choice
from pdgnn.training.engines import Engine
from pdgnn.training.provenance import PACKAGES, call, machine
from pdgnn.training.spec import PRECISIONS, RunResult, RunSpec
from pdgnn.training.stages import Staged
from pdgnn.training.store import Store, StoredRun, is_begun, read_runs
from pdgnn.training.task import Task
from pdgnn.training.trainer import train

__all__ = ["PARTS", "Records", "RecordsRequest"]

PARTS = ("search", "final", "ablation")


@dataclass(frozen=True, kw_only=True)
class RecordsRequest:
    """Which graphs, which methods, and what shall be done.

    `parts` are of :data:`PARTS`. A final run is of the setting that a search in the same store has
    chosen, or else of the package's.
    """

    datasets: Sequence[str] | None = None
    methods: Sequence[str] | None = None
    parts: Sequence[str] = ()
    splits: Sequence[int] | None = None  # the ten of the protocol
    seeds: int = len(FRESH_SEEDS)  # of each split, in final runs and ablations
    precision: str = "float32"  # of networks
    root: str | PathLike[str] | None = None

    def __post_init__(self) -> None:
        """Check what can be checked without the data."""
        check_datasets(self.datasets)
        check_methods(self.methods)
        if wrong := [part for part in self.parts if part not in PARTS]:
            raise InputError(f"unknown part {wrong[0]!r}; choose among {', '.join(PARTS)}")
        if self.precision not in PRECISIONS:
            raise InputError(
                f"unknown precision {self.precision!r}; choose one of {', '.join(PRECISIONS)}"
            )
        for split in self.splits or ():
            check_whole("split", split, 0)
        check_whole("seeds", self.seeds, 1, below=len(FRESH_SEEDS) + 1)
        if self.averages and self.seeds < len(FRESH_SEEDS):
            raise InputError(
                f"an average is one of all {len(FRESH_SEEDS)} seeds; name other --models for fewer"
            )
        if "ablation" in self.parts and METHODS["pd-net"] not in check_methods(self.methods):
            raise InputError("an ablation is one of pd-net; name it among the models too")

    @property
    def all_splits(self) -> tuple[int, ...]:
        """Those that were asked for, or all ten."""
        return SPLITS if self.splits is None else tuple(dict.fromkeys(self.splits))

    @property
    def trained(self) -> list[Method]:
        """The methods that train something."""
        return [method for method in check_methods(self.methods) if method.model]

    def final_specs(self, spec: RunSpec) -> list[RunSpec]:
        """A setting on the splits and seeds that were asked for."""
        return final_specs(spec, self.all_splits, FRESH_SEEDS[: self.seeds])

    @property
    def averages(self) -> bool:
        """Whether final runs shall be averaged."""
        return "final" in self.parts and METHODS["average"] in check_methods(self.methods)


class Records:
    """The work on the records; all that is finished is in the store of `means`."""

    def __init__(self, request: RecordsRequest, means: Means) -> None:
        if means.store is None:
            raise InputError("records are kept in a store; name its file")
        self.request, self.means, self.store = request, means, Path(means.store)
        self._datasets = check_datasets(request.datasets)
        self._tasks: dict[str, Task] = {}
        self._results: dict[str, dict[str, RunResult]] = {}  # by graph and key
        self._facts: dict[bool, Mapping[str, Any]] = {}
        self._networks: Engine = means.found_engine()
        self._trees: Engine = TreesEngine(means.workers)

    # --- what there is to do ----------------------------------------------------------------------

    def plan(self) -> ReproductionPlan:
        """The runs that are missing; where a search comes first, the most that there can be."""
        return ReproductionPlan(tuple(cell for d in self._datasets for cell in self._plans(d)))

    def _plans(self, dataset: str) -> Iterator[CellPlan]:
        results = self._known(dataset)
        for method in self.request.trained:
            if "search" in self.request.parts:
                staged = self._staged(dataset, method.name)
                replayed(staged, results)
                done = sum(spec.key in results for spec in staged.specs())
                runs = tuple(staged.most_runs())
                yield CellPlan(method.label, dataset, len(staged.candidates), runs, done)
            if "final" in self.request.parts:
                yield self._final_plan(dataset, method)
        if self.request.averages:
            yield from self._average_plan(dataset)
        if "ablation" in self.request.parts:
            yield from self._ablation_plan(dataset)

    def _average_plan(self, dataset: str) -> Iterator[CellPlan]:
        """The network once more on either half of the validation nodes."""
        if (found := self.choice(dataset, "pd-net")) is not None:
            for name in self._halves(dataset):
                runs = self.request.final_specs(replace(found.spec, dataset=name))
                done = sum(run.key in self._known(name) for run in runs)
                stages = ((len(runs), found.spec.steps),)
                yield CellPlan("PD-Net, for the average", name, 1, stages, done)

    def _ablation_plan(self, dataset: str) -> Iterator[CellPlan]:
        if "search" not in self.request.parts:
            self._needed(dataset, "pd-net")
        if (found := self.choice(dataset, "pd-net")) is not None:
            made, results = list(variants(found.spec).values()), self._known(dataset)
            runs = [run for spec in made for run in self.request.final_specs(spec)]
            done = sum(run.key in results for run in runs)
            stages = ((len(runs), found.spec.steps),)
            yield CellPlan("PD-Net, ablation", dataset, len(made), stages, done)

    def _final_plan(self, dataset: str, method: Method) -> CellPlan:
        if "search" not in self.request.parts:
            self._needed(dataset, method.name)
        found = self.choice(dataset, method.name)
        settings = self._space(dataset, method.name) if found is None else [found.spec]
        runs = self.request.final_specs(settings[0])
        done = 0 if found is None else sum(run.key in self._known(dataset) for run in runs)
        stages = ((len(runs), max(spec.steps for spec in settings)),)
        return CellPlan(f"{method.label}, final", dataset, 1, stages, done)

    def choice(self, dataset: str, method: str) -> Choice | None:
        """The setting of a method: of the search in this store if that is finished."""
        request, results = self.request, self._known(dataset)
        return choice_of(method, dataset, request.all_splits, request.precision, results)

    def _needed(self, dataset: str, method: str) -> RunSpec:
        found = self.choice(dataset, method)
        if found is None:
            raise InputError(
                f"no setting of {method} on {dataset} was measured yet; find one first: "
                f"pdgnn records --datasets {dataset} --models {method} --search"
            )
        return found.spec

    def _staged(self, dataset: str, method: str) -> Staged:
        return search_of(method, dataset, self.request.all_splits, self.request.precision)

    def _space(self, dataset: str, method: str) -> list[RunSpec]:
        return space(method, dataset, precision=self.request.precision)

    # --- the work ---------------------------------------------------------------------------------

    def run(self) -> bool:
        """Do all parts, graph by graph; False if the minutes were over before."""
        request = self.request
        if request.parts and any(m.name == "pd-trees" for m in request.trained):
            check_installed()
        if self.means.minutes is not None:
            moment = time.monotonic() + 60 * self.means.minutes
            self._networks, self._trees = Until(self._networks, moment), Until(self._trees, moment)
        try:
            for dataset in self._datasets:
                self._run(dataset)
        except TimeUpError:
            return False
        return True

    def _run(self, dataset: str) -> None:
        for method in self.request.trained:
            if "search" in self.request.parts:
                self._search(dataset, method)
        if "final" in self.request.parts:
            for method in self.request.trained:
                self._final(dataset, method)
        if self.request.averages:
            self._average(dataset)
        if "ablation" in self.request.parts:
            self._ablation(dataset)

    def _search(self, dataset: str, method: Method) -> None:
        staged = self._staged(dataset, method.name)
        stages = len(staged.stages)
        while not staged.ended:
            specs = staged.specs()
            missing = [spec for spec in specs if spec.key not in self._known(dataset)]
            if missing:
                self.means.say(
                    f"{dataset}, stage {staged.number + 1} of {stages}: {len(staged.alive)} "
                    f"settings of {method.label}; {len(missing):,} of {len(specs):,} runs to train"
                )
                self._train(dataset, missing)
            staged.advance(self._known(dataset))
        if (found := self.choice(dataset, method.name)) is not None:
            self.means.say(
                f"{dataset}: of {found.settings} settings of {method.label} validation chose one "
                f"with {100 * found.val:.2f}"
            )

    def _final(self, dataset: str, method: Method) -> None:
        specs = self.request.final_specs(self._needed(dataset, method.name))
        missing = [spec for spec in specs if spec.key not in self._known(dataset)]
        if missing:
            self.means.say(f"{dataset}: {len(missing)} final runs of {method.label}")
            self._train(dataset, missing, keep=("logits",))

    def _average(self, dataset: str) -> None:
        """All weights on all splits and seeds, of the logits that the final runs have kept.

        Runs that have kept none, such as those of an export, are trained again.
        """
        network, trees = (self._needed(dataset, name) for name in ("pd-net", "pd-trees"))
        splits, task = self.request.all_splits, self._task(dataset)
        specs = average_specs(network, trees, [(s, n) for s in splits for n in FRESH_SEEDS])
        if all(spec.key in self._known(dataset) for spec in specs):
            return
        wanted = self.request.final_specs
        crossed = [
            self._train(name, wanted(replace(network, dataset=name)), keep=("logits",))
            for name in self._halves(dataset)
        ]
        networks, tabular = (
            self._train(dataset, wanted(spec), keep=("logits",)) for spec in (network, trees)
        )
        found = averaged(specs, networks, tabular, task, crossed)
        with Store(self.store) as store:
            about = store.provenance_id(self._about())
            store.add(found, {dataset: task.fingerprint()}, about)
        self._known(dataset).update({r.spec.key: r for r in found})

    def _halves(self, dataset: str) -> list[str]:
        """What the two tasks with half of the validation nodes are called."""
        made = {half.name: half for half in halves(self._task(dataset))}
        self._tasks.update(made)
        return list(made)

    def _ablation(self, dataset: str) -> None:
        """All variants at once, as workers share out groups of runs, of which a variant is one."""
        made = variants(self._needed(dataset, "pd-net")).values()
        specs = [run for spec in made for run in self.request.final_specs(spec)]
        missing = [run for run in specs if run.key not in self._known(dataset)]
        if missing:
            self.means.say(f"{dataset}: {len(missing)} runs of {len(made)} variants of PD-Net")
            self._train(dataset, missing)

    def _train(
        self, dataset: str, specs: Sequence[RunSpec], *, keep: Sequence[str] = ()
    ) -> list[RunResult]:
        means = self.means
        trees = specs[0].model in OWN_MODELS
        found = train(
            specs,
            models=OWN_MODELS,
            tasks={dataset: self._task(dataset)},
            device="cpu" if trees else means.device,
            keep=keep,
            store=self.store,
            engine=self._trees if trees else self._networks,
            provenance=self._about(trees=trees),
            most_runs=None if trees else means.most_runs,
            recompute=means.recompute,
            save_seconds=means.save_seconds,
            progress=means.progress,
        )
        plain = (replace(r, logits=None) for r in found)
        self._known(dataset).update({s.key: r for s, r in zip(specs, plain, strict=True)})
        return found

    def _about(self, *, trees: bool = False) -> Mapping[str, Any]:
        """Facts about the machine and the command, the same for all runs of one kind."""
        if trees not in self._facts:
            self._facts[trees] = self._new_facts(trees=trees)
        return self._facts[trees]

    def _new_facts(self, *, trees: bool) -> Mapping[str, Any]:
        packages = (*PACKAGES, "lightgbm", "scikit-learn") if trees else PACKAGES
        command = self.means.command or "pdgnn.experiments.records.Records"
        return machine(packages) | call(command, "cpu" if trees else self.means.device)

    # --- what came of it --------------------------------------------------------------------------

    def table(self) -> RecordTable:
        """The table of all that is finished in the store."""
        runs = [
            StoredRun(result, "", None, "")
            for dataset in self._datasets
            for result in self._known(dataset).values()
        ]
        request = self.request
        return gather_records(
            runs, datasets=request.datasets, methods=request.methods, splits=request.all_splits
        )

    def _task(self, dataset: str) -> Task:
        if dataset not in self._tasks:
            task = Task.open(dataset, self.request.root)
            if (highest := max(self.request.all_splits)) >= task.num_splits:
                raise InputError(
                    f"{dataset} has splits 0 to {task.num_splits - 1}; there is no {highest}"
                )
            self._tasks[dataset] = task
        return self._tasks[dataset]

    @cached_property
    def _stored(self) -> list[StoredRun]:
        """What was finished before; read once for all graphs."""
        return read_runs(self.store)[0] if is_begun(self.store) else []

    def _known(self, dataset: str) -> dict[str, RunResult]:
        """The finished runs on a graph by key; where there is work to do, of the data at hand."""
        if dataset not in self._results:
            mine = [run for run in self._stored if run.result.spec.dataset == dataset]
            if self.request.parts:
                data = self._task(dataset).fingerprint()
                mine = [run for run in mine if run.data == data]
            self._results[dataset] = {run.result.spec.key: run.result for run in mine}
        return self._results[dataset]
