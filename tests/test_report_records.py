"""The table of the records as text and as Markdown."""

from __future__ import annotations

import math
from dataclasses import replace
from io import StringIO

import pytest
from rich.console import Console

from pdgnn.experiments.records.outcome import Line, RecordTable
from pdgnn.experiments.records.published import best_published
from pdgnn.experiments.records.spaces import METHODS
from pdgnn.experiments.records.trees import TREES
from pdgnn.report.records import records_markdown, records_text, setting_text
from pdgnn.training import RunSpec
from pdgnn.training.spec import resolved

GRAPHS = ("tolokers", "cora")
NETWORK = RunSpec(
    dataset="tolokers", model="pd-gcn", depth=4, alpha=0.0, precision="tf32", lr=0.003
)
BOOSTED = RunSpec(dataset="tolokers", model="pd-trees", steps=120, lr=0.06, options={"hops": 2})


def line(label: str, mean: float, **more) -> Line:
    """Two splits of three seeds, a point around the mean."""
    places = tuple((split, seed) for split in (0, 1) for seed in (101, 102, 103))
    test = tuple(mean + d for d in (-1.0, 0.0, 1.0, -1.0, 0.0, 1.0))
    val = tuple(t + 1 for t in test)
    return Line(label, val=val, test=test, places=places, wanted=6, **more)


@pytest.fixture
def table() -> RecordTable:
    lines = {(g, m.name): Line(m.label) for g in GRAPHS for m in METHODS.values()}
    lines["tolokers", "pd-net"] = line(
        "PD-Net", 86.0, spec=NETWORK, tried=192, p={"gcn": 0.012, "pd-gcn": math.nan}
    )
    lines["tolokers", "pd-trees"] = Line(
        "pd-trees",
        resolved(BOOSTED, TREES),
        56,
        val=(86.0,),
        test=(85.5,),
        places=((0, 101),),
        wanted=6,
    )
    lines["tolokers", "average"] = line("PD-Net and pd-trees, averaged", 86.5, weight=0.25)
    recipe = (line("as tuned", 86.0), line("one scope", 85.25, p={"as tuned": 0.2}))
    return RecordTable(
        GRAPHS,
        {"tolokers": "roc_auc", "cora": "accuracy"},
        {name: best_published(name) for name in GRAPHS},
        tuple(METHODS.values()),
        lines,
        {"tolokers": recipe},
    )


def test_markdown(table):
    said = records_markdown(table)
    assert "| PD-Net | 86.00 ± 0.89ᵗ | 87.00 | +0.09 | 192 | 6 | 0.012\\* |  |" in said
    assert "| pd-trees | 85.50 | 86.00 | −0.41 | 56 | 1/6 |  |  |" in said
    assert "| PD-GCN, the paper's protocol |  |  |  |  |  |  |  |" in said
    assert "| one scope | 85.25 ± 0.89 | 86.25 | −0.75 | 6 | 0.200 |" in said
    assert "ROC AUC; best published: 85.91 ± 0.74, Polynormer-r" in said
    assert "- PD-Net and pd-trees, averaged: the trees weigh 0.25" in said
    assert "- ᵗ trained in tf32." in said
    assert "### cora" in said


def test_text_has_the_same_numbers(table):
    out = StringIO()
    Console(file=out, width=100).print(records_text(table))
    for part in (
        "86.00 ± 0.89ᵗ",
        "0.012*",
        "1/6",
        "one scope",
        "Polynormer-r",
        "ᵗ trained in tf32.",
    ):
        assert part in out.getvalue()


def test_a_setting_in_words(table):
    network, trees = (table.lines["tolokers", name] for name in ("pd-net", "pd-trees"))
    assert setting_text(network) == (
        "depth 4, width 512, α 0, γ 1, dropout 0.2, lr 0.003, decay 0, steps 1000"
    )
    assert setting_text(trees) == (
        "lr 0.06, steps 120, scopes 0,1;1,1, hops 2, labels False, reduce 32, trees lightgbm, "
        "leaves 15"
    )
    assert setting_text(Line("none")) == ""


def test_a_weight_by_the_nodes_that_chose_the_step_is_said(table):
    average = ("tolokers", "average")
    for options, said in (({}, True), ({"crossed": True}, False)):
        spec = replace(NETWORK, model="average", options=options)
        lines = {**table.lines, average: replace(table.lines[average], spec=spec)}
        text = records_markdown(replace(table, lines=lines))
        assert ("weigh 0.25, by scores of the nodes that chose the network's step" in text) is said
