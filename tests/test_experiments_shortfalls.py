"""Cells below the paper: which they are, and what their best test cell says."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from pdgnn.experiments.outcome import Cell, Published, Row, ScoreTable, Tried
from pdgnn.experiments.shortfalls import shortfalls
from pdgnn.training import RunSpec


def tried(test: float, *, val: float, alpha: float = 1.0, whole: bool = True) -> Tried:
    spec = RunSpec(dataset="tolokers", model="pd-gat", depth=3, alpha=alpha, gamma=0.5)
    return Tried(spec, (0, 1), (val, val), (test - 0.5, test + 0.5), 1.0, whole)


def table(published: Published | None, *settings: Tried) -> ScoreTable:
    row = Row("PD-GAT", "pd-gat", tuned=True)
    cell = Cell(row, "tolokers", published, settings)
    cells = {(row.label, "tolokers"): cell}
    return ScoreTable("table2", "", (row,), ("tolokers",), {"tolokers": "roc_auc"}, cells)


PAPER = Published(84.0, 0.5)


@pytest.mark.parametrize(
    ("best", "words"),
    [
        (84.1, "reaches it."),
        (83.6, "comes within one standard deviation of it."),
        (83.2, "stays more than one standard deviation below it."),
    ],
)
def test_what_validation_chose_and_the_best_test_cell(best, words):
    settings = [tried(83.0, val=90.0), tried(best, val=80.0, alpha=0.25)]
    settings.append(tried(99.0, val=95.0, whole=False))
    [found] = shortfalls(table(PAPER, *settings))
    assert (found.chosen, found.best, found.cells) == pytest.approx((83.0, best, 2))
    assert found.sentence == (
        "PD-GAT on tolokers: 83.00 by validation against 84.00 ± 0.50 published. The best test "
        f"cell of 2, {best:.2f} at depth 3 with α = 0.25, γ = 0.5, {words}"
    )


def test_a_model_without_scope_and_a_cell_with_one_setting():
    alone = tried(83.0, val=90.0)
    [found] = shortfalls(table(PAPER, alone))
    assert found.sentence.endswith("published. No other setting was trained to the end.")
    plain = [replace(t, spec=replace(t.spec, model="gat")) for t in (alone, tried(83.1, val=80.0))]
    [found] = shortfalls(table(PAPER, *plain))
    assert "83.10 at depth 3, stays" in found.sentence


@pytest.mark.parametrize(
    "made",
    [
        table(PAPER),
        table(PAPER, tried(83.5, val=90.0)),
        table(PAPER, tried(83.0, val=90.0, whole=False)),
        table(PAPER, tried(math.nan, val=90.0)),
        table(None, tried(10.0, val=90.0)),
        table(Published(None, None, "OOM"), tried(10.0, val=90.0)),
    ],
)
def test_what_is_not_below_or_not_known_is_not_named(made):
    assert shortfalls(made) == []
