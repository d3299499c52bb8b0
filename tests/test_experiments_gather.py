from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest

from pdgnn.experiments.gather import Counts, gather
from pdgnn.experiments.scopes import FULL
from pdgnn.training import RunResult, RunSpec
from pdgnn.training.store import StoredRun, read_runs

RESULTS = Path(__file__).parent.parent / "results" / "paper.parquet"


def stored(spec, val=0.5, test=0.4, data="d", provenance=None) -> StoredRun:
    result = RunResult(spec, val, test, 1, spec.steps, 2.0)
    return StoredRun(result, data, provenance, "2026-01-01T00:00:00+00:00")


def runs(splits=range(10), val=0.5, test=0.4, data="d", provenance=None, **fields):
    spec = RunSpec(**{"dataset": "minesweeper", "model": "pd-gat", **fields})
    return [
        stored(replace(spec, split=s, seed=s), val + s / 100, test, data, provenance)
        for s in splits
    ]


def cell(found, label="PD-GAT", dataset="minesweeper", name="table2", **options):
    return gather(name, found, **options).cells[label, dataset]


@pytest.mark.usefixtures("without_h2gcn")
def test_a_row_without_a_model_is_empty_and_named():
    table = gather("table2", [])
    assert table.cells["H2GCN", "minesweeper"].runs_wanted == 0
    assert table.absent == ["H2GCN"]


def test_an_empty_table_has_all_rows_and_published_values():
    table = gather("table2", [])
    assert len(table.cells) == 25 * 7
    one = table.cells["GCN", "minesweeper"]
    assert one.published is not None
    assert one.published.mean == 89.75
    assert (one.tried, one.settings, one.runs_done, one.runs_wanted) == ((), 0, 0, 10)
    assert table.absent == []
    assert table.metrics["minesweeper"] == "roc_auc"


def test_scores_of_a_setting_are_in_the_order_of_its_splits():
    found = [*reversed(runs(alpha=0.2, gamma=0.4, provenance=3))]
    (tried,) = cell(found).tried
    assert tried.splits == tuple(range(10))
    assert tried.val == pytest.approx([50 + s for s in range(10)])
    assert tried.test == pytest.approx([40.0] * 10)
    assert (tried.whole, tried.seconds, tried.provenance) == (True, 20.0, (3,))
    assert tried.scopes == ((0.2, 0.4),)


def test_validation_chooses_and_the_best_test_is_apart():
    found = runs(depth=2, val=0.6, test=0.3) + runs(depth=3, val=0.5, test=0.5)
    one = cell(found + runs(depth=4, splits=range(9), val=0.9, test=0.9))
    assert one.by_validation is not None
    assert one.best_test is not None
    assert (one.by_validation.spec.depth, one.best_test.spec.depth) == (2, 3)
    assert (len(one.whole), len(one.tried), one.settings) == (2, 3, 3)
    assert (one.runs_done, one.runs_wanted) == (29, 29)


def test_what_is_missing_to_a_whole_setting():
    one = cell(runs(splits=range(4)) + runs(splits=range(2), steps=50))
    assert (one.runs_done, one.runs_wanted) == (6, 12)
    assert one.by_validation is None
    known = {("PD-GAT", "minesweeper"): Counts(605, 1, 99)}
    one = cell(runs(), counts=known)
    assert (one.settings, one.runs_done, one.runs_wanted) == (605, 1, 99)


def test_the_furthest_of_a_setting_counts():
    short = runs(steps=50, splits=range(2)) + runs(steps=200)
    (tried,) = cell(short + runs(splits=range(3), val=0.7), steps=1000).tried
    assert (tried.spec.steps, len(tried.splits), tried.whole) == (1000, 3, False)
    (tried,) = cell(short, steps=1000).tried
    assert (tried.spec.steps, len(tried.splits), tried.whole) == (200, 10, False)
    (tried,) = cell(short + runs(), steps=1000).tried
    assert (tried.spec.steps, tried.whole) == (1000, True)


def test_the_better_precision_counts_if_it_is_whole():
    tf32, half = runs(precision="tf32"), runs(precision="bfloat16")
    (tried,) = cell(half + tf32).tried
    assert tried.spec.precision == "tf32"
    (tried,) = cell([*half, *runs(splits=range(9))]).tried
    assert tried.spec.precision == "bfloat16"
    (tried,) = cell([*half, *runs()]).tried
    assert tried.spec.precision == "float32"


