"""The lines of a table of scores as words, the same for a terminal, Markdown, LaTeX and a page."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pdgnn.experiments.outcome import Cell, Published, Row, ScoreTable, Tried, signed
from pdgnn.experiments.significance import LEVEL, Comparison, compare_with_published
from pdgnn.report.escape import one_line

__all__ = [
    "MARKS",
    "PROTOCOL",
    "TEST_USED",
    "Comparisons",
    "Line",
    "block_lines",
    "compared",
    "dataset_lines",
    "mean_and_std",
    "notes",
    "plain_value",
    "published_text",
    "scope_of",
    "shortfalls",
    "trained_datasets",
]

TEST_USED = (
    "Welch's t test against the published mean and std, as the published scores of single splits "
    "are not known; p values adjusted by Holm's method over the table"
)
"""Which test the marks of a table are from."""
MARKS = {"tf32": "ᵗ", "bfloat16": "ᵇ", "float64": "ᵈ"}
"""How a precision other than float32 is marked."""
PROTOCOL = "mean ± std over the splits of the test score at the best validation step, in percent"


Comparisons = Mapping[tuple[str, str], Comparison]
"""Cells beside the published ones, by row label and dataset."""


@dataclass(frozen=True)
class Line:
    """A row on one dataset; empty texts where there is nothing to show."""

    row: Row
    cell: Cell | None
    label: str  # as the table calls it, on one line
    published: str
    chosen: str  # mean ± std of the setting with the highest mean validation score
    scope: tuple[str, str, str]  # its α, γ and depth
    best: str  # mean ± std of the setting with the highest mean test score
    best_scope: tuple[str, str, str]
    best_of: str  # the number of settings that it is the best of
    difference: str  # chosen less published, marked where significant
    tested: bool  # whether it was compared with the published
    significant: bool
    missing: str  # how many runs
    precisions: frozenset[str]  # of the two settings shown


def compared(table: ScoreTable) -> Comparisons:
    """Each cell beside the published one; see `pdgnn.experiments.significance`."""
    return compare_with_published(table)


def trained_datasets(table: ScoreTable) -> list[str]:
    """The datasets on which a row of the table has a finished run."""
    return [
        d
        for d in table.datasets
        if any(
            (cell := table.cells.get((row.label, d))) is not None and (cell.tried or cell.runs_done)
            for row in table.rows
        )
    ]


def dataset_lines(table: ScoreTable, dataset: str, comparisons: Comparisons) -> list[Line]:
    """The table's rows on one dataset, also those without a score."""
    return [
        _line(row, table.cells.get((row.label, dataset)), comparisons.get((row.label, dataset)))
        for row in table.rows
    ]


def block_lines(table: ScoreTable, dataset: str, comparisons: Comparisons) -> list[Line]:
    """The lines to show of a dataset: on one that the paper does not have, those with runs."""
    lines = dataset_lines(table, dataset, comparisons)
    if any(line.published for line in lines):
        return lines
    return [line for line in lines if line.cell and (line.cell.tried or line.cell.runs_done)]


def _line(row: Row, cell: Cell | None, comparison: Comparison | None) -> Line:
    chosen = cell.by_validation if cell else None
    best = cell.best_test if cell else None
    return Line(
        row=row,
        cell=cell,
        label=one_line(row.label),
        published=published_text(cell.published if cell else None),
        chosen=mean_and_std(chosen),
        scope=scope_of(chosen),
        best=mean_and_std(best),
        best_scope=scope_of(best),
        best_of=f"{len(cell.whole)}" if cell and best else "",
        difference=_difference(chosen, cell, comparison),
        tested=comparison is not None and not math.isnan(comparison.p),
        significant=comparison is not None and comparison.significant,
        missing=_missing(cell),
        precisions=frozenset(t.spec.precision for t in (chosen, best) if t),
    )


def published_text(value: Published | None) -> str:
    """As it stands in the paper.

    >>> published_text(Published(94.03, 0.45)), published_text(Published(None, None, "OOM"))
    ('94.03 ± 0.45', 'OOM')
    """
    if value is None:
        return ""
    if value.mean is None:
        return one_line(value.said)
    return f"{value.mean:.2f}" + ("" if value.std is None else f" ± {value.std:.2f}")


def mean_and_std(tried: Tried | None) -> str:
    """The test score of a setting, with a mark where it was not trained in float32."""
    if tried is None or not math.isfinite(tried.mean):
        return ""
    spread = f" ± {tried.std:.2f}" if math.isfinite(tried.std) else ""
    return f"{tried.mean:.2f}{spread}{MARKS.get(tried.spec.precision, '')}"


