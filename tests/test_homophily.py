from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st

from pdgnn import Graph, datasets, homophily
from pdgnn.errors import InputError
from strategies import graphs

SQUARE = Graph.from_edge_index([[0, 1, 2, 3], [1, 2, 3, 0]])
PATH = Graph.from_edge_index([[0, 1, 2], [1, 2, 3]])
COMPARING = ["class_insensitive", "aggregation", "adjusted", "label_informativeness"]
COUNTING_EDGES = ["edge", "class_insensitive", "adjusted", "label_informativeness"]

# node, edge, class, aggregation, adjusted, label informativeness, as published.
PUBLISHED = {
    "cora": (0.83, 0.81, 0.77, 0.99, 0.77, 0.59),
    "citeseer": (0.71, 0.74, 0.63, 0.97, 0.67, 0.45),
    "pubmed": (0.79, 0.80, 0.66, 0.94, 0.69, 0.41),
    "minesweeper": (0.68, 0.68, 0.01, 0.61, 0.01, 0.00),
    "tolokers": (0.63, 0.59, 0.18, 0.00, 0.09, 0.01),
    "squirrel-filtered": (0.19, 0.21, 0.04, 0.00, 0.01, 0.00),
    "chameleon-filtered": (0.24, 0.24, 0.04, 0.25, 0.03, 0.01),
}


def naive(a: np.ndarray, z: np.ndarray) -> dict[str, float]:
    """The six formulas on a dense 0/1 matrix, as they are printed, one pair of nodes at a time."""
    n, degree, ends = len(a), a.sum(1), a.sum()
    names, (i, j) = np.unique(z), np.nonzero(a)
    share = [sum(z[v] == z[u] for v in np.nonzero(a[u])[0]) / max(degree[u], 1) for u in range(n)]
    h_edge = np.mean(z[i] == z[j])
    h = {c: ((z[i] == c) & (z[j] == c)).sum() / max(degree[z == c].sum(), 1) for c in names}
    p = {c: degree[z == c].sum() / ends for c in names}
    p2 = [((z[i] == c) & (z[j] == d)).sum() / ends for c in names for d in names]
    square = sum(v**2 for v in p.values())
    f = (a + np.eye(n)) @ (z[:, None] == names)
    s = f @ f.T  # integers, exact in float64
    closer = sum(
        s[u, z == z[u]].sum() * (z != z[u]).sum() >= s[u, z != z[u]].sum() * (z == z[u]).sum()
        for u in range(n)
    )
    entropy = sum(v * math.log(v) for v in p.values() if v)
    return {
        "node": float(np.mean(share)),
        "edge": float(h_edge),
        "class": sum(max(h[c] - np.mean(z == c), 0) for c in names) / (len(names) - 1),
        "aggregation": 2 * max(closer / n - 0.5, 0),
        "adjusted": (h_edge - square) / (1 - square),
        "label_informativeness": 2 - sum(v * math.log(v) for v in p2 if v) / entropy,
    }


@st.composite
def labelled_graphs(draw, lowest: int = 0):
    """A graph and labels for which every measure is defined."""
    g = draw(graphs())
    z = np.array(draw(st.lists(st.integers(lowest, 4), min_size=g.num_nodes, max_size=g.num_nodes)))
    known = np.flatnonzero(z >= 0)
    a = g.adjacency().toarray()[np.ix_(known, known)] > 0
    assume(len(np.unique(z[known][a.any(1)])) >= 2)
    return g, z


def test_edge_on_a_square_by_hand():
    assert homophily.edge(SQUARE, [0, 0, 1, 1]) == 0.5
    assert homophily.edge(SQUARE, [0, 1, 0, 1]) == 0.0
    assert homophily.edge(SQUARE, [5, 5, 5, 5]) == 1.0


def test_node_counts_a_lonely_node_as_zero():
    g = Graph.from_edge_index([[0, 1, 2], [1, 2, 3]], num_nodes=5)
    assert homophily.node(g, [0, 0, 0, 1, 0]) == pytest.approx((1 + 1 + 0.5 + 0 + 0) / 5)
    assert homophily.node(Graph.from_edge_index([[], []], num_nodes=3), [0, 1, 0]) == 0.0


def test_class_insensitive_by_hand():
    # h_0 = 2/3 over the ends of nodes 0 and 1, h_1 = 2/3; each class is half of the nodes.
    assert homophily.class_insensitive(PATH, [0, 0, 1, 1]) == pytest.approx(2 * (2 / 3 - 1 / 2))
    assert homophily.class_insensitive(PATH, [0, 1, 0, 1]) == 0.0


