"""The estimate: predictions for nodes by models that have not seen their labels, put together."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pdgnn.estimator.members import Member, mean_proba
from pdgnn.estimator.portfolio import Portfolio
from pdgnn.estimator.scores import Estimate, estimate
from pdgnn.estimator.splits import FEW, Round

__all__ = ["honest_estimate"]

NAMES = {"logistic": "logistic regression", "mlp": "MLP", "trees": "boosted trees"}
"""Systems that do not use the graph, as the estimate calls them."""
Probabilities = NDArray[np.float64]


def honest_estimate(
    found: Sequence[tuple[Round, Portfolio]],
    y: NDArray[np.int64],
    metric: str,
    *,
    given: bool,
    nested: bool,
    seed: int,
) -> tuple[Probabilities, Estimate]:
    """The probabilities of the nodes that each round has held out, nan elsewhere, and their score.

    `given` says that the split was the user's, `nested` that every labelled node is held out once.
    The model of a round is compared with its own best members without the graph.
    """
    shape = mean_proba([found[0][1].best]).shape
    honest = np.full(shape, np.nan)
    others: dict[str, Probabilities] = {}
    for one, portfolio in found:
        nodes = one.held_out
        honest[nodes] = mean_proba(portfolio.best.parts or [portfolio.best])[nodes]
        for name, member in _without_graph(portfolio).items():
            there = others.setdefault(name, np.full(shape, np.nan))
            there[nodes] = mean_proba([member])[nodes]
    known = np.isfinite(honest).all(axis=1) & (y >= 0)
    full = {n: p[known] for n, p in others.items() if np.isfinite(p[known]).all()}
    train = y[(y >= 0) & (nested | ~known)]
    return honest, estimate(
        honest[known],
        y[known],
        metric,
        full,
        majority=int(np.bincount(train, minlength=shape[1]).argmax()),
        how=_how(int(known.sum()), int((y >= 0).sum()), nested=nested, given=given),
        seed=seed,
    )


def _without_graph(portfolio: Portfolio) -> dict[str, Member]:
    """The best member of each kind that does not use the graph."""
    found: dict[str, Member] = {}
    for member in portfolio.members:  # best first
        if member.model in NAMES and not member.graph:
            found.setdefault(NAMES[member.model], member)
    return {name: found[name] for name in NAMES.values() if name in found}


def _how(n: int, labelled: int, *, nested: bool, given: bool) -> str:
    """Which `n` of the `labelled` nodes were held out, in words."""
    if n == 0:
        return "The search was stopped before any node had been held out."
    if nested:
        if n < labelled:
            return (
                f"There was time to hold out {n} of {labelled} labelled nodes, predicted by models "
                "that neither trained nor were chosen with their labels."
            )
        return (
            f"Fewer than {FEW} nodes have a label, so that each of {n} was predicted once by "
            "models that neither trained nor were chosen with its label."
        )
    whose = "the test part of the given split" if given else "held out at random"
    return f"From {n:,} nodes, {whose}, that took no part in training or choosing."
