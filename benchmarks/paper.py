"""The tables and claims of docs/reproduction.md, made of the runs in ``results/``.

python benchmarks/paper.py          # prints them
python benchmarks/paper.py --write  # puts them into docs/reproduction.md
"""

from __future__ import annotations

import argparse
from functools import cache
from pathlib import Path

import common
from pdgnn.experiments.catalog import EXPERIMENTS
from pdgnn.report.claims import claims_markdown
from pdgnn.report.paper_facts import Paper, collect
from pdgnn.report.tables import table_markdown
from pdgnn.training.store import StoredRun, read_runs

MARK = "benchmarks/paper.py"
TABLES = ("homophilic", "table1", "table2")
PAGE = common.ROOT / "docs" / "reproduction.md"


def places() -> list[Path]:
    """Where the runs of the tables and of Figure 1 are kept; an export before older folders."""
    export = common.RESULTS / "paper.parquet"
    tables = export if export.exists() else common.RESULTS / "reproduction"
    return [tables, common.RESULTS / "figure1"]


@cache
def paper() -> Paper:
    """What the runs come to; only what needs no graph on disk."""
    runs: list[StoredRun] = []
    for place in places():
        runs += read_runs(place)[0]
    return collect(runs, {}, root=common.ROOT / "no-graphs")


def block(name: str) -> str:
    """A table or the claims, as Markdown."""
    found = paper()
    if name == "claims":
        return claims_markdown(found.claims)
    table = found.tables.get(name)
    if table is None:
        return f"### {EXPERIMENTS[name].title}\n\nNo runs yet."
    return table_markdown(table, comparisons=found.comparisons[name]).strip()


def filled(page: str) -> str:
    """The page with the tables and the claims between their marks."""
    for name in (*TABLES, "claims"):
        copied = common.between_marks(f"{MARK} {name}", block(name), page)
        if copied is None:
            raise SystemExit(f"{PAGE.name} has no marks for {name}")
        page = copied
    return page


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--write", action="store_true", help=f"put them into docs/{PAGE.name}")
    options = parser.parse_args()
    if not options.write:
        print("\n\n".join(block(name) for name in (*TABLES, "claims")))
        return
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
