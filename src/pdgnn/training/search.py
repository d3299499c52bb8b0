"""The best of many settings in the time there is, by successive halving.

Every setting is trained for a few steps; the better third goes on from where it stopped, three
times as far; and so on, until the last ones have taken all their steps. What is trained follows
from the budget and from estimates (:mod:`pdgnn.training.plan`), so that the same call gives the
same result; the clock only stops a search that takes longer than it was given.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike

import torch

from pdgnn.devices import check_device
from pdgnn.errors import InputError, check_number, check_whole
from pdgnn.models import Model, check_models, find_model
from pdgnn.training.cost import begin_seconds, step_seconds
from pdgnn.training.halving import Halving, Rung, SearchProgress, Setting, Standing, Stopped
from pdgnn.training.inputs import InputCache
from pdgnn.training.plan import Cost, Plan, make_plan
from pdgnn.training.share import Settings
from pdgnn.training.spec import RunResult, RunSpec, resolved
from pdgnn.training.task import Task
from pdgnn.training.trainer import check_keep, open_tasks

__all__ = ["SearchResult", "search"]


@dataclass(frozen=True)
class SearchResult:
    """What a search found."""

    ranking: list[Standing]  # best first: by the rung reached, then by validation score
    rungs: list[Rung]  # those that came to their end
    untried: list[RunSpec]  # one of each setting that there was no time for
    plan: Plan
    seconds: float  # that it took
    stopped: Stopped | None  # None: the whole plan was carried out

    @property
    def best(self) -> RunSpec | None:
        """The winning setting, with the steps that it was trained for; None if none has a score."""
        first = self.ranking[0]
        return None if math.isnan(first.val) else first.spec

    @property
    def results(self) -> list[RunResult]:
        """The runs of the settings that were in to the end, on all seeds, the best setting first.

        They alone carry logits and weights.
        """
        last = self.ranking[0].rung
        return [r for s in self.ranking if s.rung == last for r in s.summary.results]


def search(
    candidates: Sequence[RunSpec],
    *,
    budget: float | None = None,
    deadline: float | None = None,
    models: Mapping[str, Model] | None = None,
    tasks: Mapping[str, Task] | None = None,
    root: str | PathLike[str] | None = None,
    device: str | torch.device = "cpu",
    eta: int = 3,
    rungs: int | None = None,
    seeds: int = 1,
    keep: Sequence[str] = ("logits", "weights"),
    most_runs: int | None = None,
    progress: Callable[[SearchProgress], None] | None = None,
) -> SearchResult:
    """Find the best of `candidates` by their validation scores, in about `budget` seconds.

    Candidates that differ in nothing but split and seed are one setting, and are judged together by
    the mean of their best validation scores; one of which a run diverged or has no score is the
    worst. Rung r of R trains every setting that is still in to ⌈steps / η^(R−1−r)⌉ steps, from
    where the rung before left it; the better ⌈n / η⌉ of n settings go on, the first of equals. The
    settings of the last rung have taken all their steps, as :func:`~pdgnn.training.train` would
    have trained them. They are trained on `seeds` seeds, and judged by all of them.

    How much is tried follows from the budget and from estimates of what a step takes, so that half
    of the budget is left for a slower machine: the same call does the same on a CPU. Where not all
    fits, the first candidates are taken, then fewer steps. Only where the time is up nevertheless,
    or at Ctrl-C, it ends between two steps with the best so far, and says so in ``stopped``.

    Args:
        candidates: The runs, the most promising ones first.
        budget: Seconds; default: as long as it takes.
        deadline: Seconds after which it stops whatever is left of the plan; default: `budget`.
        models: As for :func:`~pdgnn.training.train`.
        tasks: As for :func:`~pdgnn.training.train`.
        root: The folder of the datasets.
        device: ``"cpu"`` or ``"cuda"``.
        eta: One setting in `eta` goes on, and is trained `eta` times as long.
        rungs: How many there are; default: as many as leave at most `eta` settings in the last.
        seeds: On how many seeds the settings of the last rung are trained: their own and those
            that follow it.
        keep: What the results of these carry of their best step: ``"logits"``, ``"weights"``.
        most_runs: The most runs to train at once; default: on a CPU what is known to be fastest for
            graphs of this size (:func:`pdgnn.training.cost.runs_at_once`), on a GPU what fits.
        progress: Called now and then, at most twice a second.
    """
    begun = time.perf_counter()
    if budget is not None and check_number("budget", budget) == 0:
        raise InputError("budget must be more than 0 seconds; leave it out for as long as it takes")
    limit = budget if deadline is None else check_number("deadline", deadline)
    eta, seeds = check_whole("eta", eta, 2), check_whole("seeds", seeds)
    settings = Settings(
        check_device(device, what="runs train"),
        keep=check_keep(keep),
        save_seconds=math.inf,
        save_last=True,
        most_runs=None if most_runs is None else check_whole("most_runs", most_runs),
    )
    own = check_models(models or {})
    plain = [resolved(spec, find_model(spec.model, own)) for spec in candidates]
    if not plain:
        raise InputError("there is nothing to search; give at least one candidate")
    inputs = InputCache(open_tasks(plain, tasks or {}, root), own)
    found = [Setting(runs, _cost(runs, inputs, settings.device)) for runs in _by_setting(plain)]
    plan = make_plan(
        [setting.cost for setting in found],
        eta=eta,
        rungs=None if rungs is None else check_whole("rungs", rungs),
        seeds=seeds,
        budget=budget,
    )
    halving = Halving(
        found,
        plan,
        inputs,
        settings,
        begun=begun,
        limit=math.inf if limit is None else limit,
        tell=progress,
    )
    stopped = halving.run()
    ranking, untried = halving.ranking()
    untried += [setting.runs[0] for setting in found[plan.settings :]]
    seconds = time.perf_counter() - begun
    return SearchResult(ranking, halving.rungs, untried, plan, seconds, stopped)


def _by_setting(specs: Sequence[RunSpec]) -> list[list[RunSpec]]:
    """The runs of each setting, in the order of their first ones, none twice."""
    found: dict[RunSpec, dict[str, RunSpec]] = {}
    for spec in specs:
        found.setdefault(replace(spec, split=0, seed=0), {}).setdefault(spec.key, spec)
    return [list(runs.values()) for runs in found.values()]


def _cost(runs: Sequence[RunSpec], inputs: InputCache, device: torch.device) -> Cost:
    """What the runs of a setting take together."""
    first, task = runs[0], inputs.tasks[runs[0].dataset]
    step = step_seconds(first, task, device, inputs.models)
    begin = begin_seconds(first, task, device, inputs.models)
    return Cost(first.steps, step * len(runs), begin)
