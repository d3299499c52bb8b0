"""The tables of the page of a store: ours beside the published, as HTML and as text to copy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from pdgnn.experiments.outcome import FactTable, ScoreTable
from pdgnn.report.fitted_charts import text
from pdgnn.report.lines import (
    Comparisons,
    Line,
    block_lines,
    notes,
    plain_value,
    shortfalls,
    trained_datasets,
)
from pdgnn.report.paper_facts import Paper
from pdgnn.report.tables import metric_name, table_latex, table_markdown, unfinished

__all__ = ["copies", "fact_tables", "score_tables"]

Scale = tuple[float, float]
MANY_FACTS = 20
NAMES = {"alpha": "α", "gamma": "γ", "label_informativeness": "label informativeness"}


def score_tables(paper: Paper) -> str:
    """Every table with runs, a block for each dataset."""
    if not paper.tables:
        return (
            "<p>None of these runs belongs to a table of the paper: they are of other models or "
            "graphs, or not of its protocol.</p>"
        )
    return _legend() + "".join(
        _score_table(table, paper.comparisons.get(name, {})) for name, table in paper.tables.items()
    )


def _legend() -> str:
    return (
        '<p class="quiet keys"><span><i class="key bar"></i>published, mean ± std</span>'
        '<span><i class="key dot"></i>chosen by validation</span>'
        '<span><i class="key ring"></i>best test cell</span></p>'
    )


def _score_table(table: ScoreTable, comparisons: Comparisons) -> str:
    blocks, shown = [], list[Line]()
    for dataset in trained_datasets(table):
        lines = block_lines(table, dataset, comparisons)
        shown += lines
        own = sum(bool(line.chosen) for line in lines)
        about = f"{metric_name(table, dataset)}; {own} of {len(lines)} rows"
        blocks.append(f"<details open>{_summary(dataset, about)}{_block(lines)}</details>")
    words = [*unfinished(table), *notes(table, shown)]
    said = "".join(f"<li>{text(w)}</li>" for w in words)
    if below := shortfalls(table, comparisons):
        listed = "".join(f"<li>{text(s)}</li>" for s in below)
        head = _summary("Below the paper", f"{len(below)} cell{'s' if len(below) > 1 else ''}")
        blocks.append(f"<details>{head}<ul>{listed}</ul></details>")
    return f'<h3>{text(table.title)}</h3>{"".join(blocks)}<ul class="quiet notes">{said}</ul>'


def _summary(name: str, about: str) -> str:
    """What stands where a part of a table folds."""
    return (
        f"<summary><span><b>{text(name)}</b> "
        f'<span class="quiet">{text(about)}</span></span></summary>'
    )


def _block(lines: Sequence[Line]) -> str:
    scale = _scale(lines)
    missing = any(line.missing for line in lines)
    beside = any(line.published for line in lines)
    heads = "<th scope=col>model</th>"
    heads += "<th scope=col>published</th>" if beside else ""
    heads += '<th scope=col class="own">by validation</th>'
    heads += "<th scope=col>difference</th>" if beside else ""
    heads += (
        "<th scope=col>α</th><th scope=col>γ</th><th scope=col>depth</th>"
        "<th scope=col>best test</th><th scope=col>of</th>"
    )
    heads += "<th scope=col>runs missing</th>" if missing else ""
    ends = f"<span>{scale[0]:g}</span><span>{scale[1]:g}</span>"
    heads += f'<th scope=col class="track"><div class="ends">{ends}</div></th>'
    body = "".join(_row(line, scale, missing=missing, beside=beside) for line in lines)
    return (
        '<div class="wide" tabindex="0"><table class="scores"><thead><tr>'
        f"{heads}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _row(line: Line, scale: Scale, *, missing: bool, beside: bool) -> str:
    kind = ' class="absent"' if line.row.absent else ""
    label = f'<th scope="row"><span>{text(line.label)}</span></th>'
    if line.row.absent and not line.published:
        rest = f'<td colspan="{9 + missing}" class="words">no such model yet</td>'
        return f"<tr{kind}>{label}{rest}</tr>"
    up = line.difference.startswith("+")
    mark = f' class="{"up" if up else "down"}"' if line.significant else ""
    tuned = (
        f'title="α = {line.best_scope[0]}, γ = {line.best_scope[1]}, depth {line.best_scope[2]}"'
    )
    published = f"<td>{_spread(line.published)}</td>"
    difference = f"<td{mark}>{text(line.difference)}</td>"
    cells = [
        published if beside else "",
        f'<td class="own"><b>{_spread(line.chosen)}</b></td>',
        difference if beside else "",
        *(f"<td>{text(value)}</td>" for value in line.scope),
        f"<td {tuned if line.best else ''}>{_spread(line.best)}</td>",
        f'<td class="quiet">{_best_of(line)}</td>',
    ]
    if missing:
        cells.append(f'<td class="quiet">{text(line.missing)}</td>')
    return f"<tr{kind}>{label}{''.join(cells)}{_track(line, scale)}</tr>"


def _spread(score: str) -> str:
    """A mean, and its std in a span of its own, which a phone shows below it."""
    mean, sign, std = text(score).partition(" ± ")
    return f"{mean}<span>{sign}{std}</span>" if sign else mean


def _best_of(line: Line) -> str:
    """How many settings it is the best of, and how many the grid has."""
    if not line.best_of or line.cell is None:
        return ""
    grid = f" of a grid of {line.cell.settings:,}" if line.cell.settings else ""
    return f'<span title="trained to the end:{grid}">{int(line.best_of):,}</span>'


def _interval(line: Line) -> tuple[float, float, float] | None:
    """Published mean, and one std to both sides."""
    published = line.cell.published if line.cell else None
    if published is None or published.mean is None:
        return None
    spread = published.std or 0.0
    return published.mean - spread, published.mean, published.mean + spread


def _own(line: Line) -> list[float]:
    both = (line.cell.by_validation, line.cell.best_test) if line.cell else ()
    return [t.mean for t in both if t is not None and math.isfinite(t.mean)]


def _scale(lines: Sequence[Line]) -> Scale:
    """Whole numbers around all that the tracks show."""
    ends = [v for line in lines for v in (*(_interval(line) or ()), *_own(line))]
    if not ends:
        return 0.0, 100.0
    low, high = math.floor(min(ends)), math.ceil(max(ends))
    return float(low), float(max(high, low + 1))


def _track(line: Line, scale: Scale) -> str:
    low, high = scale

    def at(value: float) -> float:
        return 100 * (value - low) / (high - low)

    parts = ""
    if (interval := _interval(line)) is not None:
        least, mean, most = interval
        parts += (
            f'<i class="bar" style="left:{at(least):.1f}%;width:{at(most) - at(least):.1f}%"></i>'
        )
        parts += f'<i class="tick" style="left:{at(mean):.1f}%"></i>'
    for kind, value in zip(("dot", "ring"), _own(line), strict=False):
        parts += f'<i class="{kind}" style="left:{at(value):.1f}%"></i>'
    return f'<td class="track"><div aria-hidden="true">{parts}</div></td>'


def fact_tables(paper: Paper) -> str:
    """The tables without training, published values in quiet under the own ones."""
    return "".join(_facts(table) for table in paper.facts)


def _facts(table: FactTable) -> str:
    heads = "".join(f"<th scope=col>{text(NAMES.get(c, c))}</th>" for c in table.columns)
    rows, shown = [], table.rows
    if len(shown) > MANY_FACTS:
        shown = tuple(row for row in shown if any(v is not None for v in row.own))
    rest = len(table.rows) - len(shown)
    left = f" {rest} published rows without own values are left out." if rest else ""
    for row in shown:
        cells = "".join(
            f"<td>{_fact(own)}<small>{_fact(said)}</small></td>"
            for own, said in zip(row.own, row.published, strict=True)
        )
        rows.append(f'<tr><th scope="row"><span>{text(row.label)}</span></th>{cells}</tr>')
    return (
        f"<details><summary>{text(table.title)}</summary><p class=quiet>Here, and below it in "
        f'small what was published.{left}</p><div class="wide" tabindex="0"><table class="facts">'
        f"<thead><tr><th scope=col></th>{heads}</tr></thead><tbody>{''.join(rows)}</tbody></table>"
        "</div></details>"
    )


def _fact(value: float | str | None) -> str:
    return text(plain_value(value)) or "–"


def copies(paper: Paper) -> str:
    """Each table as Markdown and as LaTeX, with a button that copies it."""
    parts = []
    for name, table in paper.tables.items():
        with_published = paper.comparisons.get(name, {})
        forms = {
            "Markdown": table_markdown(table, comparisons=with_published),
            "LaTeX": table_latex(table, comparisons=with_published),
        }
        for form, written in forms.items():
            parts.append(
                f"<details><summary>{text(table.title)}, as {form}</summary>"
                '<div class="copy"><button type="button" hidden>Copy</button>'
                f'<pre tabindex="0">{escape(written)}</pre></div></details>'
            )
    return "".join(parts)
