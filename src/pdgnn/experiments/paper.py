"""The paper's tables as they were published: scores, hyperparameters, homophily, graph sizes."""

from __future__ import annotations

import csv
from functools import cache
from importlib.resources import files

from pdgnn.errors import InputError

__all__ = ["TABLES", "Value", "cell", "published", "scope"]

TABLES = {
    "ablation": "table1_ablation",
    "benchmark": "table2_benchmark",
    "homophilic": "table_homophilic",
    "hyperparameters": "hyperparameters",
    "homophily": "homophily",
    "datasets": "datasets",
}
"""Each table's name, and its file."""

Value = str | float | None


def published(table: str) -> list[dict[str, Value]]:
    """The rows of one of :data:`TABLES`, by column; numbers are floats, an empty field is None.

    A model that ran out of memory has the mean ``"OOM"`` and no std.

    >>> published("benchmark")[0]
    {'model': 'GCN', 'dataset': 'roman-empire', 'mean': 73.69, 'std': 0.74}
    """
    if table not in TABLES:
        raise InputError(f"unknown table {table!r}; choose one of {', '.join(TABLES)}")
    text = files(__package__).joinpath("paper", f"{TABLES[table]}.csv").read_text(encoding="utf-8")
    return [{k: _value(v) for k, v in row.items()} for row in csv.DictReader(text.splitlines())]


def cell(model: str, dataset: str) -> tuple[float, float] | None:
    """The published mean and std of a model on a dataset, in percent; None where there is none.

    Models are named as in the paper. "GCN (rewired)" and "GAT (rewired)" are the rows of the
    ablation that tune α and γ for the rewiring and nothing else.

    >>> cell("PD-GAT-sep (rewired)", "minesweeper")
    (94.03, 0.45)
    >>> cell("GCN (rewired)", "squirrel-filtered"), cell("DGN", "tolokers")
    ((41.12, 1.29), None)
    """
    return _cells().get((model, dataset))


def scope(model: str, dataset: str) -> tuple[float, float] | None:
    """(α, γ) of a model on a dataset; None where the paper has none.

    >>> scope("PD-GCN", "tolokers")
    (0.4, 0.6)
    """
    return _scopes().get((model, dataset))


def _value(text: str) -> Value:
    try:
        return float(text)
    except ValueError:
        return text or None


@cache
def _cells() -> dict[tuple[str, str], tuple[float, float]]:
    found = {}
    for row in [*published("benchmark"), *published("homophilic"), *_rewired_baselines()]:
        mean, std = row["mean"], row["std"]
        if isinstance(mean, float) and isinstance(std, float):
            found[str(row["model"]), str(row["dataset"])] = mean, std
    return found


def _rewired_baselines() -> list[dict[str, Value]]:
    """Rows of the ablation that the benchmark lacks, with the names of the hyperparameters."""
    wanted = {"tuned_laplacian": 1.0, "parameterized_diffusion": 0.0, "rewiring": 1.0}
    rows = [row for row in published("ablation") if wanted.items() <= row.items()]
    return [{**row, "model": f"{row['base']} (rewired)"} for row in rows]


@cache
def _scopes() -> dict[tuple[str, str], tuple[float, float]]:
    found = {}
    for row in published("hyperparameters"):
        alpha, gamma = row["alpha"], row["gamma"]
        if isinstance(alpha, float) and isinstance(gamma, float):
            found[str(row["model"]), str(row["dataset"])] = alpha, gamma
    return found
