"""The checked, undirected, simple graph: every way to build one, and every way to fail."""

from __future__ import annotations

import tracemalloc

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch_geometric.data import Data, HeteroData

from pdgnn import Graph, GraphReport, InputError

PATH = [[0, 1], [1, 2]]  # 0 - 1 - 2, one way
PATH_MATRIX = [[0, 1, 0], [1, 0, 1], [0, 1, 0]]


def dense(g: Graph) -> np.ndarray:
    return g.adjacency().toarray()


# From an edge index


@pytest.mark.parametrize(
    "edge_index",
    [
        PATH,
        np.array(PATH),
        np.array(PATH, dtype=np.uint8),
        np.array(PATH, dtype=np.uint64),
        torch.tensor(PATH),
        torch.tensor(PATH, dtype=torch.int32),
        torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]),
        [[2, 0], [1, 1]],
    ],
)
def test_from_edge_index_of_every_type(edge_index):
    g = Graph.from_edge_index(edge_index)
    assert dense(g).tolist() == PATH_MATRIX
    assert (g.num_nodes, g.num_edges, g.is_weighted) == (3, 2, False)
    assert g.degree.tolist() == [1.0, 2.0, 1.0]
    assert g.edge_index.tolist() == [[0, 1, 1, 2], [1, 0, 2, 1]]
    assert g.edge_index.dtype == torch.int64
    assert g.edge_weight.tolist() == [1.0] * 4
    assert g.edge_weight.dtype == torch.float64


@pytest.mark.parametrize(
    "weight",
    [
        [2, 0.5],
        np.array([2, 0.5], dtype=np.float32),
        torch.tensor([2, 0.5], dtype=torch.bfloat16),
        torch.tensor([[2], [0.5]], requires_grad=True),
    ],
)
def test_weights_of_every_type(weight):
    g = Graph.from_edge_index(PATH, edge_weight=weight)
    assert dense(g).tolist() == [[0, 2, 0], [2, 0, 0.5], [0, 0.5, 0]]
    assert g.degree.tolist() == [2.0, 2.5, 0.5]
    assert g.edge_weight.tolist() == [2.0, 2.0, 0.5, 0.5]
    assert g.is_weighted
    assert repr(g) == "Graph(num_nodes=3, num_edges=2, weighted)"


def test_weights_of_one_are_no_weights():
    assert Graph.from_edge_index(PATH, edge_weight=[1, True]) == Graph.from_edge_index(PATH)


def test_isolated_nodes_count():
    g = Graph.from_edge_index(PATH, num_nodes=np.int32(5))
    assert (g.num_nodes, g.num_edges, g.num_components) == (5, 2, 3)
    assert g.degree.tolist() == [1.0, 2.0, 1.0, 0.0, 0.0]
    assert g.components.tolist() == [0, 0, 0, 1, 2]


@pytest.mark.parametrize("empty", [[[], []], np.zeros((2, 0)), torch.empty(2, 0), []])
@pytest.mark.parametrize("weight", [None, []])
def test_a_graph_without_edges(empty, weight):
    g = Graph.from_edge_index(empty, num_nodes=2, edge_weight=weight)
    assert (g.num_nodes, g.num_edges, g.num_components) == (2, 0, 2)
    assert g.edge_index.shape == (2, 0)
    assert g.edge_weight.shape == (0,)
    assert not g.report.changed


def test_a_graph_of_loops_alone_has_no_edges():
    g = Graph.from_edge_index([[0, 1], [0, 1]], edge_weight=[1.0, 2.0])
    assert (g.num_nodes, g.num_edges, g.report.self_loops) == (2, 0, 2)


def test_node_ids_are_kept():
    g = Graph.from_edge_index(PATH, node_ids=["a", "b", "c"])
    assert g.node_ids.tolist() == ["a", "b", "c"]
    assert Graph.from_edge_index(PATH).node_ids is None


# What was changed


