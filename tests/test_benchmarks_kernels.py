"""The benchmarks of kernels and of size: what they count, and a tiny run of each."""

from __future__ import annotations

import json
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from pdgnn.ops import Edges
from pdgnn.ops.backends import use_backend

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"
linux = pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")


@pytest.fixture(params=["kernels", "scale"])
def script(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    return imported(request.param, monkeypatch)


@pytest.fixture
def kernels(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    return imported("kernels", monkeypatch)


@pytest.fixture
def scale(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    return imported("scale", monkeypatch)


def imported(name: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return import_module(name)


def run(module: ModuleType, monkeypatch: pytest.MonkeyPatch, *arguments: object) -> None:
    monkeypatch.setattr(sys, "argv", [module.SCRIPT, *map(str, arguments)])
    with use_backend("reference"):  # nothing to compile
        module.main()


# 3 edges, 2 nodes, 2 heads of 5 channels: a row is 10 numbers of 2 bytes. An index has 4 bytes; by
# target 3 + 2 + 1 of them are read, by source 6 + 2 + 1.
FEWEST = {
    "aggregate": 20 * (3 + 2) + 4 * 3 + 4 * 6,
    "aggregate-dx": 20 * (3 + 2) + 4 * 3 + 4 * 9,
    "aggregate-dw": 20 * (3 + 2) + 4 * 3 + 4 * 6,
    # scores of 3 edges and 2 targets, 2 logarithms of sums, in each head; 2 features of 3 edges
    "attend": 20 * (3 + 2) + 2 * 2 * (3 + 2) + 4 * 2 * 2 + 4 * 6 + 4 * 6,
    # g; x, out, dx; scores of edges, sources and two gradients; logarithms and ⟨g, out⟩ of edges
    "attend-backward": 20 * (3 + 6) + 2 * 2 * (3 + 2 + 4) + 4 * 2 * (3 + 3) + 4 * 6 + 4 * 9,
    "attend-dot": 20 * (6 + 4) + 4 * 2 * 2 + 4 * 6,
    # g, q, k of edges; k, v, out, dq, dk, dv of nodes; four numbers of an edge and a head
    "attend-dot-backward": 20 * (9 + 12) + 4 * 2 * 4 * 3 + 4 * (6 + 9),
}


@pytest.mark.parametrize("kernel", FEWEST)
def test_fewest_bytes_by_hand(kernels: ModuleType, kernel: str) -> None:
    found = kernels.fewest_bytes(kernel, 3, 2, heads=2, channels=5, item=2, index=4)
    assert found == FEWEST[kernel]


def test_every_kernel_has_its_bytes_counted(kernels: ModuleType) -> None:
    assert list(kernels.COUNTS) == list(FEWEST)


def case_of(kernels: ModuleType, kernel: str, side: str = "pdgnn") -> Any:
    return kernels.Case("random:6", kernel, side, "float32", "cpu", 2, 4)


@pytest.fixture
def graph() -> tuple[Edges, torch.Tensor]:
    index = torch.tensor([[0, 1, 2, 2, 0, 3], [1, 0, 1, 2, 3, 3]])
    return Edges.from_edge_index(index, num_nodes=4), torch.rand(6, 2)


@pytest.mark.parametrize(
    ("kernel", "shapes"),
    [
        ("aggregate-dx", [(4, 2, 4)]),
        ("aggregate-dw", [(6, 1)]),
        ("attend-backward", [(4, 2, 4), (4, 2), (4, 2), (2, 2)]),
        ("attend-dot-backward", [(4, 2, 4)] * 3),
    ],
)
def test_backward_passes_can_be_repeated(
    kernels: ModuleType, graph: Any, kernel: str, shapes: list[tuple[int, ...]]
) -> None:
    with use_backend("reference"):
        call = kernels.kernel_call(case_of(kernels, kernel), *graph)
        first, second = call(), call()
    assert [tuple(t.shape) for t in first] == shapes
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


def test_both_sides_of_aggregate_read_the_same_edges(kernels: ModuleType, graph: Any) -> None:
    edges, _ = graph
    dense = torch.zeros(4, 4)
    with use_backend("reference"):
        for kernel in ("aggregate", "aggregate-dx"):
            case = case_of(kernels, kernel, "torch.sparse")
            draw = kernels.drawer(case)
            x, weight = draw(4, 8), draw(6)
            dense[edges.row, edges.col] = weight
            wanted = dense @ x if kernel == "aggregate" else dense.T @ x
            assert torch.allclose(kernels.sparse_call(case, *graph)(), wanted, atol=1e-6)


def test_both_layers_have_the_same_gradients(kernels: ModuleType, graph: Any) -> None:
    with use_backend("reference"):
        ours = kernels.layer_call(case_of(kernels, "layer"), *graph)()
        theirs = kernels.layer_call(case_of(kernels, "layer", "pyg"), *graph)()
    assert torch.allclose(ours[0], theirs[0], atol=1e-5)
    assert sorted(t.numel() for t in ours) == sorted(t.numel() for t in theirs)


@linux
def test_kernels_are_measured_once_and_printed(
    kernels: ModuleType,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    results = tmp_path / "kernels.json"
    tiny = ["--graphs", "random", "--edges", 60, "--least", 0, "--copy-gib", 0.001]
    tiny += ["--dtypes", "float32", "--results", results]
    run(kernels, monkeypatch, *tiny)
    rows = json.loads(results.read_text())
    assert [(r["kernel"], r["side"]) for r in rows] == [
        ("aggregate", "pdgnn"),
        ("aggregate", "torch.sparse"),
        ("aggregate-dx", "pdgnn"),
        ("aggregate-dx", "torch.sparse"),
        *((kernel, "pdgnn") for kernel in list(FEWEST)[2:]),
        ("layer", "pdgnn"),
        ("layer", "pyg"),
    ]
    assert all(r["seconds"] > 0 and r["edges"] == 60 and r["nodes"] == 3 for r in rows)
    assert rows[0]["bytes"] == 4 * 512 * (60 + 3) + 4 * 60 + 4 * (60 + 3 + 1)
    assert rows[0]["command"].startswith(
        "python benchmarks/kernels.py --device cpu --graphs random"
    )
    before = capsys.readouterr().out
    run(kernels, monkeypatch, *tiny)
    assert json.loads(results.read_text()) == rows
    run(kernels, monkeypatch, "--table", "--results", results)
    lines = [line for line in before.splitlines() if line.startswith("| random | 60 | ")]
    assert [line.split(" | ")[2] for line in lines] == [*FEWEST, "float32"]
    assert capsys.readouterr().out.splitlines()[-len(lines) :] == before.splitlines()[-len(lines) :]


@linux
def test_steps_are_measured_drawn_and_printed(
    scale: ModuleType,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    results = tmp_path / "scale.json"
    run(scale, monkeypatch, "--edges", "1e3,3e3", "--least", 0, "--results", results)
    rows = json.loads(results.read_text())
    sizes = [(r["model"], r["edges"], r["nodes"]) for r in rows]
    assert sizes == [(m, e, e // 10) for m in ("pd-gat", "pd-gcn") for e in (1000, 3000)]
    assert all(r["seconds"] > 0 and r["command"].endswith(f"--edges {r['edges']}") for r in rows)
    assert (tmp_path / "scale.png").read_bytes().startswith(b"\x89PNG")
    assert "slope 1" in (tmp_path / "scale.svg").read_text()
    assert "PD-GAT: time grows as E^" in capsys.readouterr().out


def test_exponents_of_known_powers(scale: ModuleType) -> None:
    rows = [
        {"edges": e, "seconds": 3.0 * e, "peak_bytes": 5.0 * e**1.5} for e in (10, 100, 1000, 5000)
    ]
    full = {"edges": 10**6, "seconds": None, "note": "out of memory"}
    assert scale.exponent([*rows, full], "seconds") == pytest.approx(1.0)
    assert scale.exponent([*rows, full], "peak_bytes") == pytest.approx(1.5)
    assert scale.exponent(rows[:1], "seconds") is None


def test_what_does_not_fit_is_a_row(
    script: ModuleType,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def full(*_: object) -> dict[str, Any]:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 5 GiB")

    monkeypatch.setattr(script, "measure", full)
    results = tmp_path / "rows.json"
    small = ["--kernels", "attend", "--graphs", "random", "--copy-gib", 0.001]
    small = small if script.SCRIPT == "kernels.py" else []
    run(script, monkeypatch, "--edges", 100, "--results", results, "--least", 0, *small)
    rows = json.loads(results.read_text())
    assert {r["note"] for r in rows} == {"out of memory"}
    assert "| out of memory |" in capsys.readouterr().out
