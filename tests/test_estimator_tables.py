"""The graphs that people have in Python, as node tables."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp
import torch
from torch_geometric.data import Data, HeteroData

from pdgnn import Graph, InputError, datasets
from pdgnn.estimator.tables import as_node_table
from pdgnn.io.sources import open_source

EDGES = torch.tensor([[0, 1, 2], [1, 2, 3]])
PATH = Graph.from_edge_index(EDGES)


def refused(message: str, *words, **options) -> None:
    with pytest.raises(InputError, match=message) as caught:
        as_node_table(*words, **options)
    assert "\n" not in str(caught.value)


def data(**changes) -> Data:
    kept = {"x": torch.eye(4, 2), "edge_index": EDGES, "y": torch.tensor([5, 7, 5, 7])} | changes
    return Data(**{k: v for k, v in kept.items() if v is not None})


def test_a_data_with_its_masks():
    first = torch.tensor([True, True, False, False])
    last = torch.tensor([False, False, True, False])
    both = {"train_mask": first, "val_mask": last, "test_mask": ~(first | last)}
    table = as_node_table(data(**both, y=torch.tensor([5, 7, -1, 5])))
    assert table.graph == PATH
    assert table.features.tolist() == [[1, 0], [0, 1], [0, 0], [0, 0]]
    assert table.features.dtype == np.float32
    assert table.labels.tolist() == [5, 7, None, 5]
    assert table.split.tolist() == [0, 0, 1, 2]
    assert table.ids.tolist() == [0, 1, 2, 3]
    many = {k: torch.stack([m, m.flip(0)], dim=1) for k, m in both.items()}  # [N, S]
    assert as_node_table(data(**many), split=1).split.tolist() == [2, 1, 0, 0]
    refused("there is no split 2; splits are 0 to 1", data(**many), split=2)
    refused("overlap: 2 nodes .* such as 0, 1", data(**both | {"val_mask": first}))
    refused(r"train_mask is int64 of shape \(1,\); give bool", data(train_mask=torch.tensor([1])))


def test_a_data_without_masks_features_or_with_weights():
    table = as_node_table(data(x=None, y=torch.tensor([[5], [7], [5], [7]])))
    assert (table.split, table.features) == (None, None)
    assert as_node_table(data(x=None, y=torch.tensor([0, 1] * 3))).num_nodes == 6
    assert table.labels.tolist() == [5, 7, 5, 7]
    weighted = as_node_table(data(edge_weight=torch.tensor([1.0, 2.0, 3.0])))
    assert weighted.graph.degree.tolist() == [1, 3, 5, 3]
    table = as_node_table(data(x=torch.eye(4).to_sparse()))
    assert table.features.tolist() == np.eye(4).tolist()
    assert as_node_table(data(x=torch.eye(4, dtype=torch.bfloat16))).features.dtype == np.float32


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"y": None}, "there are no labels to learn from; set data.y"),
        ({"y": torch.tensor([0.0, 1.0, 0.0, 1.0])}, "y holds float32; give integers"),
        (
            {"y": torch.zeros(4, 3, dtype=int)},
            r"y has shape \(4, 3\); give one label for each of 4",
        ),
        ({"y": torch.tensor([0, 1, 0])}, r"y has shape \(3,\)"),
        ({"y": torch.tensor([0, 0, 0, -1])}, "all labels are of one class, 0"),
        ({"y": torch.tensor([0, 0, 1, 1, 2])}, r"y has shape \(5,\)"),
        ({"edge_index": None}, "has no edge_index"),
    ],
)
def test_a_data_that_cannot_be_learnt_from(changes, message):
    refused(message, data(**changes))


def test_other_things_of_pyg():
    refused("this HeteroData has no edge_index", HeteroData())
    refused("y is part of the data here", data(), [0, 1, 0, 1])
    refused("data and nodes= are both given", data(), nodes=FRAME)
    refused("id and drop", data(), drop=["x"])
    board = datasets.load("minesweeper-generated:size=6,seed=1")
    table = as_node_table(board, split=3)
    source = as_node_table(open_source("minesweeper-generated:size=6,seed=1"), split=3)
    named = as_node_table("minesweeper-generated:size=6,seed=1", split=3)
    for other in (source, named):
        assert other.graph == table.graph
        assert (other.features == table.features).all()
        assert (other.labels == table.labels).all()
        assert (other.split == table.split).all()
    assert as_node_table(table) is table


def club() -> nx.Graph:
    graph = nx.Graph(name="club")
    for name, role, age in (("b", "x", 3), ("a", "x", None), ("c", "y", 5), ("d", "y", 7)):
        graph.add_node(name, role=role, **({} if age is None else {"age": age}))
    graph.add_edge("a", "b", weight=2.0)
    return graph


def test_a_networkx_graph_with_attributes():
    table = as_node_table(club(), label="role")
    assert table.ids.tolist() == ["b", "a", "c", "d"]
    assert table.graph.node_ids.tolist() == ["b", "a", "c", "d"]
    assert table.labels.tolist() == ["x", "x", "y", "y"]
    assert table.features.to_pydict() == {"age": [3, None, 5, 7]}
    assert table.graph.degree.tolist() == [2, 2, 0, 0]
    assert table.name == "club"
    numbered = nx.convert_node_labels_to_integers(club(), first_label=10)
    table = as_node_table(numbered, label="role", drop="age")
    assert table.ids.tolist() == [10, 11, 12, 13]
    assert table.features is None
    karate = as_node_table(nx.karate_club_graph(), label="club")
    assert set(karate.labels) == {"Mr. Hi", "Officer"}


def test_networkx_graphs_that_are_refused():
    refused("there is no column 'part'; columns are 'role', 'age'", club(), label="part")
    graph = club()
    graph.nodes["a"]["age"] = "old"
    refused("the node attribute 'age' mixes kinds of values", graph, label="role")
    assert as_node_table(graph, label="role", drop=["age"]).features is None
    graph.add_node(3, role="x")
    refused("this one by 3; rename them", graph, label="role", drop="age")
    grid = nx.grid_2d_graph(2, 2)
    nx.set_node_attributes(grid, "x", "role")
    refused(r"this one by \(0, 0\); rename them", grid, label="role")
    empty = club()
    empty.remove_edge("a", "b")
    refused("the graph has no edges", empty, label="role")


FRAME = pd.DataFrame(
    {
        "id": ["b", "a", "c", "d"],
        "age": [1.5, 2, np.nan, 3],
        "kind": pd.Categorical(["u", "u", "v", "v"]),
        "ok": [True, False, True, True],
        "role": ["x", "x", "y", None],
    },
    index=[7, 8, 9, 9],
)
PAIRS = pd.DataFrame({"from": pd.Categorical(["a", "b"]), "to": ["b", "c"], "weight": [1, 2]})
MAKERS = {
    "pandas": lambda frame: frame,
    "polars": pl.from_pandas,
    "pyarrow": lambda frame: pa.Table.from_pandas(frame, preserve_index=False),
    "dict": lambda frame: pa.Table.from_pandas(frame, preserve_index=False).to_pydict(),
    "stream": lambda frame: Stream(pa.Table.from_pandas(frame, preserve_index=False)),
}


class Stream:
    """Whatever has Arrow's stream interface, and nothing else."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self.table.__arrow_c_stream__(requested_schema)


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_frames_of_every_library(make):
    frame = FRAME.assign(role=["x", "x", "y", "y"])
    table = as_node_table(nodes=make(frame), edges=make(PAIRS), label="role")
    assert table.ids.tolist() == ["b", "a", "c", "d"]
    assert table.labels.tolist() == ["x", "x", "y", "y"]
    assert table.features.to_pydict() == {
        "age": [1.5, 2, None, 3],
        "kind": ["u", "u", "v", "v"],
        "ok": [True, False, True, True],
    }
    assert table.graph.edge_index.tolist() == [[0, 0, 1, 2], [1, 2, 0, 0]]
    assert table.graph.edge_weight.tolist() == [1, 2, 1, 2]
    assert (
        as_node_table(nodes=make(FRAME), edges=make(PAIRS), label="role", fitted=True).labels[3]
        is None
    )


