"""A graph and its nodes in one file: the benchmarks' archives and GraphML with attributes."""

from __future__ import annotations

import numpy as np
import pytest

from filing import npz, refused_nodes, write
from pdgnn.io.nodes import read_nodes


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def archive(**changes) -> bytes:
    masks = np.array([[1, 0, 0, 0], [0, 1, 0, 0]], dtype=bool)
    arrays = {
        "edges": np.array([[0, 1], [1, 2]]),
        "node_features": np.eye(4, 3),
        "node_labels": np.array([5, 7, 5, 7]),
        "train_masks": ~(masks | masks[:, ::-1]),
        "val_masks": masks,
        "test_masks": masks[:, ::-1],
    }
    return npz(**{k: v for k, v in (arrays | changes).items() if v is not None})


def test_the_benchmarks_archives():
    write(a__npz=archive(node_labels=np.array([5, 5, -1, 7])))
    table = read_nodes("a.npz", split=1)
    assert table.labels.tolist() == [5, 5, None, 7]
    assert table.split.tolist() == [0, 1, 2, 0]
    assert table.ids.tolist() == [0, 1, 2, 3]
    assert table.features.shape == (4, 3)
    write(a__npz=archive(node_ids=np.array(["a", "b", "c", "d"])))
    assert read_nodes("a.npz").ids.tolist() == ["a", "b", "c", "d"]
    assert read_nodes("a.npz").ids.dtype == object
    write(a__npz=archive(node_ids=np.array(["a", "b", "c", "a"])))
    refused_nodes("a.npz: 1 id occurs more than once: 'a'", "a.npz")
    write(a__npz=archive(node_ids=np.array([30, 10, 20, 2**62])))
    assert read_nodes("a.npz").ids.tolist() == [30, 10, 20, 2**62]
    refused_nodes("there is no split 2; splits are 0 to 1", "a.npz", split=2)
    refused_nodes("split must be a whole number", "a.npz", split=-1)
    refused_nodes("id and drop .* are for tables", "a.npz", drop=["x"])
    refused_nodes("leave label= ", "a.npz", label="x")
    write(a__npz=archive(val_masks=np.ones((2, 4), dtype=bool)))
    refused_nodes("a.npz: the parts of split 0 overlap: 3 nodes .* such as 1, 2, 3", "a.npz")
    write(a__npz=archive(node_labels=None))
    refused_nodes("a.npz: there are no labels in it; add node_labels", "a.npz")
    write(a__npz=archive(edges=np.zeros((0, 2), dtype=int)))
    refused_nodes("a.npz: there are no edges in it", "a.npz")


HEAD = '<graphml><key id="d0" for="node" attr.name="role"/><key id="d1" attr.name="size"/>'
GRAPHML = (
    f'{HEAD}<graph><node id="a"><data key="d0">x</data></node><node id="b"><data key="d0">x</data>'
    '<data key="d1">2</data></node><node id="c"><data key="d0">y</data></node>'
    '<node id="d"><data key="d0">y</data></node><edge source="a" target="b"/></graph></graphml>'
)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('<edge source="a" target="b"/>', "", "there are no edges"),
        ("<graph>", '<graph><key id="z" for="node"/>', "a key of nodes below the graph"),
        ('key="d1">2', 'key="d7">2', "a value whose key 'd7' is not declared"),
        ('key="d1">2', 'key="d0">2', "a second value of 'role' of one node"),
        ('attr.name="size"', 'attr.name="role"', "two attributes of nodes are called 'role'"),
        ('attr.name="role"', 'attr.name="part"', "there is no column 'role'; columns are 'part'"),
    ],
)
def test_bad_attributes_in_graphml(old, new, message):
    assert old in GRAPHML
    write(g__graphml=GRAPHML.replace(old, new))
    refused_nodes(message, "g.graphml", label="role")


def test_graphml_attributes_and_their_defaults():
    write(g__graphml=GRAPHML)
    table = read_nodes("g.graphml", label="role")
    assert table.features.to_pydict() == {"size": [None, 2.0, None, None]}
    default = '<key id="d1" attr.name="size"><default>7</default></key>'
    write(g__graphml=GRAPHML.replace('<key id="d1" attr.name="size"/>', default))
    assert read_nodes("g.graphml", label="role").features["size"].to_pylist() == [7, 2, 7, 7]
    refused_nodes("the ids are not a column here", "g.graphml", label="role", id="size")
    refused_nodes("g.graphml: it holds more than", "g.graphml", label="role", max_bytes=1000)