def scope_of(tried: Tried | None) -> tuple[str, str, str]:
    """α, γ and the depth of a setting; a dash for α and γ of a row that has none."""
    if tried is None:
        return "", "", ""
    spec = tried.spec
    alpha, gamma = (f"{a:g}" if tried.scopes else "–" for a in (spec.alpha, spec.gamma))
    return alpha, gamma, f"{spec.depth}"


def _difference(chosen: Tried | None, cell: Cell | None, comparison: Comparison | None) -> str:
    published = cell.published if cell else None
    if chosen is None or published is None or published.mean is None:
        return ""
    own = chosen.mean - published.mean if comparison is None else comparison.difference
    star = "*" if comparison is not None and comparison.significant else ""
    return f"{signed(own)}{star}" if math.isfinite(own) else ""


def _missing(cell: Cell | None) -> str:
    """How many of the wanted runs are not there, where some are."""
    if cell is None or not cell.runs_done or cell.runs_done >= cell.runs_wanted:
        return ""
    return f"{cell.runs_wanted - cell.runs_done}/{cell.runs_wanted}"


def notes(table: ScoreTable, lines: Iterable[Line]) -> list[str]:
    """What a reader must know beside the numbers: the protocol, the marks, what is absent."""
    shown = list(lines)
    said = [f"{PROTOCOL[0].upper()}{PROTOCOL[1:]}."]
    said.append(
        "By validation: the setting with the highest mean validation score. Best test: the "
        "highest mean test score of so many settings, which nothing but the test scores chose."
    )
    if any(line.significant for line in shown):
        said.append(f"* differs from the published score, p < {LEVEL}: {TEST_USED}.")
    elif any(line.tested for line in shown):
        said.append(f"No difference from a published score has a p < {LEVEL}: {TEST_USED}.")
    used = {name for line in shown for name in line.precisions}
    said += [f"{mark} trained in {name}." for name, mark in MARKS.items() if name in used]
    rows = {line.row.label for line in shown}
    if absent := [one_line(label) for label in table.absent if label in rows]:
        said.append(f"Not there yet, published scores only: {', '.join(absent)}.")
    if any(line.missing for line in shown):
        said.append("Missing: runs of those wanted that are not finished.")
    lost = [
        f"{line.label} on {one_line(line.cell.dataset)}"
        for line in shown
        if line.cell and line.cell.whole and not line.cell.by_validation
    ]
    if lost:
        said.append(f"No setting without a run that diverged: {', '.join(lost)}.")
    if parts := _parts_of_grids(shown):
        said.append(f"A part of the grid was tried: {', '.join(parts)}.")
    return said


def _parts_of_grids(lines: Iterable[Line]) -> list[str]:
    """Each model with how many settings of how many it had, and the datasets with as many."""
    found: dict[str, dict[str, list[str]]] = {}
    for line in lines:
        if line.cell and 0 < (tried := len(line.cell.tried)) < line.cell.grid:
            counts = found.setdefault(line.label, {})
            counts.setdefault(f"{tried} of {line.cell.grid}", []).append(line.cell.dataset)
    return [
        f"{label} {count} ({one_line(', '.join(datasets))})"
        for label, counts in found.items()
        for count, datasets in counts.items()
    ]


def shortfalls(table: ScoreTable, comparisons: Comparisons) -> list[str]:
    """The cells that stay below the paper, each with whether the best test cell reaches it.

    Below is what differs significantly, or by more than the published std.
    """
    said = []
    for dataset in table.datasets:
        for line in dataset_lines(table, dataset, comparisons):
            published = line.cell.published if line.cell else None
            chosen = line.cell.by_validation if line.cell else None
            best = line.cell.best_test if line.cell else None
            if not (published and published.mean is not None and chosen and best):
                continue
            off = chosen.mean - published.mean
            if off < 0 and (line.significant or off < -(published.std or 0.0)):
                if line.best_of == "1":
                    rest = "No other setting was trained to the end"
                else:
                    reaches = best.mean >= published.mean
                    rest = f"The best test cell of {line.best_of} " + (
                        "reaches it" if reaches else "does not reach it either"
                    )
                    rest += f" ({best.mean:.2f})"
                said.append(
                    f"{line.label} on {one_line(dataset)}: {chosen.mean:.2f} by validation, "
                    f"{published.mean:.2f} published. {rest}."
                )
    return said


def plain_value(value: float | str | None) -> str:
    """A value of a table of facts; at most three decimals.

    >>> plain_value(0.8300001), plain_value(22662.0), plain_value("0.1, 0.6"), plain_value(None)
    ('0.83', '22,662', '0.1, 0.6', '')
    """
    if value is None:
        return ""
    if isinstance(value, str):
        return one_line(value)
    if not math.isfinite(value):
        return "–"
    text = f"{value:,.3f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text.replace("-", "−")
