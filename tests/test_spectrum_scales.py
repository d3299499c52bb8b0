"""Small γ, light and heavy weights, weak bridges, long paths: the vector is still the right one."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from scipy.linalg import eigh_tridiagonal

from oracle import ITERATIVE, vector_error
from pdgnn import Graph, eigenpairs


def path(n: int, weight: float = 1.0) -> Graph:
    ends = np.arange(n - 1)
    return Graph.from_edge_index(np.stack([ends, ends + 1]), n, np.full(n - 1, weight))


def cosines(n: int, k: int) -> tuple[np.ndarray, np.ndarray]:
    """The eigenpairs of L on a path of even n, by the formula: 2 − 2 cos(jπ/n)."""
    j = np.arange(1, k + 1)
    u = np.sqrt(2 / n) * np.cos(np.pi * np.outer(np.arange(n) + 0.5, j) / n)
    return 4 * np.sin(j * np.pi / (2 * n)) ** 2, u


def barbell(size: int, bridge: float) -> Graph:
    """Two cliques of unit weights, joined by one edge of weight `bridge`."""
    g = Graph.from_networkx(nx.barbell_graph(size, 0))
    i, j = g.edge_index
    weight = np.where((i < size) != (j < size), bridge, 1.0)
    return Graph.from_edge_index(g.edge_index, 2 * size, weight)


@pytest.mark.parametrize("gamma", [1e-6, 1e-9, 1e-13, 1e-15, 1e-100])
@pytest.mark.parametrize("n", [10, 300])
def test_a_small_gamma_is_near_its_limit(n, gamma):
    """λ(γ)/γ and the vectors tend to those of L; no other eigenvalue may join them."""
    values, u = cosines(n, 2)
    s = eigenpairs(path(n), gamma=gamma, k=2)
    assert s.multiplicity == 1
    np.testing.assert_allclose(s.eigenvalues / gamma, values, rtol=1e-5)
    np.testing.assert_allclose(s.gap / gamma, values[1] - values[0], rtol=1e-2)
    assert vector_error(s.u, u) < 1e-5


@pytest.mark.parametrize("weight", [1e-12, 1e-15, 1e-60, 1e60])
@pytest.mark.parametrize("gamma", [0.0, 1.0])
@pytest.mark.parametrize("n", [10, 300])
def test_the_unit_of_the_weights_does_not_matter(n, gamma, weight):
    """L scales with the weights and L_sym not at all; the vectors are the same in both."""
    unit, s = eigenpairs(path(n), gamma=gamma), eigenpairs(path(n, weight), gamma=gamma)
    scale = weight if gamma == 0 else 1.0
    np.testing.assert_allclose(s.eigenvalues, scale * unit.eigenvalues, rtol=1e-9)
    assert s.multiplicity == 1
    assert vector_error(s.u, unit.u) < 1e-6


@pytest.mark.parametrize("n", [10, 300])
def test_light_weights_between_the_ends_of_gamma(n):
    """With weights far below 1, M is 1 − γ everywhere, and L^(1/2,γ) a multiple of L."""
    values, u = cosines(n, 1)
    s = eigenpairs(path(n, 1e-15), gamma=0.5)
    np.testing.assert_allclose(s.eigenvalues, 1e-15 * values, rtol=1e-9)
    assert s.multiplicity == 1
    assert vector_error(s.u, u) < 1e-6


@pytest.mark.parametrize("bridge", [1e-6, 1e-10, 1e-14, 1e-20, 1e-90])
@pytest.mark.parametrize(
    ("size", "solver"), [(5, "auto"), *((100, name) for name in ("dense", *ITERATIVE))]
)
def test_a_weak_bridge(size, bridge, solver):
    """However weak, it makes one component: one side is positive, the other negative."""
    s = eigenpairs(barbell(size, bridge), solver=solver)
    side = np.repeat([1.0, -1.0], size) / np.sqrt(2 * size)
    assert s.multiplicity == 1
    assert vector_error(s.u[:, 0], side) < 1e-5
    expected = [2 * bridge / (size * (size - 1))]
    np.testing.assert_allclose(s.eigenvalues, expected, rtol=1e-5, atol=1e-14)


@pytest.mark.parametrize("size", [5, 100])
def test_no_eigenvalue_of_a_connected_graph_is_negative(size):
    for bridge in (1e-14, 1e-20, 1e-90):
        assert eigenpairs(barbell(size, bridge)).eigenvalues[0] >= 0


@pytest.mark.parametrize("solver", ["lu", "amg"])
@pytest.mark.parametrize("gamma", [1.0, 0.1, 0.0])
def test_a_path_of_20000_nodes(gamma, solver):
    """λ1 is about 1e-8; a tridiagonal eigensolver gives the vector."""
    g = path(20_000)
    m = gamma * g.degree + 1 - gamma
    values, u = eigh_tridiagonal(
        g.degree / m, -((m[1:] * m[:-1]) ** -0.5), select="i", select_range=(1, 1)
    )
    s = eigenpairs(g, gamma=gamma, solver=solver)
    np.testing.assert_allclose(s.eigenvalues, (gamma or 1.0) * values, rtol=1e-6)
    assert vector_error(s.u, u * np.sign(u[0])) < 1e-6
    assert s.multiplicity == 1
