"""The small tables of the README, printed from ``results/``.

python benchmarks/readme.py          # prints them
python benchmarks/readme.py --write  # puts them into README.md
"""

from __future__ import annotations

import argparse
from typing import Any

import classifier
import common
import records
import spectrum
import user_model
from pdgnn.experiments.catalog import find_experiment
from pdgnn.experiments.gather import gather
from pdgnn.experiments.provenance import read_rows
from pdgnn.report.tables import table_markdown
from pdgnn.training.store import read_runs
from spectrum_tables import Measured

MARK = "benchmarks/readme.py"


def spectrum_table() -> str:
    """Seconds for λ1 and φ, and of the fastest peer that returned with an answer."""
    rows = read_rows(common.RESULTS / "spectrum.json")
    measured = Measured(r for r in rows if r["method"] != "cuda")
    lines = []
    for graph in spectrum.GRAPHS:
        own = measured.get(graph, "pdgnn", 1)
        if own is None or own["seconds"] is None:
            continue
        able = measured.able(graph, 1, rough=True)
        best = min(able, key=lambda p: float(p["seconds"]), default=None)
        size = [f"{own['nodes']:,}", f"{own['edges']:,}"]
        lines.append([graph, *size, f"{own['seconds']:.3g}", *_peer(best, own)])
    heads = ["graph", "nodes", "edges", "pdgnn", "best peer", "which", "peer / pdgnn"]
    return common.markdown(heads, lines)


def _peer(best: Any, own: Any) -> list[str]:
    if best is None:
        return ["none returned", "", ""]
    ratio = best["seconds"] / own["seconds"]
    return [f"{best['seconds']:.3g}", best["method"], f"{ratio:.1f}"]


def training_table() -> str:
    """Seconds of the whole protocol on a GPU in bfloat16."""
    rows = read_rows(common.RESULTS / "training.json")
    same = {"device": "cuda", "precision": "bfloat16", "model": "pd-gat", "width": 512}
    wanted = [r for r in common.alike(rows, same) if r["seconds"] is not None]
    found = {(r["graph"], r["side"]): r["seconds"] for r in wanted}
    lines = [
        [graph, common.number(own), common.number(peer), f"{peer / own:.1f}"]
        for graph in dict.fromkeys(r["graph"] for r in wanted)
        if (own := found.get((graph, "pdgnn"))) and (peer := found.get((graph, "pyg")))
    ]
    return common.markdown(["graph", "pdgnn", "PyG", "PyG / pdgnn"], lines)


def user_table() -> str:
    """Seconds of a model of one's own, and of a plain loop."""
    return user_model.table(read_rows(common.RESULTS / "user_model.json"))


def classifier_table() -> str:
    """Test scores of PDClassifier, and of single kinds of models in the same time."""
    return classifier.score_table(read_rows(common.RESULTS / "classifier.json"))


def paper_table() -> str:
    """The proposed rows of Table 2 on one graph, as ``pdgnn reproduce table2`` ends with."""
    runs, _ = read_runs(common.RESULTS / "paper.parquet")
    proposed = [row for row in find_experiment("table2").rows if row.label.startswith("PD-")]
    table = gather("table2", runs, rows=proposed, datasets=["chameleon-filtered"])
    lines = table_markdown(table).splitlines()
    return "\n".join(line for line in lines if line.startswith("|"))


def records_table() -> str:
    """Of each graph that is finished, what validation prefers, and what is published.

    That is the average, whose weights have either method alone among them.
    """
    found, lines = records.table(), []
    for graph in found.datasets:
        best, published = found.lines[graph, "average"], found.published[graph]
        if published is None or not best.whole:
            continue
        alone = {0.0: "pd-net", 1.0: "pd-trees"}.get(best.weight or 0.0, "average")
        scores = f"{published.mean:.2f}", f"{best.mean:.2f} ± {best.std:.2f}"
        by = published.by.split(" (")[0]
        lines.append([graph, scores[0], by, scores[1], found.lines[graph, alone].label])
    return common.markdown(["graph", "best published", "by", "ours", "method"], lines)


TABLES = {
    "paper": paper_table,
    "records": records_table,
    "classifier": classifier_table,
    "spectrum": spectrum_table,
    "training": training_table,
    "user-model": user_table,
}


def filled(page: str) -> str:
    """The README with the tables between their marks."""
    for name, make in TABLES.items():
        copied = common.between_marks(f"{MARK} {name}", make(), page)
        if copied is None:
            raise SystemExit(f"the README has no marks for the table {name}")
        page = copied
    return page


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--write", action="store_true", help="put them into README.md")
    options = parser.parse_args()
    if not options.write:
        print("\n\n".join(make() for make in TABLES.values()))
        return
    readme = common.ROOT / "README.md"
    readme.write_text(filled(readme.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
