"""R runs in one step against R runs alone, torch's own optimizers and a loop written by hand."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace

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
from pdgnn.training.optimizer import Optimizer, parameter_groups
from pdgnn.training.spec import resolved
from pdgnn.training.state import (
    ALIGNED,
    SMALL,
    RunState,
    StackedParameters,
    flat_parameters,
    views,
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


def shapes(model: torch.nn.Module) -> dict[str, torch.Size]:
    return {name: p.shape for name, p in model.named_parameters()}


def test_views_share_the_flat_parameters():
    model = build("pd-gat", 3, 2, hidden_channels=8, depth=1, heads=2)
    flat = flat_parameters([model, model])
    parts = views(flat, shapes(model))
    for name, p in model.named_parameters():
        assert torch.equal(parts[name][1], p)
    flat.zero_()
    assert all(not part.any() for part in parts.values())


@pytest.mark.parametrize("runs", [1, 3])
@pytest.mark.parametrize("narrow", [None, torch.bfloat16])
def test_leaves_follow_the_rows(runs, narrow):
    models = [build("pd-gat", 3, 2, hidden_channels=72, depth=1, heads=2, seed=i) for i in range(3)]
    model, rows = models[0], flat_parameters(models[:runs])
    leaves = StackedParameters(rows, model, narrow=narrow, wide=model.wide)
    assert list(leaves.by_name) == [name for name, _ in model.named_parameters()]
    for scale in (1.0, 0.5):
        rows *= scale
        leaves.follow()
        for name, part in views(rows, shapes(model)).items():
            leaf = leaves.by_name[name]
            wide = narrow is None or name.startswith(("lin_in", "norm_out", "lin_out"))
            assert leaf.dtype == (torch.float32 if wide else torch.bfloat16)
            assert torch.equal(leaf, part.to(leaf.dtype))
            assert leaf.is_leaf
            assert leaf.requires_grad
            assert leaf.is_contiguous() == (runs == 1 or part[0].numel() <= SMALL)
            assert leaf.storage_offset() % ALIGNED == 0
    assert leaves.by_name["layers.0.block.lin.weight"].is_contiguous() == (runs == 1)  # is large


@pytest.mark.parametrize("narrow", [None, torch.bfloat16])
@pytest.mark.parametrize("name", ["pd-gat", "plain-gcn"])  # of two types, and of one
def test_gradients_are_where_the_parameters_are(name, narrow):
    models = [build(name, 3, 2, hidden_channels=8, depth=2, heads=2, seed=i) for i in range(3)]
    rows = flat_parameters(models)
    leaves = StackedParameters(rows, models[0], narrow=narrow, wide=models[0].wide)
    found = leaves.side_by_side([leaf.detach() for leaf in leaves.by_name.values()])
    wide, layers = torch.float32, narrow or torch.float32
    types = [wide, layers, wide] if models[0].wide and narrow else [layers]
    assert [part.dtype for _, part in found] == types
    assert {group for group, _ in found} == {0}
    flat = torch.cat([part.float() for _, part in found], dim=1)
    expected = {n: leaf.float() for n, leaf in leaves.by_name.items()}
    assert flat.shape == rows.shape
    for part, value in views(flat, shapes(models[0])).items():
        assert torch.equal(value, expected[part])
    assert torch.equal(flat == 0, rows == 0)  # so are the gaps
    grads = [leaf.detach() for leaf in leaves.by_name.values()]
    apart = leaves.side_by_side(grads, [0, *[1] * (len(grads) - 1)])
    assert [group for group, _ in apart][:2] == [0, 1]
    assert torch.equal(torch.cat([part.float() for _, part in apart], dim=1), flat)


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
