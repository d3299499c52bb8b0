"""A fitted classifier on the terminal."""

from __future__ import annotations

import math
from types import SimpleNamespace

from rich.console import Console

from pdgnn.estimator.scores import Estimate
from pdgnn.report.fitted_text import fitted_text


def shown(rows: int, **changes) -> list[str]:
    found = {
        **{"score": 0.9, "low": 0.85, "high": 0.95, "n": 40, "metric": "roc_auc"},
        **{"how": "Measured on 40 nodes.", "helps": True, "sentence": "The graph helps."},
        "baselines": {"majority class": (0.5, 0.5, math.nan)},
    }
    classifier = SimpleNamespace(
        estimate_=Estimate(**found | changes),
        leaderboard_=[
            {"name": f"m\x1b{i % 2}", "val": 0.5 - i / 100, "seconds": i} for i in range(rows)
        ],
        table_=SimpleNamespace(name="a\nb.csv"),
        model_="pd-gcn",
        notes_=["The nodes have no features."],
    )
    console = Console(width=100, no_color=True, markup=False, highlight=False)
    with console.capture() as captured:
        console.print(fitted_text(classifier))
    return [line.rstrip() for line in captured.get().splitlines()]


def test_the_leaderboard_and_the_estimate():
    lines = shown(2)
    assert lines == [
        "a b.csv: pd-gcn",
        "  tried, the best of each  validation ROC AUC  seconds",
        "  m 0                                   50.00      0.0",
        "  m 1                                   49.00      1.0",
        "",
        "  on nodes that took no part in choosing  ROC AUC    95% interval",
        "  this model                                90.00  85.00 to 95.00",
        "  majority class                            50.00   50.00 to none",
        "  Measured on 40 nodes.",
        "  The graph helps.",
        "  The nodes have no features.",
    ]


def test_the_best_setting_of_each_name_is_shown():
    lines = shown(5)
    assert lines[:4] == shown(2)[:4]
    assert lines[4] == "  and 3 other settings of these"
