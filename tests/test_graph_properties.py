"""What holds for every graph, on random ones and on large ones."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import assume, given
from hypothesis import strategies as st

from pdgnn import Graph, GraphReport
from strategies import graphs


def dense(g: Graph) -> np.ndarray:
    return g.adjacency().toarray()


@st.composite
def edge_lists(draw, max_nodes: int = 8):
    """Any edge list: loops, duplicates, both ways, weights of zero, or no edges at all."""
    n = draw(st.integers(1, max_nodes))
    node = st.integers(0, n - 1)
    pairs = draw(st.lists(st.tuples(node, node), max_size=20))
    weights = st.lists(st.sampled_from([0.0, 0.5, 1.0, 2.0]), min_size=len(pairs))
    weight = draw(st.none() | weights.map(lambda w: w[: len(pairs)]))
    return np.array(pairs, dtype=np.int64).reshape(-1, 2).T, n, weight


def by_hand(index: np.ndarray, n: int, weight: list[float] | None) -> np.ndarray:
    """The adjacency matrix, one entry after the other."""
    a = np.zeros((n, n))
    for k, (i, j) in enumerate(index.T):
        if i != j:
            a[i, j] = a[j, i] = max(a[i, j], 1.0 if weight is None else weight[k])
    return a


@given(edge_lists())
def test_the_adjacency_matrix_is_the_one_made_by_hand(edges):
    g = Graph.from_edge_index(*edges)
    expected = by_hand(*edges)
    assert (dense(g) == expected).all()
    assert (dense(g) == dense(g).T).all()
    assert not dense(g).diagonal().any()
    assert (g.adjacency().data > 0).all()
    assert g.adjacency().has_canonical_format
    assert g.num_edges == np.count_nonzero(np.triu(expected))
    assert np.allclose(g.degree, expected.sum(axis=1), rtol=1e-15)


@given(edge_lists())
def test_the_report_is_the_one_counted_by_hand(edges):
    index, _, weight = edges
    entries = [
        (i, j) for k, (i, j) in enumerate(index.T.tolist()) if i != j and (not weight or weight[k])
    ]
    values: dict[frozenset[int], set[float]] = {}
    for k, (i, j) in enumerate(index.T.tolist()):
        if weight and weight[k] and i != j:
            values.setdefault(frozenset((i, j)), set()).add(weight[k])
    loops = int((index[0] == index[1]).sum())
    assert Graph.from_edge_index(*edges).report == GraphReport(
        self_loops=loops,
        duplicates=len(entries) - len(set(entries)),
        one_way=sum((j, i) not in entries for i, j in set(entries)),
        zero_weights=index.shape[1] - loops - len(entries),
        unequal_weights=sum(len(several) > 1 for several in values.values()),
    )


@given(edge_lists())
def test_a_graph_made_of_a_graph_is_the_same_and_unchanged(edges):
    g = Graph.from_edge_index(*edges)
    for again in (
        Graph.from_edge_index(g.edge_index, g.num_nodes, g.edge_weight),
        Graph.from_scipy(g.adjacency()),
    ):
        assert again == g
        assert again.fingerprint == g.fingerprint
        assert not again.report.changed


@given(edge_lists(), st.randoms(use_true_random=False))
def test_the_order_and_direction_of_the_edges_do_not_matter(edges, random):
    index, n, weight = edges
    order = list(range(index.shape[1]))
    random.shuffle(order)
    turned = np.array([index[:, k][:: random.choice([1, -1])] for k in order], dtype=np.int64)
    moved = None if weight is None else [weight[k] for k in order]
    again = Graph.from_edge_index(turned.reshape(-1, 2).T, n, moved)
    assert again == Graph.from_edge_index(*edges)


@given(graphs(max_nodes=8), st.data())
def test_any_change_changes_the_fingerprint(g, data):
    a = dense(g)
    i, j = data.draw(st.permutations(range(g.num_nodes)))[:2]
    change = data.draw(st.sampled_from([0.0, 1.0, a[i, j] + 2**-40]))
    assume(change != a[i, j])
    a[i, j] = a[j, i] = change
    other = Graph.from_scipy(sp.csr_array(a))
    assert other.fingerprint != g.fingerprint
    assert other != g
    more = Graph.from_edge_index(g.edge_index, g.num_nodes + 1, g.edge_weight)
    assert more.fingerprint != g.fingerprint


@given(graphs())
def test_components_are_those_of_networkx_in_order_of_first_appearance(g):
    graph = nx.from_scipy_sparse_array(g.adjacency())
    expected = np.empty(g.num_nodes, dtype=np.int64)
    for number, nodes in enumerate(sorted(nx.connected_components(graph), key=min)):
        expected[list(nodes)] = number
    assert g.components.tolist() == expected.tolist()
    assert g.num_components == nx.number_connected_components(graph)


@given(graphs())
def test_networkx_and_back(g):
    assert Graph.from_networkx(nx.from_scipy_sparse_array(g.adjacency())) == g


@pytest.mark.parametrize(
    ("name", "num_edges", "largest"),
    [("metis_mdual", 513_132, 258_569), ("web_google", 4_322_051, 855_802)],
)
def test_graphs_of_scale(data_root, name, num_edges, largest):
    path = data_root / "scale" / f"{name}.npz"
    if not path.exists():
        pytest.skip(f"{name} is not at hand")
    g = Graph.load(path)
    assert g.num_edges == num_edges
    assert np.bincount(g.components).max() == largest
    assert (g.adjacency() != g.adjacency().T).nnz == 0
