"""Many runs at once: grouped by shape, sized to the memory at hand, resumable."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Protocol, TypeVar

import torch
from torch import Tensor

from pdgnn.devices import at_most_threads, check_device
from pdgnn.errors import InputError
from pdgnn.nn.inputs import GraphInputs, prepare
from pdgnn.nn.models import MODELS
from pdgnn.ops import Edges
from pdgnn.spectrum import Spectrum, eigenpairs
from pdgnn.training.checkpoint import Row, RunFolder
from pdgnn.training.group import Group, dtype_of
from pdgnn.training.loop import Progress, Watch, run_steps, runs_that_fit
from pdgnn.training.spec import RunResult, RunSpec
from pdgnn.training.state import RunState
from pdgnn.training.task import Task

__all__ = ["train"]

T = TypeVar("T")


def train(
    specs: Sequence[RunSpec],
    *,
    tasks: Mapping[str, Task] | None = None,
    root: str | PathLike[str] | None = None,
    device: str | torch.device = "cpu",
    curves: bool = False,
    folder: str | Path | None = None,
    save_seconds: float = 60.0,
    most_runs: int | None = None,
    capture: bool = True,
    recompute: bool = False,
    workers: int = 1,
    progress: Callable[[Progress], None] | None = None,
) -> list[RunResult]:
    """Train every run of `specs` and return a result for each, in their order.

    Runs of one shape train together under vmap; on a GPU their step is captured as one CUDA graph.
    A run's parameters and dropout come from its own seed: which others it trains with changes its
    numbers by no more than float rounding. On the CPU runs train one at a time, and so with the
    same bits in any company, unless `most_runs` asks for more at once. Ctrl-C waits for the end of
    a step. A run whose loss is no longer finite ends.

    Args:
        specs: The runs; one given twice is trained once.
        tasks: Data by the name that `spec.dataset` has; others are opened by that name.
        root: The folder of the datasets.
        device: ``"cpu"`` or ``"cuda"``.
        curves: Whether results carry loss and scores of every step.
        folder: Where finished runs and, every `save_seconds`, the state of the others are kept; a
            training that was stopped goes on from there when it is called again.
        save_seconds: See `folder`.
        most_runs: The most runs to train at once; default: as many as fit on a GPU, 1 on a CPU.
        capture: Whether to capture the step as a CUDA graph, where there is a GPU.
        recompute: Whether a layer keeps only its input and is computed again in the backward pass:
            a fraction of the memory in some more time, for graphs that would not fit otherwise.
            The numbers stay the same, and so does what `folder` knows a run by.
        workers: Processes, of one thread each, that the runs are dealt out to. On a CPU the more of
            its cores are used, the sooner all are done, with the numbers of
            ``torch.set_num_threads(1)``; on a GPU groups of small graphs, each of which leaves most
            of it idle, train side by side. With more than one, a script must call this under
            ``if __name__ == "__main__":``, as each of the processes imports it.
        progress: Called now and then; with workers, of all runs that are under way.
    """
    job = _Job(
        {} if tasks is None else dict(tasks),
        root,
        check_device(device, what="runs train"),
        curves,
        _checked_seconds(save_seconds),
        _checked_most(most_runs),
        capture,
        recompute,
        progress,
    )
    workers = _checked_workers(workers)
    wanted = {spec.key: spec for spec in specs}
    job.check(wanted.values())
    if folder is None:
        found = job.run(wanted, None, workers)
    else:
        kept = RunFolder(folder)
        with kept.held():
            found = job.run(wanted, kept, workers)
    return [found[spec.key] for spec in specs]


def _checked_seconds(seconds: float) -> float:
    if not isinstance(seconds, int | float) or not seconds >= 0:
        raise InputError(f"save_seconds must be a number of at least 0, not {seconds!r}")
    return float(seconds)


def _checked_most(runs: int | None) -> int | None:
    if runs is not None and (isinstance(runs, bool) or not isinstance(runs, int) or runs < 1):
        raise InputError(f"most_runs must be a whole number of at least 1 or None, not {runs!r}")
    return runs


def _checked_workers(workers: int) -> int:
    if isinstance(workers, bool) or not isinstance(workers, int) or workers < 1:
        raise InputError(f"workers must be a whole number of at least 1, not {workers!r}")
    return workers


class _Keeper(Protocol):
    """Where results and states go: a folder, or the process that has it."""

    def add_results(self, results: list[RunResult], /) -> None: ...
    def save_state(self, specs: list[RunSpec], state: RunState, /) -> None: ...
    def drop_states(self, finished: dict[str, RunResult], /) -> None: ...


@dataclass
class _Job:
    tasks: dict[str, Task]
    root: str | PathLike[str] | None
    device: torch.device
    curves: bool
    save_seconds: float
    most_runs: int | None
    capture: bool
    recompute: bool
    progress: Callable[[Progress], None] | None
    memory: float = 1.0  # the share of a GPU's free memory that is for this process
    folder: _Keeper | None = None
    total: int = 0
    results: dict[str, RunResult] = field(default_factory=dict)
    begun: dict[str, Row] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._inputs: dict[tuple[object, ...], GraphInputs] = {}
        self._spectra: dict[tuple[str, float], Spectrum] = {}
        self._structures: list[Edges] = []

    def check(self, specs: Iterable[RunSpec]) -> None:
        """Open what the runs need, and see whether it is all there."""
        for spec in specs:
            task = self._task(spec)
            if spec.split >= task.num_splits:
                raise InputError(
                    f"{spec.dataset} has splits 0 to {task.num_splits - 1}; there is no "
                    f"{spec.split}"
                )

    def run(
        self, wanted: dict[str, RunSpec], folder: RunFolder | None, workers: int
    ) -> dict[str, RunResult]:
        """The result of each run, by its key."""
        self.total, self.folder = len(wanted), folder
        if folder is not None:
            names = {spec.dataset for spec in wanted.values()}
            folder.check_tasks({name: self.tasks[name].fingerprint() for name in sorted(names)})
            done = folder.results(curves=self.curves)
            self.results = {key: done[key] for key in wanted if key in done}
            self.begun = folder.states(wanted.keys() - done.keys(), curves=self.curves)
        pending = [spec for key, spec in wanted.items() if key not in self.results]
        if workers > 1:
            from pdgnn.training.workers import train_in_workers

            train_in_workers(self, self._shares(pending), workers)
        else:
            self.train(pending)
        if folder is not None:
            folder.drop_states(self.results)
        return self.results

    def train(self, specs: list[RunSpec]) -> None:
        """Train these in this process."""
        for group in self._by_shape(specs):
            self._train_shape(group)

    def _shares(self, specs: list[RunSpec]) -> list[list[RunSpec]]:
        """What a worker takes at a time: a whole group on a GPU, else what trains at once."""
        if self.device.type != "cpu" and self.most_runs is None:
            return self._by_shape(specs)
        size = self.most_runs or 1
        groups = self._by_shape(specs) if size > 1 else [specs]
        return [group[i : i + size] for group in groups for i in range(0, len(group), size)]

    def keep(self, results: list[RunResult]) -> None:
        """These runs are finished."""
        self.results.update({r.spec.key: r for r in results})
        if self.folder is not None:
            self.folder.add_results(results)
            self.folder.drop_states(self.results)

    def _task(self, spec: RunSpec) -> Task:
        if spec.dataset not in self.tasks:
            self.tasks[spec.dataset] = Task.open(spec.dataset, self.root)
        return self.tasks[spec.dataset]

    def _prepared(self, spec: RunSpec) -> GraphInputs:
        """Edges and what they carry; the same object for runs that share them."""
        rewiring = spec.reach if spec.rewired else None
        scope = (spec.alpha, spec.gamma, rewiring) if spec.scoped else ()
        key = (spec.dataset, spec.model, dtype_of(spec), *scope)
        if key not in self._inputs:
            self._inputs[key] = prepare(
                self._task(spec).graph,
                spec.model,
                alpha=spec.alpha,
                gamma=spec.gamma,
                rewired=spec.rewired,
                reach=spec.reach,
                phi=self._phi(spec),
                dtype=dtype_of(spec),
            )
        return self._inputs[key]

    def _phi(self, spec: RunSpec) -> Tensor | None:
        """φ^(1)(α,γ) where it is used; one solve for each γ."""
        if not (spec.rewired or MODELS[spec.model].features):
            return None
        key = (spec.dataset, spec.gamma)
        if key not in self._spectra:
            self._spectra[key] = eigenpairs(self._task(spec).graph, gamma=spec.gamma)
        return torch.from_numpy(self._spectra[key].eigenvectors(spec.alpha)[:, 0])

    def _by_shape(self, specs: list[RunSpec]) -> list[list[RunSpec]]:
        groups: dict[tuple[object, ...], list[RunSpec]] = {}
        for spec in specs:
            groups.setdefault(self._shape(spec), []).append(spec)
        return list(groups.values())

    def _shape(self, spec: RunSpec) -> tuple[object, ...]:
        """Runs that agree in this may train together."""
        size = (spec.model, spec.depth, spec.width, spec.heads, spec.steps, spec.precision)
        return (spec.dataset, self._structure(spec) if spec.rewired else None, *size)

    def _structure(self, spec: RunSpec) -> int:
        """A number for each set of edges: another gradient node is another graph."""
        edges = self._prepared(spec).edges
        for number, known in enumerate(self._structures):
            if known is edges or _same(known, edges):
                return number
        self._structures.append(edges)
        return len(self._structures) - 1

    def _train_shape(self, specs: list[RunSpec]) -> None:
        at_once = self._at_once(specs)
        while specs:
            chunk = specs[:at_once]
            if _unless_too_large(partial(self._train_chunk, chunk)) is not None:
                specs = specs[at_once:]
            elif len(chunk) == 1:
                raise _too_large(chunk[0], recompute=self.recompute)
            else:
                at_once = (len(chunk) + 1) // 2

    def _at_once(self, specs: list[RunSpec]) -> int:
        if self.most_runs is not None or self.device.type == "cpu":
            return self.most_runs or 1
        one = partial(self._group, specs[:1])
        fits = partial(runs_that_fit, one, len(specs), self.device, share=self.memory)
        fit = _unless_too_large(fits)
        if fit is None:
            raise _too_large(specs[0], recompute=self.recompute)
        return fit

    def _group(self, specs: list[RunSpec]) -> Group:
        return Group(
            specs,
            self._task(specs[0]),
            [self._prepared(spec) for spec in specs],
            device=self.device,
            curves=self.curves,
            begun=[self.begun.get(spec.key) for spec in specs],
            recompute=self.recompute,
        )

    def _train_chunk(self, specs: list[RunSpec]) -> list[RunResult]:
        group = self._group(specs)
        watch = Watch(group, self._tell, self._save, save_seconds=self.save_seconds)
        on_gpu = self.device.type == "cuda"
        try:
            with nullcontext() if on_gpu else at_most_threads(group.threads):
                run_steps(group, watch, capture=self.capture and on_gpu)
        except BaseException:
            if group.whole:  # whatever it was that came between two steps
                self._save(group)
            raise
        results = group.results()
        self.keep(results)
        return results

    def _tell(self, group: Group, seconds: float) -> None:
        if self.progress is not None:
            self.progress(Progress.of(group, len(self.results), self.total, seconds))

    def _save(self, group: Group) -> None:
        if self.folder is not None:
            self.folder.save_state(group.specs, group.state)


def _same(one: Edges, other: Edges) -> bool:
    return torch.equal(one.rowptr, other.rowptr) and torch.equal(one.col, other.col)


def _unless_too_large(work: Callable[[], T]) -> T | None:
    """What `work` comes to, or None if the memory of the GPU was not enough for it."""
    try:
        return work()
    except RuntimeError as e:
        if not _out_of_memory(e):
            raise
    torch.cuda.empty_cache()  # here, where the error no longer holds on to tensors
    return None


def _out_of_memory(error: BaseException | None) -> bool:
    """Whether this, or what it came from, is the GPU's memory; a failed capture raises anew."""
    while error is not None:
        if isinstance(error, torch.OutOfMemoryError):
            return True
        error = error.__cause__ or error.__context__
    return False


def _too_large(spec: RunSpec, *, recompute: bool) -> InputError:
    first = "" if recompute else "let it recompute its layers (--recompute), or "
    return InputError(
        f"a single run of {spec.model} on {spec.dataset} does not fit the memory of the device; "
        f"{first}take a smaller width or depth"
    )
