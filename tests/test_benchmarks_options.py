"""The options of the benchmarks: names are those of the registry or of the paper, and checked."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.fixture
def script(monkeypatch):
    """A benchmark by its name, called with arguments."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))

    def call(name, *arguments):
        monkeypatch.setattr(sys, "argv", [f"{name}.py", *arguments])
        return import_module(name)

    return call


@pytest.mark.parametrize("name", ["training", "step", "scale"])
def test_models_have_the_names_of_the_registry_and_of_the_paper(script, name):
    for given in ("PD-GAT,pd-gcn", "pd-gat,PD-GCN"):
        module = script(name, "--models", given)
        found = dict.fromkeys(case.model for case in module.cases(module.read_options()))
        assert list(found) == ["pd-gat", "pd-gcn"]
    module = script(name)
    assert {case.model for case in module.cases(module.read_options())} == {"pd-gat", "pd-gcn"}


def test_a_model_by_its_name_in_the_paper_is_measured(script):
    options = ("--graphs", "minesweeper-generated:size=8", "--widths", "8", "--depth", "1")
    module = script("training", "--models", "PD-GAT", "--sides", "pdgnn", *options)
    (case,) = module.cases(module.read_options())
    row = module.measure_here(case, module.Clock(1, 1, 0.0))
    assert row["seconds"] > 0
    assert row["splits"] == 1


@pytest.mark.parametrize(
    ("name", "option", "unknown", "choices"),
    [
        ("training", "--models", "PD-GAT,GAN", "pd-gat, pd-gcn"),
        ("training", "--sides", "dgl", "pdgnn, pdgnn-workers, pyg, pyg-sparse"),
        ("step", "--models", "gat", "pd-gat, pd-gcn"),
        ("step", "--precisions", "float16", "float32, tf32, bfloat16, float64"),
        ("scale", "--models", "", "pd-gat, pd-gcn"),
        ("kernels", "--kernels", "attend,spmv", "aggregate, aggregate-dx"),
        ("kernels", "--dtypes", "half", "float32"),
        ("at_once", "--models", "gcn,gan", "mlp, gcn, pd-gat-sep"),
        ("cost", "--models", "gan", "mlp, gcn, sage, pd-gat-sep"),
        ("baselines", "--models", "GloGNN,gan", "h2gcn, cpgnn, gpr-gnn"),
        ("spectrum", "--methods", "matlab", "pdgnn, whole, path, pyg"),
        ("spectrum", "--graphs", "nowhere", "chain"),
    ],
)
def test_an_unknown_name_is_an_error_of_one_line(script, name, option, unknown, choices):
    module = script(name, option, unknown)
    with pytest.raises(SystemExit) as error:
        module.read_options() if hasattr(module, "read_options") else module.main()
    assert str(error.value).startswith(f"unknown: {unknown.split(',')[-1]}; choose of ")
    assert choices in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("name", "option"), [("training", "--widths"), ("scale", "--edges"), ("kernels", "--edges")]
)
def test_what_is_no_number_is_an_error_of_one_line(script, name, option):
    module = script(name, option, "64,many")
    with pytest.raises(SystemExit, match=r"^not whole numbers separated by commas: 64,many$"):
        module.read_options()
    module = script(name, option, "64,1e3")
    assert getattr(module.read_options(), option[2:]) == [64, 1000]
