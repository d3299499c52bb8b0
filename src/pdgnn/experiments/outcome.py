"""What came of an experiment: every setting tried, in cells, in tables with the published values.

Scores are in percent. Nothing here trains, reads or draws.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from pdgnn.training.spec import RunSpec
from pdgnn.training.summary import mean_std

__all__ = ["Cell", "FactRow", "FactTable", "Published", "Row", "ScoreTable", "Tried", "signed"]


def signed(points: float) -> str:
    """A difference in points with its sign; one that rounds to nothing has none.

    >>> signed(1.234), signed(-0.5), signed(-0.004)
    ('+1.23', '−0.50', '0.00')
    """
    said = f"{points:+.2f}"
    return "0.00" if float(said) == 0 else said.replace("-", "−")


@dataclass(frozen=True)
class Published:
    """A cell of the paper."""

    mean: float | None  # None: `said` has what stands there
    std: float | None
    said: str = ""  # such as "OOM"


@dataclass(frozen=True)
class Tried:
    """One setting of a cell on the splits that it was trained on: a depth and, where used, α, γ.

    Scores are in the order of `splits`; a test score is the one at the best validation step.
    """

    spec: RunSpec  # of its first split
    splits: tuple[int, ...]
    val: tuple[float, ...]
    test: tuple[float, ...]
    seconds: float  # all splits together
    whole: bool  # on all splits and steps that the experiment asks for
    provenance: tuple[int, ...] = ()  # ids in the store
    scopes: tuple[tuple[float, float], ...] = ()
    """The (α, γ) that this stands for, its own first: those with the same rewired graph."""

    @cached_property
    def val_mean(self) -> float:
        """Mean of the best validation scores."""
        return mean_std(self.val)[0]

    @cached_property
    def mean(self) -> float:
        """Mean of the test scores."""
        return mean_std(self.test)[0]

    @cached_property
    def std(self) -> float:
        """Standard deviation of the test scores (ddof 1); nan of one split."""
        return mean_std(self.test)[1]


@dataclass(frozen=True)
class Row:
    """A line of a table.

    `tuned` says which (α, γ) it takes: None for a model without, False for α = γ = 1 alone, True
    for those of the search.
    """

    label: str
    model: str  # a key of the registry or of the user's models
    rewired: bool = False
    tuned: bool | None = None
    absent: bool = False  # there is no such model yet


@dataclass(frozen=True)
class Cell:
    """A row on a dataset."""

    row: Row
    dataset: str
    published: Published | None
    tried: tuple[Tried, ...] = ()  # each setting once, as far as it was trained
    settings: int = 0  # that were searched; rewired graphs that are equal once
    runs_done: int = 0
    runs_wanted: int = 0
    alike: tuple[Tried, ...] = ()
    """The settings on the same splits, for the same steps and in the same precision, of which there
    are the most; a fair picture over (α, γ), where `tried` has the promising ones further."""
    grid: int = 0  # settings of the whole grid of another system; 0 where that is not known

    @cached_property
    def whole(self) -> tuple[Tried, ...]:
        """The settings that were trained to the end."""
        return tuple(t for t in self.tried if t.whole)

    @cached_property
    def by_validation(self) -> Tried | None:
        """The setting with the highest mean validation score, of those trained to the end."""
        able = [t for t in self.whole if not math.isnan(t.val_mean)]
        return max(able, key=lambda t: t.val_mean, default=None)

    @cached_property
    def best_test(self) -> Tried | None:
        """The setting with the highest mean test score, of ``len(whole)``; none chose it."""
        able = [t for t in self.whole if not math.isnan(t.mean)]
        return max(able, key=lambda t: t.mean, default=None)


@dataclass(frozen=True)
class ScoreTable:
    """A table of test scores: rows are models, columns datasets."""

    name: str  # such as "table2"
    title: str
    rows: tuple[Row, ...]
    datasets: tuple[str, ...]
    metrics: Mapping[str, str]  # of each dataset: "accuracy" or "roc_auc"
    cells: Mapping[tuple[str, str], Cell] = field(default_factory=dict)  # by row label and dataset

    @property
    def absent(self) -> list[str]:
        """The rows whose model is not there yet."""
        return [row.label for row in self.rows if row.absent]


@dataclass(frozen=True)
class FactRow:
    """Published and own values side by side; None where there is none."""

    label: str
    published: tuple[float | str | None, ...]
    own: tuple[float | str | None, ...]


@dataclass(frozen=True)
class FactTable:
    """A table that needs no training, or only shows what was chosen."""

    name: str  # such as "homophily"
    title: str
    columns: tuple[str, ...]
    rows: tuple[FactRow, ...]
