"""The published systems on a GPU: captured, and the numbers of a CPU."""

from __future__ import annotations

import pytest
import torch

from pdgnn.baselines.grids import GRIDS
from pdgnn.training import RunSpec, loop, train
from runs import TASKS

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA GPU")

OPTIONS = {"cpgnn": {"pretraining": 3}, "glognn": {"delta": 0.5}}
SYSTEMS = [(name, OPTIONS.get(name, {})) for name in GRIDS] + [
    ("gbk-gnn", {"gate": False}),
    ("linkx", {"edge_layers": 2, "node_layers": 2}),
    ("dgn", {"net": "simple"}),
    ("pgso-gcn", {"node_loops": True, "per_layer": True}),
]


@pytest.mark.parametrize("dataset", ["ring", "board"])
@pytest.mark.parametrize(("name", "options"), SYSTEMS)
def test_a_step_is_captured_and_gives_what_a_cpu_gives(name, options, dataset, monkeypatch):
    captured, original = [], loop.captured_step

    def noted(group):
        step = original(group)
        captured.append(step != group.train_step)
        return step

    monkeypatch.setattr(loop, "captured_step", noted)
    common = {"dataset": dataset, "model": name, "width": 8, "lr": 0.01, "options": options}
    runs = [
        RunSpec(**common, steps=8, split=i, seed=i, dropout=0.2 * i, precision="float64")
        for i in range(3)
    ]
    go = {"tasks": TASKS, "keep": ("weights",)}
    fast, cpu = train(runs, device="cuda", **go), train(runs, device="cpu", **go)
    assert captured == [True]
    for a, b in zip(fast, cpu, strict=True):
        assert a.step == b.step
        for key, value in b.weights.items():
            torch.testing.assert_close(a.weights[key], value, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(("name", "options"), SYSTEMS)
def test_bfloat16_trains(name, options):
    common = {"dataset": "ring", "model": name, "width": 16, "lr": 0.01, "options": options}
    runs = [RunSpec(**common, steps=8, split=i, precision="bfloat16") for i in range(3)]
    found = train(runs, tasks=TASKS, device="cuda", curves=True)
    for r in found:
        assert torch.from_numpy(r.curves).isfinite().all()
