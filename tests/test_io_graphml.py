"""GraphML, read and refused."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

from filing import HTML, PNG, edges, graphml, named_edges, read, refused


def test_graphml_keeps_names_weights_and_isolated_nodes(tmp_path):
    graph = nx.Graph()
    graph.add_nodes_from(["zoe", "ann", "bob"])
    graph.add_edge("ann", "bob", weight=2.5)
    graph.add_edge("zoe", "bob")
    graph.add_node("far")
    raw = read(tmp_path, "a.graphml", graphml(graph))
    assert raw.node_ids.tolist() == ["zoe", "ann", "bob", "far"]
    assert raw.num_nodes == 4
    found = {frozenset(e): w for e, w in zip(named_edges(raw), raw.edge_weight, strict=True)}
    assert found == {frozenset({"ann", "bob"}): 2.5, frozenset({"zoe", "bob"}): 1.0}


def test_a_graphml_weight_without_a_declared_type_is_a_number_all_the_same(tmp_path):
    content = graphml(nx.Graph([("a", "b", {"weight": 2.5})])).replace(b' attr.type="double"', b"")
    assert b"attr.type" not in content
    assert read(tmp_path, "a.graphml", content).edge_weight.tolist() == [2.5]


@pytest.mark.parametrize("kind", [nx.DiGraph, nx.MultiGraph, nx.MultiDiGraph])
def test_graphml_of_every_kind_and_without_weights(tmp_path, kind):
    graph = kind([("a", "b"), ("a", "b"), ("b", "a")])
    raw = read(tmp_path, "a.graphml", graphml(graph))
    assert raw.edge_weight is None
    assert len(edges(raw)) == graph.number_of_edges()
    assert {frozenset(e) for e in named_edges(raw)} == {frozenset({"a", "b"})}


def test_graphml_in_another_encoding(tmp_path):
    text = graphml(nx.Graph([("é", "b")])).decode()
    for encoding in ("utf-16", "latin-1"):
        header = f"<?xml version='1.0' encoding='{encoding}'?>"
        raw = read(tmp_path, "a.graphml", (header + text).encode(encoding))
        assert raw.node_ids.tolist() == ["é", "b"]


def test_a_default_weight_is_that_of_edges_without_one(tmp_path):
    key = '<key id="w" for="edge" attr.name="weight"><default>4</default></key>'
    content = EMPTY.replace("<graph ", f"{key}<graph ")
    content += (
        '<edge source="a" target="b"/><edge source="b" target="c"><data key="w">2</data></edge>'
    )
    assert read(tmp_path, "a.graphml", content + END).edge_weight.tolist() == [4.0, 2.0]


def test_nodes_that_only_edges_name_come_after_the_others(tmp_path):
    content = (
        EMPTY + '<node id="z"/><edge source="b" target="a"/><edge source="z" target="z"/>' + END
    )
    raw = read(tmp_path, "a.graphml", content)
    assert raw.node_ids.tolist() == ["z", "b", "a"]
    assert edges(raw) == [(1, 2), (0, 0)]


LAUGHS = """<?xml version="1.0"?>
<!DOCTYPE graphml [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">]>
<graphml xmlns="http://graphml.graphdrawing.org/xmlns"><graph><node id="&b;"/></graph></graphml>"""
EMPTY = '<graphml xmlns="http://graphml.graphdrawing.org/xmlns"><graph edgedefault="undirected">'
END = "</graph></graphml>"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "empty"),
        (LAUGHS, r"document type declaration \(DOCTYPE\)"),
        (LAUGHS.encode("utf-16"), "DOCTYPE"),
        (
            b"<?xml version='1.0' encoding='cp037'?>" + LAUGHS[21:].encode("cp037"),
            "unknown encoding",
        ),
        (
            "<?xml version='1.0' encoding='klingon'?><graphml/>",
            "its encoding is not read .*klingon",
        ),
        ("<?xml version='1.0' encoding='utf-7'?><graphml/>", "its encoding is not read .*UTF-8"),
        (EMPTY + "<node id='a'><graph/></node>" + END, "line 1 has a second graph, or one within"),
        (EMPTY + "<node id='a'/></graph>\n<graph/></graphml>", "line 2 has a second graph"),
        (EMPTY + "<node/>" + END, "line 1 has a node without its id"),
        (EMPTY + "</graph><key id='w' attr.name='weight'/></graphml>", "below the graph; move it"),
        (HTML, "DOCTYPE"),
        (PNG, "not a whole XML file"),
        ("0,1\n", "not a whole XML file"),
        (graphml(nx.path_graph(3))[:-20], "not a whole XML file: .* was it cut short"),
        ("<html><body/></html>", "this XML is not GraphML; it begins with 'html'"),
        (EMPTY + END, "no nodes in it"),
        (
            EMPTY + '<node id="a"/>\n<edge source="a"/>' + END,
            "line 2 has an edge without its target",
        ),
        (
            EMPTY + '<node id="a"><port name="p"/></node><hyperedge/>' + END,
            "line 1 has a port, which is not read",
        ),
        (graphml(nx.Graph([("a", "b", {"weight": "x"})])), "weight that is not a number, 'x'"),
        (graphml(nx.Graph([("a", "b", {"weight": -1.0})])), "weight of the edge a to b is -1.0"),
        (graphml(nx.Graph([("a", "b", {"weight": np.nan})])), "weight of the edge a to b is nan"),
    ],
)
def test_bad_graphml_is_refused(tmp_path, content, message):
    refused(tmp_path, "a.graphml", content, message)
