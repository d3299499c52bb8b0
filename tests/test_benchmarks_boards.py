"""The benchmark of fresh boards: what it trains on, what it keeps, and its table."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest
import torch

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"


@pytest.fixture
def boards(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return import_module("boards")


def test_boards_stand_side_by_side_and_are_the_split(boards):
    task = boards.training_task(boards.Case("cpu", train_size=4, boards=3))
    assert task.graph.num_nodes == 5 * 16
    assert task.graph.num_components == 5
    train, val, test = task.masks[0]
    assert train.tolist() == [i < 48 for i in range(80)]
    assert torch.equal(val, ~train)
    assert not test.any()
    other = boards.training_task(boards.Case("cpu", train_size=4, boards=3, seed=1))
    assert not torch.equal(other.y, task.y)


def test_a_row_has_a_score_for_each_size_and_rounds(boards, monkeypatch, tmp_path, capsys):
    path = tmp_path / "boards.json"
    small = ["--train-size", "6", "--steps", "3", "--width", "8", "--running", "--sizes", "5,7"]
    arguments = ["--quick", "--rounds", "2", *small, "--results", str(path)]
    monkeypatch.setattr(sys, "argv", ["boards.py", *arguments])
    monkeypatch.setattr(boards, "CELLS", 30)
    monkeypatch.setattr(boards.common, "free", lambda device: None)
    boards.main()
    (row,) = boards.read_rows(path)
    assert row.get("note") is None
    assert {size: list(found) for size, found in row["auc"].items()} == {
        "5": ["1", "2", "4", "8"],
        "7": ["1", "2", "4", "8"],
    }
    assert all(0 < v < 1 for found in row["auc"].values() for v in found.values())
    assert row["command"] == (
        "python benchmarks/boards.py --device cpu --rounds 2 --train-size 6 --boards 2 --steps 3 "
        "--width 8 --running --sizes 5,7 --predict-rounds 1,2,4,8"
    )
    assert {"machine", "versions"} <= row.keys()
    printed = capsys.readouterr().out
    assert "| board | 1 | 2 | 4 | 8 |" in printed
    boards.main()  # is there already
    assert boards.read_rows(path) == [row]
