"""Approximate inverses of L, and the cost of an exact one."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.polynomial import Chebyshev

from pdgnn import Graph
from pdgnn.solvers.preconditioners import (
    MOST_DEGREE,
    chebyshev,
    factorization_cost,
    inverse_near,
    lu,
    multigrid,
)
from pdgnn.solvers.problem import Component, ComponentProblem
from strategies import graphs

LARGE = {
    "grid": nx.grid_2d_graph(40, 40),
    "hubs": nx.barabasi_albert_graph(1500, 2, seed=1),
    "chain": nx.path_graph(1500),
}


def laplacian(adjacency: sp.csr_array) -> sp.csr_array:
    return sp.csr_array(sp.diags_array(adjacency.sum(axis=1)) - adjacency)


def zero_mean(n: int, columns: int, seed: int = 0) -> torch.Tensor:
    r = np.random.default_rng(seed).standard_normal((n, columns))
    return torch.from_numpy(r - r.mean(axis=0))


def centred(x: torch.Tensor) -> np.ndarray:
    """Without its constant part, which none of the inverses is asked to get right."""
    return (x - x.mean(dim=0)).numpy()


@given(graphs(connected=True), st.integers(1, 4), st.floats(-0.1, 2.0))
def test_the_polynomial_is_that_of_chebyshev(g, columns, low):
    """What is left of y is T_m((c − λ) / h) / T_m(c / h) of it on the eigenvectors of D⁻¹L."""
    component, y = Component(g.adjacency()), zero_mean(g.num_nodes, columns)
    used = min(max(low, 2 / MOST_DEGREE**2), 1.0)
    degree = max(2, round((2 / used) ** 0.5))
    centre, half = 1 + used / 2, 1 - used / 2
    root = np.sqrt(g.degree)[:, None]
    values, vectors = np.linalg.eigh(laplacian(g.adjacency()).toarray() / root / root.T)
    t = Chebyshev.basis(degree)
    left = t((centre - values) / half) / t(centre / half)
    dense = vectors @ (left[:, None] * (vectors.T @ (y.numpy() / root)))
    solved = chebyshev(component, low)(y)
    ours = (y.numpy() - laplacian(g.adjacency()) @ solved.numpy()) / root
    np.testing.assert_allclose(ours, dense, atol=1e-9)


@given(graphs(connected=True), st.integers(1, 4))
def test_lu_solves_exactly(g, columns):
    r = zero_mean(g.num_nodes, columns)
    solved = lu(g.adjacency())(r)
    assert solved.shape == r.shape
    assert solved.dtype == torch.float64
    np.testing.assert_allclose(laplacian(g.adjacency()) @ solved.numpy(), r.numpy(), atol=1e-10)


@pytest.mark.parametrize("make", [lu, multigrid])
@pytest.mark.parametrize("name", LARGE)
def test_neither_changes_what_it_is_given(name, make):
    adjacency = Graph.from_networkx(LARGE[name]).adjacency()
    before, r = adjacency.copy(), zero_mean(adjacency.shape[0], 2)
    kept = r.clone()
    make(adjacency)(r)
    assert torch.equal(r, kept)
    assert (adjacency != before).nnz == 0


@pytest.mark.parametrize("name", LARGE)
def test_lu_solves_large_systems(name):
    adjacency = Graph.from_networkx(LARGE[name]).adjacency()
    r = zero_mean(adjacency.shape[0], 3)
    back = laplacian(adjacency) @ lu(adjacency)(r).numpy()
    np.testing.assert_allclose(back, r.numpy(), atol=1e-8)


# Multigrid


@pytest.mark.parametrize("name", LARGE)
def test_a_cycle_reduces_the_error(name):
    """x − T L x is shorter than x, in the energy norm, for every x but the constant."""
    adjacency = Graph.from_networkx(LARGE[name]).adjacency()
    matrix, cycle = laplacian(adjacency), multigrid(adjacency)
    x = zero_mean(adjacency.shape[0], 5)
    smooth = torch.from_numpy(np.cos(np.linspace(0, np.pi, len(x))))[:, None]
    x = torch.cat([x, smooth - smooth.mean()], dim=1)

    def energy(v: np.ndarray) -> np.ndarray:
        return np.sqrt((v * (matrix @ v)).sum(axis=0))

    left = x - cycle(torch.from_numpy(matrix @ x.numpy()))
    assert (energy(centred(left)) < 0.8 * energy(x.numpy())).all()


@pytest.mark.parametrize("name", LARGE)
def test_a_cycle_is_symmetric_and_linear(name):
    """Otherwise it would not be the inverse of any symmetric matrix."""
    adjacency = Graph.from_networkx(LARGE[name]).adjacency()
    cycle, r = multigrid(adjacency), zero_mean(adjacency.shape[0], 2)
    solved = cycle(r)
    gram = r.T @ solved
    assert abs(gram[0, 1] - gram[1, 0]) < 1e-8 * gram.diagonal().max()
    assert (gram.diagonal() > 0).all()
    both = cycle(r[:, :1] - 2 * r[:, 1:])
    expected = centred(solved[:, :1] - 2 * solved[:, 1:])
    np.testing.assert_allclose(centred(both), expected, atol=1e-8 * np.abs(expected).max())


@pytest.mark.parametrize("name", LARGE)
def test_the_same_hierarchy_every_time(name):
    """And none of it from, or into, NumPy's global generator."""
    adjacency = Graph.from_networkx(LARGE[name]).adjacency()
    r = zero_mean(adjacency.shape[0], 2)
    np.random.seed(1)  # noqa: NPY002
    first = multigrid(adjacency)(r)
    after = np.random.get_state()  # noqa: NPY002
    np.random.seed(1)  # noqa: NPY002
    untouched = np.random.get_state()  # noqa: NPY002
    assert after[2:] == untouched[2:]
    assert (after[1] == untouched[1]).all()
    np.random.seed(2)  # noqa: NPY002
    assert torch.equal(multigrid(adjacency)(r), first)


