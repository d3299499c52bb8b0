"""What a change of a model does to its score: own differences split by split, and the published.

A change is a pair of variants of a model, such as GAT and GAT on the rewired graph. For each graph
it is the difference of their mean test scores, each at the setting that validation chose.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import NamedTuple

from pdgnn.experiments.catalog import HETEROPHILIC
from pdgnn.experiments.outcome import ScoreTable, Tried
from pdgnn.experiments.paper import published
from pdgnn.experiments.significance import (
    LEVEL,
    PUBLISHED_SPLITS,
    holm,
    paired,
    share_of,
    welch,
)
from pdgnn.models import MODELS
from pdgnn.training.summary import mean_std

__all__ = [
    "Change",
    "Count",
    "Difference",
    "Variant",
    "differences",
    "published_differences",
]


class Variant(NamedTuple):
    """A row of the tables, as :class:`~pdgnn.experiments.outcome.Row` has it."""

    model: str
    rewired: bool = False
    tuned: bool | None = None

    @property
    def name(self) -> str:
        """In words.

        >>> Variant("pd-gat", rewired=True, tuned=False).name
        'PD-GAT rewired with α = γ = 1'
        """
        words = [str(MODELS[self.model].name)]
        words += ["rewired"] if self.rewired else []
        words += ["with α = γ = 1"] if self.tuned is False else []
        return " ".join(words)


class Change(NamedTuple):
    """A change of a model: the variant before it, and the one after it."""

    before: Variant
    after: Variant

    @property
    def name(self) -> str:
        """Both in words."""
        return f"{self.before.name} → {self.after.name}"


@dataclass(frozen=True)
class Difference:
    """A change on one graph."""

    change: Change
    dataset: str
    before: float  # mean test scores, in percent
    after: float
    splits: int  # that both were trained on
    p: float  # nan: there is no test of a single split
    adjusted: float = math.nan  # by Holm, over all differences that were found together

    @property
    def points(self) -> float:
        """By how much the score goes up."""
        return self.after - self.before

    @property
    def significant(self) -> bool:
        """Whether the adjusted p is below 0.05."""
        return self.adjusted < LEVEL


@dataclass(frozen=True)
class Count:
    """How many differences there are, and of which kind."""

    total: int
    up: int
    same: int
    surely_up: int
    surely_down: int

    @classmethod
    def of(cls, found: Sequence[Difference]) -> Count:
        """Count them; "surely" is by the adjusted p."""
        up = [d for d in found if d.points > 0]
        down = [d for d in found if d.points < 0]
        sure = [sum(d.significant for d in group) for group in (up, down)]
        return cls(len(found), len(up), len(found) - len(up) - len(down), *sure)

    def __str__(self) -> str:
        sure = f"significantly up in {self.surely_up}, significantly down in {self.surely_down}"
        same = f", the same in {self.same}" if self.same else ""
        return f"up in {self.up} of {self.total}{same} ({sure})"


def differences(
    tables: Mapping[str, ScoreTable], changes: Iterable[Change], datasets: Iterable[str]
) -> list[Difference]:
    """Every change on every graph that both variants were trained to the end on.

    Paired over the splits that both have, by the corrected resampled t test.
    """
    wanted = list(dict.fromkeys(changes))
    found = []
    for dataset in datasets:
        for change in wanted:
            one, other = (_chosen(tables, variant, dataset) for variant in change)
            if one is not None and other is not None:
                found += _difference(change, dataset, one, other)
    return _adjusted(found)


def published_differences(changes: Iterable[Change]) -> list[Difference]:
    """The same of the published numbers, by Welch's test: scores of single splits are not known."""
    found, values = [], _published()
    for change in dict.fromkeys(changes):
        for dataset in HETEROPHILIC:
            one, other = (values.get((variant, dataset)) for variant in change)
            if one is not None and other is not None:
                n = PUBLISHED_SPLITS
                p = welch(*other, n, *one, n)
                found.append(Difference(change, dataset, one[0], other[0], n, p))
    return _adjusted(found)


def _chosen(tables: Mapping[str, ScoreTable], variant: Variant, dataset: str) -> Tried | None:
    """The setting that validation chose, in the first table that has one."""
    for table in tables.values():
        for row in table.rows:
            cell = table.cells.get((row.label, dataset))
            same = (row.model, row.rewired, row.tuned) == variant
            if same and cell is not None and cell.by_validation is not None:
                return cell.by_validation
    return None


def _difference(change: Change, dataset: str, one: Tried, other: Tried) -> list[Difference]:
    before = dict(zip(one.splits, one.test, strict=True))
    after = dict(zip(other.splits, other.test, strict=True))
    common = [split for split in before if split in after]
    if not common:
        return []
    scores = [[of_one[split] for split in common] for of_one in (before, after)]
    p = paired(scores[1], scores[0], test_share=share_of(dataset))
    means = [mean_std(s)[0] for s in scores]
    return [Difference(change, dataset, means[0], means[1], len(common), p)]


def _adjusted(found: Sequence[Difference]) -> list[Difference]:
    ps = holm(d.p for d in found)
    return [replace(d, adjusted=p) for d, p in zip(found, ps, strict=True)]


@cache
def _published() -> dict[tuple[Variant, str], tuple[float, float]]:
    """Mean and std of the ablation, and of PD-GAT-sep, which the benchmark alone has."""
    found = {}
    for row in published("ablation"):
        tuned, diffusion, rewired = (
            bool(row[n]) for n in ("tuned_laplacian", "parameterized_diffusion", "rewiring")
        )
        model = f"{'pd-' if diffusion else ''}{str(row['base']).lower()}"
        variant = Variant(model, rewired, tuned if diffusion or rewired else None)
        found[variant, str(row["dataset"])] = _score(row["mean"], row["std"])
    for row in published("benchmark"):
        name = str(row["model"])
        if name.startswith("PD-GAT-sep"):
            variant = Variant("pd-gat-sep", name.endswith("(rewired)"), True)
            found[variant, str(row["dataset"])] = _score(row["mean"], row["std"])
    return found


def _score(mean: str | float | None, std: str | float | None) -> tuple[float, float]:
    assert isinstance(mean, float)  # no model of the ablation ran out of memory
    assert isinstance(std, float)
    return mean, std
