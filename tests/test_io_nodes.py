"""A graph and its node table from files of every kind, and what is refused in one line."""

from __future__ import annotations

import gzip
import io
import re
from pathlib import Path

import networkx as nx
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from filing import graphml, parquet, refused_nodes, write
from pdgnn import InputError
from pdgnn.io.nodes import NodeTable, read_nodes

NODES = "id,age,team,role\ncid,30,a,x\nann,41,b,x\nbob,28,a,y\ndan,35,b,y\neve,,a,\n"
EDGES = "source,target\nann,bob\nbob,cid\ncid,ann\n"


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def read(nodes: str | bytes = NODES, edges: str | bytes = EDGES, **options) -> NodeTable:
    write(nodes__csv=nodes, edges__csv=edges)
    return read_nodes("edges.csv", "nodes.csv", **{"label": "role"} | options)


def refused_tables(message: str, nodes=NODES, edges=EDGES, **options) -> None:
    with pytest.raises(InputError, match=message) as caught:
        read(nodes, edges, **options)
    assert "\n" not in str(caught.value)


def pairs(table: NodeTable) -> set[frozenset]:
    return {frozenset(table.ids[list(e)].tolist()) for e in table.graph.edge_index.T.tolist()}


TRIANGLE = {frozenset(p) for p in (("ann", "bob"), ("bob", "cid"), ("cid", "ann"))}


def check_example(table: NodeTable) -> None:
    assert table.ids.tolist() == ["cid", "ann", "bob", "dan", "eve"]
    assert table.labels.tolist() == ["x", "x", "y", "y", None]
    assert sorted(table.features.column_names) == ["age", "team"]
    assert table.features["age"].to_pylist() == [30, 41, 28, 35, None]
    assert table.features["team"].to_pylist() == ["a", "b", "a", "b", "a"]
    assert pairs(table) == TRIANGLE
    assert table.graph.degree.tolist() == [2, 2, 2, 0, 0]
    assert (table.graph.node_ids == table.ids).all()
    assert (table.split, table.id_name, table.label_name) == (None, "id", "role")


def test_the_same_table_from_every_kind_of_file():
    check_example(read())
    write(nodes__tsv=NODES.replace(",", "\t"), edges__txt="ann bob\nbob cid\ncid ann\n")
    check_example(read_nodes("edges.txt", Path("nodes.tsv"), label="role"))
    write(**{"n__csv__gz": gzip.compress(NODES.encode())})
    check_example(read_nodes("edges.csv", "n.csv.gz", label="role"))
    columns = {
        "id": ["cid", "ann", "bob", "dan", "eve"],
        "age": pa.array([30, 41, 28, 35, None], pa.int8()),
        "team": pa.array(["a", "b", "a", "b", "a"]).dictionary_encode(),
        "role": ["x", "x", "y", "y", None],
    }
    ends = {"source": ["ann", "bob", "cid"], "target": ["bob", "cid", "ann"]}
    write(nodes__parquet=parquet(**columns), edges__parquet=parquet(**ends))
    check_example(read_nodes("edges.parquet", "nodes.parquet", label="role"))
    graph = nx.Graph()
    for i, name in enumerate(columns["id"]):
        values = {k: c[i] if isinstance(c, list) else c[i].as_py() for k, c in columns.items()}
        graph.add_node(name, **{k: v for k, v in values.items() if v is not None and k != "id"})
    graph.add_edges_from(zip(*ends.values(), strict=True))
    write(g__graphml=graphml(graph))
    check_example(read_nodes("g.graphml", label="role"))


def test_a_folder_holds_both_tables(tmp_path):
    read()
    check_example(read_nodes(tmp_path, label="role"))
    check_example(read_nodes(".", label="role"))
    Path("nodes.csv").rename("Nodes.TSV")
    refused_nodes("no tab", ".", label="role")


