"""Losses, groups of parameters and optimizers of models of a user's own, against torch's."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F  # noqa: N812

from own_models import CPU, gcn_only, phases, spec
from pdgnn.training import Model, RunSpec, Task
from pdgnn.training.group import Group
from runs import three_classes


def by_hand(run: RunSpec, task: Task, loss, optimizer) -> torch.Tensor:
    """The parameters after the run by torch's own optimizer."""
    module = Model(build=gcn_only).make(task.size, run).double()
    steps = optimizer(module)
    for step in range(1, run.steps + 1):
        steps.zero_grad()
        outputs = module(task.x.double(), task.graph.edge_index)
        train_mask = task.masks[run.split, 0]
        loss(outputs, task.y.clamp(min=0), train_mask, torch.tensor(step)).backward()
        steps.step()
    return torch.cat([p.detach().flatten() for p in module.parameters()])


def final(run: RunSpec, model: Model, task: Task, runs: int) -> torch.Tensor:
    """The parameters after the run, trained in a group of so many."""
    from pdgnn.training.spec import resolved

    plain = resolved(run, model)
    inputs = model.prepare(task.graph, task.x, plain)
    made = Group([plain] * runs, model, task, [inputs] * runs, device=CPU)
    for _ in range(run.steps):
        made.train_step()
    return torch.cat([t[-1].flatten() for t in made._parameters.by_name.values()]).detach()


@pytest.mark.parametrize("runs", [1, 3])
def test_a_loss_of_ones_own_may_use_other_outputs_and_the_step(runs):
    run = spec(dataset="ring", precision="float64", weight_decay=0.1)
    found = final(run, Model(build=gcn_only, loss=phases), three_classes(), runs)
    adamw = lambda m: torch.optim.AdamW(m.parameters(), lr=run.lr, weight_decay=0.1)  # noqa: E731
    torch.testing.assert_close(
        found, by_hand(run, three_classes(), phases, adamw), rtol=1e-9, atol=0
    )


@pytest.mark.parametrize("runs", [1, 2])
@pytest.mark.parametrize("kind", ["adam", "adamw"])
def test_groups_and_optimizers_are_those_of_torch(kind, runs):
    run = spec(dataset="ring", precision="float64", weight_decay=0.1)
    groups = {"gate": {"lr": 0.3, "weight_decay": 0.0}, "lin.bias": {"weight_decay": 0.5}}
    model = Model(build=gcn_only, loss=phases, groups=groups, optimizer=kind)

    def optimizer(module):
        own = [
            {"params": [module.lin.weight]},
            {"params": [module.lin.bias], "weight_decay": 0.5},
            {"params": list(module.gate.parameters()), "lr": 0.3, "weight_decay": 0.0},
        ]
        made = torch.optim.Adam if kind == "adam" else torch.optim.AdamW
        return made(own, lr=run.lr, weight_decay=0.1)

    found = final(run, model, three_classes(), runs)
    expected = by_hand(run, three_classes(), phases, optimizer)
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-12)


def test_class_weights_reach_the_usual_loss_and_one_of_ones_own():
    weights = [0.0, 2.0, 0.5]
    ring = three_classes()
    task = Task.from_arrays(ring.graph, ring.x, ring.y, ring.masks, class_weights=weights)
    run = spec(dataset="ring", precision="float64")

    def usual(outputs, target, train_mask, step):
        weight = torch.tensor(weights, dtype=torch.float64)
        return F.cross_entropy(outputs["logits"][train_mask], target[train_mask], weight=weight)

    def own(outputs, target, train, step, weight):
        each = F.cross_entropy(outputs["logits"], target, reduction="none", weight=weight)
        return (each * train).sum() / (weight[target] * train).sum()

    adamw = lambda m: torch.optim.AdamW(m.parameters(), lr=run.lr, weight_decay=0.0)  # noqa: E731
    expected = by_hand(run, task, usual, adamw)
    for loss in (None, own):
        for runs in (1, 2):
            found = final(run, Model(build=gcn_only, loss=loss), task, runs)
            torch.testing.assert_close(found, expected, rtol=1e-8, atol=0)
