"""The paper's tables of facts beside own values: graph sizes, homophily, the (α, γ) chosen.

Sizes and homophily are computed from the graphs at hand. Nothing is fetched: a graph whose files
are not all there has no own values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING

from pdgnn.datasets import REGISTRY, data_root, load
from pdgnn.errors import InputError
from pdgnn.experiments.catalog import EXPERIMENTS, paper_name
from pdgnn.experiments.gather import gather
from pdgnn.experiments.outcome import Cell, FactRow, FactTable, ScoreTable
from pdgnn.experiments.paper import Value, published
from pdgnn.graph import Graph
from pdgnn.homophily import measures

if TYPE_CHECKING:
    from torch_geometric.data import Data

    from pdgnn.training.store import StoredRun

__all__ = ["FACTS", "fact_table", "without_own"]

FACTS = tuple(e.name for e in EXPERIMENTS.values() if e.kind == "facts")
"""The tables."""
METRICS = {"accuracy": "ACC", "roc_auc": "ROC AUC"}
SCOPES = ("alpha", "gamma", "depth")


def fact_table(
    name: str,
    *,
    root: str | PathLike[str] | None = None,
    runs: Sequence[StoredRun] = (),
    tables: Mapping[str, ScoreTable] | None = None,
    datasets: Sequence[str] | None = None,
) -> FactTable:
    """One of :data:`FACTS`, published and own values side by side.

    Args:
        name: "datasets", "homophily" or "hyperparameters".
        root: Folder of the graphs, as :func:`pdgnn.datasets.load` has it.
        runs: Finished runs, out of which "hyperparameters" takes what validation chose.
        tables: What :func:`gather` makes of them, if that is known already.
        datasets: Which graphs of the table; default: all.

    >>> table = fact_table("datasets", root="no-such-folder")
    >>> table.rows[0].label, table.rows[0].published[:2], table.rows[0].own[:2]
    ('cora', (2708.0, 5278.0), (None, None))
    """
    if name not in FACTS:
        raise InputError(f"unknown table {name!r}; choose one of {', '.join(FACTS)}")
    title, known = EXPERIMENTS[name].title, EXPERIMENTS[name].datasets
    if unknown := [d for d in datasets or () if d not in known]:
        raise InputError(f"{name} has no {unknown[0]}; it has {', '.join(known)}")
    said = [row for row in published(name) if datasets is None or row["dataset"] in datasets]
    if name == "hyperparameters":
        return FactTable(name, title, SCOPES, tuple(_scope_rows(said, runs, tables or {})))
    columns = tuple(column for column in published(name)[0] if column != "dataset")
    own = _sizes if name == "datasets" else _homophily
    made = [_graph_row(row, columns, own, root) for row in said]
    return FactTable(name, title, columns, tuple(made))


def without_own(table: FactTable) -> list[str]:
    """The rows that have no own values: graphs that are not at hand, models that nobody trained.

    >>> len(without_own(fact_table("homophily", root="no-such-folder")))
    10
    """
    return [row.label for row in table.rows if all(value is None for value in row.own)]


def _graph_row(
    row: dict[str, Value],
    columns: Sequence[str],
    own: Callable[[Data], dict[str, float | str]],
    root: str | PathLike[str] | None,
) -> FactRow:
    name = str(row["dataset"])
    found = own(load(name, root)) if _at_hand(name, root) else {}
    return FactRow(name, tuple(row[c] for c in columns), tuple(found.get(c) for c in columns))


def _at_hand(name: str, root: str | PathLike[str] | None) -> bool:
    """Whether all files of a graph are there; one that is not would be fetched."""
    folder = data_root(root) / REGISTRY[name].folder
    return all((folder / file.name).exists() for file in REGISTRY[name].files)


def _sizes(data: Data) -> dict[str, float | str]:
    return {
        "nodes": float(data.num_nodes),
        "edges": float(Graph.from_data(data).num_edges),
        "features": float(data.num_features),
        "classes": float(data.y.unique().numel()),
        "metric": METRICS[data.metric],
    }


def _homophily(data: Data) -> dict[str, float | str]:
    return dict(measures(Graph.from_data(data), data.y))


def _scope_rows(
    said: Sequence[dict[str, Value]],
    runs: Sequence[StoredRun],
    tables: Mapping[str, ScoreTable],
) -> list[FactRow]:
    """A row for each model and graph of these rows of the published table."""
    cells = _tuned_cells(tables.get(name) or gather(name, runs) for name in ("table1", "table2"))
    rows = []
    for row in said:
        model, dataset = str(row["model"]), str(row["dataset"])
        cell = cells.get((model, dataset))
        best = None if cell is None else cell.by_validation
        own: tuple[float | None, ...] = (None, None, None)
        if best is not None:
            own = (best.spec.alpha, best.spec.gamma, float(best.spec.depth))
        rows.append(FactRow(f"{model}, {dataset}", (row["alpha"], row["gamma"], None), own))
    return rows


def _tuned_cells(tables: Iterable[ScoreTable]) -> dict[tuple[str, str], Cell]:
    """The cells with a search, by the names that the published table has for their models."""
    found: dict[tuple[str, str], Cell] = {}
    for table in tables:
        for (_, dataset), cell in table.cells.items():
            if cell.row.tuned:
                found.setdefault((paper_name(cell.row), dataset), cell)
    return found