def test_frames_of_integer_ids_and_edges_by_row():
    nodes = pd.DataFrame({"key": [30, 10, 20], "label": [1, 1, 1]})
    edges = pd.DataFrame({"u": [10.0, 20.0], "v": [20.0, 30.0]})
    table = as_node_table(nodes=nodes, edges=edges, id="key", fitted=True, label="label")
    assert table.ids.tolist() == [30, 10, 20]
    assert table.graph.edge_index.tolist() == [[0, 1, 2, 2], [2, 2, 0, 1]]
    table = as_node_table(nodes=FRAME[["age", "role"]], edges=EDGES, label="role", fitted=True)
    assert table.ids.tolist() == [0, 1, 2, 3]
    assert table.graph == PATH
    table = as_node_table(nodes=FRAME, edges=PATH, label="role", fitted=True)
    assert table.ids.tolist() == ["b", "a", "c", "d"]


def test_frames_that_are_refused():
    refused("there is no graph; give data, or nodes= and edges=", nodes=FRAME)
    refused("there is no graph")
    refused("nodes= must be a table or a file, not int", nodes=3, edges=PAIRS)
    refused("y is part of the data", None, [1], nodes=FRAME, edges=PAIRS)
    odd = FRAME.assign(odd=[1, "a", None, 2])
    refused("nodes cannot be read as a table .*odd", nodes=odd, edges=PAIRS, label="role")
    twice = pd.concat([FRAME, FRAME[["age"]]], axis=1)
    refused("nodes cannot be read as a table .*[Dd]uplicate", nodes=twice, edges=PAIRS)
    refused(
        "1 edge ends at 1 node .*'q'",
        nodes=FRAME,
        edges=PAIRS.replace("c", "q"),
        label="role",
        fitted=True,
    )
    refused("there are no edges", nodes=FRAME, edges=PAIRS.head(0), label="role", fitted=True)
    refused(
        "the graph has 5 nodes, and there are 4 rows",
        nodes=FRAME,
        edges=sp.eye_array(5).tocsr(),
        label="role",
        fitted=True,
    )
    dated = FRAME.assign(when=pd.Timestamp("2020-01-01"))
    refused("column 'when' holds timestamp", nodes=dated, edges=PAIRS, label="role")


