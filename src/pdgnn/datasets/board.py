"""The minesweeper benchmark at any size: a game board as a graph, its mines to be found.

Nodes are the cells of an h × w board in row-major order, joined to their (up to) 8 neighbours. The
label says whether a cell is a mine. Each node has 7 binary features, exactly one of them 1: the
first says "unknown"; the others say that 0, 1, 2, 3, 4, or 5 and more neighbours are mines. A mine
shows its number as any other cell does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from pdgnn.datasets.options import dataset_name
from pdgnn.errors import InputError, check_number, check_whole

if TYPE_CHECKING:
    from torch_geometric.data import Data

__all__ = ["minesweeper", "parse_size"]

NAME = "minesweeper-generated"
NUM_FEATURES = 7
NUM_SPLITS = 10
# Row-major, so that the neighbours of a cell come out sorted.
STEPS = [(dr, dc) for dr in (-1, 0, 1) for dc in (-1, 0, 1) if (dr, dc) != (0, 0)]


def minesweeper(
    *,
    size: int | tuple[int, int] = 100,
    mine_share: float = 0.2,
    hidden_share: float = 0.5,
    seed: int = 0,
) -> Data:
    """A board of `size` × `size` cells (or ``(h, w)``) as the published graph has them.

    Exactly round(mine_share · N) cells are mines and round(hidden_share · N) are unknown, drawn
    from ``numpy.random.default_rng(seed)``. The ten splits are 50/25/25, in each class alike (a
    board with fewer than four mines has none in some part). The defaults give the published sizes:
    10,000 nodes, 39,402 edges, 7 features, 2 classes.

    >>> data = minesweeper(size=(3, 4), seed=1)
    >>> data.num_nodes, data.num_edges // 2, int(data.y.sum()), int(data.x[:, 0].sum())
    (12, 29, 2, 6)
    >>> data.name
    'minesweeper-generated:size=3x4,seed=1'
    """
    from torch_geometric.data import Data

    height, width = _checked_size(size)
    n = height * width
    num_mines = round(check_number("mine_share", mine_share, 0, 1) * n)
    if not 0 < num_mines < n:
        raise InputError(
            f"mine_share={mine_share} makes {num_mines} of {n} cells mines; "
            "there must be both mines and free cells, so change it or size"
        )
    num_hidden = round(check_number("hidden_share", hidden_share, 0, 1) * n)
    rng = np.random.default_rng(check_whole("seed", seed, 0))
    mines = rng.permutation(n) < num_mines  # [N]
    hidden = rng.permutation(n) < num_hidden  # [N]
    train, val, test = _stratified_splits(rng, mines)
    return Data(
        x=torch.from_numpy(_features(mines.reshape(height, width), hidden)),
        edge_index=torch.from_numpy(_grid_edges(height, width)),
        y=torch.from_numpy(mines.astype(np.int64)),
        train_mask=torch.from_numpy(train),
        val_mask=torch.from_numpy(val),
        test_mask=torch.from_numpy(test),
        name=_name(height, width, mine_share, hidden_share, seed),
        metric="roc_auc",
    )


def parse_size(text: str) -> int | tuple[int, int]:
    """Read ``"50"`` as 50 and ``"40x60"`` as (40, 60).

    >>> parse_size("50"), parse_size("40x60")
    (50, (40, 60))
    """
    if "x" not in text:
        return int(text)
    height, width = text.split("x")
    return int(height), int(width)


def _features(mines: NDArray[np.bool_], hidden: NDArray[np.bool_]) -> NDArray[np.float32]:
    """One-hot: column 0 for unknown, column 1 + k for k mines around, capped, ``[N, 7]``."""
    height, width = mines.shape
    padded = np.pad(mines, 1).astype(np.int64)
    around = sum(
        padded[1 + dr : 1 + dr + height, 1 + dc : 1 + dc + width] for dr, dc in STEPS
    )  # [h, w]
    shown = np.minimum(1 + np.ravel(around), NUM_FEATURES - 1)
    x = np.zeros((mines.size, NUM_FEATURES), dtype=np.float32)
    x[np.arange(mines.size), np.where(hidden, 0, shown)] = 1.0
    return x


def _grid_edges(height: int, width: int) -> NDArray[np.int64]:
    """Both directions of every edge of the board, sorted, ``[2, 2E]``."""
    step_row, step_col = np.array(STEPS).T  # [8]
    cell = np.arange(height * width)
    row, col = cell[:, None] // width + step_row, cell[:, None] % width + step_col  # [N, 8]
    inside = (row >= 0) & (row < height) & (col >= 0) & (col < width)
    source = np.repeat(cell, inside.sum(axis=1))
    return np.stack([source, (row * width + col)[inside]])


def _stratified_splits(
    rng: np.random.Generator, mines: NDArray[np.bool_]
) -> tuple[NDArray[np.bool_], NDArray[np.bool_], NDArray[np.bool_]]:
    """Train, val and test masks, each ``[N, 10]``: 50, 25 and 25 percent of either class."""
    part = np.empty((mines.size, NUM_SPLITS), dtype=np.int8)
    for split in range(NUM_SPLITS):
        for label in (False, True):
            nodes = rng.permutation(np.flatnonzero(mines == label))
            half, most = round(nodes.size * 0.5), round(nodes.size * 0.75)
            part[nodes[:half], split] = 0
            part[nodes[half:most], split] = 1
            part[nodes[most:], split] = 2
    return part == 0, part == 1, part == 2


def _name(height: int, width: int, mine_share: float, hidden_share: float, seed: int) -> str:
    """The name that loads this very board; what is left at its default is left out."""
    size = f"{height}" if height == width else f"{height}x{width}"
    said: dict[str, tuple[object, object]] = {
        "size": (size, "100"),
        "mine_share": (mine_share, 0.2),
        "hidden_share": (hidden_share, 0.5),
        "seed": (seed, 0),
    }
    return dataset_name(NAME, said)


def _checked_size(size: int | tuple[int, int]) -> tuple[int, int]:
    sides = size if isinstance(size, tuple) else (size, size)
    if len(sides) != 2:
        raise InputError(f"size must be one whole number or a pair (h, w) of them, not {size!r}")
    height, width = (check_whole("size", side) for side in sides)
    if height == width == 1:
        raise InputError("a board of a single cell has no edges; take a larger size")
    return height, width
