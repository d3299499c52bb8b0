from __future__ import annotations

import copy
import pickle

import networkx as nx
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pdgnn import Graph, eigenpairs
from pdgnn.errors import InputError
from pdgnn.rewiring import RewiredGraph, gradient_node, gradient_nodes, rewire
from strategies import graphs

PATH = Graph.from_edge_index([[0, 1, 2, 3], [1, 2, 3, 4]])
STAR = Graph.from_edge_index([[0, 0, 0, 0], [1, 2, 3, 4]])
COMPLETE = Graph.from_networkx(nx.complete_graph(5))
# Two cliques of four, {0, 1, 2, 3} and {4, 5, 6, 7}, joined by the edge (3, 4).
BARBELL = Graph.from_networkx(nx.barbell_graph(4, 0))
# Two paths, {0, 2, 4} and {1, 3, 5, 6}, and the isolated node 7.
APART = Graph.from_edge_index([[0, 2, 1, 3, 5], [2, 4, 3, 5, 6]], num_nodes=8)


@st.composite
def graph_and_phi(draw):
    """A graph and values of which many are equal."""
    g = draw(graphs())
    phi = draw(st.lists(st.integers(-4, 4), min_size=g.num_nodes, max_size=g.num_nodes))
    return g, np.array(phi) / 7.0


def by_hand(g: Graph, phi: np.ndarray, reach: str) -> set[tuple[int, int]]:
    """The edges to add, from the definition, one component at a time."""
    added = set()
    for nodes in nx.connected_components(nx.from_scipy_sparse_array(g.adjacency())):
        high, low = max(phi[v] for v in nodes), min(phi[v] for v in nodes)
        top = min(v for v in nodes if phi[v] == high)
        for v in nodes - {top}:
            far = high > low and 2 * (high - phi[v]) >= high - low - 1e-9
            if not g.has_edge(v, top) and (reach == "all" or far):
                added.add((v, top))
    return added


def edges(g: RewiredGraph) -> set[tuple[int, int]]:
    pairs = [tuple(p) for p in g.added.T.tolist()]
    assert len(set(pairs)) == len(pairs)
    return set(pairs)


class TestGradientNode:
    def test_path(self):
        # Both ends have the largest |u|; the lower index is the positive one.
        for gamma in (0.0, 0.5, 1.0):
            assert gradient_node(PATH, gamma=gamma) == 0

    def test_alpha_moves_it(self):
        # γ = 1: u = √D cos(πk/4), so φ(0) = D cos(πk/4) = (1, √2, 0, −√2, −1).
        assert gradient_node(PATH, alpha=0.0) == 1
        assert gradient_node(PATH, alpha=1.0) == 0

    def test_star_and_barbell(self):
        assert gradient_node(STAR) == 1  # all leaves alike
        assert gradient_node(BARBELL) == 0  # 0, 1 and 2 alike, and the other clique negative

    def test_largest_component(self):
        assert gradient_node(APART) == 1
        assert gradient_nodes(APART).tolist() == [0, 1, 7]
        # Equally large: the first.
        two = Graph.from_edge_index([[0, 2], [3, 1]])
        assert gradient_node(two) == 0

    def test_ties_go_to_the_lowest_index(self):
        assert gradient_node(PATH, phi=[0.0, 1.0, 1.0 + 1e-7, 0.5, 1.0 + 2e-7]) == 1
        assert gradient_node(PATH, phi=[0.0, 1.0, 1.0 + 1e-5, 0.5, 0.0]) == 2
        assert gradient_node(PATH, phi=[-1.0, -2.0, -1.0, -3.0, -5.0]) == 0

    def test_kinds_of_phi(self):
        phi = [0.0, 0.0, 3.0, 0.0, 1.0]
        for given_phi in (phi, np.array(phi), torch.tensor(phi), torch.tensor(phi)[:, None]):
            assert gradient_node(PATH, phi=given_phi) == 2

    def test_no_edges(self):
        g = Graph.from_edge_index(np.zeros((2, 0), dtype=int), num_nodes=3)
        assert gradient_nodes(g).tolist() == [0, 1, 2]
        assert gradient_node(g) == 0
        assert rewire(g).added.shape == (2, 0)

    @given(graph_and_phi())
    def test_against_the_definition(self, drawn):
        g, phi = drawn
        ours = gradient_nodes(g, phi=phi)
        assert ours.shape == (g.num_components,)
        for c, v in enumerate(ours):
            nodes = np.flatnonzero(g.components == c)
            assert v == nodes[phi[nodes].argmax()]


