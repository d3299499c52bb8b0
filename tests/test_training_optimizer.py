"""The optimizer of many runs against torch's own, and groups of parameters."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from pdgnn.models import MODELS
from pdgnn.training.optimizer import Optimizer, parameter_groups
from pdgnn.training.state import (
    RunState,
)
from runs import spec


def stepped(optimizer, state: RunState, theirs: list, *, parts, running) -> None:
    """Twenty steps of ours, and of theirs, each of which has the parameters of one run."""
    generator = torch.Generator().manual_seed(1)
    for _ in range(20):
        grads = torch.randn(state.parameters.shape, generator=generator, dtype=torch.float64) ** 3
        state.step += 1
        optimizer.step([(group, grads[:, part]) for group, part in parts], running)
        for own, g in zip(theirs, grads, strict=True):
            groups = [p for group in own.param_groups for p in group["params"]]
            for p, (_, part) in zip(groups, parts, strict=True):
                p.grad = g[part].clone()
            own.step()


@pytest.mark.parametrize("coupled", [False, True])
def test_the_optimizer_is_that_of_torch(coupled):
    """AdamW, and Adam with L2; a rate and a decay for each group of parameters of each run."""
    generator = torch.Generator().manual_seed(0)
    start = torch.randn(2, 7, generator=generator, dtype=torch.float64)
    rates = torch.tensor([[[0.1, 0.003], [0.0, 0.5]], [[0.02, 0.3], [0.9, 0.1]]])  # [G, 2, R]
    rates = rates.double()
    state, running = RunState.new(start.clone()), torch.tensor([True, True])
    ours = Optimizer(state, rates, coupled=coupled)
    parts = [(1, slice(0, 3)), (0, slice(3, 7))]
    kind = torch.optim.Adam if coupled else torch.optim.AdamW
    leaves = [[start[i, part].clone().requires_grad_() for _, part in parts] for i in range(2)]
    theirs = []
    for i, mine in enumerate(leaves):
        groups = []
        for p, (number, _) in zip(mine, parts, strict=True):
            lr, decay = rates[number, :, i].tolist()
            groups.append({"params": [p], "lr": lr, "weight_decay": decay})
        theirs.append(kind(groups))
    stepped(ours, state, theirs, parts=parts, running=running)
    expected = torch.stack([torch.cat(mine) for mine in leaves]).detach()
    torch.testing.assert_close(state.parameters, expected, rtol=1e-12, atol=0)
    before = state.parameters.clone()
    ours.step([(0, torch.ones(2, 7, dtype=torch.float64))], torch.tensor([False, True]))
    assert torch.equal(state.parameters[0], before[0])
    assert not torch.equal(state.parameters[1], before[1])


def test_runs_of_both_kinds_of_decay_take_their_steps_together():
    generator = torch.Generator().manual_seed(0)
    start = torch.randn(2, 5, generator=generator, dtype=torch.float64)
    rates = torch.tensor([[[0.1, 0.02], [0.5, 0.9]]], dtype=torch.float64)  # [G, 2, R]
    state, running = RunState.new(start.clone()), torch.tensor([True, True])
    ours, theirs, leaves = Optimizer(state, rates, coupled=[False, True]), [], []
    for i, kind in enumerate((torch.optim.AdamW, torch.optim.Adam)):
        leaves.append([start[i].clone().requires_grad_()])
        lr, decay = rates[0, :, i].tolist()
        theirs.append(kind(leaves[i], lr=lr, weight_decay=decay))
    stepped(ours, state, theirs, parts=[(0, slice(0, 5))], running=running)
    expected = torch.stack([mine[0] for mine in leaves]).detach()
    torch.testing.assert_close(state.parameters, expected, rtol=1e-12, atol=0)


def test_a_parameter_is_of_the_group_with_the_longest_beginning_of_its_name():
    groups = {"lin": {"lr": 0.5}, "lin_out": {"weight_decay": 0.25}}
    model = replace(MODELS["gcn"], groups=groups)
    runs = [spec(lr=0.1, weight_decay=0.01), spec(lr=0.2)]
    names = ["norm.weight", "lin_in.weight", "lin_out.weight", "lin.bias"]
    numbers, rates = parameter_groups(model, runs, names)
    assert rates.shape == (3, 2, 2)
    assert [rates[i].tolist() for i in numbers] == [
        [[0.1, 0.2], [0.01, 0.0]],
        [[0.5, 0.5], [0.01, 0.0]],
        [[0.1, 0.2], [0.25, 0.25]],
        [[0.5, 0.5], [0.01, 0.0]],
    ]
