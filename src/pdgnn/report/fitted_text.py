"""A fitted classifier as text for a terminal."""

from __future__ import annotations

import math

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from pdgnn.estimator.classifier import PDClassifier
from pdgnn.report.escape import one_line
from pdgnn.report.grid import Grid
from pdgnn.report.training import METRIC_NAMES

__all__ = ["fitted_text"]


def fitted_text(classifier: PDClassifier) -> RenderableType:
    """The leaderboard of a fitted classifier, and its score beside those without the graph."""
    found = classifier.estimate_
    metric = METRIC_NAMES.get(found.metric, found.metric)
    board = _table("tried, the best of each", f"validation {metric}", "seconds")
    rows = classifier.leaderboard_
    best = [row for i, row in enumerate(rows) if row["name"] not in [r["name"] for r in rows[:i]]]
    for row in best:
        board.add_row(one_line(row["name"]), _percent(row["val"]), f"{row['seconds']:.1f}")
    scores = _table("on nodes that took no part in choosing", metric, "95% interval")
    measured = {"this model": (found.score, found.low, found.high), **found.baselines}
    for name, (score, low, high) in measured.items():
        scores.add_row(name, _percent(score), f"{_percent(low)} to {_percent(high)}")
    more = len(rows) - len(best)
    return Group(
        Text(one_line(f"{classifier.table_.name}: {classifier.model_}"), style="bold"),
        Padding(board, (0, 0, 0, 2)),
        *(
            [Padding(Text(f"and {more} other settings of these", style="dim"), (0, 0, 0, 2))]
            if more > 0
            else []
        ),
        Text(),
        Padding(scores, (0, 0, 0, 2)),
        *(Padding(Text(line), (0, 0, 0, 2)) for line in _remarks(classifier)),
    )


def _table(*heads: str) -> Grid:
    table = Grid()
    for i, head in enumerate(heads):
        table.add_column(head, justify="right" if i else "left", no_wrap=i > 0)
    return table


def _percent(score: float) -> str:
    return "none" if math.isnan(score) else f"{100 * score:.2f}"


def _remarks(classifier: PDClassifier) -> list[str]:
    found = classifier.estimate_
    return [one_line(line) for line in (found.how, found.sentence, *classifier.notes_)]