def test_a_folder_that_is_not_clear_or_climbs_is_refused(tmp_path):
    inner = tmp_path / "inner"
    inner.mkdir()
    refused_nodes("inner: there is no edges.csv in it", inner)
    (inner / "edges.csv").write_text(EDGES)
    refused_nodes("there is no nodes.csv", inner)
    write(outside__csv=NODES)
    (inner / "nodes.csv").symlink_to("../outside.csv")
    refused_nodes("inner: nodes.csv is a link out of the folder", inner, label="role")
    (inner / "nodes.tsv").symlink_to("/etc/hostname")
    refused_nodes("it holds 'nodes.csv', 'nodes.tsv'; keep one", inner)
    for name in ("nodes.csv", "nodes.tsv"):
        (inner / name).unlink()
    (inner / "real.csv").write_text(NODES)
    (inner / "nodes.csv").symlink_to("real.csv")
    check_example(read_nodes(inner, label="role"))


@pytest.mark.parametrize(
    ("ids", "kept"),
    [
        (["0", "1", "2", "3"], [0, 1, 2, 3]),
        (["007", "07", "7", "x"], ["007", "07", "7", "x"]),
        (["9007199254740993", "-4", "5", "6"], [9007199254740993, -4, 5, 6]),
        ([f"{2**64}", "1", "2", "3"], [f"{2**64}", "1", "2", "3"]),
        (["1.0", "2.0", "3.0", "4.0"], ["1.0", "2.0", "3.0", "4.0"]),
        (['"a,b"', "é", '"#1"', "d"], ["a,b", "é", "#1", "d"]),
    ],
)
def test_ids_come_back_as_they_came(ids, kept):
    rows = "".join(f"{i},{'ab'[n % 2]}\n" for n, i in enumerate(ids))
    table = read(f"id,role\n{rows}", f"source,target\n{ids[2]},{ids[0]}\n{ids[0]},{ids[1]}\n")
    assert table.ids.tolist() == kept
    assert pairs(table) == {frozenset({kept[2], kept[0]}), frozenset({kept[0], kept[1]})}
    assert table.features is None


@pytest.mark.parametrize("nodes", ["int", "text", "csv", "floats"])
@pytest.mark.parametrize("edges", ["int", "text", "csv", "floats"])
def test_a_number_and_its_text_are_one_id(nodes, edges):
    ids = {"int": pa.array([3, 1, 2, 0]), "text": pa.array(["3", "1", "2", "0"])}
    ends = {"int": pa.array([3, 1]), "text": pa.array(["3", "1"])}
    write(
        nodes__csv="id,role\n3,a\n1,a\n2,b\n0,b\n" if nodes == "csv" else NODES,
        edges__csv="source,target\n3.0,1.0\n1.0,2.0\n" if edges == "floats" else "3,1\n1,2\n",
    )
    if nodes == "floats":
        write(nodes__csv="id,role\n3.0,a\n1.0,a\n2.0,b\n0.0,b\n")
    if nodes in ids:
        write(nodes__parquet=parquet(id=ids[nodes], role=["a", "a", "b", "b"]))
    if edges in ends:
        others = pa.array([1, 2]) if edges == "int" else pa.array(["1", "2"])
        write(edges__parquet=parquet(source=ends[edges], target=others))
    table = read_nodes(
        "edges.parquet" if edges in ends else "edges.csv",
        "nodes.parquet" if nodes in ids else "nodes.csv",
        label="role",
    )
    assert [float(i) for i in table.ids] == [3, 1, 2, 0]
    assert table.graph.edge_index.tolist() == [[0, 1, 1, 2], [1, 0, 2, 1]]


def test_weights_and_other_names_of_columns():
    table = read(
        "Role,ID,Split\nx,a,train\nx,b,val\ny,c,test\ny,d,\nz,e,train\n",
        "to,w,from\nb,0.5,a\nc,2,b\n",
        label="Role",
    )
    assert table.graph.adjacency()[0, 1] == 0.5
    assert table.graph.adjacency()[2, 1] == 2
    assert table.split.tolist() == [0, 1, 2, -1, 0]
    assert (table.id_name, table.label_name, table.features) == ("ID", "Role", None)
    other = read("name,id,role\na,1,x\nb,2,x\nc,3,y\nd,4,y\n", "a,b\n", id="name")
    assert other.ids.tolist() == ["a", "b", "c", "d"]
    assert other.features.column_names == ["id"]


