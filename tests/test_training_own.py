"""Models of a user's own in the trainer: PyG's layers, losses, groups, what is kept of them."""

from __future__ import annotations

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from sklearn.metrics import roc_auc_score
from torch import nn
from torch.nn import functional as F  # noqa: N812
from torch_geometric.nn import GCNConv

from own_models import CPU, TASKS, Net, gcn_only, net, spec
from pdgnn import InputError
from pdgnn.nn import Dropout
from pdgnn.training import Model, Option, Task, summarize, to_arrow, train
from pdgnn.training.constants import Constants
from pdgnn.training.group import Group
from runs import StopError, board, three_classes


def go(specs, model=None, **options):
    return train(specs, models={"mine": model or net()}, tasks=TASKS, **options)


def test_a_pyg_model_trains_as_it_is_and_its_score_is_that_of_its_logits():
    runs = [spec(split=s, options={"k": k}) for s in range(3) for k in (0, 2)]
    for most in (None, 6):
        for r in go(runs, keep=("logits", "weights"), most_runs=most):
            test = board().masks[r.spec.split, 2]
            assert roc_auc_score(board().y[test], r.logits[test, 0]) == pytest.approx(
                r.test, abs=1e-12
            )
            made = net().make(board().size, r.spec)
            made.load_state_dict(r.weights)
            with torch.no_grad():
                again = made.eval()(board().x, board().graph.edge_index)
            torch.testing.assert_close(again, r.logits)
            assert r.weights["norm.module.num_batches_tracked"] == r.step


def test_runs_at_once_are_runs_alone():
    model = net(values=("dropout",))
    runs = [
        spec(split=i, seed=i, dropout=0.0, lr=0.01 * (i + 1), precision="float64") for i in range(3)
    ]
    one, many = (go(runs, model, keep=("logits", "weights"), most_runs=m) for m in (1, 3))
    assert one == many
    for a, b in zip(one, many, strict=True):
        torch.testing.assert_close(a.logits, b.logits, rtol=1e-9, atol=1e-9)
        for name, value in a.weights.items():
            torch.testing.assert_close(b.weights[name], value, rtol=1e-6, atol=1e-6)


def test_the_same_seed_gives_the_same_numbers_on_a_cpu_in_any_company_and_after_a_stop(tmp_path):
    runs = [spec(split=i, seed=i) for i in range(3)]
    state = torch.random.get_rng_state()
    whole = go(runs, curves=True)
    assert torch.equal(state, torch.random.get_rng_state())
    torch.manual_seed(5)
    alone = [go([run], curves=True)[0] for run in reversed(runs)][::-1]
    assert all(np.array_equal(a.curves, b.curves) for a, b in zip(whole, alone, strict=True))
    calls = []

    def stop(progress):
        calls.append(progress)
        if progress.step == 2 and progress.runs_done == 1:
            raise StopError

    from pdgnn.training import loop

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "LOOK_SECONDS", 0.0)
        with pytest.raises(StopError):
            go(runs, curves=True, folder=tmp_path, progress=stop)
        after = go(runs, curves=True, folder=tmp_path)
    assert all(np.array_equal(a.curves, b.curves) for a, b in zip(whole, after, strict=True))


def test_our_dropout_is_the_same_in_any_company_and_its_rates_mix():
    model = Model(
        build=lambda size, s: Net(size, s, dropout=Dropout), options={"k": 1}, values=("dropout",)
    )
    runs = [spec(split=i, seed=i, dropout=0.3 * i, precision="float64") for i in range(3)]
    one, many = (go(runs, model, curves=True, most_runs=m) for m in (1, 3))
    for a, b in zip(one, many, strict=True):
        np.testing.assert_allclose(a.curves, b.curves, rtol=1e-6)
    (calm,) = go([spec(split=1, seed=1, dropout=0.0)], model, curves=True)
    assert not np.allclose(one[1].curves[:, 0], calm.curves[:, 0])