def test_a_class_without_edges_adds_nothing():
    g = Graph.from_edge_index([[0, 2], [1, 3]], num_nodes=5)
    # Two classes with h = 1 and 2/5 of the nodes, one with none: ((1 - .4) + (1 - .4)) / 2.
    assert homophily.class_insensitive(g, [0, 0, 1, 1, 2]) == pytest.approx(0.6)


def test_adjusted_by_hand():
    # H_edge = 2/3 and p = (1/2, 1/2), so (2/3 - 1/2) / (1 - 1/2).
    assert homophily.adjusted(PATH, [0, 0, 1, 1]) == pytest.approx(1 / 3)
    assert homophily.adjusted(SQUARE, [0, 1, 0, 1]) == -1.0


def test_label_informativeness_by_hand():
    # p = (1/2, 1/2); all four pairs have 1/4 on this square: a neighbour tells nothing.
    assert homophily.label_informativeness(SQUARE, [0, 0, 1, 1]) == pytest.approx(0.0, abs=1e-12)
    # Heterophily as strict as homophily tells all.
    assert homophily.label_informativeness(SQUARE, [0, 1, 0, 1]) == 1.0
    two = Graph.from_edge_index([[0, 2], [1, 3]])
    assert homophily.label_informativeness(two, [0, 0, 1, 1]) == 1.0


def test_aggregation_by_hand():
    star = Graph.from_edge_index([[0, 0, 0], [1, 2, 3]])
    y = [0, 0, 0, 1]
    # F = (A + I)Z has the rows (3,1), (2,0), (2,0), (1,1). Node 3 has S = 2 with its own class,
    # itself, and 4, 2, 2 with the other; nodes 0, 1 and 2 are closer to their own.
    assert homophily.aggregation(star, y, rescale=False) == 0.75
    assert homophily.aggregation(star, y) == 0.5


def test_aggregation_counts_a_tie_as_closer():
    # Every row of F is (a, a): all similarities are equal, and ≥ holds for all nodes.
    complete = Graph.from_edge_index(np.argwhere(np.triu(np.ones((6, 6)), 1)).T)
    assert homophily.aggregation(complete, [0, 0, 0, 1, 1, 1], rescale=False) == 1.0
    # Thirds are not floats: means of 7 and of 3 similar nodes tie all the same.
    complete = Graph.from_edge_index(np.argwhere(np.triu(np.ones((10, 10)), 1)).T)
    assert homophily.aggregation(complete, [0] * 7 + [1] * 3, rescale=False) == 1.0


def test_aggregation_is_clipped_only_when_rescaled():
    star = Graph.from_edge_index([[0, 0, 0, 0], [1, 2, 3, 4]])
    # F has the rows (1,4) and four times (1,1): a leaf has S = 2 with leaves, 5 with the centre.
    assert homophily.aggregation(star, [0, 1, 1, 1, 1], rescale=False) == 0.2
    assert homophily.aggregation(star, [0, 1, 1, 1, 1]) == 0.0


def test_aggregation_is_exact_beyond_64_bits():
    row = np.array([0, 0, 0, 1, 1, 2])
    big = 2**62
    terms = np.array([-big, -big, -big, -big, big - 1, 5])
    assert homophily._sums_not_negative(row, terms, 4).tolist() == [False, False, True, True]
    assert homophily._sums_not_negative(row, -terms, 4).tolist() == [True, True, False, True]
    assert homophily._sums_not_negative(row[:2], np.array([-big, big]), 1).tolist() == [True]


@given(labelled_graphs())
def test_every_measure_is_the_printed_formula(drawn):
    g, z = drawn
    expected = naive((g.adjacency().toarray() > 0).astype(float), z)
    assert homophily.measures(g, z) == pytest.approx(expected, abs=1e-12)
    assert list(homophily.measures(g, z)) == list(expected)


@given(labelled_graphs(lowest=-1))
def test_unlabelled_nodes_are_as_good_as_not_there(drawn):
    g, z = drawn
    known = np.flatnonzero(z >= 0)
    rest = Graph.from_scipy(g.adjacency()[known][:, known])
    assert homophily.measures(g, z) == pytest.approx(homophily.measures(rest, z[known]), abs=1e-12)