@pytest.mark.parametrize(
    ("written", "labels"),
    [
        ("1,2,1,2,", [1, 2, 1, 2, None]),
        ("1.0,2.0,1.0,2.0,nan", [1, 2, 1, 2, None]),
        ("01,02,01,02,", ["01", "02", "01", "02", None]),
        ("True,False,True,False,", ["True", "False", "True", "False", None]),
        ("a,NA,a,NA,", ["a", "NA", "a", "NA", None]),
        (f"{2**70},1,{2**70},1,", [f"{2**70}", "1", f"{2**70}", "1", None]),
    ],
)
def test_labels_of_text_files(written, labels):
    rows = "".join(f"{i},{v}\n" for i, v in enumerate(written.split(",")))
    found = read(f"id,role\n{rows}", "0,1\n").labels.tolist()
    assert found == labels
    assert [type(v) for v in found] == [type(v) for v in labels]


@pytest.mark.parametrize(
    ("column", "labels"),
    [
        (pa.array([1, 2, 1, 2, None]), [1, 2, 1, 2, None]),
        (pa.array([1.0, 2.0, 1.0, 2.0, float("nan")]), [1, 2, 1, 2, None]),
        (pa.array([True, False, True, False, None]), [True, False, True, False, None]),
        (pa.array(["a", "b", "a", "b", ""]), ["a", "b", "a", "b", None]),
        (pa.array(["a", "b", "a", "b", None]).dictionary_encode(), ["a", "b", "a", "b", None]),
        (pa.array([2**63, 1, 2**63, 1, None], pa.uint64()), [2**63, 1, 2**63, 1, None]),
    ],
)
def test_labels_of_parquet(column, labels):
    write(nodes__parquet=parquet(id=[0, 1, 2, 3, 4], role=column), edges__csv="0,1\n")
    found = read_nodes("edges.csv", "nodes.parquet", label="role").labels.tolist()
    assert found == labels
    assert [type(v) for v in found] == [type(v) for v in labels]


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ("id,role\na,1\nb,1.5\nc,1\n", r"label column 'role' holds .*1\.5; this is a classifier"),
        ("id,role\na,1\nb,inf\nc,1\n", "label column 'role' holds .* inf; this is a classifier"),
        ("id,role\na,1e300\nb,1e300\n", "label column 'role' holds .* 1e.300; this is a"),
        (NODES.replace(",x\n", ",x\n", 1).replace("41,b,x", "41,b,z"), "2 labels occur once only"),
        (NODES.replace("bob,28,a,y", "bob,28,a,z"), "occur once only: 'y', 'z'|'z', 'y'"),
        (NODES.replace(",y\n", ",x\n"), "all labels are of one class, 'x'"),
        ("id,role\na,\nb,\n", "no node has a label"),
        (NODES.replace("ann", "bob"), "nodes.csv: 1 id occurs more than once: 'bob'"),
        ("id,role\n1,a\n1.0,a\n2,b\n", "1 id occurs more than once: 1;"),
        (NODES.replace("ann", ""), "row 2 has no id"),
        (NODES.replace("id,", "key,"), "there is no column 'id'; columns are 'key', 'age', 'team'"),
        (NODES.replace("age,team", "id,team"), "two columns are called 'id'"),
        (NODES.replace("age,", "ID,"), "columns 'id', 'ID' could all be meant"),
        (NODES.replace("age,", ","), "a column has no name"),
        (NODES.replace("role", "part"), "there is no column 'role'; columns are"),
        (NODES.replace("role", "roles"), "no column 'role'; did you mean 'roles'. columns are"),
        ("id,role\n", "only the names of columns"),
        ("id,role,split\na,x,train\nb,x,tset\nc,y,val\n", "split is 'tset' in row 2; it may be"),
        ("id,role,split\na,x,val\nb,x,val\nc,y,test\n", "no node of the split's train part has a"),
        ("id,role,split\na,x,1\nb,x,2\nc,y,3\n", "split is '1' in row 1"),
        ("id,role\na,x,3\nb,x\n", "has 3 columns, not 2"),
        ("id\na\n", "the first row has no comma"),
    ],
)
def test_bad_node_tables_are_refused(nodes, message):
    refused_tables(message, nodes)


