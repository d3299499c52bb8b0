"""The whole protocol, 10 splits trained and evaluated for 1000 steps: pdgnn and PyG side by side.

    python benchmarks/training.py --device cuda                    # what is not there yet
    python benchmarks/training.py --device cuda --precision tf32   # or bfloat16
    python benchmarks/training.py --device cpu                     # widths 64 and 512, one split
    python benchmarks/training.py --check                          # both compute the same
    python benchmarks/training.py --table                          # prints, measures nothing

PD-GCN and PD-GAT of depth 5 with the paper's α and γ. pdgnn trains by its trainer's own parts: on a
GPU all splits at once in a captured step, on a CPU one after another. The peer is the same network
of PyG's layers, trained split by split (benchmarks/peers.py); `pyg-sparse` gives GCNConv a
torch.sparse matrix in place of an edge_index. `pdgnn-workers` is train(workers=) on a CPU: a
process of one thread for each core, each with splits of its own. Every measurement has a process of
its own. Reading the graph and solving for φ are not timed; what comes before the clock
(compilation, capture, the first steps) is kept apart as ``warm_up_seconds``. The clock runs for
``--steps`` steps of each split and for ``--seconds`` in all at least; its seconds are scaled to 10
splits of 1000 steps.
Memory is the peak of torch.cuda.max_memory_allocated, or of resident memory above that before the
model was built. Rows are kept in ``results/training.json``; ``--readme`` copies the table into the
README.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

import common
from common import MODELS
from pdgnn.experiments.provenance import Row, read_rows

GRAPHS = ("chameleon-filtered", "squirrel-filtered", "minesweeper", "tolokers")
SIDES = ("pdgnn", "pdgnn-workers", "pyg", "pyg-sparse")
OURS = SIDES[:2]
SPLITS, STEPS = 10, 1000  # of the protocol
SCRIPT = "training.py"
PACKAGES = ("pdgnn", "torch", "torch-geometric", "triton", "numba", "numpy")
TINY = "minesweeper-generated:size=8,seed=0"


@dataclass(frozen=True)
class Case:
    """What is measured; a row of the same case and machine is not measured again."""

    graph: str
    model: str
    side: str
    device: str
    width: int
    depth: int
    precision: str


@dataclass(frozen=True)
class Clock:
    """How much of it is run: so many splits, each for `steps` at least, all for `seconds`."""

    steps: int
    splits: int
    seconds: float


def open_case(case: Case, graph: str) -> tuple[Any, Any]:
    """The task, and the inputs of the model."""
    from pdgnn.experiments.paper import scope
    from pdgnn.training import RunSpec, Task

    task = Task.open(graph)
    alpha, gamma = scope(MODELS[case.model], graph) or (0.5, 0.5)
    spec = RunSpec(dataset=graph, model=case.model, alpha=alpha, gamma=gamma)
    return task, common.model_inputs(task.graph, spec)


def our_steps(case: Case, task: Any, inputs: Any, splits: int) -> Iterator[tuple[Any, int]]:
    """A step that is ready to be timed, and how many splits it trains, group by group."""
    import torch

    from pdgnn.devices import at_most_threads
    from pdgnn.models import MODELS as REGISTRY
    from pdgnn.training.group import Group
    from pdgnn.training.loop import captured_step, runs_that_fit
    from pdgnn.training.spec import RunSpec

    device = torch.device(case.device)
    specs = [
        RunSpec(
            dataset=case.graph,
            model=case.model,
            depth=case.depth,
            width=case.width,
            split=split,
            seed=split,
            precision=case.precision,
        )
        for split in range(splits)
    ]

    def group(chunk: list[RunSpec]) -> Group:
        model = REGISTRY[case.model]
        return Group(chunk, model, task, [inputs] * len(chunk), device=device)

    at_once = 1
    if case.device == "cuda":
        at_once = runs_that_fit(lambda: group(specs[:1]), splits, device)
    for start in range(0, splits, at_once):
        made = group(specs[start : start + at_once])
        if case.device == "cuda":
            yield captured_step(made), len(made.specs)
        else:
            with at_most_threads(made.threads):
                made.train_step()
                yield made.train_step, 1
        del made


def peer_steps(case: Case, task: Any, inputs: Any, splits: int) -> Iterator[tuple[Any, int]]:
    """The same for the peer, split by split."""
    import torch

    import peers

    torch.set_float32_matmul_precision("high" if case.precision == "tf32" else "highest")
    sparse = case.side == "pyg-sparse"
    edges, on_edges = peers.net_inputs(inputs, case.device, sparse=sparse)
    for split in range(splits):
        torch.manual_seed(split)
        net = peers.Net(case.model, (task.x.shape[1], case.width, task.out_channels), case.depth)
        training = peers.Training(net, task, split, edges, on_edges)
        step = autocast(training.step, case) if case.precision == "bfloat16" else training.step
        for _ in range(3 if case.device == "cuda" else 1):
            step()
        yield step, 1
        del net, training, step


def autocast(step: Callable[[], Any], case: Case) -> Callable[[], Any]:
    """The step of a peer in bfloat16, as PyTorch has it."""
    import torch

    def cast() -> None:
        with torch.autocast(case.device, dtype=torch.bfloat16):
            step()

    return cast


def run_case(case: Case, task: Any, inputs: Any, clock: Clock) -> Row:
    """Seconds, scaled to the whole protocol, and what they were measured on."""
    make = our_steps if case.side in OURS else peer_steps
    begun = time.perf_counter()
    scaled, taken, splits, at_once, warm_up = 0.0, 0, 0, 0, None
    for step, size in make(case, task, inputs, clock.splits):
        common.wait(case.device)
        warm_up = time.perf_counter() - begun if warm_up is None else warm_up
        each, count = timed(step, clock.steps, clock.seconds * size / clock.splits, case.device)
        scaled += each * STEPS
        taken, splits, at_once = taken + count, splits + size, max(at_once, size)
        del step  # and with it the model, before the next one is built
    return {
        "seconds": scaled * SPLITS / splits,
        "warm_up_seconds": warm_up,
        "steps": taken,
        "splits": splits,
        "at_once": at_once,
    }


def timed(
    step: Callable[[], Any],
    steps: int,
    least: float,
    device: str,
    clock: Callable[[], float] = time.perf_counter,
) -> tuple[float, int]:
    """Seconds of one step, by the median of rounds of `steps` steps, and how many were taken."""
    rounds: list[float] = []
    while sum(rounds) < least or not rounds:
        begun = clock()
        for _ in range(steps):
            step()
        common.wait(device)
        rounds.append(clock() - begun)
    return median(rounds) / steps, steps * len(rounds)


def measure_here(case: Case, clock: Clock) -> Row:
    """One measurement in this process."""
    import torch

    task, inputs = open_case(case, case.graph)
    begun = time.perf_counter()
    if case.device == "cpu":  # compiles, so that it is not counted
        run_case(case, *open_case(case, TINY), Clock(1, 1, 0))
    compiled = time.perf_counter() - begun
    row: Row = {}
    before = common.held_bytes("cpu") if case.device == "cpu" else 0
    peak = common.peak_bytes(lambda: row.update(run_case(case, task, inputs, clock)), case.device)
    row["warm_up_seconds"] += compiled
    peak_mib = round((peak - before) / 2**20, 1)
    size = {"nodes": task.graph.num_nodes, "edges": task.graph.num_edges}
    return row | size | {"peak_mib": peak_mib, "threads": torch.get_num_threads()}


def table(rows: list[Row]) -> str:
    """What was measured, as Markdown: a table for each machine, device and precision."""
    kinds = dict.fromkeys((r["machine"], r["device"], r["precision"]) for r in rows)
    parts = []
    for kind in sorted(kinds, key=lambda k: (k[1] != "cuda", k[2], k[0])):
        own = [r for r in rows if (r["machine"], r["device"], r["precision"]) == kind]
        parts.append(f"{caption(own)}\n\n{one_table(own)}")
    return "\n\n".join(parts)


def caption(rows: list[Row]) -> str:
    first = rows[0]
    done = [r for r in rows if r["seconds"] is not None]
    steps = [r["steps"] // max(1, r["splits"] // r["at_once"]) for r in done]
    splits = sorted({r["splits"] for r in done})
    measured = f"{min(steps)} to {max(steps)} steps" if steps else "no steps"
    of_splits = f"{' or '.join(map(str, splits))} split{'' if splits == [1] else 's'}"
    return (
        f"{first['machine']} ({'GPU' if first['device'] == 'cuda' else 'CPU'}), "
        f"{first['precision']}, depth {first['depth']}: seconds for {SPLITS} splits of {STEPS} "
        f"steps, scaled from {measured} of {of_splits}."
    )


def one_table(rows: list[Row]) -> str:
    sides = [s for s in SIDES if any(r["side"] == s for r in rows)]
    heads = ["graph", "model", "width", *sides, "best peer / pdgnn"]
    heads += [f"{s} MiB" for s in sides] + ["pdgnn warm-up"]
    lines = []
    for graph in GRAPHS:
        for model, label in reversed(MODELS.items()):
            for width in sorted({r["width"] for r in rows}):
                same = {"graph": graph, "model": model, "width": width}
                found = {r["side"]: r for r in common.alike(rows, same)}
                if not found:
                    continue
                cells = [shown(found.get(s)) for s in sides]
                memory = [shown_memory(found.get(s)) for s in sides]
                warm_up = found.get("pdgnn", {}).get("warm_up_seconds")
                last = "" if warm_up is None else f"{warm_up:.3g}"
                lines.append([graph, label, str(width), *cells, ratio(found), *memory, last])
    return common.markdown(heads, lines)


def shown(row: Row | None) -> str:
    if row is None:
        return ""
    if row["seconds"] is not None:
        return f"{row['seconds']:.3g}" if row["seconds"] < 1000 else f"{row['seconds']:,.0f}"
    if "limit" in row:
        return f"stopped after {row['limit']:g} s"
    return "out of memory" if "memory" in row["note"] else "failed"


def shown_memory(row: Row | None) -> str:
    return f"{row['peak_mib']:,.0f}" if row and row["seconds"] is not None else ""


def ratio(found: dict[str, Row]) -> str:
    done = {s: r["seconds"] for s, r in found.items() if r["seconds"] is not None}
    peers = [seconds for s, seconds in done.items() if s not in OURS]
    own = [seconds for s, seconds in done.items() if s in OURS]
    return f"{min(peers) / min(own):.1f}" if peers and own else ""


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--graphs", default=",".join(GRAPHS))
    parser.add_argument("--models", type=common.names(MODELS), default=list(MODELS))
    parser.add_argument("--sides", type=common.names(SIDES), default=SIDES)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument(
        "--widths", type=common.counts, help="default: 512 on a GPU, 64,512 on a CPU"
    )
    parser.add_argument("--depth", type=int, default=5)
    parser.add_argument("--precision", choices=("float32", "tf32", "bfloat16"), default="float32")
    parser.add_argument("--steps", type=int, help="at least; default: 20 on a GPU, 2 on a CPU")
    parser.add_argument("--splits", type=int, help="default: 10 on a GPU, 1 on a CPU")
    parser.add_argument("--seconds", type=float, default=3.0, help="at least, of all splits")
    parser.add_argument("--limit", type=float, default=600.0, help="seconds for one measurement")
    parser.add_argument("--memory", type=float, default=16.0, help="GiB for one, on a CPU")
    common.add_results_options(parser, "training.json")
    parser.add_argument("--check", action="store_true", help="compare what both sides compute")
    parser.add_argument("--child", nargs=2, metavar=("CASE", "CLOCK"), help=argparse.SUPPRESS)
    return parser.parse_args()


def exists(model: str, side: str, device: str) -> bool:
    """GATConv takes no sparse matrix, and a GPU needs no workers."""
    return (model, side) != ("pd-gat", "pyg-sparse") and (
        (device, side) != ("cuda", "pdgnn-workers")
    )


def cases(options: argparse.Namespace) -> Iterator[Case]:
    """The two sides of a case one after the other."""
    widths = options.widths or ([512] if options.device == "cuda" else [64, 512])
    for graph in options.graphs.split(","):
        for model in options.models:
            for width in widths:
                for side in options.sides:
                    if exists(model, side, options.device):
                        yield Case(
                            *(graph, model, side, options.device),
                            *(width, options.depth, options.precision),
                        )


def measure_missing(options: argparse.Namespace) -> list[Row]:
    gpu = options.device == "cuda"
    steps = options.steps or (20 if gpu else 2)
    clock = Clock(steps, options.splits or (SPLITS if gpu else 1), options.seconds)

    def row(case: Case) -> Row:
        child = ["--child", json.dumps(asdict(case)), json.dumps(asdict(clock))]
        child += ["--memory", str(options.memory)]
        workers = os.cpu_count() or 1 if case.side == "pdgnn-workers" else 1
        found = in_children(child, options.limit, workers)
        found["command"] = (
            f"python benchmarks/{SCRIPT} --graphs {case.graph} --models {case.model} "
            f"--sides {case.side} --device {case.device} --widths {case.width} "
            f"--depth {case.depth} --precision {case.precision} "
            f"--steps {clock.steps} --splits {clock.splits}"
        )
        return found

    def say(case: Case, row: Row) -> str:
        name = f"{case.graph} {case.model} {case.width} {case.side}"
        return f"{name:45} {shown(row):>14}  {row.get('note', '')}"

    return common.measure_missing(options, cases(options), PACKAGES, row, say)


def in_children(child: list[str], limit: float, workers: int) -> Row:
    """A measurement in a process of its own, or in several with one thread each, at one time."""
    if workers == 1:
        return common.in_child(__file__, child, limit)
    single = {"OMP_NUM_THREADS": "1"}
    with ThreadPoolExecutor(workers) as pool:
        futures = [
            pool.submit(common.in_child, __file__, child, limit, single) for _ in range(workers)
        ]
        rows = [future.result() for future in futures]
    if any(row["seconds"] is None for row in rows):
        return next(row for row in rows if row["seconds"] is None)
    slowest = max(rows, key=lambda row: float(row["seconds"]))
    total = {"seconds": slowest["seconds"] / workers, "at_once": workers}
    return slowest | total | {"peak_mib": round(sum(row["peak_mib"] for row in rows), 1)}


def main() -> None:
    options = read_options()
    if options.child:
        case, clock = (json.loads(text) for text in options.child)
        if case["device"] == "cpu":  # an allocation that fails, before the machine runs out
            limit = int(options.memory * 2**30)
            resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        print(json.dumps(measure_here(Case(**case), Clock(**clock))))
        return
    if options.check:
        options.widths = options.widths or [64]
        import peers

        found = (c for c in cases(options) if c.side not in OURS)
        same = [peers.check(case, *open_case(case, case.graph)) for case in found]
        raise SystemExit(0 if all(same) else 1)
    rows = read_rows(options.results) if options.table else measure_missing(options)
    common.report(options, SCRIPT, table(rows))


if __name__ == "__main__":
    main()
