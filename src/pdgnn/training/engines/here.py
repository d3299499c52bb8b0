"""Runs trained in this process; with several GPUs by one process for each of them."""

from __future__ import annotations

import warnings

from pdgnn.errors import InputError
from pdgnn.training.engines import Job
from pdgnn.training.engines.devices import gpus_for
from pdgnn.training.engines.processes import Processes, packed
from pdgnn.training.share import train_share

__all__ = ["Here"]


class Here:
    """This machine: one share after the other in this process, on the CPU or a GPU.

    With ``device="cuda"`` and several GPUs that are visible, a process for each of them takes the
    shares. ``device="cuda:0"`` is that GPU alone.
    """

    def train(self, job: Job) -> None:
        """Train every share to its end."""
        gpus = gpus_for(job.settings.device)
        if gpus > 1 and sum(map(len, job.shares)) > 1 and _can_be_sent(job):
            Processes(gpus).train(job)
            return
        for share in job.shares:
            train_share(job.take(share), job.inputs, job.settings, job.ledger, job.begun)


def _can_be_sent(job: Job) -> bool:
    """Whether other processes can be told of this job; a warning says why not."""
    try:
        packed(job)
    except InputError as e:
        warnings.warn(f"only one GPU is used: {e}", stacklevel=4)
        return False
    return True
