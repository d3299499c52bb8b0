"""Engines train the runs of a job: in this process, in others on this machine, or on a cluster."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from pdgnn.errors import InputError, check_whole
from pdgnn.training.inputs import InputCache
from pdgnn.training.ledger import Ledger
from pdgnn.training.share import Settings
from pdgnn.training.spec import RunSpec
from pdgnn.training.state import Row

__all__ = ["ENGINES", "Engine", "Job", "find_engine"]

ENGINES = ("here", "processes", "ray")
"""Names that :func:`find_engine` takes."""


@dataclass(frozen=True)
class Job:
    """Runs to train, how, and the ledger that takes their results."""

    shares: list[list[RunSpec]]  # what one process takes at a time; a share has one shape
    inputs: InputCache  # their tasks, models and inputs
    settings: Settings
    ledger: Ledger  # keeps what comes of the runs
    begun: Mapping[str, Row]  # states of those that were begun before, by key
    check: Callable[[list[RunSpec]], None] | None = None  # may raise before a share is taken

    def take(self, share: list[RunSpec]) -> list[RunSpec]:
        """Those of `share` to train now; see :meth:`Ledger.take`."""
        if self.check is not None:
            self.check(share)
        return self.ledger.take(share)


class Engine(Protocol):
    """Trains a job.

    One with an attribute ``elsewhere`` that is true trains on other machines: a device that it is
    asked for need not be here.
    """

    def train(self, job: Job, /) -> None:
        """Train every share to its end.

        Each share goes through ``job.take`` just before it is begun; what is left of it is what to
        train. Results, states and progress go to the ledger, in this process.
        """


def find_engine(name: str = "here", *, workers: int = 1, address: str | None = None) -> Engine:
    """The engine of this name.

    Args:
        name: ``"here"`` (this process, or one for each GPU; more `workers` than one are processes),
            ``"processes"`` or ``"ray"`` (a cluster).
        workers: Processes; with ``"ray"`` how many groups share a GPU.
        address: Of the Ray cluster; see :class:`pdgnn.training.engines.ray.RayEngine`.
    """
    from pdgnn.training.engines.here import Here
    from pdgnn.training.engines.processes import Processes

    if name not in ENGINES:
        raise InputError(f"there is no engine {name!r}; there are {', '.join(ENGINES)}")
    if address is not None and name != "ray":
        raise InputError(f"an address is that of a Ray cluster; leave it out with engine {name!r}")
    check_whole("workers", workers)
    if name == "ray":
        from pdgnn.training.engines.ray import RayEngine

        return RayEngine(address, workers_per_gpu=workers)
    return Here() if name == "here" and workers == 1 else Processes(workers)