def test_the_global_generator_is_restored_after_an_error(monkeypatch):
    import pyamg

    def fail(*_: object, **__: object) -> None:
        np.random.random()  # noqa: NPY002
        raise RuntimeError("no hierarchy")

    monkeypatch.setattr(pyamg, "smoothed_aggregation_solver", fail)
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    with pytest.raises(RuntimeError, match="no hierarchy"):
        multigrid(Graph.from_networkx(nx.path_graph(500)).adjacency())
    assert (np.random.get_state()[1] == before).all()  # noqa: NPY002


# The cost of a factorization


def multiplications(adjacency: sp.csr_array) -> int:
    """Those of a Cholesky factorization in reverse Cuthill–McKee order, counted one by one."""
    order = sp.csgraph.reverse_cuthill_mckee(adjacency, symmetric_mode=True)
    filled = adjacency[order][:, order].toarray() != 0
    count = 0
    for column in range(len(filled)):
        below = np.flatnonzero(filled[column + 1 :, column]) + column + 1
        filled[np.ix_(below, below)] = True
        count += below.size * (below.size + 1) // 2
    return count


@given(graphs(connected=True, max_nodes=24))
def test_the_cost_is_an_upper_bound(g):
    assert factorization_cost(g.adjacency()) >= multiplications(g.adjacency())


@pytest.mark.parametrize(
    ("graph", "cost"),
    [
        (nx.path_graph(50), 49),  # one neighbour before each node but the first
        (nx.complete_graph(10), sum(i * i for i in range(10))),
        (nx.path_graph(2), 1),
    ],
)
def test_the_cost_on_paper(graph, cost):
    assert factorization_cost(Graph.from_networkx(graph).adjacency()) == cost


def test_the_cost_does_not_depend_on_weights_and_tells_chains_from_expanders():
    chain = Graph.from_networkx(nx.path_graph(2000))
    heavy = Graph.from_edge_index(chain.edge_index, edge_weight=7 * chain.edge_weight)
    assert factorization_cost(heavy.adjacency()) == factorization_cost(chain.adjacency())
    expander = Graph.from_networkx(nx.random_regular_graph(4, 2000, seed=1))
    grid = Graph.from_networkx(nx.grid_2d_graph(40, 50))
    costs = [factorization_cost(g.adjacency()) for g in (chain, grid, expander)]
    assert costs[0] < costs[1] / 100
    assert costs[1] < costs[2] / 10


# How many eigenvalues are below a value


@given(graphs(connected=True), st.floats(0.05, 1.95), st.sampled_from([1.0, 0.4, 0.0]))
def test_negative_pivots_count_the_eigenvalues_below(g, value, gamma):
    problem = ComponentProblem(Component(g.adjacency()), gamma)
    values = np.linalg.eigvalsh(problem.matrix.to_dense().numpy())
    if np.abs(values - value).min() < 1e-6:
        return  # it may be on either side
    try:
        inverse, below = inverse_near(problem, value)
    except RuntimeError:  # a pivot is 0, as on a diagonal of 1 − 1
        return
    assert below == (values < value).sum()
    v = zero_mean(g.num_nodes, 2)
    w = inverse(v) / problem.scale
    torch.testing.assert_close(problem.apply(w) - value * w, v, rtol=1e-5, atol=1e-5)


def test_a_pivot_of_zero_is_told():
    """The diagonal of S − I is 0 at γ = 1: rows would have to be exchanged, which changes signs."""
    problem = ComponentProblem(Component(Graph.from_networkx(nx.path_graph(4)).adjacency()), 1.0)
    with pytest.raises(RuntimeError, match="pivot"):
        inverse_near(problem, 1.0)
