"""Tiny tasks and runs, for the tests of training."""

from __future__ import annotations

from functools import cache

import numpy as np

from pdgnn import Graph
from pdgnn.training import Progress, RunResult, RunSpec, Task, train


@cache
def board(seed: int = 1) -> Task:
    """Two classes, ten splits."""
    return Task.open(f"minesweeper-generated:size=6,seed={seed}")


@cache
def three_classes() -> Task:
    """A ring of 30 nodes with chords, four random features, three classes and four splits."""
    rng = np.random.default_rng(0)
    ends = np.arange(30)
    edges = np.stack([np.r_[ends, ends[::3]], np.r_[(ends + 1) % 30, (ends[::3] + 11) % 30]])
    y = ends % 3
    x = rng.normal(size=(30, 4)) + y[:, None]
    return Task.from_arrays(Graph.from_edge_index(edges), x, y, random_masks(30, 4), name="ring")


def random_masks(nodes: int, splits: int) -> np.ndarray:
    """Half, a quarter and the rest: ``[splits, 3, nodes]``."""
    masks = np.zeros((splits, 3, nodes), dtype=bool)
    for split in range(splits):
        order = np.random.default_rng(split).permutation(nodes)
        parts = np.split(order, [nodes // 2, nodes // 2 + nodes // 4])
        for part, chosen in enumerate(parts):
            masks[split, part, chosen] = True
    return masks


def spec(**options) -> RunSpec:
    """A small run on the task called "board"."""
    small = {"dataset": "board", "model": "gcn", "depth": 1, "width": 8, "heads": 2}
    return RunSpec(**{**small, "steps": 6, "lr": 0.01, **options})


TASKS = {"board": board(), "ring": three_classes()}
RUNS = [spec(split=i, seed=i, model=m) for i, m in enumerate(("gcn", "gcn", "pd-gat", "gcn"))]


class StopError(Exception):
    """Raised by a test in the middle of a training."""


def go(specs, **options) -> list[RunResult]:
    return train(specs, tasks=TASKS, **options)


def same(one: list[RunResult], other: list[RunResult]) -> None:
    """The same runs, scores, steps and curves, bit for bit."""
    assert one == other
    for a, b in zip(one, other, strict=True):
        assert (a.curves is None) == (b.curves is None)
        if a.curves is not None:
            assert np.array_equal(a.curves, b.curves, equal_nan=True)


def stop_at(look: int):
    """A callback that raises at its n-th call."""
    calls = []

    def progress(p: Progress) -> None:
        calls.append(p)
        if len(calls) == look:
            raise StopError

    return progress
