"""Search by successive halving: what goes on, from where it stopped, and how a search ends."""

from __future__ import annotations

import math
import os
import signal
import sys
from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace

import pytest
import torch
from torch import nn
from torch_geometric.nn import BatchNorm, GCNConv

import pdgnn.training
from pdgnn import InputError
from pdgnn.training import Model, RunResult, Summary, halving, loop, search, summarize, train
from pdgnn.training.group import Group
from pdgnn.training.halving import Standing, better
from runs import TASKS, same, spec

KEEP = ("logits", "weights")
SETTINGS = [
    spec(model=model, lr=lr, steps=steps)
    for model, lr, steps in [
        ("gcn", 0.1, 18),
        ("gcn", 0.001, 18),
        ("pd-gat", 0.01, 18),
        ("mlp", 0.01, 20),
        ("gcn", 0.01, 18),
    ]
]


def go(candidates, **options):
    return search(candidates, tasks=TASKS, **{"most_runs": 1, **options})


def same_bits(one: list[RunResult], other: list[RunResult]) -> None:
    same(one, other)
    for a, b in zip(one, other, strict=True):
        assert torch.equal(a.logits, b.logits)
        assert a.weights.keys() == b.weights.keys()
        assert all(torch.equal(a.weights[n], b.weights[n]) for n in a.weights)


def as_trained(results: list[RunResult], **options) -> None:
    """These are what train makes of their specs in one go."""
    same_bits(results, train([r.spec for r in results], tasks=TASKS, keep=KEEP, **options))


def on_splits(specs, splits=(0, 1)):
    return [replace(s, split=split, seed=split) for s in specs for split in splits]


# --- the rungs ------------------------------------------------------------------------------------


def test_it_is_the_function_of_its_module():
    assert search is pdgnn.training.search is sys.modules["pdgnn.training.search"].search


@pytest.mark.parametrize("eta", [2, 3])
def test_rungs_are_those_of_the_definition(eta):
    """Every rung trained anew by train, ranked by the mean validation score."""
    candidates = on_splits(SETTINGS)
    found = go(candidates, eta=eta, rungs=3)
    left, sizes = SETTINGS, (5, 3, 2) if eta == 2 else (5, 2, 1)
    assert found.plan.sizes == sizes
    for number, rung in enumerate(found.rungs):
        steps = [math.ceil(s.steps / eta ** (2 - number)) for s in left]
        runs = on_splits([replace(s, steps=n) for s, n in zip(left, steps, strict=True)])
        expected = summarize(train(runs, tasks=TASKS))
        assert [s.summary.results for s in rung.standings] == [s.results for s in expected]
        assert {s.rung for s in rung.standings} == {number}
        assert rung.steps == max(steps)
        order = sorted(expected, key=lambda s: -s.val_mean)
        if number < 2:
            best = {s.spec for s in order[: sizes[number + 1]]}
            assert rung.went_on == [s.spec in best for s in expected]
            left = [s for s, on in zip(left, rung.went_on, strict=True) if on]
    assert rung.went_on == [True] * sizes[2]
    assert found.best == order[0].spec
    assert [s.rung for s in found.ranking] == sorted((s.rung for s in found.ranking), reverse=True)
    assert len(found.ranking) == 5
    assert found.stopped is None
    assert found.untried == []


@pytest.mark.parametrize("extra", [{}, {"patience": 2}])
def test_a_survivor_equals_the_same_run_trained_in_one_go(extra):
    candidates = on_splits([replace(s, **extra) for s in SETTINGS])
    found = go(candidates, seeds=2)
    assert [r.spec.steps for r in found.results] == [18, 18, 18, 18, 18, 18, 18, 18]
    assert [r.spec.seed for r in found.results] == [0, 1, 1, 2] * 2
    as_trained(found.results)


def test_a_run_that_stopped_early_stays_as_it_is():
    found = go([spec(steps=30, patience=1, lr=lr) for lr in (1e-9, 1e-8, 1e-7, 1e-6)])
    assert all(r.steps_run < 30 for r in found.results)
    assert [r.spec.steps for r in found.results] == [30, 30]
    as_trained(found.results)


