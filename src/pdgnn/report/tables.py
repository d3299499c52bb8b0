"""A table of the paper, published and own values: for a terminal, as Markdown and as LaTeX."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from pdgnn.experiments.outcome import FactTable, ScoreTable
from pdgnn.report.escape import one_line
from pdgnn.report.grid import Grid
from pdgnn.report.latex import table_latex
from pdgnn.report.lines import (
    Comparisons,
    Line,
    block_lines,
    compared,
    notes,
    plain_value,
    shortfalls,
    trained_datasets,
)
from pdgnn.report.training import METRIC_NAMES

__all__ = [
    "indented",
    "pipes",
    "plain",
    "plain_grid",
    "table_latex",
    "table_markdown",
    "table_text",
]

HEADS = ("model", "published", "by validation", "α", "γ", "depth", "best test", "of", "diff.")
MISSING = "missing"


def table_text(
    table: ScoreTable | FactTable, *, comparisons: Comparisons | None = None
) -> RenderableType:
    """A table for a terminal of 100 columns: a block for each dataset that has runs.

    `comparisons` are those of `compare_with_published`, which is called where they are not given.
    """
    title = Text(one_line(table.title), style="bold")
    if isinstance(table, FactTable):
        return Group(title, indented(_fact_grid(table)))
    with_published = compared(table) if comparisons is None else comparisons
    parts: list[RenderableType] = [title]
    shown: list[Line] = []
    for dataset in trained_datasets(table):
        lines = block_lines(table, dataset, with_published)
        shown += lines
        parts += [_block_head(table, dataset), indented(_score_grid(lines))]
    words = [*unfinished(table), *notes(table, shown), *shortfalls(table, with_published)]
    return Group(*parts, Text(), *(indented(Text(w, style="dim")) for w in words))


def unfinished(table: ScoreTable) -> list[str]:
    """The datasets without a run, named in a sentence; nothing where there are none."""
    trained = set(trained_datasets(table))
    rest = [one_line(d) for d in table.datasets if d not in trained]
    return [f"No runs yet: {', '.join(rest)}."] if rest else []


def _block_head(table: ScoreTable, dataset: str) -> Text:
    head = Text(f"\n{one_line(dataset)}", style="bold")
    return head.append(f"  {metric_name(table, dataset)}", style="not bold dim")


def metric_name(table: ScoreTable, dataset: str) -> str:
    """What the scores on a dataset are."""
    metric = table.metrics.get(dataset, "")
    return METRIC_NAMES.get(metric, one_line(metric))


def _cells(line: Line, *, missing: bool) -> list[str]:
    """What stands under :data:`HEADS`."""
    best_of = f"{int(line.best_of):,}" if line.best_of else ""
    found = [line.label, line.published, line.chosen, *line.scope]
    found += [line.best, best_of, line.difference]
    return [*found, line.missing] if missing else found


def _score_grid(lines: Sequence[Line]) -> Grid:
    missing = any(line.missing for line in lines)
    grid = plain_grid([*HEADS, *([MISSING] if missing else [])])
    for line in lines:
        style = "dim" if line.row.absent else "bold" if line.significant else ""
        cells = _cells(line, missing=missing)
        grid.add_row(*(Text(cell) for cell in cells[:-1]), Text(cells[-1], style=style))
    return grid


def _fact_grid(table: FactTable) -> Grid:
    """Two lines for each row: what was published, and what comes out here."""
    grid = plain_grid(["", "", *(one_line(c) for c in table.columns)])
    for label, source, values in _fact_lines(table):
        grid.add_row(Text(label), Text(source, style="dim"), *(Text(v) for v in values))
    return grid


def _fact_lines(table: FactTable) -> Iterable[tuple[str, str, list[str]]]:
    for row in table.rows:
        yield one_line(row.label), "published", [plain_value(v) for v in row.published]
        yield "", "here", [plain_value(v) for v in row.own]


def plain_grid(columns: Sequence[str]) -> Grid:
    """A table without lines; the first column is to the left, the others to the right."""
    grid = Grid(gap=1)
    for i, name in enumerate(columns):
        grid.add_column(
            Text(name), justify="right" if i else "left", no_wrap=bool(i), overflow="fold"
        )
    return grid


def indented(part: RenderableType) -> Padding:
    """Two columns to the right."""
    return Padding(part, (0, 0, 0, 2))


def table_markdown(table: ScoreTable | FactTable, *, comparisons: Comparisons | None = None) -> str:
    """The same as Markdown; whatever users wrote is escaped."""
    if isinstance(table, FactTable):
        rows = [(label, source, *values) for label, source, values in _fact_lines(table)]
        return f"### {plain(table.title)}\n\n{pipes(['', '', *table.columns], rows)}\n"
    with_published = compared(table) if comparisons is None else comparisons
    parts, shown = [f"### {plain(table.title)}"], list[Line]()
    for dataset in trained_datasets(table):
        lines = block_lines(table, dataset, with_published)
        shown += lines
        missing = any(line.missing for line in lines)
        heads = [*HEADS, *([MISSING] if missing else [])]
        parts.append(f"**{plain(dataset)}** ({plain(metric_name(table, dataset))})")
        parts.append(pipes(heads, (_cells(line, missing=missing) for line in lines)))
    words = [*unfinished(table), *notes(table, shown), *shortfalls(table, with_published)]
    parts += ["\n".join(f"- {plain(w)}" for w in words)]
    return "\n\n".join(parts) + "\n"


def pipes(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown; whatever users wrote is escaped."""
    rule = [":---", *["---:"] * (len(heads) - 1)]
    lines = [[plain(h) for h in heads], rule, *([plain(c) for c in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def plain(text: str) -> str:
    r"""Text that Markdown shows as it is, also inside a table.

    >>> plain("a|b <i> *c*_d_")
    'a\\|b &lt;i&gt; \\*c\\*\\_d\\_'
    """
    text = one_line(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return "".join(f"\\{c}" if c in "\\|*_`[]#~" else c for c in text)
