"""Where the time of a training step goes on a GPU, kernel by kernel.

    python benchmarks/step.py --device cuda                       # what is not there yet
    python benchmarks/step.py --graphs minesweeper --models pd-gat --precisions bfloat16 --again
    python benchmarks/step.py --models pd-net --graphs minesweeper --precisions tf32
    python benchmarks/step.py --table                             # prints, measures nothing

A step is that of the trainer: ten splits at once, trained, evaluated and kept account of, captured
as one CUDA graph, depth 5 and width 512. Milliseconds are those of a replay, by the clock; what
each kind of kernel takes of it is what torch.profiler saw of one more replay, and the rest is time
between kernels. Rows are kept in ``results/step.json``; ``--readme FILE`` copies the table.

PD-Net, if it is asked for, has 2 layers in 20 rounds and width 64. Beside its step stands a floor:
the bytes that must be moved, by the rate of a copy, or its multiplications, by the rate of a large
product, whichever takes longer.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import common
from common import MODELS
from pdgnn.experiments.provenance import Row, read_rows

SCRIPT = "step.py"
PACKAGES = ("pdgnn", "torch", "triton")
GRAPHS = ("chameleon-filtered", "squirrel-filtered", "minesweeper", "tolokers")
RUNS = 10
SCOPE: dict[str, Any] = {"alpha": 0.5, "gamma": 0.5}
KINDS = {
    "matrix products": ("gemm", "gemv", "nvjet", "cutlass", "splitk", "over_nodes"),
    "messages": ("attend", "spmm", "sddmm", "hub_chunks"),
    "bias, dropout, GELU, residual": ("activate", "dropout"),
    "norms": ("layer_norm", "batch_norm", "batch_moments", "batch_statistics"),
    "scores of nodes": ("score_nodes",),
    "AdamW": ("adamw",),
}
OTHER = "other"
STEP_MODELS = {**MODELS, "pd-net": "PD-Net"}
PASSES = 29
"""Times that a state of all runs is read or written for a layer of PD-Net, at the least.

A forward pass reads h, writes what is sent, reads it, h and what h0 adds, writes x, reads it for
the norm and writes h: 8, and as many in evaluation. The backward pass reads ∂h and x for the sums
of the norm (2), again to write ∂x (3), sends that back (2), makes ∂h of both and, with h, the
gradients of weights (4), and adds to the gradient of h0 (2).
"""
PRODUCTS = 8
"""Matrix products [N, D] × [D, D] of such a layer: 2 forward, 4 backward, 2 in evaluation."""


@dataclass(frozen=True)
class Case:
    """What is measured; a row of the same case and machine is not measured again."""

    graph: str
    model: str
    precision: str
    device: str
    depth: int = 5
    width: int = 512

    @property
    def options(self) -> dict[str, Any]:
        """Those of the model."""
        return {}


@dataclass(frozen=True)
class NetCase(Case):
    """The same of PD-Net."""

    depth: int = 2
    width: int = 64
    rounds: int = 20

    @property
    def options(self) -> dict[str, Any]:
        """Those of the model."""
        return {"rounds": self.rounds, "inject": True}


def kind_of(kernel: str) -> str:
    """The kind of a kernel, by its name.

    >>> kind_of("attend_backward"), kind_of("nvjet_sm90_tst_128x304"), kind_of("Memset (Device)")
    ('messages', 'matrix products', 'other')
    """
    name = kernel.lower()
    return next((kind for kind, parts in KINDS.items() if any(p in name for p in parts)), OTHER)


def by_kind(kernels: Iterable[tuple[str, float, int]]) -> dict[str, dict[str, float]]:
    """Milliseconds and launches of each kind, from (name, milliseconds, launches)."""
    found = {kind: {"ms": 0.0, "launches": 0} for kind in (*KINDS, OTHER)}
    for name, ms, launches in kernels:
        found[kind_of(name)]["ms"] += ms
        found[kind_of(name)]["launches"] += launches
    return found


def measure(case: Case, least: float) -> Row:
    import torch

    from pdgnn.models import MODELS as REGISTRY
    from pdgnn.training import RunSpec, Task
    from pdgnn.training.group import Group
    from pdgnn.training.loop import captured_step
    from pdgnn.training.spec import resolved

    task, model = Task.open(case.graph), REGISTRY[case.model]
    sizes: dict[str, Any] = {"depth": case.depth, "width": case.width, "precision": case.precision}
    sizes["options"] = case.options
    specs = [
        resolved(
            RunSpec(dataset=case.graph, model=case.model, split=i, seed=i, **SCOPE, **sizes), model
        )
        for i in range(RUNS)
    ]
    inputs = [common.model_inputs(task.graph, specs[0])] * RUNS
    step = captured_step(Group(specs, model, task, inputs, device=torch.device(case.device)))
    row: Row = {"seconds": common.seconds_of(step, case.device, least=least)}
    row["kinds"] = by_kind(profiled(step))
    if isinstance(case, NetCase):
        row["floor"] = floor(case, task.graph.num_nodes) | rates(case, least)
    return row


def floor(case: NetCase, nodes: int) -> dict[str, float]:
    """Bytes that a step moves and multiplications that it does, at the least.

    >>> floor(NetCase("minesweeper", "pd-net", "tf32", "cuda"), 10_000)["bytes"] / 2**30
    27.65...
    """
    layers, state = case.depth * case.rounds, nodes * case.width * RUNS
    bytes_each = 2 if case.precision == "bfloat16" else 8 if case.precision == "float64" else 4
    return {
        "bytes": layers * PASSES * state * bytes_each,
        "products": layers * PRODUCTS * state * case.width,
    }


def rates(case: Case, least: float) -> dict[str, float]:
    """Bytes of a copy, and multiplications of a large product, in a second."""
    import torch

    from pdgnn.training.group import matmul_precision

    wanted = {"bfloat16": torch.bfloat16, "float64": torch.float64}
    a = torch.ones(8192, 8192, device=case.device, dtype=wanted.get(case.precision, torch.float32))
    with matmul_precision(case.precision):
        seconds = common.seconds_of(lambda: a @ a, case.device, least=least, queued=True)
    return {"copy": common.copy_rate(case.device, 1.0, least), "product": 8192**3 / seconds}


def profiled(step: Any) -> Iterator[tuple[str, float, int]]:
    """The kernels of one step."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA]) as seen:
        step()
        torch.cuda.synchronize()
    for event in seen.key_averages():
        if event.self_device_time_total:
            yield event.key, event.self_device_time_total / 1000, event.count


