"""Reading graphs from files, with nothing trusted: no pickle, no guess without a check."""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["RawGraph", "read_graph_file"]


@dataclass
class RawGraph:
    """What a file holds, before it is made undirected and simple."""

    edge_index: NDArray[np.int64]
    num_nodes: int | None = None
    edge_weight: NDArray[np.float64] | None = None
    node_ids: NDArray[Any] | None = None
    features: NDArray[np.float32] | None = None
    labels: NDArray[np.int64] | None = None
    masks: dict[str, NDArray[np.bool_]] | None = None


def read_graph_file(path: str | PathLike[str]) -> RawGraph:
    """Read any supported file."""
    raise NotImplementedError
