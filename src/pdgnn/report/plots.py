"""Pictures, drawn with Matplotlib's Figure alone: no window, no pyplot, no global state."""

from __future__ import annotations

import warnings
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pdgnn.errors import InputError
from pdgnn.inspection import Inspection
from pdgnn.output import whole_file
from pdgnn.sources import Source
from pdgnn.terminal import one_line

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["PLOT_SUFFIXES", "draw_embedding", "embedding_figure", "need_matplotlib"]

PLOT_SUFFIXES = (".png", ".svg", ".pdf")
# Okabe and Ito's colours, which the colour-blind tell apart too; grey is for all further classes.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442")
GREY, INK = "#999999", "#222222"
MOST_POINTS = 50_000
MOST_EDGES = 20_000
BINS = 25


def need_matplotlib() -> None:
    """An error that says what to install, unless Matplotlib is there."""
    try:
        import matplotlib  # noqa: F401
    except ImportError as e:
        raise InputError("pictures need Matplotlib: pip install 'pdgnn[plot]'") from e


def draw_embedding(source: Source, facts: Inspection, path: str | PathLike[str]) -> None:
    """Write :func:`embedding_figure` to a ``.png``, ``.svg`` or ``.pdf``, whole or not at all."""
    figure = embedding_figure(source, facts)
    kind = Path(path).suffix.lower().lstrip(".")
    undated: dict[str, dict[str, Any]] = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}
    with whole_file(path) as partial, warnings.catch_warnings():
        # a name in a script that the font lacks is drawn as boxes
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        figure.savefig(partial, format=kind, dpi=160, metadata=undated.get(kind))


