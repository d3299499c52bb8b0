"""What pruning saves and loses in the search of a row, against all its settings to the end.

    pdgnn reproduce table2 --datasets chameleon-filtered --models PD-GCN --search full \
        --exhaustive --curves --store S
    python benchmarks/pruning.py S --datasets chameleon-filtered --models PD-GCN

Nothing is trained here. Writes ``results/pruning.json``.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import common
from pdgnn.errors import InputError
from pdgnn.experiments.grid import Search
from pdgnn.experiments.pruning import pruning
from pdgnn.experiments.reproduction import Reproduction
from pdgnn.experiments.request import Request
from pdgnn.training.store import read_runs


def measured(options: argparse.Namespace) -> list[dict[str, Any]]:
    """A row for each model and dataset whose runs are all there."""
    request = Request(
        name=options.table,
        rows=None if options.models is None else options.models.split(","),
        datasets=options.datasets.split(","),
        search=Search(options.search),
        splits=options.splits,
        steps=options.steps,
        precision=options.precision,
    )
    work = Reproduction(request)
    runs, about = read_runs(options.store, curves=True)
    results = [run.result for run in runs]
    made = [about[run.provenance] for run in runs if run.provenance in about]
    found = []
    for dataset in request.all_datasets:
        for cell in work.searches(dataset):
            name = f"{cell.row.label} on {dataset}"
            try:
                p = pruning(cell.settings, cell.staged.splits, results)
            except InputError as error:
                print(f"{name}: {error}")
                continue
            found.append(
                {
                    "row": cell.row.label,
                    "dataset": dataset,
                    "precision": options.precision,
                    "splits": len(cell.staged.splits),
                    "made_by": made[-1] if made else None,
                    "settings": p.settings,
                    "to_the_end": p.to_the_end,
                    "steps": p.steps,
                    "all_steps": p.all_steps,
                    "saved": round(p.all_steps / p.steps, 1),
                    "searched_test": round(100 * p.searched.test_mean, 2),
                    "all_test": round(100 * p.best.test_mean, 2),
                    "searched_val": round(100 * p.searched.val_mean, 2),
                    "all_val": round(100 * p.best.val_mean, 2),
                    "rank": p.rank,
                    "best_test_searched": round(100 * p.best_test_searched, 2),
                    "best_test": round(100 * p.best_test, 2),
                }
            )
            print(json.dumps(found[-1]))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("store", type=Path)
    parser.add_argument("--table", default="table2")
    parser.add_argument("--datasets", default="chameleon-filtered")
    parser.add_argument("--models")
    parser.add_argument("--search", default="full")
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--precision", default="float32")
    parser.add_argument("--splits", type=lambda text: [int(part) for part in text.split(",")])
    rows = measured(parser.parse_args())
    if rows:
        (common.RESULTS / "pruning.json").write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
