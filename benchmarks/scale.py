"""Seconds and memory of a training step against the number of edges.

    python benchmarks/scale.py --device cuda        # what is not there yet
    python benchmarks/scale.py --device cpu --edges 1e4,2e4,5e4,1e5
    python benchmarks/scale.py --table              # prints and draws, measures nothing

PD-GAT and PD-GCN of depth 2, width 64 and 8 heads on graphs of random directed edges, 10 for each
node, with 16 features, 2 classes, and random weights or features of edges. A step is forward, loss,
backward and AdamW on all nodes, one after another as the caller sees them; its seconds are a
median. Memory is the peak in a step, with the graph, the features and the model. On a CPU it is
resident memory beyond that before the graph was made.

An exponent is the slope of a line through the logarithms, by least squares: 1 where the cost is
linear in the edges. Rows are kept in ``results/scale.json``, and drawn beside it as ``scale.png``
and ``scale.svg``; ``--readme`` copies the table into the README.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import common
from common import MODELS
from pdgnn.experiments.provenance import Row, read_rows

SCRIPT = "scale.py"
PACKAGES = ("pdgnn", "torch", "torch-geometric", "triton", "numba", "numpy")
PER_NODE = 10  # edges
FEATURES, CLASSES, ON_EDGES = 16, 2, 2
MEASURES = {"seconds": "seconds of a step", "peak_bytes": "bytes at the peak"}


@dataclass(frozen=True)
class Case:
    """What is measured; a row of the same case and machine is not measured again."""

    model: str
    edges: int
    device: str
    width: int = 64
    depth: int = 2
    heads: int = 8


def training_step(case: Case) -> Callable[[], None]:
    """One step on a graph that is ready; all of it is held by the step alone."""
    import torch
    from torch.nn import functional as F  # noqa: N812

    from pdgnn.models import MODELS as REGISTRY
    from pdgnn.models import Size
    from pdgnn.training import RunSpec

    nodes = max(1, case.edges // PER_NODE)
    edges = common.random_edges(nodes, case.edges, case.device)
    generator = torch.Generator(case.device).manual_seed(1)
    draw = partial(torch.rand, generator=generator, device=case.device)
    x = draw(nodes, FEATURES)
    y = torch.randint(CLASSES, (nodes,), generator=generator, device=case.device)
    weight = draw(case.edges) if case.model == "pd-gcn" else None
    attr = draw(case.edges, ON_EDGES) if case.model == "pd-gat" else None
    sizes: dict[str, Any] = {"width": case.width, "depth": case.depth, "heads": case.heads}
    spec = RunSpec(dataset="random", model=case.model, **sizes)
    model = REGISTRY[case.model].make(Size(FEATURES, CLASSES), spec).to(case.device).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    def step() -> None:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x, edges, weight, attr), y)
        torch.autograd.backward([loss])
        optimizer.step()

    return step


def measure(case: Case, least: float) -> Row:
    training_step(replace(case, edges=1000))()  # what compilation holds is not counted
    common.free(case.device)
    before = common.held_bytes(case.device)
    step = training_step(case)
    seconds = common.seconds_of(step, case.device, least=least)
    common.free(case.device)
    peak = common.peak_bytes(step, case.device) - before
    return {"seconds": seconds, "peak_bytes": peak, "bytes_per_edge": round(peak / case.edges, 1)}


def cases(options: argparse.Namespace) -> Iterator[Case]:
    for model in options.models:
        for count in options.edges:
            yield Case(model, count, options.device)


def measure_missing(options: argparse.Namespace) -> list[Row]:
    def row(case: Case) -> Row:
        found = common.attempt(partial(measure, case, options.least), case.device)
        found["nodes"] = max(1, case.edges // PER_NODE)
        found["command"] = (
            f"python benchmarks/{SCRIPT} --device {case.device} --models {case.model} "
            f"--edges {case.edges}"
        )
        return found

    def say(case: Case, row: Row) -> str:
        return f"{case.model} {case.edges:>13,} {' '.join(cells(row))}"

    return common.measure_missing(options, cases(options), PACKAGES, row, say)


def exponent(rows: list[Row], what: str) -> float | None:
    """The slope of log `what` over log E by least squares; None without two sizes."""
    done = [r for r in rows if r["seconds"] is not None and r[what] > 0]
    if len({r["edges"] for r in done}) < 2:
        return None
    logs = np.log([[r["edges"], r[what]] for r in done])  # [rows, 2]
    return float(np.polyfit(logs[:, 0], logs[:, 1], 1)[0])


def by_kind(rows: list[Row]) -> list[list[Row]]:
    """The rows of each machine and device, GPUs first, in order of size."""
    kinds = dict.fromkeys((r["device"] != "cuda", r["machine"], r["device"]) for r in rows)
    found = [common.alike(rows, {"machine": m, "device": d}) for _, m, d in sorted(kinds)]
    return [
        sorted(own, key=lambda r: (list(MODELS).index(r["model"]), r["edges"])) for own in found
    ]


def table(rows: list[Row]) -> str:
    """What was measured, as Markdown: a table for each machine and device, and its exponents."""
    heads = ["model", "edges", "nodes", "ms", "peak MiB", "bytes per edge", "ns per edge"]
    parts = []
    for own in by_kind(rows):
        kind = "GPU" if own[0]["device"] == "cuda" else "CPU"
        parts.append(f"{own[0]['machine']} ({kind}).{''.join(exponents(own))}")
        lines = [[MODELS[r["model"]], f"{r['edges']:,}", f"{r['nodes']:,}", *cells(r)] for r in own]
        parts.append(common.markdown(heads, lines))
    return "\n\n".join(parts)


def cells(row: Row) -> list[str]:
    if row["seconds"] is None:
        full = row["note"] == "out of memory"
        return ["out of memory" if full else "failed", "", "", ""]
    values = (1000 * row["seconds"], row["peak_bytes"] / 2**20, row["bytes_per_edge"])
    return [*map(common.number, values), common.number(1e9 * row["seconds"] / row["edges"])]


def exponents(rows: list[Row]) -> Iterator[str]:
    for model, label in MODELS.items():
        own = common.alike(rows, {"model": model})
        slopes = {"time": exponent(own, "seconds"), "memory": exponent(own, "peak_bytes")}
        known = [f"{name} grows as E^{slope:.2f}" for name, slope in slopes.items() if slope]
        if known:
            yield f" {label}: {', '.join(known)}."


def draw(rows: list[Row], path: Path) -> None:
    """Both measures against the edges, with a line of slope one, as a PNG and an SVG."""
    from matplotlib.figure import Figure

    from pdgnn.io.atomic import replacing
    from pdgnn.report.plots import write_figure

    figure = Figure(figsize=(10, 4.2), layout="constrained")
    figure.suptitle("One training step, depth 2, width 64, 10 edges per node", fontsize=12)
    for axes, (what, label) in zip(figure.subplots(1, 2), MEASURES.items(), strict=True):
        draw_measure(axes, rows, what)
        axes.set(xscale="log", yscale="log", xlabel="directed edges", ylabel=label)
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(alpha=0.25)
        axes.legend(frameon=False)
    for kind in ("png", "svg"):
        with replacing(path.with_suffix(f".{kind}")) as partial_file:
            write_figure(figure, partial_file, kind)


def draw_measure(axes: Any, rows: list[Row], what: str) -> None:
    from pdgnn.report.plots import COLOURS, INK

    last: list[tuple[int, float]] = []
    for (model, label), colour, marker in zip(MODELS.items(), COLOURS, "os", strict=False):
        own = [r for r in common.alike(rows, {"model": model}) if r["seconds"] is not None]
        if own:
            slope = exponent(own, what)
            name = label if slope is None else f"{label}, exponent {slope:.2f}"
            edges, values = [r["edges"] for r in own], [r[what] for r in own]
            axes.plot(edges, values, marker=marker, color=colour, label=name)
            last.append((edges[-1], values[-1]))
    if last:  # through the last point of the first model
        fewest = min(r["edges"] for r in rows)
        line = np.array([fewest, last[0][0]])
        axes.plot(line, line * last[0][1] / last[0][0], "--", color=INK, lw=1, label="slope 1")


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--models", type=common.names(MODELS), default=list(MODELS))
    sizes = "1e6,2e6,5e6,10e6,20e6,50e6,100e6"
    parser.add_argument("--edges", type=common.counts, default=sizes)
    parser.add_argument("--least", type=float, default=0.2, help="seconds of a measurement")
    common.add_results_options(parser, "scale.json")
    return parser.parse_args()


def main() -> None:
    options = read_options()
    rows = read_rows(options.results) if options.table else measure_missing(options)
    common.report(options, SCRIPT, table(rows))
    done = [own for own in by_kind(rows) if any(r["seconds"] is not None for r in own)]
    if done:
        try:
            draw(done[0], options.results)
        except ImportError as error:  # the rows are kept all the same
            print(f"not drawn: {error}; --table draws where Matplotlib is installed")


if __name__ == "__main__":
    main()
