"""What a step of training takes, roughly, from sizes alone.

The estimates plan a search (:mod:`pdgnn.training.plan`). No clock takes part in them, nor the
machine at hand, so that the same search does the same everywhere. The constants are fitted to the
processor time of a step on one core, for four models of width 32 to 256 and depth 2 and 5 on graphs
of 200 to 50,000 nodes (``benchmarks/cost.py``). Further cores are not counted on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from weakref import WeakKeyDictionary

import torch
from torch import nn
from torch.nn.parameter import is_lazy

from pdgnn.models import MODELS, Model, find_model
from pdgnn.nn.features import SPARSE_SHARE
from pdgnn.nn.pd_net import PDNet
from pdgnn.training.loop import even_share
from pdgnn.training.spec import RunSpec
from pdgnn.training.task import Task

__all__ = ["begin_seconds", "runs_at_once", "step_seconds"]

LAYER = 4.8e-4
"""Seconds of a layer whatever its size: Python, and the start of its operations."""
MESSAGES = 1.5e-3
"""The same of its messages; twice that with attention."""
PRODUCT = 1.1e-10
"""Seconds of a multiplication in a dense product, its backward pass and evaluation included."""
MESSAGE = 2.5e-9
"""The same of a channel of an edge."""
ATTENTION = 3e-8
"""The same of a head of an edge."""
CHANNEL = 7e-9
"""The same of a channel of a node: norms, activations, dropout."""
GPU_SPEED, GPU_STEP, GPU_BEGIN = 150.0, 1e-3, 2.0
"""How much faster a GPU is than a core, what a step and what a shape takes there at least.

An H200 is 500 to 1,090 times as fast in float32 (``results/training.json``); smaller ones are taken
into account. The other two are guesses.
"""
SOLVE = 6e-6
"""Seconds for a node or edge to find an eigenvector."""
AT_ONCE_CHANNELS = 1 << 16
"""Nodes × width up to which runs on a CPU train faster at once than in turn."""
LEAST_AT_ONCE, MOST_AT_ONCE = 6, 16
"""Runs that are worth training at once; more than the most gain nothing."""

_nonzeros: WeakKeyDictionary[Task, int] = WeakKeyDictionary()


def step_seconds(
    spec: RunSpec,
    task: Task,
    device: str | torch.device = "cpu",
    models: Mapping[str, Model] | None = None,
) -> float:
    """Seconds of one step of one run that trains alone: forward, backward, AdamW, evaluation.

    The sum of LAYER · (depth + 2), PRODUCT for every parameter and node (of the first layer: for
    every feature that it multiplies), and CHANNEL for every channel of every node and layer; where
    there are messages, MESSAGES for every layer and MESSAGE for every channel of every edge and
    layer; with attention MESSAGES once more, and ATTENTION for every head of every edge and layer.
    Of PD-Net, layers are those of all rounds, parameters count once for each round in which they
    are used, and an edge has channels for every scope.

    A model sends messages if it uses ``rewired``, and has attention if it uses ``heads``: one of a
    user's own, which by default says that it uses all, counts as the heaviest kind. Its parameters
    are counted, not its operations; those that every node has its own of count as messages.
    """
    model, nodes = find_model(spec.model, models), task.graph.num_nodes
    spec = replace(spec, width=_width(model, task, spec))
    used, module = model.used(spec), model.make(task.size, spec)
    rounds, scopes = _rounds_and_scopes(module)
    first, depth = task.x.shape[1] * spec.width, spec.depth * rounds
    products = _features(task, sparse=model.sparse) * spec.width
    products += nodes * max(0, _parameters(module, task, spec, rounds) - first)
    work = PRODUCT * products + CHANNEL * nodes * spec.width * (depth + 1)
    start = LAYER * (depth + 2)
    if "rewired" in used:
        heads = spec.heads if "heads" in used else 0
        slots = (2 * task.graph.num_edges + nodes * (3 if spec.rewired else 1)) * depth
        work += (MESSAGE * spec.width * scopes + ATTENTION * heads) * slots
        start += MESSAGES * (2 if heads else 1) * depth
    if torch.device(device).type == "cpu":
        return start + work
    return GPU_STEP + work / GPU_SPEED


def begin_seconds(
    spec: RunSpec,
    task: Task,
    device: str | torch.device = "cpu",
    models: Mapping[str, Model] | None = None,
) -> float:
    """Seconds before the first step of a setting: an eigenvector for rewiring and for attention."""
    used = find_model(spec.model, models).used(spec)
    solves = spec.rewired or {"heads", "gamma"} <= used
    size = task.graph.num_nodes + task.graph.num_edges
    solving = SOLVE * size if solves else 0.0
    return solving + (0.0 if torch.device(device).type == "cpu" else GPU_BEGIN)


def runs_at_once(spec: RunSpec, task: Task, runs: int) -> int:
    """How many of so many runs like this one to train at once on a CPU, where it is faster.

    It follows from sizes alone, so that the same runs give the same bits everywhere: some at once
    share the time that an operation takes whatever its size, which is most of it where nodes ×
    width are few; to apply a module to several runs has a cost of its own, which few runs do not
    pay for. A user's own model trains one at a time, where its module is called as it is.
    """
    if spec.model not in MODELS or runs < LEAST_AT_ONCE:
        return 1
    if task.graph.num_nodes * _width(MODELS[spec.model], task, spec) > AT_ONCE_CHANNELS:
        return 1
    return even_share(runs, MOST_AT_ONCE)


def _features(task: Task, *, sparse: bool) -> int:
    """Features that the first layer multiplies with: those other than 0, if it can tell."""
    if task not in _nonzeros:
        _nonzeros[task] = int(task.x.count_nonzero())
    few = _nonzeros[task] <= SPARSE_SHARE * task.x.numel()
    return _nonzeros[task] if sparse and few else task.x.numel()


def _rounds_and_scopes(module: nn.Module) -> tuple[int, int]:
    return (module.rounds, len(module.scopes)) if isinstance(module, PDNet) else (1, 1)


def _parameters(module: nn.Module, task: Task, spec: RunSpec, rounds: int) -> int:
    """Of the module, but for those of which every node has its own (W_A of LINKX and GloGNN).

    These are not multiplied by every node: messages carry them. Those whose shape is seen at the
    first call count as a layer of full width. Those of layers that are applied in rounds count in
    each, but for what they make of h0, once.
    """
    nodes = task.graph.num_nodes
    told_apart = nodes not in (task.x.shape[1], spec.width)
    counted = 0
    for name, p in module.named_parameters():
        lazy: bool = is_lazy(p)
        if lazy or not (told_apart and nodes in p.shape):
            again = rounds if name.startswith("layers") and not name.endswith("weight0") else 1
            counted += again * (spec.width**2 if lazy else p.numel())
    return counted


def _width(model: Model, task: Task, spec: RunSpec) -> int:
    """Channels of a layer: those of the classes, where a model has no width."""
    return spec.width if "width" in model.uses else max(2, task.out_channels)
