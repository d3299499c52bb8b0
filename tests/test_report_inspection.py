"""The facts about a graph, and what is said of them."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdgnn import Graph, InputError
from pdgnn.io.sources import Source, open_source
from pdgnn.report.inspection import Added, inspect_graph, plain_words
from strategies import graphs

PATH = Graph.from_edge_index([[0, 1, 2], [1, 2, 3]])
SQUARE = Graph.from_edge_index([[0, 1, 2, 3], [1, 2, 3, 0]])
KEYS = [
    *("name", "nodes", "edges", "weighted", "degree", "components", "changes", "features"),
    *("classes", "unlabelled", "splits", "homophily", "homophily_undefined", "spectrum"),
    *("spectrum_error", "gradient_node", "rewiring", "says"),
]


def labelled(g: Graph, labels: list[int]) -> Source:
    return Source("g", g, labels=np.array(labels))


def test_a_path_of_three_known_on_paper():
    g = Graph.from_edge_index([[0, 1, 1], [1, 2, 1]])
    facts = inspect_graph(Source("p3", g), alpha=0.5)
    assert (facts.name, facts.nodes, facts.edges, facts.weighted) == ("p3", 3, 2, False)
    assert facts.degree == {"min": 1.0, "median": 1.0, "mean": 4 / 3, "max": 2.0}
    assert facts.components == {"count": 1, "largest": 3, "isolated": 0}
    assert facts.changes["self_loops"] == 1
    assert facts.changes["one_way"] == 2
    assert (facts.features, facts.classes, facts.unlabelled, facts.splits) == (None,) * 4
    assert (facts.homophily, facts.homophily_undefined) == (None, {})
    # L has 0, 1, 3; L_rw has 0, 1, 2; with M = diag(1, 1.5, 1), L^(., 1/2) has 0, 1/2, 7/6
    assert [s.gamma for s in facts.spectrum] == [0.0, 0.5, 1.0]
    assert [s.eigenvalue for s in facts.spectrum] == pytest.approx([1, 0.5, 1])
    assert [s.gap for s in facts.spectrum] == pytest.approx([2, 2 / 3, 1])
    assert {s.multiplicity for s in facts.spectrum} == {1}
    assert max(s.residual for s in facts.spectrum) < 1e-12
    assert facts.embedding[:, 0] == pytest.approx([0.5**0.5, 0, -(0.5**0.5)])
    node = facts.gradient_node
    assert (node.alpha, node.gamma, node.node, node.id, node.degree) == (0.5, 1.0, 0, 0, 1.0)
    assert facts.rewiring == {"all": Added(1, 0.5), "far": Added(1, 0.5)}


def test_labels_features_and_splits_are_counted():
    masks = {part: np.zeros((2, 4), dtype=bool) for part in ("train", "val", "test")}
    masks["train"][0, :3] = masks["train"][1, 2:] = True
    source = Source("g", PATH, np.ones((4, 6), np.float32), np.array([2, 2, -1, 0]), masks)
    facts = inspect_graph(source)
    assert facts.features == 6
    assert facts.classes == {"0": 1, "2": 2}
    assert facts.unlabelled == 1
    assert facts.splits == {"train": [3, 2], "val": [0, 0], "test": [0, 0]}


def test_homophily_in_the_order_of_the_table_with_reasons_for_what_is_undefined():
    facts = inspect_graph(labelled(PATH, [0, 0, 0, 0]))
    assert list(facts.homophily) == [
        *("node", "edge", "class", "aggregation", "adjusted", "label_informativeness")
    ]
    assert facts.homophily["edge"] == 1.0
    undefined = [name for name, value in facts.homophily.items() if value is None]
    assert undefined == ["class", "aggregation", "adjusted", "label_informativeness"]
    assert list(facts.homophily_undefined) == undefined
    assert facts.homophily_undefined["adjusted"].startswith("all edges lie in one class")
    assert inspect_graph(labelled(SQUARE, [0, 1, 0, 1])).homophily["adjusted"] == -1.0


def test_labels_below_minus_one_make_every_measure_undefined():
    facts = inspect_graph(labelled(PATH, [0, 1, -2, 0]))
    assert set(facts.homophily.values()) == {None}
    assert "label -2 is neither" in facts.homophily_undefined["node"]
    assert facts.classes == {"0": 2, "1": 1}


@pytest.mark.parametrize("nodes", [1, 3])
def test_a_graph_without_edges_has_no_spectrum(nodes):
    facts = inspect_graph(Source("dots", Graph.from_edge_index(np.zeros((2, 0), int), nodes)))
    assert facts.components == {"count": nodes, "largest": 1, "isolated": nodes}
    assert facts.spectrum == []
    assert (facts.gradient_node, facts.rewiring, facts.embedding) == (None, None, None)
    assert facts.as_dict()["says"] == [
        "The graph has no edges: there are no neighbours to learn from."
    ]


def test_a_pair_has_no_gap_and_nothing_to_add():
    facts = inspect_graph(Source("pair", Graph.from_edge_index([[0], [1]])), k=2)
    assert [s.gap for s in facts.spectrum] == [None, None, None]
    assert facts.rewiring == {"all": Added(0, 0.0), "far": Added(0, 0.0)}
    assert facts.as_dict()["says"] == [
        "Every node is joined to its gradient node already: rewiring changes nothing."
    ]


def test_the_gradient_node_has_its_name():
    words = Graph.from_edge_index([[0, 1], [1, 2]], node_ids=["bob", "ann", "cid"])
    assert inspect_graph(Source("g", words)).gradient_node.id == "bob"
    numbers = Graph.from_edge_index([[0, 1], [1, 2]], node_ids=np.array([-7, 5, 900_000]))
    assert inspect_graph(Source("g", numbers)).gradient_node.id == -7
    assert json.dumps(inspect_graph(Source("g", numbers)).as_dict(), allow_nan=False)


def test_gammas_are_sorted_and_joined_by_that_of_the_gradient_node():
    facts = inspect_graph(Source("g", PATH), gammas=[1, 0.25, 1.0], gamma=0.5)
    assert [s.gamma for s in facts.spectrum] == [0.25, 0.5, 1.0]
    assert facts.gradient_node.gamma == 0.5


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"alpha": 2}, "alpha must be a number in"),
        ({"gamma": -1}, "gamma must be a number in"),
        ({"gammas": [0.5, float("nan")]}, "gamma must be a number in"),
        ({"device": "cuda"}, "needs a CUDA GPU"),
    ],
)
def test_bad_options_are_refused(options, message, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with pytest.raises(InputError, match=message):
        inspect_graph(Source("g", PATH), **options)


def test_a_solver_that_gives_up_costs_the_spectrum_and_not_the_rest():
    n = 3100  # a star: λ1 = 1 has n − 1 copies, at every γ > 0
    star = Graph.from_edge_index([np.zeros(n, int), np.arange(1, n + 1)])
    facts = inspect_graph(Source("star", star), gammas=[1.0])
    assert facts.spectrum == []
    assert "repeats more than 63 times" in facts.spectrum_error
    assert facts.degree["max"] == n
    assert (facts.gradient_node, facts.rewiring, facts.embedding) == (None, None, None)
    assert list(facts.as_dict()) == KEYS


def test_progress_says_how_far_it_is():
    told: list[str] = []
    inspect_graph(Source("g", PATH), gammas=[0, 0.5], gamma=1, progress=told.append)
    assert told == [
        "homophily",
        "eigenvalues at 1 of 3 γ",
        "eigenvalues at 2 of 3 γ",
        "eigenvalues at 3 of 3 γ",
        "rewiring",
    ]


def test_as_dict_has_stable_keys_and_plain_values():
    facts = inspect_graph(open_source("minesweeper-generated:size=6"))
    assert list(facts.as_dict()) == KEYS
    assert json.loads(json.dumps(facts.as_dict(), allow_nan=False)) == facts.as_dict()
    assert list(facts.as_dict()["spectrum"][0]) == [
        *("gamma", "eigenvalue", "gap", "multiplicity", "residual", "solver", "seconds")
    ]
    assert list(facts.as_dict()["gradient_node"]) == ["alpha", "gamma", "node", "id", "degree"]
    assert facts.as_dict()["rewiring"]["all"] == {"edges": 32, "share": 32 / 110}


def dense_laplacian(g: Graph, gamma: float) -> np.ndarray:
    """L^(1/2,γ) of the largest component, from the definition."""
    a = g.adjacency().toarray()
    mine = g.components == np.bincount(g.components).argmax()
    a = a[mine][:, mine]
    d = a.sum(axis=1)
    m = gamma * d + (1 - gamma)
    return (gamma or 1.0) * (np.diag(d) - a) / np.sqrt(np.outer(m, m))


@given(graphs(), st.sampled_from([0.0, 0.3, 1.0]), st.sampled_from([0.0, 0.5, 1.0]))
def test_facts_agree_with_a_dense_computation(g, gamma, alpha):
    facts = inspect_graph(Source("g", g), gammas=[gamma], alpha=alpha, gamma=gamma)
    degree = g.adjacency().toarray().sum(axis=1)
    sizes = np.bincount(g.components)
    assert facts.degree["median"] == pytest.approx(np.median(degree))
    assert facts.components == {
        "count": sizes.size,
        "largest": sizes.max(),
        "isolated": (degree == 0).sum(),
    }
    if g.num_edges == 0:
        assert facts.rewiring is None
        return
    [found] = facts.spectrum
    values = np.linalg.eigvalsh(dense_laplacian(g, gamma))
    assert found.eigenvalue == pytest.approx(values[1])
    node = facts.gradient_node
    phi = facts.embedding[:, 0]
    mine = g.components == sizes.argmax()
    assert mine[node.node]
    assert phi[node.node] == pytest.approx(phi[mine].max(), rel=2e-6)
    added = sum(
        sizes[c] - 1 - np.count_nonzero(g.adjacency().toarray()[v])
        for c in range(sizes.size)
        for v in [np.flatnonzero((g.components == c) & _is_top(phi, g.components == c))[0]]
    )
    assert facts.rewiring["all"] == Added(added, added / g.num_edges)
    assert facts.rewiring["far"].edges <= added


def _is_top(phi: np.ndarray, mine: np.ndarray) -> np.ndarray:
    return phi >= phi[mine].max() - 1e-6 * np.abs(phi[mine]).max()


@pytest.mark.parametrize(
    ("adjusted", "told", "words"),
    [
        (0.8, 0.6, "Neighbours mostly share their class (adjusted homophily 0.80)"),
        (0.3, 0.1, "Neighbours share their class somewhat more often than chance"),
        (0.05, 0.02, "A neighbour's class tells next to nothing of one's own"),
        (0.0, 0.5, "no more often than chance (adjusted homophily 0.00), yet a neighbour's"),
        (-0.4, 0.5, "Neighbours differ in class more often than chance"),
    ],
)
def test_what_is_said_of_labels(adjusted, told, words):
    facts = inspect_graph(labelled(PATH, [0, 0, 1, 1]))
    facts.homophily.update(adjusted=adjusted, label_informativeness=told)
    assert words in plain_words(facts)[0]
    assert len(plain_words(facts)) == 2
    nothing = replace(facts, homophily=facts.homophily | {"adjusted": None})
    assert plain_words(nothing) == plain_words(facts)[1:]


def test_what_is_said_of_pieces_repeats_and_rewiring():
    g = Graph.from_edge_index([[0, 1, 2, 3, 4], [1, 2, 3, 0, 5]], num_nodes=8)
    assert plain_words(inspect_graph(Source("g", g), gammas=[0.5])) == [
        "The graph is in 4 pieces: the numbers of the spectrum are those of the largest (50% of "
        "the nodes), and nothing is joined across pieces. 2 of them are single nodes without "
        "edges.",
        "λ1 repeats at γ = 0.5, 1, as in symmetric graphs: several directions are equally first, "
        "and which of them φ1 follows is settled by rule.",
        "Rewiring to the gradient node brings any two nodes of a piece within two steps, "
        "for 20.0% more edges.",
    ]


def test_minesweeper_as_published(data_root):
    facts = inspect_graph(open_source("minesweeper", data_root), gammas=[1.0])
    assert (facts.nodes, facts.edges, facts.features) == (10_000, 39_402, 7)
    assert facts.classes == {"0": 8000, "1": 2000}
    assert facts.splits["val"] == [2500] * 10
    assert [round(value, 2) for value in facts.homophily.values()] == [
        *(0.68, 0.68, 0.01, 0.61, 0.01, 0.00)
    ]
    assert (facts.spectrum[0].multiplicity, facts.gradient_node.node) == (2, 0)
    assert facts.rewiring["all"].edges == 9999 - 3


def test_cora_is_in_pieces(data_root):
    facts = inspect_graph(open_source("cora", data_root), gammas=[1.0])
    assert facts.components == {"count": 78, "largest": 2485, "isolated": 0}
    assert round(facts.homophily["adjusted"], 2) == 0.77
    assert facts.spectrum[0].eigenvalue == pytest.approx(0.004784, rel=1e-3)


def test_nodes_without_edges_change_nothing_but_the_counts():
    """A few are solved with the rest; where most nodes are, the others are solved alone."""
    edges = [[3, 5, 6, 5, 9], [5, 6, 7, 9, 3]]
    names = [f"n{i}" for i in range(60)]
    few, many = (
        inspect_graph(Source("a", Graph.from_edge_index(edges, n, node_ids=names[:n])), alpha=0.5)
        for n in (10, 60)
    )
    assert [s.eigenvalue for s in many.spectrum] == [s.eigenvalue for s in few.spectrum]
    assert many.gradient_node == few.gradient_node
    assert many.gradient_node.id == f"n{many.gradient_node.node}"
    assert many.rewiring == few.rewiring
    assert many.components == {"count": 56, "largest": 5, "isolated": 55}
    np.testing.assert_array_equal(many.embedding, np.pad(few.embedding, ((0, 50), (0, 0))))
