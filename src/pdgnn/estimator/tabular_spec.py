"""Which learner on which table, which of them to try, and what they cost."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

from pdgnn.diffusion import GRAM_LIMIT
from pdgnn.errors import InputError, check_number, check_whole
from pdgnn.estimator.trees import BOOSTERS, COLUMNS, rounds_and_rate
from pdgnn.laplacian import check_scopes

__all__ = ["TabularSpec", "candidates", "cost", "num_columns"]

MOST = 2e8
"""Entries of a table beyond which logistic regression, too, is given singular vectors."""

# Seconds of one core, fitted to a dozen measurements on graphs of 890 to 50,000 nodes:
START, SVD = 0.2, 4e-11  # of singular vectors; of an entry of x, for each row of the Gram matrix
HOP = 4e-9  # of an entry of P and a column
DENSE, SPARSE = 3e-8, 1.5e-7  # of all steps of L-BFGS, for an entry of the table and a class
TREE, ENTRY, ROW = 5e-4, 5.5e-9, 5e-8  # of a tree, an entry that it is given, a node it predicts
OTHER = 3e-10  # of an entry that a tree is not given


@dataclass(frozen=True)
class TabularSpec:
    """Which learner, on which table.

    Args:
        learner: "logistic" or "trees".
        diffuse: Whether the table holds diffused features; else the graph is not used.
        reduce: How many singular vectors stand for the features where there are more than twice as
            many; None keeps all.
        scopes: The pairs (α, γ) of the diffusion matrices.
        hops: The highest power of each.
        C: Inverse strength of the penalty of logistic regression.

    >>> TabularSpec("trees", diffuse=True).name
    'pd-trees'
    """

    learner: Literal["logistic", "trees"]
    diffuse: bool
    reduce: int | None = 32
    scopes: tuple[tuple[float, float], ...] = ((0.0, 1.0), (1.0, 1.0))
    hops: int = 4
    C: float = 1.0

    def __post_init__(self) -> None:
        if self.learner not in {"logistic", "trees"}:
            raise InputError(f"unknown learner {self.learner!r}; take 'logistic' or 'trees'")
        if not isinstance(self.diffuse, bool):
            raise InputError(f"diffuse must be True or False, not {self.diffuse!r}")
        if self.reduce is not None:
            check_whole("reduce", self.reduce)
        object.__setattr__(self, "scopes", check_scopes(self.scopes))
        check_whole("hops", self.hops)
        if check_number("C", self.C) == 0:
            raise InputError("C must be above 0; take a small number for a strong penalty")

    @property
    def name(self) -> str:
        """Its name in the leaderboard."""
        if self.learner == "trees":
            return "pd-trees" if self.diffuse else "boosted trees"
        return "logistic regression" + " on diffused features" * self.diffuse

    @property
    def settings(self) -> dict[str, Any]:
        """Its settings for the leaderboard; only those that have an effect on it."""
        said: dict[str, Any] = {"reduce": self.reduce}
        if self.diffuse:
            said |= {"scopes": self.scopes, "hops": self.hops}
        return said | ({"C": self.C} if self.learner == "logistic" else {})

    @property
    def table(self) -> tuple[Any, ...]:
        """The settings that the features depend on: equal for specs with equal features."""
        return (self.reduce, *((self.scopes, self.hops) if self.diffuse else ()))


def num_columns(spec: TabularSpec, num_inputs: int) -> int:
    """The number of columns of the table, of so many features or singular vectors and their sum."""
    if not spec.diffuse:
        return num_inputs
    return (num_inputs + 1) * (1 + len(spec.scopes) * spec.hops)


def candidates(num_features: int, num_nodes: int = 1, *, graph: bool = True) -> list[TabularSpec]:
    """The tabular members of the portfolio, in the order in which to try them.

    First one of each kind, the cheapest before the others; then other penalties, other reductions
    of wide features, other scopes and hops. Without `graph`, those that do not use it. Logistic
    regression takes all features, unless that would be too large a table; trees take all words too
    where these are some hundreds.

    >>> [spec.name for spec in candidates(10)[:3]]
    ['logistic regression', 'pd-trees', 'logistic regression on diffused features']
    """
    wide = num_features > 64
    penalties = (0.01, 0.001, 0.1, 1.0) if wide else (1.0, 0.01, 100.0)
    smoothed = (0.001, 0.0001, 0.01, 0.1) if wide else penalties
    plain = TabularSpec("logistic", False, None, hops=2 if wide else 4)
    linear = replace(plain, diffuse=True)
    plain, linear = (
        replace(spec, reduce=128) if num_nodes * num_columns(spec, num_features) > MOST else spec
        for spec in (plain, linear)
    )
    trees = TabularSpec("trees", True)
    found = [
        replace(plain, C=penalties[0]),
        trees,
        replace(linear, C=smoothed[0]),
        replace(trees, diffuse=False),
        *(replace(plain, C=c) for c in penalties[1:]),
        *(replace(linear, C=c) for c in smoothed[1:]),
    ]
    if wide:
        mean = replace(linear, scopes=((1.0, 1.0),))
        found += [replace(mean, C=c) for c in smoothed]
        found += [replace(trees, reduce=128, hops=2), replace(trees, diffuse=False, reduce=128)]
    if wide and num_features <= 1000 and num_nodes * num_features <= MOST / 10:
        every = replace(trees, reduce=None, hops=1)
        found[4:4] = [replace(every, diffuse=False), every]
    found += [
        replace(trees, hops=2),
        replace(trees, hops=8),
        replace(trees, scopes=((0.0, 0.5), (1.0, 0.5))),
    ]
    return [spec for spec in found if graph or not spec.diffuse]


def cost(
    spec: TabularSpec,
    *,
    num_nodes: int,
    num_train: int,
    num_features: int,
    num_edges: int,
    num_classes: int,
    density: float = 1.0,
) -> float:
    """Seconds of one core that fitting and predicting take, roughly; no clock is asked.

    Trees on large tables use all cores and take less. `density` is the share of features that are
    not zero. A table that another spec has made already (see :class:`FeatureCache`) is counted
    again.
    """
    seconds, inputs = 0.02, num_features
    if spec.reduce is not None and num_features > 2 * spec.reduce:
        side = min(num_nodes, num_features, GRAM_LIMIT)
        seconds += START + SVD * num_nodes * num_features * density * side
        inputs, density = spec.reduce + 1, 1.0
    columns = num_columns(spec, inputs)
    if spec.diffuse:
        density = min(1.0, density * (1 + 2 * num_edges / num_nodes))
        seconds += HOP * (2 * num_edges + num_nodes) * columns * density
    outputs = 1 if num_classes == 2 else num_classes
    if spec.learner == "logistic":
        step = DENSE if density > 0.1 else SPARSE
        return seconds + step * num_train * columns * density * outputs
    rounds, _ = rounds_and_rate(num_train, columns, num_classes)
    trees = BOOSTERS * rounds * outputs
    given = min(columns, COLUMNS)
    entries = num_train * (ENTRY * given + OTHER * (columns - given))
    return seconds + trees * (TREE + entries + ROW * num_nodes)
