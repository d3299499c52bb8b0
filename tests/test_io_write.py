"""Files written whole or not at all, and graphs that read back as they were."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pdgnn import Graph, InputError, rewire
from pdgnn.io import read_graph_file
from pdgnn.io.sources import Source
from pdgnn.io.write import GRAPH_SUFFIXES, WRITERS, check_output, write_graph
from strategies import graphs

EDGE_LISTS = (".csv", ".tsv", ".parquet")
PATH = Graph.from_edge_index([[0, 1, 2], [1, 2, 3]])


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def named(names: list[str]) -> Graph:
    """A path through nodes of these names."""
    n = np.arange(len(names) - 1)
    return Graph.from_edge_index([n, n + 1], node_ids=np.array(names, dtype=object))


def test_the_suffixes_are_those_promised():
    assert GRAPH_SUFFIXES == (".csv", ".tsv", ".parquet", ".npz", ".graphml")


def test_a_csv_has_each_edge_once(tmp_path):
    write_graph(Source("path", rewire(PATH)), tmp_path / "a.csv")
    assert (tmp_path / "a.csv").read_text() == "source,target\n0,1\n1,2\n0,2\n2,3\n0,3\n"
    g = Graph.from_edge_index([[0, 1], [1, 2]], 3, [0.1, 2.0], node_ids=["a", 'b "x"', "#c"])
    write_graph(Source("named", g), tmp_path / "b.tsv")
    assert (tmp_path / "b.tsv").read_text() == (
        'source\ttarget\tweight\n"a"\t"b ""x"""\t0.1\n"b ""x"""\t"#c"\t2\n'
    )


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(graphs(), st.sampled_from(GRAPH_SUFFIXES))
def test_a_rewired_graph_reads_back_equal_or_is_refused(tmp_path, g, suffix):
    g = rewire(g)
    path = tmp_path / f"a{suffix}"
    # an edge list ends at the last node that has an edge
    whole = suffix not in EDGE_LISTS or g.degree[-1] > 0
    if whole:
        write_graph(Source("a", g), path, force=True)
        assert Graph.load(path) == g
    else:
        with pytest.raises(InputError, match="cannot hold this graph"):
            write_graph(Source("a", g), path, force=True)
    assert [name for name in names_in(tmp_path) if name.startswith(".")] == []


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7)), min_size=1, max_size=12),
    st.booleans(),
    st.sampled_from(GRAPH_SUFFIXES),
)
def test_names_read_back_with_their_nodes(tmp_path, edges, weighted, suffix):
    """From an edge list of names to a rewired file, and back: same names, numbers and edges."""
    edges = [(i, j) for i, j in edges if i != j] or [(0, 1)]
    rows = "".join(f"n{i},n{j}{f',{1 + i + j / 10}' * weighted}\n" for i, j in edges)
    (tmp_path / "in.csv").write_text(rows)
    g = rewire(Graph.load(tmp_path / "in.csv"))
    write_graph(Source("a", g), tmp_path / f"a{suffix}", force=True)
    back = Graph.load(tmp_path / f"a{suffix}")
    assert back == g
    if suffix != ".npz":
        assert back.node_ids.tolist() == g.node_ids.tolist()


ODD_NAMES = [
    ["a,b", 'say "x"', "tab\there", "é漢"],
    ["#tag", "%x", "# a", "'"],
    ["-1", "x", "007", "1e3"],
    ["NA", "null", "nan", "None"],
    ["<a&b>", "]]>", "&amp;", "[bold]"],
]


@pytest.mark.parametrize("suffix", GRAPH_SUFFIXES)
@pytest.mark.parametrize("names", ODD_NAMES)
def test_odd_names_read_back(tmp_path, names, suffix):
    g = named(names)
    write_graph(Source("odd", g), tmp_path / f"a{suffix}")
    back = Graph.load(tmp_path / f"a{suffix}")
    assert back == g
    if suffix != ".npz":
        assert back.node_ids.tolist() == names


@pytest.mark.parametrize(
    ("names", "suffix", "message"),
    [
        (["source", "x", "target"], ".csv", "its edges would be mixed up"),
        (["a", "b", ""], ".csv", "row 2 has no target"),
        ([" a", "b", "c"], ".csv", "its nodes would have other names"),
        (["5", "7", "9"], ".csv", "it would have 10 nodes instead of 3"),
        (["5", "7", "9"], ".parquet", "it would have 10 nodes instead of 3"),
        (["0", "2", "1"], ".csv", None),
        (["a\x01b", "b", "c"], ".graphml", "not a whole XML file"),
    ],
)
def test_names_that_a_file_cannot_hold_are_refused(tmp_path, names, suffix, message):
    path = tmp_path / f"a{suffix}"
    if message is None:  # numbered anew, but every name where it was
        write_graph(Source("a", named(names)), path)
        assert Graph.load(path) == Graph.from_edge_index([[0, 2], [2, 1]])
        return
    with pytest.raises(InputError, match="cannot hold this graph") as caught:
        write_graph(Source("a", named(names)), path)
    assert message in str(caught.value)
    assert str(caught.value).endswith("use .npz" if suffix == ".graphml" else ".graphml or .npz")
    assert ".pdgnn-" not in str(caught.value)
    assert names_in(tmp_path) == []


