"""What a run may be: checked fields, one form for equal ones, and text that reads back."""

from __future__ import annotations

import json
import math
import pickle
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from pdgnn import InputError
from pdgnn.models import MODELS, Model, Option
from pdgnn.training import RunResult, RunSpec
from pdgnn.training.spec import resolved
from runs import spec


def result(**options) -> RunResult:
    made = {"val": 0.5, "test": 0.25, "step": 3, "steps_run": 6, "seconds": 1.5}
    return RunResult(options.pop("spec", spec()), **{**made, **options})


def test_the_defaults_are_the_protocol():
    run = RunSpec(dataset="cora", model="gat")
    assert (run.lr, run.weight_decay, run.dropout) == (3e-5, 0.0, 0.2)
    assert (run.width, run.heads, run.steps, run.patience) == (512, 8, 1000, None)
    assert (run.alpha, run.gamma, run.rewired, run.precision) == (1.0, 1.0, False, "float32")


def test_equal_runs_have_equal_keys_however_their_numbers_are_written():
    one = spec(alpha=1, gamma=np.float64(0.5), lr=0, weight_decay=-0.0, seed=np.int64(3), width=8)
    two = spec(alpha=1.0, gamma=0.5, lr=0.0, weight_decay=0, seed=3, width=np.int32(8))
    assert one == two
    assert one.key == two.key
    assert one.to_json() == two.to_json()
    assert type(one.alpha) is float
    assert type(one.seed) is int


def test_every_field_counts_in_the_key_where_the_model_uses_it():
    gat = {"model": "pd-gat", "rewired": True}
    runs = [spec(**gat), spec(**gat, dataset="b"), spec(**gat, depth=2), spec(**gat, width=16)]
    runs += [spec(**gat, heads=4), spec(**gat, split=1), spec(**gat, seed=1)]
    runs += [spec(**gat, alpha=0.5), spec(**gat, gamma=0.5), spec(**gat, reach="far")]
    runs += [spec(model="pd-gat"), spec(model="gat"), spec(**gat, lr=0.1)]
    runs += [spec(**gat, weight_decay=0.1), spec(**gat, dropout=0.1), spec(**gat, steps=7)]
    runs += [spec(**gat, patience=3), spec(**gat, precision="float64")]
    fields = set(json.loads(spec().to_json())) - {"options", "defaults"}
    assert len({run.key for run in runs}) == len(runs) == len(fields) + 1
    own = [spec(model="mine", options=options) for options in ({}, {"k": 2}, {"k": 3}, {"j": 2})]
    assert len({run.key for run in own}) == 4


def test_fields_that_a_model_does_not_use_do_not_count():
    gcn = spec()
    for unused in ({"heads": 4}, {"alpha": 0.5}, {"gamma": 0.5}, {"reach": "far"}):
        assert spec(**unused).key == gcn.key
    assert spec(model="mlp", rewired=True, gamma=0.5).key == spec(model="mlp").key
    assert spec(rewired=True, gamma=0.5).key != spec(rewired=True).key
    assert spec(model="pd-gat", reach="far").key == spec(model="pd-gat").key
    assert spec(model="mine", gamma=0.5).key != spec(model="mine").key  # whose use is not known


MINE = Model(build=nn.Module, options={"k": 2, "slope": Option(0.5, value=True)}, uses=["depth"])


def test_a_run_is_resolved_to_all_options_and_to_the_defaults_of_what_is_not_used():
    run = resolved(spec(model="mine", width=99, dropout=0.5, depth=3, options={"k": 4}), MINE)
    assert run.options == {"k": 4, "slope": 0.5}
    assert run.defaults == ("slope",)
    usual = RunSpec(dataset="board", model="mine")
    assert (run.width, run.dropout, run.depth) == (usual.width, usual.dropout, 3)
    assert resolved(run, MINE) == run
    assert resolved(spec(model="mine", depth=3, options={"slope": 0.5, "k": 4}), MINE) == run


def test_options_at_their_default_do_not_count():
    """So that a key outlasts options that a model gets later."""
    without = replace(MINE, options={})
    plain, given = (resolved(spec(model="mine", options=o), MINE) for o in ({}, {"k": 2}))
    assert plain == given
    assert plain.key == given.key == resolved(spec(model="mine"), without).key
    assert resolved(spec(model="mine", options={"k": 3}), MINE).key != plain.key


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"j": 1}, "mine has no option 'j'; it has k, slope"),
        ({"k": 2.5}, "option k must be a whole number, not 2.5"),
        ({"k": True}, "option k must be a whole number, not True"),
        ({"slope": "steep"}, "option slope must be a number"),
    ],
)
def test_options_are_checked_by_the_model(options, message):
    with pytest.raises(InputError) as caught:
        resolved(spec(model="mine", options=options), MINE)
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


def test_options_never_change():
    given = {"k": 2}
    run = spec(options=given)
    given["k"] = 3
    assert run.options == {"k": 2}
    with pytest.raises(TypeError, match="the options of a run do not change"):
        run.options["k"] = 3
    with pytest.raises(TypeError, match="the options of a run do not change"):
        run.options.update(k=3)
    again = pickle.loads(pickle.dumps(run))
    assert again == run
    assert hash(again) == hash(run)


