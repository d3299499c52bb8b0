"""PDClassifier under a time budget, beside single kinds of models under the same one.

python benchmarks/classifier.py                                   # what is missing in results/
python benchmarks/classifier.py --graphs cora --splits 0,1 --minutes 2
python benchmarks/classifier.py --graphs synthetic-50000 --models auto --minutes 2
python benchmarks/classifier.py --table

Every fit is a process of its own, with two threads, and is scored on the test part of one fixed
split. Each single kind (logistic regression, MLP, boosted trees without the graph, GCN, pd-trees)
has its settings chosen by validation too, and the same minutes. Synthetic graphs show time and
memory.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import common
from pdgnn.experiments.provenance import Row, read_rows
from pdgnn.training.summary import mean_std

GRAPHS = ("chameleon-filtered", "squirrel-filtered", "minesweeper", "cora", "pubmed")
SYNTHETIC = {f"synthetic-{n}": n for n in (1_000, 10_000, 50_000)}
MODELS = {
    "auto": "PDClassifier",
    "logistic": "logistic regression",
    "mlp": "MLP",
    "trees": "boosted trees",
    "gcn": "GCN",
    "pd-trees": "trees on diffused features",
}
PACKAGES = ("pdgnn", "torch", "scikit-learn", "lightgbm", "numpy", "scipy", "numba")
TWO_THREADS = dict.fromkeys(("OMP_NUM_THREADS", "NUMBA_NUM_THREADS", "MKL_NUM_THREADS"), "2")


@dataclass(frozen=True)
class Case:
    """A fit."""

    graph: str
    split: int
    minutes: float
    model: str


def fit(case: Case) -> Row:
    """Fit and score, in this process."""
    from pdgnn import PDClassifier, datasets
    from pdgnn.report.fitted import fitted_page

    name = case.graph
    if name in SYNTHETIC:
        name = f"synthetic:num_nodes={SYNTHETIC[name]},homophily=0.1,feature_std=0.9,seed=7"
    data = datasets.load(name)
    begun = time.perf_counter()
    clf = PDClassifier(model=case.model, minutes=case.minutes, device="cpu")
    clf.fit(data, split=case.split)
    seconds = time.perf_counter() - begun
    e, peak = clf.estimate_, common.process_bytes("VmHWM")
    page = fitted_page(clf) if case.graph in SYNTHETIC else ""
    return {
        "seconds": seconds,
        "test": e.score,
        "low": e.low,
        "high": e.high,
        "val": clf.leaderboard_[0]["val"],
        "metric": e.metric,
        "chosen": clf.leaderboard_[0]["name"],
        "tried": len(clf.leaderboard_),
        "notes": clf.notes_,
        "peak_bytes": peak,
        "page_bytes": len(page.encode()) or None,
        "cores": len(os.sched_getaffinity(0)),
    }


def measure(case: Case) -> Row:
    """The same in a process of its own; it is stopped if it takes twice its time."""
    argument = ["--child", json.dumps(asdict(case))]
    return common.in_child(__file__, argument, 120 * case.minutes + 60, TWO_THREADS)


def say(case: Case, row: Row) -> str:
    if row["seconds"] is None:
        return f"{case}: {row['note']}"
    return f"{case}: {100 * row['test']:.2f} in {row['seconds']:.0f} s, {row['chosen']}"


def score_table(rows: Sequence[Row]) -> str:
    """Test scores, mean and standard error over the splits that all models were fitted on."""
    lines = []
    for graph in GRAPHS:
        for minutes in sorted({r["minutes"] for r in rows if r["graph"] == graph}):
            same = {"graph": graph, "minutes": minutes}
            found = {
                (r["model"], r["split"]): r
                for r in common.alike(rows, same)
                if r["seconds"] is not None
            }
            here = [m for m in MODELS if any(model == m for model, _ in found)]
            splits = [s for s in range(10) if all((m, s) in found for m in here)]
            if not splits:
                continue
            cells = [_cell([found[m, s] for s in splits]) if m in here else "" for m in MODELS]
            lines.append([graph, f"{minutes:g}", str(len(splits)), *cells])
    return common.markdown(["graph", "minutes", "splits", *MODELS.values()], lines)


def _cell(rows: Sequence[Row]) -> str:
    mean, std = mean_std(r["test"] for r in rows)
    if len(rows) == 1:
        return f"{100 * mean:.1f}"
    return f"{100 * mean:.1f} ± {100 * std / len(rows) ** 0.5:.1f}"


def size_table(rows: Sequence[Row]) -> str:
    """Seconds and memory of the whole portfolio on generated graphs."""
    lines = [
        [
            f"{SYNTHETIC[r['graph']]:,}",
            f"{r['minutes']:g}",
            f"{r['seconds']:.0f}",
            f"{r['peak_bytes'] / 2**20:,.0f}",
            f"{r['page_bytes'] / 1000:,.0f}" if r.get("page_bytes") else "",
            f"{100 * r['test']:.1f}",
            r["chosen"],
        ]
        for graph in SYNTHETIC
        for r in sorted(common.alike(rows, {"graph": graph}), key=lambda r: float(r["minutes"]))
        if r["seconds"] is not None
    ]
    return common.markdown(
        ["nodes", "minutes", "seconds", "MiB", "page, kB", "accuracy", "chosen"], lines
    )


def cases(options: argparse.Namespace) -> list[Case]:
    found = []
    for graph in options.graphs:
        for minutes in options.minutes:
            for split in options.splits:
                models = options.models if graph in GRAPHS else ["auto"]
                found += [Case(graph, split, minutes, model) for model in models]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--graphs", type=common.names((*GRAPHS, *SYNTHETIC)), default=[*GRAPHS])
    parser.add_argument("--models", type=common.names(MODELS), default=[*MODELS])
    parser.add_argument("--splits", type=common.counts, default=[0, 1, 2])
    parser.add_argument("--minutes", type=lambda t: [float(m) for m in t.split(",")], default=[2.0])
    parser.add_argument("--child", help=argparse.SUPPRESS)
    common.add_results_options(parser, "classifier.json")
    options = parser.parse_args()
    if options.child:
        print(json.dumps(fit(Case(**json.loads(options.child)))))
        return
    rows = read_rows(options.results)
    if not options.table:
        rows = common.measure_missing(options, cases(options), PACKAGES, measure, say)
    common.report(options, "classifier.py", f"{score_table(rows)}\n\n{size_table(rows)}")


if __name__ == "__main__":
    main()
