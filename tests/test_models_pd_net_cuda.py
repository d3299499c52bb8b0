"""PD-Net on a GPU: captured in every setting, and the numbers of a CPU."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from pdgnn.training import RunSpec, loop, train
from runs import TASKS
from test_models_pd_net import OPTIONS

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA GPU")


def runs(options: dict, dataset: str = "board", **fields) -> list[RunSpec]:
    """Three that differ in split, seed, dropout and scope."""
    common = {"dataset": dataset, "model": "pd-net", "width": 8, "heads": 2, "lr": 0.01, "steps": 8}
    return [
        RunSpec(
            **{**common, **fields},
            split=i,
            seed=i,
            dropout=0.2 * i,
            alpha=0.5 * i,
            gamma=1 - 0.25 * i,
            options=options,
        )
        for i in range(3)
    ]


@pytest.mark.parametrize("recompute", [False, True])
@pytest.mark.parametrize("dataset", ["ring", "board"])
@pytest.mark.parametrize("name", OPTIONS)
def test_a_step_is_captured_and_gives_what_a_cpu_gives(name, dataset, recompute, monkeypatch):
    captured, original = [], loop.captured_step

    def noted(group):
        step = original(group)
        captured.append(step != group.train_step)
        return step

    monkeypatch.setattr("pdgnn.training.loop.captured_step", noted)
    specs = runs(OPTIONS[name], dataset, precision="float64")
    go = {"tasks": TASKS, "keep": ("weights",), "curves": True, "recompute": recompute}
    fast, cpu = train(specs, device="cuda", **go), train(specs, device="cpu", **go)
    assert captured == [True]
    for a, b in zip(fast, cpu, strict=True):
        np.testing.assert_allclose(a.curves[:, 0], b.curves[:, 0], atol=1e-5)
        assert a.step == b.step
        for key, value in b.weights.items():
            torch.testing.assert_close(a.weights[key], value, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("precision", ["float32", "tf32", "bfloat16"])
@pytest.mark.parametrize("name", OPTIONS)
def test_other_precisions_are_near(name, precision):
    found, right = (
        train(runs(OPTIONS[name], width=32, precision=p), tasks=TASKS, device="cuda", curves=True)
        for p in (precision, "float64")
    )
    near = 2e-3 if precision == "float32" else 0.1
    for a, b in zip(found, right, strict=True):
        assert np.isfinite(a.curves).all()
        np.testing.assert_allclose(a.curves[:3, 0], b.curves[:3, 0], atol=near)


def test_the_same_bits_twice():
    specs = runs(OPTIONS["rounds"], steps=30)
    once, twice = (train(specs, tasks=TASKS, device="cuda", curves=True) for _ in range(2))
    for a, b in zip(once, twice, strict=True):
        np.testing.assert_array_equal(a.curves, b.curves)


def test_more_rounds_computed_again_take_one_more_state_each():
    """So large that it is states that memory goes to."""
    from test_training_cuda import large_tasks

    tasks, nodes, width = large_tasks(50_000), 50_000, 64
    peaks = {}
    for rounds in (4, 4, 12):  # the first compiles
        options = {"rounds": rounds, "inject": True}
        spec = RunSpec(
            dataset="large", model="pd-net", width=width, depth=2, steps=5, options=options
        )
        (found,) = train([spec], tasks=tasks, device="cuda", recompute=True)
        peaks[rounds] = found.memory
    state = nodes * width * 4
    assert peaks[12] - peaks[4] < 8 * state * 1.5