class TestRewire:
    def test_path(self):
        g = rewire(PATH)
        assert edges(g) == {(2, 0), (3, 0), (4, 0)}
        assert g.num_edges == 7
        # φ = (a, b, 0, −b, −a): node 2 is exactly half the range away, and counts as far.
        for gamma in (0.0, 0.3, 1.0):
            assert edges(rewire(PATH, gamma=gamma, reach="far")) == {(2, 0), (3, 0), (4, 0)}
        assert edges(rewire(PATH, alpha=0.0)) == {(3, 1), (4, 1)}

    def test_star(self):
        # The gradient node is a leaf: the other leaves are joined to it, the centre is already.
        assert edges(rewire(STAR)) == {(2, 1), (3, 1), (4, 1)}
        # With φ largest in the centre nothing is left to do.
        assert edges(rewire(STAR, phi=[1.0, 0.0, 0.0, 0.0, 0.0])) == set()

    def test_barbell(self):
        for reach in ("all", "far"):
            assert edges(rewire(BARBELL, reach=reach)) == {(4, 0), (5, 0), (6, 0), (7, 0)}

    def test_complete(self):
        g = rewire(COMPLETE)
        assert g == COMPLETE
        assert g.added.shape == (2, 0)

    def test_components_stay_apart(self):
        g = rewire(APART)
        assert edges(g) == {(4, 0), (5, 1), (6, 1)}
        assert g.components.tolist() == APART.components.tolist()
        assert g.gradient_nodes.tolist() == [0, 1, 7]

    def test_far_of_a_flat_phi_is_nobody(self):
        assert edges(rewire(PATH, phi=np.ones(5), reach="far")) == set()
        assert edges(rewire(PATH, phi=np.ones(5), reach="all")) == {(2, 0), (3, 0), (4, 0)}

    def test_new_edges_have_weight_one(self):
        g = Graph.from_edge_index([[0, 1, 2], [1, 2, 3]], edge_weight=[5.0, 0.5, 5.0])
        a = rewire(g, phi=[3.0, 2.0, 1.0, 0.0]).adjacency().toarray()
        assert a.tolist() == [[0, 5, 1, 1], [5, 0, 0.5, 0], [1, 0.5, 0, 5], [1, 0, 5, 0]]

    def test_phi_is_that_of_the_original(self):
        phi = eigenpairs(BARBELL, gamma=0.4).eigenvectors(0.3)[:, 0]
        ours = rewire(BARBELL, alpha=0.3, gamma=0.4)
        assert edges(ours) == edges(rewire(BARBELL, phi=phi))

    def test_twice(self):
        phi = np.array([4.0, 3.0, 2.0, 1.0, 0.0])
        once = rewire(PATH, phi=phi)
        assert rewire(once, phi=phi) == once
        # The rewired path has another φ, so without phi= a second time may add more.
        assert gradient_node(once) != gradient_node(PATH)
        assert rewire(once).num_edges > once.num_edges

    def test_names_and_report_are_kept(self):
        g = Graph.from_edge_index([[0, 1, 1], [1, 2, 1]], node_ids=["a", "b", "c"])
        r = rewire(g)
        assert r.node_ids.tolist() == ["a", "b", "c"]
        assert r.report == g.report
        assert r.report.self_loops == 1

    def test_the_original_is_left_alone(self):
        before = copy.deepcopy(APART)
        rewire(APART)
        assert before == APART
        assert PATH.num_edges == 4

    @given(graph_and_phi(), st.sampled_from(["all", "far"]))
    def test_against_the_definition(self, drawn, reach):
        g, phi = drawn
        r = rewire(g, phi=phi, reach=reach)
        assert edges(r) == by_hand(g, phi, reach)
        assert r.num_edges == g.num_edges + r.added.shape[1]
        expected = g.adjacency().toarray()
        expected[r.added[0], r.added[1]] += 1.0
        expected[r.added[1], r.added[0]] += 1.0
        np.testing.assert_array_equal(r.adjacency().toarray(), expected)
        assert r.components.tolist() == g.components.tolist()
        assert rewire(r, phi=phi, reach=reach) == r

    @given(graphs(), st.sampled_from([0.0, 0.4, 1.0]), st.sampled_from([0.0, 0.3, 1.0]))
    def test_with_its_own_phi(self, g, alpha, gamma):
        r = rewire(g, alpha=alpha, gamma=gamma)
        top = r.gradient_nodes[g.components]
        joined = r.adjacency().toarray()[np.arange(g.num_nodes), top] > 0
        assert (joined | (top == np.arange(g.num_nodes))).all()
        assert edges(rewire(g, alpha=alpha, gamma=gamma, reach="far")) <= edges(r)
        # A rewired graph is a graph like any other.
        assert Graph.from_scipy(r.adjacency()) == r
        assert not Graph.from_edge_index(r.edge_index, r.num_nodes, r.edge_weight).report.changed


