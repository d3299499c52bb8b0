"""What a user calls a graph: a dataset's name or a file."""

from __future__ import annotations

import numpy as np
import pytest

from filing import npz
from pdgnn import Graph, InputError
from pdgnn.io.sources import open_file, open_source


def test_a_generated_board_comes_with_everything():
    board = open_source("minesweeper-generated:size=4x5,seed=2")
    assert board.name == "minesweeper-generated:size=4x5,seed=2"
    assert (board.graph.num_nodes, board.graph.num_edges) == (20, 55)
    assert board.features.shape == (20, 7)
    assert board.labels.tolist().count(1) == 4
    assert {part: mask.shape for part, mask in board.masks.items()} == dict.fromkeys(
        ("train", "val", "test"), (10, 20)
    )
    assert (sum(board.masks.values()) == 1).all()


def test_an_archive_comes_with_its_labels(tmp_path):
    path = tmp_path / "a.npz"
    masks = {
        f"{part}_masks": np.eye(3, dtype=bool)[[i]]
        for i, part in enumerate(("train", "val", "test"))
    }
    path.write_bytes(npz(edges=np.array([[0, 1], [1, 2]]), node_labels=[0, 1, -1], **masks))
    source = open_source(str(path))
    assert source.name == "a.npz"
    assert source.graph == Graph.load(path)
    assert source.features is None
    assert source.labels.tolist() == [0, 1, -1]
    assert source.masks["val"].tolist() == [[False, True, False]]


def test_names_of_nodes_are_kept(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("bob,ann\nann,cid\n")
    assert open_file(path).graph.node_ids.tolist() == ["bob", "ann", "cid"]


def test_a_folder_called_like_a_dataset_does_not_hide_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "minesweeper-generated").mkdir()
    assert open_source("Minesweeper_Generated:size=3").graph.num_nodes == 9


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("gone.csv", r"^gone\.csv: there is no such file"),
        ("gone.NPZ", r"^gone\.NPZ: there is no such file"),
        ("gone", r"^'gone' is neither a file nor a dataset; datasets are cora, citeseer, .*"),
        ("", r"^.*this is a folder"),
        ("cora:size=3", r"^cora has no option 'size'"),
    ],
)
def test_what_cannot_be_opened_says_why(tmp_path, monkeypatch, text, message):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=message):
        open_source(text)


def test_a_dataset_is_read_from_the_root_given(data_root):
    source = open_source("minesweeper", data_root)
    assert (source.name, source.graph.num_edges) == ("minesweeper", 39_402)
    assert source.labels.sum() == 2000
