"""The one eigenbasis that depends on neither solver, seed nor thread count."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["TIE_TOLERANCE", "aim_of", "canonical_basis", "clusters", "same_eigenvalue_tolerance"]

EPS = float(np.finfo(np.float64).eps)
TIE_TOLERANCE = 1e-6
"""Diagonal entries of the projector within this of the largest, relatively, count as a tie."""


def same_eigenvalue_tolerance(
    values: float | NDArray[np.float64], norm: float | NDArray[np.float64]
) -> Any:
    """How close two computed eigenvalues must be to count as one that repeats.

    A relative 1e-9, and never under the rounding error of an operator of this norm.
    """
    return np.maximum(1e-9 * np.abs(values), 64 * EPS * np.asarray(norm))


def aim_of(gap: float, norm: float, tol: float, *, floor: float = 1e-14) -> float:
    """The residual, well below the one promised, at which vectors are right to 10 `tol`.

    It is no less than `floor` times the norm, which rounding leaves.
    """
    return max(min(10 * gap, 0.1 * norm) * tol, floor * norm)


def clusters(values: NDArray[np.float64], norm: float | NDArray[np.float64]) -> NDArray[np.int64]:
    """The number of the distinct eigenvalue that each of the ascending `values` ``[..., p]`` is.

    >>> clusters(np.array([0.5, 0.5, 0.7]), 2.0).tolist()
    [0, 0, 1]
    """
    apart = np.diff(values, axis=-1) > same_eigenvalue_tolerance(values[..., 1:], norm)
    first = np.zeros((*values.shape[:-1], 1), dtype=np.int64)
    return np.concatenate([first, np.cumsum(apart, axis=-1)], axis=-1)


def canonical_basis(
    values: NDArray[np.float64],
    vectors: NDArray[np.float64],
    norm: float | NDArray[np.float64],
    *,
    k: int,
) -> NDArray[np.float64]:
    """The first k canonical eigenvectors ``[B, n, k]`` of B problems, from any orthonormal basis.

    `values` ``[B, p]`` ascend and `vectors` ``[B, n, p]`` hold the whole eigenspaces of the first k
    values. Let Π be the projector onto the eigenspace of λ and i the node with the largest Π_ii,
    the lowest index among ties (:data:`TIE_TOLERANCE`); then u = Π e_i / ‖Π e_i‖. A further vector
    of the same eigenspace is had likewise from Π − u uᵀ: a pivoted Cholesky factor of Π.

    >>> basis = canonical_basis(np.array([[1.0]]), np.array([[[-0.6], [-0.8]]]), 2.0, k=1)
    >>> basis.ravel().round(6).tolist()
    [0.6, 0.8]
    """
    batch, n, _ = vectors.shape
    label = clusters(values, norm)  # [B, p]
    if (np.diff(label[:, : k + 1], axis=1) > 0).all():  # nothing repeats
        return _with_signs(vectors[:, :, :k])
    squares, chosen = vectors**2, np.zeros((batch, n, k))
    rows = np.arange(batch)
    for q in range(k):
        same = label == label[:, q : q + 1]  # [B, p]
        a, b = np.flatnonzero(same.any(axis=0))[[0, -1]] + (0, 1)  # columns of any of the batch
        inside = same[:, a:b].astype(np.float64)
        taken = chosen[:, :, a:q] * inside[:, None, : q - a]  # earlier ones of the same eigenspace
        diagonal = (squares[:, :, a:b] @ inside[:, :, None])[:, :, 0] - (taken**2).sum(axis=2)
        top = diagonal.max(axis=1, keepdims=True)
        pivot = (diagonal >= (1.0 - TIE_TOLERANCE) * top).argmax(axis=1)  # [B]
        parts = inside * vectors[rows, pivot, a:b]
        column = vectors[:, :, a:b] @ parts[:, :, None]  # [B, n, 1]
        for _ in range(2):  # twice: the second pass removes what rounding left of the first
            column = column - taken @ (taken.transpose(0, 2, 1) @ column)
        chosen[:, :, q] = (column / np.linalg.norm(column, axis=1, keepdims=True))[:, :, 0]
    return chosen


def _with_signs(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    """Each of the vectors ``[B, n, k]``, positive at the node where it is largest."""
    squares = vectors**2
    tied = squares >= (1.0 - TIE_TOLERANCE) * squares.max(axis=1, keepdims=True)
    pivot = tied.argmax(axis=1)[:, None, :]
    length = np.sqrt(squares.sum(axis=1, keepdims=True))
    signed = np.copysign(length, np.take_along_axis(vectors, pivot, axis=1))
    return np.asarray(vectors / signed + 0.0)  # and no −0