class TestRecord:
    def test_words(self):
        assert rewire(APART).why == [
            "3 edges added: every node not yet joined to the gradient node of its component",
            "gradient node 1, in a component of 4 nodes: 2 edges",
            "gradient node 0, in a component of 3 nodes: 1 edge",
        ]
        assert rewire(PATH, reach="far").why[0] == (
            "3 edges added: every such node at least half the range of φ from its gradient node"
        )

    def test_many_components(self):
        # Paths of two to six nodes, one after the other.
        sizes = [2, 3, 4, 5, 6]
        g = Graph.from_networkx(nx.disjoint_union_all(nx.path_graph(n) for n in sizes))
        assert rewire(g).why[1:] == [
            "gradient node 14, in a component of 6 nodes: 4 edges",
            "gradient node 9, in a component of 5 nodes: 3 edges",
            "gradient node 5, in a component of 4 nodes: 2 edges",
            "2 smaller components: 1 edge",
        ]

    def test_repr_and_copies(self):
        r = rewire(PATH)
        assert repr(r) == "RewiredGraph(num_nodes=5, num_edges=7, added=3)"
        for other in (copy.deepcopy(r), pickle.loads(pickle.dumps(r))):
            assert other == r
            assert other.why == r.why


class TestBadInput:
    def test_reach(self):
        with pytest.raises(InputError, match="reach must be 'all' or 'far', not 'near'"):
            rewire(PATH, reach="near")

    def test_alpha_and_gamma(self):
        with pytest.raises(InputError, match="alpha must be a number in"):
            rewire(PATH, alpha=2.0)
        with pytest.raises(InputError, match="gamma must be a number in"):
            gradient_node(PATH, gamma=-1.0)

    def test_phi(self):
        for function in (rewire, gradient_node, gradient_nodes):
            with pytest.raises(InputError, match=r"phi has shape \[2\]"):
                function(PATH, phi=[0.0, 1.0])
            with pytest.raises(InputError, match=r"phi\[0\] is nan"):
                function(PATH, phi=[np.nan] * 5)


def test_a_real_graph(data_root):
    raw = np.load(data_root / "tolokers" / "raw" / "tolokers.npz")
    g = Graph.from_edge_index(raw["edges"].T)
    phi = np.random.default_rng(0).normal(size=g.num_nodes)
    r = rewire(g, phi=phi)
    hub = int(phi.argmax())
    before = len(g.adjacency()[[hub]].indices)
    assert gradient_node(g, phi=phi) == hub
    assert r.added.shape[1] == g.num_nodes - 1 - before
    assert len(r.adjacency()[[hub]].indices) == g.num_nodes - 1
