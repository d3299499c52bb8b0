"""The benchmark of a step: how kernels are told apart, and its table."""

from __future__ import annotations

import sys
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest
import torch

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"


@pytest.fixture
def step(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return import_module("step")


@pytest.mark.parametrize(
    ("kernel", "kind"),
    [
        ("attend", "messages"),
        ("attend_backward", "messages"),
        ("spmm", "messages"),
        ("activate_backward", "bias, dropout, GELU, residual"),
        ("layer_norm", "norms"),
        ("batch_moments", "norms"),
        ("score_nodes_backward", "scores of nodes"),
        ("adamw", "AdamW"),
        ("sm80_xmma_gemm_f32f32_f32f32_f32_nt_n_tilesize32x32x8", "matrix products"),
        ("void cublasLt::splitKreduce_kernel<32, 16>", "matrix products"),
        ("void at::native::reduce_kernel<128, 4>", "other"),
    ],
)
def test_kernels_are_told_apart(step, kernel, kind):
    assert step.kind_of(kernel) == kind


def test_kinds_are_added_up(step):
    found = step.by_kind([("attend", 1.0, 5), ("spmm", 0.5, 2), ("Memset (Device)", 0.25, 3)])
    assert found["messages"] == {"ms": 1.5, "launches": 7}
    assert found["other"] == {"ms": 0.25, "launches": 3}
    assert sum(kind["ms"] for kind in found.values()) == 1.75


def test_the_table_says_what_is_left_between_kernels(step):
    row = {
        "graph": "minesweeper",
        "model": "pd-gat",
        "precision": "bfloat16",
        "machine": "a machine",
        "seconds": 0.002,
        "kinds": step.by_kind([("attend", 1.0, 5), ("nvjet", 0.5, 2)]),
    }
    failed = row | {"seconds": None}
    lines = step.table([row, failed]).splitlines()
    assert lines[0].startswith("a machine: milliseconds of a step of 10 runs")
    assert lines[-1].startswith("| minesweeper | PD-GAT | bfloat16 | 2 | 0.5 | 1 | 0 |")
    assert lines[-1].endswith("| 0.5 | 7 |")
    assert len(lines) == 5


def test_pd_net_stands_beside_its_floor(step, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["step.py", "--models", "pd-net", "--graphs", "minesweeper"])
    (case,) = step.cases(step.read_options())
    assert (case.depth, case.rounds, case.width) == (2, 20, 64)
    least = step.floor(case, 10)
    state = 10 * 64 * step.RUNS
    assert least == {"bytes": 40 * 29 * state * 2, "products": 40 * 8 * state * 64}
    row = asdict(case) | {
        "machine": "a machine",
        "seconds": 0.003,
        "kinds": step.by_kind([("batch_norm_backward", 1.0, 5)]),
        "floor": least | {"copy": least["bytes"] / 2e-3, "product": least["products"] / 1e-3},
    }
    *_, last = step.table([row]).splitlines()
    assert last.startswith("PD-Net, 2 layers × 20 rounds, minesweeper, bfloat16: 3 ms, 1.5 times")
    assert last.endswith("the floor of 2 ms (bytes 2, products 1).")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_the_row_says_why(step, monkeypatch, tmp_path, capsys):
    path = tmp_path / "step.json"
    arguments = ["--graphs", "nowhere", "--models", "pd-gcn", "--results", str(path)]
    monkeypatch.setattr(sys, "argv", ["step.py", *arguments])
    monkeypatch.setattr(step.common, "free", lambda device: None)
    step.main()
    (row,) = step.read_rows(path)
    assert row["seconds"] is None
    assert "nowhere" in row["note"]
    assert "nowhere pd-gcn bfloat16" in capsys.readouterr().out
