"""The table of docs/records.md and the package's measured settings: ``results/records.parquet``.

python benchmarks/records.py            # prints the table
python benchmarks/records.py --write    # puts it into docs/records.md
python benchmarks/records.py --winners  # writes the settings that the searches in it have chosen
"""

from __future__ import annotations

import argparse
from functools import cache

import common
from pdgnn.experiments.records import RecordTable, gather_records, winners
from pdgnn.io.atomic import replacing
from pdgnn.report.records import records_markdown
from pdgnn.training.store import read_runs

MARK = "benchmarks/records.py"
RUNS = common.RESULTS / "records.parquet"
PAGE = common.ROOT / "docs" / "records.md"
WINNERS = common.ROOT / "src" / "pdgnn" / "experiments" / "records" / winners.FILE


@cache
def table() -> RecordTable:
    """What the runs come to; no graph need be on disk."""
    return gather_records(read_runs(RUNS)[0] if RUNS.exists() else [])


def filled(page: str) -> str:
    """The page with the table between its marks."""
    copied = common.between_marks(MARK, records_markdown(table()).strip(), page)
    if copied is None:
        raise SystemExit(f"{PAGE.name} has no marks for the table")
    return copied


def measured() -> str:
    """The text of the package's settings: those of the searches that are finished in the runs.

    What the package has of others stays.
    """
    found = {
        place: winners.Choice(line.spec, line.tried, line.search_val, "search")
        for place, line in table().lines.items()
        if line.spec is not None and line.search_val is not None
    }
    return winners.as_json(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--write", action="store_true", help=f"put it into docs/{PAGE.name}")
    parser.add_argument("--winners", action="store_true", help=f"write {WINNERS.name}")
    options = parser.parse_args()
    if options.winners:
        with replacing(WINNERS) as partial:
            partial.write_text(measured(), encoding="utf-8")
    if options.write:
        PAGE.write_text(filled(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    if not (options.write or options.winners):
        print(records_markdown(table()))


if __name__ == "__main__":
    main()
