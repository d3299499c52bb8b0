"""A PyG model of one's own: ``train`` against a plain loop over the same runs.

The model is that of ``examples/own_model.py`` (GCNConv, BatchNorm, nn.Dropout): two options and ten
splits, 20 runs. The loop trains and evaluates run after run as one would by hand, with PyG's layers
and torch's AdamW on the same device; it is scaled from ``--loop-runs`` of the 20. Both include what
they need to start. Rows are kept in ``results/user_model.json`` with the machine and the versions.

    python benchmarks/user_model.py --device cuda
    python benchmarks/user_model.py --table
"""

from __future__ import annotations

import argparse
import runpy
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from common import RESULTS, ROOT, markdown, measure_missing, number
from pdgnn.experiments.provenance import Row, read_rows

PACKAGES = ("pdgnn", "torch", "torch-geometric", "triton")


@dataclass(frozen=True)
class Case:
    graph: str
    device: str
    width: int
    steps: int


def measure(case: Case, loop_runs: int) -> Row:
    import torch

    from pdgnn.training import Task, summarize, train

    example = runpy.run_path(str(ROOT / "examples" / "own_model.py"))
    task = Task.open(case.graph)
    specs = example["runs"](case.graph, case.width, case.steps)
    given: dict[str, Any] = {"models": {"mine": example["MINE"]}, "tasks": {case.graph: task}}
    if case.device == "cpu":
        torch.set_num_threads(1)  # what train takes for graphs so small
    begun = time.perf_counter()
    results = train(specs, device=case.device, **given)
    ours = time.perf_counter() - begun
    begun = time.perf_counter()
    some = specs[:: len(specs) // loop_runs][:loop_runs]  # of both options
    scores = [example["by_hand"](task, spec, case.device) for spec in some]
    loop = (time.perf_counter() - begun) * len(specs) / loop_runs
    return {
        "command": f"python benchmarks/user_model.py --graphs {case.graph} --device {case.device}",
        "runs": len(specs),
        "loop_runs": loop_runs,
        "seconds": ours,
        "loop_seconds": loop,
        "test": [row.test_mean for row in summarize(results)],
        "loop_test": sum(scores) / len(scores),
    }


def table(rows: list[Row]) -> str:
    heads = ["graph", "machine", "width", "steps", "train", "plain loop", "loop / train"]
    lines = [
        [
            row["graph"],
            f"{row['machine'].split(', ')[-1]} ({row['device']})",
            str(row["width"]),
            str(row["steps"]),
            number(row["seconds"]),
            number(row["loop_seconds"]),
            f"{row['loop_seconds'] / row['seconds']:.1f}",
        ]
        for row in rows
        if row["seconds"] is not None
    ]
    return markdown(heads, lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--graphs", default="chameleon-filtered,squirrel-filtered,cora")
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--loop-runs", type=int, default=4)
    parser.add_argument("--results", type=Path, default=RESULTS / "user_model.json")
    parser.add_argument("--again", action="store_true", help="measure anew what is there")
    parser.add_argument(
        "--table", action="store_true", help="print what is there, and nothing else"
    )
    options = parser.parse_args()
    if options.table:
        print(table(read_rows(options.results)))
        return
    cases = [
        Case(graph, options.device, options.width, options.steps)
        for graph in options.graphs.split(",")
    ]
    rows = measure_missing(
        options,
        cases,
        PACKAGES,
        lambda case: measure(case, options.loop_runs),
        lambda case, row: f"{case.graph}: {row['seconds']:.1f} s, loop {row['loop_seconds']:.1f} s",
    )
    print(table(rows))


if __name__ == "__main__":
    main()
