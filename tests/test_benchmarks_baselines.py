"""The benchmark of the published systems: its peers compute the same, and its table."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

import pytest
import torch

from pdgnn.models import MODELS, Size
from published import features, inputs, made, random_graph, run

ROOT = Path(__file__).parent.parent
BOARD = "minesweeper-generated:size=6"


@pytest.fixture
def script(monkeypatch):
    """A module of the benchmarks by its name."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return import_module


@pytest.mark.parametrize("name", ["appnp", "fagcn"])
def test_a_peer_computes_what_the_model_does(script, name):
    graph, fields = random_graph(0), {"depth": 3}
    x, module = features(graph), made(MODELS[name], graph, **fields)
    size = Size(x.shape[1], 3)
    net = script("system_peers").NETS[name](size, run(MODELS[name], **fields)).double().eval()
    theirs = list(net.parameters())
    own = list(module.parameters())
    if name == "fagcn":  # PyG has the halves of g apart, that of the source first, and no bias
        halves = [half for gate in module.gates for half in gate.weight.chunk(2, dim=1)[::-1]]
        own = [*module.lin_in.parameters(), *halves, *module.lin_out.parameters()]
        for gate in module.gates:
            gate.bias.data.zero_()
    for mine, their in zip(own, theirs, strict=True):
        their.data.copy_(mine.detach())
    found = net(x, graph.edge_index, graph.edge_weight)
    torch.testing.assert_close(found, module(x, **inputs(MODELS[name], graph, **fields)))


def test_both_sides_are_measured_and_kept(script, tmp_path, monkeypatch, capsys):
    baselines, file = script("baselines"), tmp_path / "baselines.json"
    words = ["--datasets", BOARD, "--models", "LINKX,jacobiconv", "--steps", "1", "--seconds", "0"]
    monkeypatch.setattr(sys, "argv", ["baselines.py", *words, "--results", str(file)])
    baselines.main()
    linkx, jacobi = baselines.read_rows(file)
    assert (linkx["peer"], jacobi["peer"]) == ("PyG", "one by one")
    for row in (linkx, jacobi):
        assert row["seconds"] > 0
        assert row["peer_seconds"] > 0
        assert row["at_once"] == 10
        assert row["machine"]
        assert row["command"].endswith(
            f"--models {row['model']} --device cpu --steps 1 --seconds 0"
        )
    said = capsys.readouterr().out
    assert f"| {BOARD} | JacobiConv | 1000 | 10 |" in said
    monkeypatch.setattr(sys, "argv", ["baselines.py", "--table", "--results", str(file)])
    baselines.main()
    assert capsys.readouterr().out in said


def test_a_side_that_failed_says_why(script):
    baselines = script("baselines")
    row = {"graph": "g", "model": "linkx", "steps": 1000, "peer": "PyG", "machine": "a machine"}
    failed = row | {"device": "cuda", "seconds": None, "note": "out of memory"}
    failed |= {"peer_seconds": 12.5, "peer_peak_mib": 3.0, "peer_note": None}
    assert baselines.table([failed]).splitlines()[-1] == (
        "| g | LINKX | 1000 |  | out of memory | 12.5 | PyG |  |  | 3 |"
    )


def test_the_page_of_the_models_has_what_was_measured(script):
    baselines, page = script("baselines"), (ROOT / "docs" / "models.md").read_text(encoding="utf-8")
    text = baselines.table(baselines.read_rows(baselines.common.RESULTS / "baselines.json"))
    assert baselines.common.between_marks("benchmarks/baselines.py --table", text, page) == page
