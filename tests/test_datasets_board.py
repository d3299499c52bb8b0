from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st

from pdgnn import Graph, datasets, homophily
from pdgnn.datasets import minesweeper
from pdgnn.datasets.board import _features
from pdgnn.errors import InputError


def mines_around(y: torch.Tensor, edge_index: torch.Tensor) -> torch.Tensor:
    return torch.zeros_like(y).index_add(0, edge_index[1], y[edge_index[0]])


def expected_features(data) -> torch.Tensor:
    """The encoding from labels and edges alone; which nodes are unknown is taken from column 0."""
    column = 1 + mines_around(data.y, data.edge_index).clamp(max=5)
    column[data.x[:, 0] == 1] = 0
    return torch.nn.functional.one_hot(column, 7).float()


def test_features_by_hand():
    mines = np.array([[1, 1, 1], [1, 0, 1], [0, 0, 0]], dtype=bool)
    hidden = np.array([0, 0, 0, 0, 0, 0, 1, 0, 0], dtype=bool)
    column = _features(mines, hidden).argmax(1).reshape(3, 3).tolist()
    # Numbers around: 2 4 2 / 2 5 2 / 1 2 1; the corner below left is unknown.
    assert column == [[3, 5, 3], [3, 6, 3], [0, 3, 2]]


def test_six_seven_and_eight_mines_look_like_five():
    for count in (5, 6, 7, 8):
        mines = np.zeros(9, dtype=bool)
        mines[[i for i in range(9) if i != 4][:count]] = True
        shown = _features(mines.reshape(3, 3), np.zeros(9, dtype=bool))
        assert shown[4].tolist() == [0, 0, 0, 0, 0, 0, 1]


def test_edges_of_a_small_board():
    data = minesweeper(size=(2, 3))
    # 0 1 2
    # 3 4 5
    assert data.edge_index[1, data.edge_index[0] == 1].tolist() == [0, 2, 3, 4, 5]
    assert data.edge_index[1, data.edge_index[0] == 3].tolist() == [0, 1, 4]
    assert data.num_edges == 2 * 11


@given(st.integers(1, 9), st.integers(1, 9), st.integers(0, 2**63), st.floats(0, 1))
def test_any_board(height, width, seed, hidden_share):
    n = height * width
    assume(n >= 3)  # fewer cells have no mine
    data = minesweeper(size=(height, width), seed=seed, hidden_share=hidden_share)
    row, col = np.divmod(np.arange(n), width)
    steps = np.maximum(abs(row[:, None] - row), abs(col[:, None] - col))
    g = Graph.from_edge_index(data.edge_index, n)
    assert np.array_equal(g.adjacency().toarray(), steps == 1)
    assert torch.equal(data.edge_index, g.edge_index)
    assert int(data.y.sum()) == round(0.2 * n)
    assert int(data.x[:, 0].sum()) == round(hidden_share * n)
    assert torch.equal(data.x, expected_features(data))
    parts = data.train_mask.int() + data.val_mask.int() + data.test_mask.int()
    assert parts.shape == (n, 10)
    assert (parts == 1).all()


def test_the_real_board_has_this_encoding(data_root):
    real, made = datasets.load("minesweeper", data_root), minesweeper()
    assert torch.equal(real.edge_index, made.edge_index)
    assert torch.equal(real.x, expected_features(real))
    assert torch.equal(made.x, expected_features(made))
    for key in ("x", "y", "edge_index", "train_mask", "val_mask", "test_mask"):
        assert (real[key].shape, real[key].dtype) == (made[key].shape, made[key].dtype)
    assert (made.name, made.metric) == ("minesweeper-generated", real.metric)


def test_the_real_board_has_these_shares(data_root):
    for data in (datasets.load("minesweeper", data_root), minesweeper()):
        mine, hidden = data.y == 1, data.x[:, 0] == 1
        assert (int(mine.sum()), int(hidden.sum())) == (2000, 5000)
        assert data.train_mask[mine].sum(0).tolist() == [1000] * 10
        assert data.val_mask[mine].sum(0).tolist() == [500] * 10
        assert data.test_mask[mine].sum(0).tolist() == [500] * 10
        assert data.train_mask.sum(0).tolist() == [5000] * 10
        assert data.val_mask.sum(0).tolist() == [2500] * 10


