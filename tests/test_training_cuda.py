"""Training on a GPU: the captured step gives what single steps and the CPU give."""

from __future__ import annotations

import gc
from dataclasses import replace

import numpy as np
import pytest
import torch

from pdgnn import Graph
from pdgnn.ops import use_backend
from pdgnn.training import Task, train
from runs import OWN, TASKS, random_masks, spec

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA GPU")


def curves(specs, **options):
    return [r.curves for r in train(specs, tasks=TASKS, curves=True, **options)]


@pytest.mark.parametrize("model", [*OWN, "pd-net"])
def test_a_captured_group_trains_as_the_cpu_does(model):
    specs = [
        spec(
            dataset=dataset,
            model=model,
            precision="float64",
            split=i,
            seed=i,
            gamma=0.3 + 0.2 * i,
            alpha=0.5,
            lr=0.01 * (i + 1),
            dropout=0.1 * i,
        )
        for dataset in ("board", "ring")
        for i in range(3)
    ]
    here = curves(specs)
    for capture in (True, False):
        there = curves(specs, device="cuda", capture=capture)
        for a, b in zip(there, here, strict=True):
            np.testing.assert_allclose(a, b, atol=1e-5)


def test_the_same_bits_twice():
    specs = [spec(model="pd-gat", split=i, seed=i, steps=30) for i in range(4)]
    once, twice = (curves(specs, device="cuda") for _ in range(2))
    for a, b in zip(once, twice, strict=True):
        np.testing.assert_array_equal(a, b)


def test_runs_that_stop_early_or_diverge_leave_the_others_alone():
    specs = [
        spec(split=0, steps=40, patience=3),
        spec(split=1, steps=40, lr=1e38),
        spec(split=2, steps=40),
    ]
    results = train(specs, tasks=TASKS, device="cuda")
    assert results[0].steps_run == min(40, results[0].step + 3)
    assert results[1].diverged_at is not None
    assert results[2].steps_run == 40
    alone = train(specs[2:], tasks=TASKS, device="cuda")[0]
    assert (alone.step, alone.val, alone.test) == (
        results[2].step,
        pytest.approx(results[2].val, abs=0.02),
        pytest.approx(results[2].test, abs=0.02),
    )


def test_as_many_runs_at_once_as_are_allowed():
    specs = [spec(model="gat", split=i % 10, seed=i, precision="float64") for i in range(7)]
    for one, all_ in zip(
        curves(specs, device="cuda", most_runs=3), curves(specs, device="cuda"), strict=True
    ):
        np.testing.assert_allclose(one, all_, atol=1e-6)


@pytest.mark.parametrize("precision", ["tf32", "bfloat16"])
def test_other_precisions_are_close(precision):
    specs = [spec(model=m, precision=p) for m in ("pd-gat", "gt") for p in ("float32", precision)]
    exact, rough, exact_gt, rough_gt = curves(specs, device="cuda")
    np.testing.assert_allclose(rough[:, 0], exact[:, 0], atol=0.03)
    np.testing.assert_allclose(rough_gt[:, 0], exact_gt[:, 0], atol=0.03)


@pytest.mark.parametrize("capture", [True, False])
@pytest.mark.parametrize("model", ["mlp", "pd-gcn", "pd-gat-sep", "pd-net", "gt", "plain-pd-gat"])
def test_layers_computed_again_give_the_same_numbers(model, capture):
    specs = [
        spec(model=model, precision="float64", depth=3, split=i, seed=i, gamma=0.5, dropout=0.3)
        for i in range(3)
    ]
    options = {"device": "cuda", "capture": capture}
    for most in (1, 3):
        made, again = (curves(specs, **options, most_runs=most, recompute=r) for r in (False, True))
        for a, b in zip(again, made, strict=True):
            np.testing.assert_allclose(a, b, atol=1e-6)


def test_workers_on_a_gpu_give_what_one_process_gives():
    specs = [spec(model=m, split=i, seed=i) for m in ("gcn", "pd-gat", "mlp") for i in range(2)]
    alone, found = (curves(specs, device="cuda", workers=n) for n in (1, 2))
    for a, b in zip(found, alone, strict=True):
        np.testing.assert_array_equal(a, b)


def large_tasks(nodes: int) -> dict[str, Task]:
    """A random graph of 3 edges for each node; the labels are random too."""
    rng = np.random.default_rng(0)
    graph = Graph.from_edge_index(rng.integers(0, nodes, (2, 3 * nodes)), nodes)
    x, y = rng.normal(size=(nodes, 8)).astype(np.float32), rng.integers(0, 3, nodes)
    return {"large": Task.from_arrays(graph, x, y, random_masks(nodes, 1))}


@pytest.mark.parametrize("recompute", [False, True])
@pytest.mark.parametrize("depth", [1, 8])
def test_a_large_graph_is_trained_as_plain_torch_does(depth, recompute):
    """So large that the programs of a kernel take several tiles, and that kernels wait in line.

    The loss of the second step is what the signs of the first gradients make it: 2.5 at depth 8,
    and about 1.2 where those of most layers are noise.
    """
    run = spec(dataset="large", model="gat", depth=depth, width=64, steps=3)
    options = {"tasks": large_tasks(100_000), "device": "cuda", "capture": False, "curves": True}
    with use_backend("reference"):
        right = train([replace(run, precision="float64")], **options)[0].curves
    found = train([run], **options, recompute=recompute)[0].curves
    np.testing.assert_allclose(found[:, 0], right[:, 0], atol=1e-3)


@pytest.mark.parametrize("capture", [True, False])
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_layers_computed_again_take_less_memory(precision, capture):
    run = spec(dataset="large", model="gat", depth=8, width=64, precision=precision)
    tasks = large_tasks(100_000)
    options = {"tasks": tasks, "device": "cuda", "capture": capture, "curves": True}
    train([run], **options)  # compiles, and fills what libraries keep for themselves
    peaks, found = [], []
    for recompute in (False, True):
        gc.collect()
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        found.append(train([run], **options, recompute=recompute)[0].curves)
        peaks.append(torch.cuda.max_memory_allocated() - before)
    near = 1e-4 if precision == "float32" else 1e-2
    np.testing.assert_allclose(found[1][:, 0], found[0][:, 0], atol=near)
    assert peaks[1] < 0.7 * peaks[0]


def test_a_run_knows_the_memory_it_took():
    few, many = ([spec(split=i, width=64) for i in range(n)] for n in (1, 8))
    alone, *_ = train(few, tasks=TASKS, device="cuda")
    together = train(many, tasks=TASKS, device="cuda")
    assert {r.memory for r in together} == {together[0].memory}
    assert 0 < together[0].memory <= alone.memory
    assert train(few, tasks=TASKS)[0].memory is None
