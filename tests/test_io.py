"""From a file of any kind to a graph."""

from __future__ import annotations

import gzip
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from filing import graphml, npz, parquet
from pdgnn import Graph, InputError
from pdgnn.io import read_graph_file


def test_a_missing_file_and_a_folder_are_refused(tmp_path):
    with pytest.raises(InputError, match=r"gone\.csv: there is no such file"):
        read_graph_file(tmp_path / "gone.csv")
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(InputError, match=r"folder\.csv: this is a folder; name one file in it"):
        read_graph_file(str(tmp_path / "folder.csv"))


def test_a_file_that_cannot_be_opened_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "a.csv"
    path.write_text("0,1\n")

    def denied(self):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "read_bytes", denied)
    with pytest.raises(InputError, match=r"a\.csv: cannot be read: Permission denied"):
        read_graph_file(path)


WHOLE = {
    ".csv": b"source,target,weight\n0,1,0.5\n1,2,3\n",
    ".txt.gz": gzip.compress(b"# names\nann bob 2\nbob cid 1\n", mtime=0),
    ".npz": npz(edges=np.array([[0, 1], [1, 2]]), edge_weight=np.array([2.0, 1.0])),
    ".parquet": parquet(u=[0, 1], v=[1, 2], w=[2, 1]),
    ".graphml": graphml(nx.Graph([("0", "1", {"weight": 2}), ("1", "2", {"weight": 1})])),
}


@st.composite
def damaged_files(draw):
    """The suffix and the bytes of a good file, cut somewhere or with a few bytes changed."""
    suffix = draw(st.sampled_from(sorted(WHOLE)))
    content = bytearray(WHOLE[suffix])
    for place in draw(st.lists(st.integers(0, len(content) - 1), max_size=3)):
        content[place] = draw(st.integers(0, 255))
    return suffix, bytes(content[: draw(st.integers(0, len(content)))])


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=300)
@given(damaged_files() | st.tuples(st.sampled_from(sorted(WHOLE)), st.binary(max_size=99)))
def test_damaged_files_are_read_or_refused_but_never_crash(tmp_path, file):
    path = tmp_path / f"a{file[0]}"
    path.write_bytes(file[1])
    try:
        shape, said = read_graph_file(path).edge_index.shape, str(path)
    except InputError as e:
        shape, said = (2, 0), str(e)
    assert shape[0] == 2
    assert str(path) in said


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", b"0,1,2\n1,2,1\n"),
        ("a.txt.gz", gzip.compress(b"0 1 2\n1 2 1\n", mtime=0)),
        ("a.parquet", parquet(u=[0, 1], v=[1, 2], w=[2, 1])),
        ("a.npz", npz(edges=np.array([[0, 1], [1, 2]]), edge_weight=np.array([2.0, 1.0]))),
        ("a.graphml", graphml(nx.Graph([("0", "1", {"weight": 2}), ("1", "2", {"weight": 1})]))),
    ],
)
def test_the_same_graph_from_every_kind_of_file(tmp_path, name, content):
    path = tmp_path / name
    path.write_bytes(content)
    assert Graph.load(path) == Graph.from_edge_index([[0, 1], [1, 2]], 3, [2.0, 1.0])


def test_names_reach_the_graph(tmp_path):
    path = tmp_path / "a.tsv"
    path.write_text("bob\tann\nann\tcid\n")
    assert Graph.load(path).node_ids.tolist() == ["bob", "ann", "cid"]


@pytest.mark.parametrize(
    ("name", "nodes", "num_edges", "features"),
    [("minesweeper", 10_000, 39_402, 7), ("tolokers", 11_758, 519_000, 10)],
)
def test_the_real_archives(data_root, name, nodes, num_edges, features):
    path = data_root / name / "raw" / f"{name}.npz"
    if not path.exists():
        pytest.skip(f"{name} is not at hand")
    raw = read_graph_file(path)
    assert raw.edge_index.shape == (2, num_edges)
    assert raw.features.shape == (nodes, features)
    assert set(raw.labels.tolist()) == {0, 1}
    assert {split: mask.shape for split, mask in raw.masks.items()} == dict.fromkeys(
        ("train", "val", "test"), (10, nodes)
    )
    g = Graph.load(path)
    assert (g.num_nodes, g.num_edges) == (nodes, num_edges)
