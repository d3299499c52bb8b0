"""Many γ from one basis: each is what a dense solve gives, or is left out."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
import torch

from oracle import by_hand, lobes, spider, symmetric, three_leaders, vector_error
from pdgnn import Graph, eigenpairs_path
from pdgnn.solvers import component
from pdgnn.solvers.component import ComponentSolver
from pdgnn.solvers.dense import dense_pairs
from pdgnn.solvers.preconditioners import chebyshev, lu, multigrid
from pdgnn.solvers.problem import Component, ComponentProblem
from pdgnn.solvers.sweep import MOST_VECTORS, MOST_VECTORS_EACH, sweep

GAMMAS = [i / 10 for i in range(10)]
GRAPHS = {
    "grid": Graph.from_networkx(nx.grid_2d_graph(17, 15)),
    "hubs": Graph.from_networkx(nx.barabasi_albert_graph(400, 3, seed=3)),
    "lobes": lobes([20, 22, 27, 30], paths=2, length=40),
    "leaders": three_leaders(3),
    "spider": spider(3, 70),
}


def exact(g: Graph, gamma: float, which: slice) -> torch.Tensor:
    """Eigenvectors ``[n, s]`` beyond the trivial one, as y = M^(−½) u."""
    u = np.linalg.eigh(symmetric(g, gamma))[1][:, 1:][:, which]
    return torch.from_numpy(u / np.sqrt(gamma * g.degree + 1 - gamma)[:, None])


def swept(
    g: Graph, known: torch.Tensor, inverse=None, *, wanted=1, guards=2, seed=0, gammas=GAMMAS
):
    return sweep(
        Component(g.adjacency()),
        inverse or lu(g.adjacency()),
        known,
        gammas,
        wanted=wanted,
        guards=guards,
        generator=torch.Generator().manual_seed(seed),
        tol=1e-8,
    )


def check(found, g: Graph, wanted: int = 1) -> None:
    """Values and the projector onto the eigenspaces, which no choice of basis changes."""
    for gamma, pairs in found.items():
        assert pairs.converged
        c = pairs.complete
        values, vectors = np.linalg.eigh(symmetric(g, gamma))
        np.testing.assert_allclose(pairs.values[:c], values[1 : c + 1], rtol=1e-9)
        assert c >= wanted
        assert values[c + 1] - values[c] > 1e-9 * values[c + 1]
        u, v = pairs.vectors[:, :c].numpy(), vectors[:, 1 : c + 1]
        assert np.abs(u @ (u.T @ v) - v).max() < 1e-7
        np.testing.assert_allclose(u.T @ u, np.eye(c), atol=1e-10)
        trivial = ComponentProblem(Component(g.adjacency()), gamma).trivial.numpy()
        assert np.abs(trivial @ u).max() < 1e-10


@pytest.mark.parametrize("wanted", [1, 3])
@pytest.mark.parametrize("name", GRAPHS)
def test_all_gammas(name, wanted):
    g = GRAPHS[name]
    found = swept(g, exact(g, 1.0, slice(0, wanted + 1)), wanted=wanted, guards=4)
    check(found, g, wanted)
    assert name == "hubs" or sorted(found) == GAMMAS  # of hubs, half the space would be needed


@pytest.mark.parametrize("kind", ["multigrid", "polynomial"])
def test_inexact_inverses(kind):
    for name in ("grid", "hubs"):
        g = GRAPHS[name]
        inverse = (
            multigrid(g.adjacency())
            if kind == "multigrid"
            else chebyshev(Component(g.adjacency()), 0.2, times=2)
        )
        found = swept(g, exact(g, 1.0, slice(0, 2)), inverse)
        check(found, g)
        assert name == "hubs" or sorted(found) == GAMMAS


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", GRAPHS)
def test_vectors_of_other_pairs_hide_nothing(name, seed):
    """What is known lies above the wanted pairs: only the random vectors can show these."""
    g = GRAPHS[name]
    check(swept(g, exact(g, 1.0, slice(8, 14)), guards=4, seed=seed), g)


def test_more_copies_than_guards_are_left_out():
    g = spider(6, 50)  # five copies at every γ
    assert swept(g, exact(g, 1.0, slice(0, 1))) == {}
    found = swept(g, exact(g, 1.0, slice(0, 6)), guards=6)
    check(found, g)
    assert [pairs.complete for pairs in found.values()] == [5] * len(GAMMAS)


def test_an_expander_is_left_before_the_basis_is_full():
    """Its eigenvalues lie so close that a weak inverse hardly improves a pair."""
    g, vectors = Graph.from_networkx(nx.barabasi_albert_graph(1500, 3, seed=1)), []
    weak = chebyshev(Component(g.adjacency()), 0.3)
    inverse = lambda y: vectors.append(y.shape[1]) or weak(y)  # noqa: E731
    start = torch.randn(1500, 1, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    assert swept(g, start, inverse, guards=1) == {}
    assert sum(vectors) < (MOST_VECTORS + 2 * MOST_VECTORS_EACH) / 2


@pytest.mark.parametrize("weight", [1e-15, 1e30])
def test_the_unit_of_the_weights_does_not_matter(weight):
    grid = GRAPHS["grid"]
    g = Graph.from_edge_index(grid.edge_index, edge_weight=weight * grid.edge_weight)
    for gamma in (0.0, 1.0):
        scale = weight if gamma == 0 else 1.0
        pairs = swept(g, exact(grid, 1.0, slice(0, 2)), gammas=[gamma])[gamma]
        expected = by_hand(grid, gamma).eigenvalues
        np.testing.assert_allclose(pairs.values[:1], scale * expected, rtol=1e-8)


def test_what_is_left_out_is_solved_alone(monkeypatch):
    g, asked = GRAPHS["grid"], []
    monkeypatch.setattr(component, "sweep", lambda *a, **_: asked.append(sorted(a[3])) or {})
    found = eigenpairs_path(g, [1.0, 0.5, 0.0])
    assert asked == [[0.0, 0.5]]
    for s in found:
        assert vector_error(s.u, by_hand(g, s.gamma).u) < 1e-6


@pytest.mark.parametrize("k", [component.SWEPT_PAIRS, 8])
def test_many_pairs_are_solved_alone_at_each_gamma(monkeypatch, k):
    monkeypatch.setattr(component, "sweep", lambda *_, **__: pytest.fail("not for many pairs"))
    g = GRAPHS["hubs"]
    solver = ComponentSolver(g.adjacency(), k=k, gammas=(1.0, 0.5))
    for gamma in (1.0, 0.5):
        np.testing.assert_allclose(
            solver.solve(gamma).values[0], by_hand(g, gamma, k).eigenvalues, rtol=1e-9
        )


def test_dense_components_at_a_gamma_each():
    matrices = np.stack([nx.to_numpy_array(nx.path_graph(7)), nx.to_numpy_array(nx.cycle_graph(7))])
    together = dense_pairs(np.tile(matrices, (3, 1, 1)), np.repeat([0.0, 0.4, 1.0], 2), k=3)
    for i, gamma in enumerate([0.0, 0.4, 1.0]):
        alone, part = dense_pairs(matrices, gamma, k=3), together.part(slice(2 * i, 2 * i + 2))
        np.testing.assert_allclose(part.values, alone.values, rtol=1e-12)
        np.testing.assert_allclose(part.vectors, alone.vectors, atol=1e-12)
        assert (part.multiplicity == alone.multiplicity).all()
