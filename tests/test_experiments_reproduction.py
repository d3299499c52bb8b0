from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from pdgnn import InputError
from pdgnn.experiments.reproduction import (
    Cell,
    cell_specs,
    markdown,
    merge_results,
    paper_plan,
    score,
)
from pdgnn.training import RunResult, RunSpec
from pdgnn.training.checkpoint import RunFolder

# label: (key, whether rewired, α and γ on tolokers)
MODELS = {
    "GCN": ("gcn", False, 1.0, 1.0),
    "SAGE": ("sage", False, 1.0, 1.0),
    "GAT": ("gat", False, 1.0, 1.0),
    "GAT-sep": ("gat-sep", False, 1.0, 1.0),
    "GT": ("gt", False, 1.0, 1.0),
    "GT-sep": ("gt-sep", False, 1.0, 1.0),
    "ResNet": ("resnet", False, 1.0, 1.0),
    "GCN (rewired)": ("gcn", True, 0.9, 0.9),
    "GAT (rewired)": ("gat", True, 0.9, 0.5),
    "PD-GCN": ("pd-gcn", False, 0.4, 0.6),
    "PD-GAT": ("pd-gat", False, 1.0, 1.0),
    "PD-GAT (rewired)": ("pd-gat", True, 0.7, 1.0),
    "PD-GAT-sep": ("pd-gat-sep", False, 1.0, 0.5),
    "PD-GAT-sep (rewired)": ("pd-gat-sep", True, 0.9, 0.5),
}


def results(
    specs: Sequence[RunSpec], tests: Sequence[float], vals: Sequence[float]
) -> dict[str, RunResult]:
    made = [
        RunResult(spec, val=val, test=test, step=9, steps_run=1000, seconds=1.0)
        for spec, test, val in zip(specs, tests, vals, strict=True)
    ]
    return {r.spec.key: r for r in made}


@pytest.mark.parametrize("label", MODELS)
def test_the_runs_of_a_cell(label: str) -> None:
    key, rewired, alpha, gamma = MODELS[label]
    specs = cell_specs(label, "tolokers", 3)
    protocol = RunSpec(
        dataset="tolokers",
        model=key,
        depth=3,
        rewired=rewired,
        alpha=alpha,
        gamma=gamma,
        steps=1000,
        width=512,
        heads=8,
        lr=3e-5,
        dropout=0.2,
    )
    assert specs == [replace(protocol, split=i, seed=i) for i in range(10)]


def test_splits_steps_seed_and_precision_may_be_chosen() -> None:
    specs = cell_specs("GCN", "cora", 1, splits=(4, 2), steps=7, seed=5, precision="tf32")
    assert [(s.split, s.seed, s.steps, s.precision) for s in specs] == [
        (4, 5, 7, "tf32"),
        (2, 5, 7, "tf32"),
    ]


def test_unknown_labels_and_scopes_the_paper_lacks_are_errors() -> None:
    with pytest.raises(InputError, match=r"unknown model 'pd-gcn'; choose one of MLP, ResNet"):
        cell_specs("pd-gcn", "tolokers", 3)
    with pytest.raises(InputError, match=r"no α and γ for PD-GCN on cora; choose your own"):
        cell_specs("PD-GCN", "cora", 2)
    with pytest.raises(InputError, match=r"no α and γ for PD-GCN \(rewired\) on tolokers"):
        cell_specs("PD-GCN (rewired)", "tolokers", 3)


def test_the_plan() -> None:
    plan = paper_plan()
    assert len(plan) == len(set(plan)) == 14 * (2 + 2 + 1) + 9
    order = ["chameleon-filtered", "squirrel-filtered", "minesweeper", "tolokers"]
    assert list(dict.fromkeys(c.dataset for c in plan)) == order
    assert {(c.dataset, c.depth) for c in plan} == {
        *((name, depth) for name in order[:2] for depth in (2, 3)),
        ("minesweeper", 5),
        ("tolokers", 3),
    }
    assert {c.model for c in plan} == set(MODELS)
    missing = {"SAGE", "GAT-sep", "GT", "GT-sep", "ResNet"}
    assert {c.model for c in plan if c.dataset == "tolokers"} == set(MODELS) - missing
    keys = [spec.key for c in plan for spec in cell_specs(c.model, c.dataset, c.depth)]
    assert len(set(keys)) == 10 * len(plan)


def test_score_is_in_percent_with_the_std_of_a_sample() -> None:
    specs = cell_specs("GCN", "minesweeper", 5, splits=range(3))
    found = score(specs, results(specs, [0.5, 0.6, 0.7], [0.8, 0.8, 0.9]))
    assert found is not None
    assert (found.mean, found.std) == pytest.approx((60.0, 10.0))
    assert found.val == pytest.approx(250 / 3)
    assert found.runs == 3
    one = score(specs, results(specs[:1], [0.5], [0.8]))
    assert one is not None
    assert (one.mean, one.runs) == (50.0, 1)
    assert math.isnan(one.std)
    assert score(specs, {}) is None


