"""Nodes that colour refinement tells apart, and what vectors on the others may reach."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oracle import symmetric
from pdgnn import Graph
from pdgnn.solvers.symmetry import alike, least_antisymmetric
from strategies import graphs


def test_a_path_is_alike_but_for_its_middle():
    assert alike(Graph.from_networkx(nx.path_graph(5)).adjacency()).tolist() == [0, 1, 3, 4]


@pytest.mark.parametrize("graph", [nx.cycle_graph(9), nx.petersen_graph(), nx.hypercube_graph(4)])
def test_a_regular_graph_is_alike_everywhere(graph):
    g = Graph.from_networkx(graph)
    assert alike(g.adjacency()).size == g.num_nodes


def test_weights_tell_nodes_apart():
    g = Graph.from_edge_index([[0, 1], [1, 2]], edge_weight=[1.0, 2.0])
    assert alike(g.adjacency()).size == 0


def test_a_large_random_graph_is_told_apart():
    g = Graph.from_networkx(nx.barabasi_albert_graph(2000, 3, seed=1))
    assert alike(g.adjacency()).size < 10


@given(graphs(connected=True), st.sampled_from([0.0, 0.5, 1.0]))
def test_copies_need_nodes_that_are_alike(g, gamma):
    """An eigenvector that differs within a colour is 0 elsewhere, and not below the bound."""
    nodes, s = alike(g.adjacency()), symmetric(g, gamma)
    m = gamma * g.degree + (1 - gamma)
    bound = least_antisymmetric(g.adjacency(), nodes, m, gamma or 1.0)
    if nodes.size == 0:
        assert bound == np.inf
    else:
        least = np.linalg.eigvalsh(s[np.ix_(nodes, nodes)])[0]
        assert bound <= least + 1e-12


def test_twin_leaves_are_bounded_by_one():
    graph = nx.barabasi_albert_graph(60, 3, seed=2)
    graph.add_edges_from([(0, 60), (0, 61)])
    g = Graph.from_networkx(graph)
    nodes = alike(g.adjacency())
    assert {60, 61} <= set(nodes.tolist())
    twins = np.array([60, 61])
    assert least_antisymmetric(g.adjacency(), twins, g.degree, 1.0) == 1.0
