"""Which GPU each worker of this machine trains on, and what of the runs it takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from pdgnn.training.share import Settings
from pdgnn.training.spec import RunSpec

__all__ = ["Place", "gpus_for", "places", "spread"]


@dataclass(frozen=True)
class Place:
    """What a worker has: its device, and its share of that device's free memory."""

    device: torch.device
    memory: float = 1.0


def gpus_for(device: torch.device) -> int:
    """GPUs that ``device`` stands for: all that are visible for "cuda", one for "cuda:1"."""
    if device.type != "cuda":
        return 0
    return torch.cuda.device_count() if device.index is None else 1


def places(device: torch.device, workers: int) -> list[Place]:
    """A place for each worker: GPUs in turn, the memory of each shared evenly by its workers."""
    gpus = gpus_for(device)
    if gpus <= 1:
        return [Place(device, 1.0 / max(1, workers))] * workers
    numbers = [worker % gpus for worker in range(workers)]
    return [Place(torch.device("cuda", n), 1.0 / numbers.count(n)) for n in numbers]


def spread(shares: Sequence[list[RunSpec]], settings: Settings, gpus: int) -> list[list[RunSpec]]:
    """The shares, the large ones cut so that each of `gpus` GPUs has something to do.

    On a GPU a share is all runs of a shape. None is left longer than an even part of all runs.
    Where the caller has said how many train at once, shares stay as they are.
    """
    if gpus <= 1 or settings.most_runs is not None:
        return list(shares)
    most = -(-sum(map(len, shares)) // gpus)
    found = []
    for share in shares:
        parts = -(-len(share) // most)
        size = -(-len(share) // parts)
        found += [share[i : i + size] for i in range(0, len(share), size)]
    return found
