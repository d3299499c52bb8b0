"""The page of a fitted classifier: what it holds, and that it is harmless and small."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser

import numpy as np
import pytest

from fitted import BREAKS, HOSTILE, Estimate, fitted
from pdgnn import Graph, diffusion_matrix, homophily, rewire
from pdgnn.report import fitted_map
from pdgnn.report.fitted import fitted_page
from pdgnn.report.fitted_charts import confusion_table, interval_rows, line_chart
from pdgnn.report.fitted_data import confusion


class Page(HTMLParser):
    """The text of the page, its elements, and the data that its script reads."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.html = html
        self.tags: list[tuple[str, dict]] = []
        self.text: dict[str, str] = {}
        self.section, self.skip = "", False
        self.feed(html)
        self.written = re.search(r'id="data">(.*?)</script>', html, re.S)[1]
        self.data = json.loads(self.written)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag == "section":
            self.section = dict(attrs)["id"]
        self.skip = tag in ("script", "style")

    def handle_endtag(self, tag):
        self.skip = False

    def handle_data(self, data):
        if not self.skip:
            said = self.text.get(self.section, "") + data
            self.text[self.section] = re.sub(r"\s+", " ", said)


@pytest.fixture(scope="module")
def clf():
    return fitted()


@pytest.fixture(scope="module")
def page(clf):
    return Page(fitted_page(clf))


def test_every_section_is_there(page):
    ids = [a["id"] for t, a in page.tags if t == "section"]
    assert ids == ["estimate", "graph", "leaderboard", "dial", "mistakes", "map"]
    known = {a["id"] for _, a in page.tags if "id" in a}
    links = [a["href"] for t, a in page.tags if t == "a"]
    assert {link.removeprefix("#") for link in links} == set(ids)
    for name in ("gamma", "canvas", "search", "node", "theme", "play", "edges"):
        assert name in known


def test_it_asks_nothing_of_the_network(page):
    assert not [t for t, _ in page.tags if t in ("link", "img", "iframe", "object")]
    assert not [a for _, a in page.tags if "src" in a]
    assert "http:" not in page.html
    assert "https:" not in page.html
    assert "url(" not in page.html
    policy = next(a["content"] for _, a in page.tags if "http-equiv" in a)
    assert policy.startswith("default-src 'none'")


def test_what_users_wrote_is_escaped(page, clf):
    assert HOSTILE not in page.html
    assert "<b>0" not in page.html
    assert "onerror=alert(1)>" not in page.html
    assert page.html.count("<script") == page.html.count("</script>") == 2
    assert not [a for _, a in page.tags if any(name.startswith("on") for name in a)]
    assert "\u2028" not in page.html
    ids = page.data["nodes"]["id"]
    assert ids[:2] == [HOSTILE, BREAKS.replace("\u2028", " ")]
    assert page.data["classes"][0] == "<b>0</b>"
    assert page.written.isascii()
    other = fitted(nodes=60)
    other.table_.name = "\ud800 & lone"
    fitted_page(other).encode()


def test_the_title_is_the_tables_name(page):
    assert "<h1>people &amp; groups &lt;script&gt;" in page.html


def test_the_same_classifier_gives_the_same_page():
    assert fitted_page(fitted(nodes=60)) == fitted_page(fitted(nodes=60))


def test_the_estimate_stands_beside_what_knows_no_graph(page, clf):
    said = page.text["estimate"]
    for words in ("71.3 %", "68.0–74.4", "majority", "21.0 %", "logistic regression", "mlp"):
        assert words in said
    assert "The graph helps: accuracy 71.3" in said
    assert "Accuracy. A fifth of the labelled nodes" in said
    other = fitted(nodes=60)
    other.estimate_.helps, other.estimate_.sentence = False, "The graph does not help: so"
    assert "The graph does not help" in Page(fitted_page(other)).text["estimate"]


def test_remarks_are_on_the_page(page):
    assert "Classes are unbalanced: 9 nodes are <b>0</b>." in page.text["estimate"]
    assert "Remarks" not in fitted_page(fitted(nodes=60, hostile=False))


def test_no_estimate_is_no_number():
    clf = fitted(nodes=60, honest=False)
    none = float("nan")
    clf.estimate_ = Estimate(score=none, low=none, high=none, baselines={})
    page = fitted_page(clf)
    assert "how good it is, is not known" in page
    assert "nan" not in Page(page).text["estimate"]


def test_no_scale_goes_beyond_all():
    rows = interval_rows({"this model": (0.99, 0.62, 1.0)}, "this model")
    assert "<span>60 %</span><span>100 %</span>" in rows
    assert "110 %" not in line_chart([(0, 0.5), (1, 1.0)], name="γ", score="s", chosen=None)


