"""Trained runs as text for a terminal."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from pdgnn.models import MODELS
from pdgnn.report.escape import one_line
from pdgnn.report.grid import Grid
from pdgnn.training.spec import RunSpec
from pdgnn.training.summary import Summary, chosen

__all__ = [
    "METRIC_NAMES",
    "cells",
    "columns",
    "differing",
    "model_name",
    "remarks",
    "setting",
    "training_text",
    "value",
]

METRIC_NAMES = {
    "roc_auc": "ROC AUC",
    "accuracy": "accuracy",
    "balanced_accuracy": "balanced accuracy",
    "macro_f1": "macro F1",
    "average_precision": "average precision",
}
FIELDS = {
    **{"alpha": "α", "gamma": "γ", "depth": "depth", "width": "width", "heads": "heads"},
    **{"lr": "lr", "weight_decay": "weight decay", "dropout": "dropout", "steps": "steps"},
    **{"patience": "patience", "precision": "precision"},
}
"""The fields of a run that a table may show, and what it calls them."""
SYMBOLS = ("α", "γ")
MANY_DIVERGED = 10


def differing(specs: Iterable[RunSpec]) -> list[str]:
    """The settings that are not the same in all runs: names of :data:`FIELDS` and of options.

    >>> one = RunSpec(dataset="cora", model="pd-gat")
    >>> differing([one, RunSpec(dataset="cora", model="gcn", depth=3)])
    ['depth']
    """
    runs = list(specs)
    options = dict.fromkeys(name for spec in runs for name in spec.options)
    found = [name for name in FIELDS if len({value(s, name) for s in runs} - {"-"}) > 1]
    return found + [n for n in options if len({value(s, n) for s in runs} - {"-"}) > 1]


def value(spec: RunSpec, name: str) -> str:
    """A field or an option as a table shows it; "-" where it does not matter to the model."""
    if name not in FIELDS:
        given = spec.options.get(name, "-")
        return f"{given:g}" if isinstance(given, float) else one_line(given)
    if name in ("alpha", "gamma", "heads") and not spec.uses(name):
        return "-"
    given = getattr(spec, name)
    return f"{given:g}" if isinstance(given, float) else str(given)


def model_name(spec: RunSpec) -> str:
    """The model as tables call it, and whether its graph is rewired."""
    model = MODELS.get(spec.model)
    name = one_line(spec.model if model is None or model.name is None else model.name)
    far = ", far" if spec.reach == "far" else ""
    return f"{name} (rewired{far})" if spec.rewired else name


def setting(spec: RunSpec, names: Iterable[str] = ()) -> str:
    """A setting in a few words: the model, and these fields and options.

    >>> run = RunSpec(dataset="cora", model="pd-gat", gamma=0.4)
    >>> setting(run, ["alpha", "gamma", "depth"])
    'PD-GAT, α = 1, γ = 0.4, depth 2'
    """
    said = [model_name(spec)]
    for name in names:
        shown, label = value(spec, name), FIELDS.get(name, name)
        if shown != "-":
            said.append(f"{label} = {shown}" if label in SYMBOLS else f"{label} {shown}")
    return ", ".join(said)


def columns(rows: Sequence[Summary]) -> list[str]:
    """The heads of a table of these settings: what differs between them, and what came of it."""
    names = differing(row.spec for row in rows)
    results = ("runs", "test", "validation", "best step", "seconds")
    return ["model", *(FIELDS.get(name, name) for name in names), *results]


def cells(row: Summary, names: Sequence[str]) -> list[str]:
    """A line of the table; `names` are the settings that :func:`differing` found."""
    steps = [r.step for r in row.results]
    low, high = min(steps), max(steps)
    return [
        model_name(row.spec),
        *(value(row.spec, name) for name in names),
        f"{len(row.results)}",
        _score(row),
        _percent(row.val_mean),
        f"{low}" if low == high else f"{low} to {high}",
        f"{row.seconds:.1f}",
    ]


def training_text(name: str, metric: str, rows: Sequence[Summary]) -> RenderableType:
    """A table with a line for each setting, the one that validation chooses, and what diverged."""
    table = Grid()
    for column in columns(rows):
        table.add_column(column, justify="left" if column == "model" else "right", no_wrap=True)
    names = differing(row.spec for row in rows)
    for row in rows:
        table.add_row(*cells(row, names))
    about = f"{METRIC_NAMES[metric]} in percent; test at each run's best validation step"
    return Group(
        Text(one_line(name), style="bold"),
        Padding(Text(about, style="dim"), (0, 0, 0, 2)),
        Padding(table, (0, 0, 0, 2)),
        *(Padding(Text(text), (0, 0, 0, 2)) for text in remarks(rows)),
    )


def remarks(rows: Sequence[Summary]) -> list[str]:
    """What validation chooses, and what diverged."""
    names = differing(row.spec for row in rows)
    return [*_choice(rows, names), *_diverged(rows, names)]


def _percent(number: float) -> str:
    return "none" if math.isnan(number) else f"{100 * number:.2f}"


def _score(row: Summary) -> str:
    spread = "" if math.isnan(row.test_std) else f" ± {_percent(row.test_std)}"
    return f"{_percent(row.test_mean)}{spread}"


def _choice(rows: Sequence[Summary], names: Sequence[str]) -> Iterator[str]:
    best = chosen(rows)
    if len(rows) < 2 or best is None:
        return
    words = setting(best.spec, names)
    yield f"By mean validation score: {words}, with a test score of {_score(best)}."
    able = [row for row in rows if not math.isnan(row.test_mean)]
    top = max(able, key=lambda row: row.test_mean, default=best)
    if top.test_mean > best.test_mean:
        words = setting(top.spec, names)
        yield f"The highest test score, which no validation chose: {words}, {_score(top)}."


def _diverged(rows: Sequence[Summary], names: Sequence[str]) -> Iterator[str]:
    found = [(row, r) for row in rows for r in row.diverged]
    for row, r in found[:MANY_DIVERGED]:
        run = f"{setting(row.spec, names)}, split {r.spec.split}, seed {r.spec.seed}"
        kept = "it has no score" if not r.step else f"its best step before is {r.step}"
        yield f"Diverged at step {r.diverged_at}: {run}; {kept}."
    if len(found) > MANY_DIVERGED:
        yield f"Diverged: {len(found) - MANY_DIVERGED} more runs."
    if found:
        yield "A smaller --lr may help."
