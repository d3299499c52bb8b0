"""What a search may do in the time it has: how many settings, in how many rungs, for which steps.

Successive halving: rung r of R trains every setting that is still in to ⌈steps / η^(R−1−r)⌉ steps,
and the better ⌈n / η⌉ of its n settings go on. A plan follows from the costs that
:mod:`pdgnn.training.cost` estimates, never from a clock: the same candidates and the same budget
give the same plan on every machine.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

__all__ = ["Cost", "Plan", "make_plan", "rung_sizes", "steps_at"]

BUDGET_SHARE = 0.5
"""Of the budget, what a plan takes: a machine half as fast or busy with other work has time too."""
LEAST_STEPS = 100
"""Steps below which a plan rather drops all but one setting; see :func:`make_plan`."""
GRID = 48
"""Shares of the steps that are tried between the least and all of them, at equal ratios."""


@dataclass(frozen=True)
class Cost:
    """What a setting takes: all its runs together."""

    steps: int
    step: float  # seconds of a step
    begin: float = 0.0  # seconds before the first step


@dataclass(frozen=True)
class Plan:
    """What is trained, and what it should take."""

    settings: int  # the first so many of the list
    share: float  # of the steps of each
    sizes: tuple[int, ...]  # settings in each rung
    eta: int
    seeds: int  # of the settings in the last rung
    seconds: float = 0.0  # at most, by the estimate

    def steps(self, steps: int, rung: int) -> int:
        """Steps that a run which asks for `steps` has taken at the end of a rung."""
        whole = max(1, math.ceil(steps * self.share))
        return steps_at(whole, rung, len(self.sizes), self.eta)

    def seconds_left(self, costs: Sequence[Cost], rung: int = 0) -> float:
        """Seconds that the rungs from `rung` on and the extra seeds take, at most.

        `costs` are those of the settings in `rung`; which of them go on is not known, so the
        dearest are counted.
        """
        total, last = 0.0, len(self.sizes) - 1
        if rung == 0:
            total = math.fsum(c.begin for c in costs)
        for r in range(rung, len(self.sizes)):
            steps = [
                self.steps(c.steps, r) - (self.steps(c.steps, r - 1) if r else 0) for c in costs
            ]
            each = [c.step * n for c, n in zip(costs, steps, strict=True)]
            total += math.fsum(heapq.nlargest(self.sizes[r], each))
        again = [c.step * self.steps(c.steps, last) for c in costs]
        return total + (self.seeds - 1) * math.fsum(heapq.nlargest(self.sizes[last], again))


def steps_at(steps: int, rung: int, rungs: int, eta: int) -> int:
    """Steps taken at the end of rung 0, 1, ... of `rungs`: ⌈steps / η^(rungs − 1 − rung)⌉.

    >>> [steps_at(1000, rung, 3, 3) for rung in range(3)]
    [112, 334, 1000]
    """
    each: int = eta ** (rungs - 1 - rung)
    return -(-steps // each)


def rung_sizes(settings: int, eta: int, rungs: int | None = None) -> tuple[int, ...]:
    """Settings in each rung; by default as many rungs as leave at most η settings in the last.

    >>> rung_sizes(27, 3), rung_sizes(10, 3), rung_sizes(2, 3), rung_sizes(5, 3, rungs=3)
    ((27, 9, 3), (10, 4, 2), (2,), (5, 2, 1))
    """
    sizes = [settings]
    while len(sizes) < rungs if rungs is not None else sizes[-1] > eta:
        sizes.append(-(-sizes[-1] // eta))
    return tuple(sizes)


def make_plan(
    costs: Sequence[Cost],
    *,
    eta: int = 3,
    rungs: int | None = None,
    seeds: int = 1,
    budget: float | None = None,
) -> Plan:
    """The largest plan that takes at most half of the budget; all there is without one.

    Where not everything fits, fewer settings are taken, the first ones, down to η²; then fewer
    seeds, down to one; then fewer steps, down to LEAST_STEPS; then fewer settings again, down to
    one; then fewer steps of it, down to one. So a larger budget never means less of any of these.

    >>> costs = [Cost(1000, 0.01)] * 20
    >>> [make_plan(costs, budget=b).settings for b in (None, 200, 60)]
    [20, 20, 9]
    """
    for settings, share, count in _choices(costs, eta, seeds):
        plan = Plan(settings, share, rung_sizes(settings, eta, rungs), eta, count)
        seconds = plan.seconds_left(costs[:settings])
        if budget is None or seconds <= BUDGET_SHARE * budget:
            break
    return replace(plan, seconds=seconds)


def _choices(costs: Sequence[Cost], eta: int, seeds: int) -> Iterator[tuple[int, float, int]]:
    """Settings, shares of their steps and seeds, from all down to one step of one setting."""
    longest = max(c.steps for c in costs)
    few, least = min(len(costs), eta**2), min(1.0, LEAST_STEPS / longest)
    yield from ((n, 1.0, seeds) for n in range(len(costs), few - 1, -1))
    yield from ((few, 1.0, count) for count in range(seeds - 1, 0, -1))
    yield from ((few, share, 1) for share in _shares(1.0, least))
    yield from ((n, least, 1) for n in range(few - 1, 0, -1))
    yield from ((1, share, 1) for share in _shares(least, 1 / longest))


def _shares(high: float, low: float) -> list[float]:
    """From `high` down to `low` at equal ratios."""
    return [high * (low / high) ** (i / GRID) for i in range(1, GRID)] + [low]
