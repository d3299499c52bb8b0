"""The benchmarks of what a step takes: alone beside its estimate, and in company."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

import pytest

from pdgnn.training import cost as constants

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"


@pytest.fixture
def script(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))

    def run(name, *arguments):
        module = import_module(name)
        monkeypatch.setattr(sys, "argv", [module.SCRIPT, *map(str, arguments)])
        module.main()
        return module

    return run


def test_the_constants_are_fitted_to_the_rows(script, tmp_path):
    graphs = "synthetic:num_nodes=30;synthetic:num_nodes=60"
    small = ("--graphs", graphs, "--widths", "8,64", "--least", 0)
    results = tmp_path / "cost.json"
    cost = script("cost", *small, "--results", results)
    rows = cost.read_rows(results)
    assert len(rows) == 2 * 4 * 2 * 2
    assert all(row["seconds"] > 0 and row["command"] for row in rows)
    exact = [row | {"seconds": cost.estimate(cost.case_of(row))} for row in rows]
    found = cost.fitted(exact)
    for name in ("LAYER", "MESSAGES"):  # the others are too small to tell on such graphs
        assert found[name] == pytest.approx(getattr(constants, name), rel=0.05)
    values = [getattr(constants, name) for name in cost.CONSTANTS]
    for row in rows:
        case = cost.case_of(row)
        parts = zip(cost.terms(case), values, strict=True)
        assert sum(a * b for a, b in parts) == pytest.approx(cost.estimate(case))


def test_runs_at_once_are_measured_in_turns(script, tmp_path, capsys):
    results = tmp_path / "at_once.json"
    small = ("--nodes", 40, "--models", "mlp,gcn", "--widths", 8, "--runs", "1,3", "--rounds", 1)
    at_once = script("at_once", *small, "--results", results)
    rows = at_once.read_rows(results)
    assert [row["model"] for row in rows] == ["mlp", "gcn"]
    assert all(list(row["seconds"]) == ["1", "3"] for row in rows)
    assert all(min(row["seconds"].values()) > 0 for row in rows)
    assert "| gcn | 40 | 8 |" in capsys.readouterr().out
