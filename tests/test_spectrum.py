"""The eigenpairs of L^(1/2,γ) on paper, and against dense NumPy."""

from __future__ import annotations

import dataclasses

import networkx as nx
import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st

from oracle import ITERATIVE, by_hand, symmetric, vector_error
from pdgnn import (
    ConvergenceError,
    Graph,
    InputError,
    eigenpairs,
    eigenpairs_path,
    parameterized_laplacian,
)
from pdgnn.solvers import component
from strategies import graphs

GAMMA = st.sampled_from([0.0, 0.5, 1.0]) | st.floats(0.01, 1.0)
ALPHA = st.sampled_from([0.0, 0.5, 1.0]) | st.floats(0.0, 1.0)
K = st.integers(1, 6)
PATH = Graph.from_edge_index([[0, 1], [1, 2]])
LONG = Graph.from_networkx(nx.path_graph(400))


def agree(values, expected, tolerance: float = 1e-10) -> None:
    np.testing.assert_allclose(values, expected, rtol=tolerance, atol=1e-13)


def share(gamma: float, degree: float) -> float:
    """γ / M for a regular graph: L^(1/2,γ) is this multiple of L, and L itself at γ = 0."""
    return gamma / (gamma * degree + 1 - gamma) if gamma else 1.0


# On paper