def test_the_graph_in_numbers_and_words(page, clf):
    said, g = page.text["graph"], clf.table_.graph
    share = homophily.edge(g, clf.y_)
    assert f"Neighbours share a label in {share:.0%}".replace("%", " %") in said
    assert f"{homophily.adjusted(g, clf.y_):.2f}" in said
    assert f"{g.num_edges:,}" in said
    assert "nothing was changed" in said
    missing = (clf.y_ < 0).sum()
    assert f"{missing} nodes have no label" in said


def test_the_leaderboard_is_by_validation_and_marks_the_choice(page):
    said = page.text["leaderboard"]
    order = [said.index(name) for name in ("PD-GAT-sep, rewired", "PD-GCN", "pd-trees", "SAGE")]
    assert order == sorted(order)
    assert "γ 0.3" in said
    assert "(α, γ) (0, 1) (1, 1), hops 4" in said
    assert "diverged–1.5" in said.replace(" ", "")
    assert page.html.count("<tr class=chosen><th scope=row>PD-GAT-sep, rewired</th>") == 1


def test_mistakes_are_counted_on_held_out_nodes_only(page, clf):
    held = np.isfinite(clf.honest_).all(axis=1) & (clf.y_ >= 0)
    guess = clf.honest_[held].argmax(axis=1)
    table = confusion_table(confusion(clf.y_[held], guess, 5), list(clf.classes_))
    assert table in page.html
    assert f"From {held.sum()} labelled nodes" in page.text["mistakes"]
    p = clf.honest_[held].max(axis=1)
    place = np.minimum((10 * p).astype(int), 9)
    low, right, count = page.data["bins"]
    assert low == sorted({b / 10 for b in place.tolist()})
    assert count == np.bincount(place)[np.unique(place)].tolist()
    hits = [(guess == clf.y_[held])[place == b].mean() for b in np.unique(place)]
    assert right == pytest.approx(hits)


def shares(graph: Graph, row: int, **scope):
    p = diffusion_matrix(graph, **scope).toarray()[row]
    return p / p.sum()


def test_neighbours_are_those_of_the_rewired_diffusion_matrix(page, clf):
    rewired = rewire(clf.table_.graph, alpha=0.5, gamma=0.3)
    hub = int(rewired.added[1, 0])
    nodes = page.data["nodes"]
    for i in (0, 5, hub):
        expected = shares(rewired, i, alpha=0.5, gamma=0.3)
        near = nodes["near"][i]
        others = [-1 - n if n < 0 else n for n in near[::2]]
        assert near[1::2] == pytest.approx(10_000 * expected[others], abs=0.51)
        assert nodes["own"][i] == pytest.approx(10_000 * expected[i], abs=0.51)
        expected[i] = 0.0
        assert min(near[1::2]) >= 10_000 * np.sort(expected)[-len(others)] - 0.51
        for n in near[::2]:
            other = -1 - n if n < 0 else n
            assert (n < 0) == (not clf.table_.graph.has_edge(i, other))
        new = [j for j in range(300) if expected[j] and not clf.table_.graph.has_edge(i, j)]
        over = expected[new].sum() / expected.sum()
        assert nodes["over"][i] == pytest.approx(1000 * over, abs=0.51)


def test_without_rewiring_no_edge_is_marked():
    clf = fitted(nodes=80, rewired=False, gamma=1.0, alpha=1.0)
    nodes = Page(fitted_page(clf)).data["nodes"]
    assert all(n >= 0 for near in nodes["near"] for n in near[::2])
    assert set(nodes["over"]) == {0}
    expected = shares(clf.table_.graph, 7, alpha=1.0, gamma=1.0)
    assert nodes["near"][7][1] == pytest.approx(10_000 * expected.max(), abs=0.51)


def test_at_gamma_0_neighbours_are_there_but_have_no_weight():
    clf = fitted(nodes=80, rewired=False, gamma=0.0, alpha=1.0)
    nodes = Page(fitted_page(clf)).data["nodes"]
    assert nodes["count"] == clf.table_.graph.degree.tolist()
    assert set(nodes["own"]) == {10_000}
    assert set(nodes["over"]) == {None}


def test_a_model_without_a_scope_says_what_the_weights_are():
    found = Page(fitted_page(fitted(nodes=80, rewired=False, gamma=1.0, alpha=1.0, scoped=False)))
    assert "the model has no scope of its own" in found.text["map"]
    assert "The ring is γ = 1, α = 1: the best; the model has no scope" in found.text["dial"]
    assert found.data["map"]["gammas"][found.data["map"]["chosen"]] == 1.0


