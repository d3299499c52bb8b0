"""Whether a difference between scores is more than chance: two t tests, and Holm's correction.

Published scores are a mean and a standard deviation of ten splits. They are compared by Welch's
test, which needs no more. Own scores are compared split by split. The training sets of the splits
overlap, so that the scores of two splits are not independent, and the plain paired t test finds too
much. Nadeau and Bengio (2003) correct its variance: with J splits, differences d and s² = var(d),
t = mean(d) / √((1/J + n_test/n_train) s²), with J − 1 degrees of freedom.

All tests are two-sided. A p of nan says that the scores allow no test.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from pdgnn.errors import InputError, check_number
from pdgnn.experiments.outcome import Published, ScoreTable, Tried
from pdgnn.training.summary import mean_std

__all__ = [
    "LEVEL",
    "PUBLISHED_SPLITS",
    "Comparison",
    "compare_with_published",
    "holm",
    "paired",
    "share_of",
    "welch",
]

LEVEL = 0.05
"""Below this adjusted p a difference is called significant."""
PUBLISHED_SPLITS = 10
"""Of which the published means and standard deviations are."""
BENCHMARK_SHARE = 25 / 50
"""n_test / n_train of the 50/25/25 splits of Platonov et al."""
GEOM_GCN_SHARE = 20 / 48
"""n_test / n_train of 48/32/20 splits, Geom-GCN's and those of the two filtered graphs."""
GEOM_GCN = ("cora", "citeseer", "pubmed", "chameleon-filtered", "squirrel-filtered")
ROUNDING = 1e-12
"""Standard deviations below this share of the scores come from rounding, and count as 0."""


def welch(mean1: float, std1: float, n1: int, mean2: float, std2: float, n2: int) -> float:
    """p of Welch's t test from means, standard deviations (ddof 1) and numbers of scores.

    nan where one is nan or has fewer than two scores. Without any deviation the p is 1 for equal
    means and 0 for others.

    >>> round(welch(44.0, 2.0, 10, 42.0, 2.0, 10), 4)
    0.0382
    """
    numbers = (mean1, std1, mean2, std2)
    if not all(map(math.isfinite, numbers)) or min(n1, n2) < 2:
        return math.nan
    if min(std1, std2) < 0:
        raise InputError(f"a standard deviation is not negative, as {min(std1, std2)} is")
    a, b = std1**2 / n1, std2**2 / n2
    if a + b <= (ROUNDING * max(abs(mean1), abs(mean2))) ** 2:
        return _certain(mean1 - mean2, max(abs(mean1), abs(mean2)))
    share = a / (a + b)  # the degrees of freedom in a form that tiny deviations do not underflow
    freedom = 1 / (share**2 / (n1 - 1) + (1 - share) ** 2 / (n2 - 1))
    return _two_sided((mean1 - mean2) / math.sqrt(a + b), freedom)


def paired(
    scores1: Sequence[float], scores2: Sequence[float], *, test_share: float | None = None
) -> float:
    """p of the corrected resampled paired t test; scores of the same splits in the same order.

    `test_share` is n_test / n_train of the splits (:func:`share_of`), default that of 50/25/25;
    0 gives the plain paired t test. nan where a score is nan or there are fewer than two. Where
    all differences are equal, the p is 1 if they are 0 and 0 if not.

    >>> round(paired([3.0, 4.0, 6.0, 7.0], [2.0, 2.0, 4.0, 6.0], test_share=0), 4)
    0.0138
    >>> round(paired([3.0, 4.0, 6.0, 7.0], [2.0, 2.0, 4.0, 6.0]), 4)
    0.0577
    """
    share = BENCHMARK_SHARE if test_share is None else check_number("test_share", test_share)
    if len(scores1) != len(scores2):
        raise InputError(
            f"{len(scores1)} and {len(scores2)} scores make no pairs; give those of the same splits"
        )
    differences = [a - b for a, b in zip(scores1, scores2, strict=True)]
    if len(differences) < 2 or not all(map(math.isfinite, differences)):
        return math.nan
    mean, std = mean_std(differences)
    size = max(map(abs, (*scores1, *scores2)))
    if std <= ROUNDING * size:
        return _certain(mean, size)
    error = std * math.sqrt(1 / len(differences) + share)
    return _two_sided(mean / error, len(differences) - 1)


def share_of(dataset: str) -> float:
    """n_test / n_train of a dataset's splits; 50/25/25 where nothing else is known.

    >>> share_of("minesweeper"), round(share_of("cora"), 3)
    (0.5, 0.417)
    """
    return GEOM_GCN_SHARE if dataset in GEOM_GCN else BENCHMARK_SHARE


def holm(ps: Iterable[float]) -> list[float]:
    """p values adjusted by Holm's step-down correction; nan stays nan and does not count.

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    values = list(ps)
    order = sorted((i for i, p in enumerate(values) if not math.isnan(p)), key=values.__getitem__)
    adjusted, highest = list(values), 0.0
    for rank, i in enumerate(order):
        highest = max(highest, min(1.0, (len(order) - rank) * values[i]))
        adjusted[i] = highest
    return adjusted


@dataclass(frozen=True)
class Comparison:
    """An own cell beside the published one."""

    difference: float  # own − published, in points
    p: float  # Welch's test; nan where there is none, as of a single split
    adjusted: float  # by Holm, over all cells of the table that were compared

    @property
    def significant(self) -> bool:
        """Whether the adjusted p is below :data:`LEVEL`."""
        return self.adjusted < LEVEL


def compare_with_published(
    table: ScoreTable, *, chosen: Literal["validation", "test"] = "validation"
) -> dict[tuple[str, str], Comparison]:
    """Each cell that has own and published scores, by row label and dataset.

    Published scores of single splits are not known: Welch's test, adjusted by Holm over the table.
    `chosen` says which setting of a cell is compared. For the best test score the p is too small if
    it is above the published one, as it is the best of many.
    """
    found = {}
    for place, cell in table.cells.items():
        own = cell.by_validation if chosen == "validation" else cell.best_test
        if own is not None and cell.published is not None and cell.published.mean is not None:
            found[place] = _with_published(own, cell.published, cell.published.mean)
    adjusted = holm(p for _, p in found.values())
    return {
        place: Comparison(difference, p, own_p)
        for (place, (difference, p)), own_p in zip(found.items(), adjusted, strict=True)
    }


def _with_published(own: Tried, published: Published, mean: float) -> tuple[float, float]:
    std = math.nan if published.std is None else published.std
    p = welch(own.mean, own.std, len(own.test), mean, std, PUBLISHED_SPLITS)
    return own.mean - mean, p


def _certain(difference: float, size: float) -> float:
    """p of a difference without deviation."""
    return 1.0 if abs(difference) <= ROUNDING * size else 0.0


def _two_sided(t: float, freedom: float) -> float:
    from scipy.special import stdtr

    return float(2 * stdtr(freedom, -abs(t)))
