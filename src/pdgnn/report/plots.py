"""Pictures, drawn with Matplotlib's Figure alone: no window, no pyplot, no global state."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TextIO

import numpy as np
from numpy.typing import NDArray

from pdgnn.errors import InputError
from pdgnn.io.atomic import replacing
from pdgnn.io.sources import Source
from pdgnn.report.escape import one_line
from pdgnn.report.inspection import Inspection

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "PLOT_SUFFIXES",
    "draw_embedding",
    "embedding_figure",
    "need_matplotlib",
    "write_figure",
]

PLOT_SUFFIXES = (".png", ".svg", ".pdf")
INK = "#222222"
# Okabe and Ito's colours, which the colour-blind tell apart too; their yellow is lost on white.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", INK)
OTHERS, UNLABELLED = "#999999", "#D5D5D5"
STAR: dict[str, Any] = {
    "marker": "*",
    "markersize": 17,
    "color": "#FFFFFF",
    "markeredgecolor": INK,
    "clip_on": False,
    "zorder": 4,
}
MOST_POINTS = 50_000
MOST_EDGES = 20_000
BINS = 25
LONGEST_NAME = 60


@dataclass(frozen=True)
class Group:
    """Nodes of one colour: a class, the classes beyond the largest, or those without a label."""

    name: str
    colour: str
    members: NDArray[np.bool_]  # [N]


def need_matplotlib() -> None:
    """An error that says what to install, unless Matplotlib is there."""
    try:
        import matplotlib  # noqa: F401
    except ImportError as e:
        raise InputError("pictures need Matplotlib; pip install 'pdgnn[plot]'") from e


def draw_embedding(source: Source, facts: Inspection, path: str | PathLike[str]) -> None:
    """Write :func:`embedding_figure` to a ``.png``, ``.svg`` or ``.pdf``, whole or not at all."""
    figure = embedding_figure(source, facts)
    with replacing(path, follow=True) as partial:
        write_figure(figure, partial, Path(path).suffix.lower().lstrip("."))


def write_figure(figure: Figure, target: Path | TextIO, kind: str) -> None:
    """Write a figure as a ``png``, ``svg`` or ``pdf`` that says nothing of when it was made."""
    undated: dict[str, dict[str, Any]] = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}
    with warnings.catch_warnings():
        # a name in a script that the font lacks is drawn as boxes
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        figure.savefig(target, format=kind, dpi=160, metadata=undated.get(kind))


def embedding_figure(source: Source, facts: Inspection) -> Figure:
    """The largest component, placed at (φ1, φ2) and sorted along φ1, coloured by class.

    `facts` is what :func:`~pdgnn.report.inspection.inspect_graph` found in `source` with ``k=2``.
    Without labels the colour is φ1.
    """
    need_matplotlib()
    from matplotlib.figure import Figure

    if facts.embedding is None or facts.gradient_node is None:
        why = "the graph has no edges" if facts.edges == 0 else "no eigenvector was found"
        raise InputError(f"there is no embedding to draw, as {why}")
    g, node = source.graph, facts.gradient_node.node
    nodes = np.flatnonzero(g.components == g.components[node])
    phi = _two_columns(facts.embedding)
    groups = _groups(source.labels)
    figure = Figure(figsize=(11, 5.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    figure.suptitle(_title(facts), color=INK, fontsize=13, parse_math=False)
    _draw_plane(left, source, nodes, phi, groups)
    _mark(left, phi[node], f"gradient\nnode {_short(facts.gradient_node.id, 12)}")
    if groups:
        _draw_rows(right, phi[nodes, 0], [(group, group.members[nodes]) for group in groups])
    else:
        _draw_curve(right, phi[nodes, 0])
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(labelsize=9, colors=INK)
        axes.title.set(fontsize=10, color=INK)
    return figure


def _two_columns(embedding: NDArray[np.float64]) -> NDArray[np.float64]:
    """φ1 and φ2, ``[N, 2]``; φ2 is 0 where there is none."""
    missing = np.zeros((len(embedding), max(0, 2 - embedding.shape[1])))
    return np.concatenate([embedding[:, :2], missing], axis=1)


def _groups(labels: NDArray[np.int64] | None) -> list[Group]:
    """The largest classes, the rest of them together, and the unlabelled; none without labels."""
    if labels is None or not (labels >= 0).any():
        return []
    classes, sizes = np.unique(labels[labels >= 0], return_counts=True)
    largest = np.sort(classes[np.argsort(-sizes, kind="stable")[: len(COLOURS)]])
    groups = [
        Group(f"class {name}", colour, labels == name)
        for name, colour in zip(largest, COLOURS, strict=False)
    ]
    others = (labels >= 0) & ~np.isin(labels, largest)
    if others.any():
        groups.append(Group(f"{len(classes) - len(largest)} others", OTHERS, others))
    if (labels < 0).any():
        groups.append(Group("no label", UNLABELLED, labels < 0))
    return groups


def _short(text: object, length: int) -> str:
    shown = one_line(text)
    return shown if len(shown) <= length else f"{shown[: length - 1]}…"


def _title(facts: Inspection) -> str:
    name, v = _short(facts.name, LONGEST_NAME), facts.gradient_node
    if v is None:
        return name
    first = next((s.eigenvalue for s in facts.spectrum if s.gamma == v.gamma), None)
    value = "" if first is None else f", λ1 = {first:.4g}"
    return f"{name}: α = {v.alpha:g}, γ = {v.gamma:g}{value}"


def _draw_plane(
    axes: Axes,
    source: Source,
    nodes: NDArray[np.int64],
    phi: NDArray[np.float64],
    groups: list[Group],
) -> None:
    """Nodes at (φ1, φ2), and the edges between them where there are few enough to see."""
    g = source.graph
    # mixed, so that no class hides the others
    shown = np.random.default_rng(0).permutation(nodes)[:MOST_POINTS]
    if g.num_edges <= MOST_EDGES:
        _draw_edges(axes, source, nodes, phi)
    axes.scatter(
        phi[shown, 0],
        phi[shown, 1],
        c=_colours(phi[:, 0], groups, shown),
        s=float(np.clip(9000 / len(shown), 3, 45)),
        alpha=0.9 if len(shown) <= 2000 else 0.6,
        linewidths=0,
        rasterized=True,
        zorder=2,
    )
    stretched = _scale(axes, "x", "φ1", phi[nodes, 0]), _scale(axes, "y", "φ2", phi[nodes, 1])
    if not any(stretched) and np.ptp(phi[nodes, 1]) > 0:
        axes.set_aspect("equal", adjustable="datalim")
    text = f"{len(nodes):,} nodes by the first two eigenvectors"
    if g.num_components > 1:
        text = f"{text}: the largest of {g.num_components:,} components"
    axes.set_title(text if len(shown) == len(nodes) else f"{text} ({len(shown):,} drawn)")


def _colours(
    phi: NDArray[np.float64], groups: list[Group], shown: NDArray[np.int64]
) -> NDArray[np.float64]:
    """RGBA by group, or by the rank of φ1 where there are none, ``[len(shown), 4]``."""
    from matplotlib import colormaps
    from matplotlib.colors import to_rgba_array

    if not groups:
        rank = np.searchsorted(np.sort(phi[shown]), phi[shown])
        by_rank: NDArray[np.float64] = colormaps["viridis"](rank / len(shown))
        return by_rank
    group = np.stack([group.members[shown] for group in groups]).argmax(axis=0)
    by_group: NDArray[np.float64] = to_rgba_array([group.colour for group in groups])[group]
    return by_group


def _draw_edges(
    axes: Axes, source: Source, nodes: NDArray[np.int64], phi: NDArray[np.float64]
) -> None:
    from matplotlib.collections import LineCollection

    i, j = source.graph.edge_index.numpy()
    mine = (i < j) & np.isin(i, nodes)
    lines: Any = np.stack([phi[i[mine]], phi[j[mine]]], axis=1)  # [E, 2, 2]
    alpha = float(np.clip(300 / len(lines), 0.06, 0.5))
    axes.add_collection(
        LineCollection(lines, colors=INK, linewidths=0.5, alpha=alpha, rasterized=True, zorder=1)
    )


def _scale(axes: Axes, axis: Literal["x", "y"], name: str, values: NDArray[np.float64]) -> bool:
    """Label an axis; spread out the many values near 0 where a few lie far away, and say so."""
    usual, far = np.quantile(np.abs(values), [0.75, 1.0])
    stretched = bool(usual > 0 and far > 10 * usual)
    axes.set(**{f"{axis}label": f"{name} (stretched near 0)" if stretched else name})
    if stretched:
        set_scale = axes.set_xscale if axis == "x" else axes.set_yscale
        set_scale("asinh", linear_width=usual / 2)
        set_ticks = axes.set_xticks if axis == "x" else axes.set_yticks
        ticks = _ticks(float(usual), float(values.min()), float(values.max()))
        set_ticks(ticks, [f"{tick:g}" for tick in ticks])
        set_ticks([], minor=True)
    else:
        axes.locator_params(axis=axis, nbins=6)
    return stretched


def _ticks(usual: float, low: float, high: float) -> list[float]:
    """0 and the powers of ten from `usual` on that lie between `low` and `high`.

    >>> _ticks(0.002, -0.003, 0.2), _ticks(0.002, -0.01, 0.01)
    ([0.0, 0.01, 0.1], [-0.01, 0.0, 0.01])
    """
    lowest, highest = np.ceil(np.log10(usual)), np.floor(np.log10(max(-low, high)))
    powers = [float(f"1e{k:.0f}") for k in np.arange(lowest, highest + 1)]
    return [-p for p in powers[::-1] if -p >= low] + [0.0] + [p for p in powers if p <= high]


def _mark(axes: Axes, at: NDArray[np.float64], text: str) -> None:
    """A star with a text to its right, where no node can be: the gradient node is the last."""
    axes.plot(*at, **STAR)
    axes.annotate(
        text,
        (at[0], at[1]),
        xytext=(12, 0),
        textcoords="offset points",
        va="center",
        fontsize=9,
        color=INK,
        parse_math=False,
        annotation_clip=False,
    )


def _draw_curve(axes: Axes, phi: NDArray[np.float64]) -> None:
    """φ1 in ascending order."""
    axes.plot(np.linspace(0, 100, phi.size), np.sort(phi), color=COLOURS[0], linewidth=2)
    axes.plot(100, phi.max(), **STAR)
    _scale(axes, "y", "φ1", phi)
    axes.set_title("How φ1 grows from node to node")
    axes.set_xlabel("nodes in order of φ1 (%), the gradient node last")


def _draw_rows(
    axes: Axes, phi: NDArray[np.float64], groups: list[tuple[Group, NDArray[np.bool_]]]
) -> None:
    """Where the nodes of each group lie in the order of φ1, a histogram each, one below another."""
    rank = np.empty(phi.size)
    rank[np.argsort(phi, kind="stable")] = (np.arange(phi.size) + 0.5) / phi.size * 100
    edges = np.linspace(0, 100, min(BINS, phi.size) + 1)
    counts = np.stack([np.histogram(rank[members], edges)[0] for _, members in groups])
    even = np.histogram(rank, edges)[0] / phi.size  # [bins]
    height = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1) / even  # 1: spread evenly
    unit = 0.85 / max(2.0, float(height.max()))
    for row, (group, _) in enumerate(groups):
        axes.stairs(-row + unit * height[row], edges, baseline=-row, fill=True, color=group.colour)
        axes.hlines(-row, 0, 100, color=INK, linewidth=0.7)
        axes.hlines(-row + unit, 0, 100, color=INK, linewidth=0.9, linestyle=(0, (2, 2)))
    names = [f"{group.name}\n{members.sum():,} nodes" for group, members in groups]
    axes.set_yticks([-row + unit for row in range(len(groups))], names)
    axes.set_ylim(-len(groups) + 0.88, max(0.5, unit * float(height[0].max())) + 0.12)
    axes.plot(100, 0, transform=axes.get_xaxis_transform(), **STAR)
    axes.tick_params(axis="y", length=0)
    axes.tick_params(axis="x", pad=10)
    axes.spines["left"].set_visible(False)
    axes.set_title("Where each class lies along φ1 (dashed: spread evenly)")
    axes.set_xlabel("nodes in order of φ1 (%), the gradient node last")
