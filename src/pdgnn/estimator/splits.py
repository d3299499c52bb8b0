"""Which labelled nodes train, which choose, and which do neither.

Nodes that are held out estimate the score and take no part in anything else. Of the others, a split
is three masks: the nodes that train, those by whose score a network takes the best of its steps,
and those by whose score settings are compared. The last two are the same where they are many. Where
they are few, the best of many steps looks better on the nodes that chose it than it is; so one half
chooses the step and the other one judges, and the other way round.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pdgnn.errors import InputError

__all__ = ["FEW", "Round", "dealt", "rounds"]

FEW = 500
"""Labelled nodes below which repeated splits decide, and folds of all of them estimate."""
FOLDS = 5
HELD_OUT = 0.2
VALIDATION = 0.25  # of what is not held out
MANY = 1000
"""Validation nodes from which on they both choose the step and judge."""

Mask = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Round:
    """One choosing among all settings: S splits to choose by, and nodes that take no part in it.

    `masks` ``[S, 3, N]`` are the nodes that train, stop and judge, `held_out` ``[N]``.
    """

    masks: Mask
    held_out: Mask


def rounds(y: NDArray[np.int64], split: NDArray[np.int8] | None, seed: int) -> list[Round]:
    """The rounds of a fit; the model of the last one is kept, the held-out nodes of all estimate.

    With a `split` (0 training, 1 validation, 2 test, −1 none) there is one round; what it lacks is
    dealt from its training nodes. Without one, many labels are dealt 60/20/20; few labels are dealt
    into folds, each of which is held out once, and the last round holds out none.
    """
    found = [_given(y, split, seed)] if split is not None else _dealt_rounds(y, seed)
    if not all(one.masks.any(axis=2).all() for one in found):
        raise InputError(
            f"{(y >= 0).sum()} labelled nodes are too few to hold some out, to choose by some and "
            "to train on the rest; label more"
        )
    return found


def _dealt_rounds(y: NDArray[np.int64], seed: int) -> list[Round]:
    labelled = y >= 0
    if labelled.sum() >= FEW:
        held_out = _share(y, labelled, HELD_OUT, seed)
        rest = labelled & ~held_out
        val = _share(y, rest, VALIDATION, seed + 1)
        return [Round(_validated(y, rest & ~val, val, seed), held_out)]
    folds = dealt(y, labelled, _folds(y), seed)
    parts = [folds == k for k in range(int(folds.max()) + 1)]
    nested = [Round(_repeated(y, labelled & ~part, seed), part) for part in parts]
    return [*nested, Round(_repeated(y, labelled, seed), np.zeros_like(labelled))]


def dealt(y: NDArray[np.int64], nodes: Mask, parts: int, seed: int) -> NDArray[np.int64]:
    """A number in 0..parts−1 for each of `nodes`, −1 for others: class by class, in random order.

    Each class goes on where the one before has ended, so that parts are of nearly equal size.

    >>> dealt(np.array([0, 0, 0, 1, 1, 1]), np.arange(6) > 0, 2, seed=0).tolist().count(0)
    3
    """
    rng = np.random.default_rng([seed, parts])
    order = rng.permutation(np.flatnonzero(nodes))
    order = order[np.argsort(y[order], kind="stable")]
    found = np.full(len(y), -1)
    found[order] = np.arange(len(order)) % parts
    return found


def _folds(y: NDArray[np.int64]) -> int:
    """As many as the smallest class has nodes, at most :data:`FOLDS`."""
    smallest = int(np.bincount(y[y >= 0]).min())
    if smallest < 2:
        raise InputError(
            "a class has a single labelled node, which cannot both train and validate; label "
            "another one, or drop the class"
        )
    return min(FOLDS, smallest)


def _repeated(y: NDArray[np.int64], nodes: Mask, seed: int) -> Mask:
    """Splits in which every fold of `nodes` judges once, the one after it choosing the step."""
    sizes = np.bincount(y[nodes])
    parts = max(3, min(FOLDS, int(sizes[sizes > 0].min())))
    folds = dealt(y, nodes, parts, seed + 1)
    splits = []
    for k in range(parts):
        stop, judge = folds == (k + 1) % parts, folds == k
        splits.append(np.stack([nodes & ~stop & ~judge, stop, judge]))
    return np.stack(splits)


def _validated(y: NDArray[np.int64], train: Mask, val: Mask, seed: int) -> Mask:
    """One split, or two where there are few validation nodes."""
    if val.sum() >= MANY or val.sum() < 2:
        return np.stack([train, val, val])[None]
    half = dealt(y, val, 2, seed + 2)
    parts = [half == 0, half == 1]
    return np.stack([np.stack([train, parts[k], parts[1 - k]]) for k in range(2)])


def _share(y: NDArray[np.int64], nodes: Mask, share: float, seed: int) -> Mask:
    """About this share of each class among `nodes`."""
    parts = round(1 / share)
    return np.asarray(dealt(y, nodes, parts, seed) == 0)


def _given(y: NDArray[np.int64], split: NDArray[np.int8], seed: int) -> Round:
    labelled = y >= 0
    train, val, test = (labelled & (split == part) for part in range(3))
    if not train.any():
        raise InputError("the split has no labelled training nodes; mark some as train")
    if not test.any():
        test = _share(y, train, HELD_OUT, seed)
        train &= ~test
    if not val.any():
        val = _share(y, train, VALIDATION, seed + 1)
        train &= ~val
    if not (train.any() and val.any()):
        raise InputError("too few training nodes to hold some out; mark some as val and test")
    return Round(_validated(y, train, val, seed), test)