def test_ids_in_another_unicode_form_are_said_so():
    """As a Mac and another system may write the same name."""
    rows = "id,role\nJos\u00e9,a\nAnn,a\nBob,b\nCy,b\n"
    edges = "source,target\nAnn,{}\nAnn,Bob\n"
    hint = r"drop these edges \(some are there in another Unicode form; write .* tables in NFC\)$"
    refused_tables(f"1 edge ends at 1 node .*{hint}", rows, edges.format("Jose\u0301"))
    refused_tables(r"drop these edges$", rows, edges.format("Jose"))
    twice = "the id 'Jos\u00e9' is written in several Unicode forms, .*; write all ids in NFC"
    refused_tables(twice, f"{rows}Jose\u0301,a\n", edges.format("Bob"))


def test_many_labels_and_many_unknown_nodes_are_counted():
    rows = "".join(f"{i},{i}\n" for i in range(2002))
    refused_tables("2,002 different labels; at most 1,000", f"id,role\n{rows}")
    rows = "".join(f"{i},c{i % 20}\n" for i in range(22))
    refused_tables("18 labels occur once only: 'c2', 'c3', 'c4' and 15 more", f"id,role\n{rows}")
    refused_tables(
        "edges.csv: 3 edges end at 4 nodes that are not in the node table: 'p', 'r', 'q' and 1",
        edges=EDGES + "p,q\nann,bob\nr,ann\np,s\n",
    )
    refused_tables(
        "1 edge ends at 2 nodes .*: 'from_whom', 'to_whom'.*first row is a header, call",
        edges="from_whom,to_whom\nann,bob\n",
    )
    refused_tables("3 ids occur .*'b', 'c' and|3 ids occur more than once: 'a', 'b', 'c'", IDS)


IDS = "id,role\na,x\na,x\nb,y\nb,y\nc,x\nc,x\n"


def test_a_split_decides_where_a_label_occurs_once():
    table = read("id,role,split\na,x,train\nb,y,train\nc,x,val\nd,y,test\n", "a,b\n")
    assert table.split.tolist() == [0, 0, 1, 2]
    refused_tables("one class", "id,role,split\na,x,train\nb,x,train\nc,y,val\n", "a,b\n")


def test_columns_are_dropped_and_dates_and_lists_refused_by_name():
    assert read(drop="team").features.column_names == ["age"]
    table = read(drop=["team", "age"])
    assert (table.features, table.dropped) == (None, ("team", "age"))
    refused_tables("no column 'x' to drop; columns are 'id', 'age'", drop=["x"])
    refused_tables("'role' is asked for and dropped", drop=["role"])
    refused_tables("there is no column 'id'", drop=["id"])
    dates = pa.array([0, 1, 2, 3], pa.timestamp("ms"))
    columns = {"id": [0, 1, 2, 3], "label": [0, 0, 1, 1], "when": dates, "list": [[1]] * 4}
    write(edges__csv="0,1\n", n__parquet=parquet(**columns))
    refused_nodes(
        r"n.parquet: column 'when' holds timestamp\[ms\], .*--drop", "edges.csv", "n.parquet"
    )
    refused_nodes("column 'list' holds list", "edges.csv", "n.parquet", drop="when")
    assert read_nodes("edges.csv", "n.parquet", drop=["when", "list"]).features is None
    write(n__parquet=parquet(id=[0, 1, 2, 3], label=dates))
    refused_nodes("column 'label' holds timestamp", "edges.csv", "n.parquet")


