"""Engines: who trains the runs of a job. This process, others on this machine, or a cluster."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from pdgnn.training.inputs import InputCache
from pdgnn.training.ledger import Ledger
from pdgnn.training.share import Settings
from pdgnn.training.spec import RunSpec
from pdgnn.training.state import Row

__all__ = ["Engine", "Job"]


@dataclass(frozen=True)
class Job:
    """Runs to train, and who is told of them."""

    shares: list[list[RunSpec]]  # what one process takes at a time; a share has one shape
    inputs: InputCache  # their tasks, models and inputs
    settings: Settings
    ledger: Ledger  # deals the runs out (`take`) and keeps what comes of them
    begun: Mapping[str, Row]  # states of those that were begun before, by key


class Engine(Protocol):
    """Trains a job."""

    def train(self, job: Job, /) -> None:
        """Train every share to its end.

        Each share goes through ``job.ledger.take`` just before it is begun; what is left of it is
        what to train. Results, states and progress go to the ledger, in this process.
        """