@pytest.mark.parametrize("field", [{"lr": 0.01}, {"dropout": 0.5}, {"heads": 4}, {"patience": 9}])
def test_runs_of_another_protocol_do_not_count(field):
    assert cell(runs(**field)).tried == ()
    assert len(cell(runs() + runs(val=0.9, **field)).tried) == 1


def test_a_seed_that_is_not_the_split_does_not_count():
    spec = RunSpec(dataset="minesweeper", model="gcn", split=1, seed=0)
    assert cell([stored(spec)], "GCN").tried == ()


def test_of_two_versions_of_the_data_the_last_counts():
    (tried,) = cell(runs(data="old", val=0.1) + runs(data="new", splits=range(3))).tried
    assert (len(tried.splits), tried.val[0]) == (3, 50.0)


def test_smaller_widths_steps_and_splits_where_there_is_nothing_else():
    small = runs(width=8, steps=20, splits=range(2)) + runs(width=8, steps=5, splits=range(1))
    (tried,) = cell(small).tried
    assert (tried.whole, tried.spec.steps, tried.splits) == (True, 20, (0, 1))
    assert len(cell(small + runs(depth=4)).tried) == 1  # of width 512
    assert len(cell(small + runs(depth=4), width=8, steps=20, splits=(0, 1)).tried) == 1


def test_runs_that_diverged_are_never_chosen():
    lost = runs(depth=4, val=math.nan, test=math.nan)
    one = cell(lost + runs(depth=3))
    assert one.by_validation is not None
    assert one.by_validation.spec.depth == 3
    assert one.best_test is one.by_validation


def test_rows_of_the_ablation_share_runs():
    found = runs(alpha=1, gamma=1, depth=2) + runs(alpha=0.2, gamma=0.4, depth=2)
    table = gather("table1", found)
    assert len(table.cells["PD-GAT", "minesweeper"].tried) == 2
    (untuned,) = table.cells["PD-GAT, α = γ = 1", "minesweeper"].tried
    assert (untuned.spec.alpha, untuned.spec.gamma) == (1.0, 1.0)


def test_scopes_with_the_same_rewired_graph_are_one_setting():
    classes = {"minesweeper": {s: int(s[1] > 0.5) for s in FULL}}
    found = runs(model="gcn", rewired=True, alpha=0.3, gamma=0.1)
    found += runs(model="gcn", rewired=True, alpha=0.0, gamma=0.0, splits=range(2))
    found += runs(model="gcn", rewired=True, alpha=0.9, gamma=0.9)
    table = gather("table1", found, classes=classes)
    one, other = table.cells["GCN + R, tuned", "minesweeper"].tried
    assert {len(one.scopes), len(other.scopes)} == {66, 55}
    assert one.scopes[0] == (one.spec.alpha, one.spec.gamma) == (0.3, 0.1)
    (untuned,) = table.cells["GCN + R", "minesweeper"].tried
    assert (untuned.spec.alpha, untuned.spec.gamma) == (0.9, 0.9)
    assert untuned.scopes[0] == (0.9, 0.9)
    assert (1.0, 1.0) in untuned.scopes
    assert table.cells["GCN + R", "minesweeper"].runs_done == 10


def test_users_models_and_graphs_are_found_in_the_runs():
    found = runs(model="mine", dataset="mine.npz", gamma=0.5) + runs()
    table = gather("table2", found)
    assert [row.label for row in table.rows[-2:]] == ["PD-GAT-sep (rewired)", "mine"]
    assert table.datasets[-1] == "mine.npz"
    assert table.cells["mine", "mine.npz"].by_validation is not None
    assert table.rows[-1].tuned
    assert gather("homophilic", found).datasets == ("cora", "citeseer", "pubmed", "mine.npz")


def test_the_results_of_the_repository():
    found, _ = read_runs(RESULTS)
    table = gather("table2", found)
    one = table.cells["PD-GAT-sep (rewired)", "minesweeper"]
    assert one.by_validation is not None
    assert one.by_validation.mean == pytest.approx(94.0, abs=1)
    ablation = gather("table1", found)
    tried = ablation.cells["GCN + R, tuned", "tolokers"].tried
    published = [t for t in tried if (0.9, 0.9) in t.scopes]
    assert all(len(t.scopes) > 1 for t in published)  # known without the data
    assert published


