"""How long a results store takes that has many finished runs: milliseconds of what a training asks.

    python benchmarks/store.py                    # what is not there yet
    python benchmarks/store.py --runs 1000000
    python benchmarks/store.py --table            # prints, measures nothing

The store has so many finished runs of a grid over (α, γ), depths, splits and seeds. Measured are,
each on its own and the median of several rounds: opening it, asking which of 605 settings on ten
splits are missing (half of them are), adding ten runs to it, and claiming a group of ten. What is
added is new each time. Beside the time stands what of it is work of the processor: the rest is the
disk, and other work on the machine. Rows are kept in ``results/store.json``.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count, islice, product
from pathlib import Path
from statistics import median

import common
from pdgnn.experiments.provenance import Row, read_rows
from pdgnn.training import RunResult, RunSpec
from pdgnn.training.store import Store

SCRIPT = "store.py"
PACKAGES = ("pdgnn",)
DATA = {"chameleon-filtered": "0123456789abcdef01234567"}
GRID = [i / 10 for i in range(11)]
SPLITS, GROUP = 10, 10


@dataclass(frozen=True)
class Case:
    """What is measured; a row of the same case and machine is not measured again."""

    runs: int


def specs(first_seed: int = 0) -> Iterator[RunSpec]:
    """All cells of the grid, on all splits, with one seed after another."""
    name = next(iter(DATA))
    for seed in count(first_seed):
        for depth, alpha, gamma, split in product(range(1, 6), GRID, GRID, range(SPLITS)):
            yield RunSpec(
                dataset=name,
                model="pd-gat",
                depth=depth,
                alpha=alpha,
                gamma=gamma,
                split=split,
                seed=seed,
            )


def results(runs: Iterator[RunSpec], number: int) -> list[RunResult]:
    return [RunResult(spec, 0.5, 0.4, 300, 1000, 0.7) for spec in islice(runs, number)]


def asked() -> list[tuple[str, str]]:
    """605 settings on ten splits: half of the runs of seed 0, and half of a seed that none has."""
    data, half = next(iter(DATA.values())), len(GRID) ** 2 * 5 * SPLITS // 2
    there, not_there = islice(specs(), half), islice(specs(10**6), half)
    return [(data, spec.key) for spec in (*there, *not_there)]


@contextmanager
def clock(seconds: list[tuple[float, float]]) -> Iterator[None]:
    """Add what the block takes, and what of it is work of the processor."""
    begun, worked = time.perf_counter(), time.process_time()
    yield
    seconds.append((time.perf_counter() - begun, time.process_time() - worked))


def measure(case: Case, rounds: int) -> Row:
    """Seconds of each, the median of so many rounds."""
    found: dict[str, list[tuple[float, float]]]
    found = {"open": [], "missing": [], "add": [], "claim": []}
    wanted, data = asked(), next(iter(DATA.values()))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "runs.sqlite")
        with Store(path) as store:
            store.add(results(specs(), case.runs), DATA)
        size, fresh = path.stat().st_size, specs(10**7)
        for i in range(rounds):
            new, group = results(fresh, GROUP), results(fresh, GROUP)
            keys = [(data, r.spec.key) for r in group]
            with clock(found["open"]):
                store = Store(path)
            with store:
                with clock(found["missing"]):
                    missing = store.missing(wanted)
                assert len(missing) == len(wanted) - min(len(wanted) // 2, case.runs)
                with clock(found["add"]):
                    store.add(new, DATA)
                with clock(found["claim"]):
                    granted = store.claim(keys, f"owner {i}", lambda _: True)
                assert len(granted) == GROUP
    return {
        "seconds": {n: median(wall for wall, _ in each) for n, each in found.items()},
        "processor_seconds": {n: median(work for _, work in each) for n, each in found.items()},
        "bytes": size,
    }


def measure_missing(options: argparse.Namespace) -> list[Row]:
    def row(case: Case) -> Row:
        command = f"python benchmarks/{SCRIPT} --runs {case.runs} --rounds {options.rounds}"
        found = common.attempt(lambda: measure(case, options.rounds), "cpu")
        return found | {"command": command}

    def say(case: Case, row: Row) -> str:
        return f"{case.runs} runs: {row.get('note') or row['seconds']}"

    return common.measure_missing(options, map(Case, options.runs), PACKAGES, row, say)


def table(rows: list[Row]) -> str:
    """Milliseconds, as Markdown."""
    heads = ["runs", "MB", "open", "what is missing of 6,050", "add 10", "claim 10", "machine"]
    lines = []
    for r in sorted((r for r in rows if r["seconds"] is not None), key=lambda r: r["runs"]):
        both = [(s, r["processor_seconds"][n]) for n, s in r["seconds"].items()]
        each = [f"{common.number(1000 * s)} ({common.number(1000 * p)})" for s, p in both]
        lines.append([f"{r['runs']:,}", f"{r['bytes'] / 1e6:.0f}", *each, r["machine"]])
    return f"Milliseconds (those of the processor), medians.\n\n{common.markdown(heads, lines)}"


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=common.counts, default=[100_000])
    parser.add_argument("--rounds", type=int, default=21, help="of which the median counts")
    common.add_results_options(parser, "store.json")
    return parser.parse_args()


def main() -> None:
    options = read_options()
    rows = read_rows(options.results) if options.table else measure_missing(options)
    common.report(options, SCRIPT, table(rows))


if __name__ == "__main__":
    main()