def test_rates_of_dropout_that_a_module_holds_as_numbers_train_apart(monkeypatch):
    sizes, init = [], Group.__init__

    def noted(self, specs, *args, **options):
        sizes.append(len(specs))
        init(self, specs, *args, **options)

    monkeypatch.setattr(Group, "__init__", noted)
    runs = [spec(split=i, dropout=d) for d in (0.1, 0.5) for i in range(2)]
    go(runs, most_runs=4)
    assert sizes == [2, 2]


def test_options_that_are_values_train_together(monkeypatch):
    sizes, init = [], Group.__init__

    def noted(self, specs, *args, **options):
        sizes.append(len(specs))
        init(self, specs, *args, **options)

    class Scaled(nn.Module):
        def __init__(self, size, run) -> None:
            super().__init__()
            self.lin = nn.Linear(size.in_channels, size.out_channels)
            self.register_buffer("scale", torch.tensor(float(run.options["scale"])))

        def forward(self, x, edge_index):
            return self.lin(self.scale * x)

    model = Model(build=Scaled, options={"scale": Option(1.0, value=True)}, uses=())
    runs = [spec(options={"scale": s}, precision="float64") for s in (0.5, 1.0, 2.0)]
    alone = go(runs, model, curves=True)
    monkeypatch.setattr(Group, "__init__", noted)
    many = go(runs, model, curves=True, most_runs=3)
    assert sizes == [3]
    for a, b in zip(alone, many, strict=True):
        np.testing.assert_allclose(a.curves, b.curves, rtol=1e-6)
    assert len({r.curves[2, 0] for r in many}) == 3


def test_inputs_are_made_once_for_runs_that_share_them_and_may_depend_on_labels():
    made = []

    def inputs(graph, x, run, labels):
        made.append((run.split, run.options["hops"]))
        assert set(labels[~ring.masks[run.split, 0]].tolist()) == {-1}
        shares = F.one_hot(labels + 1, 4)[:, 1:].float()
        return {"x": torch.cat([x, shares], dim=1), "power": run.options["hops"], "known": shares}

    class Module(nn.Module):
        def __init__(self, size, run) -> None:
            super().__init__()
            self.lin = nn.Linear(size.in_channels + size.num_classes, size.out_channels)

        def forward(self, x, power, known):
            assert power in (1, 2)
            return self.lin(x) ** power + known

    ring = three_classes()
    model = Model(
        build=Module, inputs=inputs, labels=True, options={"hops": 1, "p": Option(0.0, value=True)}
    )
    runs = [
        spec(dataset="ring", split=s, seed=seed, options={"hops": h, "p": 0.1 * seed})
        for h in (1, 2)
        for s in (0, 1)
        for seed in (0, 1)
    ]
    alone = go(runs, model)
    assert sorted(made) == [(0, 1), (0, 2), (1, 1), (1, 2)]
    made.clear()
    many = go(runs, model, most_runs=8)
    assert sorted(made) == [(0, 1), (0, 2), (1, 1), (1, 2)]
    assert [r.step for r in alone] == [r.step for r in many]


def test_lazy_layers_see_their_shape_at_the_first_call():
    class Lazy(nn.Module):
        def __init__(self, size, run) -> None:
            super().__init__()
            self.conv = GCNConv(-1, size.out_channels)

        def forward(self, x, edge_index):
            return self.conv(x, edge_index)

    found = go([spec(split=i) for i in range(2)], Model(build=Lazy), most_runs=2, keep=["weights"])
    assert found[0].weights["conv.lin.weight"].shape == (1, 7)


class Sum(nn.Module):
    def forward(self, x):
        return x * float(x.sum() > 0)