@pytest.mark.parametrize(
    ("edge_index", "weight", "report", "text"),
    [
        ([[0, 1], [1, 0]], None, {}, "nothing was changed"),
        ([[0, 1], [1, 1]], None, {"self_loops": 1, "one_way": 1}, "1 self-loop dropped; 1 one-way"),
        ([[0, 0, 0, 1], [1, 1, 1, 0]], None, {"duplicates": 2}, "2 duplicate edges merged"),
        ([[0, 1, 2], [1, 2, 1]], None, {"one_way": 1}, "1 one-way edge made two-way"),
        ([[0, 1, 1, 2], [1, 0, 2, 1]], [1, 1, 0, 0], {"zero_weights": 2}, "2 edges of weight zero"),
        (
            [[0, 1], [1, 0]],
            [1, 3],
            {"unequal_weights": 1},
            "1 edge given several weights, the larg",
        ),
        (
            [[0, 0, 1], [0, 0, 0]],
            [0, 1, 1],
            {"self_loops": 2, "one_way": 1},
            "2 self-loops dropped",
        ),
        (
            [[0, 0, 1, 3, 3], [1, 1, 0, 3, 2]],
            [1, 2, 1, 5, 0],
            {"self_loops": 1, "duplicates": 1, "zero_weights": 1, "unequal_weights": 1},
            "1 self-loop dropped; 1 duplicate edge merged; 1 edge of weight zero dropped; 1 edge",
        ),
    ],
)
def test_the_report_counts_what_was_changed(edge_index, weight, report, text):
    found = Graph.from_edge_index(edge_index, edge_weight=weight).report
    assert found == GraphReport(**report)
    assert found.changed == bool(report)
    assert str(found).startswith(text)
    assert len(found.lines()) == len(report)


def test_large_counts_are_readable():
    assert str(GraphReport(self_loops=1234567)) == "1,234,567 self-loops dropped"


def test_the_largest_of_several_weights_is_kept():
    g = Graph.from_edge_index([[0, 1, 0, 1], [1, 0, 1, 2]], edge_weight=[1, 5, 3, 2])
    assert dense(g).tolist() == [[0, 5, 0], [5, 0, 2], [0, 2, 0]]


# From other libraries


def test_from_data():
    data = Data(edge_index=torch.tensor(PATH), x=torch.zeros(4, 1))
    assert Graph.from_data(data) == Graph.from_edge_index(PATH, 4)
    data.edge_weight = torch.tensor([2.0, 3.0])
    assert Graph.from_data(data) == Graph.from_edge_index(PATH, 4, [2.0, 3.0])
    data.edge_weight = None
    assert Graph.from_data(data) == Graph.from_edge_index(PATH, 4)
    assert data.edge_index.tolist() == PATH


def test_edge_attributes_are_not_weights():
    data = Data(edge_index=torch.tensor(PATH), edge_attr=torch.tensor([2.0, 3.0]), num_nodes=3)
    assert not Graph.from_data(data).is_weighted


@pytest.mark.parametrize("kind", [sp.csr_matrix, sp.csr_array, sp.coo_array, sp.coo_matrix])
@pytest.mark.parametrize("dtype", [np.float32, np.int64, bool])
def test_from_scipy(kind, dtype):
    assert Graph.from_scipy(kind(np.array(PATH_MATRIX, dtype))) == Graph.from_edge_index(PATH)


@pytest.mark.parametrize("kind", [sp.csc_array, sp.lil_array, sp.dok_array, sp.bsr_array])
def test_a_matrix_that_is_not_symmetric_takes_the_larger_entry(kind):
    g = Graph.from_scipy(kind([[7.0, 2.0, 0.0], [3.0, 0.0, 0.0], [1.0, 0.0, 0.0]]))
    assert dense(g).tolist() == [[0, 3, 1], [3, 0, 0], [1, 0, 0]]
    assert g.report == GraphReport(self_loops=1, one_way=1, unequal_weights=1)


def test_entries_stored_twice_are_added_up_and_the_matrix_stays_as_it_is():
    coo = sp.coo_array(([1.0, 2.0, 3.0], ([0, 0, 1], [1, 1, 0])), shape=(2, 2))
    csr = sp.csr_array(([1.0, 2.0, 3.0], [1, 1, 0], [0, 2, 3]), shape=(2, 2))
    for matrix in (coo, csr, coo.tocsr()):
        stored = matrix.nnz
        g = Graph.from_scipy(matrix)
        assert dense(g).tolist() == [[0, 3], [3, 0]]
        assert not g.report.changed
        assert matrix.nnz == stored


@pytest.mark.parametrize("kind", [nx.Graph, nx.DiGraph, nx.MultiGraph, nx.MultiDiGraph])
def test_from_networkx_of_every_kind(kind):
    graph = kind()
    graph.add_nodes_from(["zoe", "ann", "bob", "far"])
    graph.add_edge("ann", "bob", weight=2.5)
    graph.add_edge("bob", "zoe")
    g = Graph.from_networkx(graph)
    assert g.node_ids.tolist() == ["zoe", "ann", "bob", "far"]
    assert g == Graph.from_edge_index([[1, 2], [2, 0]], 4, [2.5, 1.0])
    assert Graph.from_networkx(graph, weight=None) == Graph.from_edge_index([[1, 2], [2, 0]], 4)


def test_from_networkx_parallel_edges_and_another_attribute():
    graph = nx.MultiGraph()
    graph.add_edge(0, 1, cost=1)
    graph.add_edge(0, 1, cost=4)
    g = Graph.from_networkx(graph, weight="cost")
    assert dense(g).tolist() == [[0, 4], [4, 0]]
    assert g.report == GraphReport(duplicates=1, one_way=1, unequal_weights=1)