def cases(options: argparse.Namespace) -> Iterator[Case]:
    for graph in options.graphs.split(","):
        for model in options.models:
            for precision in options.precisions:
                kind = NetCase if model == "pd-net" else Case
                yield kind(graph, model, precision, options.device)


def measure_missing(options: argparse.Namespace) -> list[Row]:
    def row(case: Case) -> Row:
        found = common.attempt(partial(measure, case, options.least), case.device)
        found["command"] = (
            f"python benchmarks/{SCRIPT} --device {case.device} --graphs {case.graph} "
            f"--models {case.model} --precisions {case.precision}"
        )
        return found

    def say(case: Case, row: Row) -> str:
        return f"{case.graph} {case.model} {case.precision} {row.get('note', '')}"

    return common.measure_missing(options, cases(options), PACKAGES, row, say)


def table(rows: list[Row]) -> str:
    """What was measured, as Markdown, for each machine."""
    heads = ["graph", "model", "type", "ms", *KINDS, OTHER, "between", "launches"]
    parts = []
    for machine in sorted({r["machine"] for r in rows}):
        own = [r for r in common.alike(rows, {"machine": machine}) if r["seconds"] is not None]
        parts.append(f"{machine}: milliseconds of a step of {RUNS} runs, and of what.")
        parts.append(common.markdown(heads, [cells(r) for r in own]))
        parts += [floor_line(r) for r in own if "floor" in r]
    return "\n\n".join(parts)


def floor_line(row: Row) -> str:
    """How far the step of PD-Net is from its floor."""
    found, ms = row["floor"], 1000 * row["seconds"]
    by_bytes = 1000 * found["bytes"] / found["copy"]
    by_products = 1000 * found["products"] / found["product"]
    least = max(by_bytes, by_products)
    return (
        f"PD-Net, {row['depth']} layers × {row['rounds']} rounds, {row['graph']}, "
        f"{row['precision']}: {common.number(ms)} ms, {ms / least:.1f} times the floor of "
        f"{common.number(least)} ms (bytes {common.number(by_bytes)}, products "
        f"{common.number(by_products)})."
    )


def cells(row: Row) -> list[str]:
    kinds = [row["kinds"][kind] for kind in (*KINDS, OTHER)]
    whole = 1000 * row["seconds"]
    between = max(0.0, whole - sum(k["ms"] for k in kinds))
    times = [common.number(ms) for ms in (whole, *(k["ms"] for k in kinds), between)]
    names = [row["graph"], STEP_MODELS[row["model"]], row["precision"]]
    return [*names, *times, f"{sum(k['launches'] for k in kinds):.0f}"]


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--device", choices=("cuda",), default="cuda")
    parser.add_argument("--graphs", default=",".join(GRAPHS))
    parser.add_argument("--models", type=common.names(STEP_MODELS), default=list(MODELS))
    precisions = common.names(common.PRECISIONS)
    parser.add_argument("--precisions", type=precisions, default="bfloat16")
    parser.add_argument("--least", type=float, default=0.2, help="seconds of a measurement")
    common.add_results_options(parser, "step.json")
    return parser.parse_args()


def main() -> None:
    options = read_options()
    rows = read_rows(options.results) if options.table else measure_missing(options)
    common.report(options, SCRIPT, table(rows))


if __name__ == "__main__":
    main()
