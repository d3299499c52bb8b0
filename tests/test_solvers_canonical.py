"""The canonical basis: the same from every orthonormal basis of the same eigenspaces."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdgnn.solvers.canonical import (
    TIE_TOLERANCE,
    canonical_basis,
    clusters,
    same_eigenvalue_tolerance,
)

EPS = np.finfo(np.float64).eps


def orthonormal(rng: np.random.Generator, n: int, p: int) -> np.ndarray:
    return np.linalg.qr(rng.standard_normal((n, p)))[0]


def by_projectors(labels: np.ndarray, vectors: np.ndarray, k: int) -> np.ndarray:
    """The definition, with dense projectors, for one problem; `labels` name the eigenspaces."""
    columns: list[np.ndarray] = []
    for q in range(k):
        inside = vectors[:, labels == labels[q]]
        projector = inside @ inside.T
        for earlier in (p for p in range(q) if labels[p] == labels[q]):
            projector = projector - np.outer(columns[earlier], columns[earlier])
        i = int(np.argmax(np.diag(projector) >= np.diag(projector).max() * (1 - 1e-6)))
        columns.append(projector[:, i] / np.sqrt(projector[i, i]))
    return np.array(columns).T


@st.composite
def problems(draw):
    """Sizes of eigenspaces, one after another, and an orthonormal basis of each."""
    sizes = draw(st.lists(st.integers(1, 5), min_size=1, max_size=4))
    p = sum(sizes)
    n = p + draw(st.integers(0, 12))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    labels = np.repeat(np.arange(len(sizes)), sizes)
    return labels, orthonormal(rng, n, p), draw(st.integers(1, p)), rng


def rotated(labels: np.ndarray, vectors: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Another orthonormal basis of each eigenspace; a rotation of one vector is its sign."""
    out = np.empty_like(vectors)
    for label in np.unique(labels):
        size = int((labels == label).sum())
        q = orthonormal(rng, size, size) if size > 1 else np.array([[rng.choice([-1.0, 1.0])]])
        out[:, labels == label] = vectors[:, labels == label] @ q
    return out


@given(problems())
def test_definition(problem):
    labels, vectors, k, _ = problem
    found = canonical_basis(0.1 + 0.3 * labels[None], vectors[None], 2.0, k=k)[0]
    np.testing.assert_allclose(found, by_projectors(labels, vectors, k), atol=1e-9)
    np.testing.assert_allclose(found.T @ found, np.eye(k), atol=1e-12)


@given(problems())
def test_any_basis_of_the_eigenspaces_gives_the_same(problem):
    labels, vectors, k, rng = problem
    values = 0.1 + 0.3 * labels[None]
    first = canonical_basis(values, vectors[None], 2.0, k=k)
    for _ in range(3):
        other = rotated(labels, vectors, rng)
        found = canonical_basis(values, other[None], 2.0, k=k)
        np.testing.assert_allclose(found, first, atol=1e-9)


@given(problems())
def test_noise_at_the_level_of_rounding_changes_nothing(problem):
    labels, vectors, k, rng = problem
    values = 0.1 + 0.3 * labels
    noisy = np.sort(values * (1 + 1e-12 * rng.standard_normal(values.size)))
    moved, _ = np.linalg.qr(vectors + 1e-12 * rng.standard_normal(vectors.shape))
    first = canonical_basis(values[None], vectors[None], 2.0, k=k)
    found = canonical_basis(noisy[None], moved[None], 2.0, k=k)
    np.testing.assert_allclose(found, first, atol=1e-8)


def test_each_problem_of_a_batch_for_itself():
    rng = np.random.default_rng(0)
    labels = np.array([[0, 0, 1, 2], [0, 1, 1, 1], [0, 1, 2, 3]])
    vectors = np.stack([orthonormal(rng, 9, 4) for _ in range(3)])
    norm = np.array([[2.0], [4.0], [2.0]])
    found = canonical_basis(0.1 + labels, vectors, norm, k=4)
    for b in range(3):
        np.testing.assert_allclose(found[b], by_projectors(labels[b], vectors[b], 4), atol=1e-9)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_the_largest_entry_is_positive(sign):
    u = sign * np.array([0.1, -0.7, 0.5, 0.5]) / np.linalg.norm([0.1, 0.7, 0.5, 0.5])
    found = canonical_basis(np.array([[0.5]]), u[None, :, None], 2.0, k=1)[0, :, 0]
    np.testing.assert_allclose(found, u * -sign, atol=1e-15)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_the_lowest_index_wins_a_tie_and_only_a_tie(sign):
    """Entries 1 and 2 have squares that differ by a relative 2 δ."""
    for delta, winner in ((0.0, 1), (TIE_TOLERANCE / 10, 1), (TIE_TOLERANCE * 10, 2)):
        u = np.array([0.0, 1.0, -(1.0 + delta)])
        u = sign * u / np.linalg.norm(u)
        found = canonical_basis(np.array([[0.5]]), u[None, :, None], 2.0, k=1)[0, :, 0]
        assert found[winner] > 0
        np.testing.assert_allclose(np.abs(found), np.abs(u), atol=1e-15)


def test_an_eigenspace_beyond_k_still_counts_whole():
    """k = 1 of a double eigenvalue: both vectors make the projector."""
    basis = np.eye(3)[:, [1, 2]] @ np.array([[1.0, 1.0], [1.0, -1.0]]) / np.sqrt(2)
    found = canonical_basis(np.array([[0.5, 0.5]]), basis[None], 2.0, k=1)
    np.testing.assert_allclose(found[0, :, 0], [0, 1, 0], atol=1e-15)


# Which eigenvalues are the same


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([0.5], [0]),
        ([0.5, 0.5, 0.7], [0, 0, 1]),
        ([0.5, 0.5 * (1 + 1e-10), 0.5 * (1 + 1e-8)], [0, 0, 1]),
        ([1e-8, 1e-8 + EPS, 1e-8 + 1e-12, 1.0], [0, 0, 1, 2]),
        ([0.1, 0.2, 0.2, 0.3, 0.3, 0.3], [0, 1, 1, 2, 2, 2]),
    ],
)
def test_clusters(values, expected):
    assert clusters(np.array(values), 2.0).tolist() == expected


def test_clusters_of_a_batch():
    values = np.array([[0.5, 0.5, 0.7], [1e6, 1e6 * (1 + 1e-12), 1e6 * (1 + 1e-5)]])
    assert clusters(values, np.array([[2.0], [4e6]])).tolist() == [[0, 0, 1], [0, 0, 1]]


@given(st.floats(1e-12, 2.0))
def test_the_tolerance_is_relative_and_never_below_rounding(value):
    tolerance = same_eigenvalue_tolerance(value, 2.0)
    assert tolerance >= 1e-9 * value
    assert tolerance >= 16 * EPS
    assert tolerance <= 1e-9 * value + 1e3 * EPS
