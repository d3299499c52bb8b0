"""What a step takes, from sizes alone."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import nn

from pdgnn.models import MODELS
from pdgnn.training import Model, RunSpec, Task
from pdgnn.training import cost as costs
from pdgnn.training.cost import begin_seconds, runs_at_once, step_seconds
from pdgnn.training.spec import resolved
from runs import OWN, TASKS, spec

RING = TASKS["ring"]  # 30 nodes, 40 edges, 4 features, 3 classes


def test_the_formula(monkeypatch):
    """GCN of depth 1 and width 8 has Linear(4, 8), two Linear(8, 8) and Linear(8, 3), and norms."""
    run, attending = (spec(dataset="ring", model=m, depth=1, width=8) for m in ("gcn", "gat"))
    parameters = (4 * 8 + 8) + 2 * (8 * 8 + 8) + (8 * 3 + 3) + 2 * 2 * 8
    module = MODELS["gcn"].make(RING.size, run)
    assert sum(p.numel() for p in module.parameters()) == parameters
    terms = {
        "LAYER": 1 + 2,
        "MESSAGES": 1,
        "PRODUCT": 30 * parameters,
        "MESSAGE": (2 * 40 + 30) * 8,
        "ATTENTION": 0,
        "CHANNEL": 30 * 8 * 2,
    }
    for name, expected in terms.items():
        with monkeypatch.context() as patched:
            for other in terms:
                patched.setattr(costs, other, float(other == name))
            assert step_seconds(run, RING) == expected, name
            if name in ("MESSAGES", "MESSAGE", "ATTENTION"):
                more = {"MESSAGES": 2, "MESSAGE": (2 * 40 + 30) * 8, "ATTENTION": (2 * 40 + 30) * 2}
                assert step_seconds(attending, RING) == more[name], name


def test_what_a_run_does_not_have_does_not_count(monkeypatch):
    for name in ("LAYER", "PRODUCT", "CHANNEL"):
        monkeypatch.setattr(costs, name, 0.0)
    assert step_seconds(spec(model="mlp"), RING) == 0
    assert 0 < step_seconds(spec(model="gcn"), RING) < step_seconds(spec(model="gat"), RING)
    plain, rewired = spec(model="gcn"), spec(model="gcn", rewired=True)
    assert step_seconds(plain, RING) < step_seconds(rewired, RING)


def test_few_features_that_are_not_0_cost_what_they_are():
    x = torch.zeros(30, 400)
    x[:, 0] = 1
    sparse = Task.from_arrays(RING.graph, x, RING.y, RING.masks)
    dense = Task.from_arrays(RING.graph, x + 1, RING.y, RING.masks)
    run = spec(width=64)
    gap = step_seconds(run, dense) - step_seconds(run, sparse)
    assert gap == pytest.approx(costs.PRODUCT * 64 * (30 * 400 - 30))


@pytest.mark.parametrize("field", ["width", "depth"])
@pytest.mark.parametrize("model", OWN)
def test_a_larger_module_takes_longer(model, field):
    run = spec(model=model)
    larger = replace(run, **{field: 2 * getattr(run, field)})
    assert step_seconds(larger, RING) > step_seconds(run, RING)


def net(**fields) -> RunSpec:
    return resolved(spec(model="pd-net", **{"depth": 2, **fields}), MODELS["pd-net"])


def test_rounds_of_pd_net_take_as_long_as_so_many_layers():
    once, often, deep = (
        step_seconds(one, RING) for one in (net(), net(options={"rounds": 10}), net(depth=20))
    )
    assert often == pytest.approx(deep, rel=0.05)
    assert often > 5 * once
    attends = net(options={"attention": True})
    assert step_seconds(attends, RING) > once
    assert begin_seconds(attends, RING) > begin_seconds(net(), RING) == 0


def test_what_pd_net_makes_of_its_features_counts_once_for_all_rounds(monkeypatch):
    """Linear(4, 8), two layers with W and W_0 [8, 8] of itself and of P, norms, Linear(8, 3)."""
    for name in ("LAYER", "MESSAGES", "MESSAGE", "CHANNEL"):
        monkeypatch.setattr(costs, name, 0.0)
    monkeypatch.setattr(costs, "PRODUCT", 1.0)
    run = net(width=8, options={"rounds": 5, "inject": True})
    in_rounds, constant = 2 * (2 * 64 + 2 * 8), 2 * 2 * 64
    assert step_seconds(run, RING) == 30 * ((4 * 8 + 8) + 5 * in_rounds + constant + (8 * 3 + 3))


def test_every_scope_of_pd_net_has_messages(monkeypatch):
    for name in ("LAYER", "MESSAGES", "PRODUCT", "CHANNEL"):
        monkeypatch.setattr(costs, name, 0.0)
    one, three = net(), net(options={"scopes": "1,1;0.5,0.8"})
    assert step_seconds(three, RING) == pytest.approx(3 * step_seconds(one, RING))


def test_a_model_of_ones_own_counts_as_the_heaviest_kind():
    mine = {"mine": Model(build=MODELS["gcn"].build, inputs=MODELS["gcn"].inputs)}
    own = step_seconds(spec(model="mine"), RING, models=mine)
    assert own > step_seconds(spec(model="gcn"), RING)
    lazy = {"mine": Model(build=lambda size, spec: nn.LazyLinear(size.out_channels))}
    assert step_seconds(spec(model="mine", width=8), RING, models=lazy) > 0


@pytest.mark.parametrize(
    ("model", "options"), [("linkx", {}), ("glognn", {}), ("pgso-gcn", {"node_loops": True})]
)
def test_what_every_node_has_of_its_own_is_no_dense_product(model, options, monkeypatch):
    """W_A of LINKX has a row for each node, of which a node sums those of its neighbours."""
    told = spec(dataset="ring", model=model, depth=2, width=8, options=options)
    run = resolved(told, MODELS[model])
    module = MODELS[model].make(RING.size, run)
    own = sum(p.numel() for p in module.parameters() if 30 in p.shape)
    assert own in (30, 30 * 8)
    rest = sum(p.numel() for p in module.parameters()) - own
    for name in ("LAYER", "MESSAGES", "MESSAGE", "CHANNEL"):
        monkeypatch.setattr(costs, name, 0.0)
    monkeypatch.setattr(costs, "PRODUCT", 1.0)
    assert step_seconds(run, RING) == 30 * rest
    as_wide = replace(run, width=30)  # a Linear may be of this shape too, and is not left out
    assert step_seconds(as_wide, RING) > 30 * 4 * 30


def test_a_width_that_a_model_does_not_have_does_not_count(monkeypatch):
    """JacobiConv has as many channels as classes: Linear(4, 3), ten η and eleven θ of each."""
    told = spec(dataset="ring", model="jacobiconv", width=costs.AT_ONCE_CHANNELS)
    run = replace(resolved(told, MODELS["jacobiconv"]), width=told.width)
    for name in ("LAYER", "MESSAGES", "CHANNEL"):
        monkeypatch.setattr(costs, name, 0.0)
    monkeypatch.setattr(costs, "PRODUCT", 1.0)
    monkeypatch.setattr(costs, "MESSAGE", 1.0)
    parameters = (4 * 3 + 3) + 10 + 11 * 3
    assert step_seconds(run, RING) == 30 * parameters + (2 * 40 + 30) * 3 * run.depth
    assert runs_at_once(run, RING, 10) == 10


def test_a_gpu_is_faster_on_large_graphs_and_takes_longer_to_begin():
    run = spec(width=512, depth=5)
    assert step_seconds(run, RING, "cuda") < step_seconds(run, RING)
    assert begin_seconds(run, RING, "cuda") > begin_seconds(run, RING)


def test_an_eigenvector_takes_time_before_the_first_step():
    assert begin_seconds(spec(model="gcn"), RING) == 0
    solved = begin_seconds(spec(model="pd-gat"), RING)
    assert solved == pytest.approx(costs.SOLVE * (30 + 40))
    assert begin_seconds(spec(model="gcn", rewired=True), RING) == solved


def test_many_small_runs_train_at_once():
    run, least = spec(width=64), costs.LEAST_AT_ONCE
    assert runs_at_once(run, RING, least - 1) == 1  # fewer are faster in turn
    assert runs_at_once(run, RING, least) == least
    assert runs_at_once(run, RING, 17) == 9  # and 8
    assert runs_at_once(run, RING, 48) == 16
    wide = costs.AT_ONCE_CHANNELS // 30
    assert runs_at_once(replace(run, width=wide), RING, 48) == 16
    assert runs_at_once(replace(run, width=wide + 1), RING, 48) == 1
    assert runs_at_once(replace(run, model="mine"), RING, 48) == 1
