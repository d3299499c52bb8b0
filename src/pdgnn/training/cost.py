"""What a step of training takes, roughly, from sizes alone.

The estimates plan a search (:mod:`pdgnn.training.plan`). No clock takes part in them, nor the
machine at hand, so that the same search does the same everywhere. They are right within a factor of
about two on a CPU with two cores that does nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from weakref import WeakKeyDictionary

import torch
from torch import nn
from torch.nn.parameter import is_lazy

from pdgnn.models import MODELS, Model, find_model
from pdgnn.nn.features import SPARSE_SHARE
from pdgnn.training.spec import RunSpec
from pdgnn.training.task import Task

__all__ = ["begin_seconds", "runs_at_once", "step_seconds"]

LAYER = 1e-3
"""Seconds of a layer whatever its size: Python, and the start of its operations."""
PRODUCT = 1.5e-10
"""Seconds of a multiplication in a dense product, its backward pass and evaluation included."""
MESSAGE = 5e-9
"""The same of a channel of an edge."""
ATTENTION = 1e-8
"""The same where the edge has a weight of attention, beside MESSAGE."""
CHANNEL = 3e-8
"""The same of a channel of a node: norms, activations, dropout."""
GPU_SPEED, GPU_STEP, GPU_BEGIN = 50.0, 1e-3, 2.0
"""How much faster a GPU is, what a step and what a shape takes there at least: a crude guess."""
SOLVE = 2e-6
"""Seconds for a node or edge to find an eigenvector."""
AT_ONCE_WORK = 1 << 18
"""Multiplications of a layer up to which runs on a CPU train faster at once than in turn."""
MOST_AT_ONCE = 16

_nonzeros: WeakKeyDictionary[Task, int] = WeakKeyDictionary()


def step_seconds(
    spec: RunSpec,
    task: Task,
    device: str | torch.device = "cpu",
    models: Mapping[str, Model] | None = None,
) -> float:
    """Seconds of one step of one run that trains alone: forward, backward, AdamW, evaluation.

    The sum of LAYER · (depth + 2), PRODUCT for every parameter and node (of the first layer: for
    every feature that it multiplies), MESSAGE and ATTENTION for every channel of every edge and
    layer, and CHANNEL for every channel of every node and layer. A model sends messages if it uses
    ``rewired``, and has attention if it uses ``heads``: one of a user's own, which by default says
    that it uses all, counts as the heaviest kind. Its parameters are counted, not its operations.
    """
    model = find_model(spec.model, models)
    nodes = task.graph.num_nodes
    entries = _features(task, sparse=model.sparse)
    first = task.x.shape[1] * spec.width
    products = entries * spec.width + nodes * max(0, _parameters(model, task, spec) - first)
    messages = 0.0
    if "rewired" in model.uses:
        slots = 2 * task.graph.num_edges + nodes * (2 if spec.rewired else 1)
        rate = MESSAGE + (ATTENTION if "heads" in model.uses else 0.0)
        messages = rate * slots * spec.width * spec.depth
    work = PRODUCT * products + messages + CHANNEL * nodes * spec.width * (spec.depth + 1)
    if torch.device(device).type != "cpu":
        return GPU_STEP + work / GPU_SPEED
    return LAYER * (spec.depth + 2) + work


def begin_seconds(
    spec: RunSpec,
    task: Task,
    device: str | torch.device = "cpu",
    models: Mapping[str, Model] | None = None,
) -> float:
    """Seconds before the first step of a setting: an eigenvector where it needs one."""
    solves = find_model(spec.model, models).used(spec) & {"gamma"}
    size = task.graph.num_nodes + task.graph.num_edges
    solving = SOLVE * size if solves else 0.0
    return solving + (0.0 if torch.device(device).type == "cpu" else GPU_BEGIN)


def runs_at_once(spec: RunSpec, task: Task, models: Mapping[str, Model] | None = None) -> int:
    """Runs like this one that train faster on a CPU at once than in turn; 1 where none do.

    It follows from the size of a layer alone, (nodes + edges + features other than 0) × width. A
    user's own model trains one at a time, where its module is called as it is.
    """
    if spec.model not in MODELS:
        return 1
    model = find_model(spec.model, models)
    slots = 2 * task.graph.num_edges if "rewired" in model.uses else 0
    work = (slots + task.graph.num_nodes + _features(task, sparse=True)) * spec.width
    return max(1, min(MOST_AT_ONCE, AT_ONCE_WORK // work))


def _features(task: Task, *, sparse: bool) -> int:
    """Features that the first layer multiplies with: those other than 0, if it can tell."""
    if task not in _nonzeros:
        _nonzeros[task] = int(task.x.count_nonzero())
    few = _nonzeros[task] <= SPARSE_SHARE * task.x.numel()
    return _nonzeros[task] if sparse and few else task.x.numel()


def _parameters(model: Model, task: Task, spec: RunSpec) -> int:
    """Of the module; those whose shape is seen at the first call count as a layer of full width."""
    module: nn.Module = model.make(task.size, spec)
    return sum(spec.width**2 if is_lazy(p) else p.numel() for p in module.parameters())