@pytest.mark.parametrize("size", [1, 2, 3])
def test_from_networkx_names_may_be_tuples(size):
    g = Graph.from_networkx(nx.grid_2d_graph(size, 2))
    assert g.node_ids.tolist() == [(i, j) for i in range(size) for j in range(2)]


def test_from_networkx_without_edges():
    g = Graph.from_networkx(nx.empty_graph(3))
    assert (g.num_nodes, g.num_edges) == (3, 0)


def test_load_reads_a_file(tmp_path):
    (tmp_path / "a.csv").write_text("source,target,weight\na,b,2\nb,c,0.5\n")
    g = Graph.load(tmp_path / "a.csv")
    assert g == Graph.from_edge_index(PATH, edge_weight=[2, 0.5])
    assert g.node_ids.tolist() == ["a", "b", "c"]


# Questions to a graph


def test_has_edge_and_node():
    g = Graph.from_edge_index(PATH, 4)
    joined = [(i, j) for i in range(4) for j in range(4) if g.has_edge(i, j)]
    assert joined == [(0, 1), (1, 0), (1, 2), (2, 1)]
    assert g.node(np.int64(3)) == 3
    assert type(g.node(np.int64(3))) is int
    for wrong in (-1, 4):
        with pytest.raises(InputError, match=f"node {wrong} does not exist; nodes are 0 to 3"):
            g.node(wrong)
        with pytest.raises(InputError, match=f"node {wrong} does not exist"):
            g.has_edge(0, wrong)
        with pytest.raises(InputError, match=f"node {wrong} does not exist"):
            g.has_edge(wrong, 0)
    for wrong in (1.0, True, "1", None):
        with pytest.raises(InputError, match="a node is an integer, not "):
            g.node(wrong)


def test_what_a_graph_hands_out_cannot_change_it():
    g = Graph.from_edge_index(PATH)
    g.adjacency().data[:] = 7
    with pytest.raises(ValueError, match="read-only"):
        g.degree[0] = 7
    assert dense(g).tolist() == PATH_MATRIX


def test_equal_graphs_hash_alike_and_others_are_not_equal():
    g, same = Graph.from_edge_index(PATH), Graph.from_edge_index([[2, 1], [1, 0]])
    assert g == same
    assert len({g, same}) == 1
    assert g != Graph.from_edge_index(PATH, 4)
    assert g != "Graph(num_nodes=3, num_edges=2)"