def test_only_the_last_carry_logits_and_weights():
    found = go(SETTINGS, keep="logits")
    assert all(r.logits is not None and r.weights is None for r in found.results)
    assert len(found.results) == 2
    others = [r for s in found.ranking[2:] for r in s.summary.results]
    assert len(others) == 3
    assert all(r.logits is None for r in others)


def test_several_at_once_give_the_same_bits_twice_and_nearly_those_of_one(monkeypatch):
    sizes, step = set(), Group.train_step
    monkeypatch.setattr(Group, "train_step", lambda self: (sizes.add(len(self.specs)), step(self)))
    candidates = on_splits(SETTINGS[::2], range(4))
    once, twice = (go(candidates, most_runs=None, eta=2) for _ in range(2))
    same_bits(once.results, twice.results)
    assert [s.spec for s in once.ranking] == [s.spec for s in twice.ranking]
    assert sizes == {1, 8}  # two settings of GCN on four splits, one of PD-GAT
    alone = go(candidates, eta=2)
    assert [s.spec for s in once.ranking] == [s.spec for s in alone.ranking]
    for a, b in zip(once.results, alone.results, strict=True):
        torch.testing.assert_close(a.logits, b.logits, rtol=1e-3, atol=1e-3)


def test_runs_that_mean_the_same_are_trained_once():
    found = go([spec(), spec(gamma=0.3), spec(split=1), spec()])
    (only,) = found.ranking
    assert [r.spec.split for r in only.summary.results] == [0, 1]


def test_seeds_that_are_there_already_are_not_trained_again(monkeypatch):
    steps, step = [], Group.train_step
    monkeypatch.setattr(Group, "train_step", lambda self: (steps.append(1), step(self)))
    found = go([spec(seed=0), spec(seed=1)], seeds=2)
    assert [r.spec.seed for r in found.results] == [0, 1, 2]
    assert len(steps) == 3 * 6
    as_trained(found.results)


def test_the_last_are_judged_by_all_their_seeds():
    found = go([spec(lr=lr) for lr in (0.1, 0.01, 0.001)], seeds=3)
    means = {s.spec.lr: sum(r.val for r in s.summary.results) / 3 for s in found.ranking}
    assert [s.val for s in found.ranking] == sorted(means.values(), reverse=True)
    assert found.best.lr == max(means, key=means.get)


# --- a model of one's own -------------------------------------------------------------------------


class Net(nn.Module):
    """A PyG model with buffers and torch's dropout."""

    def __init__(self, size, spec) -> None:
        super().__init__()
        self.first = GCNConv(size.in_channels, spec.width)
        self.norm = BatchNorm(spec.width)
        self.dropout = nn.Dropout(0.3)
        self.last = nn.Linear(spec.width, size.out_channels)

    def forward(self, x, edge_index):
        return self.last(self.dropout(self.norm(self.first(x, edge_index)).relu()))


def test_models_of_ones_own_go_on_as_if_never_stopped():
    models = {"mine": Model(build=Net)}
    candidates = [spec(model=m, steps=18, lr=lr) for m in ("mine", "gcn") for lr in (0.03, 0.01)]
    found = go(candidates, models=models, most_runs=None, eta=2)
    assert found.plan.sizes == (4, 2)
    assert "mine" in {r.spec.model for r in found.results}
    as_trained(found.results, models=models)


# --- settings that fail ---------------------------------------------------------------------------


def result(val: float, diverged_at: int | None = None) -> RunResult:
    return RunResult(spec(), val, 0.5, 1, 3, 0.0, diverged_at)


def standing(*results: RunResult, rung: int = 0) -> Standing:
    return Standing(Summary(spec(), list(results)), rung)


def test_the_better_ones_go_on():
    good, same_good, bad = standing(result(0.9)), standing(result(0.9)), standing(result(0.2))
    none, broken = standing(result(math.nan), result(1.0)), standing(result(1.0, 2), result(1.0))
    assert better([bad, good, same_good], 1) == [False, True, False]  # the first of equals
    assert better([bad, good, same_good], 2) == [False, True, True]
    assert better([none, broken, bad, good], 2) == [False, False, True, True]
    assert better([none, broken, bad], 2) == [False, False, True]  # only those that are able
    assert better([none, broken], 2) == [False, True]  # unless none is
    ranked = sorted([none, broken, bad, good, standing(result(0.1), rung=1)], key=lambda s: s.order)
    assert [s.val for s in ranked[1:]] == [1.0, 0.2, 0.9, 0.1]
    assert ranked[0] is none