def test_another_system_is_judged_by_its_own_grid():
    setting = {"dataset": "chameleon-filtered", "model": "fagcn", "depth": 2, "width": 32}
    setting |= {"dropout": 0.5, "options": {"epsilon": 0.4}}
    found = runs(**setting, lr=0.01, val=0.5, test=0.4)
    found += runs(**setting, lr=0.03, val=0.6, test=0.5)
    found += runs(**setting, lr=0.03, val=0.1, test=0.9, steps=50, splits=(0, 1))
    found += runs(**setting, lr=0.5, val=0.9, test=0.9)  # not of the grid
    one = cell(found, "FAGCN", "chameleon-filtered")
    assert one.by_validation is not None
    assert (one.by_validation.spec.lr, len(one.whole), len(one.tried)) == (0.03, 2, 2)
    assert one.by_validation.mean == pytest.approx(50)


def test_of_another_system_the_whole_grid_is_known():
    setting = {"dataset": "minesweeper", "model": "fagcn", "depth": 2, "width": 32, "dropout": 0.5}
    one = cell(runs(**setting, lr=0.03, options={"epsilon": 0.3}), "FAGCN")
    assert (len(one.tried), one.grid) == (1, 16)
    assert cell([], "GCN").grid == 0


def test_homophilic_graphs_have_runs_of_appendix_e_too():
    base = {"dataset": "cora", "model": "pd-gcn", "gamma": 0.5}
    usual = runs(**base, depth=2, val=0.5)
    own = {**base, "depth": 2, "width": 64, "weight_decay": 5e-4, "dropout": 0.3}
    found = [*usual, *runs(**own, lr=0.05, val=0.6), *runs(**own, lr=0.1, val=0.4)]
    found += runs(**own, lr=0.02, val=0.9)  # of neither
    found += runs(**{**own, "width": 128}, lr=0.05, val=0.9)
    found += runs(**{**own, "dataset": "tolokers"}, lr=0.05, val=0.9)
    table = gather("homophilic", found)
    one = table.cells["PD-GCN", "cora"]
    assert [(t.spec.lr, t.spec.width) for t in one.whole] == [(3e-5, 512), (0.05, 64), (0.1, 64)]
    assert one.by_validation is not None
    assert one.by_validation.spec.lr == 0.05
    assert [t.spec.lr for t in one.alike] == [3e-5]  # of one learning rate
    assert cell(found, "PD-GCN", "tolokers").tried == ()


def test_homophilic_graphs_have_rows_of_table_2_that_have_runs_there():
    setting = {"model": "fagcn", "depth": 2, "width": 32, "dropout": 0.5, "lr": 0.01}
    elsewhere = runs(**setting, options={"epsilon": 0.3})
    found = runs(**setting, options={"epsilon": 0.3}, dataset="cora", test=0.8)
    usual = gather("homophilic", elsewhere)
    assert [row.label for row in usual.rows[-2:]] == ["PD-GCN", "PD-GAT"]
    table = gather("homophilic", elsewhere + found)
    assert table.rows == (*usual.rows, table.rows[-1])
    one = table.cells["FAGCN", "cora"]
    assert (one.published, one.by_validation and one.by_validation.mean) == (None, 80)


def test_another_system_may_have_fewer_steps():
    setting = {"dataset": "cora", "model": "gbk-gnn", "depth": 2, "width": 16, "dropout": 0.5}
    found = runs(**setting, lr=0.01, steps=500)
    assert cell(found, "GBK-GNN", "minesweeper") == cell([], "GBK-GNN", "minesweeper")
    on_board = runs(**{**setting, "dataset": "minesweeper"}, lr=0.01, steps=500)
    assert len(cell(on_board, "GBK-GNN").whole) == 1


def test_settings_trained_alike_are_kept_apart_from_the_furthest():
    early = [run for g in range(6) for run in runs((0, 1), gamma=g / 10, steps=50)]
    whole = [run for g in (1, 3) for run in runs(gamma=g / 10)]
    one = cell([*early, *whole])
    assert {(t.spec.gamma, t.spec.steps, t.splits) for t in one.alike} == {
        (g / 10, 50, (0, 1)) for g in range(6)
    }
    assert {t.spec.gamma for t in one.whole} == {0.1, 0.3}
    assert not any(t.whole for t in one.alike)
    as_many = cell([*whole, *early[:2], *early[2:4]])  # two settings of each: the longer ones
    assert {t.spec.steps for t in as_many.alike} == {1000}
