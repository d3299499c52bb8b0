"""Tables of facts: the published values, and own ones from the graphs and runs at hand."""

from __future__ import annotations

import pytest

from pdgnn.datasets import raw
from pdgnn.errors import InputError
from pdgnn.experiments.facts import FACTS, fact_table, without_own
from pdgnn.experiments.paper import published
from pdgnn.training import RunResult, RunSpec
from pdgnn.training.store import StoredRun

AT_HAND = {
    *("chameleon-filtered", "squirrel-filtered", "minesweeper", "tolokers"),
    *("cora", "citeseer", "pubmed"),
}


@pytest.fixture(autouse=True)
def offline(monkeypatch):
    """Nothing is fetched."""

    def refuse(url):
        raise AssertionError(f"{url} was asked for")

    monkeypatch.setattr(raw, "_download", refuse)


@pytest.mark.parametrize("name", FACTS)
def test_without_graphs_and_runs_there_are_the_published_values_alone(name, tmp_path):
    table = fact_table(name, root=tmp_path)
    assert table.name == name
    assert table.title
    assert len(table.rows) == len(published(name))
    assert without_own(table) == [row.label for row in table.rows]
    for row in table.rows:
        assert len(row.published) == len(row.own) == len(table.columns)


def test_published_values_are_in_their_columns(tmp_path):
    table = fact_table("homophily", root=tmp_path)
    squirrel = next(row for row in table.rows if row.label == "squirrel-filtered")
    assert dict(zip(table.columns, squirrel.published, strict=True))["edge"] == 0.21
    scopes = fact_table("hyperparameters")
    row = next(row for row in scopes.rows if row.label == "PD-GCN, tolokers")
    assert dict(zip(scopes.columns, row.published, strict=True)) == {
        "alpha": 0.4, "gamma": 0.6, "depth": None,
    }  # fmt: skip


def test_a_graph_with_some_of_its_files_is_not_at_hand(tmp_path):
    folder = tmp_path / "Cora" / "geom-gcn" / "raw"
    folder.mkdir(parents=True)
    (folder / "ind.cora.x").write_bytes(b"")
    assert "cora" in without_own(fact_table("datasets", root=tmp_path))


def test_an_unknown_table_is_an_error():
    with pytest.raises(InputError, match="choose one of datasets, homophily, hyperparameters"):
        fact_table("table1")


def test_sizes_of_the_real_graphs_are_the_published(data_root):
    table = fact_table("datasets", root=data_root)
    assert {row.label for row in table.rows} - set(without_own(table)) >= AT_HAND
    for row in table.rows:
        assert row.label not in AT_HAND or row.own == row.published


def test_homophily_of_the_real_graphs_is_the_published_to_two_decimals(data_root):
    table = fact_table("homophily", root=data_root)
    for row in table.rows:
        if row.label in AT_HAND:
            assert [f"{v:.2f}" for v in row.own] == [f"{v:.2f}" for v in row.published], row.label


def runs_of(model: str, val: float, **fields) -> list[StoredRun]:
    specs = [RunSpec(dataset="tolokers", model=model, split=s, seed=s, **fields) for s in range(10)]
    results = [RunResult(spec, val, 0.5, 3, spec.steps, 1.0) for spec in specs]
    return [StoredRun(result, "1f", None, "") for result in results]


def test_what_validation_chose_out_of_the_runs():
    runs = runs_of("pd-gcn", 0.7, alpha=0.3, gamma=0.6, depth=4)
    runs += runs_of("pd-gcn", 0.6, alpha=0.4, gamma=0.5, depth=2)
    runs += runs_of("pd-gcn", 0.9, alpha=0.1, gamma=0.1, depth=2)[:4]  # not on all splits
    runs += runs_of("pd-gat", 0.7, alpha=0.2, gamma=0.8, rewired=True)
    table = fact_table("hyperparameters", runs=runs)
    own = {row.label: row.own for row in table.rows if row.own != (None, None, None)}
    assert own == {
        "PD-GCN, tolokers": (0.3, 0.6, 4.0),
        "PD-GAT (rewired), tolokers": (0.2, 0.8, 2.0),
    }
    assert len(without_own(table)) == len(table.rows) - 2
