"""What the tests of the published systems share: dense matrices, runs at once, tasks they claim."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from pdgnn import Graph
from pdgnn.models import Model, Size
from pdgnn.nn import SparseFeatures
from pdgnn.training import RunSpec, Task, train
from pdgnn.training.group import Group, dtype_of
from pdgnn.training.inputs import InputCache
from pdgnn.training.spec import resolved
from runs import TASKS, random_masks

FEATURES, CLASSES = 5, 3


def random_graph(seed: int, nodes: int = 14) -> Graph:
    """About three edges for a node, node 0 without any, and weights where the seed is odd."""
    rng = np.random.default_rng(seed)
    edges = np.argwhere(np.triu(rng.random((nodes, nodes)) < 3 / nodes, k=1)).T
    edges = edges[:, (edges != 0).all(axis=0)]
    weight = rng.uniform(0.2, 2.0, edges.shape[1]) if seed % 2 else None
    return Graph.from_edge_index(edges, nodes, weight)


def features(graph: Graph, seed: int = 0) -> Tensor:
    made = torch.Generator().manual_seed(seed)
    return torch.randn(graph.num_nodes, FEATURES, generator=made, dtype=torch.float64)


def adjacency(graph: Graph) -> Tensor:
    """A, dense, float64."""
    return torch.from_numpy(graph.adjacency().toarray()).double()


def power(degree: Tensor, exponent: float) -> Tensor:
    """diag(degree^exponent), 0 where there is no degree."""
    return torch.diag(torch.where(degree > 0, degree.clamp(min=1e-300) ** exponent, 0.0))


def normalized(a: Tensor) -> Tensor:
    """D^(−½) A D^(−½)."""
    return power(a.sum(1), -0.5) @ a @ power(a.sum(1), -0.5)


def with_loops(a: Tensor) -> Tensor:
    return normalized(a + torch.eye(len(a), dtype=a.dtype))


def run(model: Model, **fields: Any) -> RunSpec:
    """A run of a small module, with all options."""
    small = {"dataset": "graph", "model": "mine", "width": 6, "depth": 2, "dropout": 0.3}
    return resolved(RunSpec(**{**small, **fields}), model)


def made(model: Model, graph: Graph, *, classes: int = CLASSES, seed: int = 0, **fields: Any):
    """A module in float64, not training, whose parameters and statistics are all random."""
    out = 1 if classes == 2 else classes
    size = Size(FEATURES, out, graph.num_nodes, classes)
    module = model.make(size, run(model, seed=seed, **fields)).double().eval()
    drawn = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for p in module.parameters():
            p.add_(0.3 * torch.randn(p.shape, generator=drawn, dtype=p.dtype))
        for name, b in module.named_buffers():
            if name.endswith(("running_mean", "running_var")):
                b.add_(torch.rand(b.shape, generator=drawn, dtype=b.dtype))
    return module


def inputs(
    model: Model, graph: Graph, x: Tensor | None = None, labels: Tensor | None = None, **fields: Any
) -> dict[str, Any]:
    """What the module is called with besides `x`, in float64."""
    x = torch.zeros(graph.num_nodes, 1) if x is None else x
    found = model.prepare(graph, x, run(model, **fields), labels)
    wide = lambda v: v.double() if isinstance(v, Tensor) and v.is_floating_point() else v  # noqa: E731
    return {name: wide(v) for name, v in found.items()}


def logits(
    model: Model,
    module: nn.Module,
    graph: Graph,
    x: Tensor,
    labels: Tensor | None = None,
    **fields: Any,
) -> Tensor:
    """Those of dense features; those of sparse ones are checked to be the same."""
    given = inputs(model, graph, x, labels, **fields)
    found = module(x, **given)
    torch.testing.assert_close(module(SparseFeatures.from_dense(x), **given), found)
    return found.detach()


def check_equivariance(
    model: Model, *, permute: str | None = None, labelled: bool = False, **fields: Any
) -> None:
    """Nodes in another order have the same logits; rows of the parameter `permute` go with them."""
    for seed in range(3):
        graph = random_graph(seed)
        x, module = features(graph), made(model, graph, seed=seed, **fields)
        labels = torch.arange(graph.num_nodes) % CLASSES if labelled else None
        before = logits(model, module, graph, x, labels, **fields)
        order = torch.randperm(graph.num_nodes, generator=torch.Generator().manual_seed(seed))
        place = order.argsort()  # the old node order[i] is the new node i
        moved = Graph.from_edge_index(place[graph.edge_index], graph.num_nodes, graph.edge_weight)
        if permute is not None:
            parameter = module.get_parameter(permute)
            parameter.data = parameter.data[order]
        labels = None if labels is None else labels[order]
        after = logits(model, module, moved, x[order], labels, **fields)
        torch.testing.assert_close(after, before[order], rtol=1e-8, atol=1e-8)


def check_many_are_single(
    model: Model, *options: Mapping[str, Any], dataset: str = "ring", **fields: Any
) -> None:
    """Runs that differ in all that they may, in one group, are these runs alone."""
    differing = [
        {"split": 0, "seed": 3, "lr": 1e-2, "weight_decay": 0.1, "dropout": 0.0},
        {"split": 1, "seed": 4, "lr": 3e-2, "dropout": 0.5, "patience": 2},
        {"split": 1, "seed": 3, "lr": 1e-3, "weight_decay": 1.0, "dropout": 0.2},
    ]
    specs = [
        run(model, **fields, **own, dataset=dataset, precision="float64", options=options[i])
        for i, own in enumerate(differing)
    ]
    cache = InputCache(TASKS, {"mine": model})
    given = [cache.get(spec, dtype_of(spec)) for spec in specs]

    def trained(some: slice) -> Group:
        group = Group(
            specs[some], model, TASKS[dataset], given[some], device=torch.device("cpu"), curves=True
        )
        for _ in range(4):
            group.train_step()
        return group

    together = trained(slice(None))
    for i in range(len(specs)):
        alone = trained(slice(i, i + 1))
        for name, value in alone.state.tensors().items():
            mine = together.state.tensors()[name][i]
            torch.testing.assert_close(
                mine, value[0], rtol=1e-8, atol=1e-9, equal_nan=True, msg=lambda m, n=name: n + m
            )


def check_fits(model: Model, *, steps: int = 150, **fields: Any) -> None:
    """Three classes on a ring and two on a board are learned by heart; bfloat16 trains too."""
    for dataset, bound in (("ring", 0.1), ("board", 0.45)):
        common = {"dataset": dataset, "model": "mine", "width": 16, "lr": 0.03, "dropout": 0.0}
        spec = RunSpec(**{**common, "steps": steps, **fields})
        (found,) = train([spec], models={"mine": model}, tasks=TASKS, curves=True)
        assert found.curves[-1, 0] < bound, found.curves[-1]
    half = RunSpec(**{**common, "steps": 3, "precision": "bfloat16", **fields})
    for found in train([half, half], models={"mine": model}, tasks=TASKS, curves=True, most_runs=2):
        assert np.isfinite(found.curves).all()


def mean_score(name: str, task: Task, *, models: Mapping[str, Model] | None = None, **fields: Any):
    """The mean test score over the splits of a task."""
    common = {"dataset": "task", "width": 16, "depth": 2, "lr": 0.02, "dropout": 0.0, "steps": 200}
    specs = [
        RunSpec(**{**common, "model": name, "split": s, **fields}) for s in range(len(task.masks))
    ]
    found = train(specs, models=models or {}, tasks={"task": task})
    return float(np.mean([r.test for r in found]))


def beats_gcn(
    model: Model, task: Task, *, gcn: str = "plain-gcn", least: float = 0.95, **fields: Any
) -> None:
    """At least so much, and 0.2 more than GCN of the same depth and width."""
    mine = mean_score("mine", task, models={"mine": model}, **fields)
    options = {name: v for name, v in fields.items() if name != "options"}
    other = mean_score(gcn, task, **options)
    assert mine > least, (mine, other)
    assert mine > other + 0.2, (mine, other)


@cache
def sharp() -> Task:
    """A wide ring with a large smooth background: a class is how a node differs."""
    nodes, reach = 240, 4
    rng = np.random.default_rng(0)
    i = np.arange(nodes)
    edges = np.stack(
        [np.tile(i, reach), np.concatenate([(i + k) % nodes for k in range(1, reach + 1)])]
    )
    y = rng.integers(0, 2, nodes)
    background = 5 * np.cos(2 * np.pi * (i / nodes + rng.random()))
    x = np.stack([background + (2 * y - 1), np.ones(nodes)], axis=1)
    return Task.from_arrays(
        Graph.from_edge_index(edges), x, y, random_masks(nodes, 1), name="sharp"
    )


@cache
def far() -> Task:
    """Paths of eleven nodes; all nodes of a path are of a class that only its first one shows."""
    paths, length = 40, 11
    rng = np.random.default_rng(0)
    kind = rng.integers(0, 2, paths)
    i = np.arange(paths * length)
    ends = i[i % length < length - 1]
    x = np.zeros((len(i), 2))
    x[i % length == 0, kind] = 1.0
    edges = np.stack([ends, ends + 1])
    return Task.from_arrays(
        Graph.from_edge_index(edges), x, kind[i // length], random_masks(len(i), 1), name="far"
    )


@cache
def hubs() -> Task:
    """Nodes without features whose neighbours are hubs of their class; all hubs look alike."""
    nodes, each = 160, 4
    i = np.arange(nodes)
    y, number = i % 2, i // 2
    ends = nodes + y * each + np.stack([number % each, (number + 1) % each])  # [2, nodes]
    edges = np.stack([np.tile(i, 2), ends.ravel()])
    masks = np.pad(random_masks(nodes, 1), [(0, 0), (0, 0), (0, 2 * each)])
    x, y = np.ones((nodes + 2 * each, 2)), np.pad(y, (0, 2 * each))
    return Task.from_arrays(Graph.from_edge_index(edges), x, y, masks, name="hubs")


@cache
def slope() -> Task:
    """A long tube of random values: a class is whether those ahead and behind are far apart."""
    length, around = 50, 8
    x = np.random.default_rng(0).normal(size=(length, around))
    i = np.arange(length * around).reshape(length, around)
    along, across = (i[:-1], i[1:]), (i, np.roll(i, -1, axis=1))
    edges = np.stack([np.r_[a.ravel(), b.ravel()] for a, b in zip(along, across, strict=True)])
    apart = np.abs(np.roll(x, 1, axis=0) - np.roll(x, -1, axis=0)).ravel()
    both = np.stack([x.ravel(), np.ones(x.size)], axis=1)
    y = (apart > np.median(apart)).astype(int)
    return Task.from_arrays(
        Graph.from_edge_index(edges), both, y, random_masks(x.size, 1), name="slope"
    )


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