def test_a_setting_that_diverges_is_the_worst():
    candidates = [spec(lr=1e38, steps=9), *SETTINGS]
    found = go(candidates)
    assert found.ranking[-1].spec.lr == 1e38
    assert found.ranking[-1].summary.diverged
    assert not found.rungs[0].went_on[0]
    assert found.best.lr < 1


def test_where_all_diverge_the_result_says_so():
    found = go([spec(lr=1e38, split=s, steps=9) for s in (0, 1)])
    (only,) = found.ranking
    assert len(only.summary.diverged) == 2
    assert found.best is None or not math.isnan(only.val)


# --- the clock and Ctrl-C -------------------------------------------------------------------------


@pytest.fixture
def steps_are_seconds(monkeypatch):
    """A clock that counts the steps of training; every step is looked at."""
    steps, step = [], Group.train_step
    clock = SimpleNamespace(perf_counter=lambda: float(len(steps)))
    monkeypatch.setattr(loop, "LOOK_SECONDS", 0.0)
    monkeypatch.setattr(halving, "time", clock)
    monkeypatch.setattr(sys.modules["pdgnn.training.search"], "time", clock)
    monkeypatch.setattr(Group, "train_step", lambda self: (steps.append(1), step(self)))
    return steps


def test_within_its_time_it_does_all(steps_are_seconds):
    found = go(SETTINGS, deadline=1000, seeds=2)
    assert found.stopped is None
    assert found.seconds == len(steps_are_seconds) == 4 * 6 + 7 + 12 * 2 + 18 * 2


@pytest.mark.parametrize("deadline", [1, 6, 7, 23, 31, 32, 40, 60, 72])
def test_at_the_deadline_it_ends_with_the_best_so_far(steps_are_seconds, deadline):
    """Five settings of 6 or 7 steps, two of 12 more, then each on one more seed."""
    found = go(SETTINGS, deadline=deadline, seeds=2)
    assert len(steps_are_seconds) == found.seconds == deadline
    assert found.stopped == "budget"
    taken = sum(s.summary.results[0].steps_run for s in found.ranking)
    assert taken == min(deadline, 55)  # an extra seed that not all have does not count
    reached = 0 if deadline <= 31 else 1  # at 31 the rung has no time to end
    assert len(found.rungs) == (reached if deadline < 55 else 2)
    assert len(found.untried) == 5 - len(found.ranking)
    assert found.ranking[0].rung == reached
    last = [s for s in found.ranking if s.rung == reached]
    assert found.best == max(last, key=lambda s: s.val).spec
    as_trained(found.results)


def test_a_deadline_of_nothing_still_gives_something(steps_are_seconds):
    found = go(on_splits(SETTINGS), deadline=0)
    (only,) = found.results
    assert (only.steps_run, only.spec.steps, found.stopped) == (1, 1, "budget")
    assert found.best == replace(SETTINGS[0], steps=1, heads=8)
    assert len(found.untried) == 4


def test_a_setting_that_lacks_a_split_is_not_compared(steps_are_seconds):
    found = go(on_splits(SETTINGS), deadline=12 + 5)
    assert [len(s.summary.results) for s in found.ranking] == [2]
    assert [s.lr for s in found.untried] == [s.lr for s in SETTINGS[1:]]
    found = go(on_splits(SETTINGS), deadline=24 + 5)
    assert [len(s.summary.results) for s in found.ranking] == [2, 2]


