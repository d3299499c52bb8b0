"""How the measurements of spectra compare: what an answer is worth, ratios, tables, a picture."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import exp, inf, log
from pathlib import Path
from typing import Any

from common import alike, markdown, number
from families import GENERATORS
from pdgnn.experiments.provenance import Row
from spectrum_peers import METHODS, PEERS, TOLERANCE

CALLS = 0.02
"""Seconds below which calls are what is measured."""
STATES = {
    "stopped": "stopped",
    "failed": "failed",
    "wrong": "missed one",
    "rough": "above 1e-8",
}
"""Why an answer is not of equal accuracy, and the head of its column."""


def is_member(graph: str) -> bool:
    """Whether the graph is of a family."""
    return "/" in graph


class Measured:
    """The rows of some graphs, the best eigenvalues of each among them."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self.rows = {(r["graph"], r["method"], r["k"]): r for r in rows}
        self.graphs = list(dict.fromkeys(graph for graph, _, _ in self.rows))
        self.ks = sorted({k for _, _, k in self.rows})
        self.methods = [m for m in METHODS if any(m == method for _, method, _ in self.rows)]
        self.peers = [m for m in self.methods if m in PEERS]
        self._least: dict[tuple[str, int, str], float] = {}
        for (graph, _, k), row in self.rows.items():
            for what in ("eigenvalue", "trace"):
                key = (graph, k, what)
                self._least[key] = min(self._least.get(key, inf), row.get(what, inf))

    def get(self, graph: str, method: str, k: int) -> Row | None:
        return self.rows.get((graph, method, k))

    def state(self, row: Row) -> str:
        """``right``, or why not: ``rough`` is above 1e-8, ``wrong`` has missed an eigenvalue.

        Ritz values are never too small, so that one which is larger than another's says that an
        eigenvalue was missed. Values of a residual r may be off by r; one that is off by a
        thousandth of itself is another.
        """
        if row["seconds"] is None:
            return "stopped" if "limit" in row else "failed"
        residual, k = row["residual"], row["k"]
        near = max(residual, TOLERANCE)
        for what, count in (("eigenvalue", 1), ("trace", k)):
            least = self._least[row["graph"], k, what]
            off = row.get(what, least) - least
            if not off <= min(count * near, 1e-3 * least) + 1e-13:
                return "wrong"
        if "trace" not in row and not residual < self._least[row["graph"], k, "eigenvalue"]:
            return "wrong"
        return "right" if residual <= TOLERANCE else "rough"

    def able(self, graph: str, k: int, *, rough: bool = False) -> list[Row]:
        """The rows of the peers that returned with an answer; with `rough`, of any accuracy."""
        states = ("right", "rough") if rough else ("right",)
        rows = [self.rows[graph, p, k] for p in self.peers if (graph, p, k) in self.rows]
        return [row for row in rows if self.state(row) in states]

    def best(self, graph: str, k: int) -> Row | None:
        """The fastest of equal accuracy; where there is none, one that was stopped first."""
        if able := self.able(graph, k):
            return min(able, key=lambda row: float(row["seconds"]))
        rows = [self.rows[graph, p, k] for p in self.peers if (graph, p, k) in self.rows]
        stopped = [row for row in rows if self.state(row) == "stopped"]
        return min(stopped, key=lambda row: float(row["limit"]), default=None)

    def ratio(self, graph: str, k: int, other: Row | None, least: float = CALLS) -> Ratio | None:
        """The time of another over ours; None where one has none, or both are below `least`."""
        own = self.get(graph, "pdgnn", k)
        if own is None or own["seconds"] is None or other is None:
            return None
        if self.state(own) != "right" or self.state(other) in {"failed", "wrong"}:
            return None
        seconds = other["seconds"] or other["limit"]
        if max(seconds, own["seconds"]) < least:
            return None
        bound = other["seconds"] is None
        return Ratio(graph, k, seconds / own["seconds"], bound, other["method"])

    def ratios(self, k: int, method: str | None = None) -> list[Ratio]:
        """Those of all graphs, to one method or to the best peer."""
        others = {g: self.get(g, method, k) if method else self.best(g, k) for g in self.graphs}
        found = [self.ratio(graph, k, other) for graph, other in others.items()]
        return [ratio for ratio in found if ratio]


