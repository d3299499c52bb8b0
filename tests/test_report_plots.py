"""Pictures: what is drawn where, and files that are whole."""

from __future__ import annotations

import sys

import matplotlib as mpl
import numpy as np
import pytest

from pdgnn import Graph, InputError
from pdgnn.io.sources import Source, open_source
from pdgnn.report import plots
from pdgnn.report.inspection import inspect_graph
from pdgnn.report.plots import draw_embedding, embedding_figure

PATH = Graph.from_edge_index([[0, 1, 2, 3], [1, 2, 3, 4]])
MAGIC = {".png": b"\x89PNG\r\n", ".svg": b"<?xml", ".pdf": b"%PDF-"}


def drawn(source: Source, **options):
    """The figure, and its left and right axes."""
    figure = embedding_figure(source, inspect_graph(source, k=2, **options))
    return figure, *figure.axes


def texts(axes) -> list[str]:
    return [text.get_text() for text in axes.texts]


def points(axes) -> np.ndarray:
    """Where the nodes are, ``[N, 2]``, sorted."""
    [scatter] = [c for c in axes.collections if type(c).__name__ == "PathCollection"]
    return np.array(sorted(scatter.get_offsets().tolist()))


def edges_drawn(axes) -> int:
    lines = [c for c in axes.collections if type(c).__name__ == "LineCollection"]
    return sum(len(c.get_segments()) for c in lines)


def test_nodes_lie_at_their_eigenvectors_and_the_gradient_node_is_starred():
    source = Source("path", PATH)
    figure, left, right = drawn(source, alpha=0.5, gamma=1.0)
    facts = inspect_graph(source, k=2, alpha=0.5)
    assert points(left) == pytest.approx(np.array(sorted(facts.embedding.tolist())))
    assert edges_drawn(left) == 4
    assert figure.get_suptitle() == f"path: α = 0.5, γ = 1, λ1 = {1 - 0.5**0.5:.4g}"
    assert left.get_title() == "5 nodes by the first two eigenvectors"
    assert texts(left) == ["gradient\nnode 0"]
    [star] = left.lines
    assert (star.get_marker(), *star.get_xydata()[0]) == ("*", *facts.embedding[0])
    assert star.get_xydata()[0, 0] == pytest.approx(points(left)[:, 0].max())
    curve, star = right.lines
    assert curve.get_ydata().tolist() == sorted(facts.embedding[:, 0].tolist())
    assert (star.get_marker(), *star.get_xydata()[0]) == ("*", 100.0, curve.get_ydata()[-1])


def test_without_labels_colour_follows_phi():
    _, left, _ = drawn(Source("path", PATH))
    [scatter] = [c for c in left.collections if type(c).__name__ == "PathCollection"]
    order = np.argsort(scatter.get_offsets()[:, 0])
    green = scatter.get_facecolors()[order, 1]
    assert (np.diff(green) > 0).all()


def test_classes_have_colours_and_rows():
    source = Source("path", PATH, labels=np.array([1, 1, 0, -1, 1]))
    _, left, right = drawn(source)
    names = [label.get_text() for label in right.get_yticklabels()]
    assert names == ["class 0\n1 nodes", "class 1\n3 nodes", "no label\n1 nodes"]
    [scatter] = [c for c in left.collections if type(c).__name__ == "PathCollection"]
    colours = [mpl.colors.to_hex(c).upper() for c in scatter.get_facecolors()]
    expected = {name: plots.COLOURS[i] for i, name in enumerate([0, 1])} | {-1: plots.UNLABELLED}
    found = dict(zip(map(tuple, scatter.get_offsets().tolist()), colours, strict=True))
    phi = inspect_graph(source, k=2).embedding
    assert found == {
        tuple(phi[i]): expected[label].upper() for i, label in enumerate(source.labels.tolist())
    }


def test_a_row_is_as_high_as_its_class_is_crowded():
    """φ1 of a path falls from node 0 on: class 0 fills the second half of the order, evenly."""
    n = np.arange(49)
    source = Source("path", Graph.from_edge_index([n, n + 1]), labels=np.repeat([0, 1], 25))
    _, _, right = drawn(source)
    heights = [patch.get_data() for patch in right.patches]
    unit = 0.85 / 2
    assert heights[0].values == pytest.approx([*[0.0] * 12, unit, *[2 * unit] * 12])
    assert heights[1].values + 1 == pytest.approx([*[2 * unit] * 12, unit, *[0.0] * 12])


def test_many_classes_share_the_last_colour():
    n = np.arange(39)
    labels = np.concatenate([np.arange(10), np.arange(3, 10).repeat(4), [9, 9]])
    source = Source("path", Graph.from_edge_index([n, n + 1]), labels=labels)
    _, _, right = drawn(source)
    names = [label.get_text() for label in right.get_yticklabels()]
    assert names == [
        *(f"class {name}\n{(labels == name).sum()} nodes" for name in range(3, 10)),
        "3 others\n3 nodes",
    ]
    assert len(set(plots.COLOURS)) == 7


