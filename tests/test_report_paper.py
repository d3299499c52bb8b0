"""The page of a store of runs."""

from __future__ import annotations

import html
import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest

from outcomes import COMPARISONS, HOSTILE, fact_table, grid_cell, score_table
from outcomes import ROWS as TABLE_ROWS
from papers import ABOUT, run, small_runs
from pdgnn.experiments.figure1 import QUICK, figure1, figure1_specs
from pdgnn.report.heatmap import SHADES, heat_data, heat_of, heat_svg
from pdgnn.report.line_charts import Series, line_figure, nice_ends
from pdgnn.report.paper import paper_page
from pdgnn.report.paper_facts import Paper, collect, distinct_cells, read_paper
from pdgnn.report.paper_sections import origin
from pdgnn.training.spec import RunResult
from pdgnn.training.store import Store

VOID = {"meta", "br", "input", "img", "link", "hr"}


class Balanced(HTMLParser):
    """Complains of tags that are not closed in their order, and notes what there is."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []

    def handle_starttag(self, tag, attrs):
        self.seen.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.seen.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] not in ("script", "style"):
            self.words.append(data)


def parsed(page: str) -> Balanced:
    found = Balanced()
    found.feed(page)
    assert found.open == []
    return found


@pytest.fixture(scope="module")
def paper(tmp_path_factory):
    root = tmp_path_factory.mktemp("no-data")
    return collect(small_runs(), {1: ABOUT}, root=root)


@pytest.fixture(scope="module")
def page(paper):
    return paper_page(paper, title=HOSTILE)


def test_it_is_whole_and_safe(page):
    found = parsed(page)
    scripts = [a for tag, a in found.seen if tag == "script"]
    assert len(scripts) == 2  # the numbers, and the page's own
    assert not any(name.startswith("on") for _, a in found.seen for name in a)
    ids = [a["id"] for _, a in found.seen if "id" in a]
    assert len(ids) == len(set(ids))
    assert "alert(1)" in " ".join(found.words)  # as text
    assert "\x1b" not in page
    assert not re.search(r"(src|href)=\"?(?!#)\w", page)


def test_hostile_names_are_text_everywhere(page):
    assert "<script>alert" not in page
    assert html.escape(HOSTILE.replace("\x1b", " ")) in page


def test_the_lead_and_the_rows(page):
    words = " ".join(parsed(page).words)
    assert "finished runs on 1 machine" in words
    assert "Table 2 has" in words
    assert "H2GCN" in words  # which has no runs
    assert "Not there yet" not in words
    assert "3,072 MiB" in words


def test_a_table_says_what_is_missing():
    table = score_table()
    made = Paper(small_runs()[:1], {}, {"table2": table}, {"table2": COMPARISONS}, [fact_table()])
    found = parsed(paper_page(made))
    words = " ".join(found.words)
    assert "120/440" in words
    assert "No runs yet: roman-empire." in words
    assert "+2.00*" in words
    assert "does not reach it either" in words
    assert "<details><summary><span><b>Below the paper</b>" in paper_page(made)
    assert "the largest is shown" in words
    classes = [a.get("class") for tag, a in found.seen if tag == "td"]
    assert "up" in classes


def test_a_graph_that_the_paper_does_not_have_comes_once(tmp_path):
    runs = [*small_runs(), *(run(model="gat", dataset="b.npz", split=i) for i in range(3))]
    paper = collect(runs, {}, root=tmp_path)
    *of_paper, others = paper.tables.values()
    assert not any({HOSTILE, "b.npz"} & set(table.datasets) for table in of_paper)
    assert others.datasets == (HOSTILE, "b.npz")
    assert len(others.rows) == len({(r.model, r.rewired, r.tuned is False) for r in others.rows})
    found = paper_page(paper)
    assert " 2 other graphs." in " ".join(parsed(found).words)
    assert found.count("<b>b.npz</b>") == 1
    block = found[found.index("<b>b.npz</b>") :].partition("</table>")[0]
    assert "published" not in block
    assert "7/10" in block


def test_no_runs_is_said(tmp_path):
    with Store(tmp_path / "empty.sqlite"):
        pass
    page = paper_page(read_paper(tmp_path / "empty.sqlite"))
    parsed(page)
    assert "There are no finished runs in this store yet" in page
    assert "<section" not in page


def test_runs_of_nothing_in_the_paper():
    other = [run(model="gcn", lr=0.5)]
    page = paper_page(collect(other, {}))
    parsed(page)
    assert "None of these runs belongs to a table of the paper" in page


def test_a_heat_map_has_the_values_of_the_data():
    cell = grid_cell(TABLE_ROWS[2], "chameleon-filtered")
    heat = heat_of(cell)
    assert heat is not None
    data = heat_data(heat)
    assert list(data["depths"]) == ["2", "3"]
    across = len(data["a"])
    for t in cell.tried:
        k = data["g"].index(t.spec.gamma) * across + data["a"].index(t.spec.alpha)
        layer = data["depths"][str(t.spec.depth)]
        assert layer["v"][k] == round(100 * t.val_mean)
        assert layer["t"][k] == round(100 * t.mean)
        assert layer["n"][k] == 10
    assert sum(n != 0 for layer in data["depths"].values() for n in layer["n"]) == len(cell.tried)
    json.dumps(data, allow_nan=False)


def test_a_heat_map_shows_the_best_depth_of_each_cell():
    cell = grid_cell(TABLE_ROWS[2], "chameleon-filtered")
    heat = heat_of(cell)
    found = parsed(heat_svg(heat))
    titles = [w for w in found.words if w.startswith("α ")]
    assert len(titles) == 22
    assert "α 0.3, γ 0.5: validation 48.50, test 46.50, depth 3" in titles
    assert heat.trained == "10 splits, 1,000 steps"
    fills = [a["fill"] for tag, a in found.seen if tag == "rect" and "fill" in a]
    assert set(fills) <= {f"#{shade}" for shade in SHADES}
    assert f"#{SHADES[-1]}" in fills
    assert sum(a.get("class") == "none" for tag, a in found.seen if tag == "rect") == 121 - 22
    marks = [a["class"] for _, a in found.seen if a.get("class") in ("chosen", "published")]
    assert marks[0] == "chosen"
    label = next(a["aria-label"] for tag, a in found.seen if tag == "svg")
    assert "PD-GAT-sep (rewired) on chameleon-filtered" in label
    assert "48.50" in label


def test_a_map_on_which_nothing_depends_looks_even():
    """Its colours span a point: differences of hundredths are not drawn from end to end."""
    cell = grid_cell(TABLE_ROWS[2], "chameleon-filtered")
    flat = [replace(t, val=tuple(50 + i / 1000 for _ in t.val)) for i, t in enumerate(cell.alike)]
    found = parsed(heat_svg(heat_of(replace(cell, alike=tuple(flat)))))
    fills = {a["fill"] for tag, a in found.seen if tag == "rect" and "fill" in a}
    middle = SHADES[len(SHADES) // 2 - 3 : len(SHADES) // 2 + 3]
    assert fills <= {f"#{shade}" for shade in middle}


def test_many_commands_of_a_machine_are_folded_up():
    about = {
        i: {"machine": "m", "command": f"pdgnn number {i}", "date": "2026-11-15T18:05:15+00:00"}
        for i in range(7)
    }
    made = (small_runs() * 7)[:7]
    few = origin(Paper([replace(r, provenance=i % 2) for i, r in enumerate(made)], about))
    assert "<details>" not in few
    assert "date 2026-11-15 18:05 UTC" in few
    many = origin(Paper([replace(r, provenance=i) for i, r in enumerate(made)], about))
    assert "<summary>7 commands, 7 runs</summary>" in many
    assert "pdgnn number 6" in many


def test_scopes_of_one_rewired_graph_share_their_value():
    cell = grid_cell(TABLE_ROWS[2], "tolokers")
    first, second = (replace(t, scopes=()) for t in cell.tried[:2])
    shared = replace(first, scopes=((first.spec.alpha, 0.5), (0.7, 0.7), (0.8, 0.8), (0.9, 0.9)))
    heat = heat_of(replace(cell, alike=(shared, second)))
    values = heat_data(heat)["depths"]["2"]["v"]
    assert sum(v == round(100 * first.val_mean) for v in values) == 4
    assert sum(v is not None for v in values) == 5


def test_few_scopes_make_no_map():
    cell = grid_cell(TABLE_ROWS[2], "tolokers")
    assert heat_of(replace(cell, tried=cell.tried[:3], alike=cell.tried[:3])) is None
    assert heat_of(replace(cell, tried=(), alike=())) is None
    assert heat_of(replace(cell, row=TABLE_ROWS[0])) is None


def test_odd_scopes_have_axes_of_their_own():
    cell = grid_cell(TABLE_ROWS[2], "tolokers")
    odd = [replace(t, scopes=((t.spec.alpha / 3, t.spec.gamma),)) for t in cell.tried]
    heat = heat_of(replace(cell, tried=(), alike=tuple(odd)))
    assert len(heat.alphas) == 11
    assert heat.alphas[-1] == pytest.approx(1 / 3, abs=1e-5)


def test_curves_come_from_the_store(tmp_path):
    with Store(tmp_path / "runs.sqlite") as store:
        store.merge(small_runs(), {1: ABOUT})
    read = read_paper(tmp_path / "runs.sqlite", root=tmp_path)
    assert len(read.runs) == len(small_runs())
    assert len(read.curves) == 10  # of what was chosen for PD-GCN; GCN kept none
    page = paper_page(read)
    parsed(page)
    (section,) = re.findall(r'<section id="curves".*?</section>', page, re.S)
    assert section.count("<figure") == 1
    assert "<b>PD-GCN</b> on chameleon-filtered" in section
    assert len(section) < 12_000


def test_without_curves_there_is_no_section(page):
    assert 'id="curves"' not in page
    assert 'href="#curves"' not in page


def test_cells_that_two_tables_share_come_once(paper):
    found = [(c.dataset, c.row.model, c.row.rewired, c.row.tuned) for c in distinct_cells(paper)]
    assert len(found) == len(set(found))
    assert ("chameleon-filtered", "pd-gcn", False, True) in found


def test_figure_1_is_drawn_from_its_runs():
    rng = np.random.default_rng(0)
    results = [
        RunResult(spec, float(rng.uniform()), float(rng.uniform()), 1, spec.steps, 0.1)
        for spec in figure1_specs(QUICK)
    ]
    made = Paper(small_runs()[:1], {}, figure1=figure1(results, QUICK))
    page = paper_page(made)
    parsed(page)
    (section,) = re.findall(r'<section id="figure1".*?</section>', page, re.S)
    assert section.count("<svg") == 2
    assert section.count("<circle") == len(QUICK.homophily)
    assert "PD-GCN, worst γ" in section


def test_the_ends_of_an_axis():
    for low, high in ((41.3, 52.9), (0.0, 1.0), (-3.0, 3.0), (5.0, 5.0), (1e-9, 2e-9), (0, 99.9)):
        first, last, step = nice_ends(low, high)
        assert first <= low + 1e-9
        assert last >= high - 1e-9
        assert 0.99 < (last - first) / step < 7


def test_lines_without_points_are_drawn_empty():
    svg = line_figure([Series("none", [1.0, 2.0], [np.nan, np.nan])], caption="c", across="x")
    parsed(svg)
    assert "nan" not in svg


def test_origins_are_counted(paper, page):
    assert f"{len(paper.runs):,} runs" in page
    unknown = replace(paper, runs=[replace(r, provenance=None) for r in paper.runs])
    assert f"Of {len(paper.runs):,} runs it is not noted" in paper_page(unknown)


def test_many_runs_make_a_small_page(page):
    cells = len(re.findall("<rect", page))
    assert cells
    per_cell = sum(map(len, re.findall(r"<rect.*?(?:</rect>|/>)", page))) / cells
    # 49 maps of 121 cells, five depths of four numbers each: well below three megabytes
    assert 49 * 121 * (per_cell + 5 * 4 * 6) < 2.5e6


@pytest.mark.usefixtures("without_h2gcn")
def test_a_row_without_a_model_is_named(tmp_path):
    page = paper_page(collect(small_runs(), {1: ABOUT}, root=tmp_path))
    assert "Not there yet, published scores only: H2GCN" in " ".join(parsed(page).words)


def test_runs_of_a_cpu_have_no_memory(tmp_path):
    runs = [replace(r, result=replace(r.result, memory=None)) for r in small_runs()]
    words = " ".join(parsed(paper_page(collect(runs, {1: ABOUT}, root=tmp_path))).words)
    assert "Memory was not recorded: it is known of runs on a GPU." in words
    assert "MiB" not in words
