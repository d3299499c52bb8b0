"""How many runs a CPU should train at once: seconds of a step of each, alone and in company.

    python benchmarks/at_once.py                                  # what is not there yet
    python benchmarks/at_once.py --nodes 183,500 --models gcn --again
    python benchmarks/at_once.py --table                          # prints, measures nothing

A step is that of the trainer on a generated graph (six edges a node), depth 2: trained, evaluated
and kept account of. What it takes is divided by the runs at once. The numbers of runs take turns,
and the best of several rounds counts, so that other work on the machine disturbs them alike. Rows
are kept in ``results/at_once.json``; ``pdgnn.training.cost.runs_at_once`` follows from them.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import common
from pdgnn.experiments.provenance import Row, read_rows

SCRIPT = "at_once.py"
PACKAGES = ("pdgnn", "torch", "numba")
CALLS = 8  # of a step of a single run in a round
MODELS = ("mlp", "gcn", "pd-gat-sep")


@dataclass(frozen=True)
class Case:
    """What is measured; a row of the same case and machine is not measured again."""

    nodes: int
    model: str
    width: int
    depth: int = 2


def measure(case: Case, counts: list[int], rounds: int) -> Row:
    """Seconds of a step for each run, by the number of runs at once."""
    import torch

    from pdgnn.devices import at_most_threads
    from pdgnn.models import MODELS as REGISTRY
    from pdgnn.training import RunSpec, Task
    from pdgnn.training.group import Group
    from pdgnn.training.spec import resolved

    graph, model = f"synthetic:num_nodes={case.nodes},homophily=0.2", REGISTRY[case.model]
    task = Task.open(graph)
    sizes: dict[str, Any] = {"depth": case.depth, "width": case.width}
    first = resolved(RunSpec(dataset=graph, model=case.model, gamma=0.5, **sizes), model)
    inputs = common.model_inputs(task.graph, first)
    found: dict[int, list[float]] = {count: [] for count in counts}
    groups = {}
    for count in counts:
        specs = [replace(first, seed=i) for i in range(count)]
        groups[count] = Group(specs, model, task, [inputs] * count, device=torch.device("cpu"))
    with at_most_threads(groups[counts[0]].threads):
        for _ in range(rounds + 1):
            for count, group in groups.items():
                calls = max(1, CALLS // count)
                seconds = common.round_seconds(group.train_step, calls, "cpu", 0.0)
                found[count].append(seconds / calls / count)
        threads = torch.get_num_threads()
    best = {str(count): min(seconds[1:]) for count, seconds in found.items()}
    return {"seconds": best, "work": groups[counts[0]].work, "threads": threads}


def cases(options: argparse.Namespace) -> Iterator[Case]:
    for nodes in options.nodes:
        for model in options.models:
            for width in options.widths:
                yield Case(nodes, model, width)


def measure_missing(options: argparse.Namespace) -> list[Row]:
    def row(case: Case) -> Row:
        command = (
            f"python benchmarks/{SCRIPT} --nodes {case.nodes} --models {case.model} "
            f"--widths {case.width} --runs {','.join(map(str, options.runs))}"
        )
        found = common.attempt(lambda: measure(case, options.runs, options.rounds), "cpu")
        return found | {"command": command}

    def say(case: Case, row: Row) -> str:
        said = row.get("note") or ", ".join(cells(row, row["seconds"]))
        return f"{case.nodes} {case.model} {case.width}: {said}"

    return common.measure_missing(options, cases(options), PACKAGES, row, say)


def cells(row: Row, counts: Iterable[str]) -> list[str]:
    return [common.number(1000 * row["seconds"][n]) if n in row["seconds"] else "" for n in counts]


def table(rows: list[Row]) -> str:
    """Milliseconds of a step of one run, as Markdown, for each machine."""
    parts = []
    for machine in sorted({r["machine"] for r in rows}):
        own = [r for r in common.alike(rows, {"machine": machine}) if r["seconds"] is not None]
        own.sort(key=lambda r: (r["model"], r["nodes"], r["width"]))
        counts = sorted({n for r in own for n in r["seconds"]}, key=int)
        heads = ["model", "nodes", "width", *(f"{n} at once" for n in counts)]
        lines = [[r["model"], f"{r['nodes']:,}", str(r["width"]), *cells(r, counts)] for r in own]
        parts.append(f"{machine}: milliseconds of a step, for each run.")
        parts.append(common.markdown(heads, lines))
    return "\n\n".join(parts)


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--nodes", type=common.counts, default=[183, 500, 1000, 2000, 5000])
    parser.add_argument("--models", type=common.names(MODELS), default=list(MODELS))
    parser.add_argument("--widths", type=common.counts, default=[32, 64, 128])
    parser.add_argument("--runs", type=common.counts, default=[1, 2, 4, 8, 16])
    parser.add_argument("--rounds", type=int, default=5, help="of which the best counts")
    common.add_results_options(parser, "at_once.json")
    return parser.parse_args()


def main() -> None:
    options = read_options()
    rows = read_rows(options.results) if options.table else measure_missing(options)
    common.report(options, SCRIPT, table(rows))


if __name__ == "__main__":
    main()
