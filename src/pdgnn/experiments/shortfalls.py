"""The cells that stay below the paper, and whether the best test cell of the grid reaches it."""

from __future__ import annotations

import math
from dataclasses import dataclass

from pdgnn.experiments.outcome import ScoreTable

__all__ = ["Shortfall", "shortfalls"]


@dataclass(frozen=True)
class Shortfall:
    """A cell whose score lies more than one published standard deviation below the published."""

    label: str  # of its row
    dataset: str
    published: float
    std: float
    chosen: float  # mean test score of what validation chose
    best: float  # the highest mean test score, which nobody chose
    cells: int  # settings that it is the highest of
    depth: int  # of the setting with the highest
    scope: tuple[float, float] | None  # None: of a model without

    @property
    def reached(self) -> bool:
        """Whether the best test cell has the published mean at least."""
        return self.best >= self.published

    @property
    def near(self) -> bool:
        """Whether it lies within one published standard deviation of it."""
        return self.best >= self.published - self.std

    @property
    def sentence(self) -> str:
        """In words, with the numbers."""
        said = (
            f"{self.label} on {self.dataset}: {self.chosen:.2f} by validation against "
            f"{self.published:.2f} ± {self.std:.2f} published."
        )
        if self.cells == 1:
            return f"{said} No other setting was trained to the end."
        verdict = "stays more than one standard deviation below it"
        if self.reached:
            verdict = "reaches it"
        elif self.near:
            verdict = "comes within one standard deviation of it"
        scope = "" if self.scope is None else " with α = {:g}, γ = {:g}".format(*self.scope)
        return (
            f"{said} The best test cell of {self.cells}, {self.best:.2f} at depth {self.depth}"
            f"{scope}, {verdict}."
        )


def shortfalls(table: ScoreTable) -> list[Shortfall]:
    """The cells of a table that stay below the published by more than one standard deviation.

    Cells without a setting that was trained to the end are not judged.
    """
    found = []
    for (label, dataset), cell in table.cells.items():
        said, own, best = cell.published, cell.by_validation, cell.best_test
        if said is None or said.mean is None or said.std is None or own is None or best is None:
            continue
        if own.mean < said.mean - said.std and not math.isnan(best.mean):
            scope = (best.spec.alpha, best.spec.gamma) if best.spec.uses("gamma") else None
            numbers = (said.mean, said.std, own.mean, best.mean, len(cell.whole))
            found.append(Shortfall(label, dataset, *numbers, best.spec.depth, scope))
    return found