def test_what_cannot_be_vmapped_is_named_with_the_remedy():
    def build(size, run):
        return nn.Sequential(nn.Linear(size.in_channels, 4), Sum(), nn.Linear(4, size.out_channels))

    model = Model(build=build, inputs=lambda graph, x, run: {})
    runs = [spec(split=i) for i in range(2)]
    with pytest.raises(InputError) as caught:
        go(runs, model, most_runs=2)
    message = str(caught.value)
    assert message.startswith(
        "1 (Sum) of the model 'mine' cannot be applied to many runs at once ("
    )
    assert message.endswith("replace it, or train with most_runs=1")
    assert len(go(runs, model, most_runs=1)) == 2


def test_an_error_of_the_module_itself_is_left_as_it_is():
    def build(size, run):
        return nn.Sequential(nn.Linear(size.in_channels + 1, size.out_channels))

    model = Model(build=build, inputs=lambda graph, x, run: {})
    for most in (1, 2):
        with pytest.raises(RuntimeError, match=r"shape|size"):
            go([spec(split=i) for i in range(2)], model, most_runs=most)


def too_wide(size, run) -> nn.Module:
    """A score for each of two classes, in the place of one logit."""
    return gcn_only(replace(size, out_channels=2), run)


def no_logits(size, run) -> nn.Module:
    module = gcn_only(size, run)
    forward = module.forward
    module.forward = lambda x, edge_index: {"scores": forward(x, edge_index)["logits"]}
    return module


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (Model(build=lambda size, run: nn.Identity()), "has no parameters to train"),
        (Model(build=gcn_only, loss=lambda o, t, m, s: o["hidden"]), "must be one number"),
        (Model(build=too_wide), r"must return logits \(\d+, 1\).*it returned \(\d+, 2\)"),
        (Model(build=no_logits), "it returned dict$"),
        (
            Model(build=gcn_only, groups={"gat": {}, "scope_": {"lr": 0.1}}),
            "name 'scope_', and no parameter begins like that; there are lin.weight",
        ),
    ],
)
def test_models_that_cannot_be_trained_are_one_line(model, message):
    with pytest.raises(InputError, match=message):
        go([spec()], model)


def test_bfloat16_of_a_module_that_does_not_know_of_it():
    runs = [spec(split=i, precision="bfloat16") for i in range(2)]
    full = [spec(split=i) for i in range(2)]
    for most in (1, 2):
        near = go(runs, keep=["logits"], most_runs=most)
        for a, b in zip(near, go(full, keep=["logits"], most_runs=most), strict=True):
            assert a.logits.dtype == torch.float32
            assert abs(a.test - b.test) < 0.2
            assert not torch.equal(a.logits, b.logits)


def test_what_is_kept_is_in_the_folder_too(tmp_path):
    runs = [spec(split=i) for i in range(2)]
    first = go(runs, folder=tmp_path, keep=["logits"])
    assert all(r.weights is None for r in first)
    again = go(runs, folder=tmp_path, keep=["logits"])
    assert all(torch.equal(a.logits, b.logits) for a, b in zip(first, again, strict=True))
    both = go(runs, folder=tmp_path, keep=["weights", "logits"])  # trained anew, for the weights
    for r in both:
        path = next(tmp_path.glob(f"best-*{r.spec.key}.safetensors"))
        assert path.stat().st_mode == (tmp_path / "runs.sqlite").stat().st_mode  # to be shared
        stored = load_file(path)
        assert torch.equal(stored["logits"], r.logits)
        assert torch.equal(stored["weights.last.weight"], r.weights["last.weight"])
    assert all(r.logits is None for r in go(runs, folder=tmp_path))
    file = next(tmp_path.glob("best-*"))
    file.write_bytes(file.read_bytes()[:100])
    with pytest.raises(InputError, match="delete it to train this run anew"):
        go(runs, folder=tmp_path, keep=["logits"])
    with pytest.raises(InputError, match="keep takes 'logits' and 'weights', not 'states'"):
        go(runs, keep=["states"])


