"""Figure 1 drawn for people: two panels, colours that all can tell apart, bands of one std."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pdgnn.experiments.figure1 import Curve, Figure1
from pdgnn.io.atomic import replacing
from pdgnn.report.plots import INK, need_matplotlib, write_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["draw_figure1", "figure1_figure"]

# Okabe and Ito's colours; best and worst γ of a model share one and differ in their dashes.
STYLES: dict[str, dict[str, Any]] = {
    "MLP": {"color": "#999999", "marker": "s"},
    "GCN": {"color": "#0072B2", "marker": "o"},
    "GAT": {"color": "#009E73", "marker": "^"},
    "PD-GCN": {"color": "#D55E00", "marker": "o"},
    "PD-GAT": {"color": "#CC79A7", "marker": "^"},
}


def draw_figure1(figure: Figure1, folder: Path) -> list[Path]:
    """Write ``figure1.svg`` and ``figure1.png`` into `folder`."""
    drawn = figure1_figure(figure)
    paths = [folder / "figure1.svg", folder / "figure1.png"]
    for path in paths:
        with replacing(path) as partial:
            write_figure(drawn, partial, path.suffix.lstrip("."))
    return paths


def figure1_figure(figure: Figure1) -> Figure:
    """Both panels side by side."""
    need_matplotlib()
    from matplotlib.figure import Figure as Canvas

    canvas = Canvas(figsize=(12.5, 5.4), layout="constrained")
    left, right = canvas.subplots(1, 2)
    _by_homophily(left, figure.by_homophily)
    _by_gamma(right, figure)
    plan = figure.plan
    canvas.suptitle(
        f"Synthetic graphs of {plan.num_nodes:,} nodes; mean of {plan.graphs} graphs, "
        "bands of one standard deviation",
        fontsize=11,
        color=INK,
    )
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(axis="y", color="#E5E5E5", linewidth=0.8)
        axes.set_axisbelow(True)
        axes.set_ylabel("test accuracy, %")
        axes.tick_params(labelsize=9, colors=INK)
    return canvas


def _by_homophily(axes: Axes, curves: list[Curve]) -> None:
    for c in curves:
        model, _, which = c.name.partition(",")
        worst = which.strip().startswith("worst")
        style = STYLES[model] | ({"linestyle": (0, (3, 2)), "alpha": 0.75} if worst else {})
        axes.plot(c.x, c.mean, label=c.name, markersize=5, linewidth=1.8, **style)
        _band(axes, c, style["color"])
    axes.set_xlabel("homophily μ")
    axes.set_title("(a) two layers, by homophily", fontsize=11, color=INK, loc="left")
    axes.legend(fontsize=8.5, frameon=False)


def _by_gamma(axes: Axes, figure: Figure1) -> None:
    import matplotlib

    shades = matplotlib.colormaps["viridis"](np.linspace(0.0, 0.88, len(figure.by_gamma)))
    for c, shade in zip(figure.by_gamma, shades, strict=True):
        axes.plot(c.x, c.mean, color=shade, linewidth=1.6)
        _band(axes, c, shade)
        best = figure.best_gamma[float(c.name)]
        axes.plot([best], [c.mean[c.x.index(best)]], "o", color=shade, markersize=8, zorder=3)
        axes.annotate(
            f"μ = {float(c.name):g}",
            (c.x[-1], c.mean[-1]),
            xytext=(5, 0),
            textcoords="offset points",
            fontsize=8,
            color=shade,
            va="center",
        )
    axes.margins(x=0.02)
    axes.set_xlim(right=1.12)
    axes.set_xlabel("γ of P^(1,γ); the dot is what validation chooses")
    axes.set_title("(b) PD-GCN of one layer, by γ", fontsize=11, color=INK, loc="left")


def _band(axes: Axes, c: Curve, colour: Any) -> None:
    mean, std = np.array(c.mean), np.array(c.std)
    if np.isfinite(std).all():
        axes.fill_between(c.x, mean - std, mean + std, color=colour, alpha=0.12, linewidth=0)
