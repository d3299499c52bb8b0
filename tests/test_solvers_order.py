"""The order in which large components are solved, which no answer depends on."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oracle import ITERATIVE, by_hand, relabelled, vector_error
from pdgnn import Graph, eigenpairs, eigenpairs_path
from pdgnn.solvers import order
from strategies import graphs

GRAPHS = {
    "square torus": nx.grid_2d_graph(13, 13, periodic=True),  # λ1 is fourfold
    "oblong grid": nx.grid_2d_graph(10, 17),
    "power law": nx.barabasi_albert_graph(400, 3, seed=1),
    "tree": nx.balanced_tree(2, 7),
    "two components": nx.disjoint_union(nx.cycle_graph(170), nx.star_graph(9)),
}


@pytest.fixture(params=[16, 10_000], ids=["windows", "all nodes"])
def from_the_first_node_on(request, monkeypatch) -> None:
    monkeypatch.setattr(order, "FROM_NODES", 0)
    monkeypatch.setattr(order, "FAR_NODES", 300)
    monkeypatch.setattr(order, "WINDOW", request.param)


@given(graphs(), st.integers(1, 5), st.booleans())
def test_nodes_of_a_window_by_degree(g, window, far):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(order, "FROM_NODES", 0)
        patch.setattr(order, "FAR_NODES", 0 if far else np.inf)
        patch.setattr(order, "WINDOW", window)
        a = g.adjacency()
        found = order.quick_order(a)
    assert found is not None
    assert sorted(found) == list(range(g.num_nodes))
    entries = np.diff(a.indptr)[found]
    for first in range(0, g.num_nodes, window):
        nodes = found[first : first + window]
        assert (np.diff(entries[first : first + window]) <= 0).all()
        assert far or set(nodes) == set(range(first, min(first + window, g.num_nodes)))
    dense = a.toarray()
    made = order.Order(found).matrix(a)
    np.testing.assert_array_equal(made.toarray(), dense[np.ix_(found, found)])
    assert made.has_sorted_indices


def test_small_graphs_stay_as_they_are():
    assert order.quick_order(Graph.from_networkx(GRAPHS["power law"]).adjacency()) is None


@pytest.mark.usefixtures("from_the_first_node_on")
@pytest.mark.parametrize("gamma", [0.0, 0.4, 1.0])
@pytest.mark.parametrize("name", GRAPHS)
def test_the_answer_is_that_of_the_order_given(name, gamma):
    g = relabelled(Graph.from_networkx(GRAPHS[name]), seed=3)
    for solver in ("auto", *ITERATIVE):
        for k in (1, 5):
            expected = by_hand(g, gamma, k)
            s = eigenpairs(g, gamma=gamma, k=k, solver=solver, cache=False)
            np.testing.assert_allclose(s.eigenvalues, expected.eigenvalues, rtol=1e-9)
            assert vector_error(s.u, expected.u) < 1e-6
            assert s.multiplicity == expected.multiplicity


@pytest.mark.usefixtures("from_the_first_node_on")
@pytest.mark.parametrize("name", GRAPHS)
def test_paths_too(name):
    g = Graph.from_networkx(GRAPHS[name])
    for s in eigenpairs_path(g, [0.2, 0.6, 1.0], cache=False):
        expected = by_hand(g, s.gamma)
        np.testing.assert_allclose(s.eigenvalues, expected.eigenvalues, rtol=1e-9)
        assert vector_error(s.u, expected.u) < 1e-6
