"""The table of the records, and the data that it stands on: spaces, published scores, variants."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from pdgnn.experiments.records import gather_records, outcome, spaces
from pdgnn.experiments.records.ablation import variants
from pdgnn.experiments.records.outcome import final_specs, replayed, search_of
from pdgnn.experiments.records.published import best_published, published_records
from pdgnn.experiments.records.spaces import (
    METHODS,
    check_methods,
    space,
    stages_of,
)
from pdgnn.experiments.records.winners import Choice
from pdgnn.experiments.significance import holm, paired
from pdgnn.models import MODELS
from pdgnn.training import RunResult, RunSpec
from pdgnn.training.store import StoredRun
from recording import OPTIONS, STAND_IN, small_graph
from recording import SPLITS as TWO


@pytest.fixture
def small(tmp_path, monkeypatch) -> str:
    return small_graph(tmp_path, monkeypatch)


def stored(specs, test) -> list[StoredRun]:
    """Validation prefers the last feature."""
    return [
        StoredRun(RunResult(s, 0.2 * s.options["column"], test(s), 1, 4, 1.0), "d", None, "")
        for s in specs
    ]


def searched(graph: str, method: str) -> tuple[list[StoredRun], RunSpec]:
    """Runs of a finished search, and what it chooses."""
    staged, runs = search_of(method, graph, TWO, "float32"), []
    while not staged.ended:
        new = stored(staged.specs(), lambda _: 0.5)
        runs += new
        staged.advance({run.result.spec.key: run.result for run in new})
    known = {run.result.spec.key: run.result for run in runs}
    choice = replayed(search_of(method, graph, TWO, "float32"), known)
    assert choice is not None
    return runs, choice.spec


def test_means_deviations_and_the_paired_test(small, monkeypatch):
    rng = np.random.default_rng(3)
    draws: dict[str, list[float]] = {}
    runs = []
    for method, mean in (("pd-net", 0.8), ("gcn", 0.6)):
        some, spec = searched(small, method)
        draws[method] = (mean + 0.02 * rng.random(6)).tolist()
        scores = iter(draws[method])
        runs += [*some, *stored(final_specs(spec, TWO), lambda _, it=scores: next(it))]
    table = gather_records(runs, datasets=[small], methods=["pd-net", "gcn"], splits=TWO)
    line = table.lines[small, "pd-net"]
    ours, theirs = (100 * np.array(draws[name]) for name in ("pd-net", "gcn"))
    assert (line.mean, line.std) == pytest.approx((ours.mean(), ours.std(ddof=1)))
    by_split = [a.reshape(2, 3).mean(axis=1).tolist() for a in (ours, theirs)]
    p = holm([paired(*by_split, test_share=0.5), math.nan])[0]
    assert line.p is not None
    assert line.p["gcn"] == pytest.approx(p)
    assert math.isnan(line.p["pd-gcn"])
    assert table.lines[small, "gcn"].p == {}
    said = table.to_dict()[small]
    assert said["methods"]["pd-net"]["p"]["pd-gcn"] is None
    assert said["methods"]["pd-net"]["runs"] == 6


def test_missing_runs_and_other_precisions(small):
    some, spec = searched(small, "pd-net")
    runs = [*some, *stored(final_specs(spec, TWO)[:4], lambda _: 0.7)]
    line = gather_records(runs, datasets=[small], methods=["pd-net"], splits=TWO).lines
    assert len(line[small, "pd-net"].test) == 4
    assert not line[small, "pd-net"].whole
    halves = [
        replace(r, result=replace(r.result, spec=replace(r.result.spec, precision="tf32")))
        for r in [*some, *stored(final_specs(spec, TWO), lambda _: 0.9)]
    ]
    both_kinds = gather_records([*runs, *halves], datasets=[small], methods=["pd-net"], splits=TWO)
    assert both_kinds.lines[small, "pd-net"].mean == pytest.approx(90)
    assert both_kinds.lines[small, "pd-net"].spec.precision == "tf32"


def test_a_search_of_the_runs_comes_before_the_setting_of_the_package(small, monkeypatch):
    some, spec = searched(small, "pd-net")
    other = replace(spec, precision="tf32", depth=spec.depth + 1)
    known = Choice(other, 1, 0.9, "package")
    monkeypatch.setattr(outcome, "winner", lambda *_, precision: replace(known))
    runs = [*some, *stored(final_specs(other, TWO), lambda _: 0.9)]
    line = gather_records(runs, datasets=[small], methods=["pd-net"], splits=TWO).lines
    assert line[small, "pd-net"].spec == spec
    assert line[small, "pd-net"].source == "search"


def test_without_runs_the_table_is_empty(small):
    table = gather_records([], datasets=[small], splits=TWO)
    assert [line.spec for line in table.lines.values()] == [None] * len(METHODS)
    assert table.ablations == {}


# --- data -----------------------------------------------------------------------------------------


def test_the_best_published():
    found = {name: best_published(name) for name in spaces.NETWORKS}
    assert {name: record.mean for name, record in found.items()} == {
        **{"minesweeper": 99.07, "tolokers": 85.91, "squirrel-filtered": 45.30},
        **{"chameleon-filtered": 46.93, "cora": 88.66, "citeseer": 76.55, "pubmed": 89.70},
    }
    noted = {record.by: record for record in published_records("chameleon-filtered")}
    assert not noted["c-IGNN"].comparable
    assert "random splits" in noted["c-IGNN"].note
    assert published_records("somewhere") == ()
    assert best_published("somewhere") is None


@pytest.fixture(params=["of the contract", "of the registry"])
def pd_net(request, monkeypatch) -> None:
    """PD-Net as a model with its options, and itself."""
    if request.param == "of the contract":
        monkeypatch.setitem(MODELS, "pd-net", replace(STAND_IN, options=OPTIONS))


@pytest.mark.usefixtures("pd_net")
@pytest.mark.parametrize("dataset", spaces.NETWORKS)
def test_the_spaces_are_of_a_size_that_halving_can_handle(dataset):
    sizes = {name: len(space(name, dataset)) for name in METHODS if METHODS[name].model}
    assert 40 <= sizes["pd-net"] <= 200
    assert 10 <= sizes["gcn"] <= 40
    assert 50 <= sizes["pd-trees"] <= 80
    assert sizes["pd-gcn"] in (5, 45)
    for name, count in sizes.items():
        assert stages_of(name, count)[-1].splits is None
        assert stages_of(name, count)[-1].share == 1.0
    assert {s.options["aggregation"] for s in space("gcn", dataset)} == {"gcn"}
    assert {s.precision for s in space("pd-net", dataset, precision="tf32")} == {"tf32"}
    assert {s.precision for s in space("pd-trees", dataset, precision="tf32")} == {"float32"}


@pytest.mark.usefixtures("pd_net")
def test_settings_that_are_known_to_work_are_in_the_spaces():
    def has(dataset: str, options: dict, **fields) -> bool:
        return any(
            all(getattr(s, n) == v for n, v in fields.items())
            and all(s.options[n] == v for n, v in options.items())
            for s in space("pd-net", dataset)
        )

    deep = {"rounds": 20, "inject": True}
    assert has("minesweeper", deep, depth=2, width=64, lr=0.01, dropout=0.2)
    assert has("tolokers", {}, depth=4, alpha=0.0, gamma=0.5, dropout=0.7, lr=3e-3, width=128)
    running = {"running": True, "optimizer": "adam"}
    squirrel = {"depth": 4, "width": 256, "alpha": 0.0, "gamma": 0.9, "weight_decay": 5e-4}
    assert has("squirrel-filtered", running, **squirrel, dropout=0.7, lr=0.03)
    chameleon = {"depth": 2, "width": 512, "alpha": 0.0, "gamma": 0.9, "dropout": 0.7, "lr": 3e-4}
    assert has("chameleon-filtered", {"scopes": "1,1"}, **chameleon)


@pytest.mark.usefixtures("pd_net")
def test_an_ablation_changes_one_part_at_a_time():
    recipe = next(s for s in space("pd-net", "minesweeper") if s.options["rounds"] == 20)
    found = variants(recipe)
    assert next(iter(found.values())) == recipe
    assert len({spec.key for spec in found.values()}) == len(found)
    unrolled = found["own weights for each round"]
    assert (unrolled.depth, unrolled.options["rounds"]) == (40, 1)
    assert found["one round"].depth == 2
    assert not found["features in the first round only"].options["inject"]
    assert found["the scope (1, 1) beside it"].options["scopes"] == "1,1"
    assert not found["no path to itself"].options["self_path"]
    assert {found[n].options["norm"] for n in ("LayerNorm", "no norm")} == {"layer", "none"}
    assert found["running statistics in evaluation"].options["running"]
    kinds = {s.options["aggregation"] for s in found.values()}
    assert kinds == {"pd", "gcn", "sage", "gat"}
    several = [s for s in space("pd-net", "chameleon-filtered") if s.options["scopes"]]
    flat = next(s for s in several if s.options["running"])
    other = variants(flat)
    assert other["one scope"].options["scopes"] == ""
    assert other["two rounds"].options["rounds"] == 2
    assert other["features in every round"].options["inject"]
    assert not other["the graph's statistics in evaluation"].options["running"]


def test_methods_keep_the_order_of_the_table():
    assert [m.name for m in check_methods(["gcn", "pd-net"])] == ["pd-net", "gcn"]
