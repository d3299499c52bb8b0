"""The graph that every reader returns, and checks that readers share."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pdgnn.errors import InputError, check_whole

__all__ = [
    "NODE_BYTES",
    "RawGraph",
    "brief",
    "check_size",
    "checked_max_bytes",
    "checked_weights",
    "largest_id_allowed",
    "naming",
]

NODE_BYTES = 16  # what a node without edges counts: its row of the matrix, and its degree or number


@dataclass
class RawGraph:
    """What a file holds, before it is made undirected and simple.

    `edge_index` ``[2, E]``, `edge_weight` ``[E]``, `node_ids` ``[N]`` (the names, where the nodes
    were numbered here), `features` ``[N, F]``, `labels` ``[N]``, and `masks` with the keys
    "train", "val" and "test", each ``[S, N]`` for S splits. None is what the file does not hold.
    """

    edge_index: NDArray[np.int64]
    num_nodes: int
    edge_weight: NDArray[np.float64] | None = None
    node_ids: NDArray[Any] | None = None
    features: NDArray[np.float32] | None = None
    labels: NDArray[np.int64] | None = None
    masks: dict[str, NDArray[np.bool_]] | None = None


def brief(error: Exception | str) -> str:
    """The first line of a text or of another library's error, short enough for a sentence.

    >>> brief(ValueError("no magic\\nsome more"))
    'no magic'
    """
    return str(error).partition("\n")[0][:80]


@contextmanager
def naming(file: object) -> Iterator[None]:
    """Put the name of a file before what is wrong with it, in one line whatever names it quotes."""
    try:
        yield
    except InputError as e:
        raise InputError(f"{file}: {' '.join(str(e).splitlines())}") from e
    except OSError as e:
        raise InputError(f"{file}: cannot be read: {e.strerror or e}") from e


def checked_max_bytes(max_bytes: int | None) -> int:
    """What a file may unpack to: by default 8 GB, or an eighth of the memory where that is less.

    An eighth, since reading a file and building its graph takes about seven times as much for a
    while.
    """
    if max_bytes is not None:
        return check_whole("max_bytes", max_bytes)
    try:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):  # a system that does not say
        return 8 * 10**9
    return min(8 * 10**9, memory // 8)


def check_size(size: int, max_bytes: int) -> None:
    """An error if more than `max_bytes` would have to be held."""
    if size > max_bytes:
        raise InputError(
            f"it holds more than {max_bytes / 1e9:.3g} GB when unpacked, and was not read; "
            "if it is to be trusted, raise max_bytes (--max-gb)"
        )


def largest_id_allowed(num_edges: int) -> int:
    """The largest id that is taken for a place in 0..N−1; beyond it, ids are too sparse to be one.

    >>> largest_id_allowed(3), largest_id_allowed(5_000_000)
    (100000, 50000000)
    """
    return max(100_000, 10 * num_edges)


def checked_weights(
    weights: NDArray[np.float64], where: Callable[[int], str] = lambda i: f"in row {i + 1}"
) -> NDArray[np.float64]:
    """`weights` themselves if they are 0 or from 1e-100 to 1e100; `where` names a bad one.

    >>> checked_weights(np.array([0.5, 2.0])).tolist()
    [0.5, 2.0]
    """
    wrong = ~(np.isfinite(weights) & (weights >= 0))
    if wrong.any():
        row = int(wrong.argmax())
        raise InputError(
            f"the weight {where(row)} is {weights[row]}; "
            "weights must be finite and not negative, so drop or mend such edges"
        )
    if weights.max(initial=1.0) > 1e100 or weights.min(initial=1.0, where=weights > 0) < 1e-100:
        raise InputError("the weights go beyond 1e-100 to 1e100; rescale them")
    return weights
