"""L^(α,γ) and P^(α,γ) against dense NumPy, NetworkX, PyG and the paper's theorems."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse.linalg import aslinearoperator
from torch_geometric.utils import get_laplacian, to_scipy_sparse_matrix

from pdgnn import Graph, InputError, diffusion_matrix, parameterized_laplacian
from pdgnn.laplacian import DiffusionOperator, check_alpha, check_gamma, normalizer
from strategies import graphs

STAR = Graph.from_edge_index([[0, 0, 0], [1, 2, 3]])
ALPHA = st.sampled_from([0.0, 0.5, 1.0]) | st.floats(0.0, 1.0)
GAMMA = st.sampled_from([0.0, 0.5, 1.0]) | st.floats(0.0, 1.0)
POSITIVE = st.sampled_from([0.5, 1.0]) | st.floats(0.02, 1.0)
close = {"rtol": 1e-12, "atol": 1e-13}


def dense_m(g: Graph, gamma: float) -> np.ndarray:
    """The diagonal of γD + (1−γ)I; any positive number will do for a node without edges."""
    degree = g.adjacency().toarray().sum(axis=1)
    return np.where(degree > 0, gamma * degree + (1 - gamma), 1.0)


def dense_laplacian(g: Graph, alpha: float, gamma: float) -> np.ndarray:
    """Definition 3.1, word for word."""
    a = g.adjacency().toarray()
    m = dense_m(g, gamma)
    return gamma * np.diag(m**-alpha) @ (np.diag(a.sum(axis=1)) - a) @ np.diag(m ** (alpha - 1))


def laplacian(g: Graph, alpha: float, gamma: float) -> np.ndarray:
    return parameterized_laplacian(g, alpha=alpha, gamma=gamma).toarray()


def diffusion(g: Graph, alpha: float, gamma: float) -> np.ndarray:
    return diffusion_matrix(g, alpha=alpha, gamma=gamma).toarray()


# On paper


def test_a_star_at_half_gamma():
    """D = (3, 1, 1, 1), so M = (2, 1, 1, 1)."""
    assert normalizer(STAR, 0.5).tolist() == [2.0, 1.0, 1.0, 1.0]
    r = 0.25 * np.sqrt(2.0)
    for alpha, out, back in ((1.0, 0.25, 0.5), (0.0, 0.5, 0.25), (0.5, r, r)):
        expected = np.diag([0.25, 0.5, 0.5, 0.5])
        expected[0, 1:], expected[1:, 0] = out, back
        assert np.allclose(diffusion(STAR, alpha, 0.5), expected, **close)
        assert np.allclose(laplacian(STAR, alpha, 0.5), np.eye(4) - expected, **close)


def test_weights_enter_through_the_weighted_degree():
    g = Graph.from_edge_index([[0], [1]], edge_weight=[3.0])
    assert diffusion(g, 1.0, 0.5).tolist() == [[0.25, 0.75], [0.75, 0.25]]


def test_both_are_sparse_and_float64():
    for matrix in (diffusion_matrix(STAR, gamma=0.5), parameterized_laplacian(STAR, gamma=0.5)):
        assert matrix.format == "csr"
        assert matrix.dtype == np.float64
        assert matrix.nnz == 10


# Definition 3.1


@given(graphs(), ALPHA, GAMMA)
def test_definition_of_the_laplacian_and_the_diffusion_matrix(g, alpha, gamma):
    expected = dense_laplacian(g, alpha, gamma)
    assert np.allclose(laplacian(g, alpha, gamma), expected, **close)
    assert np.allclose(diffusion(g, alpha, gamma), np.eye(g.num_nodes) - expected, **close)
    assert np.allclose(normalizer(g, gamma), dense_m(g, gamma), **close)


@given(graphs(), ALPHA)
def test_without_gamma_nothing_moves(g, alpha):
    assert (diffusion(g, alpha, 0.0) == np.eye(g.num_nodes)).all()
    assert (laplacian(g, alpha, 0.0) == 0).all()


@given(graphs(), ALPHA, GAMMA)
def test_an_isolated_node_keeps_all_it_has(g, alpha, gamma):
    more = Graph.from_edge_index(g.edge_index, g.num_nodes + 2, g.edge_weight)
    p = diffusion(more, alpha, gamma)
    assert (p[-2:] == np.eye(more.num_nodes)[-2:]).all()
    assert (p[:, -2:] == np.eye(more.num_nodes)[:, -2:]).all()
    assert (p[:-2, :-2] == diffusion(g, alpha, gamma)).all()
    assert (laplacian(more, alpha, gamma)[-2:] == 0).all()
    assert (normalizer(more, gamma)[-2:] == 1).all()


@given(graphs(), ALPHA, st.sampled_from([1e-3, 1e-6, 1e-9, 1e-12]))
def test_divided_by_gamma_the_limit_is_the_combinatorial_laplacian(g, alpha, gamma):
    a = g.adjacency().toarray()
    combinatorial = np.diag(a.sum(axis=1)) - a
    degree = a.sum(axis=1).max(initial=1.0)
    distance = np.abs(laplacian(g, alpha, gamma) / gamma - combinatorial).max()
    # Both factors of M differ from 1 by less than γ d, and no entry of L exceeds d.
    assert distance <= 2 * gamma * degree**2 + 1e-14 * degree


# Against other libraries


@given(graphs())
def test_symmetric_laplacian_of_networkx(g):
    expected = nx.normalized_laplacian_matrix(nx.from_scipy_sparse_array(g.adjacency())).toarray()
    assert np.allclose(laplacian(g, 0.5, 1.0), expected, **close)


@pytest.mark.parametrize(("alpha", "kind"), [(1.0, "rw"), (0.5, "sym")])
@given(g=graphs(connected=True))
def test_laplacians_of_pyg(alpha, kind, g):
    entries = get_laplacian(g.edge_index, g.edge_weight, kind, num_nodes=g.num_nodes)
    expected = to_scipy_sparse_matrix(*entries, num_nodes=g.num_nodes).toarray()
    assert np.allclose(laplacian(g, alpha, 1.0), expected, **close)


@given(graphs(connected=True))
def test_random_walk_of_the_adjacency_matrix(g):
    a = g.adjacency().toarray()
    assert np.allclose(diffusion(g, 1.0, 1.0), a / a.sum(axis=1, keepdims=True), **close)
    assert np.allclose(diffusion(g, 0.0, 1.0), a / a.sum(axis=0, keepdims=True), **close)


# Theorem 3.1


@given(graphs(), ALPHA, GAMMA)
def test_no_entry_of_the_diffusion_matrix_is_negative(g, alpha, gamma):
    assert (diffusion_matrix(g, alpha=alpha, gamma=gamma).data >= 0).all()


@given(graphs(), GAMMA)
def test_rows_sum_to_one_at_alpha_one_and_columns_at_alpha_zero(g, gamma):
    assert np.allclose(diffusion(g, 1.0, gamma).sum(axis=1), 1.0, **close)
    assert np.allclose(diffusion(g, 0.0, gamma).sum(axis=0), 1.0, **close)


# Theorem 3.2


@given(graphs(), POSITIVE)
def test_eigenvalues_lie_between_zero_and_two_with_a_zero_for_each_component(g, gamma):
    eigenvalues = np.linalg.eigvalsh(laplacian(g, 0.5, gamma))
    assert eigenvalues.min() >= -1e-12
    assert eigenvalues.max() <= 2 + 1e-12
    assert (np.abs(eigenvalues) < 1e-9).sum() == g.num_components


@given(graphs(connected=True), st.floats(0.02, 0.95), st.floats(0.05, 1.0))
def test_eigenvalues_grow_strictly_with_gamma_on_a_connected_graph(g, low, share):
    high = low + share * (1.0 - low)
    lower = np.linalg.eigvalsh(laplacian(g, 0.5, low))
    upper = np.linalg.eigvalsh(laplacian(g, 0.5, high))
    assert (upper[1:] > lower[1:]).all()
    assert abs(upper[0] - lower[0]) < 1e-12


@given(graphs(), ALPHA, POSITIVE)
def test_the_spectrum_is_the_same_for_every_alpha(g, alpha, gamma):
    symmetric = np.linalg.eigvalsh(laplacian(g, 0.5, gamma))
    general = np.linalg.eigvals(laplacian(g, alpha, gamma))
    assert np.abs(np.imag(general)).max() < 1e-7
    assert np.allclose(np.sort(np.real(general)), symmetric, atol=1e-7)


@given(graphs(), ALPHA, POSITIVE)
def test_scaled_eigenvectors_diagonalise_every_alpha(g, alpha, gamma):
    symmetric = laplacian(g, 0.5, gamma)
    assert np.allclose(symmetric, symmetric.T, **close)
    eigenvalues, u = np.linalg.eigh(symmetric)
    scale = np.diag(normalizer(g, gamma) ** (0.5 - alpha))
    phi, inverse = scale @ u, u.T @ np.linalg.inv(scale)
    rebuilt = phi @ np.diag(eigenvalues) @ inverse
    assert np.allclose(laplacian(g, alpha, gamma), rebuilt, rtol=0, atol=1e-11)


# The operator


@given(graphs(), ALPHA, GAMMA, st.integers(0, 99))
def test_the_operator_is_the_matrix(g, alpha, gamma, seed):
    n = g.num_nodes
    x, y = np.random.default_rng(seed).normal(size=(2, n, 3))
    operator = DiffusionOperator(g, alpha=alpha, gamma=gamma)
    pairs = (
        (operator, diffusion(g, alpha, gamma)),
        (operator.laplacian(), laplacian(g, alpha, gamma)),
    )
    for linear, matrix in pairs:
        assert linear.shape == (n, n)
        assert linear.dtype == np.float64
        assert np.allclose(linear @ x, matrix @ x, **close)
        assert np.allclose(linear.matmat(x), matrix @ x, **close)
        assert np.allclose(linear.matvec(x[:, 0]), matrix @ x[:, 0], **close)
        assert linear.matvec(x[:, :1]).shape == (n, 1)
        assert np.allclose(linear.matvec(x[:, :1]), matrix @ x[:, :1], **close)
        assert np.allclose(linear.rmatvec(x[:, 0]), matrix.T @ x[:, 0], **close)
        assert np.allclose(linear.rmatmat(x), matrix.T @ x, **close)
        assert np.allclose(linear.H @ y, matrix.T @ y, **close)
        left, right = (linear @ x[:, 0]) @ y[:, 0], x[:, 0] @ linear.rmatvec(y[:, 0])
        assert np.isclose(left, right, rtol=1e-10, atol=1e-11)


def test_the_operator_takes_integers_and_composes():
    operator = DiffusionOperator(STAR, alpha=1.0, gamma=1.0)
    assert (operator @ np.array([0, 3, 0, 0])).tolist() == [1.0, 0.0, 0.0, 0.0]
    twice = operator @ aslinearoperator(diffusion_matrix(STAR))
    assert np.allclose(twice @ np.eye(4), diffusion(STAR, 1.0, 1.0) @ diffusion(STAR, 1.0, 1.0))


# Bad input


@pytest.mark.parametrize(
    "call",
    [
        lambda **scope: diffusion_matrix(STAR, **scope),
        lambda **scope: parameterized_laplacian(STAR, **scope),
        lambda **scope: DiffusionOperator(STAR, **scope),
        lambda alpha=1.0, gamma=1.0: (check_alpha(alpha), check_gamma(gamma)),
    ],
)
@pytest.mark.parametrize("name", ["alpha", "gamma"])
def test_parameters_out_of_range_are_refused(call, name):
    for value in (
        -0.1,
        1.5,
        float("nan"),
        float("inf"),
        torch.tensor(2.0),
        -5e-324,
        "half",
        None,
        1j,
    ):
        with pytest.raises(InputError, match=rf"{name} must be a number in \[0, 1\], not "):
            call(**{name: value})


@pytest.mark.parametrize("value", [1, np.float32(0.25), torch.tensor(0.5)])
def test_any_number_in_range_is_a_parameter(value):
    assert type(check_alpha(value)) is float
    assert np.allclose(diffusion(STAR, value, value), diffusion(STAR, float(value), float(value)))


def test_normalizer_checks_gamma():
    with pytest.raises(InputError, match=r"gamma must be a number in \[0, 1\], not 2"):
        normalizer(STAR, 2)
