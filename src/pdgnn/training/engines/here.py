"""Runs trained in this process."""

from __future__ import annotations

from pdgnn.training.engines import Job
from pdgnn.training.share import train_share

__all__ = ["Here"]


class Here:
    """One share after the other, in this process."""

    def train(self, job: Job) -> None:
        """Train every share to its end."""
        for share in job.shares:
            train_share(job.ledger.take(share), job.inputs, job.settings, job.ledger, job.begun)
