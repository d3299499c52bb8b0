"""How good probabilities are, how sure one may be of that, and whether the graph has helped."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from pdgnn.training.metrics import scores

__all__ = ["Estimate", "Interval", "as_logits", "bootstrap", "estimate", "score"]

Probabilities = NDArray[np.float64]
Interval = tuple[float, float, float]
"""A score, and the ends of its 95 % interval."""
RESAMPLES = 400
LEVELS = (2.5, 97.5)


def score(proba: Probabilities, y: NDArray[np.int64], metric: str) -> float:
    """The `metric` of probabilities ``[n, C]`` for the classes ``[n]``; nan where it is undefined.

    >>> score(np.array([[0.9, 0.1], [0.2, 0.8]]), np.array([0, 0]), "accuracy")
    0.5
    """
    given = torch.from_numpy(as_logits(proba))[None]
    everywhere = torch.ones(1, 1, len(y), dtype=torch.bool)
    return float(scores(given, torch.from_numpy(y), everywhere, metric)[0, 0])


def as_logits(proba: Probabilities) -> Probabilities:
    """One logit for two classes, else one each, as the metrics take them."""
    tiny = np.finfo(np.float64).tiny
    logits = np.log(np.maximum(proba, tiny))
    return logits[:, 1:] - logits[:, :1] if proba.shape[1] == 2 else logits


def bootstrap(n: int, seed: int) -> NDArray[np.int64]:
    """Resamples with replacement of `n` nodes, ``[RESAMPLES, n]``."""
    return np.random.default_rng([seed, n]).integers(0, n, size=(RESAMPLES, n))


def _resampled(proba: Probabilities, y: NDArray[np.int64], metric: str, seed: int) -> Probabilities:
    """The score on each resample, ``[RESAMPLES]``."""
    draws = bootstrap(len(y), seed)
    if metric == "accuracy":
        return np.asarray((proba.argmax(axis=1) == y)[draws].mean(axis=1))
    return np.array([score(proba[rows], y[rows], metric) for rows in draws])


def _interval(proba: Probabilities, y: NDArray[np.int64], metric: str, seed: int) -> Interval:
    if not len(y):
        return math.nan, math.nan, math.nan
    found = score(proba, y, metric)
    drawn = _resampled(proba, y, metric, seed)
    if not np.isfinite(drawn).any():
        return found, math.nan, math.nan
    low, high = np.nanpercentile(drawn, LEVELS)
    return found, float(low), float(high)


@dataclass(frozen=True)
class Estimate:
    """What to expect of the predictions, from nodes that took no part in training or choosing.

    `low` and `high` are the ends of a 95 % bootstrap interval over the `n` nodes. `baselines` has
    the same three numbers for systems that do not use the graph. `helps` says whether the model is
    better than the best of them by more than chance, `sentence` says it in words, and `how` which
    nodes it comes from.
    """

    score: float
    low: float
    high: float
    n: int
    metric: str
    how: str
    baselines: Mapping[str, Interval]
    helps: bool
    sentence: str


def estimate(
    proba: Probabilities,
    y: NDArray[np.int64],
    metric: str,
    without_graph: Mapping[str, Probabilities],
    *,
    majority: int,
    how: str,
    seed: int,
) -> Estimate:
    """From honest probabilities ``[n, C]`` of the model and of systems without the graph.

    The comparison is paired: both are scored on the same resamples of the nodes.
    """
    constant = np.zeros_like(proba)
    constant[:, majority] = 1.0
    others = {"majority class": constant, **without_graph}
    baselines = {name: _interval(p, y, metric, seed) for name, p in others.items()}
    found, low, high = _interval(proba, y, metric, seed)
    best = max(baselines, key=lambda name: np.nan_to_num(baselines[name][0], nan=-1.0))
    surely = len(y) > 0 and _surely_better(proba, others[best], y, metric, seed)
    sentence = _sentence(found, best, baselines[best][0], helps=surely, metric=metric)
    return Estimate(found, low, high, len(y), metric, how, baselines, surely, sentence)


def _surely_better(
    proba: Probabilities, other: Probabilities, y: NDArray[np.int64], metric: str, seed: int
) -> bool:
    """Whether `proba` has the higher score in all but the lowest 2.5 % of the resamples."""
    gain = _resampled(proba, y, metric, seed) - _resampled(other, y, metric, seed)
    return bool(np.isfinite(gain).any() and np.nanpercentile(gain, LEVELS[0]) > 0)


def _sentence(found: float, best: str, other: float, *, helps: bool, metric: str) -> str:
    name = metric.replace("_", " ").replace("roc auc", "ROC AUC")
    if math.isnan(found):
        return f"Whether the graph helps is not known, as there is no {name} to compare."
    beside = f"{name} {100 * found:.1f} against {100 * other:.1f} of {best} without it"
    if helps:
        return f"The graph helps: {beside}."
    return f"The graph does not help measurably: {beside}."
