"""What a run may be: checked fields, one form for equal ones, and text that reads back."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import torch

from pdgnn import InputError
from pdgnn.training import RunResult, RunSpec
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


def test_every_field_counts_in_the_key():
    runs = [spec(), spec(dataset="b"), spec(model="gat"), spec(depth=2), spec(width=16)]
    runs += [spec(heads=4), spec(split=1), spec(seed=1), spec(alpha=0.5), spec(gamma=0.5)]
    runs += [spec(rewired=True), spec(reach="far"), spec(lr=0.1), spec(weight_decay=0.1)]
    runs += [spec(dropout=0.1), spec(steps=7), spec(patience=3), spec(precision="float64")]
    assert len({run.key for run in runs}) == len(runs) == len(json.loads(spec().to_json())) + 1


def test_json_reads_back():
    run = spec(model="pd-gat", dataset="größe\u2028.npz", patience=5, lr=1e-30, seed=2**63 - 1)
    assert RunSpec.from_json(run.to_json()) == run
    assert "\n" not in run.to_json()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dataset": ""}, "dataset must be a name or a file, not ''"),
        ({"dataset": 3}, "dataset must be a name or a file, not 3"),
        ({"model": "gtn"}, "unknown model 'gtn'; choose one of mlp, resnet, gcn"),
        ({"precision": "float16"}, "unknown precision 'float16'; choose one of float32, tf32"),
        ({"reach": "near"}, "reach must be 'all' or 'far', not 'near'"),
        ({"rewired": 1}, "rewired must be True or False, not 1"),
        ({"depth": 0}, "depth must be a whole number of at least 1, not 0"),
        ({"width": 8.0}, "width must be a whole number of at least 1, not 8.0"),
        ({"heads": True}, "heads must be a whole number of at least 1, not True"),
        ({"steps": "9"}, "steps must be a whole number of at least 1, not '9'"),
        ({"split": -1}, "split must be a whole number of at least 0, not -1"),
        ({"patience": 0}, "patience must be a whole number of at least 1, not 0"),
        ({"seed": 2**63}, f"seed must be below 2^63, not {2**63}"),
        ({"alpha": 1.01}, "alpha must be a number in [0, 1], not 1.01"),
        ({"gamma": math.nan}, "gamma must be a number in [0, 1], not nan"),
        ({"gamma": "0.5"}, "gamma must be a number in [0, 1], not '0.5'"),
        ({"dropout": 1.0}, "dropout must be a number in [0, 1), not 1.0"),
        ({"lr": math.inf}, "lr must be a number of at least 0, and finite, not inf"),
        ({"lr": -1e-9}, "lr must be a number of at least 0, and finite, not -1e-09"),
        ({"lr": 10**400}, "lr must be a number of at least 0, and finite, not 1000"),
        ({"weight_decay": None}, "weight_decay must be a number of at least 0, and finite, not No"),
        ({"model": "gat", "heads": 3}, "width 8 does not split into 3 equal heads, which gat"),
        ({"model": "gt-sep", "heads": 3}, "width 8 does not split into 3 equal heads, which gt"),
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
    assert spec(model="gcn", heads=3).heads == 3
    assert spec(model="pd-gat", width=20, heads=5).heads == 5
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
        ({"val": "high"}, "val of a result must be a number, not 'high'"),
        ({"seconds": None}, "seconds of a result must be a number, not None"),
        ({"step": 1.5}, "step must be a whole number of at least 0, not 1.5"),
        ({"diverged_at": 0}, "diverged_at must be a whole number of at least 1, not 0"),
        ({"spec": 3}, "a run needs dataset and model"),
        ({"more": 3}, "a result has diverged_at, seconds, spec"),
    ],
)
def test_values_that_are_no_result_are_refused(change, message):
    with pytest.raises(InputError, match=message):
        RunResult.from_dict({**result().to_dict(), **change})
    with pytest.raises(InputError, match="a result has"):
        RunResult.from_dict([])
