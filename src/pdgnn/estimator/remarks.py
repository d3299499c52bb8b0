"""Sentences on the data of a fit that a user should read: what is odd, and what to do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pdgnn.estimator.columns import CategoryColumn, ColumnEncoder
from pdgnn.graph import Graph
from pdgnn.io.kinds import MISSING, among_numbers, shown

__all__ = ["data_remarks"]

IMBALANCE = 10
"""How many times larger than the smallest the largest class is before it is worth a remark."""
SHORTEST = 10
"""Categories from which on they are worth one where they are nearly all numbers."""


def data_remarks(
    graph: Graph,
    encoder: ColumnEncoder | None,
    classes: Sequence[Any],
    counts: NDArray[np.int64],
    *,
    weighted: bool,
) -> list[str]:
    """On the features, the edges, and the labels.

    `encoder` is that of the feature columns, None where there are none; `counts` ``[C]`` are the
    labelled nodes of each class; `weighted` says that classes are weighted already.

    >>> pair = Graph.from_edge_index([[0], [1]])
    >>> data_remarks(pair, None, ["a", "NA"], np.array([1, 1]), weighted=False)[1]
    "1 node has the label 'NA', which counts as a class: leave unknown labels empty."
    """
    found = []
    if encoder is None:
        found.append(
            "The nodes have no features: their degree and the first eigenvectors are used."
        )
    else:
        found += [
            f"Column {shown([name])} is taken for categories, as it holds {shown(odd, 1)} beside "
            "numbers: empty such values to have numbers."
            for name, odd in _almost_numbers(encoder)
        ]
    if not graph.num_edges:
        found.append("There are no edges: nodes are classified by their features alone.")
    for label, count in zip(classes, counts.tolist(), strict=True):
        if label in (*MISSING, "?") or (label == -1 and len(classes) > 2):
            nodes = "1 node has" if count == 1 else f"{count:,} nodes have"
            found.append(
                f"{nodes} the label {shown([label])}, which counts as a class: "
                "leave unknown labels empty."
            )
    if counts.max() > IMBALANCE * counts.min() and not weighted:
        few, many = (classes[int(i)] for i in (counts.argmin(), counts.argmax()))
        found.append(
            f"Classes are unbalanced: {counts.max():,} nodes are {many!s} and "
            f"{counts.min():,} {few!s}; class_weight='balanced' makes them count the same."
        )
    return found


def _almost_numbers(encoder: ColumnEncoder) -> Iterator[tuple[str, list[str]]]:
    """Columns of categories that hold mostly numbers, and the values that are none."""
    for column in encoder.columns:
        categories = column.categories if isinstance(column, CategoryColumn) else ()
        if len(categories) >= SHORTEST and (odd := among_numbers(categories)):
            yield column.name, odd