def test_only_the_largest_component_is_drawn():
    g = Graph.from_edge_index([[0, 2, 3, 4], [1, 3, 4, 5]], num_nodes=7)
    _, left, right = drawn(Source("two", g, labels=np.array([0, 0, 0, 0, 1, 1, 1])))
    assert len(points(left)) == 4
    assert edges_drawn(left) == 3
    assert left.get_title() == "4 nodes by the first two eigenvectors: the largest of 3 components"
    assert [label.get_text() for label in right.get_yticklabels()] == [
        *("class 0\n2 nodes", "class 1\n2 nodes")
    ]


def test_large_graphs_are_thinned_out_and_say_so(monkeypatch):
    monkeypatch.setattr(plots, "MOST_POINTS", 300)
    monkeypatch.setattr(plots, "MOST_EDGES", 1000)
    _, left, right = drawn(open_source("minesweeper-generated:size=20"))
    assert len(points(left)) == 300
    assert edges_drawn(left) == 0
    assert left.get_title() == "400 nodes by the first two eigenvectors (300 drawn)"
    assert "320 nodes" in right.get_yticklabels()[0].get_text()


def test_a_few_far_nodes_stretch_the_axis():
    """A clique with a long tail: nearly all nodes sit near 0, the end of the tail far off."""
    i, j = np.triu_indices(40, 1)
    tail = np.arange(39, 43)
    g = Graph.from_edge_index(np.concatenate([[i, j], [tail, tail + 1]], axis=1))
    _, left, _ = drawn(Source("kite", g))
    assert left.get_xscale() == "asinh"
    assert left.get_xlabel() == "φ1 (stretched near 0)"
    assert [tick.get_text() for tick in left.get_xticklabels()] == ["0", "0.01", "0.1"]
    _, left, _ = drawn(Source("path", PATH))
    assert (left.get_xscale(), left.get_xlabel(), left.get_ylabel()) == ("linear", "φ1", "φ2")


def test_text_from_outside_is_drawn_as_it_is(tmp_path):
    names = ["$\\frac$", "b\x1b[31m", "c" * 99, "漢", "$e"]
    g = Graph.from_edge_index(PATH.edge_index, node_ids=np.array(names, dtype=object))
    source = Source("$x_1 " + "n" * 99, g)
    figure, left, _ = drawn(source)
    assert texts(left) == ["gradient\nnode $\\frac$"]
    assert figure.get_suptitle().startswith("$x_1 nnn")
    assert "n…: α = 1" in figure.get_suptitle()
    draw_embedding(source, inspect_graph(source, k=2), tmp_path / "a.png")


@pytest.mark.parametrize("suffix", [".png", ".svg", ".pdf", ".PNG"])
def test_files_are_whole_and_the_same_each_time(tmp_path, monkeypatch, suffix):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)  # importing it would fail
    source = open_source("minesweeper-generated:size=8")
    facts = inspect_graph(source, k=2)
    before = mpl.rcParams.copy()
    for name in ("a", "b"):
        draw_embedding(source, facts, tmp_path / f"{name}{suffix}")
    assert mpl.rcParams.copy() == before
    first = (tmp_path / f"a{suffix}").read_bytes()
    assert first.startswith(MAGIC[suffix.lower()])
    if suffix != ".svg":  # its ids are random
        assert first == (tmp_path / f"b{suffix}").read_bytes()
    assert sorted(p.name for p in tmp_path.iterdir()) == [f"a{suffix}", f"b{suffix}"]


def test_a_pair_and_a_star_are_drawn():
    _, left, _ = drawn(Source("pair", Graph.from_edge_index([[0], [1]])))
    assert points(left)[:, 1].tolist() == [0.0, 0.0]
    _, left, _ = drawn(Source("star", Graph.from_edge_index([[0, 0, 0], [1, 2, 3]])))
    assert len(points(left)) == 4


def test_an_embedding_of_one_column_lies_on_a_line():
    source = Source("path", PATH)
    left = embedding_figure(source, inspect_graph(source, k=1)).axes[0]
    assert points(left)[:, 1].tolist() == [0.0] * 5


def test_nothing_to_draw_is_an_error():
    source = Source("dots", Graph.from_edge_index(np.zeros((2, 0), int), 3))
    with pytest.raises(InputError, match="no embedding to draw, as the graph has no edges"):
        embedding_figure(source, inspect_graph(source, k=2))


def test_without_matplotlib_one_line_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(InputError, match=r"pip install 'pdgnn\[plot\]'$"):
        plots.need_matplotlib()