def test_json_reads_back():
    run = spec(model="pd-gat", dataset="größe\u2028.npz", patience=5, lr=1e-30, seed=2**63 - 1)
    assert RunSpec.from_json(run.to_json()) == run
    mine = resolved(spec(model="mine", options={"k": 3}), MINE)
    again = RunSpec.from_json(mine.to_json())
    assert (again, again.defaults, again.key) == (mine, ("slope",), mine.key)
    assert "\n" not in run.to_json()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dataset": ""}, "dataset must be a name, not ''"),
        ({"dataset": 3}, "dataset must be a name, not 3"),
        ({"model": ""}, "model must be a name, not ''"),
        ({"precision": "float16"}, "unknown precision 'float16'; choose one of float32, tf32"),
        ({"reach": "near"}, "reach must be 'all' or 'far', not 'near'"),
        ({"rewired": 1}, "rewired must be True or False, not 1"),
        ({"depth": 0}, "depth must be a whole number of at least 1 and below 1001, not 0"),
        ({"width": 8.0}, "width must be a whole number of at least 1 and below 131072, not 8.0"),
        ({"heads": True}, "heads must be a whole number of at least 1 and below 131072, not True"),
        (
            {"steps": "9"},
            "steps must be a whole number of at least 1 and below 1000000000, not '9'",
        ),
        ({"split": -1}, "split must be a whole number of at least 0 and below 1000000, not -1"),
        ({"patience": 0}, "patience must be a whole number of at least 1, not 0"),
        (
            {"seed": 2**63},
            f"seed must be a whole number of at least 0 and below {2**63}, not {2**63}",
        ),
        ({"alpha": 1.01}, "alpha must be a number in [0, 1], not 1.01"),
        ({"gamma": math.nan}, "gamma must be a number in [0, 1], not nan"),
        ({"gamma": "0.5"}, "gamma must be a number in [0, 1], not '0.5'"),
        ({"dropout": 1.0}, "dropout must be a number in [0, 1), not 1.0"),
        ({"lr": math.inf}, "lr must be a number of at least 0, and finite, not inf"),
        ({"lr": -1e-9}, "lr must be a number of at least 0, and finite, not -1e-09"),
        ({"lr": 10**400}, "lr must be a number of at least 0, and finite, not 1000"),
        ({"weight_decay": None}, "weight_decay must be a number of at least 0, and finite, not No"),
        ({"depth": 99999999999}, "depth must be a whole number of at least 1 and below 1001, not"),
        ({"width": 1000000000}, "width must be a whole number of at least 1 and below 131072, not"),
        ({"options": [("k", 2)]}, "options must be a dict of names and values, not [('k', 2)]"),
        ({"options": {"k": [2]}}, "options has 'k': [2]; give numbers, flags or texts, by name"),
        ({"options": {2: 2}}, "options has 2: 2; give numbers, flags or texts, by name"),
        ({"options": {"k": math.nan}}, "options has 'k': nan; give a finite number"),
    ],
)
def test_bad_fields_are_one_line(options, message):
    with pytest.raises(InputError) as caught:
        spec(**options)
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 200


def test_heads_count_only_where_they_are_used_and_a_check_draws_nothing():
    torch.manual_seed(0)
    before = torch.get_rng_state()
    assert resolved(spec(model="gcn", heads=3), MODELS["gcn"]).heads == 8  # as if it was not given
    assert resolved(spec(model="pd-gat", width=20, heads=5), MODELS["pd-gat"]).heads == 5
    for name in ("gat", "gt-sep"):
        said = f"^width 8 does not split into 3 equal heads, which {name} needs; choose a multiple$"
        with pytest.raises(InputError, match=said):
            resolved(spec(model=name, heads=3), MODELS[name])
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize(
    "text",
    ["", "[]", "3", "{}", '{"dataset": "a"}', '{"dataset": "a", "model": "gcn", "speed": 3}', None],
)
def test_text_that_is_no_run_is_refused(text):
    with pytest.raises(InputError, match=r"not a run|a run needs dataset"):
        RunSpec.from_json(text)


def test_results_read_back_and_are_compared_without_their_time():
    one = result(diverged_at=4, curves=np.zeros((6, 3), np.float32))
    two = RunResult.from_dict(json.loads(json.dumps(one.to_dict(), allow_nan=False)))
    assert two == one == result(diverged_at=4, seconds=9.0)
    assert two.seconds == 1.5
    assert two.curves is None
    assert result() != result(test=0.26)


def test_a_result_without_a_score_is_plain_json():
    values = json.loads(json.dumps(result(val=math.nan, test=math.nan).to_dict(), allow_nan=False))
    assert (values["val"], values["test"]) == (None, None)
    back = RunResult.from_dict(values)
    assert math.isnan(back.val)
    assert math.isnan(back.test)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"val": "high"}, r"val must be a number in \[0, 1\], not 'high'"),
        ({"val": 99}, r"val must be a number in \[0, 1\], not 99"),
        ({"test": -0.1}, r"test must be a number in \[0, 1\], not -0.1"),
        ({"seconds": None}, "seconds must be a number of at least 0, and finite, not None"),
        ({"step": 1.5}, "step must be a whole number of at least 0 and below 7, not 1.5"),
        ({"step": 7}, "step must be a whole number of at least 0 and below 7, not 7"),
        ({"steps_run": -1}, "steps_run must be a whole number of at least 0"),
        ({"diverged_at": 0}, "diverged_at must be a whole number of at least 1, not 0"),
        ({"spec": 3}, "a run needs dataset and model"),
        ({"more": 3}, "a result has diverged_at, seconds, spec"),
        ({"version": 3}, "this result is of version 3; update pdgnn to read it"),
        ({"version": 0}, "a result has diverged_at, seconds, spec"),
        ({"version": "2"}, "a result has diverged_at, seconds, spec"),
    ],
)
def test_values_that_are_no_result_are_refused(change, message):
    with pytest.raises(InputError, match=message):
        RunResult.from_dict({**result().to_dict(), **change})
    with pytest.raises(InputError, match="a result has"):
        RunResult.from_dict([])