def test_attention_takes_the_place_of_diffusion():
    graph = Graph.from_edge_index([[0, 1, 2], [1, 2, 3]])
    edges = np.array([[1, 0, 2, 3, 1, 0], [0, 1, 1, 2, 2, 0]])  # from, to
    weight = np.array([0.75, 0.1, 0.9, 0.5, 0.5, 0.25])
    clf = fitted(graph=graph, classes=2, rewired=False, attention=(edges, weight), hostile=False)
    found = Page(fitted_page(clf))
    assert "the attention of the best network" in found.text["map"]
    nodes = found.data["nodes"]
    assert nodes["near"] == [[1, 7500], [2, 9000, 0, 1000], [1, 5000, 3, 5000], []]
    assert nodes["own"][:2] == [2500, 0]


def test_the_map_is_left_out_with_a_sentence():
    graph = Graph.from_edge_index([[0], [1]], num_nodes=30)
    found = Page(fitted_page(fitted(graph=graph, classes=2)))
    assert found.data["map"] is None
    assert "nothing to embed" in found.text["map"]
    assert "canvas" not in [t for t, _ in found.tags]
    assert "search" in [a.get("id") for _, a in found.tags]


def test_a_graph_without_edges_has_a_page():
    graph = Graph.from_edge_index(np.zeros((2, 0), dtype=int), num_nodes=20)
    found = Page(fitted_page(fitted(graph=graph, classes=2)))
    assert "No edge joins two labelled nodes" in found.text["graph"]
    assert set(found.data["nodes"]["count"]) == {0}


def test_pieces_and_single_nodes():
    ring = np.arange(40)
    index = np.stack([ring, np.r_[ring[1:30], 0, ring[31:], 30]])
    graph = Graph.from_edge_index(index, num_nodes=45)
    found = Page(fitted_page(fitted(graph=graph, classes=2)))
    said = found.text["graph"]
    assert "The graph is in 7 pieces; the largest has 30 nodes (67 %)." in said
    assert "5 nodes have no edges at all" in said
    assert found.data["map"]["points"] == list(range(30))
    assert len(found.data["nodes"]["top"]) == 45


def test_nodes_without_honest_probabilities():
    found = Page(fitted_page(fitted(nodes=60, honest=False)))
    assert "cannot be counted honestly" in found.text["mistakes"]
    assert found.data["bins"] is None
    assert all(held == [] for held in found.data["nodes"]["held"])


def test_a_large_graph_is_sampled_and_the_page_says_so(monkeypatch):
    monkeypatch.setattr(fitted_map, "WORK", {2_000: 11, 3_000: 6})
    clf = fitted(nodes=3500, rewired=True)
    html = fitted_page(clf)
    found = Page(html)
    shown = len(found.data["nodes"]["top"])
    assert shown < 3500
    assert f"This page holds {shown:,} of 3,500 nodes" in found.text["map"]
    assert "a connected part of" in found.text["map"]
    assert max(len(near) for near in found.data["nodes"]["near"]) <= 24
    drawn = found.data["map"]
    assert min(drawn["gradient"]) >= 0  # the gradient nodes are among the points
    assert len(html.encode()) < 1_500_000


def test_details_are_kept_for_three_thousand_nodes_at_most():
    clf = fitted(nodes=3500, rewired=False)
    found = Page(fitted_page(clf))
    assert len(found.data["nodes"]["top"]) == 3000
    assert min(found.data["map"]["gradient"]) >= 0
    assert len(found.html.encode()) < 1_200_000


def test_many_classes_are_put_together_in_the_matrix():
    counts = np.diag(np.arange(1, 41))
    counts[39, 0] = 5
    table = confusion_table(counts, [f"c{i}" for i in range(40)])
    assert "The 26 smaller classes are put together" in table
    assert table.count("<tr>") == 1 + 15
    assert "5 of c39, predicted others" in table
    assert f"{sum(range(1, 27)):,} of others, predicted others" in table


def test_charts_of_flat_and_missing_scores():
    assert "nan" not in interval_rows({"a": (0.5, 0.5, 0.5), "b": (float("nan"),) * 3}, "a")
    chart = line_chart([(0.0, 0.5), (1.0, 0.5)], name="γ", score="accuracy", chosen=1.0)
    assert "nan" not in chart
    assert 'class="ring"' in chart
    assert 'class="ring"' not in line_chart(
        [(0.0, 0.5), (1.0, 0.6)], name="γ", score="accuracy", chosen=None
    )


def test_the_line_runs_through_the_best_of_each_value():
    chart = line_chart([(0.0, 0.2), (1.0, 0.1), (0.0, 0.4)], name="γ", score="accuracy", chosen=0.0)
    assert chart.count("<circle") == 4
    assert "best 40.0 % at γ = 0, lowest 10.0 %" in chart
    line = re.search(r'class="line" d="([^"]*)"', chart)[1]
    assert line.count(",") == 2


def test_a_dial_of_one_value_is_said_not_drawn():
    clf = fitted(nodes=60)
    clf.dial_ = {"gamma": [(0.3, 0.7), (0.3, 0.8)], "alpha": []}
    assert "nothing to draw" in Page(fitted_page(clf)).text["dial"]