@dataclass(frozen=True)
class Ratio:
    """A time over ours on a graph; `bound` where it is at least that."""

    graph: str
    k: int
    value: float
    bound: bool
    method: str

    def __str__(self) -> str:
        return f"{'> ' if self.bound else ''}{number(self.value)}"


def mean(ratios: Sequence[Ratio]) -> str:
    """The geometric mean, at least that where any of them is a bound."""
    if not ratios:
        return ""
    value = exp(sum(log(r.value) for r in ratios) / len(ratios))
    return f"{'> ' if any(r.bound for r in ratios) else ''}{value:.2f}"


def shown(row: Row | None, state: str) -> str:
    """Seconds; with a star above 1e-8, in brackets where the answer is wrong."""
    if row is None:
        return ""
    if row["seconds"] is None:
        return f"> {row['limit']:.3g}" if state == "stopped" else "failed"
    seconds = f"{row['seconds']:.3g}"
    return {"right": seconds, "rough": f"{seconds}*"}.get(state, f"({seconds})")


def graph_table(measured: Measured, graphs: Sequence[str], k: int) -> str:
    """A row for each graph."""
    methods = [m for m in measured.methods if any(key[1:] == (m, k) for key in measured.rows)]
    heads = ["graph", "nodes", "edges", *methods, "best peer / pdgnn"]
    heads += ["path / pdgnn", "residual", "peak MiB"] if "path" in methods else ["residual"]
    lines = []
    for graph in graphs:
        own = measured.get(graph, "pdgnn", k)
        if own is None or own["seconds"] is None:
            continue
        rows = [measured.get(graph, m, k) for m in methods]
        cells = [shown(row, measured.state(row) if row else "") for row in rows]
        ratio = measured.ratio(graph, k, measured.best(graph, k), least=0.0)
        line = [graph, f"{own['nodes']:,}", f"{own['edges']:,}", *cells, str(ratio or "")]
        residual = f"{own['residual']:.0e}"
        if "path" in methods:
            path = measured.get(graph, "path", k)
            times = f"{path['seconds'] / own['seconds']:.1f}" if path and path["seconds"] else ""
            line += [times, residual, f"{own['peak_mib']:.0f}"]
        else:
            line.append(residual)
        lines.append(line)
    return markdown(heads, lines)


def family_table(measured: Measured) -> str:
    """Against the fastest peer of equal accuracy on each graph."""
    heads = ["k", "graphs", "worst", "on", "to", "geometric mean", "below 1/1.5"]
    heads += ["ours not right", "no peer right"]
    lines = []
    for k in measured.ks:
        found = measured.ratios(k)
        if found:
            worst = min(found, key=lambda r: r.value)
            slow = sum(r.value < 1 / 1.5 for r in found)
            own = [r for (_, m, at), r in measured.rows.items() if m == "pdgnn" and at == k]
            bad = sum(measured.state(r) != "right" for r in own)
            line = [str(k), str(len(found)), str(worst), worst.graph, worst.method, mean(found)]
            alone = sum(not measured.able(r["graph"], k) for r in own)
            lines.append([*line, str(slow), str(bad), str(alone)])
    return markdown(heads, lines)


def peer_table(measured: Measured) -> str:
    """Against each peer alone, however accurate, and how often it is not of equal accuracy."""
    heads = ["peer", *(f"k = {k}: worst, mean" for k in measured.ks), *STATES.values()]
    lines = []
    for peer in measured.peers:
        cells = []
        for k in measured.ks:
            found = measured.ratios(k, peer)
            worst = min(found, key=lambda r: r.value, default=None)
            cells.append(f"{worst}, {mean(found)}" if worst else "")
        rows = [row for (_, method, _), row in measured.rows.items() if method == peer]
        states = [measured.state(row) for row in rows]
        shares = [f"{100 * states.count(state) / len(states):.0f} %" for state in STATES]
        lines.append([peer, *cells, *shares])
    return markdown(heads, lines)


def path_line(measured: Measured) -> Iterator[str]:
    """What eleven γ take against one."""
    for k in measured.ks:
        if found := measured.ratios(k, "path"):
            worst = max(found, key=lambda r: r.value)
            yield f"Eleven γ, k = {k}: {mean(found)} times one solve, at most {worst}."


