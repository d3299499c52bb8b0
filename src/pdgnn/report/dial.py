"""The scores of a training as a picture: along γ where it was varied, else one under another."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pdgnn.report.plots import COLOURS, INK, need_matplotlib, write_figure
from pdgnn.report.training import METRIC_NAMES, differing, setting
from pdgnn.training.summary import Summary, chosen

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["scores_figure", "scores_svg"]


def scores_svg(rows: Sequence[Summary], metric: str) -> str:
    """:func:`scores_figure` as an ``<svg>`` element, to stand in a page."""
    out = io.StringIO()
    write_figure(scores_figure(rows, metric), out, "svg")
    text = out.getvalue()
    return text[text.index("<svg") :]


def scores_figure(rows: Sequence[Summary], metric: str) -> Figure:
    """Mean test scores with bars of one standard deviation; a ring marks validation's choice."""
    need_matplotlib()
    from matplotlib.figure import Figure as Canvas

    lines = _lines(rows)
    varied = any(len(line) > 1 for line in lines.values())
    canvas = Canvas(figsize=(8.2, 4.6 if varied else 1.2 + 0.34 * len(rows)), layout="constrained")
    axes = canvas.subplots()
    if varied:
        _draw_dial(axes, rows, lines)
    else:
        _draw_list(axes, rows)
    label = f"test {METRIC_NAMES[metric]}, %"
    (axes.set_ylabel if varied else axes.set_xlabel)(label)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y" if varied else "x", color="#E5E5E5", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(labelsize=9, colors=INK)
    return canvas


def _lines(rows: Sequence[Summary]) -> dict[str, list[Summary]]:
    """The settings that differ in γ alone, in its order."""
    found: dict[str, list[Summary]] = {}
    names = [name for name in differing(row.spec for row in rows) if name != "gamma"]
    for row in rows:
        if row.uses("gamma"):
            found.setdefault(setting(row.spec, names), []).append(row)
    return {name: sorted(line, key=lambda r: r.spec.gamma) for name, line in found.items()}


def _draw_dial(axes: Axes, rows: Sequence[Summary], lines: dict[str, list[Summary]]) -> None:
    colours = iter(COLOURS * (1 + len(rows) // len(COLOURS)))
    for name, line in lines.items():
        colour = next(colours)
        x = [r.spec.gamma for r in line]
        mean, std = _numbers(line)
        axes.plot(x, mean, "o-", color=colour, label=name, markersize=5, linewidth=1.8)
        axes.fill_between(x, mean - std, mean + std, color=colour, alpha=0.12, linewidth=0)
        if (best := chosen(line)) is not None and len(line) > 1:
            at = (best.spec.gamma, 100 * best.test_mean)
            axes.plot(*at, "o", markersize=13, markerfacecolor="none", markeredgecolor=colour)
    names = differing(row.spec for row in rows)
    for row in (r for r in rows if not r.uses("gamma")):
        score, label = 100 * row.test_mean, setting(row.spec, names)
        axes.axhline(score, color=next(colours), linestyle="--", linewidth=1.5, label=label)
    axes.set_xlabel("γ of L^(α,γ); the ring is the γ that validation chooses")
    axes.legend(fontsize=8.5, frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0))


def _draw_list(axes: Axes, rows: Sequence[Summary]) -> None:
    mean, std = _numbers(rows)
    place = np.arange(len(rows))[::-1]
    axes.errorbar(mean, place, xerr=std, fmt="o", color=COLOURS[0], capsize=3)
    names = differing(row.spec for row in rows)
    axes.set_yticks(place, [setting(row.spec, names) for row in rows])
    if (best := chosen(rows)) is not None:
        at = rows.index(best)
        ring: dict[str, Any] = {"markerfacecolor": "none", "markeredgecolor": COLOURS[0]}
        axes.plot(mean[at], place[at], "o", markersize=13, **ring)


def _numbers(rows: Sequence[Summary]) -> tuple[Any, Any]:
    """Means and deviations in percent, ``[rows]``; no deviation counts as 0."""
    mean = 100 * np.array([row.test_mean for row in rows])
    return mean, 100 * np.nan_to_num(np.array([row.test_std for row in rows]))
