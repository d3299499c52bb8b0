"""What a search does in the time it has: deterministic, within it, never less for more."""

from __future__ import annotations

import math
import random
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdgnn.training.plan import BUDGET_SHARE, LEAST_STEPS, Cost, Plan, make_plan, rung_sizes

costs = st.lists(
    st.builds(
        Cost,
        st.integers(1, 2000),
        st.floats(1e-4, 10),
        st.floats(0, 5),
    ),
    min_size=1,
    max_size=40,
)
etas, seeds = st.integers(2, 5), st.integers(1, 4)
budgets = st.floats(1e-3, 1e6)


def carried_out(plan: Plan, settings: list[Cost], order: random.Random) -> float:
    """Seconds of the plan, by what each setting takes; who goes on is drawn."""
    left, total, taken = settings[: plan.settings], 0.0, {}
    total += sum(c.begin for c in left)
    for rung in range(len(plan.sizes)):
        assert len(left) == plan.sizes[rung]
        for i, c in enumerate(left):
            steps = math.ceil(
                max(1, math.ceil(c.steps * plan.share)) / plan.eta ** (len(plan.sizes) - 1 - rung)
            )
            total += c.step * (steps - taken.get(id(c), 0))
            taken[id(c)] = steps
            left[i] = c
        if rung + 1 < len(plan.sizes):
            left = order.sample(left, math.ceil(len(left) / plan.eta))
    return total + (plan.seeds - 1) * sum(c.step * taken[id(c)] for c in left)


@given(costs, etas, seeds, budgets, st.integers(0, 3))
def test_no_outcome_takes_longer_than_planned(settings, eta, more, budget, seed):
    settings = [Cost(c.steps, c.step, c.begin) for c in settings]  # each an object of its own
    plan = make_plan(settings, eta=eta, seeds=more, budget=budget)
    assert carried_out(plan, settings, random.Random(seed)) <= plan.seconds * (1 + 1e-9)
    least = plan.settings == 1 and plan.steps(max(c.steps for c in settings), 0) == 1
    assert plan.seconds <= BUDGET_SHARE * budget or least


@given(costs, etas, seeds, st.lists(budgets, min_size=2, max_size=6))
def test_more_time_never_means_less(settings, eta, more, some):
    plans = [make_plan(settings, eta=eta, seeds=more, budget=b) for b in sorted(some)]
    for small, large in pairwise([*plans, make_plan(settings, eta=eta, seeds=more)]):
        assert small.settings <= large.settings
        assert small.share <= large.share
        assert small.seeds <= large.seeds


@given(costs, etas, seeds, budgets)
def test_the_same_budget_gives_the_same_plan(settings, eta, more, budget):
    one, other = (make_plan(settings, eta=eta, seeds=more, budget=budget) for _ in range(2))
    assert one == other


@given(costs, etas)
def test_without_a_budget_all_is_done(settings, eta):
    plan = make_plan(settings, eta=eta)
    assert (plan.settings, plan.share) == (len(settings), 1.0)
    assert plan.sizes[-1] <= eta
    assert [plan.steps(c.steps, len(plan.sizes) - 1) for c in settings] == [
        c.steps for c in settings
    ]


@given(st.integers(1, 10_000), etas, st.none() | st.integers(1, 8))
def test_each_rung_has_the_better_part_of_the_one_before(settings, eta, rungs):
    sizes = rung_sizes(settings, eta, rungs)
    assert sizes[0] == settings
    assert all(b == math.ceil(a / eta) for a, b in pairwise(sizes))
    if rungs is None:
        assert sizes[-1] <= eta
        assert len(sizes) == 1 or sizes[-2] > eta
    else:
        assert len(sizes) == rungs


def test_what_is_given_up_first():
    settings = [Cost(1000, 0.01)] * 20  # all: (20, 7, 3) settings to 112, 334 and 1000 steps
    whole = 20 * 1.12 + 7 * 2.22 + 3 * 6.66
    assert make_plan(settings, budget=2 * whole + 1e-6).settings == 20
    assert make_plan(settings, budget=2 * whole + 1e-6).seconds == pytest.approx(whole)
    fewer = make_plan(settings, budget=2 * whole - 1e-6)
    assert (fewer.settings, fewer.share) == (19, 1.0)
    nine = make_plan(settings, budget=50)  # all steps of nine take 9 · 3.34 + 3 · 6.66 = 50.04
    assert nine.settings == 9
    assert nine.share < 1
    of_nine = [make_plan(settings[:9], budget=b, seeds=3) for b in (220.1, 160.1, 100.1)]
    assert [(plan.settings, plan.share, plan.seeds) for plan in of_nine] == [
        (9, 1.0, 3),
        (9, 1.0, 2),
        (9, 1.0, 1),
    ]
    few = make_plan(settings, budget=7)  # nine to 100 steps take 5.04
    assert few.settings < 9
    assert few.steps(1000, len(few.sizes) - 1) == LEAST_STEPS
    one = make_plan(settings, budget=1)
    assert one.settings == 1
    assert 45 <= one.steps(1000, 0) <= 50  # shares of the steps are tried at equal ratios
    assert make_plan(settings, budget=1e-9).steps(1000, 0) == 1
