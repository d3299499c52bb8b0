"""Where a graph may be symmetric: eigenvalues repeat where it is."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

__all__ = ["alike", "least_antisymmetric"]

MOST_ROUNDS = 30
MOST_ALIKE = 0.25
"""Share of nodes up to which those that are alike are looked at by themselves."""
Colours = NDArray[np.uint64]


def _mixed(x: Colours) -> Colours:
    """Every bit of a number spread over all of them (the finalizer of MurmurHash3)."""
    x = (x ^ (x >> np.uint64(33))) * np.uint64(0xFF51AFD7ED558CCD)
    x = (x ^ (x >> np.uint64(33))) * np.uint64(0xC4CEB9FE1A85EC53)
    return x ^ (x >> np.uint64(33))


def alike(adjacency: sp.csr_array) -> NDArray[np.int64]:
    """The nodes of a connected graph that colour refinement does not tell from all others.

    Each node's colour is hashed with those of its neighbours until no more colours appear. An
    automorphism only exchanges nodes of one colour.

    >>> alike(sp.csr_array([[0, 1.0, 0], [1.0, 0, 1.0], [0, 1.0, 0]])).tolist()
    [0, 2]
    """
    starts, neighbours = adjacency.indptr[:-1], adjacency.indices
    weights = None
    if (adjacency.data != adjacency.data[0]).any():
        weights = _mixed(adjacency.data.view(np.uint64)) | np.uint64(1)
    colours = _mixed(np.diff(adjacency.indptr).astype(np.uint64))
    known = 0
    for turn in range(1, MOST_ROUNDS + 1):
        around = _mixed(colours)[neighbours]
        if weights is not None:
            around *= weights
        colours = _mixed(colours * np.uint64(3) + np.add.reduceat(around, starts))
        if turn % 3 == 0:
            ordered = np.sort(colours)
            count = 1 + int(np.count_nonzero(ordered[1:] != ordered[:-1]))
            if count in (known, colours.size):
                break
            known = count
    _, of, size = np.unique(colours, return_inverse=True, return_counts=True)
    return np.flatnonzero(size[of] > 1)


def least_antisymmetric(
    adjacency: sp.csr_array, nodes: NDArray[np.int64], m: NDArray[np.float64], scale: float
) -> float:
    """A lower bound of the eigenvalues whose vectors are 0 but on `nodes`; 0 if none is known.

    A vector that a symmetry does not leave as it is, once what it does leave is taken off, sums to
    0 over nodes of a colour. So it is 0 on a node whose colour no other has, and its eigenvalue is
    at least the least one of S restricted to the others. By Gershgorin that is at least the least
    (d_i − Σ_j a_ij √(m_i/m_j)) / m_i, j among `nodes`.
    """
    if nodes.size == 0:
        return np.inf
    if nodes.size > MOST_ALIKE * adjacency.shape[0]:
        return 0.0
    rows = adjacency[nodes]
    inside = rows[:, nodes]
    degree = np.asarray(rows.sum(axis=1)).ravel()
    root = np.sqrt(m[nodes])
    leaving = degree - root * np.asarray(inside @ (1.0 / root))
    return float(scale * (leaving / m[nodes]).min())
