"""Everything that is tried on a graph, in a time that is planned beforehand.

First come logistic regression, boosted trees on diffused features, and the MLP, which take seconds.
Then the dial: logistic regression on features diffused with one scope, over γ and over α. Then more
models of a table, with and without diffused features; then networks, by successive halving, with
the scope that the dial found best (PD-Net: with one of its own before). At the end the best member,
or an average of the best of different kinds.

What is tried follows from the budget and from estimates of what each takes, never from the clock,
so that the same seed gives the same model. The clock only ends what takes longer than planned.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from time import perf_counter

import numpy as np
import torch
from numpy.typing import NDArray

from pdgnn.errors import InputError
from pdgnn.estimator.members import Clock, Member, Problem, best_first, blended
from pdgnn.estimator.networks import (
    DATASET,
    WITHOUT_GRAPH,
    NetworkModel,
    network_candidates,
    network_name,
    network_settings,
    probabilities,
)
from pdgnn.estimator.tabular import (
    FeatureCache,
    TabularModel,
    TabularSpec,
    candidates,
    cost,
    fit_tabular,
)
from pdgnn.models import MODELS
from pdgnn.training.halving import SearchProgress, Standing
from pdgnn.training.search import search
from pdgnn.training.spec import RunResult, RunSpec
from pdgnn.training.task import Task

__all__ = ["CHOICES", "Dial", "Portfolio", "check_choice", "fit_portfolio", "without_edges"]

TABULAR_SHARE = 0.25
"""Of the budget, what models of a table may take, by estimate."""
DIAL_SHARE, MLP_SHARE = 0.08, 0.1
CORES = 1.6
"""How much faster than one core, which searches plan for, two are on the larger graphs."""
AGAIN_SHARE = 0.4
"""Of the time for networks, what training the last ones on all splits may take."""
PLAN_SHARE = 0.5
"""Of the time, what tables and the dial are planned to take at most: a busy machine is slower."""
GAMMAS = tuple(i / 10 for i in range(11))
COARSE = (0.0, 0.5, 1.0)
ALPHAS = (0.0, 0.25, 0.5, 0.75, 1.0)
DEFAULT_SCOPES = ((0.0, 0.5), (1.0, 1.0))
CHOICES = ("auto", "logistic", "pd-logistic", "trees", "pd-trees", *MODELS)
"""What ``PDClassifier(model=...)`` takes."""


@dataclass(frozen=True)
class Dial:
    """Validation scores of logistic regression on features diffused with one scope."""

    gamma: list[tuple[float, float]]  # at the best of α = 0, 1
    alpha: list[tuple[float, float]]  # at the best γ
    best: tuple[float, float]  # (α, γ), of those with γ > 0


@dataclass
class Portfolio:
    """All members that were trained, the best one first, and the dial."""

    members: list[Member]
    best: Member
    dial: Dial | None
    stopped: str | None  # "budget" or "interrupted", where the clock or a person ended it


def fit_portfolio(
    problem: Problem,
    seconds: float,
    clock: Clock,
    *,
    model: str = "auto",
    seed: int = 0,
    device: str = "cpu",
    cache: FeatureCache | None = None,
) -> Portfolio:
    """Train what fits `seconds` and choose by the nodes that judge.

    Logistic regression and the MLP are always among the members, for comparison.
    """
    work = _Work(problem, seconds, clock, model, seed, device, cache or FeatureCache())
    return work.run()


@dataclass
class _Work:
    """The arguments of :func:`fit_portfolio`, and what it has trained so far."""

    problem: Problem
    seconds: float
    clock: Clock
    model: str
    seed: int
    device: str
    cache: FeatureCache

    def __post_init__(self) -> None:
        self.members: list[Member] = []
        self.stopped: str | None = None
        self.tabular = 0.0  # seconds that models of a table are planned to take

    def run(self) -> Portfolio:
        """Run all stages; where the clock or a person stops it, keep the best so far."""
        dial, tables = None, self._wanted_tables()
        try:
            self._tables(tables[:2], needed=True)
            self._search("mlp", DEFAULT_SCOPES, MLP_SHARE * self.seconds)
            dial = self._dial()
            self._tables(tables[2:])
            self._networks(dial)
        except KeyboardInterrupt:
            if not self.members:
                raise
            self.stopped = "interrupted"
        self.clock.stopped |= self.stopped == "interrupted"
        wanted = [m for m in self.members if self.model in ("auto", m.model)] or self.members
        best = blended(self.problem, wanted) if self.model == "auto" else best_first(wanted)[0]
        others = best_first(m for m in self.members if m is not best)
        return Portfolio([best, *others], best, dial, self.stopped)

    def _tables(self, specs: Sequence[TabularSpec], *, needed: bool = False) -> None:
        """Models of a table, in this order, all that are `needed` or that the plan allows."""
        room = PLAN_SHARE * TABULAR_SHARE * self.seconds
        for spec in specs:
            if self.stopped or not (needed or self.tabular + self._cost(spec) <= room):
                continue
            self.tabular += self._cost(spec)
            if self.clock.over() and self.members:
                self.stopped = "budget"
                return
            self.clock.tell(f"{spec.name}{self._best_so_far()}")
            self.members.append(self._fit(spec))

    def _wanted_tables(self) -> list[TabularSpec]:
        """Logistic regression without the graph is the first, always."""
        p = self.problem
        first = candidates(p.x.shape[1], len(p.x), graph=p.graph.num_edges > 0)
        if self.model == "auto":
            return first
        return [first[0], *(s for s in first[1:] if _slug(s) == self.model)]

    def _cost(self, spec: TabularSpec) -> float:
        p = self.problem
        n, f = p.x.shape
        train = int(p.masks[0, 0].sum())
        each = cost(
            spec,
            num_nodes=n,
            num_train=train,
            num_features=f,
            num_edges=p.graph.num_edges,
            num_classes=p.num_classes,
            density=self.density,
        )
        return each * len(np.unique(p.masks[:, 0], axis=0))

    def _fit(self, spec: TabularSpec) -> Member:
        p, begun = self.problem, perf_counter()
        found: dict[bytes, tuple[TabularModel, NDArray[np.float64]]] = {}
        for train, _, _ in p.masks:  # splits that train on the same nodes share a model
            if train.tobytes() not in found:
                model = fit_tabular(
                    spec,
                    p.graph,
                    p.x,
                    p.y,
                    train,
                    num_classes=p.num_classes,
                    seed=self.seed,
                    class_weight=p.class_weight,
                    cache=self.cache,
                )
                proba = model.predict_proba(p.graph, p.x, cache=self.cache)
                found[train.tobytes()] = model, proba
        each = [found[train.tobytes()] for train, _, _ in p.masks]
        probas = [proba for _, proba in each]
        return Member(
            name=spec.name,
            model=_slug(spec),
            settings=spec.settings,
            graph=spec.diffuse,
            models=[model for model, _ in found.values()],
            proba=probas,
            val=p.validation_score(probas),
            seconds=perf_counter() - begun,
        )

    def _dial(self) -> Dial | None:
        """Logistic regression over γ at α = 0 and 1, then over α at the best γ."""
        if self.stopped or not self.with_graph:
            return None
        base = TabularSpec(learner="logistic", diffuse=True, reduce=32, hops=2)
        fits = len(GAMMAS) * 2 + len(ALPHAS)
        gammas = GAMMAS
        room = PLAN_SHARE * DIAL_SHARE * self.seconds
        if self._cost(base) * fits > room:
            gammas, fits = COARSE, 2 * len(COARSE) + len(ALPHAS)
        if self._cost(base) * fits > 2 * room:
            return None
        self.clock.tell(f"the dial of γ and α{self._best_so_far()}")
        at = {a: [(g, self._dial_score(base, a, g)) for g in gammas] for a in (0.0, 1.0)}
        mixing = {a: [pair for pair in at[a] if pair[0] > 0] for a in at}  # P = I at γ = 0
        first = max(mixing, key=lambda a: max(v for _, v in mixing[a]))
        gamma = max(mixing[first], key=lambda pair: pair[1])[0]
        over = [(a, self._dial_score(base, a, gamma)) for a in ALPHAS]
        alpha = max(over, key=lambda pair: pair[1])[0]
        if self.clock.over():
            return None
        return Dial(at[first], over, (alpha, gamma))

    def _dial_score(self, base: TabularSpec, alpha: float, gamma: float) -> float:
        if self.clock.over():
            return 0.0
        return self._fit(replace(base, scopes=((alpha, gamma),))).val

    @property
    def with_graph(self) -> bool:
        """Whether networks are asked for, and there are edges."""
        return self.model in ("auto", *MODELS) and self.problem.graph.num_edges > 0

    def _networks(self, dial: Dial | None) -> None:
        """With the best scope that the dial has found, in all the time that is left."""
        if self.model != "mlp" and (self.with_graph or self.model in WITHOUT_GRAPH):
            scopes = [*([dial.best] if dial else []), *DEFAULT_SCOPES]
            rest = 1 - MLP_SHARE - DIAL_SHARE - self.tabular / (PLAN_SHARE * self.seconds)
            self._search(self.model, scopes, max(0.1, rest) * self.seconds)

    @cached_property
    def density(self) -> float:
        """The share of features that are not 0."""
        return float(np.count_nonzero(self.problem.x) / max(1, self.problem.x.size))

    @cached_property
    def task(self) -> Task:
        """What networks train on: they take the step that is best on the nodes that stop."""
        p = self.problem
        return Task.from_arrays(
            p.graph,
            p.x,
            p.y,
            torch.from_numpy(p.masks[:, :2]),
            metric=p.metric,
            class_weights=p.class_weight,
            num_classes=p.num_classes,
        )

    def _search(self, model: str, scopes: Sequence[tuple[float, float]], budget: float) -> None:
        """Successive halving on the first splits; the last ones then on all, with other seeds."""
        splits = self.problem.num_splits
        first = [0] if splits < 3 else [0, 1]
        specs = network_candidates(list(dict.fromkeys(scopes)), model=model)
        runs = [replace(s, split=k, seed=self.seed + k) for s in specs for k in first]
        found = self._halved(runs, (1 - AGAIN_SHARE) * budget)
        last = [s for s in found if s.rung == found[0].rung]
        again = [
            replace(standing.spec, split=split, seed=self.seed + seed)
            for standing in last
            for split, seed in _more(splits, first)
        ]
        others = self._halved(again, AGAIN_SHARE * budget, rungs=1) if again else []
        self.members += self._members([r for s in (*last, *others) for r in s.summary.results])

    def _halved(
        self, runs: Sequence[RunSpec], budget: float, *, rungs: int | None = None
    ) -> list[Standing]:
        if self.stopped or self.clock.over():
            return []
        found = search(
            runs,
            budget=CORES * budget,
            deadline=self.clock.left(),
            tasks={DATASET: self.task},
            device=self.device,
            rungs=rungs,
            progress=self._tell,
        )
        self.stopped = found.stopped
        return found.ranking

    def _members(self, results: Sequence[RunResult]) -> list[Member]:
        """A member for each setting that has weights for every split."""
        settings: dict[RunSpec, list[RunResult]] = {}
        for r in results:
            if r.weights is not None:
                settings.setdefault(replace(r.spec, split=0, seed=0, steps=1), []).append(r)
        splits = set(range(self.problem.num_splits))
        return [self._member(g) for g in settings.values() if {r.spec.split for r in g} == splits]

    def _member(self, results: Sequence[RunResult]) -> Member:
        p, spec = self.problem, results[0].spec
        by_split = [[r for r in results if r.spec.split == k] for k in range(p.num_splits)]
        proba = [np.mean([_proba(r) for r in runs], axis=0) for runs in by_split]
        shape = p.x.shape[1], p.num_classes, p.graph.num_nodes
        return Member(
            name=network_name(spec),
            model=spec.model,
            settings=network_settings(spec),
            graph=spec.model not in WITHOUT_GRAPH,
            models=[NetworkModel(r.spec, r.weights or {}, *shape) for g in by_split for r in g],
            proba=proba,
            val=p.validation_score(proba),
            seconds=sum(r.seconds for r in results),
        )

    def _best_so_far(self) -> str:
        if not self.members:
            return ""
        best = best_first(self.members)[0]
        return f"; best so far {best.name}, validation {100 * best.val:.1f}"

    def _tell(self, p: SearchProgress) -> None:
        under_way = network_name(p.specs[0]) if p.specs else "networks"
        self.clock.tell(
            f"{under_way}, step {p.step}/{p.steps}, {p.settings} settings left{self._best_so_far()}"
        )


def _slug(spec: TabularSpec) -> str:
    """``"pd-trees"``."""
    return f"{'pd-' if spec.diffuse else ''}{spec.learner}"


def _more(splits: int, first: Sequence[int]) -> list[tuple[int, int]]:
    """Splits that the last settings are trained on besides, each with a seed that it adds.

    >>> _more(1, [0]), _more(2, [0]), _more(5, [0, 1])
    ([(0, 1), (0, 2)], [(1, 1)], [(2, 2), (3, 3), (4, 4)])
    """
    if splits == 1:
        return [(0, 1), (0, 2)]
    return [(k, k) for k in range(splits) if k not in first]


def _proba(result: RunResult) -> NDArray[np.float64]:
    if result.logits is None:
        raise ValueError("the run has kept no logits")
    return probabilities(result.logits)


def without_edges(model: str) -> str:
    """What takes the place of `model` on a graph without edges.

    >>> [without_edges(m) for m in ("auto", "pd-trees", "logistic", "pd-gcn")]
    ['auto', 'trees', 'logistic', 'mlp']
    """
    if model in MODELS:
        return model if model in WITHOUT_GRAPH else "mlp"
    return model.removeprefix("pd-")


def check_choice(model: str) -> str:
    """`model` if it is one of :data:`CHOICES`."""
    if model not in CHOICES:
        raise InputError(f"unknown model {model!r}; choose one of {', '.join(CHOICES)}")
    return model
