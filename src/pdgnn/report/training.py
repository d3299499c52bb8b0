"""Trained runs as text for a terminal."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from pdgnn.nn.models import MODELS
from pdgnn.report.escape import one_line
from pdgnn.training.spec import RunSpec
from pdgnn.training.summary import Summary, chosen

__all__ = ["COLUMNS", "METRICS", "cells", "remarks", "setting", "training_text"]

METRICS = {"roc_auc": "ROC AUC", "accuracy": "accuracy"}
COLUMNS = ("model", "α", "γ", "depth", "runs", "test", "validation", "best step", "seconds")
MANY_DIVERGED = 10


def training_text(name: str, metric: str, rows: Sequence[Summary]) -> RenderableType:
    """A table with a line for each setting, the one that validation chooses, and what diverged."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for column in COLUMNS:
        table.add_column(column, justify="left" if column == "model" else "right", no_wrap=True)
    for row in rows:
        table.add_row(*cells(row))
    about = f"{METRICS[metric]} in percent; test at each run's best validation step"
    return Group(
        Text(one_line(name), style="bold"),
        Padding(Text(about, style="dim"), (0, 0, 0, 2)),
        Padding(table, (0, 0, 0, 2)),
        *(Padding(Text(text), (0, 0, 0, 2)) for text in remarks(rows)),
    )


def remarks(rows: Sequence[Summary]) -> list[str]:
    """What validation chooses, and what diverged."""
    return [*_choice(rows), *_diverged(rows)]


def setting(row: Summary) -> str:
    """A setting in a few words.

    >>> setting(Summary(RunSpec(dataset="cora", model="pd-gat", gamma=0.4), []))
    'PD-GAT, α = 1, γ = 0.4, depth 2'
    """
    scope = f", α = {row.spec.alpha:g}, γ = {row.spec.gamma:g}" if row.scoped else ""
    return f"{_model(row.spec)}{scope}, depth {row.spec.depth}"


def _model(spec: RunSpec) -> str:
    name = MODELS[spec.model].name
    far = ", far" if spec.reach == "far" else ""
    return f"{name} (rewired{far})" if spec.rewired else name


def cells(row: Summary) -> list[str]:
    """A line of the table, in the order of :data:`COLUMNS`."""
    scope = [f"{v:g}" if row.scoped else "-" for v in (row.spec.alpha, row.spec.gamma)]
    steps = [r.step for r in row.results]
    low, high = min(steps), max(steps)
    return [
        _model(row.spec),
        *scope,
        f"{row.spec.depth}",
        f"{len(row.results)}",
        _score(row),
        _percent(row.val_mean),
        f"{low}" if low == high else f"{low} to {high}",
        f"{row.seconds:.1f}",
    ]


def _percent(value: float) -> str:
    return "none" if math.isnan(value) else f"{100 * value:.2f}"


def _score(row: Summary) -> str:
    spread = "" if math.isnan(row.test_std) else f" ± {_percent(row.test_std)}"
    return f"{_percent(row.test_mean)}{spread}"


def _choice(rows: Sequence[Summary]) -> Iterator[str]:
    best = chosen(rows)
    if len(rows) < 2 or best is None:
        return
    yield f"By mean validation score: {setting(best)}, with a test score of {_score(best)}."
    able = [row for row in rows if not math.isnan(row.test_mean)]
    top = max(able, key=lambda row: row.test_mean)
    if top.test_mean > best.test_mean:
        yield f"The highest test score, which no validation chose: {setting(top)}, {_score(top)}."


def _diverged(rows: Sequence[Summary]) -> Iterator[str]:
    found = [(row, r) for row in rows for r in row.diverged]
    for row, r in found[:MANY_DIVERGED]:
        run = f"{setting(row)}, split {r.spec.split}, seed {r.spec.seed}"
        kept = "it has no score" if not r.step else f"its best step before is {r.step}"
        yield f"Diverged at step {r.diverged_at}: {run}; {kept}."
    if len(found) > MANY_DIVERGED:
        yield f"Diverged: {len(found) - MANY_DIVERGED} more runs."
    if found:
        yield "A smaller --lr may help."
