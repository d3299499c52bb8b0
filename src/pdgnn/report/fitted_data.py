"""What the page of a fitted classifier says, as plain numbers, lists and dicts.

Pure functions of arrays. Probabilities and weights are whole numbers of thousandths or
ten-thousandths, no finer than is visible.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from pdgnn.report.escape import one_line

__all__ = [
    "calibration",
    "class_scores",
    "confusion",
    "held_out",
    "neighbour_lists",
    "node_data",
    "sample_nodes",
    "shortened",
    "similar_nodes",
]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

MOST_NODES = 3_000
LEAST_OF_CLASS = 20
MOST_NEIGHBOURS = 12
MOST_SIMILAR = 5
MOST_TEXT = 300_000
"""Characters of the ids of neighbours that are not of the sample themselves."""
MOST_CLASSES = 5
WIDEST = 128
"""Columns beyond which features are projected at random before they are compared."""
BINS = 10


def held_out(honest: Floats, y: Ints) -> NDArray[np.bool_]:
    """The labelled nodes whose label took no part in the probabilities of `honest`, ``[N]``."""
    return np.asarray((y >= 0) & np.isfinite(honest).all(axis=1))


def confusion(truth: Ints, guess: Ints, classes: int) -> Ints:
    """How many nodes of each class (rows) were predicted as each class (columns), ``[C, C]``.

    >>> confusion(np.array([0, 0, 1]), np.array([0, 1, 1]), 2).tolist()
    [[1, 1], [0, 1]]
    """
    counts = np.bincount(truth * classes + guess, minlength=classes * classes)
    return np.asarray(counts.reshape(classes, classes), dtype=np.int64)


def class_scores(matrix: Ints) -> dict[str, list[float]]:
    """Precision, recall, F1 and support of each class by its confusion matrix; 0/0 is 0.

    >>> scores = class_scores(np.array([[1, 1], [0, 1]]))
    >>> scores["precision"], scores["recall"], scores["support"]
    ([1.0, 0.5], [0.5, 1.0], [2, 1])
    """
    right, actual, guessed = np.diag(matrix), matrix.sum(axis=1), matrix.sum(axis=0)
    return {
        "precision": (right / np.maximum(guessed, 1)).tolist(),
        "recall": (right / np.maximum(actual, 1)).tolist(),
        "f1": (2 * right / np.maximum(actual + guessed, 1)).tolist(),
        "support": actual.tolist(),
    }


def calibration(proba: Floats, truth: Ints) -> dict[str, Any]:
    """How often predictions are right, by the probability that they come with.

    Ten bins of equal width by the probability p of the predicted class; `right` and `stated` are
    the share of right predictions and the mean p of each bin that has nodes. `error` is the mean
    over the nodes of \\|right − stated\\| (the expected calibration error).

    >>> found = calibration(np.array([[0.9, 0.1], [0.94, 0.06]]), np.array([0, 1]))
    >>> found["low"], found["count"], found["right"], round(found["error"], 2)
    ([0.9], [2], [0.5], 0.42)
    """
    p = proba.max(axis=1)
    hit = proba.argmax(axis=1) == truth
    place = np.minimum((p * BINS).astype(np.int64), BINS - 1)
    count = np.bincount(place, minlength=BINS)
    some = np.flatnonzero(count)
    right = np.bincount(place, weights=hit, minlength=BINS)[some] / count[some]
    stated = np.bincount(place, weights=p, minlength=BINS)[some] / count[some]
    return {
        "low": (some / BINS).tolist(),
        "count": count[some].tolist(),
        "right": right.tolist(),
        "stated": stated.tolist(),
        "error": float((np.abs(right - stated) * count[some]).sum() / max(count.sum(), 1)),
    }


def sample_nodes(y: Ints, pool: Ints, always: Ints, most: int = MOST_NODES) -> Ints:
    """At most `most` of `pool`, ascending: each class, and the unlabelled, in proportion.

    A class is meant to have at least 20 of its nodes, or all of them; where that is more than
    `most` in all, every class gives way in proportion. `always` are in the sample in any case.

    >>> sample_nodes(np.array([0] * 90 + [1] * 10), np.arange(100), np.array([7]), 10).size
    10
    """
    if pool.size <= most:
        return np.union1d(pool, always)
    rng = np.random.default_rng(0)
    shuffled = rng.permutation(pool)
    classes, place, sizes = np.unique(y[shuffled], return_inverse=True, return_counts=True)
    quota = np.maximum(np.floor(sizes * most / pool.size), np.minimum(sizes, LEAST_OF_CLASS))
    rank = np.empty(pool.size, dtype=np.int64)  # within its class
    for c in range(classes.size):
        rank[place == c] = np.arange(sizes[c])
    # those within their quota first, the most urgent (by their share of it) ahead
    order = shuffled[np.argsort(rank / quota[place], kind="stable")]
    rest = order[~np.isin(order, always)][: max(most - np.unique(always).size, 0)]
    return np.union1d(rest, always)


def neighbour_lists(
    weights: sp.csr_array, rewired: sp.csr_array, nodes: Ints, most: int = MOST_NEIGHBOURS
) -> dict[str, list[Any]]:
    """For each of `nodes`, the neighbours that its row of `weights` gives the most to.

    A weight is its share of the row, in ten-thousandths, the node's own included. `rewired` has an
    entry where an edge was added. Lists of node, share, node, share, ...; the node of a rewired
    edge is written as −1 − node. `own` is the node's own share, `over` the share of the neighbours'
    weight that came over rewired edges (None where neighbours have none).
    """
    near, own, over = [], [], []
    for i in nodes.tolist():
        begin, end = weights.indptr[i], weights.indptr[i + 1]
        cols, values = weights.indices[begin:end], weights.data[begin:end]
        total = float(values.sum()) or 1.0
        others = cols != i
        own.append(round(10_000 * float(values[~others].sum() / total)))
        cols, values = cols[others], values[others]
        new = np.isin(cols, rewired.indices[rewired.indptr[i] : rewired.indptr[i + 1]])
        outside = float(values.sum())
        over.append(round(1000 * float(values[new].sum() / outside)) if outside > 0 else None)
        best = np.lexsort((cols, -values))[:most]
        named = np.where(new, -1 - cols, cols)[best]
        shares = np.rint(10_000 * values[best] / total).astype(np.int64)
        near.append(np.stack([named, shares], axis=1).ravel().tolist())
    return {"near": near, "own": own, "over": over}


def shortened(
    near: list[list[int]], ids: NDArray[Any], nodes: Ints, most: int = MOST_TEXT
) -> list[list[int]]:
    """`near` cut to 8, 5, 3 or no neighbours each, until their ids take at most `most` characters.

    The ids of `nodes` do not count: they are on the page anyway.
    """
    known = set(nodes.tolist())
    for length in (MOST_NEIGHBOURS, 8, 5, 3, 0):
        cut = [row[: 2 * length] for row in near]
        named = {n if n >= 0 else -1 - n for row in cut for n in row[::2]} - known
        if sum(len(str(ids[n])) for n in named) <= most:
            break
    return cut


def similar_nodes(
    proba: Floats, x: NDArray[np.float32], labelled: Ints, most: int = MOST_SIMILAR
) -> list[list[int]]:
    """For each row, the `most` labelled rows most like it: place, similarity, place, ...

    Half is Σ_c √(p_c q_c), the affinity of the predicted probabilities; half is the cosine of the
    standardised features, where it is positive. Thousandths. More than 128 features are projected
    on 128 random directions first. A row is not compared with itself.

    >>> p, x = np.array([[0.9, 0.1], [0.9, 0.1], [0.1, 0.9]]), np.array([[1.0], [1.0], [-1.0]])
    >>> similar_nodes(p, x, np.array([1, 2]), most=1)
    [[1, 1000], [2, 300], [1, 300]]
    """
    if labelled.size == 0:
        return [[] for _ in proba]
    roots, unit = np.sqrt(np.clip(proba, 0.0, None)), _directions(x)
    found: list[list[int]] = []
    for first in range(0, len(proba), 500):  # a block at a time: no square matrix
        rows = np.arange(first, min(first + 500, len(proba)))
        alike = 0.5 * roots[rows] @ roots[labelled].T
        alike += 0.5 * np.maximum(unit[rows] @ unit[labelled].T, 0.0)
        alike[rows[:, None] == labelled] = -1.0
        best = np.argsort(-alike, axis=1, kind="stable")[:, :most]
        shares = np.rint(1000 * np.take_along_axis(alike, best, axis=1)).astype(np.int64)
        for places, values in zip(labelled[best], shares, strict=True):
            pairs = np.stack([places, values], axis=1)[values >= 0]
            found.append(pairs.ravel().tolist())
    return found


def _directions(x: NDArray[np.float32]) -> Floats:
    """The standardised rows scaled to length 1, ``[n, F]``, F at most 128."""
    wide = np.asarray(x, dtype=np.float64)
    wide = wide - wide.mean(axis=0)
    wide /= np.where(wide.std(axis=0) > 0, wide.std(axis=0), 1.0)
    if wide.shape[1] > WIDEST:
        wide = wide @ np.random.default_rng(0).normal(size=(wide.shape[1], WIDEST))
    length = np.linalg.norm(wide, axis=1, keepdims=True)
    return np.asarray(wide / np.where(length > 0, length, 1.0))


def node_data(
    ids: NDArray[Any],
    y: Ints,
    part: NDArray[np.int8],
    proba: Floats,
    honest: Floats,
    lists: dict[str, list[Any]],
    nodes: Ints,
) -> dict[str, Any]:
    """What the page says of its nodes: first `nodes`, then those named in `lists`.

    Every one has its id, label (−1: none), prediction, the probability of that, and its part.
    The first have in `top` their likeliest classes and probabilities, in `held` the prediction and
    probability where the label was held out, and their neighbours, as places in this list.
    """
    mentioned = {n if n >= 0 else -1 - n for near in lists["near"] for n in near[::2]}
    others = np.array(sorted(mentioned - set(nodes.tolist())), dtype=np.int64)
    order = np.concatenate([nodes, others])
    place = {int(n): i for i, n in enumerate(order)}
    p = np.nan_to_num(proba[order])
    data: dict[str, Any] = {
        "id": [one_line(ids[n]) for n in order],
        "label": y[order].tolist(),
        "guess": p.argmax(axis=1).tolist(),
        "sure": np.rint(1000 * p.max(axis=1)).astype(np.int64).tolist(),
        "part": part[order].tolist(),
        "top": [_likeliest(row) for row in p[: nodes.size]],
        "held": [_likeliest(row)[:2] for row in honest[nodes]],
    }
    data |= {name: lists[name] for name in ("own", "over", "count")}
    data["near"] = [_renumbered(near, place) for near in lists["near"]]
    return data


def _likeliest(row: Floats) -> list[int]:
    """Class, thousandths, class, ...: the five likeliest; nothing where there is a nan."""
    if not np.isfinite(row).all():
        return []
    best = np.argsort(-row, kind="stable")[:MOST_CLASSES]
    return np.stack([best, np.rint(1000 * row[best])], axis=1).astype(np.int64).ravel().tolist()


def _renumbered(near: list[int], place: dict[int, int]) -> list[int]:
    found = list(near)
    found[::2] = [place[n] if n >= 0 else -1 - place[-1 - n] for n in near[::2]]
    return found
