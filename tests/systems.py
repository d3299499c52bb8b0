"""What the tests of the heterophilous systems share: a task, and modules that read x or labels."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from pdgnn import Graph
from pdgnn.models import Model
from pdgnn.nn import SparseFeatures
from pdgnn.training import Task
from published import features, made, random_graph, run
from runs import random_masks


@cache
def unrelated() -> Task:
    """Three classes that features show, and a third of all pairs as neighbours, who say nothing.

    The mean of the neighbours of a node hides its own features.
    """
    nodes = 90
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, nodes)
    x = np.eye(3)[y] + 0.1 * rng.normal(size=(nodes, 3))
    edges = np.argwhere(np.triu(rng.random((nodes, nodes)) < 1 / 3, k=1)).T
    masks = random_masks(nodes, 2)
    return Task.from_arrays(Graph.from_edge_index(edges), x, y, masks, name="unrelated")


@cache
def alike_hubs() -> Task:
    """Eight stars of twenty nodes, all alike; the class is that of the star, in turns.

    No node has features, and no hub is more than a node to a GCN.
    """
    nodes, stars = 160, 8
    node = np.arange(nodes)
    edges = np.stack([node, nodes + node % stars])
    y = np.arange(nodes + stars) % 2
    masks = np.concatenate([random_masks(nodes, 2), np.zeros((2, 3, stars), dtype=bool)], axis=2)
    x = np.ones((nodes + stars, 2))
    return Task.from_arrays(Graph.from_edge_index(edges), x, y, masks, name="alike-hubs")


def given(model: Model, graph: Graph, x: Tensor, *, labels: Tensor | None = None, **fields: Any):
    """What the module is called with besides `x`, in float64."""
    found = model.prepare(graph, x, run(model, **fields), labels)
    wide = lambda v: v.double() if isinstance(v, Tensor) and v.is_floating_point() else v  # noqa: E731
    return {name: wide(v) for name, v in found.items()}


def called(
    model: Model, module: nn.Module, graph: Graph, x: Tensor, *, labels=None, **fields: Any
) -> Tensor:
    """The logits of dense features; those of sparse ones are checked to be the same."""
    inputs = given(model, graph, x, labels=labels, **fields)
    found = module(x, **inputs)
    torch.testing.assert_close(module(SparseFeatures.from_dense(x), **inputs), found)
    return found.detach()


def moved(graph: Graph, seed: int) -> tuple[Graph, Tensor]:
    """The graph with its nodes in another order, ``[N]``: the new node i was order[i]."""
    order = torch.randperm(graph.num_nodes, generator=torch.Generator().manual_seed(seed))
    index = order.argsort()[graph.edge_index]
    return Graph.from_edge_index(index, graph.num_nodes, graph.edge_weight), order


def check_order(model: Model, *, permute: str | None = None, labelled: bool = False, **fields: Any):
    """Nodes in another order have the same logits; rows of the parameter `permute` go with them."""
    for seed in range(3):
        graph = random_graph(seed)
        x, module = features(graph), made(model, graph, seed=seed, **fields)
        labels = torch.arange(graph.num_nodes) % 3 if labelled else None
        before = called(model, module, graph, x, labels=labels, **fields)
        other, order = moved(graph, seed)
        if permute is not None:
            parameter = module.get_parameter(permute)
            parameter.data = parameter.data[order]
        labels = None if labels is None else labels[order]
        after = called(model, module, other, x[order], labels=labels, **fields)
        torch.testing.assert_close(after, before[order], rtol=1e-8, atol=1e-8)
