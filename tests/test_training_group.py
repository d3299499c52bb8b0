"""R runs in one step against R runs alone, and a loop written by hand."""

from __future__ import annotations

import math
from collections import Counter

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from pdgnn.models import MODELS
from pdgnn.ops import reference, use_backend
from pdgnn.training import PRECISIONS, RunSpec
from pdgnn.training.group import Group, matmul_precision
from pdgnn.training.metrics import scores
from pdgnn.training.spec import resolved
from pdgnn.training.state import (
    flat_parameters,
)
from pdgnn.training.traced import traced
from runs import OWN, TASKS, build, group, prepare, spec

MOST = 77
GO_ON = ("mean", "square", "seconds", "buffers.")  # unused, when a run has ended


def trained(*specs: RunSpec, steps: int = 4, **options) -> Group:
    made = group(*specs, **options)
    for _ in range(steps):
        made.train_step()
    return made


def mixed(model: str, **options) -> list[RunSpec]:
    """Three runs that differ in all that the runs of a group may differ in."""
    common = {"model": model, "precision": "float64", "depth": 2, **options}
    return [
        spec(**common, split=0, seed=3, lr=1e-2, weight_decay=0.1, dropout=0.0, gamma=0.5),
        spec(**common, split=1, seed=4, lr=3e-2, dropout=0.5, alpha=0.25, patience=1),
        spec(**common, split=1, seed=3, lr=1e-3, weight_decay=1.0, dropout=0.2, gamma=0.0),
    ]


@pytest.mark.parametrize("model", [*OWN, "pd-net"])
def test_many_runs_are_as_many_single_ones(model):
    runs = mixed(model, dataset="ring" if model.startswith("p") else "board")
    together = trained(*runs, curves=True)
    for i, run in enumerate(runs):
        alone = trained(run, curves=True)
        for name, value in alone.state.tensors().items():
            mine = together.state.tensors()[name][i]
            torch.testing.assert_close(
                mine, value[0], rtol=1e-9, atol=1e-9, equal_nan=True, msg=lambda m, n=name: n + m
            )
        torch.testing.assert_close(together.evaluate()[i], alone.evaluate()[0])


def by_hand(run: RunSpec, steps: int) -> tuple[Tensor, list[list[float]]]:
    """Final parameters and the curves of one run, by the model itself and torch's optimizer."""
    task = TASKS[run.dataset]
    shape = {"hidden_channels": run.width, "depth": run.depth, "heads": run.heads}
    model = build(
        run.model, task.x.shape[1], task.out_channels, **shape, dropout=run.dropout, seed=run.seed
    ).double()
    inputs = prepare(task.graph, run.model, alpha=run.alpha, gamma=run.gamma, dtype=torch.float64)
    x, given = task.x.double(), (inputs.edges, inputs.edge_weight, inputs.edge_attr)
    train, *held_out = task.masks[run.split]
    adamw = torch.optim.AdamW(model.parameters(), lr=run.lr, weight_decay=run.weight_decay)
    curves = []
    for _ in range(steps):
        adamw.zero_grad()
        logits, y = model.train()(x, *given)[train], task.y[train]
        if task.out_channels == 1:
            loss = F.binary_cross_entropy_with_logits(logits[:, 0], y.double())
        else:
            loss = F.cross_entropy(logits, y)
        loss.backward()
        adamw.step()
        with torch.no_grad():
            out = model.eval()(x, *given)
        found = scores(out[None], task.y, torch.stack(held_out)[None])[0]
        curves.append([loss.item(), *found.tolist()])
    return flat_parameters([model])[0], curves


@pytest.mark.parametrize("dataset", ["board", "ring"])
@pytest.mark.parametrize("model", ["mlp", "gcn", "pd-gcn", "pd-gat-sep", "gt"])
def test_a_run_is_a_plain_loop_written_by_hand(model, dataset):
    runs = mixed(model, dataset=dataset)
    runs[1] = RunSpec(**{**runs[1].__dict__, "patience": None})
    made = trained(*runs, curves=True)
    for i, run in enumerate(runs):
        parameters, curves = by_hand(run, 4)
        torch.testing.assert_close(made.state.parameters[i], parameters, rtol=1e-9, atol=1e-9)
        expected = torch.tensor(curves, dtype=torch.float32)
        torch.testing.assert_close(made.state.curves[i, :4], expected)
        result = made.results()[i]
        best = max(range(4), key=lambda step: curves[step][1])  # the first of equals
        assert (result.step, result.val, result.test) == (best + 1, *curves[best][1:])
        assert (result.steps_run, result.diverged_at) == (4, None)
        assert result.curves.shape == (4, 3)


