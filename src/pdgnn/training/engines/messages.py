"""Messages between an engine and its workers: the job sent to a worker, and the results sent back.

A message is a pair (kind, value), pickled, by and for our own processes.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch

from pdgnn.errors import PdgnnError
from pdgnn.ops import backends
from pdgnn.training.engines import Job
from pdgnn.training.group import Group
from pdgnn.training.inputs import InputCache
from pdgnn.training.ledger import Ledger
from pdgnn.training.loop import Progress
from pdgnn.training.share import Settings
from pdgnn.training.spec import RunResult, RunSpec
from pdgnn.training.state import Row, RunState

__all__ = ["Briefing", "Speaker", "hear", "own_rows", "tell_of_all", "worker_error"]

AS_THEY_ARE = (PdgnnError, OSError, MemoryError)
"""Errors that say enough without a traceback."""


@dataclass
class Briefing:
    """What every worker is told before its first share."""

    inputs: InputCache
    settings: Settings
    keeps: bool  # whether states are of use to anybody
    backends: list[str]  # those that are asked for

    @classmethod
    def of(cls, job: Job, *, keeps: bool) -> Briefing:
        """That of a job: its tasks, models and settings, without inputs that were made before."""
        names = {spec.dataset for specs in job.shares for spec in specs}
        own = InputCache({name: job.inputs.tasks[name] for name in names}, job.inputs.models)
        return cls(own, job.settings, keeps, list(backends._forced))

    def at(self, device: torch.device, memory: float) -> Briefing:
        """The same for a worker with this device and that share of its free memory."""
        settings = self.settings
        own = replace(settings, device=device, memory=memory * settings.memory)
        return replace(self, settings=own)

    @contextmanager
    def followed(self) -> Iterator[None]:
        """One thread, the device and the backends, while shares are trained."""
        torch.set_num_threads(1)
        if self.settings.device.index is not None:  # kernels are launched on the current GPU
            torch.cuda.set_device(self.settings.device)
        with ExitStack() as stack:
            for name in self.backends:
                stack.enter_context(backends.use_backend(name))
            yield


class Speaker:
    """In a worker: sends progress, states and results to the parent process."""

    def __init__(self, say: Callable[[str, Any], None], *, keeps: bool = False) -> None:
        self._say, self.keeps = say, keeps

    def progress(self, group: Group, seconds: float) -> None:
        """Send how far the group is."""
        self._say("progress", Progress.of(group, 0, 1, seconds))

    def save_state(self, specs: Sequence[RunSpec], state: RunState) -> None:
        """Send the state of these runs, if the parent keeps states."""
        if self.keeps:
            self._say("state", (list(specs), state.to("cpu")))

    def add_results(self, results: Sequence[RunResult]) -> None:
        """Send the results of finished runs."""
        self._say("results", results)


def hear(ledger: Ledger, kind: str, value: Any) -> None:
    """Hand results and states from a worker to the ledger; other messages are ignored."""
    if kind == "results":
        ledger.add_results(value)
    elif kind == "state":
        ledger.save_state(*value)


def tell_of_all(ledger: Ledger, p: Progress, others: Iterable[Progress | None]) -> None:
    """Tell how far all workers are together; the step is the mean, of runs as long as those of `p`.

    `others` are the last words of the other workers that are under way.
    """
    if ledger.tell is None:
        return
    all_ = [p, *(other for other in others if other is not None)]
    share = sum(q.step / q.steps for q in all_) / len(all_)
    together = replace(
        p,
        runs_done=len(ledger.results),
        runs=ledger.total,
        specs=[spec for q in all_ for spec in q.specs],
        step=round(share * p.steps),
        val=[v for q in all_ for v in q.val],
        test=[v for q in all_ for v in q.test],
    )
    ledger.tell(together)


def own_rows(specs: Iterable[RunSpec], begun: Mapping[str, Row]) -> dict[str, Row]:
    """The states of those of `specs` that were begun, cloned: views alone are less to send."""
    return {
        spec.key: {name: t.clone() for name, t in begun[spec.key].items()}
        for spec in specs
        if spec.key in begun
    }


def worker_error(error: Exception) -> Exception:
    """The exception to raise in the parent: user errors unchanged, others with their traceback."""
    if isinstance(error, AS_THEY_ARE):
        return error
    lines = "".join(traceback.format_exception(error))
    return RuntimeError(f"in a worker process:\n{lines}")
