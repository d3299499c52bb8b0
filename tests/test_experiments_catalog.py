from __future__ import annotations

import pytest

from pdgnn import InputError
from pdgnn.experiments.catalog import (
    EXPERIMENTS,
    PAPER_DATASETS,
    find_experiment,
    metric_of,
    own_row,
    paper_name,
)
from pdgnn.experiments.outcome import Published, Row
from pdgnn.experiments.paper import cell, published, scope
from pdgnn.models import MODELS, Model
from pdgnn.nn import PDGCN


def test_the_names():
    assert [*EXPERIMENTS] == [
        "table1", "table2", "homophilic", "datasets", "homophily", "hyperparameters", "figure1",
    ]  # fmt: skip
    with pytest.raises(InputError, match="unknown experiment 'table3'; choose one of table1, "):
        find_experiment("table3")


def test_the_rows_of_the_ablation():
    rows = {row.label: (row.model, row.rewired, row.tuned) for row in EXPERIMENTS["table1"].rows}
    assert rows == {
        "GAT": ("gat", False, None),
        "GAT + R": ("gat", True, False),
        "GAT + R, tuned": ("gat", True, True),
        "PD-GAT, α = γ = 1": ("pd-gat", False, False),
        "PD-GAT + R, α = γ = 1": ("pd-gat", True, False),
        "PD-GAT": ("pd-gat", False, True),
        "PD-GAT + R": ("pd-gat", True, True),
        "GCN": ("gcn", False, None),
        "GCN + R": ("gcn", True, False),
        "GCN + R, tuned": ("gcn", True, True),
        "PD-GCN, α = γ = 1": ("pd-gcn", False, False),
        "PD-GCN": ("pd-gcn", False, True),
    }
    found = EXPERIMENTS["table1"].published
    assert found["GAT + R, tuned", "squirrel-filtered"] == Published(41.49, 2.72)
    assert found["PD-GCN, α = γ = 1", "tolokers"] == Published(81.35, 0.66)


@pytest.mark.parametrize(("name", "table"), [("table2", "benchmark"), ("homophilic", "homophilic")])
def test_the_rows_of_a_benchmark_are_the_papers(name, table):
    experiment = EXPERIMENTS[name]
    assert [row.label for row in experiment.rows] == [
        *dict.fromkeys(str(line["model"]) for line in published(table))
    ]
    known = {str(model.name) for model in MODELS.values()}
    for row in experiment.rows:
        assert row.absent == (row.label.removesuffix(" (rewired)") not in known)
        assert row.absent or paper_name(row) == row.label
    for (label, dataset), said in experiment.published.items():
        if said.mean is not None:
            assert cell(label, dataset) == (said.mean, said.std)
    assert len(experiment.published) == len(published(table))


def test_a_model_that_ran_out_of_memory():
    assert EXPERIMENTS["table2"].published["DGN", "tolokers"] == Published(None, None, "OOM")


def test_every_tuned_row_of_a_heterophilic_table_has_a_published_scope():
    for name in ("table1", "table2"):
        for row in EXPERIMENTS[name].rows:
            for dataset in EXPERIMENTS[name].datasets:
                said = scope(paper_name(row), dataset) if row.tuned else (0, 0)
                assert said is not None, (row.label, dataset)


def test_metrics():
    assert [d for d in PAPER_DATASETS if metric_of(d) == "roc_auc"] == [
        "minesweeper",
        "tolokers",
        "questions",
    ]
    assert metric_of("minesweeper-generated:size=6") == "roc_auc"
    assert metric_of("mine.npz") == "accuracy"


def test_the_row_of_a_users_model():
    def build(size, spec):
        return PDGCN(size.in_channels, spec.width, size.out_channels)

    assert own_row("mine", Model(build=build)) == Row("mine", "mine", tuned=True)
    assert own_row("mine", Model(build=build, uses=("depth",))) == Row("mine", "mine")
