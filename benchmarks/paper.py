"""The tables and claims of docs/reproduction.md, made of ``results/paper.parquet``.

python benchmarks/paper.py          # prints them
python benchmarks/paper.py --write  # puts them into docs/reproduction.md
"""

from __future__ import annotations

import argparse
from functools import cache

import common
from pdgnn.experiments.catalog import EXPERIMENTS
from pdgnn.report.claims import claims_markdown
from pdgnn.report.paper_facts import Paper, collect
from pdgnn.report.tables import table_markdown
from pdgnn.training.store import read_runs

MARK = "benchmarks/paper.py"
TABLES = ("homophilic", "table1", "table2")
RUNS = common.RESULTS / "paper.parquet"
PAGE = common.ROOT / "docs" / "reproduction.md"


@cache
def paper() -> Paper:
    """What the runs come to; only what needs no graph on disk."""
    runs, _ = read_runs(RUNS)
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