def test_numbers_are_distributed_as_on_the_real_board(data_root):
    real = datasets.load("minesweeper", data_root).x.mean(0)
    for seed in range(3):
        # 5,000 draws: a share of about 0.2 has a standard deviation of about 0.004.
        assert torch.allclose(minesweeper(seed=seed).x.mean(0), real, atol=0.015)


def test_homophily_is_near_the_published_values():
    published = {"node": 0.68, "edge": 0.68, "class": 0.01, "aggregation": 0.61}
    published |= {"adjusted": 0.01, "label_informativeness": 0.0}
    for seed in range(3):
        data = minesweeper(seed=seed)
        measured = homophily.measures(Graph.from_data(data), data.y)
        assert measured == pytest.approx(published, abs=0.02)


def test_the_default_has_the_statistics_of_the_registry():
    data, info = minesweeper(), datasets.REGISTRY["minesweeper-generated"]
    assert (info.nodes, info.edges, info.features, info.classes) == (10000, 39402, 7, 2)
    assert (data.num_nodes, data.num_edges // 2) == (info.nodes, info.edges)
    assert (data.num_features, int(data.y.max()) + 1) == (info.features, info.classes)
    assert data.metric == info.metric


def test_a_seed_is_a_board():
    first, again, other = minesweeper(seed=7), minesweeper(seed=7), minesweeper(seed=8)
    for key in ("x", "y", "train_mask", "val_mask", "test_mask"):
        assert torch.equal(first[key], again[key])
        assert not torch.equal(first[key], other[key])
    # Splits differ from one another too.
    assert len({tuple(column.tolist()) for column in first.train_mask.T}) == 10


def test_a_board_stays_the_same_from_release_to_release():
    assert minesweeper(size=5, seed=0).y.nonzero().flatten().tolist() == [1, 5, 10, 13, 23]


def test_shares_are_taken_at_their_word():
    data = minesweeper(size=20, mine_share=0.1, hidden_share=0.0)
    assert (int(data.y.sum()), int(data.x[:, 0].sum())) == (40, 0)
    assert int(minesweeper(size=20, hidden_share=1).x[:, 0].sum()) == 400


def test_options_in_the_name():
    loaded = datasets.load("minesweeper-generated:size=50,seed=3")
    made = minesweeper(size=50, seed=3)
    assert torch.equal(loaded.x, made.x)
    assert loaded.num_nodes == 2500
    said = "minesweeper-generated:size=4x6,mine_share=0.25,hidden_share=0.1,seed=9"
    board = datasets.load(said)
    assert board.name == said
    assert (board.num_nodes, int(board.y.sum())) == (24, 6)
    assert datasets.load("minesweeper-generated: size = 30").name == "minesweeper-generated:size=30"
    assert datasets.load("minesweeper-generated").name == "minesweeper-generated"


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ("sise=5", "has no option 'sise'; it takes size, mine_share, hidden_share, seed"),
        ("size=big", "cannot read size='big'; give a number"),
        ("size=3x4x5", "cannot read size='3x4x5'"),
        ("seed", "cannot read seed=''"),
        ("seed=1,seed=2", "given seed twice"),
        ("size=0", "size must be a whole number of at least 1, not 0"),
        ("mine_share=2", r"mine_share must be a number in \[0, 1\], not 2.0"),
    ],
)
def test_options_that_cannot_be_read(said, message):
    with pytest.raises(InputError, match=message):
        datasets.load(f"minesweeper-generated:{said}")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"size": 0}, "size must be a whole number of at least 1, not 0"),
        ({"size": 2.5}, "not 2.5"),
        ({"size": True}, "not True"),
        ({"size": (3, 4, 5)}, r"not \(3, 4, 5\)"),
        ({"size": (3, -1)}, "of at least 1, not -1"),
        ({"size": 1}, "a single cell has no edges"),
        ({"mine_share": -0.1}, "mine_share must be a number"),
        ({"mine_share": float("nan")}, "not nan"),
        ({"mine_share": "0.2"}, "not '0.2'"),
        ({"mine_share": 0.0}, "makes 0 of 10000 cells mines"),
        ({"mine_share": 1.0}, "makes 10000 of 10000 cells mines"),
        ({"size": 3, "mine_share": 0.01}, "change it or size"),
        ({"hidden_share": 1.5}, "hidden_share must be a number"),
        ({"seed": -1}, "seed must be a whole number of at least 0, not -1"),
        ({"seed": 1.0}, "not 1.0"),
    ],
)
def test_arguments_that_make_no_board(options, message):
    with pytest.raises(InputError, match=message):
        minesweeper(**options)
