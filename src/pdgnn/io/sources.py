"""Opening what a user names: the path of a file, or a dataset."""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from pdgnn.datasets import REGISTRY, load
from pdgnn.errors import InputError
from pdgnn.graph import Graph
from pdgnn.io import READERS, read_graph_file
from pdgnn.io.npz import SPLITS

__all__ = ["PARTS", "Source", "is_dataset", "open_file", "open_source"]

PARTS = SPLITS


@dataclass
class Source:
    """A graph and what came with it; None is what did not.

    `features` ``[N, F]``, `labels` ``[N]`` with −1 for unlabelled, and `masks` with the keys of
    :data:`PARTS`, each ``[S, N]`` for S splits.
    """

    name: str
    graph: Graph
    features: NDArray[np.float32] | None = None
    labels: NDArray[np.int64] | None = None
    masks: dict[str, NDArray[np.bool_]] | None = None


def open_source(
    text: str, root: str | PathLike[str] | None = None, *, max_bytes: int | None = None
) -> Source:
    """The dataset called `text`, options and all, or else the graph in the file `text`.

    `root` is the folder of the datasets, as in :func:`pdgnn.datasets.load`. `max_bytes` is the
    most that a file may unpack to, as in :func:`pdgnn.io.read_graph_file`.

    >>> board = open_source("minesweeper-generated:size=5,seed=3")
    >>> board.graph, board.features.shape, board.masks["val"].shape
    (Graph(num_nodes=25, num_edges=72), (25, 7), (10, 25))
    """
    if is_dataset(text):
        return _from_data(load(text, root))
    if not Path(text).exists() and not text.lower().endswith(tuple(READERS)):
        raise InputError(
            f"{text!r} is neither a file nor a dataset; datasets are {', '.join(REGISTRY)}"
        )
    return open_file(text, max_bytes=max_bytes)


def is_dataset(text: str) -> bool:
    """Whether `text` names a dataset, options aside; a file of that name is ``./name``."""
    return text.partition(":")[0].strip().lower().replace("_", "-") in REGISTRY


def open_file(path: str | PathLike[str], *, max_bytes: int | None = None) -> Source:
    """The graph in a file of any kind that :meth:`pdgnn.Graph.load` reads, with its labels."""
    raw = read_graph_file(path, max_bytes=max_bytes)
    return Source(Path(path).name, Graph.from_raw(raw), raw.features, raw.labels, raw.masks)


def _from_data(data: Any) -> Source:
    masks = {part: _as_array(data[f"{part}_mask"]).T for part in PARTS}  # [S, N]
    g = Graph.from_data(data)
    return Source(data.name, g, _as_array(data.x), _as_array(data.y), masks)


def _as_array(values: Tensor) -> NDArray[Any]:
    array: NDArray[Any] = values.numpy()
    return array