def test_a_file_and_a_table_are_refused_together(tmp_path):
    (tmp_path / "nodes.csv").write_text("id,role\na,x\nb,x\nc,y\nd,y\n")
    file, said = tmp_path / "nodes.csv", "of nodes and edges one is a file; give two files, or two"
    refused(said, nodes=file, edges=PAIRS, label="role")
    refused(said, nodes=file, edges=EDGES, label="role")
    refused(said, nodes=FRAME, edges=str(file), label="role")
    refused(said, str(file), nodes=FRAME, label="role")


def test_paths(tmp_path):
    (tmp_path / "edges.csv").write_text("source,target\na,b\n")
    (tmp_path / "nodes.csv").write_text("id,role\na,x\nb,x\nc,y\nd,y\n")
    tables = [
        as_node_table(tmp_path, label="role"),
        as_node_table(str(tmp_path), label="role"),
        as_node_table(nodes=tmp_path / "nodes.csv", edges=tmp_path / "edges.csv", label="role"),
        as_node_table(tmp_path / "edges.csv", nodes=tmp_path / "nodes.csv", label="role"),
    ]
    for table in tables:
        assert table.ids.tolist() == ["a", "b", "c", "d"]
        assert table.graph.num_edges == 1


X = [[0.5, 1], [1, 2], [2, 3], [3, 4]]


