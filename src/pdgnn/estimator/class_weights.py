"""What a node counts in training, by its class."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pdgnn.errors import InputError, check_number
from pdgnn.io.kinds import shown

__all__ = ["class_weights"]


def class_weights(
    given: Mapping[Any, float] | str | None, classes: Sequence[Any], train: NDArray[np.int64]
) -> NDArray[np.float64] | None:
    """The weight of a node of each class, ``[C]``; None where all count the same.

    Args:
        given: Weights by class, 1 where a class is not named; or ``"balanced"``, which is
            n / (C · n_c) for n training nodes, n_c of them of the class.
        classes: The names of the C classes.
        train: The classes of the training nodes, 0 to C − 1, ``[n]``.

    >>> class_weights("balanced", ["a", "b"], np.array([0, 0, 0, 1])).round(2).tolist()
    [0.67, 2.0]
    >>> class_weights({"b": 3}, ["a", "b"], np.array([0, 1])).tolist()
    [1.0, 3.0]
    """
    if given is None:
        return None
    if isinstance(given, Mapping):
        if new := set(given) - set(classes):
            raise InputError(
                f"class_weight names {shown(sorted(new, key=str))}, and the classes are "
                f"{shown(classes, 8)}; name these alone"
            )
        found = [check_number("class_weight", given.get(c, 1)) for c in classes]
        if not any(found):
            raise InputError("class_weight is 0 for every class; let at least one count")
        return np.array(found, dtype=np.float64)
    if given != "balanced":
        raise InputError(f"class_weight is 'balanced' or a dict, not {given!r}")
    counts = np.bincount(train, minlength=len(classes))
    return len(train) / (len(counts) * np.maximum(counts, 1))
