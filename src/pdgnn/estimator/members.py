"""What a portfolio consists of: the task, its members, and the average of the best of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from pdgnn.estimator.scores import score
from pdgnn.graph import Graph

__all__ = ["Clock", "Member", "Predictor", "Problem", "best_first", "blended", "mean_proba"]

MOST_BLENDED, GAIN = 5, 0.001
"""How many members are averaged at most, and what each has to add to the validation score."""
Probabilities = NDArray[np.float64]


class Predictor(Protocol):
    """A trained model: a network, or a learner on a table."""

    def predict_proba(self, graph: Graph, x: NDArray[np.float32], /) -> Probabilities:
        """The probability of each class at each node of a graph, ``[N, C]``."""

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]], dict[str, str]]:
        """What is to be saved: plain values for JSON, arrays and texts."""


@dataclass(frozen=True, eq=False)
class Problem:
    """Features ``[N, F]``, classes ``[N]`` (−1: none), and S splits ``[S, 3, N]`` to choose by."""

    graph: Graph
    x: NDArray[np.float32]
    y: NDArray[np.int64]
    num_classes: int
    metric: str
    masks: NDArray[np.bool_]
    class_weight: NDArray[np.float64] | None = None  # [C]

    @property
    def num_splits(self) -> int:
        """S."""
        return len(self.masks)

    def validation_score(self, proba: Sequence[Probabilities]) -> float:
        """The mean over the splits of the score on the nodes that judge."""
        found = [
            score(p[judge], self.y[judge], self.metric)
            for p, (_, _, judge) in zip(proba, self.masks, strict=True)
        ]
        return float(np.mean(found))


@dataclass(eq=False)
class Member:
    """A setting, trained on every split.

    `proba` has the probabilities ``[N, C]`` of each split; their average is that of `models`.
    """

    name: str
    model: str
    settings: dict[str, Any]
    graph: bool
    models: Sequence[Predictor]
    proba: list[Probabilities]
    val: float
    seconds: float
    parts: list[Member] = field(default_factory=list)

    def row(self) -> dict[str, Any]:
        """A row of the leaderboard."""
        return {
            "name": self.name,
            "model": self.model,
            "val": self.val,
            "seconds": self.seconds,
            "graph": self.graph,
            "settings": self.settings,
        }


def mean_proba(members: Sequence[Member]) -> Probabilities:
    """The average over members and splits, ``[N, C]``."""
    return np.asarray(np.mean([np.mean(m.proba, axis=0) for m in members], axis=0))


def best_first(members: Iterable[Member]) -> list[Member]:
    """Sorted by validation score, highest first; equals stay in order, nan is last."""
    return sorted(members, key=lambda m: -float(np.nan_to_num(m.val, nan=-1.0)))


def blended(problem: Problem, members: Sequence[Member]) -> Member:
    """The best member, or the average of it and others where that has a better validation score.

    Of those with one name, which are of one kind, the best may take part. They are added one at a
    time, the one that gains most first, as long as one gains :data:`GAIN`.
    """
    ranked = best_first(members)
    best_of_kind = [m for i, m in enumerate(ranked) if m.name not in {r.name for r in ranked[:i]}]
    team, reached = best_of_kind[:1], best_of_kind[0].val
    while len(team) < MOST_BLENDED:
        rest = [m for m in best_of_kind if m not in team]
        found = [(problem.validation_score(_averaged([*team, m])), m) for m in rest]
        if not found or not max(v for v, _ in found) >= reached + GAIN:
            break
        reached, added = max(found, key=lambda pair: pair[0])
        team.append(added)
    if len(team) == 1:
        return team[0]
    return Member(
        name=f"average of {', '.join(m.name for m in team)}",
        model="average",
        settings={},
        graph=any(m.graph for m in team),
        models=[model for m in team for model in m.models],
        proba=_averaged(team),
        val=reached,
        seconds=sum(m.seconds for m in team),
        parts=team,
    )


def _averaged(team: Sequence[Member]) -> list[Probabilities]:
    return [np.mean(of_split, axis=0) for of_split in zip(*(m.proba for m in team), strict=True)]


@dataclass
class Clock:
    """The deadline of a fit. It cuts what takes too long; no plan depends on it."""

    deadline: float
    tell: Callable[[str], None] = lambda _: None
    stopped: bool = False

    @classmethod
    def of(cls, seconds: float, tell: Callable[[str], None] | None) -> Clock:
        """A clock that runs out in so many seconds; `tell` is called with lines of progress."""
        return cls(time.monotonic() + seconds, tell or (lambda _: None))

    def over(self) -> bool:
        """Whether it is time to stop."""
        return self.stopped or time.monotonic() >= self.deadline

    def left(self) -> float:
        """Seconds, at least 0."""
        return 0.0 if self.stopped else max(0.0, self.deadline - time.monotonic())