@pytest.mark.parametrize("gamma", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("n", [2, 5, 40, 200])
def test_complete_graph(n, gamma):
    """λ = n repeats n − 1 times; Π = I − 1/n, so that every node ties and node 0 wins."""
    s = eigenpairs(Graph.from_networkx(nx.complete_graph(n)), gamma=gamma)
    agree(s.eigenvalues, [n * share(gamma, n - 1)])
    u = np.eye(n)[0] - 1 / n
    agree(s.u[:, 0], u / np.linalg.norm(u))
    assert s.multiplicity == n - 1
    assert np.isnan(s.gap)


@pytest.mark.parametrize("gamma", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("n", [5, 60, 3000])
def test_cycle(n, gamma):
    """λ1 = 2 − 2 cos(2π/n) twice; Π e_0 is a cosine that starts at node 0."""
    s = eigenpairs(Graph.from_networkx(nx.cycle_graph(n)), gamma=gamma)
    agree(s.eigenvalues, [(2 - 2 * np.cos(2 * np.pi / n)) * share(gamma, 2)], 1e-8)
    assert vector_error(s.u[:, 0], np.sqrt(2 / n) * np.cos(2 * np.pi * np.arange(n) / n)) < 1e-7
    assert s.multiplicity == 2
    second = (2 - 2 * np.cos(4 * np.pi / n)) * share(gamma, 2)
    agree(s.gap, second - s.eigenvalues[0], 1e-6)


@pytest.mark.parametrize("n", [2, 18, 5000])
def test_path_without_gamma(n):
    """λ_j = 2 − 2 cos(jπ/n) and u_j = √(2/n) cos(jπ(i + ½)/n): for even n the ends are largest."""
    k = min(3, n - 1)
    s = eigenpairs(Graph.from_networkx(nx.path_graph(n)), gamma=0.0, k=k)
    j = np.arange(1, k + 1)
    agree(s.eigenvalues, 2 - 2 * np.cos(j * np.pi / n), 1e-7)
    u = np.sqrt(2 / n) * np.cos(np.pi * np.outer(np.arange(n) + 0.5, j) / n)
    assert vector_error(s.u, u) < 1e-7
    assert s.multiplicity == 1


@pytest.mark.parametrize("gamma", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("dimension", range(3, 12))
def test_hypercube(dimension, gamma):
    """λ1 = 2 repeats d times, once for each bit; Π e_0 sums the d sign vectors."""
    bits = (np.arange(2**dimension)[:, None] >> np.arange(dimension)) & 1
    i, b = np.nonzero(bits == 0)
    s = eigenpairs(Graph.from_edge_index(np.stack([i, i | 1 << b])), gamma=gamma)
    agree(s.eigenvalues, [2 * share(gamma, dimension)])
    expected = (dimension - 2 * bits.sum(axis=1)) / np.sqrt(dimension * 2**dimension)
    assert vector_error(s.u[:, 0], expected) < 1e-7
    assert s.multiplicity == dimension


def test_each_component_is_solved_for_itself():
    """A path of 3 with the nodes 4, 1, 2, an isolated node 0, and the edge (3, 5)."""
    g = Graph.from_edge_index([[4, 1, 3], [1, 2, 5]])
    s = eigenpairs(g, gamma=1.0, k=2)
    r, nan = 2**-0.5, np.nan
    agree(s.component_eigenvalues, [[nan, nan], [1, 2], [2, nan]])
    agree(s.eigenvalues, [1, 2])
    # Ties go to the lowest index: node 2 in the path, node 3 in the edge.
    agree(s.u[:, 0], [0, 0, r, r, -r, -r])
    agree(s.u[:, 1], [0, r, -0.5, 0, -0.5, 0])
    assert s.multiplicity == 1
    agree(s.gap, 1.0)


def test_nothing_to_solve():
    s = eigenpairs(Graph.from_edge_index([[], []], num_nodes=3), k=2)
    assert np.isnan(s.eigenvalues).all()
    assert np.isnan(s.component_eigenvalues).all()
    assert s.component_eigenvalues.shape == (3, 2)
    assert (s.u == 0).all()
    assert (s.eigenvectors(0.0) == 0).all()
    assert (s.residuals == 0).all()
    assert (s.multiplicity, s.solver) == (0, "none")


# Against dense NumPy


@given(graphs(), GAMMA, K)
def test_definition(g, gamma, k):
    s, expected = eigenpairs(g, gamma=gamma, k=k), by_hand(g, gamma, k)
    agree(s.component_eigenvalues, expected.component_eigenvalues)
    agree(s.eigenvalues, expected.eigenvalues)
    assert vector_error(s.u, expected.u) < 1e-7
    assert s.multiplicity == expected.multiplicity
    agree(s.gap, expected.gap, 1e-9)
    assert s.solver == ("dense" if g.num_edges else "none")
    assert s.gamma == gamma


@given(graphs(), GAMMA, K)
def test_orthonormal_in_each_component_and_to_the_trivial_vector(g, gamma, k):
    s = eigenpairs(g, gamma=gamma, k=k)
    for c in range(g.num_components):
        nodes = np.flatnonzero(g.components == c)
        there = min(k, nodes.size - 1)
        u, root = s.u[nodes], np.sqrt(s.m[nodes])
        agree(u.T @ u, np.diag(np.arange(k) < there), 1e-12)
        agree(root @ u, np.zeros(k))
        assert (np.isnan(s.component_eigenvalues[c]) == (np.arange(k) >= there)).all()


@given(graphs(), GAMMA, K)
def test_residuals_are_those_of_the_dense_matrix(g, gamma, k):
    s, matrix = eigenpairs(g, gamma=gamma, k=k), symmetric(g, gamma)
    values = np.nan_to_num(s.component_eigenvalues)[g.components]  # [N, k]
    away = matrix @ s.u - s.u * values
    measured = [np.linalg.norm(away[g.components == c], axis=0) for c in range(g.num_components)]
    assert (np.max(measured, axis=0) <= 1e-12).all()
    assert s.residuals.shape == (k,)
    assert (s.residuals <= 1e-12).all()


@given(graphs(), ALPHA, st.floats(0.01, 1.0), K)
def test_every_alpha_from_one_solve(g, alpha, gamma, k):
    """Theorem 3.2: L^(α,γ) φ = λ φ with φ = M^(½−α) u."""
    s = eigenpairs(g, gamma=gamma, k=k)
    phi = s.eigenvectors(alpha)
    values = np.nan_to_num(s.component_eigenvalues)[g.components]
    laplacian = parameterized_laplacian(g, alpha=alpha, gamma=gamma)
    agree(laplacian @ phi, values * phi, 1e-9)
    agree(s.eigenvectors(alpha=0.5), s.u)


@given(graphs(), ALPHA, K)
def test_gamma_zero_is_the_combinatorial_laplacian(g, alpha, k):
    s = eigenpairs(g, gamma=0.0, k=k)
    a = g.adjacency().toarray()
    values = np.nan_to_num(s.component_eigenvalues)[g.components]
    agree((np.diag(a.sum(axis=1)) - a) @ s.u, values * s.u, 1e-9)
    agree(s.eigenvectors(alpha), s.u)


@given(graphs(connected=True), GAMMA, K)
def test_range_and_order(g, gamma, k):
    """Theorem 3.2: 0 < λ1 ≤ λ2 ≤ ... ≤ 2 for γ > 0."""
    values = eigenpairs(g, gamma=gamma, k=k).eigenvalues
    values = values[~np.isnan(values)]
    assert values.size == min(k, g.num_nodes - 1)
    assert (values > 0).all()
    assert (np.diff(values) >= -1e-14 * max(1, g.degree.max())).all()
    if gamma:
        assert (values <= 2 + 1e-14).all()


@given(graphs(connected=True), st.floats(0.01, 1.0), st.floats(0.01, 1.0), K)
def test_strictly_increasing_in_gamma(g, a, b, k):
    assume(abs(a - b) > 1e-3)
    low, high = eigenpairs_path(g, [min(a, b), max(a, b)], k=min(k, g.num_nodes - 1))
    assert (low.eigenvalues < high.eigenvalues).all()


@given(graphs(), GAMMA)
def test_more_pairs_than_nodes(g, gamma):
    k = g.num_nodes + 3
    s, expected = eigenpairs(g, gamma=gamma, k=k), by_hand(g, gamma, k)
    agree(s.component_eigenvalues, expected.component_eigenvalues)
    assert np.isnan(s.component_eigenvalues[:, -4:]).all()
    assert (s.u[:, -4:] == 0).all()
    assert vector_error(s.u, expected.u) < 1e-7


@given(graphs(), GAMMA)
def test_isolated_nodes_have_no_part(g, gamma):
    more = Graph.from_edge_index(g.edge_index + 1, g.num_nodes + 2, g.edge_weight)
    s, padded = eigenpairs(g, gamma=gamma), eigenpairs(more, gamma=gamma)
    assert (padded.u[[0, -1]] == 0).all()
    assert np.isnan(padded.component_eigenvalues[[0, -1]]).all()
    assert (padded.u[1:-1] == s.u).all()


@pytest.mark.parametrize("solver", ["auto", "dense", *ITERATIVE])
def test_one_graph_of_large_and_small_components(solver):
    """Components from 1 to 300 nodes, their nodes shuffled, and several of one size."""
    parts = [nx.path_graph(300), nx.cycle_graph(200), *[nx.star_graph(4)] * 3, nx.path_graph(1)]
    parts += [nx.path_graph(30), nx.path_graph(2), nx.path_graph(2), nx.cycle_graph(17)]
    union = nx.disjoint_union_all(parts)
    order = np.random.default_rng(4).permutation(union.number_of_nodes())
    g = Graph.from_networkx(nx.relabel_nodes(union, dict(enumerate(order.tolist()))))
    for gamma in (0.0, 0.4, 1.0):
        s, expected = eigenpairs(g, gamma=gamma, k=2, solver=solver), by_hand(g, gamma, 2)
        agree(s.component_eigenvalues, expected.component_eigenvalues, 1e-9)
        agree(s.eigenvalues, expected.eigenvalues, 1e-9)
        assert vector_error(s.u, expected.u) < 1e-6


# Manners


@pytest.mark.parametrize("solver", ["auto", "dense", *ITERATIVE])
def test_nothing_else_is_touched(solver):
    g = Graph.from_networkx(nx.path_graph(400))
    before = g.adjacency()
    numpy_state, torch_state = np.random.get_state()[1].copy(), torch.get_rng_state()  # noqa: NPY002
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        eigenpairs(g, solver=solver)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(threads)
    assert (g.adjacency() != before).nnz == 0
    assert (np.random.get_state()[1] == numpy_state).all()  # noqa: NPY002
    assert (torch.get_rng_state() == torch_state).all()


def test_a_spectrum_is_frozen_and_says_how_long_it_took():
    s = eigenpairs(LONG)
    assert 0 < s.seconds < 10
    assert s.m.tolist() == LONG.degree.tolist()
    with pytest.raises(dataclasses.FrozenInstanceError):
        s.gamma = 0.5


# Bad input


@pytest.mark.parametrize("gamma", [-0.1, 1.1, np.nan, np.inf, "much", None, [0.5]])
def test_bad_gamma(gamma):
    for call in (lambda: eigenpairs(PATH, gamma=gamma), lambda: eigenpairs_path(PATH, [1, gamma])):
        with pytest.raises(InputError, match=r"gamma must .*\[0, 1\], not"):
            call()


@pytest.mark.parametrize("k", [0, -1, 1.0, True, None, "2"])
def test_bad_k(k):
    with pytest.raises(InputError, match="k must be a whole number of at least 1, not"):
        eigenpairs(PATH, k=k)


def test_numpy_numbers_are_numbers():
    s = eigenpairs(PATH, gamma=np.float32(0.5), k=np.int64(2))
    assert s.gamma == 0.5
    assert s.eigenvalues.shape == (2,)


@pytest.mark.parametrize("solver", ["LU", "", None, 3, ["lu"], "jacobi"])
def test_bad_solver(solver):
    with pytest.raises(InputError, match=r"unknown solver .*choose one of auto, dense, lanczos"):
        eigenpairs(PATH, solver=solver)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA GPU")
@pytest.mark.parametrize("device", ["cuda", "cuda:1", torch.device("cuda")])
def test_no_gpu(device):
    with pytest.raises(InputError, match="needs a CUDA GPU and there is none; use device='cpu'"):
        eigenpairs(PATH, device=device)


@pytest.mark.parametrize("device", ["gpu", "meta"])
def test_bad_device(device):
    with pytest.raises(InputError, match="device"):
        eigenpairs(LONG, device=device)


def test_gammas_must_be_several():
    with pytest.raises(InputError, match="gammas"):
        eigenpairs_path(PATH, 0.5)


def test_bad_alpha():
    with pytest.raises(InputError, match=r"alpha must be a number in \[0, 1\], not 1.5"):
        eigenpairs(PATH).eigenvectors(1.5)


@pytest.mark.parametrize("seed", [-1, 1.5, True])
def test_a_seed_is_a_whole_number(seed):
    with pytest.raises(InputError, match="seed must be a whole number of at least 0, not"):
        eigenpairs(Graph.from_edge_index([[0], [1]]), seed=seed)


def test_a_spectrum_is_equal_to_itself_alone():
    one, other = (eigenpairs(Graph.from_edge_index([[0], [1]])) for _ in range(2))
    assert one != other
    assert len({one, other}) == 2


# No silent vector


@pytest.mark.parametrize("solver", ITERATIVE)
def test_a_residual_above_tolerance_is_an_error(monkeypatch, solver):
    monkeypatch.setattr(component, "RESIDUAL_TOLERANCE", 0.0)
    with pytest.raises(ConvergenceError, match=rf"the residual \S+ stayed above 0 .*of {solver}"):
        eigenpairs(LONG, solver=solver)


@pytest.mark.parametrize("gamma", [1.0, 0.5, 0.0])
def test_too_many_copies_end_clearly(gamma):
    """A star with 5,000 leaves: λ = 1 at γ = 0 and 1, γ in between, repeats 4,999 times."""
    star = Graph.from_networkx(nx.star_graph(5000))
    try:
        s = eigenpairs(star, gamma=gamma)
    except ConvergenceError as e:
        assert "repeats more than 63 times" in str(e)  # noqa: PT017
        assert "5001 nodes" in str(e)  # noqa: PT017
    else:
        agree(s.eigenvalues, [gamma or 1.0])
        assert s.multiplicity == 4999
        assert vector_error(s.u[:, 0], np.eye(5001)[1] - 1 / 5000) < 1e-3
