"""Models of a user's own on a GPU: captured, with PyG's layers as they are."""

from __future__ import annotations

import warnings

import pytest
import torch
from torch import nn

from own_models import TASKS, Net, gcn_only, net, phases, spec
from pdgnn.training import Model, loop, train

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA GPU")


def go(specs, model, **options):
    return train(specs, models={"mine": model}, tasks=TASKS, **{"device": "cuda", **options})


def test_pyg_layers_are_captured_and_give_what_they_give_without(monkeypatch):
    captured = []
    original = loop.captured_step

    def noted(group):
        step = original(group)
        captured.append(step != group.train_step)
        return step

    monkeypatch.setattr(loop, "captured_step", noted)
    runs = [spec(split=i, seed=i, dropout=0.0, steps=8, precision="float64") for i in range(4)]
    keep = ("logits", "weights")
    fast = go(runs, net(values=("dropout",)), keep=keep)
    assert captured == [True]
    slow = go(runs, net(values=("dropout",)), keep=keep, capture=False)
    cpu = go(runs, net(values=("dropout",)), keep=keep, device="cpu")
    for a, b, c in zip(fast, slow, cpu, strict=True):
        assert (a.step, a.val, a.test) == (b.step, b.val, b.test)
        torch.testing.assert_close(a.logits, b.logits, rtol=1e-6, atol=1e-6)
        torch.testing.assert_close(a.logits, c.logits, rtol=1e-5, atol=1e-5)
        for name, value in a.weights.items():
            torch.testing.assert_close(b.weights[name], value, rtol=1e-5, atol=1e-5)


def test_dropout_of_torch_differs_from_step_to_step_when_replayed():
    runs = [spec(split=i, lr=0.0, dropout=0.5, steps=30) for i in range(2)]
    for r in go(runs, net(), curves=True):
        assert len(set(r.curves[5:, 0].tolist())) > 20


def test_losses_with_phases_are_captured():
    runs = [spec(dataset="ring", steps=8, precision="float64", seed=i) for i in range(3)]
    model = Model(build=gcn_only, loss=phases)
    fast, slow = (go(runs, model, curves=True, capture=c) for c in (True, False))
    for a, b in zip(fast, slow, strict=True):
        assert abs(a.curves - b.curves).max() < 1e-6


class Read(nn.Module):
    """Reads back a value that changes from step to step."""

    def forward(self, x):
        float(x.detach().sum())
        return x


def test_what_cannot_be_captured_trains_without_and_says_so():
    def build(size, run):
        return nn.Sequential(nn.Linear(size.in_channels, size.out_channels), Read())

    model = Model(build=build, inputs=lambda graph, x, run: {})
    runs = [spec(split=i) for i in range(2)]
    with pytest.warns(UserWarning, match="cannot be captured as a CUDA graph"):
        found = go(runs, model, most_runs=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again = go(runs, model, most_runs=1, capture=False)
    assert [r.step for r in found] == [r.step for r in again]


def test_bfloat16_of_a_module_that_does_not_know_of_it_is_captured():
    runs = [spec(split=i, precision="bfloat16", steps=8) for i in range(2)]
    for r in go(runs, Model(build=Net, options={"k": 1}), keep=["logits"]):
        assert r.logits.isfinite().all()
