"""PD-Net in the registry and the trainer: its options, runs at once, and what it learns."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from dense_net import Dense
from pdgnn import InputError
from pdgnn.models import MODELS, Size
from pdgnn.nn import PDNet
from pdgnn.training import RunSpec, Task, train
from pdgnn.training.inputs import InputCache
from pdgnn.training.spec import resolved
from published import (
    check_equivariance,
    check_fits,
    check_many_are_single,
    features,
    inputs,
    logits,
    made,
    random_graph,
    run,
)
from runs import TASKS, spec

MODEL = MODELS["pd-net"]
OPTIONS = {
    "plain": {},
    "rounds": {"rounds": 3, "inject": True},
    "scopes": {"scopes": "1,1;0.5,0.8", "inject": True},
    "layer": {"norm": "layer"},
    "none": {"norm": "none", "self_path": False},
    "running": {"running": True, "rounds": 2},
    "gcn": {"aggregation": "gcn"},
    "sage": {"aggregation": "sage"},
    "gat": {"aggregation": "gat"},
    "attention": {"attention": True, "rounds": 2, "inject": True},
    "eigenvectors": {"eigenvectors": 2},
    "learned": {"learned": True, "scopes": "1,1", "rounds": 2},
}
every_option = pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)


@every_option
@pytest.mark.parametrize("rewired", [False, True])
def test_the_registry_builds_and_calls_the_module(options, rewired):
    fields = {"options": options, "heads": 2, "alpha": 0.5, "gamma": 0.25, "rewired": rewired}
    graph = random_graph(1)
    module, x = made(MODEL, graph, seed=1, **fields), features(graph)
    found = logits(MODEL, module, graph, x, **fields)
    if options.get("aggregation", "pd") == "pd" or rewired:
        assert module.scopes[0] == (0.5, 0.25)
    if not rewired and not options.get("running"):
        for name in ("scope_alpha", "scope_gamma") if module.learned else ():
            own = module.get_parameter(name)
            own.data = own.data.clamp(0.05, 1.0)
        expected = Dense(module, graph)(x)
        torch.testing.assert_close(
            logits(MODEL, module, graph, x, **fields), expected, rtol=1e-6, atol=1e-6
        )
    assert found.isfinite().all()


@every_option
def test_many_runs_are_as_many_single_ones(options):
    own = [options, {**options, "scope_lr": 0.1}, {**options, "optimizer": "adam"}]
    check_many_are_single(MODEL, *own, heads=2)


@pytest.mark.parametrize("name", ["plain", "rounds", "learned"])
def test_runs_of_several_scopes_train_at_once(name):
    base = {"model": "pd-net", "dataset": "ring", "precision": "float64", "depth": 2}
    runs = [
        spec(**base, alpha=a, gamma=g, split=i, seed=i, options=OPTIONS[name])
        for i, (a, g) in enumerate([(0.0, 1.0), (1.0, 1.0), (0.5, 0.25)])
    ]
    together = train(runs, tasks=TASKS, curves=True, most_runs=3)
    alone = train(runs, tasks=TASKS, curves=True, most_runs=1)
    for one, other in zip(together, alone, strict=True):
        np.testing.assert_allclose(one.curves, other.curves, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("name", ["running", "learned", "attention"])
def test_rounds_computed_again_train_alike(name):
    base = {"model": "pd-net", "precision": "float64", "dropout": 0.3, "steps": 4}
    runs = [spec(**base, split=i, seed=i, options=OPTIONS[name]) for i in range(2)]
    for most in (1, 2):
        made, again = (
            train(runs, tasks=TASKS, curves=True, most_runs=most, recompute=r, keep=("weights",))
            for r in (False, True)
        )
        for one, other in zip(made, again, strict=True):
            np.testing.assert_allclose(other.curves, one.curves, rtol=1e-6, atol=1e-8)
            for key, value in one.weights.items():
                torch.testing.assert_close(other.weights[key], value, rtol=1e-6, atol=1e-8)


def test_nodes_may_come_in_any_order():
    check_equivariance(MODEL, options=OPTIONS["rounds"])
    check_equivariance(MODEL, options=OPTIONS["learned"])


@pytest.mark.parametrize("name", ["running", "learned"])
def test_it_learns_small_graphs_by_heart(name):
    check_fits(MODEL, steps=60, heads=2, options=OPTIONS[name])


def test_it_fits_a_board_that_gcn_does_not():
    task = Task.open("minesweeper-generated:size=24,seed=2")
    common = {"dataset": "board", "width": 16, "lr": 0.02, "dropout": 0.0, "steps": 60}
    specs = [
        RunSpec(**common, model="gcn"),
        RunSpec(**common, model="pd-net", alpha=0.0, options={"rounds": 4, "inject": True}),
    ]
    gcn, net = train(specs, tasks={"board": task}, curves=True)
    assert gcn.curves[-1, 0] > 0.2
    assert net.curves[-1, 0] < 0.05


def test_weights_go_on_to_a_module_of_more_rounds():
    options = {"rounds": 3, "inject": True}
    one = spec(model="pd-net", depth=2, alpha=0.0, options=options)
    (found,) = train([one], tasks=TASKS, keep=("weights", "logits"))
    task = TASKS["board"]
    net = PDNet(task.x.shape[1], 8, 1, depth=2, **options)
    net.load_state_dict(found.weights)
    given = net.eval().inputs(task.graph)
    torch.testing.assert_close(net(task.x, **given), found.logits)
    net.rounds = 9
    assert not torch.allclose(net(task.x, **given), found.logits)


def test_a_run_knows_what_matters_to_it():
    def key(**fields) -> str:
        return RunSpec(dataset="graph", model="pd-net", **fields).key

    assert key(heads=4) == key()
    assert key(heads=4, options={"attention": True}) != key(options={"attention": True})
    assert key(heads=4, options={"aggregation": "gat"}) != key(options={"aggregation": "gat"})
    assert key(gamma=0.5) != key()
    for options in ({"aggregation": "gcn"}, {"aggregation": "sage"}, {"aggregation": "gat"}):
        assert key(gamma=0.5, options=options) == key(options=options)
        assert key(gamma=0.5, rewired=True, options=options) != key(rewired=True, options=options)
        more = {**options, "eigenvectors": 1}
        assert key(gamma=0.5, options=more) != key(options=more)
    assert key(options={"scopes": "1.0,1"}) == key(options={"scopes": "1:1"})


def test_inputs_are_those_that_a_run_asks_for():
    graph = random_graph(0)
    asked = {
        "plain": {"edge_index", "edge_weight"},
        "gat": {"edge_index"},
        "attention": {"edge_index", "edge_weight", "edge_attr"},
        "eigenvectors": {"edge_index", "edge_weight", "phi"},
        "learned": {"edge_index", "edge_weight", "degree"},
    }
    for name, expected in asked.items():
        assert set(inputs(MODEL, graph, heads=2, options=OPTIONS[name])) == expected
    loops = inputs(MODEL, graph)["edge_index"].num_edges
    assert loops == inputs(MODEL, graph, options=OPTIONS["learned"])["edge_index"].num_edges + 14


@pytest.mark.parametrize("name", ["plain", "scopes", "learned"])
def test_runs_of_the_same_scopes_share_their_weights(name):
    cache, one = InputCache(TASKS, {}), spec(model="pd-net", options=OPTIONS[name])
    runs = [one, replace(one, split=1, seed=2, lr=0.5, depth=3), replace(one, gamma=0.5)]
    first, same, other = (cache.get(resolved(r, MODEL), torch.float32) for r in runs)
    assert first["edge_weight"] is same["edge_weight"]
    assert first["edge_index"] is same["edge_index"] is other["edge_index"]
    learned = name == "learned"  # there the weights are those of the graph
    assert (first["edge_weight"] is other["edge_weight"]) == learned


def test_learned_scopes_have_a_rate_of_their_own_and_no_decay():
    told = run(MODEL, lr=0.1, weight_decay=0.01, options={"learned": True})
    assert MODEL.rates(told) == {"": (0.1, 0.01), "scope_": (0.01, 0.0)}
    told = run(MODEL, lr=0.1, options={"learned": True, "scope_lr": 0.5})
    assert MODEL.rates(told)["scope_"] == (0.5, 0.0)
    module = MODEL.make(Size(5, 1), run(MODEL, alpha=0.25, gamma=0.5, options={"learned": True}))
    assert torch.equal(module.scope_alpha, torch.full((1, 6), 0.25))
    assert torch.equal(module.scope_gamma, torch.full((1, 6), 0.5))
    (found,) = train(
        [spec(model="pd-net", alpha=0.0, options={"learned": True}, steps=20)],
        tasks=TASKS,
        keep=("weights",),
    )
    assert len(found.weights["scope_alpha"].unique()) > 1


def test_decay_is_coupled_where_the_option_says_so():
    assert [MODEL.coupled(run(MODEL, options={"optimizer": o})) for o in ("adamw", "adam")] == [
        False,
        True,
    ]
    runs = [
        spec(model="pd-net", weight_decay=0.5, options={"optimizer": o}, steps=8)
        for o in ("adamw", "adam")
    ]
    one, other = train(runs, tasks=TASKS, curves=True)
    assert not np.allclose(one.curves, other.curves)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"options": {"rounds": 0}}, "option rounds: it must be a whole number of at least 1"),
        ({"options": {"scopes": "1"}}, "option scopes: scopes are pairs of alpha and gamma"),
        ({"options": {"scopes": "1,3"}}, r"written like '1,1' or '1,1;0.5,0.8', not '1,3'"),
        ({"options": {"scopes": 1}}, "option scopes: it must be a text"),
        ({"options": {"norm": "group"}}, "option norm: choose one of batch, layer, none"),
        ({"options": {"aggregation": "p"}}, "option aggregation: choose one of pd, gcn, sage"),
        ({"options": {"eigenvectors": -1}}, "option eigenvectors: it must be a whole number"),
        ({"options": {"optimizer": "sgd"}}, "option optimizer: choose one of adamw, adam"),
        ({"options": {"scope_lr": -1.0}}, "option scope_lr: it must be a number"),
        ({"options": {"inject": 1}}, "option inject must be True or False"),
        ({"options": {"norm": "layer", "running": True}}, "leave running=True out"),
        ({"options": {"aggregation": "gcn", "scopes": "1,1"}}, "side by side; take 'pd'"),
        ({"gamma": 0.0, "options": {"learned": True}}, "starts at 0.01 or above"),
        ({"width": 20, "options": {"attention": True}}, "width 20 does not split into 8 equal"),
    ],
)
def test_bad_options(fields, message):
    with pytest.raises(InputError, match=message) as error:
        resolved(RunSpec(dataset="graph", model="pd-net", **fields), MODEL)
    assert "\n" not in str(error.value)


def test_more_eigenvectors_than_there_are():
    with pytest.raises(InputError, match="eigenvectors=40, but the largest component"):
        train([spec(model="pd-net", options={"eigenvectors": 40})], tasks=TASKS)