def test_a_stopped_training_keeps_what_was_best_before(tmp_path, monkeypatch):
    from pdgnn.training import loop

    monkeypatch.setattr(loop, "LOOK_SECONDS", 0.0)
    runs = [spec(steps=8)]
    whole = go(runs, keep=["logits", "weights"])[0]

    def stop(progress):
        if progress.step == max(2, whole.step):
            raise StopError

    with pytest.raises(StopError):
        go(runs, keep=["logits", "weights"], folder=tmp_path, progress=stop)
    after = go(runs, keep=["logits", "weights"], folder=tmp_path)[0]
    assert after == whole
    assert torch.equal(after.logits, whole.logits)
    assert all(torch.equal(after.weights[n], t) for n, t in whole.weights.items())


def test_nothing_is_kept_where_no_step_had_a_score():
    found = go([spec(lr=1e38, steps=3)], keep=["logits", "weights"])[0]
    if found.step == 0:
        assert found.logits is None
        assert found.weights is None


def test_results_as_a_flat_table(tmp_path):
    runs = [spec(split=s, options={"k": k}) for s in range(2) for k in (0, 1)]
    found = go([*runs, spec(model="gcn")], folder=tmp_path)
    for table in (to_arrow(found), to_arrow(tmp_path)):
        rows = table.to_pylist()
        assert sorted(r["k"] for r in rows if r["model"] == "mine") == [0, 0, 1, 1]
        assert [r["k"] for r in rows if r["model"] == "gcn"] == [None]
        assert {r["test"] for r in rows} == {r.test for r in found}
        assert {"dataset", "lr", "precision", "seconds", "diverged_at"} <= set(table.column_names)
    assert [s.spec.options.get("k") for s in summarize(found)] == [0, 1, None]
    with pytest.raises(InputError, match="there is no results store"):
        to_arrow(tmp_path / "none")


def test_models_that_cannot_be_sent_to_workers_are_said_so():
    model = Model(build=lambda size, run: Net(size, run, dropout=Dropout), options={"k": 1})
    with pytest.raises(InputError, match="cannot be sent to worker processes"):
        go([spec(split=i) for i in range(2)], model, workers=2)


def test_a_test_part_may_be_missing():
    ring = three_classes()
    masks = ring.masks.clone()
    masks[:, 2] = False
    task = Task.from_arrays(ring.graph, ring.x, ring.y, masks, name="ring")
    for most in (1, 2):
        found = train(
            [spec(dataset="ring", model="gcn", split=i) for i in range(2)],
            tasks={"ring": task},
            most_runs=most,
        )
        assert all(0 <= r.val <= 1 for r in found)
        assert all(np.isnan(r.test) for r in found)


def test_what_a_step_reads_from_the_device_is_taken_from_the_steps_before():
    """PyG's layers drop and add self-loops by masks: steps with and without reading are equal."""
    runs = [spec(split=i, dropout=0.0) for i in range(2)]
    from pdgnn.training.spec import resolved

    plain = [resolved(run, net()) for run in runs]
    made = [net().prepare(board().graph, board().x, plain[0])] * 2
    one, other = (Group(plain, net(), board(), made, device=CPU) for _ in range(2))
    constants = Constants()
    for _ in range(2):
        with constants.noting():
            one.train_step()
        other.train_step()
    constants.check()
    assert len(constants._steps[-1]) > 2
    with constants.used():
        one.train_step()
    other.train_step()
    for name, value in one.state.tensors().items():
        torch.testing.assert_close(other.state.tensors()[name], value, equal_nan=True)


def test_steps_that_read_what_changes_are_not_captured():
    constants = Constants()
    for value in (1.0, 2.0):
        with constants.noting():
            torch.tensor(value).item()
    with pytest.raises(RuntimeError, match="differ from step to step"):
        constants.check()
    with constants.used():
        assert torch.tensor(3.0).item() == 2.0
        with pytest.raises(RuntimeError, match="reads more"):
            torch.tensor(3.0).item()


def test_a_model_is_not_changed_by_training():
    model = net()
    before = copy.copy(model.options)
    go([spec()], model)
    assert model.options == before