def test_nodes_without_edges_are_refused_in_an_edge_list_and_kept_elsewhere(tmp_path):
    g = Graph.from_edge_index([[0, 1], [1, 2]], num_nodes=5)
    with pytest.raises(InputError, match=r"3 nodes instead of 5\); use \.graphml or \.npz$"):
        write_graph(Source("a", g), tmp_path / "a.csv")
    for suffix in (".npz", ".graphml"):
        write_graph(Source("a", g), tmp_path / f"a{suffix}")
        assert Graph.load(tmp_path / f"a{suffix}") == g


def test_an_npz_keeps_features_labels_and_splits(tmp_path):
    masks = {part: np.eye(4, dtype=bool)[[i]] for i, part in enumerate(("train", "val", "test"))}
    features = np.arange(8, dtype=np.float32).reshape(4, 2) / 3
    source = Source("a", rewire(PATH), features, np.array([0, 1, -1, 1]), masks)
    write_graph(source, tmp_path / "a.npz")
    raw = read_graph_file(tmp_path / "a.npz")
    assert raw.edge_index.T.tolist() == [[0, 1], [1, 2], [0, 2], [2, 3], [0, 3]]
    assert (raw.features == features).all()
    assert raw.labels.tolist() == [0, 1, -1, 1]
    assert {part: mask.tolist() for part, mask in raw.masks.items()} == {
        part: mask.tolist() for part, mask in masks.items()
    }
    with np.load(tmp_path / "a.npz", allow_pickle=False) as arrays:
        assert "node_ids" not in arrays
    write_graph(Source("b", named(["x", "yy", "z"])), tmp_path / "b.npz")
    with np.load(tmp_path / "b.npz", allow_pickle=False) as arrays:
        assert arrays["node_ids"].tolist() == ["x", "yy", "z"]


def test_the_case_of_a_suffix_does_not_matter(tmp_path):
    for suffix in (".NPZ", ".Csv"):
        write_graph(Source("a", PATH), tmp_path / f"a{suffix}")
        assert Graph.load(tmp_path / f"a{suffix}") == PATH
    assert names_in(tmp_path) == ["a.Csv", "a.NPZ"]


def test_a_file_that_exists_needs_force(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("old")
    with pytest.raises(InputError, match=r"a\.csv: the file exists; .* --force"):
        write_graph(Source("a", PATH), path)
    assert path.read_text() == "old"
    write_graph(Source("a", PATH), path, force=True)
    assert Graph.load(path) == PATH


def test_bad_places_are_refused_before_any_work(tmp_path):
    (tmp_path / "file").write_text("")
    (tmp_path / "dir.csv").mkdir()
    for name, message in (
        ("a.xyz", r"a\.xyz: files of this kind are not written; use \.csv, \.tsv"),
        ("a", r"a: files of this kind are not written"),
        ("dir.csv", r"dir\.csv: this is a folder"),
        ("file/a.csv", r"file/a\.csv: cannot be written: .*file is a file, not a folder"),
    ):
        with pytest.raises(InputError, match=message):
            check_output(tmp_path / name, GRAPH_SUFFIXES)


def test_a_read_only_folder_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(InputError, match=r"a\.csv: cannot be written: its folder is read-only"):
        check_output(tmp_path / "a.csv", GRAPH_SUFFIXES)


def test_a_missing_folder_is_made(tmp_path):
    write_graph(Source("a", PATH), tmp_path / "x" / "y" / "a.csv")
    assert Graph.load(tmp_path / "x" / "y" / "a.csv") == PATH


@pytest.mark.parametrize("error", [RuntimeError("bug"), KeyboardInterrupt(), SystemExit(3)])
def test_whatever_goes_wrong_the_old_file_stays(tmp_path, monkeypatch, error):
    path = tmp_path / "a.csv"
    path.write_text("old")

    def half(_, file):
        file.write(b"source,tar")
        raise error

    monkeypatch.setitem(WRITERS, ".csv", half)
    with pytest.raises(type(error)):
        write_graph(Source("a", PATH), path, force=True)
    assert names_in(tmp_path) == ["a.csv"]
    assert path.read_text() == "old"


def test_a_full_disk_is_one_line(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setitem(WRITERS, ".csv", full)
    with pytest.raises(InputError, match=r"a\.csv: cannot be written: No space left on device$"):
        write_graph(Source("a", PATH), tmp_path / "a.csv")
    assert names_in(tmp_path) == []


def test_a_link_stays_a_link_and_rights_are_the_usual_ones(tmp_path):
    (tmp_path / "real.csv").write_text("old")
    (tmp_path / "link.csv").symlink_to("real.csv")
    write_graph(Source("a", PATH), tmp_path / "link.csv", force=True)
    assert (tmp_path / "link.csv").is_symlink()
    assert Graph.load(tmp_path / "real.csv") == PATH
    (tmp_path / "plain").write_text("")
    write_graph(Source("a", PATH), tmp_path / "a.csv")
    assert (tmp_path / "a.csv").stat().st_mode == (tmp_path / "plain").stat().st_mode
