"""The page and the picture of a training."""

from __future__ import annotations

from dataclasses import replace
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest
from typer.testing import CliRunner

from pdgnn.cli import app
from pdgnn.report.dial import scores_figure, scores_svg
from pdgnn.report.page import training_page
from pdgnn.training import RunResult, RunSpec
from pdgnn.training.summary import summarize

SPEC = RunSpec(dataset="cora", model="pd-gcn", gamma=0.0)


def rows(*, gammas=(0.0, 0.5, 1.0), baseline=True):
    """PD-GCN best at γ = 0.5 by validation and at γ = 1 by test; a GCN between them."""
    found = [
        RunResult(
            replace(SPEC, gamma=g, split=i), 0.9 - abs(g - 0.5), 0.5 + g / 10 + i / 50, 3, 9, 1
        )
        for g in gammas
        for i in (0, 1)
    ]
    if baseline:
        found += [RunResult(replace(SPEC, model="gcn", gamma=1.0), 0.5, 0.4, 3, 9, 1)]
    return summarize(found)


class Tables(HTMLParser):
    """The cells of all rows, and the classes of the rows."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.classes: list[str | None] = []
        self.inside = False
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        if tag == "tr":
            self.rows.append([])
            self.classes.append(dict(attrs).get("class"))
        self.inside = tag in ("td", "th")

    def handle_endtag(self, tag):
        self.inside = False

    def handle_data(self, data):
        if self.inside:
            self.rows[-1].append(data)


def test_the_page_has_the_table_with_the_choice_marked():
    page = Tables(training_page("cora", "accuracy", rows(), "pdgnn train cora"))
    assert page.rows[0][:4] == ["model", "γ", "runs", "test"]  # α and the depth are the same in all
    assert [row[0] for row in page.rows[1:]] == ["PD-GCN"] * 3 + ["GCN"]
    assert [row[1] for row in page.rows[1:]] == ["0", "0.5", "1", "-"]
    assert page.rows[2][3] == "56.00 ± 1.41"
    assert page.classes == [None, None, "chosen", None, None]


def test_what_users_type_is_escaped():
    evil = "<script>alert('x')</script>&"
    page = training_page(evil, "accuracy", rows(), f"pdgnn train {evil}")
    assert "<script" not in page
    assert page.count("&lt;script&gt;alert(&#x27;x&#x27;)&lt;/script&gt;&amp;") == 3


def test_the_page_needs_nothing_from_elsewhere():
    page = training_page("cora", "accuracy", rows(), "pdgnn train cora")
    head = page[: page.index("<svg")]
    assert "http" not in head
    assert "<img" not in page
    assert "<link" not in page


def test_the_dial_runs_along_gamma_with_a_ring_at_the_choice():
    axes = scores_figure(rows(), "accuracy").axes[0]
    line, ring, base = axes.lines
    assert list(line.get_xdata()) == [0.0, 0.5, 1.0]
    assert list(line.get_ydata()) == pytest.approx([51.0, 56.0, 61.0])
    assert (ring.get_xdata()[0], ring.get_ydata()[0]) == pytest.approx((0.5, 56.0))
    assert list(base.get_ydata()) == pytest.approx([40.0, 40.0])
    names = [t.get_text() for t in axes.get_legend().get_texts()]
    assert names == ["PD-GCN", "GCN"]


def test_the_dial_has_a_line_for_whatever_else_differs():
    found = [r for row in rows() for r in row.results]
    found += [replace(r, spec=replace(r.spec, alpha=0.5, lr=0.1)) for r in found[:6]]
    axes = scores_figure(summarize(found), "accuracy").axes[0]
    names = [t.get_text() for t in axes.get_legend().get_texts()]
    assert names == ["PD-GCN, α = 1, lr 3e-05", "PD-GCN, α = 0.5, lr 0.1", "GCN, lr 3e-05"]


def test_settings_stand_one_under_another_where_gamma_is_not_varied():
    axes = scores_figure(rows(gammas=(0.5,)), "roc_auc").axes[0]
    names = [t.get_text() for t in axes.get_yticklabels()]
    assert names == ["PD-GCN", "GCN"]
    assert axes.get_xlabel() == "test ROC AUC, %"


def test_the_picture_is_an_element_of_its_own():
    element = ElementTree.fromstring(scores_svg(rows(), "accuracy"))
    assert element.tag.endswith("svg")


def test_the_command_writes_it(tmp_path):
    out = tmp_path / "page" / "report.html"
    options = "--width 8 --heads 2 --depth 1 --steps 2 --splits 0,1 --lr 0.01 --gamma 0,1"
    result = CliRunner().invoke(
        app,
        [
            *("train", "minesweeper-generated:size=6,seed=1", "-m", "pd-gcn,gcn"),
            *options.split(),
            *("--report", str(out)),
        ],
    )
    assert result.exit_code == 0, result.output
    page = Tables(out.read_text(encoding="utf-8"))
    assert [row[0] for row in page.rows[1:]] == ["PD-GCN", "PD-GCN", "GCN"]
    assert list(out.parent.iterdir()) == [out]


def test_another_kind_of_file_is_refused_before_any_work(tmp_path):
    result = CliRunner().invoke(app, ["train", "nowhere", "--report", str(tmp_path / "a.pdf")])
    assert result.exit_code == 2
    assert "use .html" in result.output
