"""Successive halving: the rungs of a search, one after the other.

A run goes on from rung to rung with its parameters, its optimizer and its best step, as if it had
been trained in one go. Its state is kept in memory as long as its setting is in.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

from pdgnn.training.cost import runs_at_once
from pdgnn.training.group import Group
from pdgnn.training.inputs import InputCache
from pdgnn.training.loop import WARM_UP
from pdgnn.training.plan import Cost, Plan
from pdgnn.training.share import Settings, by_shape, train_share
from pdgnn.training.spec import RunResult, RunSpec
from pdgnn.training.state import Row, RunState
from pdgnn.training.summary import Summary

__all__ = ["Halving", "Rung", "SearchProgress", "Setting", "Standing", "Stopped", "better"]

TELL_SECONDS = 0.5
"""Progress is told no more often than this."""
Stopped = Literal["budget", "interrupted"]


@dataclass(frozen=True)
class SearchProgress:
    """How far a search is."""

    rung: int  # from 0; equal to `rungs` while the last settings train on more seeds
    rungs: int
    specs: Sequence[RunSpec]  # under way
    step: int  # of the furthest of them
    steps: int  # at the end of this rung
    settings: int  # still in
    best: RunSpec | None  # of those still in, as far as they are trained; None: none yet
    val: float  # its mean validation score, or nan
    seconds: float  # since the search began
    share: float  # of the work that is done, in [0, 1], by the estimate


@dataclass(frozen=True)
class Standing:
    """What a setting came to: its runs, and the last rung that it was in, from 0."""

    summary: Summary
    rung: int

    @property
    def spec(self) -> RunSpec:
        """Of its first run, with the steps that it was trained for."""
        return self.summary.spec

    @property
    def val(self) -> float:
        """The mean of its runs' best validation scores; nan if one has none."""
        return self.summary.val_mean

    @property
    def able(self) -> bool:
        """Whether it has a score and no run of it diverged."""
        return not math.isnan(self.val) and not self.summary.diverged

    @property
    def order(self) -> tuple[int, bool, float]:
        """Higher is better: by rung, then by whether it is able, then by validation score."""
        return self.rung, self.able, -math.inf if math.isnan(self.val) else self.val


@dataclass(frozen=True)
class Rung:
    """A rung that came to its end."""

    steps: int  # that were taken by then, of the longest runs
    standings: list[Standing]  # of the settings in it, as they come in the list
    went_on: list[bool]  # whether each of them is in the next rung, or was in the last


@dataclass(frozen=True, eq=False)
class Setting:
    """A setting: the runs whose mean score judges it, and the cost of a step of them."""

    runs: list[RunSpec]
    cost: Cost

    @cached_property
    def names(self) -> list[str]:
        """The keys of its runs, without their number of steps."""
        return [_name(spec) for spec in self.runs]

    def on_seeds(self, seeds: int) -> Setting:
        """The same on so many seeds for each of its runs: its own and those that follow it."""
        more = [replace(run, seed=run.seed + i) for i in range(seeds) for run in self.runs]
        runs = list({_name(run): run for run in (*self.runs, *more)}.values())
        step = self.cost.step * len(runs) / len(self.runs)
        return Setting(runs, replace(self.cost, step=step))


class OutOfTime(Exception):  # noqa: N818
    """The time is up."""


