"""Edge lists as Parquet, read and refused."""

from __future__ import annotations

import io

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from filing import PNG, edges, named_edges, parquet, read, refused
from pdgnn.estimator.tables import as_node_table
from pdgnn.io.nodes import read_nodes


@pytest.mark.parametrize(
    "content",
    [
        parquet(source=[0, 1], target=[1, 4]),
        parquet(year=[9, 9], dst=[1, 4], kind=["x", "y"], src=[0, 1]),
        parquet(a=pa.array([0, 1], pa.int8()), b=pa.array([1, 4], pa.uint64())),
        parquet(a=[0.0, 1.0], b=[1.0, 4.0]),
        parquet(a=["0", "1"], b=pa.array(["1", "4"], pa.large_string())),
        parquet(a=pa.array(["0", "1"]).dictionary_encode(), b=[1, 4]),
    ],
)
def test_parquet_of_every_integer_type(tmp_path, content):
    raw = read(tmp_path, "a.parquet", content)
    assert edges(raw) == [(0, 1), (1, 4)]
    assert raw.edge_index.dtype == np.int64
    assert (raw.num_nodes, raw.node_ids, raw.edge_weight) == (5, None, None)


def test_parquet_with_names_and_weights(tmp_path):
    raw = read(tmp_path, "a.parquet", parquet(weight=["1", "0.5"], v=["b", "c"], u=["a", "b"]))
    assert named_edges(raw) == [("a", "b"), ("b", "c")]
    assert raw.edge_weight.tolist() == [1.0, 0.5]
    big = parquet(a=[0], b=[1], w=pa.array([2**53 + 1], pa.uint64()))
    assert read(tmp_path, "a.parquet", big).edge_weight.tolist() == [2.0**53]
    mixed = parquet(a=["a", "1"], b=[1.0, 2.0])
    assert named_edges(read(tmp_path, "a.parquet", mixed)) == [("a", "1"), ("1", "2")]
    huge = pa.array([2**64 - 1, 0], pa.uint64())
    assert named_edges(read(tmp_path, "a.parquet", parquet(a=huge, b=[0, 1])))[0] == (
        str(2**64 - 1),
        "0",
    )


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (parquet(a=[0, 1], b=[1, 2])[:-9], "not a whole Parquet file"),
        (b"0,1\n1,2\n", "not a whole Parquet file"),
        (PNG, "not a whole Parquet file"),
        (parquet(a=[0]), "one column only"),
        (parquet(a=[0], b=[1], c=[2], d=[3]), r"which of the 4 columns .*\(a, b, c, d\)"),
        (parquet(src=[0], dst=[1], time=[2]), "column 'time' is unknown"),
        (parquet(a=[0, None], b=[1, 2]), "row 2 has no source"),
        (parquet(a=[0, 1], b=["x", ""]), "row 2 has no target"),
        (parquet(a=[0.0, 1.0], b=[1.0, float("nan")]), "row 2 has no target"),
        (parquet(a=[0.5], b=[1.0]), "source column holds fractions or numbers beyond 64 bits"),
        (parquet(a=[True], b=[1]), "source column holds bool; ids are integers or text"),
        (parquet(a=[1], b=[[1]]), "target column holds list"),
        (parquet(a=pa.array([], pa.int64()), b=pa.array([], pa.int64())), "no edges in it"),
        (parquet(a=[0], b=[1], c=[float("nan")]), "row 1 has no weight"),
        (parquet(a=[0], b=[1], c=[-1]), "weight in row 1 is -1.0"),
        (parquet(a=[0], b=[1], c=[[1]]), "weight column holds list"),
    ],
)
def test_bad_parquet_is_refused(tmp_path, content, message):
    refused(tmp_path, "a.parquet", content, message)


def test_parquet_columns_of_the_same_name_are_refused(tmp_path):
    buffer = io.BytesIO()
    pq.write_table(pa.Table.from_arrays([pa.array([0]), pa.array([1])], names=["a", "a"]), buffer)
    refused(tmp_path, "a.parquet", buffer.getvalue(), "two columns have the same name")


def test_the_nameless_index_of_pandas_is_left_out(tmp_path):
    nodes = pd.DataFrame({"id": list("abcd"), "age": [1.0, 2, 3, 4], "label": list("xyxy")})
    edges = pd.DataFrame({"source": list("abcd"), "target": list("bcda")})
    shuffled = [3, 1, 0, 2]
    nodes.iloc[shuffled].to_parquet(tmp_path / "nodes.parquet")
    edges.iloc[shuffled].to_parquet(tmp_path / "edges.parquet")
    assert "__index_level_0__" in pq.read_schema(tmp_path / "nodes.parquet").names
    table = read_nodes(tmp_path)
    assert table.features.column_names == ["age"]
    assert table.graph.num_edges == 4
    given = [pq.read_table(tmp_path / f"{name}.parquet") for name in ("nodes", "edges")]
    assert as_node_table(nodes=given[0], edges=given[1]).features.column_names == ["age"]
