"""The paper's experiments as data: rows, datasets and the published value of every cell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from pdgnn.errors import InputError
from pdgnn.experiments.outcome import Published, Row
from pdgnn.experiments.paper import Value, published
from pdgnn.models import MODELS, Model

__all__ = [
    "EXPERIMENTS",
    "HETEROPHILIC",
    "PAPER_DATASETS",
    "REWIRED",
    "Experiment",
    "find_experiment",
    "metric_of",
    "own_row",
    "paper_name",
]

REWIRED = " (rewired)"
PAPER_DATASETS = tuple(str(row["dataset"]) for row in published("datasets"))
HOMOPHILIC = PAPER_DATASETS[:3]
HETEROPHILIC = PAPER_DATASETS[3:]


@dataclass(frozen=True)
class Experiment:
    """A table or a figure of the paper. Only ``"scores"`` and ``"figure"`` train anything."""

    name: str
    title: str
    about: str  # a sentence
    kind: Literal["scores", "facts", "figure"] = "scores"
    datasets: tuple[str, ...] = ()
    rows: tuple[Row, ...] = ()
    published: Mapping[tuple[str, str], Published] = field(default_factory=dict, repr=False)
    """By the label of a row and a dataset."""
    beyond: tuple[Row, ...] = ()
    """Rows that the paper's table lacks: trained if asked for by name, shown if they have runs."""


def find_experiment(name: str) -> Experiment:
    """The experiment called `name`; an error that lists them."""
    if name not in EXPERIMENTS:
        raise InputError(f"unknown experiment {name!r}; choose one of {', '.join(EXPERIMENTS)}")
    return EXPERIMENTS[name]


def paper_name(row: Row) -> str:
    """What the table of (α, γ) calls the model of a row.

    >>> paper_name(Row("PD-GAT + R", "pd-gat", rewired=True, tuned=True))
    'PD-GAT (rewired)'
    """
    model = MODELS.get(row.model)
    name = row.model if model is None else str(model.name)
    return name + (REWIRED if row.rewired else "")


def metric_of(dataset: str) -> str:
    """What scores on a dataset are, where nobody has opened it."""
    if dataset in PAPER_DATASETS:
        row = published("datasets")[PAPER_DATASETS.index(dataset)]
        return "accuracy" if row["metric"] == "ACC" else "roc_auc"
    return "roc_auc" if dataset.startswith("minesweeper-generated") else "accuracy"


def own_row(name: str, model: Model) -> Row:
    """The row of a user's model: searched over (α, γ) if it says that it uses them."""
    return Row(name, name, tuned=True if {"alpha", "gamma"} & set(model.uses) else None)


def _keys() -> dict[str, str]:
    """Models by the name that tables have for them."""
    return {str(model.name): key for key, model in MODELS.items()}


def _row(label: str, name: str, *, rewired: bool, tuned: bool | None) -> Row:
    key = _keys().get(name)
    if key is None:
        return Row(label, "", rewired, absent=True)
    scoped = rewired or "gamma" in MODELS[key].uses
    return Row(label, key, rewired, tuned if scoped else None)


def _benchmark_row(label: str) -> Row:
    return _row(label, label.removesuffix(REWIRED), rewired=label.endswith(REWIRED), tuned=True)


def _ablation_row(cell: Mapping[str, Value]) -> Row:
    """``GAT``, ``GAT + R``, ``GAT + R, tuned``, ``PD-GAT, α = γ = 1``, ... ``PD-GAT + R``."""
    tuned, diffusion, rewired = (
        cell[name] == 1.0 for name in ("tuned_laplacian", "parameterized_diffusion", "rewiring")
    )
    name = f"PD-{cell['base']}" if diffusion else str(cell["base"])
    label = name + (" + R" if rewired else "")
    if diffusion and not tuned:
        label += ", α = γ = 1"
    elif tuned and not diffusion:
        label += ", tuned"
    return _row(label, name, rewired=rewired, tuned=tuned)


def _cell(row: Mapping[str, Value]) -> Published:
    mean, std = row["mean"], row["std"]
    if isinstance(mean, float):
        return Published(mean, std if isinstance(std, float) else None)
    return Published(None, None, str(mean or ""))


def _table(
    name: str,
    table: str,
    title: str,
    about: str,
    datasets: tuple[str, ...],
    more: Sequence[Row] = (),
) -> Experiment:
    """Of a published table; `more` are rows that it has too, or may be asked for."""
    rows, cells = dict[str, Row](), dict[tuple[str, str], Published]()
    for line in published(table):
        row = _ablation_row(line) if "base" in line else _benchmark_row(str(line["model"]))
        rows.setdefault(row.label, row)
        cells[row.label, str(line["dataset"])] = _cell(line)
    beyond = tuple(row for row in more if row.label not in rows)
    return Experiment(name, title, about, "scores", datasets, tuple(rows.values()), cells, beyond)


_TABLE2 = _table(
    "table2",
    "benchmark",
    "Table 2: benchmark",
    "the proposed models and the baselines on heterophilic graphs",
    HETEROPHILIC,
)
_ALL = (
    _table(
        "table1",
        "ablation",
        "Table 1: ablation",
        "GAT and GCN with rewiring (R), parameterized diffusion (PD) and tuned (α, γ), in turn",
        HETEROPHILIC,
    ),
    _TABLE2,
    _table(
        "homophilic",
        "homophilic",
        "Homophilic graphs",
        "PD-GCN, PD-GAT and the baselines on Cora, CiteSeer and PubMed; others if named",
        HOMOPHILIC,
        more=_TABLE2.rows,
    ),
    Experiment(
        "datasets",
        "Datasets",
        "nodes, edges, features and classes",
        "facts",
        PAPER_DATASETS,
    ),
    Experiment(
        "homophily",
        "Homophily",
        "six measures of homophily on every graph",
        "facts",
        PAPER_DATASETS,
    ),
    Experiment(
        "hyperparameters",
        "Chosen (α, γ)",
        "the (α, γ) of every model and graph, published and found",
        "facts",
        HETEROPHILIC,
    ),
    Experiment(
        "figure1",
        "Figure 1: the best γ",
        "on synthetic graphs: the more heterophilic, the smaller the best γ",
        "figure",
    ),
)
EXPERIMENTS: dict[str, Experiment] = {experiment.name: experiment for experiment in _ALL}
"""Everything that ``pdgnn reproduce`` knows."""
