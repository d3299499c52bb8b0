"""What a model says of itself: its options, its settings, its module and its inputs."""

from __future__ import annotations

import pickle
import threading
import time
from dataclasses import replace

import pytest
import torch
from torch import nn

from pdgnn import Graph, InputError
from pdgnn.experiments.records.spaces import OWN_MODELS
from pdgnn.models import MODELS, Model, Option, Size, check_models, find_model
from pdgnn.nn.interface import seeded
from pdgnn.training import RunSpec
from pdgnn.training.spec import resolved
from runs import OWN, prepare

PATH = Graph.from_edge_index([[0, 1, 2, 3, 3], [1, 2, 3, 4, 0]], num_nodes=6)
X = torch.ones(6, 3)


def linear(size: Size, spec: RunSpec) -> nn.Module:
    return nn.Linear(size.in_channels, size.out_channels)


def run(model: str = "mine", **fields) -> RunSpec:
    return RunSpec(dataset="graph", model=model, **fields)


@pytest.mark.parametrize("name", OWN)
def test_the_inputs_of_the_registry_are_those_made_by_hand(name):
    for fields in (
        {},
        {"alpha": 0.3, "gamma": 0.4},
        {"gamma": 0.4, "rewired": True, "reach": "far"},
    ):
        found = MODELS[name].prepare(PATH, X, run(name, **fields))
        expected = prepare(PATH, name, dtype=torch.float64, **fields)
        assert torch.equal(found["edges"].col, expected.edges.col)
        assert torch.equal(found["edges"].rowptr, expected.edges.rowptr)
        for part in ("edge_weight", "edge_attr"):
            mine = getattr(expected, part)
            assert (mine is None) == (part not in found)
            if mine is not None:
                torch.testing.assert_close(found[part].double(), mine, rtol=0, atol=1e-7)


def test_scopes_share_the_edges_of_a_graph():
    one, other = (
        MODELS["pd-gat"].prepare(PATH, X, run("pd-gat", gamma=gamma)) for gamma in (0.2, 0.9)
    )
    assert one["edges"] is other["edges"]
    assert not torch.equal(one["edge_attr"], other["edge_attr"])


def test_a_module_comes_from_the_seed_alone_and_leaves_the_generators():
    before = torch.random.get_rng_state()
    made = [Model(build=linear).make(Size(3, 2), run(seed=s)).weight for s in (1, 1, 2)]
    assert torch.equal(before, torch.random.get_rng_state())
    assert torch.equal(made[0], made[1])
    assert not torch.equal(made[0], made[2])
    with pytest.raises(InputError, match=r"build of the model 'mine' must return an nn.Module"):
        Model(build=lambda size, spec: 3).make(Size(3, 2), run())
    with pytest.raises(InputError, match="inputs of the model 'mine' must give a dict"):
        Model(build=linear, inputs=lambda g, x, spec: [g]).prepare(PATH, X, run())


