"""A call of PDGCNConv and PDGATConv beside GCNConv and GATConv, side by side in one run.

    python benchmarks/layers.py --datasets cora,pubmed,tolokers
    python benchmarks/layers.py --results results/layers.json --readme docs/layers.md

Without ``--results`` nothing is written. The layers take turns, and each figure is the fastest of
its rounds, so that what else the machine does counts as little as can be.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch_geometric.nn import GATConv, GCNConv

from common import (
    RESULTS,
    add_results_options,
    alike,
    attempt,
    markdown,
    measure_missing,
    report,
    wait,
)
from pdgnn import datasets
from pdgnn.experiments.provenance import Row, read_rows
from pdgnn.nn import PDGATConv, PDGCNConv
from pdgnn.ops import Edges

HEADS = 8
LAYERS: dict[str, Callable[[int, int], Any]] = {
    "GCNConv": GCNConv,
    "PDGCNConv": lambda i, o: PDGCNConv(i, o, alpha=0.5, gamma=0.5),
    "GCNConv, cached": lambda i, o: GCNConv(i, o, cached=True),
    "PDGCNConv, cached": lambda i, o: PDGCNConv(i, o, alpha=0.5, gamma=0.5, cached=True),
    "PDGCNConv, Edges": lambda i, o: PDGCNConv(i, o, alpha=0.5, gamma=0.5),
    "GATConv": lambda i, o: GATConv(i, o // HEADS, HEADS),
    "PDGATConv": lambda i, o: PDGATConv(i, o // HEADS, HEADS),
}
PACKAGES = ("torch", "torch_geometric", "numba")


@dataclass(frozen=True)
class Case:
    """What is measured in one run: all layers, forward, and forward with backward."""

    dataset: str
    width: int
    device: str
    threads: int


def measure(case: Case, rounds: int) -> Row:
    """Milliseconds of each layer: the least of so many rounds."""
    data = datasets.load(case.dataset).to(case.device)
    edges = Edges.from_edge_index(data.edge_index, num_nodes=data.num_nodes).trimmed()
    calls: dict[str, Callable[[], Any]] = {}
    for name, make in LAYERS.items():
        conv = make(data.num_features, case.width).to(case.device)
        structure = edges if name.endswith("Edges") else data.edge_index
        calls[f"{name}: forward"] = partial(_forward, conv, data.x, structure)
        calls[f"{name}: both"] = partial(_both, conv, data.x, structure)
    least = dict.fromkeys(calls, float("inf"))
    for turn in range(rounds + 1):  # the first compiles and fills caches
        for name, call in calls.items():
            wait(case.device)
            begun = time.perf_counter()
            call()
            wait(case.device)
            if turn:
                least[name] = min(least[name], 1000 * (time.perf_counter() - begun))
    return {"milliseconds": least, "rounds": rounds}


@torch.no_grad()
def _forward(conv: Any, x: Any, structure: Any) -> None:
    conv(x, structure)


def _both(conv: Any, x: Any, structure: Any) -> None:
    conv(x, structure).sum().backward()


def table(rows: list[Row]) -> str:
    """Forward / forward with backward, in milliseconds."""
    lines = []
    for row in rows:
        found = row.get("milliseconds") or {}
        cells = [
            f"{found[f'{name}: forward']:.2f} / {found[f'{name}: both']:.2f}" if found else "-"
            for name in LAYERS
        ]
        where = f"{row['device']}, {row['threads']} threads"
        lines.append([row["dataset"], str(row["width"]), where, *cells])
    return markdown(["graph", "width", "on", *LAYERS], lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--datasets", default="cora,pubmed,tolokers")
    parser.add_argument("--widths", default="16,64")
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--rounds", type=int, default=20)
    add_results_options(parser, "layers.json")
    parser.set_defaults(results=None)
    options = parser.parse_args()
    cases = [
        Case(name, int(width), options.device, torch.get_num_threads())
        for name in options.datasets.split(",")
        for width in options.widths.split(",")
    ]

    def measured(case: Case) -> Row:
        return attempt(lambda: measure(case, options.rounds), case.device)

    rows: list[Row]
    if options.table:
        rows = read_rows(options.results or RESULTS / "layers.json")
    elif options.results is None:
        rows = [vars(case) | measured(case) for case in cases]
    else:
        rows = measure_missing(
            options,
            cases,
            PACKAGES,
            measured,
            lambda case, row: f"{case.dataset} {case.width}: {row.get('note', 'measured')}",
        )
        rows = [found for case in cases for found in alike(rows, vars(case))]
    report(options, "layers.py", table(rows))


if __name__ == "__main__":
    main()
