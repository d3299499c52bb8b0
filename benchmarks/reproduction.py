"""The paper's tables made anew, with the whole protocol: 10 splits, 1000 steps.

    python benchmarks/reproduction.py --device cuda --minutes 25   # runs what is missing
    python benchmarks/reproduction.py --datasets minesweeper --models "GCN,PD-GAT (rewired)"
    python benchmarks/reproduction.py --merge other/results.jsonl  # adds runs of another machine
    python benchmarks/reproduction.py --table                      # prints it, runs nothing

Finished runs are kept in ``results/reproduction/results.jsonl``, and every call that trained some
in ``meta.json`` beside it, with its machine, versions, command, date and seconds. A call that was
stopped goes on where it was. ``--docs`` copies the table into ``docs/reproduction.md``.
"""

from __future__ import annotations

import argparse
import re
import shlex
import sys
import time
from pathlib import Path

import common
from pdgnn.errors import InputError
from pdgnn.experiments.provenance import call, machine, read_rows, write_rows
from pdgnn.experiments.reproduction import (
    Cell,
    cell_specs,
    finished_specs,
    markdown,
    merge_results,
    paper_plan,
)
from pdgnn.training import RunSpec, Task, train
from pdgnn.training.checkpoint import RunFolder

SCRIPT = "reproduction.py"
PLANS = {"paper": paper_plan}


class Work:
    """The cells of a plan, and the folder of what is finished."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.cells = chosen_cells(options)
        self.folder = Path(options.folder)

    def specs(self, c: Cell) -> list[RunSpec]:
        steps, precision = self.options.steps, self.options.precision
        return cell_specs(c.model, c.dataset, c.depth, steps=steps, precision=precision)

    def missing(self) -> list[Cell]:
        done = RunFolder(self.folder).results()
        return [c for c in self.cells if any(spec.key not in done for spec in self.specs(c))]

    def table(self) -> str:
        results = RunFolder(self.folder).results()
        steps = self.options.steps
        return markdown(
            self.cells, results, specs_of=lambda c: finished_specs(c, results, steps=steps)
        )

    def unfinished(self) -> list[Cell]:
        """The cells that no precision has all runs of."""
        done = RunFolder(self.folder).results()
        steps = self.options.steps
        return [
            c
            for c in self.cells
            if any(spec.key not in done for spec in finished_specs(c, done, steps=steps))
        ]

    def run(self) -> None:
        """Train cell by cell until all are there or the minutes are over."""
        begun, tasks = time.perf_counter(), dict[str, Task]()
        meta = read_rows(self.folder / "meta.json")
        here = machine() | call(command(), self.options.device) | {"cells": []}
        for c in self.missing():
            if time.perf_counter() - begun > 60 * self.options.minutes:
                break
            try:
                if c.dataset not in tasks:
                    tasks = {c.dataset: Task.open(c.dataset)}
                seconds = self.train_cell(c, tasks)
            except InputError as error:  # the others may still run
                print(f"{name_of(c)}: {error}", flush=True)
                continue
            here["cells"].append({**vars(c), "seconds": round(seconds, 1)})
            here["seconds"] = round(time.perf_counter() - begun, 1)
            write_rows(self.folder / "meta.json", [*meta, here])

    def train_cell(self, c: Cell, tasks: dict[str, Task]) -> float:
        begun = time.perf_counter()
        results = train(self.specs(c), tasks=tasks, device=self.options.device, folder=self.folder)
        seconds = time.perf_counter() - begun
        mean = sum(r.test for r in results) / len(results)
        print(f"{name_of(c):55} {100 * mean:6.2f} {seconds:8.1f} s", flush=True)
        return seconds

    def merge(self, file: Path) -> None:
        added = merge_results(RunFolder(self.folder), file)
        print(f"{added} runs added from {file}")
        here, there = self.folder / "meta.json", file.with_name("meta.json")
        if there.exists() and there.resolve() != here.resolve():
            known = read_rows(here)
            new = [row for row in read_rows(there) if row not in known]
            write_rows(here, known + new)


def command() -> str:
    """What was called, wherever it kept its results."""
    given = shlex.join(["python", f"benchmarks/{SCRIPT}", *sys.argv[1:]])
    return re.sub(r" --folder[ =]\S+", "", given)


def name_of(c: Cell) -> str:
    return f"{c.model} on {c.dataset} at depth {c.depth}"


def chosen_cells(options: argparse.Namespace) -> list[Cell]:
    """The cells of the plan that the filters leave."""
    cells = PLANS[options.plan]()
    for field in ("dataset", "model", "depth"):
        given = getattr(options, f"{field}s")
        if given is None:
            continue
        known = {str(getattr(c, field)) for c in PLANS[options.plan]()}
        wanted = [part.strip() for part in given.split(",")]
        unknown = [part for part in wanted if part not in known]
        if unknown:
            raise InputError(
                f"the plan has no {field} {', '.join(unknown)}; it has {', '.join(sorted(known))}"
            )
        cells = [c for c in cells if str(getattr(c, field)) in wanted]
    return cells


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--plan", choices=PLANS, default="paper")
    parser.add_argument("--datasets", help="of the plan, separated by commas; default: all")
    parser.add_argument("--models", help="as the paper names them, separated by commas")
    parser.add_argument("--depths", help="separated by commas")
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--precision", default="float32")
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument("--folder", type=Path, default=common.RESULTS / "reproduction")
    parser.add_argument(
        "--minutes", type=float, default=float("inf"), help="begin no cell after so many"
    )
    parser.add_argument("--merge", type=Path, metavar="FILE.jsonl", help="add these runs first")
    parser.add_argument("--table", action="store_true", help="print what there is, run nothing")
    parser.add_argument("--docs", action="store_true", help="copy the table into the docs")
    return parser.parse_args()


def main() -> None:
    options = read_options()
    work = Work(options)
    if options.merge:
        work.merge(options.merge)
    elif not options.table:
        work.run()
    print(work.table())
    if left := work.unfinished():
        print(f"\n{len(left)} of {len(work.cells)} cells are missing:")
        print(*(name_of(c) for c in left), sep="\n")
    if options.docs:
        common.copy_to_readme(SCRIPT, work.table(), common.ROOT / "docs" / "reproduction.md")


if __name__ == "__main__":
    try:
        main()
    except InputError as error:
        raise SystemExit(f"error: {error}") from None