def test_threads_draw_from_the_generator_one_after_the_other():
    barrier, found = threading.Barrier(4), {}

    def draw(seed: int) -> None:
        barrier.wait(60)
        with seeded(seed):
            first = torch.rand(())
            time.sleep(0.01)  # let the others come in between, if they can
            found[seed] = (first, torch.rand(()))

    torch.manual_seed(11)
    before = torch.get_rng_state()
    threads = [threading.Thread(target=draw, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    for seed in range(4):
        generator = torch.Generator().manual_seed(seed)
        assert found[seed] == tuple(torch.rand((), generator=generator) for _ in range(2))
    assert torch.equal(torch.get_rng_state(), before)


def test_by_default_a_module_is_called_with_edge_index():
    model = Model(build=linear)
    assert model.prepare(PATH, X, run())["edge_index"] is PATH.edge_index
    rewired = model.prepare(PATH, X, run(rewired=True))["edge_index"]
    assert rewired.shape[1] > PATH.edge_index.shape[1]


def test_options_have_defaults_and_checks():
    def even(value):
        if value % 2:
            raise InputError(f"must be even, not {value}")
        return value

    model = Model(
        build=linear, options={"k": Option(2, even), "p": 0.5, "norm": "layer", "on": True}
    )
    plain = resolved(run(), model)
    assert plain.options == {"k": 2, "p": 0.5, "norm": "layer", "on": True}
    assert plain.defaults == ("k", "norm", "on", "p")
    assert resolved(run(options={"k": 2, "p": 0.5}), model).key == plain.key
    assert resolved(run(options={"k": 4}), model).key != plain.key
    assert resolved(run(options={"p": 1}), model).options["p"] == 1.0
    for options, message in (
        ({"k": 3}, "option k: must be even, not 3"),
        ({"p": "half"}, "option p must be a number"),
        ({"p": float("nan")}, "give a finite number"),
        ({"norm": 3}, "option norm must be a text, not 3"),
        ({"on": 1}, "option on must be True or False, not 1"),
        ({"q": 1}, "mine has no option 'q'; it has k, p, norm, on"),
        ({"k": [2]}, "give numbers, flags or texts, by name"),
        ([("k", 2)], "options must be a dict"),
    ):
        with pytest.raises(InputError, match=message):
            resolved(run(options=options), model)


def test_an_option_added_later_keeps_the_key():
    before, after = (
        Model(build=linear, options={"k": 2}),
        Model(build=linear, options={"k": 2, "j": 1}),
    )
    for options in ({}, {"k": 3}):
        spec = run(options=options)
        assert resolved(spec, before).key == resolved(spec, after).key


def test_what_a_model_does_not_use_makes_no_other_run():
    odd = {"alpha": 0.3, "gamma": 0.4, "heads": 4, "reach": "far"}
    assert resolved(run("gcn", **odd), MODELS["gcn"]) == run("gcn")
    assert run("gcn", **odd).key == run("gcn").key
    assert run("gat", **odd).key == run("gat", heads=4).key
    assert run("mlp", rewired=True, **odd).key == run("mlp").key
    rewired = run("gcn", rewired=True, **odd)
    assert rewired.key == run("gcn", rewired=True, alpha=0.3, gamma=0.4, reach="far").key
    assert rewired.key != run("gcn", rewired=True).key
    assert replace(rewired, rewired=False).key == run("gcn").key
    mine = Model(build=linear, uses=("depth",))
    assert resolved(run(width=3, depth=5, **odd), mine) == run(depth=5)


def test_groups_have_rates_of_their_own():
    model = Model(build=linear, groups={"gate": {"lr": 0.5}, "gate.bias": {"weight_decay": 0.0}})
    assert model.rates(run(lr=0.1, weight_decay=0.2)) == {
        "": (0.1, 0.2),
        "gate": (0.5, 0.2),
        "gate.bias": (0.1, 0.0),
    }
    own = Model(build=linear, groups=lambda spec: {"w": {"lr": 2 * spec.lr}})
    assert own.rates(run(lr=0.1))["w"] == (0.2, 0.0)
    for wrong in ({"w": {"momentum": 1.0}}, {"w": {"lr": -1.0}}):
        with pytest.raises(InputError, match="group 'w'"):
            Model(build=linear, groups=wrong).rates(run())


def test_models_are_found_by_name():
    mine = Model(build=linear)
    assert find_model("mine", {"mine": mine}) is mine
    assert find_model("gcn", {"mine": mine}) is MODELS["gcn"]
    with pytest.raises(InputError, match="unknown model 'gnc'; choose one of mine, mlp, resnet"):
        find_model("gnc", {"mine": mine})
    with pytest.raises(InputError, match="'gcn' is a model of pdgnn already; choose another name"):
        check_models({"gcn": mine})
    with pytest.raises(InputError, match="the model 'mine' must be a Model, not function"):
        check_models({"mine": linear})
    with pytest.raises(InputError, match="the name of a model must be a text, not 3"):
        check_models({3: mine})
    with pytest.raises(InputError, match="models must be a dict of names and Models, not "):
        check_models([mine])


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"build": 3}, "build of a model must be a function, not 3"),
        ({"inputs": 3}, "inputs of a model must be a function"),
        ({"inputs": None}, "inputs of a model must be a function, not None"),
        ({"loss": "mse"}, "loss of a model must be a function, not 'mse'"),
        ({"check": 1}, "check of a model must be a function, not 1"),
        ({"groups": "lin"}, "groups must be a dict or a function, not 'lin'"),
        ({"options": ["k"]}, "options must be a dict of names and defaults, not \\['k'\\]"),
        ({"optimizer": "sgd"}, "optimizer must be 'adamw' or 'adam', not 'sgd'"),
        ({"uses": ("lr",)}, "uses has 'lr'; choose among depth, width"),
        ({"values": ("k",)}, "values has 'k'; choose among depth, width"),
        ({"options": {"a b": 1}}, "an option is called like a variable, not 'a b'"),
        ({"options": {"k": [1]}}, "option k must be a number, a flag or a text, not list"),
    ],
)
def test_bad_models_are_one_line(fields, message):
    with pytest.raises(InputError, match=message):
        Model(**{"build": linear, **fields})


@pytest.mark.parametrize("name", [*MODELS, *OWN_MODELS])
def test_a_model_can_be_sent_to_a_worker(name):
    model = {**MODELS, **OWN_MODELS}[name]
    sent = pickle.loads(pickle.dumps(model))
    assert set(sent.options) == set(model.options)
    for option in ("rounds", "trees"):
        if option in sent.options:
            with pytest.raises(InputError, match=r"it must be a whole|choose one of"):
                sent.options[option].check("nothing of the kind")


def test_heads_must_split_the_width():
    with pytest.raises(InputError, match="width 8 does not split into 3 equal heads, which gat"):
        resolved(run("gat", width=8, heads=3), MODELS["gat"])
    assert resolved(run("gcn", width=8, heads=3), MODELS["gcn"]).heads == 8