class Launches(TorchDispatchMode):
    """Counts what would be a launch on a GPU of its own, but for kernels and matrix products."""

    def __init__(self) -> None:
        super().__init__()
        self.found = Counter()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out, name = func(*args, **(kwargs or {})), func.name()
        if name.startswith("pdgnn::"):
            given = (t for t in tree_leaves(args) if isinstance(t, Tensor))
            self.found[f"strided to {name}"] += sum(not t.is_contiguous() for t in given)
        elif not func.is_view and name not in NO_LAUNCH:
            self.found[name] += any(isinstance(t, Tensor) and t.numel() for t in tree_leaves(out))
        return out


NO_LAUNCH = {"aten::bmm", "aten::_unsafe_view", "aten::empty.memory_format", "aten::empty_like"}


def launches(model: str, depth: int, precision: str) -> Counter:
    runs = [spec(model=model, depth=depth, precision=precision, width=16, seed=i) for i in range(3)]
    with use_backend("reference"):
        made = trained(*runs, steps=1)
        with Launches() as counted:
            made.train_step()
    return +counted.found


@pytest.mark.parametrize("precision", ["bfloat16", "float32"])
@pytest.mark.parametrize("model", ["pd-gat", "pd-gcn"])
def test_a_step_takes_few_launches_around_its_kernels(model, precision, monkeypatch):
    monkeypatch.setattr(reference, "adamw_", lambda *_: None)  # one kernel
    shallow, deep = (launches(model, depth, precision) for depth in (1, 5))
    assert not [name for name in deep if name.startswith("strided")]
    assert shallow.total() <= MOST, shallow
    assert deep.total() == shallow.total(), deep - shallow  # a layer adds none


def test_a_run_that_diverges_is_named_and_leaves_the_others_alone():
    calm = [spec(split=i, seed=i, model="pd-gat", steps=8) for i in range(2)]
    wild = spec(seed=9, lr=1e30, model="pd-gat", steps=8)
    together = trained(calm[0], wild, calm[1], steps=8, curves=True)
    first, broken, last = together.results()
    assert broken.diverged_at == broken.steps_run == 2
    assert broken.step == 0
    assert math.isnan(broken.val)
    assert math.isnan(broken.test)
    assert broken.curves.shape == (2, 3)
    assert math.isfinite(broken.curves[0, 0])
    assert not math.isfinite(broken.curves[1, 0])
    alone = trained(*calm, steps=8).results()  # two runs: their matrix products are batched too
    assert [first, last] == alone
    assert not any(r.diverged_at for r in alone)


def test_a_run_that_has_ended_stays_as_it_is():
    runs = [
        spec(lr=0.0, patience=2, steps=9),
        *(spec(seed=s, patience=1, steps=9) for s in range(3)),
    ]
    made = trained(*runs, steps=4, curves=True, keep=("logits", "weights"))
    ended = (~made.running()).nonzero().flatten().tolist()
    assert len(ended) > 1  # some with a learning rate
    now = made.state.tensors()
    before = {name: t.clone() for name, t in now.items() if not name.startswith(GO_ON)}
    assert {"best_logits", "best_parameters", "best_buffers.step"} < before.keys()
    assert [made.steps_left().tolist()[i] for i in ended] == [0] * len(ended)
    for _ in range(5):
        made.train_step()
    for name, value in before.items():
        for i in ended:
            mine = made.state.tensors()[name][i]
            torch.testing.assert_close(mine, value[i], equal_nan=True, rtol=0, atol=0)
    first = made.results()[0]
    assert (first.step, first.steps_run) == (1, 3)  # lr = 0: no step is better than the first
    assert first.curves.shape == (3, 3)
    assert not torch.tensor(first.curves).isnan().any()


def test_early_stopping_does_not_depend_on_the_company():
    runs = [spec(seed=s, split=s, patience=p, steps=12) for s, p in enumerate((1, 2, 4, 12))]
    together = trained(*runs, steps=12).results()
    pairs = [trained(run, runs[0], steps=12).results()[0] for run in runs]
    assert together == pairs
    assert [r.steps_run for r in together] == [min(12, r.step + r.spec.patience) for r in together]
    assert len({r.steps_run for r in together}) > 1


