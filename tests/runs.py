"""Tiny tasks and runs, for the tests of training."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from functools import cache
from types import SimpleNamespace
from unittest.mock import patch

import numpy as np
import torch
from torch import nn

from pdgnn import Graph
from pdgnn.baselines.grids import GRIDS
from pdgnn.models import MODELS, Size
from pdgnn.nn import inputs as graph_values
from pdgnn.nn import interface
from pdgnn.training import Progress, RunResult, RunSpec, Task, train
from pdgnn.training.group import Group, dtype_of
from pdgnn.training.inputs import InputCache
from pdgnn.training.spec import resolved

OWN = {name: model for name, model in MODELS.items() if name not in (*GRIDS, "pd-net")}
"""The package's models without options; PD-Net and the other systems have tests of their own."""


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


def build(name: str, in_channels: int, out_channels: int, **fields) -> nn.Module:
    """The module of a model of the registry."""
    renamed = {"width" if k == "hidden_channels" else k: v for k, v in fields.items()}
    run = RunSpec(dataset="graph", model=name, **renamed)
    return MODELS[name].make(Size(in_channels, out_channels), run)


def prepare(
    g: Graph, name: str, *, phi=None, dtype: torch.dtype = torch.float32, **fields
) -> SimpleNamespace:
    """Its inputs on `g`: edges, edge_weight and edge_attr (or None), and the graph they are of.

    A `phi` takes the place of the eigenvector.
    """
    model, run, seen = MODELS[name], RunSpec(dataset="graph", model=name, **fields), []

    def inputs(graph, x, spec):
        seen.append(graph)
        return model.inputs(graph, x, spec)

    with ExitStack() as stack:
        for place in (graph_values, interface) if phi is not None else ():
            stack.enter_context(patch.object(place, "first_eigenvector", lambda *_, **__: phi))
        found = replace(model, inputs=inputs).prepare(g, torch.zeros(g.num_nodes, 1), run)
    made = {n: found[n].to(dtype) if n in found else None for n in ("edge_weight", "edge_attr")}
    return SimpleNamespace(edges=found["edges"], graph=seen[0], **made)


def group(*specs: RunSpec, **options) -> Group:
    """A group of these runs, each with the inputs of its own α and γ."""
    model, task = MODELS[specs[0].model], TASKS[specs[0].dataset]
    runs = [resolved(run, model) for run in specs]
    cache = InputCache(TASKS, {})
    inputs = [cache.get(run, dtype_of(run)) for run in runs]
    return Group(runs, model, task, inputs, device=torch.device("cpu"), **options)


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
