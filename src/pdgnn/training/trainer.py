"""Many runs at once: told apart, shared out, kept and resumed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from os import PathLike
from typing import Any

import torch

from pdgnn.devices import check_device
from pdgnn.errors import InputError, check_number, check_whole
from pdgnn.models import Model, check_models, find_model
from pdgnn.training.checkpoint import RunFolder
from pdgnn.training.engines import Engine, Job, find_engine
from pdgnn.training.group import KEEPS
from pdgnn.training.inputs import InputCache
from pdgnn.training.ledger import Ledger, RunTracker
from pdgnn.training.loop import Progress
from pdgnn.training.share import Settings, by_shape
from pdgnn.training.spec import RunResult, RunSpec, resolved
from pdgnn.training.task import Task

__all__ = ["check_keep", "open_tasks", "train"]


def train(
    specs: Sequence[RunSpec],
    *,
    models: Mapping[str, Model] | None = None,
    tasks: Mapping[str, Task] | None = None,
    root: str | PathLike[str] | None = None,
    device: str | torch.device = "cpu",
    keep: Sequence[str] = (),
    curves: bool = False,
    folder: str | PathLike[str] | None = None,
    store: str | PathLike[str] | None = None,
    save_seconds: float = 60.0,
    most_runs: int | None = None,
    capture: bool = True,
    recompute: bool = False,
    workers: int = 1,
    engine: Engine | None = None,
    progress: Callable[[Progress], None] | None = None,
    tracker: RunTracker | None = None,
    provenance: Mapping[str, Any] | None = None,
) -> list[RunResult]:
    """Train every run of `specs` and return a result for each, in their order.

    Runs of one shape train together under vmap; on a GPU their step is captured as one CUDA graph.
    A run's parameters and dropout come from its own seed: which others it trains with changes its
    numbers by no more than float rounding. On the CPU runs train one at a time, and so with the
    same bits in any company, unless `most_runs` asks for more at once. Ctrl-C waits for the end of
    a step. A run whose loss is no longer finite ends.

    Args:
        specs: The runs; those that mean the same are trained once.
        models: Models of one's own, by the name that `spec.model` has.
        tasks: Data by the name that `spec.dataset` has; others are opened by that name.
        root: The folder of the datasets.
        device: ``"cpu"`` or ``"cuda"``.
        keep: What results carry of their best validation step: ``"logits"``, ``"weights"``, both
            or nothing.
        curves: Whether results carry loss and scores of every step.
        folder: Where finished runs and, every `save_seconds`, the state of the others are kept; a
            training that was stopped goes on from there when it is called again.
        store: A file to keep finished runs in instead (:class:`~pdgnn.training.store.Store`), for
            many trainings: runs are known by their spec and the contents of their data. The states
            of the others are in the folder ``FILE-states`` beside it. Several processes of one
            machine that are given the same store, or the same folder, share the work: each takes
            what no other has, and waits for what the others have at the end. What a process that
            was killed had, another takes over.
        save_seconds: See `folder`.
        most_runs: The most runs to train at once; default: as many as fit on a GPU, 1 on a CPU.
            With 1, vmap is not used at all.
        capture: Whether to capture the step as a CUDA graph, where there is a GPU.
        recompute: Whether a layer keeps only its input and is computed again in the backward pass:
            a fraction of the memory in some more time, for graphs that would not fit otherwise.
            The numbers stay the same, and so does what `folder` knows a run by. Modules of one's
            own are trained as they are.
        workers: Processes, of one thread each, that the runs are dealt out to. On a CPU the more of
            its cores are used, the sooner all are done, with the numbers of
            ``torch.set_num_threads(1)``; on a GPU groups of small graphs, each of which leaves most
            of it idle, train side by side. With more than one, a script must call this under
            ``if __name__ == "__main__":``, as each of the processes imports it.
        engine: Who trains the runs (:mod:`pdgnn.training.engines`); default: this process, or so
            many `workers`.
        progress: Called now and then; with workers, of all runs that are under way.
        tracker: Told of each run that is finished (:mod:`pdgnn.training.trackers`).
        provenance: Facts about this training that `folder` or `store` keeps with its runs; default:
            the machine, the versions, the command, the device and the date.
    """
    settings = Settings(
        check_device(device, what="runs train", elsewhere=getattr(engine, "elsewhere", False)),
        curves=curves,
        keep=check_keep(keep),
        save_seconds=check_number("save_seconds", save_seconds),
        most_runs=None if most_runs is None else check_whole("most_runs", most_runs),
        capture=capture,
        recompute=recompute,
    )
    workers, own = check_whole("workers", workers), check_models(models or {})
    plain = [resolved(spec, find_model(spec.model, own)) for spec in specs]
    wanted = {spec.key: spec for spec in plain}
    inputs = InputCache(open_tasks(plain, tasks or {}, root), own)
    engine = engine or find_engine(workers=workers)
    with _kept(folder, store) as kept:
        ledger = Ledger(wanted, kept, progress, tracker=tracker, provenance=provenance)
        _train(inputs, settings, ledger, engine)
    return [_as_asked(ledger.results[spec.key], spec) for spec in plain]


@contextmanager
def _kept(
    folder: str | PathLike[str] | None, store: str | PathLike[str] | None
) -> Iterator[RunFolder | None]:
    """Where runs are kept, for as long as they train."""
    if folder is not None and store is not None:
        raise InputError("runs are kept in a folder or in a store; give one of them")
    if store is not None:
        kept = RunFolder.beside(store)
    elif folder is not None:
        kept = RunFolder(folder)
    else:
        yield None
        return
    with kept, kept.held():
        yield kept


def _as_asked(result: RunResult, spec: RunSpec) -> RunResult:
    """The result with this spec: a folder may hold it with options that a model no longer has."""
    return result if result.spec == spec else replace(result, spec=spec)


def check_keep(keep: Sequence[str]) -> tuple[str, ...]:
    """What results shall carry, as :func:`train` is asked for it."""
    names = (keep,) if isinstance(keep, str) else tuple(keep)
    if wrong := [name for name in names if name not in KEEPS]:
        raise InputError(f"keep takes {' and '.join(map(repr, KEEPS))}, not {wrong[0]!r}")
    return tuple(name for name in KEEPS if name in names)


def open_tasks(
    specs: Sequence[RunSpec], tasks: Mapping[str, Task], root: str | PathLike[str] | None
) -> dict[str, Task]:
    """The tasks of these runs, each of which has the splits that are asked for."""
    found: dict[str, Task] = {}
    for spec in specs:
        if spec.dataset not in found:
            task = tasks.get(spec.dataset)
            found[spec.dataset] = Task.open(spec.dataset, root) if task is None else task
        splits = found[spec.dataset].num_splits
        if spec.split >= splits:
            raise InputError(
                f"{spec.dataset} has splits 0 to {splits - 1}; there is no {spec.split}"
            )
    return found


def _train(inputs: InputCache, settings: Settings, ledger: Ledger, engine: Engine) -> None:
    """Have every run of the ledger trained, here or by others that share the work."""
    begun = ledger.begin(inputs, settings)
    while ledger.pending():
        free = ledger.free()
        if not free:
            ledger.wait()
            continue
        engine.train(Job(_shares(free, inputs, settings), inputs, settings, ledger, begun))
        if ledger.taken:
            raise RuntimeError(f"the engine has not finished {len(ledger.taken)} runs that it took")


def _shares(specs: list[RunSpec], inputs: InputCache, settings: Settings) -> list[list[RunSpec]]:
    """What a process takes at a time: a whole group on a GPU, else what trains at once."""
    groups = by_shape(specs, inputs.models)
    if settings.device.type != "cpu" and settings.most_runs is None:
        return groups
    size = settings.most_runs or 1
    return [group[i : i + size] for group in groups for i in range(0, len(group), size)]
