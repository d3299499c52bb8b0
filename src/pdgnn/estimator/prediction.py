"""Which nodes a fitted classifier is asked about, and what it says of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pdgnn.errors import InputError
from pdgnn.io.node_table import NodeTable

if TYPE_CHECKING:
    from pdgnn.estimator.classifier import PDClassifier

__all__ = ["predicted_nodes"]


def predicted_nodes(
    classifier: PDClassifier, table: NodeTable | None = None, *, everyone: bool = False
) -> tuple[NDArray[Any], list[Any], NDArray[Any], list[Any]]:
    """Ids ``[M]``, predicted labels ``[M]``, probabilities ``[M, C]`` and the C classes.

    The nodes are all of `table`, or of the fitted graph those without a label, or all if
    `everyone`.
    """
    if table is not None:
        ids, proba = table.ids, classifier.predict_proba(table)
    else:
        chosen = np.full(len(classifier.ids_), True) if everyone else classifier.y_ < 0
        if not chosen.any():
            raise InputError(
                "every node of the fitted graph has a label; --all predicts these too, and "
                "--edges and --nodes another graph"
            )
        ids, proba = classifier.ids_[chosen], classifier.predict_proba()[chosen]
    classes = classifier.classes_.tolist()
    return ids, [classes[i] for i in proba.argmax(axis=1)], proba, classes
