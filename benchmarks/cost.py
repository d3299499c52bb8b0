"""What a step takes on one core, beside the estimate that plans a search.

    python benchmarks/cost.py                                     # what is not there yet
    python benchmarks/cost.py --graphs minesweeper --models gcn --again
    python benchmarks/cost.py --table                             # prints, measures nothing

A step is that of the trainer, one run alone. Its seconds are those of the processor, the least of
several steps, so that other work on the machine hardly counts. Rows are kept in
``results/cost.json``; the constants of ``pdgnn.training.cost`` are fitted to them (``--fit``).
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

import common
from pdgnn.experiments.provenance import Row, read_rows

SCRIPT = "cost.py"
PACKAGES = ("pdgnn", "torch", "numba")
MODELS = ("mlp", "gcn", "sage", "pd-gat-sep")
SIZES = ("200", "1000", "10000", "50000")
GRAPHS = (
    *(f"synthetic:num_nodes={n}" for n in SIZES[:3]),
    *("chameleon-filtered", "minesweeper", "pubmed"),
    f"synthetic:num_nodes={SIZES[3]}",
)
LARGE, MOST_WORK = 5000, 50_000 * 64 * 2  # in nodes, and in nodes × width × depth of larger graphs
CONSTANTS = ("LAYER", "MESSAGES", "PRODUCT", "MESSAGE", "ATTENTION", "CHANNEL")


@dataclass(frozen=True)
class Case:
    """What is measured; a row of the same case and machine is not measured again."""

    graph: str
    model: str
    width: int
    depth: int


@cache
def opened(graph: str) -> Any:
    from pdgnn.training import Task

    return Task.open(graph)


def spec_of(case: Case) -> Any:
    from pdgnn.models import MODELS as REGISTRY
    from pdgnn.training import RunSpec
    from pdgnn.training.spec import resolved

    sizes: dict[str, Any] = {"width": case.width, "depth": case.depth, "gamma": 0.5}
    return resolved(RunSpec(dataset=case.graph, model=case.model, **sizes), REGISTRY[case.model])


def measure(case: Case, least: float) -> Row:
    """Processor seconds of a step on one thread."""
    import torch

    from pdgnn.devices import at_most_threads
    from pdgnn.models import MODELS as REGISTRY
    from pdgnn.training.group import Group

    task, spec = opened(case.graph), spec_of(case)
    inputs = [common.model_inputs(task.graph, spec)]
    group = Group([spec], REGISTRY[case.model], task, inputs, device=torch.device("cpu"))
    taken: list[float] = []
    with at_most_threads(1):
        group.train_step()
        while len(taken) < 3 or sum(taken) < least:
            begun = time.process_time()
            group.train_step()
            taken.append(time.process_time() - begun)
    return {"seconds": min(taken)}


def estimate(case: Case) -> float:
    from pdgnn.training.cost import step_seconds

    return step_seconds(spec_of(case), opened(case.graph))


def terms(case: Case) -> list[float]:
    """What each constant is multiplied with: the estimate where it is 1 and the others 0."""
    from pdgnn.training import cost

    before = {name: getattr(cost, name) for name in CONSTANTS}
    found = []
    try:
        for name in CONSTANTS:
            for other in CONSTANTS:
                setattr(cost, other, float(other == name))
            found.append(estimate(case))
    finally:
        for name, value in before.items():
            setattr(cost, name, value)
    return found


def fitted(rows: list[Row]) -> dict[str, float]:
    """The constants, none below 0, whose estimates have the least squares of relative errors."""
    from scipy.optimize import nnls

    seconds = np.array([row["seconds"] for row in rows])
    matrix = np.array([terms(case_of(row)) for row in rows])
    found, _ = nnls(matrix / seconds[:, None], np.ones(len(rows)))
    return dict(zip(CONSTANTS, found.tolist(), strict=True))


def case_of(row: Row) -> Case:
    return Case(row["graph"], row["model"], row["width"], row["depth"])


def cases(options: argparse.Namespace) -> Iterator[Case]:
    for graph in options.graphs:
        nodes = opened(graph).graph.num_nodes
        for model in options.models:
            for width in options.widths:
                for depth in options.depths:
                    if nodes <= LARGE or nodes * width * depth <= MOST_WORK:
                        yield Case(graph, model, width, depth)


def measure_missing(options: argparse.Namespace) -> list[Row]:
    def row(case: Case) -> Row:
        command = (
            f"python benchmarks/{SCRIPT} --graphs {case.graph} --models {case.model} "
            f"--widths {case.width} --depths {case.depth}"
        )
        found = common.attempt(lambda: measure(case, options.least), "cpu")
        return found | {"command": command}

    def say(case: Case, row: Row) -> str:
        said = row.get("note") or f"{1000 * row['seconds']:.3g} ms"
        return f"{case.graph} {case.model} {case.width} {case.depth}: {said}"

    return common.measure_missing(options, cases(options), PACKAGES, row, say)


def table(rows: list[Row]) -> str:
    """Milliseconds of a step and the estimate, as Markdown, for each machine."""
    heads = ["graph", "model", "width", "depth", "ms", "estimate", "ratio"]
    parts = []
    for machine in sorted({r["machine"] for r in rows}):
        own = [r for r in common.alike(rows, {"machine": machine}) if r["seconds"] is not None]
        ratios, lines = [], []
        for r in own:
            guess = estimate(case_of(r))
            ratios.append(guess / r["seconds"])
            numbers = (1000 * r["seconds"], 1000 * guess, ratios[-1])
            names = (r["graph"], r["model"], str(r["width"]), str(r["depth"]))
            lines.append([*names, *map(common.number, numbers)])
        low, middle, high = np.percentile(ratios, [0, 50, 100])
        parts.append(
            f"{machine}: a step on one core, and its estimate, {low:.2f} to {high:.2f} times as "
            f"long, {middle:.2f} in the median."
        )
        parts.append(common.markdown(heads, lines))
    return "\n\n".join(parts)


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--graphs", metavar="A;B", type=lambda text: text.split(";"), default=GRAPHS
    )
    parser.add_argument("--models", type=common.names(MODELS), default=list(MODELS))
    parser.add_argument("--widths", type=common.counts, default=[32, 64, 256])
    parser.add_argument("--depths", type=common.counts, default=[2, 5])
    parser.add_argument("--least", type=float, default=0.15, help="seconds of each measurement")
    parser.add_argument("--fit", action="store_true", help="print constants fitted to the rows")
    common.add_results_options(parser, "cost.json")
    return parser.parse_args()


def main() -> None:
    options = read_options()
    still = options.table or options.fit
    rows = read_rows(options.results) if still else measure_missing(options)
    if options.fit:
        for name, value in fitted([r for r in rows if r["seconds"] is not None]).items():
            print(f"{name} = {value:.3g}")
    else:
        common.report(options, SCRIPT, table(rows))


if __name__ == "__main__":
    main()