def embedding_figure(source: Source, facts: Inspection) -> Figure:
    """The largest component, placed at (φ1, φ2) and sorted along φ1, coloured by class.

    `facts` is what :func:`~pdgnn.inspection.inspect_graph` found in `source`; its embedding has one
    column or more. Without labels the colour is φ1.
    """
    need_matplotlib()
    from matplotlib.figure import Figure

    if facts.embedding is None or facts.gradient_node is None:
        why = "it has no edges" if facts.edges == 0 else "no eigenvector was found"
        raise InputError(f"there is no embedding to draw: {why}")
    g, v = source.graph, facts.gradient_node
    nodes = np.flatnonzero(g.components == g.components[v.node])
    phi = _two_columns(facts.embedding)
    labels = source.labels if source.labels is not None and (source.labels >= 0).any() else None

    figure = Figure(figsize=(11, 5.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    figure.suptitle(_title(facts), color=INK, fontsize=13, parse_math=False)
    _draw_plane(left, source, nodes, phi, labels, v.node, one_line(v.id))
    if labels is None:
        _draw_line(right, phi[nodes, 0])
    else:
        _draw_classes(right, phi[nodes, 0], labels[nodes], labels)
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(labelsize=9, colors=INK)
    return figure


def _two_columns(embedding: NDArray[np.float64]) -> NDArray[np.float64]:
    """φ1 and φ2; a component of two nodes has no φ2, and lies on a line."""
    if embedding.shape[1] > 1:
        return np.nan_to_num(embedding[:, :2])
    return np.column_stack([embedding[:, 0], np.zeros(len(embedding))])


def _title(facts: Inspection) -> str:
    v = facts.gradient_node
    if v is None:
        return one_line(facts.name)
    first = next((s.eigenvalue for s in facts.spectrum if s.gamma == v.gamma), None)
    value = "" if first is None else f", λ1 = {first:.4g}"
    return f"{one_line(facts.name)}: α = {v.alpha:g}, γ = {v.gamma:g}{value}"


def _draw_plane(
    axes: Axes,
    source: Source,
    nodes: NDArray[np.int64],
    phi: NDArray[np.float64],
    labels: NDArray[np.int64] | None,
    v: int,
    name: str,
) -> None:
    """Nodes at (φ1, φ2), and the edges between them where there are few enough to see."""
    rng = np.random.default_rng(0)
    shown = rng.permutation(nodes)[:MOST_POINTS]  # mixed, so that no class hides the others
    for axis, values in zip("xy", phi[nodes].T, strict=True):
        _stretch(axes, axis, values)
    if source.graph.num_edges <= MOST_EDGES:
        _draw_edges(axes, source, nodes, phi)
    size = float(np.clip(9000 / len(shown), 3, 45))
    style: dict[str, Any] = {"s": size, "linewidths": 0, "rasterized": True, "zorder": 2}
    style["alpha"] = 0.9 if len(shown) <= 2000 else 0.6
    x, y = phi[shown].T
    if labels is None:
        axes.scatter(x, y, c=x, cmap="viridis", **style)
    else:
        axes.scatter(x, y, c=_colours_of(labels)[shown], **style)
    _mark(axes, phi[v], f"gradient node {name}")
    axes.set_title(_what_is_shown(source, nodes, shown), fontsize=10, color=INK)
    axes.set_xlabel("φ1")
    axes.set_ylabel("φ2")


def _what_is_shown(source: Source, nodes: NDArray[np.int64], shown: NDArray[np.int64]) -> str:
    g = source.graph
    text = f"{len(nodes):,} nodes by the first two eigenvectors"
    if g.num_components > 1:
        text = f"The largest of {g.num_components:,} components: {len(nodes):,} of {g.num_nodes:,} nodes"
    return text if len(shown) == len(nodes) else f"{text}, {len(shown):,} of them drawn"


def _stretch(axes: Axes, axis: str, values: NDArray[np.float64]) -> None:
    """Spread out the many values near 0 where a few lie far away."""
    far, usual = np.abs(values).max(), float(np.quantile(np.abs(values), 0.75))
    if usual > 0 and far / usual > 10:
        set_scale = axes.set_xscale if axis == "x" else axes.set_yscale
        set_scale("asinh", linear_width=usual / 2)


def _draw_edges(
    axes: Axes, source: Source, nodes: NDArray[np.int64], phi: NDArray[np.float64]
) -> None:
    from matplotlib.collections import LineCollection

    i, j = source.graph.edge_index.numpy()
    mine = (i < j) & np.isin(i, nodes)
    lines = np.stack([phi[i[mine]], phi[j[mine]]], axis=1)  # [E, 2, 2]
    alpha = float(np.clip(300 / max(len(lines), 1), 0.06, 0.5))
    axes.add_collection(
        LineCollection(lines, colors=INK, linewidths=0.5, alpha=alpha, rasterized=True, zorder=1)
    )


def _mark(axes: Axes, at: NDArray[np.float64], text: str) -> None:
    axes.plot(*at, marker="*", markersize=17, color="#FFFFFF", markeredgecolor=INK, zorder=4)
    axes.annotate(
        text,
        at,
        xytext=(-10, 12),
        textcoords="offset points",
        ha="right",
        fontsize=10,
        color=INK,
        parse_math=False,
        zorder=5,
    )


def _order(labels: NDArray[np.int64]) -> NDArray[np.int64]:
    """The classes, the largest first."""
    names, sizes = np.unique(labels[labels >= 0], return_counts=True)
    return names[np.argsort(-sizes, kind="stable")]


def _colours_of(labels: NDArray[np.int64]) -> NDArray[np.object_]:
    colours = np.full(labels.shape, GREY, dtype=object)
    for name, colour in zip(_order(labels), COLOURS, strict=False):
        colours[labels == name] = colour
    return colours


def _draw_line(axes: Axes, phi: NDArray[np.float64]) -> None:
    """φ1 in ascending order."""
    share = np.linspace(0, 100, phi.size)
    _stretch(axes, "y", phi)
    axes.plot(share, np.sort(phi), color=COLOURS[0], linewidth=2)
    axes.plot(100, phi.max(), marker="*", markersize=17, color="#FFFFFF", markeredgecolor=INK, clip_on=False)
    axes.set_title("φ1 from its lowest value to the gradient node", fontsize=10, color=INK)
    axes.set_xlabel("nodes in order of φ1 (%)")
    axes.set_ylabel("φ1")


def _draw_classes(
    axes: Axes, phi: NDArray[np.float64], mine: NDArray[np.int64], labels: NDArray[np.int64]
) -> None:
    """Where each class lies in the order of φ1: a row each."""
    rank = np.empty(phi.size)
    rank[np.argsort(phi, kind="stable")] = np.linspace(0, 100, phi.size)
    edges = np.linspace(0, 100, BINS + 1)
    classes = _order(labels)
    rows = list(zip(classes, COLOURS, strict=False))
    counts = [np.histogram(rank[mine == name], edges)[0] for name, _ in rows]
    density = [c / max(c.sum(), 1) * BINS for c in counts]
    top = max(2.0, max(d.max() for d in density))
    for row, ((name, colour), d) in enumerate(zip(rows, density, strict=True)):
        base = -row * 1.0
        axes.stairs(base + 0.9 * d / top, edges, baseline=base, fill=True, color=colour, alpha=0.85)
        axes.hlines(base + 0.9 / top, 0, 100, color=INK, linewidth=0.7, linestyle=":")
    axes.set_yticks([-row + 0.2 for row in range(len(rows))], [f"class {name}" for name, _ in rows])
    axes.set_title("Where each class lies in the order of φ1", fontsize=10, color=INK)
    axes.set_xlabel("nodes in order of φ1 (%)")