def same_state(one: Group, other: Group) -> None:
    """Bit for bit."""
    for name, value in one.state.tensors().items():
        mine = other.state.tensors()[name]
        torch.testing.assert_close(mine, value, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("model", OWN)
def test_layers_computed_again_train_with_the_same_bits(model):
    for run in mixed(model, dataset="ring", precision="float32")[:2]:
        same_state(trained(run, curves=True), trained(run, curves=True, recompute=True))


@pytest.mark.parametrize("precision", PRECISIONS)
def test_layers_are_computed_again_in_every_precision(precision):
    run = spec(model="pd-gat", depth=2, precision=precision)
    same_state(trained(run), trained(run, recompute=True))


@pytest.mark.parametrize("model", ["mlp", "pd-gcn", "pd-gat-sep", "pd-net", "gt", "plain-pd-gat"])
def test_layers_of_many_runs_are_computed_again_at_once(model):
    runs = mixed(model, dataset="board")
    made, again = trained(*runs, curves=True), trained(*runs, curves=True, recompute=True)
    for name, value in made.state.tensors().items():
        mine = again.state.tensors()[name]
        torch.testing.assert_close(mine, value, rtol=1e-9, atol=1e-9, equal_nan=True)
    assert made.results() == again.results()


def test_parameters_come_from_the_seed_alone():
    torch.manual_seed(1)
    one = group(spec(seed=5), spec(seed=6))
    torch.manual_seed(2)
    other = group(spec(seed=6), spec(seed=5))
    assert torch.equal(one.state.parameters, other.state.parameters.flip(0))
    assert not torch.equal(*one.state.parameters)


@pytest.mark.parametrize("precision", PRECISIONS)
def test_every_precision_trains_and_leaves_no_trace(precision):
    before = torch.get_float32_matmul_precision()
    assert before == "highest"
    for model in ("pd-gat", "gcn", "gt-sep", "sage"):
        made = trained(*(spec(model=model, split=i, precision=precision) for i in range(2)))
        full = trained(*(spec(model=model, split=i, precision="float64") for i in range(2)))
        kept = torch.float64 if precision == "float64" else torch.float32
        assert made.state.parameters.dtype == made.state.loss.dtype == kept
        near = 0.05 if precision == "bfloat16" else 1e-3
        torch.testing.assert_close(made.state.loss.double(), full.state.loss, rtol=near, atol=near)
    assert torch.get_float32_matmul_precision() == before


def test_the_precision_of_matrix_products_is_put_back_also_after_an_error():
    made = group(spec(precision="tf32", width=16))
    made.module = None  # breaks in the middle of a step
    with pytest.raises(AttributeError):
        made.train_step()
    assert torch.get_float32_matmul_precision() == "highest"
    torch.set_float32_matmul_precision("medium")
    try:
        with matmul_precision("float32"):
            assert torch.get_float32_matmul_precision() == "highest"
        assert torch.get_float32_matmul_precision() == "medium"
    finally:
        torch.set_float32_matmul_precision("highest")


def test_backward_passes_have_the_precision_too(monkeypatch):
    seen = []
    grad = torch.autograd.grad

    def spy(*args, **options):
        seen.append(torch.get_float32_matmul_precision())
        return grad(*args, **options)

    monkeypatch.setattr(torch.autograd, "grad", spy)
    trained(spec(precision="tf32"), steps=1)
    trained(spec(), steps=1)
    assert seen == ["high", "highest"]


def test_a_grid_of_scopes_builds_a_module_for_each_seed(monkeypatch):
    built, make = [], type(MODELS["pd-gcn"]).make
    monkeypatch.setattr(
        type(MODELS["pd-gcn"]),
        "make",
        lambda self, size, run: built.append(run.seed) or make(self, size, run),
    )
    runs = [spec(model="pd-gcn", seed=s, gamma=g) for g in (0.1, 0.5, 0.9) for s in (4, 7)]
    made = group(*runs)
    assert sorted(built) == [4, 7]
    rows = made.state.parameters
    assert torch.equal(rows[0], rows[2])
    assert not torch.equal(rows[0], rows[1])
    rows[0] += 1  # each run has its own
    assert not torch.equal(rows[0], rows[2])


@pytest.mark.parametrize("field", ["key", "__dict__"])
def test_what_is_read_in_bulk_counts_as_all(field):
    noted, seen = traced(resolved(spec(model="pd-gcn"), MODELS["pd-gcn"]))
    getattr(noted, field)
    assert {"alpha", "gamma", "lr", "split"} <= seen