@pytest.mark.parametrize("at", [1, 9, 40, 60])
def test_ctrl_c_ends_with_the_best_so_far(monkeypatch, at):
    calls, loss = [], Group._loss

    def interrupted(self):
        calls.append(1)
        if len(calls) == at:
            os.kill(os.getpid(), signal.SIGINT)  # in the middle of a step
        return loss(self)

    with monkeypatch.context() as patched:
        patched.setattr(Group, "_loss", interrupted)
        found = go(SETTINGS, seeds=2)
    assert len(calls) == at
    assert found.stopped == "interrupted"
    assert sum(s.summary.results[0].steps_run for s in found.ranking) == min(at, 55)
    assert found.best is not None
    as_trained(found.results)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_ctrl_c_before_the_first_step_is_raised(monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(Group, "__init__", interrupted)
    with pytest.raises(KeyboardInterrupt):
        go(SETTINGS)


def test_progress_is_told_at_most_twice_a_second(steps_are_seconds, monkeypatch):
    told = []
    monkeypatch.setattr(halving, "TELL_SECONDS", 5.0)
    found = go(SETTINGS, seeds=2, progress=told.append)
    times = [p.seconds for p in told]
    assert all(b - a >= 5 for a, b in pairwise(times))
    assert len(told) >= 91 // 6
    assert {(p.rung, p.settings) for p in told} == {(0, 5), (1, 2), (2, 2)}
    assert {p.rungs for p in told} == {2}
    shares = [p.share for p in told]
    assert shares == sorted(shares)
    assert shares[0] == 0
    assert 0.8 < shares[-1] <= 1
    assert told[0].best is None
    assert math.isnan(told[0].val)
    assert told[0].specs == [replace(SETTINGS[0], heads=8, steps=6)]
    first_rung = {s.spec: s.val for s in found.rungs[0].standings}
    for p in told:
        assert p.step <= p.steps
        if p.rung == 0 and p.best is not None:
            assert p.val == first_rung[p.best]


def test_an_error_of_the_callback_is_raised():
    def fail(_):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        go(SETTINGS, progress=fail)


# --- the plan -------------------------------------------------------------------------------------


def test_a_small_budget_takes_the_first_settings_and_fewer_steps(monkeypatch):
    monkeypatch.setattr(sys.modules["pdgnn.training.search"], "step_seconds", lambda *_: 1.0)
    monkeypatch.setattr(sys.modules["pdgnn.training.search"], "begin_seconds", lambda *_: 0.0)
    candidates = [spec(lr=0.001 * i, steps=9) for i in range(1, 13)]
    found = go(candidates, budget=60, deadline=1e9)
    assert found.plan.sizes == (10, 4, 2)
    assert found.plan.seconds == 10 * 1 + 4 * 2 + 2 * 6
    assert found.untried == [replace(s, heads=8) for s in candidates[10:]]
    found = go(candidates, budget=8, deadline=1e9)
    assert found.plan.settings == 1
    assert found.best == replace(candidates[0], steps=4, heads=8)
    as_trained(found.results)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"candidates": []}, "nothing to search"),
        ({"budget": 0}, "budget must be more than 0"),
        ({"budget": -1}, "budget must be a number of at least 0"),
        ({"budget": math.nan}, "budget must be a number"),
        ({"deadline": -1}, "deadline must be"),
        ({"eta": 1}, "eta must be a whole number of at least 2"),
        ({"eta": 2.5}, "eta must be"),
        ({"rungs": 0}, "rungs must be"),
        ({"seeds": 0}, "seeds must be"),
        ({"most_runs": 0}, "most_runs must be"),
        ({"keep": ("all",)}, "keep takes"),
        ({"device": "tpu"}, "device"),
        ({"candidates": [spec(model="none")]}, "unknown model 'none'"),
        ({"candidates": [spec(split=99)]}, "there is no 99"),
        ({"candidates": [spec(dataset="nowhere")]}, "nowhere"),
    ],
)
def test_what_cannot_be_is_one_line(options, message):
    with pytest.raises(InputError, match=message) as error:
        go(**{"candidates": [spec()], **options})
    assert "\n" not in str(error.value)


# --- a GPU ----------------------------------------------------------------------------------------


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA GPU")
def test_on_a_gpu_it_finds_what_it_finds_on_the_cpu():
    candidates = [replace(s, precision="float64", steps=40) for s in on_splits(SETTINGS)]
    here, there = go(candidates, seeds=2), go(candidates, seeds=2, device="cuda", most_runs=None)
    assert [s.spec for s in here.ranking] == [s.spec for s in there.ranking]
    for a, b in zip(here.results, there.results, strict=True):
        torch.testing.assert_close(a.logits, b.logits, atol=1e-5, rtol=1e-5)