@pytest.mark.parametrize(
    "edges",
    [EDGES, EDGES.numpy(), EDGES.tolist(), PATH, PATH.adjacency(), sp.coo_matrix(PATH.adjacency())],
)
def test_plain_arrays(edges):
    table = as_node_table(X, ["a", "b", "a", "b"], edges=edges)
    assert table.graph == PATH
    assert table.features.tolist() == X
    assert table.features.dtype == np.float32
    assert table.labels.tolist() == ["a", "b", "a", "b"]
    assert table.split is None
    assert as_node_table(torch.tensor(X), torch.tensor([0, 1, 0, 1]), edges=edges).labels[1] == 1


def test_arrays_without_edges_or_features():
    table = as_node_table(X, [-1, 1, -1, 1])
    assert (table.graph.num_nodes, table.graph.num_edges) == (4, 0)
    assert table.labels.tolist() == [-1, 1, -1, 1]  # a label like any other, as in scikit-learn
    table = as_node_table(PATH, [1, 0, 1, 0])
    assert (table.features, table.graph) == (None, PATH)
    table = as_node_table(pd.DataFrame(X, columns=["p", "q"]), [1, 0, 1, 0], edges=EDGES)
    assert table.features.column_names == ["p", "q"]
    table = as_node_table(FRAME.drop(columns="id"), edges=EDGES, label="role", fitted=True)
    assert table.labels.tolist() == ["x", "x", "y", None]


@pytest.mark.parametrize(
    ("y", "labels"),
    [
        (np.array([1.0, 0.0, np.nan, 1.0, 0.0]), [1, 0, None, 1, 0]),
        (np.array(["a", "b", None, "a", "b"], dtype=object), ["a", "b", None, "a", "b"]),
        (np.array(["a", "b", np.nan, "a", "b"], dtype=object), ["a", "b", None, "a", "b"]),
        (np.array([True, False, True, False, True]), [True, False, True, False, True]),
        (pd.Series(["a", "b", "a", "b", "a"]), ["a", "b", "a", "b", "a"]),
    ],
)
def test_labels_of_arrays(y, labels):
    found = as_node_table(np.eye(5), y).labels.tolist()
    assert found == labels
    assert [type(v) for v in found] == [type(v) for v in labels]


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        (X, None, "requires y to be passed, but the target y is None"),
        (X, [0, 1, 0], "inconsistent numbers of samples"),
        (X, [0.5, 1.5, 2.25, 3], "Unknown label type"),
        (X, [0, 1, 0, np.inf], "Input y contains infinity"),
        (X, [0, 1, 1, 1], "1 label occurs once only: 0"),
        (X, [1, 1, 1, 1], "one class"),
        ([[1.0, np.inf], [0, 1]], [0, 1], "Input X contains infinity"),
        ([1.0, 2.0], [0, 1], "Expected 2D array, got 1D array instead"),
        (np.zeros((0, 3)), [], "0 sample"),
        (np.zeros((3, 0)), [0, 1, 0], "0 feature"),
        ([["a", "b"]] * 4, [0, 1, 0, 1], "could not convert string to float"),
        (np.eye(4) * 1j, [0, 1, 0, 1], "Complex data not supported"),
    ],
)
def test_arrays_are_refused_in_scikit_learns_words(x, y, message):
    with pytest.raises(InputError, match=message) as error:
        as_node_table(x, y)
    assert len(str(error.value).splitlines()) == 1


def test_sparse_features_are_taken_as_they_are():
    table = as_node_table(sp.csr_array(np.eye(4)), [0, 1, 0, 1])
    assert table.features.tolist() == np.eye(4).tolist()


def test_nan_is_left_to_the_encoder():
    assert np.isnan(as_node_table([[np.nan], [1], [2], [3]], [0, 1, 0, 1]).features[0, 0])


def test_edges_that_do_not_fit():
    y = [0, 1, 0, 1]
    refused("the graph has 3 nodes, and there are 4 rows", X, y, edges=sp.eye_array(3).tocsr())
    refused("node 4 does not exist: num_nodes is 4", X, y, edges=[[0], [4]])
    refused("expected .2, E.", X, y, edges=[0, 1])
    refused("edges is part of the data", PATH, y, edges=EDGES)
