"""The model card: what a model is, how good, and what it was made from, in Markdown."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from pdgnn import __version__

if TYPE_CHECKING:
    from pdgnn.estimator.classifier import PDClassifier

__all__ = ["model_card"]

ROWS = 12


def model_card(clf: PDClassifier) -> str:
    """The text of ``README.md`` in the folder of a model."""
    e = clf.estimate_
    counts = np.bincount(clf.y_[clf.y_ >= 0], minlength=len(clf.classes_))
    classes = "\n".join(
        f"| {_cell(c)} | {n:,} |" for c, n in zip(clf.classes_.tolist(), counts, strict=True)
    )
    baselines = "\n".join(f"| {name} | {_percent(*three)} |" for name, three in e.baselines.items())
    board = "\n".join(
        f"| {_cell(row['name'])} | {100 * row['val']:.2f} | {row['seconds']:.1f} |"
        for row in clf.leaderboard_[:ROWS]
    )
    notes = "".join(f"- {_cell(note)}\n" for note in clf.notes_) or "- none\n"
    return f"""# Node classifier ({_cell(clf.label_name_)})

Made by pdgnn {__version__}. It predicts the class of a node from its features and its place in the
graph. Load it with `pdgnn.PDClassifier.load("folder")`, or call `pdgnn predict folder -o out.csv`.

## How good

{e.how} {e.sentence}

| system | {e.metric}, with a 95 % interval |
|---|---|
| **this model** | **{_percent(e.score, e.low, e.high)}** |
{baselines}

## What it is

{_cell(clf.leaderboard_[0]["name"])}; α = {clf.alpha_:g}, γ = {clf.gamma_:g}, depth {clf.depth_},
{"on the rewired graph" if clf.rewired_ else "on the graph as it is"}.

| tried | validation | seconds |
|---|---|---|
{board}

## What it was made from

{len(clf.y_):,} nodes, of which {counts.sum():,} are labelled, with {clf.n_features_in_:,} features.

| class | labelled nodes |
|---|---|
{classes}

## Remarks

{notes}
## Limits

Scores hold for nodes like those it was made from. On another graph its accuracy is unknown until
some of its nodes are labelled. Probabilities are not calibrated beyond what training gives.
"""


def _percent(score: float, low: float, high: float) -> str:
    if math.isnan(score):
        return "not known"
    if math.isnan(low):
        return f"{100 * score:.2f}"
    return f"{100 * score:.2f} ({100 * low:.2f} to {100 * high:.2f})"


def _cell(value: object) -> str:
    """Text in one line that Markdown does not take for markup."""
    plain = " ".join(str(value).split())
    for mark in "\\`*_[]<>|#":
        plain = plain.replace(mark, f"\\{mark}")
    return plain