# Bad input


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([[0, 1], [1]],), "edge_index is ragged"),
        ((torch.eye(2, dtype=torch.int64).to_sparse(),), "edge_index is ragged, sparse or traced"),
        (([0, 1],), r"edge_index has shape \(2,\), expected \[2, E\]"),
        ((None,), r"edge_index has shape \(\)"),
        ((np.zeros((3, 2), int),), r"edge_index has shape \(3, 2\), .*; transpose it"),
        ((np.zeros((2, 2, 2), int),), r"edge_index has shape \(2, 2, 2\)"),
        (([[0.0, 1.0], [1.0, 2.0]],), "edge_index holds float64; node ids must be integers"),
        (([["a"], ["b"]],), "edge_index holds <U1; node ids must be integers"),
        (([[True], [False]],), "edge_index holds bool"),
        (([[0], [-2]],), "negative id -2; ids start at 0"),
        ((np.array([[2**63], [0]], np.uint64),), "beyond 64-bit signed integers"),
        (([[0], [1_000_000]],), "largest id is 1000000, far beyond the 1 edges .* renumber"),
        (([[0], [3]], 3), "node 3 does not exist: num_nodes is 3"),
        (([[], []],), "the graph has no nodes; give at least one edge, or num_nodes"),
        (([[], []], 0), "the graph has no nodes"),
        ((PATH, -1), "num_nodes must be a whole number of at least 0, not -1"),
        ((PATH, "3"), "num_nodes must be a whole number of at least 0, not '3'"),
        ((PATH, 3.0), "num_nodes must be a whole number of at least 0, not 3.0"),
        ((PATH, None, [1.0]), r"edge_weight has shape \(1,\), expected \[2\]"),
        ((PATH, None, [[1.0, 2.0]]), r"edge_weight has shape \(1, 2\)"),
        ((PATH, None, [[1.0], [1.0, 2.0]]), "edge_weight is ragged"),
        ((PATH, None, ["a", "b"]), "edge_weight holds <U1; weights must be real numbers"),
        ((PATH, None, [1j, 1]), "edge_weight holds complex128"),
        ((PATH, None, [1.0, np.nan]), r"edge_weight\[1\] is nan; .* drop or mend"),
        ((PATH, None, [-np.inf, 1.0]), r"edge_weight\[0\] is -inf"),
        ((PATH, None, [1.0, -0.5]), r"edge_weight\[1\] is -0.5; .* not negative"),
        ((PATH, None, [1.0, 1e101]), "the weights go beyond 1e-100 to 1e100; rescale"),
        ((PATH, None, [1e-101, 0.0]), "the weights go beyond 1e-100 to 1e100; rescale"),
    ],
)
def test_bad_edge_lists_are_refused(arguments, message):
    with pytest.raises(InputError, match=message) as caught:
        Graph.from_edge_index(*arguments)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (
            lambda: Graph.from_edge_index(PATH, node_ids=["a"]),
            r"shape \(1,\); give one id for each",
        ),
        (lambda: Graph.from_data(Data(x=torch.ones(2, 1))), "this Data has no edge_index"),
        (lambda: Graph.from_data(HeteroData()), "this HeteroData has no edge_index; give a Data"),
        (lambda: Graph.from_scipy(np.eye(2)), "needs a SciPy sparse matrix, not ndarray"),
        (lambda: Graph.from_scipy(sp.csr_array((2, 3))), r"must be square, not \(2, 3\)"),
        (lambda: Graph.from_scipy(sp.coo_array([1.0, 2.0])), r"must be square, not \(2,\)"),
        (lambda: Graph.from_scipy(sp.csr_array((0, 0))), "the graph has no nodes"),
        (lambda: Graph.from_scipy(sp.csr_array([[0, 1j], [1j, 0]])), "real numbers; take the real"),
        (lambda: Graph.from_scipy(sp.csr_array([[0, -1.0], [1, 0]])), "is -1.0; .* not negative"),
        (lambda: Graph.from_scipy(sp.csr_array([[0, np.nan], [1, 0]])), "is nan; .* drop or mend"),
        (lambda: Graph.from_networkx(7), "needs a NetworkX graph, not int"),
        (lambda: Graph.from_networkx(nx.Graph()), "the graph has no nodes"),
        (
            lambda: Graph.from_networkx(nx.Graph([(0, 1, {"weight": "heavy"})])),
            "edge_weight holds <U5; weights must be real numbers",
        ),
        (
            lambda: Graph.from_networkx(nx.Graph([(0, 1, {"weight": None})])),
            "edge_weight holds object; weights must be real numbers",
        ),
        (lambda: Graph.load("no/such/file.csv"), "no/such/file.csv: there is no such file"),
    ],
)
def test_bad_input_of_other_kinds_is_refused(build, message):
    with pytest.raises(InputError, match=message):
        build()


def test_a_sparse_id_is_allowed_where_the_number_of_nodes_says_so():
    assert Graph.from_edge_index([[0], [1_000_000]], 1_000_001).num_nodes == 1_000_001


# Nodes without edges


def test_a_node_without_edges_costs_next_to_nothing():
    n = 20_000_000
    for weight in (None, [2.0, 3.0, 1.0]):
        tracemalloc.start()
        g = Graph.from_edge_index([[0, 7, 7], [n - 1, 7, 0]], n, weight)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 4.1 * n
        assert (g.num_nodes, g.num_edges, g.has_edge(0, n - 1)) == (n, 2, True)
        assert g.edge_index.tolist() == [[0, 0, 7, n - 1], [7, n - 1, 0, 0]]


@pytest.mark.parametrize("weighted", [False, True])
def test_a_graph_of_mostly_isolated_nodes_is_the_same_as_built_with_all_nodes(weighted):
    """Above four times as many nodes as edge ends, the matrix is built without the others."""
    edges = [[2, 9, 9, 4, 30, 2], [9, 2, 4, 4, 31, 9]]
    weight = [1.0, 3.0, 0.5, 1.0, 0.0, 2.0] if weighted else None
    few, many = (Graph.from_edge_index(edges, n, weight) for n in (32, 200))
    assert many.report == few.report
    assert (many.edge_index == few.edge_index).all()
    assert (many.edge_weight == few.edge_weight).all()
    assert many.degree.tolist() == few.degree.tolist() + 168 * [0.0]
    assert many.num_components == few.num_components + 168
    assert many.components[:32].tolist() == few.components.tolist()
    assert many.components[32:].tolist() == list(range(few.num_components, many.num_components))
    a = many.adjacency()
    assert (a != a.T).nnz == 0
    assert a.has_canonical_format
    assert a.indices.dtype == a.indptr.dtype == np.int32


@pytest.mark.parametrize("n", [2**62, 2**63 - 1, 2**70])
def test_more_nodes_than_any_memory_holds_is_one_line(n):
    with pytest.raises(InputError, match=r"there is no memory for .* nodes"):
        Graph.from_edge_index([[0], [1]], n)