def seeds(rows: Iterable[Row]) -> list[str]:
    """The families that were measured."""
    found = {r["graph"].split("/")[-1] for r in rows if is_member(r["graph"])}
    return sorted(found, key=lambda seed: int(seed.removeprefix("seed")))


def of_seed(rows: Sequence[Row], seed: str) -> list[Row]:
    return [r for r in rows if is_member(r["graph"]) and r["graph"].endswith(f"/{seed}")]


def tables(rows: Sequence[Row], graphs: Sequence[str], where: str) -> str:
    """What was measured on the machine `where`, and of single graphs on any GPU, as Markdown."""
    here = alike(rows, {"machine": where})
    measured = Measured([*here, *alike(rows, {"method": "cuda"})])
    parts = []
    if any(graph in measured.graphs for graph in graphs):
        several = any(k > 1 for g, _, k in measured.rows if g in graphs)
        for k in measured.ks if several else [1]:
            parts += [f"k = {k}:", graph_table(measured, graphs, k)][not several :]
    for seed in seeds(here):
        own = Measured(of_seed(here, seed))
        parts.append(f"The family of {seed}, {len(own.graphs)} graphs, best peer / pdgnn:")
        parts += [family_table(own), "Peer / pdgnn of each peer alone:", peer_table(own)]
        parts += [" ".join(path_line(own))]
    return "\n\n".join(part for part in parts if part)


def draw(rows: Sequence[Row], path: Path) -> None:
    """The ratio to the best peer for each graph of a family, a panel for each k; PNG and SVG."""
    from matplotlib.figure import Figure

    from pdgnn.io.atomic import replacing
    from pdgnn.report.plots import write_figure

    measured = Measured(rows)
    ratios = {k: measured.ratios(k) for k in measured.ks}
    every = [ratio for found in ratios.values() for ratio in found]
    worst = {
        kind: [r.value for r in every if r.graph.startswith(f"{kind}/")] for kind in GENERATORS
    }
    kinds = sorted((kind for kind in worst if worst[kind]), key=lambda kind: min(worst[kind]))
    figure = Figure(figsize=(10, 1.6 + 0.24 * len(kinds)), layout="constrained")
    seed = measured.graphs[0].split("/")[-1]
    title = f"Fastest peer with residuals ≤ 1e-8 over pdgnn (left of 1: pdgnn is slower), {seed}"
    figure.suptitle(title, fontsize=12)
    panels = figure.subplots(1, len(measured.ks), sharex=True, sharey=True, squeeze=False)[0]
    sizes = sorted({int(r.graph.split("/")[1]) for r in every})
    for axes, k in zip(panels, measured.ks, strict=True):
        axes.set(title=f"k = {k}", xscale="log", xlabel="peer / pdgnn")
        draw_panel(axes, ratios[k], kinds, sizes)
    values = [1.0, *(ratio.value for ratio in every)]
    panels[0].set_xlim(min(values) / 1.5, max(values) * 1.5)
    panels[0].set_yticks(range(len(kinds)), kinds)
    panels[0].invert_yaxis()
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=5, frameon=False)
    for kind in ("png", "svg"):
        with replacing(path.with_suffix(f".{kind}")) as partial_file:
            write_figure(figure, partial_file, kind)


def draw_panel(
    axes: Any, ratios: Sequence[Ratio], kinds: Sequence[str], sizes: Sequence[int]
) -> None:
    """A row for each kind of graph, a colour for each size; a triangle is at least that."""
    from matplotlib.ticker import NullFormatter, StrMethodFormatter

    from pdgnn.report.plots import COLOURS, INK

    axes.axvspan(1e-9, 1, color=INK, alpha=0.05, lw=0)
    axes.axvline(1, color=INK, lw=1)
    for size, colour in zip(sizes, COLOURS, strict=False):
        for bound, marker in ((False, "o"), (True, ">")):
            own = [r for r in ratios if f"/{size}/" in r.graph and r.bound == bound]
            label = None if bound else f"{size:,} nodes"
            places = [kinds.index(r.graph.split("/")[0]) for r in own]
            values = [r.value for r in own]
            axes.scatter(values, places, 28, color=colour, marker=marker, label=label, alpha=0.85)
    axes.scatter([], [], 28, color=INK, marker=">", label="at least that: all were stopped")
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.25)
