"""Which nodes a fitted classifier is asked about, and what it says of them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pdgnn.errors import InputError
from pdgnn.io.node_table import NodeTable

__all__ = ["predicted_nodes"]


def predicted_nodes(
    classifier: Any, table: NodeTable | None = None, *, everyone: bool = False
) -> tuple[NDArray[Any], list[Any], NDArray[Any], list[Any]]:
    """Ids ``[M]``, predicted labels ``[M]``, probabilities ``[M, C]`` and the C classes.

    The nodes are all of `table`, or of the fitted graph those without a label, or all if
    `everyone`.
    """
    ids = classifier.ids_ if table is None else table.ids
    chosen = np.ones(len(ids), dtype=bool)
    if table is None and not everyone:
        chosen = classifier.y_ < 0
        if not chosen.any():
            raise InputError(
                "every node of the fitted graph has a label; --all predicts these too, and "
                "--edges and --nodes another graph"
            )
    proba = classifier.predict_proba(table)[chosen]  # [M, C]
    classes = np.asarray(classifier.classes_).tolist()
    return ids[chosen], [classes[i] for i in proba.argmax(axis=1)], proba, classes
