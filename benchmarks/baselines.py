"""The fourteen published systems: ten splits at once against the same method split by split.

    python benchmarks/baselines.py --device cuda                      # what is not there yet
    python benchmarks/baselines.py --datasets chameleon-filtered      # on a CPU
    python benchmarks/baselines.py --table                            # prints, measures nothing

The settings of a system are the middle ones of its grid (pdgnn.baselines.grids). Where PyG has the
method (APPNP, FAGCN, LINKX) the peer is a plain loop with PyG's layers and torch's optimizer
(benchmarks/system_peers.py), elsewhere the same model trained by itself, as ``train(most_runs=1)``
does: on a GPU its step is captured too, on a CPU without vmap. Both sides train and evaluate at
every step. What is made once for a graph is not timed, nor are the first steps. The clock (on a CPU
that of the processor, one thread of it) runs for ``--steps`` steps at a time and ``--seconds`` in
all at least, of as many splits as train at once; its seconds are scaled to ten splits of the steps
that the grid names. Memory is the peak above what was held before the module was built: of
torch.cuda.max_memory_allocated, or of resident memory. Rows are kept in
``results/baselines.json``; ``--readme docs/models.md`` copies the table there.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import common
from pdgnn.baselines.grids import GRIDS, grid
from pdgnn.experiments.provenance import Row, read_rows
from pdgnn.models import MODELS
from training import timed

SCRIPT = "baselines.py"
DATASETS = ("chameleon-filtered", "squirrel-filtered", "minesweeper", "tolokers")
SPLITS = 10
PACKAGES = ("pdgnn", "torch", "torch-geometric", "triton", "numba", "numpy")
LABELS = {name: str(MODELS[name].name) for name in GRIDS}


@dataclass(frozen=True)
class Case:
    """What is measured; a row of the same case and machine is not measured again."""

    graph: str
    model: str
    device: str


@dataclass(frozen=True)
class Clock:
    """Steps of a round, and seconds of all rounds at least."""

    steps: int
    seconds: float


def specs_of(case: Case) -> list[Any]:
    """The runs of ten splits, with all options."""
    from pdgnn.training.spec import RunSpec, resolved

    settings = grid(case.model, case.graph)
    fields = settings[len(settings) // 2]
    model = MODELS[case.model]
    return [
        resolved(RunSpec(dataset=case.graph, model=case.model, split=s, seed=s, **fields), model)
        for s in range(SPLITS)
    ]


def our_step(case: Case, task: Any, given: list[Any], runs: int | None) -> tuple[Any, int]:
    """A step of the first so many splits, ready to be timed; None: as many as train at once."""
    import torch

    from pdgnn.training.cost import runs_at_once
    from pdgnn.training.group import Group
    from pdgnn.training.loop import captured_step, runs_that_fit

    specs, device = specs_of(case), torch.device(case.device)

    def group(count: int) -> Group:
        return Group(specs[:count], MODELS[case.model], task, given[:count], device=device)

    if case.device == "cpu":
        made = group(runs or runs_at_once(specs[0], task, SPLITS))
        made.train_step()
        return made.train_step, len(made.specs)
    made = group(runs or runs_that_fit(lambda: group(1), SPLITS, device))
    return captured_step(made), len(made.specs)


def peer_step(case: Case, task: Any, given: list[Any]) -> tuple[Any, int]:
    """The same of one split by the peer."""
    import system_peers

    if case.model not in system_peers.NETS:
        return our_step(case, task, given, 1)
    step = system_peers.training(specs_of(case)[0], task, case.device).step
    for _ in range(common.WARM_UP):
        step()
    return step, 1


def side(case: Case, clock: Clock, make: Callable[[], tuple[Any, int]]) -> Row:
    """Seconds of ten splits, splits at once and peak memory of one side."""

    def run() -> Row:
        found: Row = {}

        def call() -> None:
            begun = time.perf_counter()
            step, runs = make()
            common.wait(case.device)
            found["warm_up_seconds"] = time.perf_counter() - begun
            of = time.process_time if case.device == "cpu" else time.perf_counter
            each, _ = timed(step, clock.steps, clock.seconds, case.device, of)
            found["seconds"] = each * specs_of(case)[0].steps * SPLITS / runs
            found["at_once"] = runs

        common.free(case.device)
        before = common.held_bytes(case.device)
        peak = common.peak_bytes(call, case.device)
        return found | {"peak_mib": round((peak - before) / 2**20, 1)}

    return common.attempt(run, case.device)


def measure(case: Case, clock: Clock) -> Row:
    """Both sides, one after the other."""
    import system_peers
    from pdgnn.devices import at_most_threads
    from pdgnn.training import Task
    from pdgnn.training.group import dtype_of
    from pdgnn.training.inputs import InputCache

    task = Task.open(case.graph)
    cache = InputCache({case.graph: task}, {})
    given = [cache.get(spec, dtype_of(spec)) for spec in specs_of(case)]
    with at_most_threads(1):  # of a CPU; it is what train takes for graphs so small
        ours = side(case, clock, lambda: our_step(case, task, given, None))
        theirs = side(case, clock, lambda: peer_step(case, task, given))
    spec = specs_of(case)[0]
    return ours | {
        "peer": "PyG" if case.model in system_peers.NETS else "one by one",
        **{f"peer_{name}": theirs.get(name) for name in ("seconds", "peak_mib", "note")},
        **{name: getattr(spec, name) for name in ("width", "depth", "steps", "precision")},
        "options": dict(spec.options),
        "command": f"python benchmarks/{SCRIPT} --datasets {case.graph} --models {case.model} "
        f"--device {case.device} --steps {clock.steps} --seconds {clock.seconds:g}",
    }


def table(rows: list[Row]) -> str:
    """What was measured, as Markdown: a table for each machine and device, GPUs first."""
    kinds = dict.fromkeys((r["device"] != "cuda", r["machine"]) for r in rows)
    parts = []
    for kind in sorted(kinds):
        own = [r for r in rows if (r["device"] != "cuda", r["machine"]) == kind]
        where = "processor time of one thread" if kind[0] else "GPU"
        parts.append(f"{kind[1]} ({where}), seconds of ten splits:\n\n{one_table(own)}")
    return "\n\n".join(parts)


def one_table(rows: list[Row]) -> str:
    heads = ["graph", "model", "steps", "splits at once", "pdgnn", "peer", "which"]
    heads += ["peer / pdgnn", "pdgnn MiB", "peer MiB"]
    graphs, models = list(dict.fromkeys(r["graph"] for r in rows)), list(GRIDS)
    ordered = sorted(rows, key=lambda r: (graphs.index(r["graph"]), models.index(r["model"])))
    return common.markdown(heads, [line(row) for row in ordered])


def line(row: Row) -> list[str]:
    own, peer = row["seconds"], row["peer_seconds"]
    memory = [row.get("peak_mib"), row["peer_peak_mib"]]
    return [
        *(row["graph"], LABELS[row["model"]], str(row["steps"]), str(row.get("at_once", ""))),
        common.number(own) if own else row["note"],
        common.number(peer) if peer else row["peer_note"],
        row["peer"],
        f"{peer / own:.1f}" if own and peer else "",
        *("" if mib is None else f"{mib:,.0f}" for mib in memory),
    ]


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--datasets", default=",".join(DATASETS))
    parser.add_argument("--models", type=common.names(LABELS), default=list(LABELS))
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--steps", type=int, help="of a round; default: 20 on a GPU, 2 on a CPU")
    parser.add_argument("--seconds", type=float, default=1.0, help="of all rounds, at least")
    common.add_results_options(parser, "baselines.json")
    return parser.parse_args()


def main() -> None:
    options = read_options()
    clock = Clock(options.steps or (20 if options.device == "cuda" else 2), options.seconds)
    if options.table:
        rows = read_rows(options.results)
    else:
        cases = [
            Case(graph, model, options.device)
            for graph in options.datasets.split(",")
            for model in options.models
        ]
        rows = common.measure_missing(
            options,
            cases,
            PACKAGES,
            lambda case: measure(case, clock),
            lambda case, row: " | ".join(line(row)),
        )
    common.report(options, SCRIPT, table(rows))


if __name__ == "__main__":
    main()
