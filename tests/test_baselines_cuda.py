"""The heterophilous systems on a GPU: captured, and the numbers of a CPU."""

from __future__ import annotations

import pytest
import torch

from pdgnn.baselines import cpgnn, fagcn, fsgnn, gbk_gnn, glognn, gpr_gnn, h2gcn
from pdgnn.training import RunSpec, loop, train
from runs import TASKS

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA GPU")

SYSTEMS = {
    "H2GCN": (h2gcn, {}),
    "CPGNN": (cpgnn, {"pretraining": 3}),
    "GPR-GNN": (gpr_gnn, {}),
    "FSGNN": (fsgnn, {}),
    "GloGNN": (glognn, {"delta": 0.5}),
    "FAGCN": (fagcn, {}),
    "GBK-GNN": (gbk_gnn, {}),
    "GBK-GNN without the gate": (gbk_gnn, {"gate": False}),
}


@pytest.mark.parametrize("dataset", ["ring", "board"])
@pytest.mark.parametrize("name", SYSTEMS)
def test_a_step_is_captured_and_gives_what_a_cpu_gives(name, dataset, monkeypatch):
    captured, original = [], loop.captured_step

    def noted(group):
        step = original(group)
        captured.append(step != group.train_step)
        return step

    monkeypatch.setattr(loop, "captured_step", noted)
    system, options = SYSTEMS[name]
    common = {"dataset": dataset, "model": "mine", "width": 8, "lr": 0.01, "options": options}
    runs = [
        RunSpec(**common, steps=8, split=i, seed=i, dropout=0.2 * i, precision="float64")
        for i in range(3)
    ]
    go = {"models": {"mine": system.MODEL}, "tasks": TASKS, "keep": ("weights",)}
    fast, cpu = train(runs, device="cuda", **go), train(runs, device="cpu", **go)
    assert captured == [True]
    for a, b in zip(fast, cpu, strict=True):
        assert a.step == b.step
        for key, value in b.weights.items():
            torch.testing.assert_close(a.weights[key], value, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", SYSTEMS)
def test_bfloat16_trains(name):
    system, options = SYSTEMS[name]
    common = {"dataset": "ring", "model": "mine", "width": 16, "lr": 0.01, "options": options}
    runs = [RunSpec(**common, steps=8, split=i, precision="bfloat16") for i in range(3)]
    found = train(runs, models={"mine": system.MODEL}, tasks=TASKS, device="cuda", curves=True)
    for r in found:
        assert torch.from_numpy(r.curves).isfinite().all()