class Halving:
    """A search under way: it trains by a plan, and keeps what the runs need to go on."""

    def __init__(
        self,
        settings: Sequence[Setting],
        plan: Plan,
        inputs: InputCache,
        how: Settings,
        *,
        begun: float,
        limit: float,
        tell: Callable[[SearchProgress], None] | None,
    ) -> None:
        """Args:
        settings: In their order in the list; the plan says how many are taken.
        plan: What to train.
        inputs: Tasks, models and inputs of the runs.
        how: How to train them.
        begun: When the search began, by time.perf_counter.
        limit: Seconds after which it ends, whatever is left to do.
        tell: Who is told of progress.
        """
        self.plan, self.inputs, self.how = plan, inputs, how
        self.begun, self.limit, self.tell, self.told = begun, limit, tell, -math.inf
        self.rung, self.alive = 0, list(settings[: plan.settings])
        self.rungs: list[Rung] = []
        self.dropped: list[Standing] = []
        self.on_more_seeds = False
        self.rows: dict[str, Row] = {}
        self.specs: dict[str, RunSpec] = {}  # that the rows are of
        self.results: dict[str, RunResult] = {}  # without logits and weights; the rows have them
        self.steps: dict[str, int] = {}  # taken by each run
        self.pace: dict[str, float] = {}  # seconds of a step of each, by the estimate
        self.work = self.all_work = 0.0  # seconds by the estimate: done, and all

    def run(self) -> Stopped | None:
        """Carry out the plan, or what there is time for; why it ended, if before its end."""
        try:
            for rung in range(len(self.plan.sizes)):
                self.rung = rung
                self._train_rung()
            self._train_on_seeds()
        except OutOfTime:
            return "budget"
        except KeyboardInterrupt:
            if not self._any_trained():
                raise
            return "interrupted"
        return None

    def ranking(self) -> tuple[list[Standing], list[RunSpec]]:
        """The settings that were tried, the best first, and one run of each of the others.

        Those still in have logits and weights. One of which not every run has taken a step counts
        as not tried, unless none has more.
        """
        found = self._whole_results(name for s in self.alive for name in s.names)
        begun = [s for s in self.alive if any(name in found for name in s.names)]
        tried = [s for s in begun if all(name in found for name in s.names)] or begun
        standings = [*(self._standing(s, found) for s in tried), *self.dropped]
        ranked = sorted(standings, key=lambda s: s.order, reverse=True)
        return ranked, [s.runs[0] for s in self.alive if s not in tried]

    def _train_rung(self) -> None:
        """Train the remaining settings to the end of this rung, and drop the worse ones."""
        costs = [setting.cost for setting in self.alive]
        self.all_work = self.work + self.plan.seconds_left(costs, self.rung)
        self._train(self.alive)
        standings = [self._standing(s, self.results) for s in self.alive]
        on = [True] * len(standings)
        if self.rung + 1 < len(self.plan.sizes):
            on = better(standings, self.plan.sizes[self.rung + 1])
        for setting, standing, goes_on in zip(self.alive, standings, on, strict=True):
            if not goes_on:
                self.dropped.append(standing)
                for name in setting.names:
                    del self.rows[name]
        self.alive = [s for s, goes_on in zip(self.alive, on, strict=True) if goes_on]
        self.rungs.append(Rung(max(s.spec.steps for s in standings), standings, on))

    def _train_on_seeds(self) -> None:
        """Train the last settings on more seeds, which count once all have them."""
        more = [setting.on_seeds(self.plan.seeds) for setting in self.alive]
        self.on_more_seeds = True
        self._train(more)
        self.alive = more

    def _train(self, settings: Sequence[Setting]) -> None:
        """Train these to the end of this rung from where they are, runs of one shape together."""
        todo = []
        for setting in settings:
            for name, spec in zip(setting.names, setting.runs, strict=True):
                steps = self.plan.steps(spec.steps, self.rung)
                self.pace[name] = setting.cost.step / len(setting.runs)
                if name not in self.results or self.results[name].spec.steps < steps:
                    todo.append(replace(spec, steps=steps))
        begun = {s.key: self.rows[_name(s)] for s in todo if _name(s) in self.rows}
        for group in by_shape(todo, self.inputs.models):
            taken = max(int(begun[s.key]["step"]) if s.key in begun else 0 for s in group)
            how = replace(
                self.how,
                most_runs=self._at_once(group),
                capture=group[0].steps - taken > WARM_UP,  # the warm-up takes steps of the runs
            )
            train_share(group, self.inputs, how, self, begun)

    def _at_once(self, group: Sequence[RunSpec]) -> int | None:
        """The most of these runs to train at once; None: as many as fit."""
        if self.how.most_runs is not None or self.how.device.type != "cpu":
            return self.how.most_runs
        return runs_at_once(group[0], self.inputs.tasks[group[0].dataset], len(group))

    def _standing(self, setting: Setting, results: Mapping[str, RunResult]) -> Standing:
        found = [results[name] for name in setting.names if name in results]
        return Standing(Summary(found[0].spec, found), self.rung)

    def _any_trained(self) -> bool:
        return any(int(row["step"]) for row in self.rows.values())

    def _whole_results(self, names: Iterable[str]) -> dict[str, RunResult]:
        """What these runs came to by their states, with logits and weights, by name.

        A run that was stopped between two steps is the one that has no more steps than it took.
        """
        found = _Results()
        specs = []
        for name in names:
            if name in self.rows and (taken := int(self.rows[name]["step"])):
                spec = self.specs[name]
                ended = name in self.results and self.results[name].spec == spec
                specs.append(spec if ended else replace(spec, steps=taken))
        begun = {spec.key: self.rows[_name(spec)] for spec in specs}
        how = replace(self.how, most_runs=1, save_last=False)
        train_share(specs, self.inputs, how, found, begun)  # none has a step left
        return found.by_name

    # --- what train_share calls: see pdgnn.training.share.Keeper ----------------------------------

    def progress(self, group: Group, seconds: float) -> None:
        """Count the steps taken; tell of them; end the search if its time is up."""
        steps = group.state.step.tolist()
        for spec, step in zip(group.specs, steps, strict=True):
            name = _name(spec)
            self.work += self.pace[name] * (step - self.steps.get(name, 0))
            self.steps[name] = step
        now = time.perf_counter()
        if self.tell is not None and now - self.told >= TELL_SECONDS:
            self.told = now
            self.tell(self._progress(group.specs, max(steps), now - self.begun))
        if now - self.begun >= self.limit and any(self.steps.values()):
            raise OutOfTime

    def save_state(self, specs: Sequence[RunSpec], state: RunState) -> None:
        """Keep the state of these runs, so that they can go on with more steps."""
        for i, spec in enumerate(specs):
            name = _name(spec)
            self.rows[name] = {n: t[i].cpu().clone() for n, t in state.tensors().items()}
            self.specs[name] = spec

    def add_results(self, results: Sequence[RunResult]) -> None:
        """Keep what these runs came to; their states have the logits and the weights."""
        self.results |= {_name(r.spec): replace(r, logits=None, weights=None) for r in results}

    def _progress(self, specs: Sequence[RunSpec], step: int, seconds: float) -> SearchProgress:
        known = [s for s in self.alive if all(name in self.results for name in s.names)]
        standings = [self._standing(s, self.results) for s in known]
        best = max(standings, key=lambda s: s.order, default=None)
        return SearchProgress(
            rung=self.rung + self.on_more_seeds,
            rungs=len(self.plan.sizes),
            specs=specs,
            step=step,
            steps=specs[0].steps,
            settings=len(self.alive),
            best=None if best is None else best.spec,
            val=math.nan if best is None else best.val,
            seconds=seconds,
            share=min(1.0, self.work / self.all_work),
        )


class _Results:
    """Keeps results alone."""

    def __init__(self) -> None:
        self.by_name: dict[str, RunResult] = {}

    def progress(self, group: Group, seconds: float) -> None:
        """Nothing to tell."""

    def save_state(self, specs: Sequence[RunSpec], state: RunState) -> None:
        """Nothing goes on."""

    def add_results(self, results: Sequence[RunResult]) -> None:
        """Keep them."""
        self.by_name |= {_name(r.spec): r for r in results}


def _name(spec: RunSpec) -> str:
    """What a run is known by, whatever its steps are."""
    return replace(spec, steps=1).key


def better(standings: Sequence[Standing], count: int) -> list[bool]:
    """Which of them are the best `count`, the first of equals; those not able only if none is."""
    order = sorted(range(len(standings)), key=lambda i: standings[i].order, reverse=True)
    best = [i for i in order[:count] if standings[i].able] or order[:1]
    return [i in best for i in range(len(standings))]