def test_table_of_made_up_results() -> None:
    cells = [Cell("GCN", "squirrel-filtered", d) for d in (2, 3)]  # published: 39.47 ± 1.47
    cells += [Cell("SAGE", "squirrel-filtered", d) for d in (2, 3)]  # 36.09 ± 1.99
    cells += [Cell("ResNet", "squirrel-filtered", 2), Cell("PD-GCN", "minesweeper", 5)]

    def specs_of(c: Cell) -> list[RunSpec]:
        return cell_specs(c.model, c.dataset, c.depth, splits=(0, 1))

    done: dict[str, RunResult] = {}
    done |= results(specs_of(cells[0]), [0.38, 0.40], [0.41, 0.43])  # better by validation
    done |= results(specs_of(cells[1]), [0.44, 0.46], [0.40, 0.43])
    done |= results(specs_of(cells[2]), [0.29, 0.31], [0.3, 0.3])
    done |= results(specs_of(cells[3])[:1], [0.5], [0.9])  # not finished, so not chosen
    done |= results(specs_of(cells[4]), [0.3, 0.3], [0.3, 0.3])
    assert markdown(cells, done, specs_of=specs_of).splitlines() == [
        "| dataset | model | published | depth 2 | depth 3 | depth 5 | by validation | "
        "within one std |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
        "| squirrel-filtered | GCN | 39.47 ± 1.47 | 39.00 ± 1.41 | 45.00 ± 1.41 |  | "
        "39.00 (depth 2) | yes |",
        "| squirrel-filtered | SAGE | 36.09 ± 1.99 | 30.00 ± 1.41 | 50.00 (1 of 2) |  | "
        "30.00 (depth 2) | no, -6.09 |",
        "| squirrel-filtered | ResNet |  | 30.00 ± 0.00 |  |  | 30.00 (depth 2) |  |",
        "| minesweeper | PD-GCN | 91.60 ± 0.62 |  |  |  |  |  |",
    ]


def test_runs_of_another_length_are_not_the_cell() -> None:
    short = cell_specs("GCN", "minesweeper", 5, steps=5)
    done = results(short, [0.9] * 10, [0.9] * 10)
    assert markdown([Cell("GCN", "minesweeper", 5)], done).splitlines()[-1] == (
        "| minesweeper | GCN | 89.75 ± 0.52 |  |  |  |"
    )


def test_a_depth_that_diverged_is_not_chosen() -> None:
    shallow, deep = cell_specs("GCN", "tolokers", 2), cell_specs("GCN", "tolokers", 3)
    done = results(shallow, [math.nan] * 10, [math.nan] * 10)
    done |= results(deep, [0.8] * 10, [0.7] * 10)
    cells = [Cell("GCN", "tolokers", d) for d in (2, 3)]
    assert "| 80.00 (depth 3) | no, -3.64 |" in markdown(cells, done)


def test_merging_adds_what_is_missing_and_keeps_what_is_there(tmp_path: Path) -> None:
    specs = cell_specs("GCN", "minesweeper", 5, splits=range(3))
    here, there = RunFolder(tmp_path / "here"), RunFolder(tmp_path / "there")
    here.add_results(results(specs[:2], [0.1, 0.2], [0.3, 0.3]).values())
    there.add_results(results(specs[1:], [0.8, 0.9], [0.3, 0.3]).values())
    file = tmp_path / "there" / "results.jsonl"
    assert merge_results(here, file) == 1
    again = RunFolder(tmp_path / "here").results()
    assert [again[spec.key].test for spec in specs] == [0.1, 0.2, 0.9]
    assert merge_results(here, file) == 0


def test_merging_a_file_that_holds_no_runs_is_an_error(tmp_path: Path) -> None:
    folder, file = RunFolder(tmp_path / "here"), tmp_path / "other.jsonl"
    with pytest.raises(InputError, match=r"cannot read .*other.jsonl"):
        merge_results(folder, file)
    good = next(iter(results(cell_specs("GCN", "cora", 2, splits=(0,)), [1.0], [1.0]).values()))
    file.write_text(json.dumps(good.to_dict()) + '\n{"val": 1}\n')
    with pytest.raises(InputError, match=r"other.jsonl, line 2, is damaged or of another"):
        merge_results(folder, file)
    assert folder.results() == {}


def test_runs_on_other_data_are_not_merged(tmp_path: Path) -> None:
    specs = cell_specs("GCN", "minesweeper", 5, splits=range(2))
    here, there = RunFolder(tmp_path / "here"), RunFolder(tmp_path / "there")
    here.check_tasks({"minesweeper": "aa"})
    there.check_tasks({"minesweeper": "bb"})
    there.add_results(results(specs, [0.8, 0.9], [0.3, 0.3]).values())
    with pytest.raises(InputError, match=r"holds runs of a minesweeper with other edges"):
        merge_results(here, tmp_path / "there" / "results.jsonl")
    assert here.results() == {}