@given(labelled_graphs(), st.integers(0, 2**32 - 1))
def test_the_order_of_nodes_and_the_names_of_classes_do_not_matter(drawn, seed):
    g, z = drawn
    rng = np.random.default_rng(seed)
    order = rng.permutation(g.num_nodes)
    shuffled = Graph.from_scipy(g.adjacency()[order][:, order])
    names = rng.choice(10**6, size=5, replace=False)
    again = homophily.measures(shuffled, names[z[order]])
    assert again == pytest.approx(homophily.measures(g, z), abs=1e-12)


@given(labelled_graphs())
def test_weights_play_no_part(drawn):
    g, z = drawn
    heavy = Graph.from_edge_index(g.edge_index, g.num_nodes, 3.0 * g.edge_weight)
    assert homophily.measures(heavy, z) == homophily.measures(g, z)


@given(labelled_graphs())
def test_pyg_agrees(drawn):
    from torch_geometric.utils import homophily as pyg

    g, z = drawn
    y = torch.from_numpy(np.unique(z, return_inverse=True)[1])
    assert homophily.edge(g, y) == pytest.approx(pyg(g.edge_index, y, method="edge"), abs=1e-5)
    assert homophily.node(g, y) == pytest.approx(pyg(g.edge_index, y, method="node"), abs=1e-5)
    theirs = pyg(g.edge_index, y, method="edge_insensitive")
    assert homophily.class_insensitive(g, y) == pytest.approx(theirs, abs=1e-5)


def test_tensors_arrays_and_lists_of_any_integer_type():
    y = [0, 0, 1, 1]
    for same in (
        y,
        np.array(y, dtype=np.uint8),
        torch.tensor(y),
        torch.tensor(y, dtype=torch.int8),
    ):
        assert homophily.adjusted(PATH, same) == pytest.approx(1 / 3)


@pytest.mark.parametrize("name", ["edge", "node", *COMPARING])
@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([0, 1, 0], "give one for each of 4 nodes"),
        ([[0], [1], [0], [1]], r"shape \(4, 1\)"),
        ([0, 1, 0, [1]], "ragged"),
        ([0.0, 1.0, 0.0, 1.0], "the labels are float64"),
        ([True, False, True, False], "the labels are bool"),
        (["a", "b", "a", "b"], "number the classes"),
        ([0, 1, -2, 1], "label -2 is neither a class"),
        ([-1, -1, -1, -1], "every label is -1"),
    ],
)
def test_labels_that_cannot_be_used(name, y, message):
    with pytest.raises(InputError, match=message):
        getattr(homophily, name)(PATH, y)


@pytest.mark.parametrize("name", COUNTING_EDGES)
def test_no_edges_is_an_error_for_a_share_of_edges(name):
    with pytest.raises(InputError, match="no edge joins two labelled nodes"):
        getattr(homophily, name)(PATH, [0, -1, 1, -1])


def test_no_edges_is_none_for_a_share_of_nodes():
    assert homophily.node(PATH, [0, -1, 1, -1]) == 0.0
    assert homophily.aggregation(PATH, [0, -1, 1, -1]) == 1.0


@pytest.mark.parametrize("name", COMPARING)
def test_one_class_is_an_error_where_classes_are_compared(name):
    with pytest.raises(InputError, match="in one class"):
        getattr(homophily, name)(PATH, [3, 3, 3, 3])


@pytest.mark.parametrize("name", ["adjusted", "label_informativeness"])
def test_edges_in_one_class_only_are_zero_over_zero(name):
    g = Graph.from_edge_index([[0], [1]], num_nodes=3)
    with pytest.raises(InputError, match="all edges lie in one class"):
        getattr(homophily, name)(g, [0, 0, 1])


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_values(name, data_root):
    data = datasets.load(name, data_root)
    got = homophily.measures(Graph.from_data(data), data.y)
    assert tuple(round(value, 2) for value in got.values()) == PUBLISHED[name]


def test_as_many_classes_as_nodes_stay_cheap():
    n = 50_000
    g = Graph.from_edge_index(np.stack([np.arange(n - 1), np.arange(1, n)]))
    got = homophily.measures(g, np.arange(n))
    assert (got["edge"], got["node"], got["class"]) == (0.0, 0.0, 0.0)
    # The two ends have one neighbour fewer, so p is not quite uniform.
    assert got["label_informativeness"] == pytest.approx(
        2 - math.log(2 * n) / math.log(n), abs=1e-3
    )
