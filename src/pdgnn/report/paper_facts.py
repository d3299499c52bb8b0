"""What the page of a store shows: its runs, and the tables, claims and figure made of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from os import PathLike
from typing import Any

from pdgnn.experiments.catalog import PAPER_DATASETS
from pdgnn.experiments.claims import Claim, claims
from pdgnn.experiments.facts import fact_table
from pdgnn.experiments.figure1 import FULL, QUICK, Figure1, figure1
from pdgnn.experiments.gather import gather
from pdgnn.experiments.outcome import Cell, FactTable, Row, ScoreTable, Tried
from pdgnn.report.lines import Comparisons, compared, trained_datasets
from pdgnn.training.spec import RunResult, RunSpec
from pdgnn.training.store import StoredRun, read_runs

__all__ = ["Paper", "collect", "distinct_cells", "read_paper", "specs_of"]

TABLES = ("table1", "table2", "homophilic")
FACTS = ("hyperparameters", "datasets", "homophily")
MOST_CURVES = 2000
"""Runs whose curves are read."""


@dataclass(frozen=True)
class Paper:
    """All of it, as data; the sections of the page are drawn from this alone."""

    runs: Sequence[StoredRun] = ()
    provenances: Mapping[int, Mapping[str, Any]] = field(default_factory=dict)
    tables: Mapping[str, ScoreTable] = field(default_factory=dict)  # those with runs
    comparisons: Mapping[str, Comparisons] = field(default_factory=dict)
    facts: Sequence[FactTable] = ()
    claims: Sequence[Claim] = ()
    figure1: Figure1 | None = None
    curves: Mapping[str, RunResult] = field(default_factory=dict)
    """By the key of their spec: runs of chosen settings that kept their curves."""


def read_paper(path: str | PathLike[str], *, root: str | PathLike[str] | None = None) -> Paper:
    """What is kept at `path`: a store, a folder of runs or an export, see `read_runs`."""
    runs, provenances = read_runs(path)
    found = collect(runs, provenances, root=root)
    wanted = [spec.key for cell in distinct_cells(found) for spec in specs_of(cell.by_validation)]
    listed = ", ".join(f"'{key}'" for key in wanted[:MOST_CURVES])  # of hexadecimal digits
    if not listed:
        return found
    kept, _ = read_runs(path, where=f"key IN ({listed})", curves=True)
    curves = {run.result.spec.key: run.result for run in kept if run.result.curves is not None}
    return replace(found, curves=curves)


def collect(
    runs: Sequence[StoredRun],
    provenances: Mapping[int, Mapping[str, Any]],
    *,
    root: str | PathLike[str] | None = None,
) -> Paper:
    """The tables, claims and figure of these runs.

    `root` is where datasets lie: tables of facts have own values for those that are there.
    """
    if not runs:
        return Paper(runs, provenances)
    known = [run for run in runs if run.result.spec.dataset in PAPER_DATASETS]
    others = [run for run in runs if run.result.spec.dataset not in PAPER_DATASETS]
    gathered = {name: gather(name, known) for name in TABLES}
    every = {**gathered, "others": _other_graphs(others)}
    tables = {name: table for name, table in every.items() if trained_datasets(table)}
    results = [run.result for run in runs]
    figure = _figure1(results)
    return Paper(
        runs=runs,
        provenances=provenances,
        tables=tables,
        comparisons={name: compared(table) for name, table in tables.items()},
        facts=tuple(fact_table(name, root=root, runs=runs, tables=gathered) for name in FACTS),
        claims=claims(tables, figure, results=results),
        figure1=figure,
    )


def _other_graphs(runs: Sequence[StoredRun]) -> ScoreTable:
    """The graphs of these runs, which the paper does not have, with the rows of all its tables."""
    rows: dict[tuple[str, bool, bool], Row] = {}
    cells: dict[tuple[str, str], Cell] = {}
    metrics: dict[str, str] = {}
    for name in ("table2", "table1", "homophilic"):  # a row is called as in the first that has it
        table = gather(name, runs)
        metrics |= {d: m for d, m in table.metrics.items() if d not in PAPER_DATASETS}
        for row in table.rows:
            rows.setdefault((row.model, row.rewired, row.tuned is False), row)
        cells = {place: c for place, c in table.cells.items() if place[1] in metrics} | cells
    return ScoreTable(
        "others", "Other graphs", tuple(rows.values()), tuple(metrics), metrics, cells
    )


def _figure1(results: Iterable[RunResult]) -> Figure1 | None:
    """Of the full plan, else of the quick one; None if a run of both is missing."""
    synthetic = [r for r in results if r.spec.dataset.startswith("synthetic:")]
    for plan in (FULL, QUICK) if synthetic else ():
        try:
            return figure1(synthetic, plan)
        except KeyError:
            continue
    return None


def distinct_cells(paper: Paper) -> list[Cell]:
    """The cells with settings that were trained, by dataset; what two tables share comes once."""
    found: dict[tuple[str, str, bool, bool], Cell] = {}
    for table in paper.tables.values():
        for cell in table.cells.values():
            row = cell.row
            place = (cell.dataset, row.model, row.rewired, row.tuned is False)
            if cell.tried and len(cell.tried) > len(found[place].tried if place in found else ()):
                found[place] = cell
    datasets = dict.fromkeys(d for table in paper.tables.values() for d in table.datasets)
    return [cell for d in datasets for cell in found.values() if cell.dataset == d]


def specs_of(tried: Tried | None) -> list[RunSpec]:
    """The runs of a setting, one for each split; by the protocol a run's seed is its split."""
    if tried is None:
        return []
    return [replace(tried.spec, split=split, seed=split) for split in tried.splits]