def test_a_fitted_model_needs_no_labels_and_no_dropped_columns():
    options = {"label": "role", "fitted": True, "drop": ("team", "gone")}
    table = read("id,age\na,1\nb,2\n", "a,b\n", **options)
    assert (table.labels, table.features.column_names) == (None, ["age"])
    table = read("id,age,team,role\na,1,x,r\nb,2,x,\n", "a,b\n", **options)
    assert (table.labels.tolist(), table.features.column_names) == (["r", None], ["age"])


def test_missing_numbers_are_null_and_codes_stay_text():
    table = read("id,role,a,b,c\n1,x,1,01,NA\n2,x,NA,02,NA\n3,y,nan,03,b\n4,y,1e3,,b\n", "1,2\n")
    assert table.features.to_pydict() == {
        "a": [1.0, None, None, 1000.0],
        "b": ["01", "02", "03", None],
        "c": ["NA", "NA", "b", "b"],
    }


def test_a_dataset_by_its_name(tmp_path):
    table = read_nodes("minesweeper-generated:size=6,seed=1", split=2)
    assert (table.num_nodes, table.features.shape[1]) == (36, 7)
    assert set(table.split.tolist()) == {0, 1, 2}
    refused_nodes("neither a file nor a dataset", "minesweepr")


def test_edges_alone_are_not_enough():
    read()
    refused_nodes("edges.csv: these are edges alone; name the node table too", "edges.csv")
    refused_nodes("gone.csv: there is no such file", "edges.csv", "gone.csv")
    refused_nodes("gone.csv: there is no such file", "gone.csv", "nodes.csv", label="role")
    refused_nodes(
        "a.docx: files of this kind are not read", "edges.csv", "a.docx", **_made("a.docx")
    )
    refused_nodes("gone.graphml: there is no such file", "gone.graphml")


def _made(name: str) -> dict:
    Path(name).write_text("x")
    return {}


def test_large_tables_are_refused_before_they_are_held():
    bomb = gzip.compress(b"id,role\n" + b"a,b\n" * 500_000)
    write(**{"n__csv__gz": bomb, "edges__csv": EDGES})
    refused_nodes("n.csv.gz: it holds more than 0.001 GB", "edges.csv", "n.csv.gz", max_bytes=10**6)
    buffer = io.BytesIO()
    columns = {"id": pa.array(range(1000)), "t": pa.array(["x" * 10_000] * 1000)}
    pq.write_table(pa.table(columns), buffer)
    assert len(buffer.getvalue()) < 50_000
    write(n__parquet=buffer.getvalue())
    refused_nodes("n.parquet: it holds more than", "edges.csv", "n.parquet", max_bytes=10**6)


@given(
    ids=st.lists(
        st.one_of(st.integers(-(2**70), 2**70).map(str), st.text("ab0.1 -é", min_size=1)),
        min_size=4,
        max_size=8,
        unique_by=str.strip,
    ).filter(lambda ids: all(i.strip() for i in ids)),
    data=st.data(),
)
def test_any_ids_round_trip_and_join(ids, data, tmp_path_factory):
    """Text ids through Parquet: each comes back as it was, and edges find their ends."""
    folder = tmp_path_factory.mktemp("ids")
    place = st.integers(0, len(ids) - 1)
    chosen = data.draw(st.lists(st.tuples(place, place), min_size=1, max_size=6))
    nodes = parquet(id=ids, label=["a", "b"] * (len(ids) // 2) + ["a"] * (len(ids) % 2))
    edges = parquet(source=[ids[i] for i, _ in chosen], target=[ids[j] for _, j in chosen])
    (folder / "nodes.parquet").write_bytes(nodes)
    (folder / "edges.parquet").write_bytes(edges)
    if all(re.fullmatch(r"(0|-?[1-9][0-9]*)(\.0*)?", i.strip()) for i in ids):
        assume(len({int(float(i)) for i in ids}) == len(ids))  # 1 and 1.0 would be one node
    table = read_nodes(folder)
    assert [str(i) for i in table.ids] == ids
    dense = np.zeros((len(ids), len(ids)))
    for i, j in chosen:
        dense[i, j] = dense[j, i] = i != j
    assert (table.graph.adjacency().toarray() == dense).all()
