"""One vector, whatever solver, seed and thread count found it; and every copy of an eigenvalue."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
import torch

from oracle import ITERATIVE, by_hand, lobes, relabelled, spider, vector_error
from pdgnn import Graph, eigenpairs
from pdgnn.solvers import component, davidson

# All larger than DENSE_NODES, so that "auto" iterates too; the number is that of copies of λ1.
FEW = {
    "cycle": (nx.cycle_graph(200), 2),
    "square grid": (nx.grid_2d_graph(13, 13), 2),
    "oblong grid": (nx.grid_2d_graph(10, 17), 1),
    "cubic grid": (nx.grid_graph([6, 6, 6]), 3),
    "square torus": (nx.grid_2d_graph(13, 13, periodic=True), 4),
    "oblong torus": (nx.grid_2d_graph(12, 14, periodic=True), 2),
    "hypercube": (nx.hypercube_graph(8), 8),
    "path": (nx.path_graph(200), 1),
    "tree": (nx.balanced_tree(2, 7), 1),
}
# More copies than the iterative solvers keep track of.
MANY = {
    "star": nx.star_graph(170),
    "complete": nx.complete_graph(170),
    "bipartite": nx.complete_bipartite_graph(80, 90),
}
GAMMAS = [0.0, 0.3, 1.0]


def graph(name: str) -> Graph:
    return Graph.from_networkx(FEW[name][0] if name in FEW else MANY[name])


def check(s, expected, tolerance: float = 1e-7) -> None:
    np.testing.assert_allclose(s.eigenvalues, expected.eigenvalues, rtol=1e-9)
    assert s.multiplicity == expected.multiplicity
    np.testing.assert_allclose(s.gap, expected.gap, rtol=0.1)  # as rough as the pair above λ1
    assert vector_error(s.u, expected.u) < tolerance


@pytest.mark.parametrize("gamma", GAMMAS)
@pytest.mark.parametrize("name", FEW)
def test_any_solver_and_seed(name, gamma):
    g = graph(name)
    expected = by_hand(g, gamma)
    assert expected.multiplicity == FEW[name][1]
    check(eigenpairs(g, gamma=gamma, solver="dense"), expected)
    for solver in ("auto", *ITERATIVE):
        for seed in range(3):
            s = eigenpairs(g, gamma=gamma, solver=solver, seed=seed)
            assert s.solver == ("lu" if solver == "auto" else solver)
            check(s, expected)
            assert (s.residuals <= 1e-8 * (max(g.degree) if gamma == 0 else 1)).all()


@pytest.mark.parametrize("solver", ITERATIVE)
def test_any_number_of_threads(monkeypatch, solver):
    monkeypatch.setattr(component, "ONE_THREAD_ENTRIES", 0)  # threads for small problems too
    g = graph("hypercube" if solver == "lanczos" else "cycle")  # a few steps each
    expected, before = by_hand(g, 0.3), torch.get_num_threads()
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            check(eigenpairs(g, gamma=0.3, solver=solver), expected)
            assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("gamma", GAMMAS)
@pytest.mark.parametrize("name", MANY)
def test_more_copies_than_can_be_tracked(name, gamma):
    g = graph(name)
    expected = by_hand(g, gamma, 2)
    assert expected.multiplicity >= 80
    for solver in ("auto", "dense", *ITERATIVE):
        s = eigenpairs(g, gamma=gamma, k=2, solver=solver)
        assert s.solver == "dense"
        np.testing.assert_allclose(s.eigenvalues, expected.eigenvalues, rtol=1e-12)
        assert s.multiplicity == expected.multiplicity
        assert vector_error(s.u, expected.u) < 1e-10


@pytest.mark.parametrize("name", [*FEW, *MANY])
def test_any_order_of_the_nodes(name):
    g = relabelled(graph(name), seed=5)
    expected = by_hand(g, 0.3)
    for solver in ("dense", *ITERATIVE):
        check(eigenpairs(g, gamma=0.3, solver=solver), expected)


@pytest.mark.parametrize("solver", ["dense", *ITERATIVE])
@pytest.mark.parametrize("dimension", range(3, 10))
def test_hypercubes_small_and_large(dimension, solver):
    g = Graph.from_networkx(nx.hypercube_graph(dimension))
    check(eigenpairs(g, gamma=0.3, solver=solver), by_hand(g, 0.3))


# Several pairs


@pytest.mark.parametrize("solver", ["auto", *ITERATIVE])
@pytest.mark.parametrize("name", ["square torus", "hypercube", "cubic grid", "cycle"])
def test_k_that_ends_inside_an_eigenspace(name, solver):
    g = graph(name)
    for gamma in (0.0, 1.0):
        expected = by_hand(g, gamma, 5)
        for k in (2, 3, 5):
            s = eigenpairs(g, gamma=gamma, k=k, solver=solver)
            assert s.solver == ("lu" if solver == "auto" else solver)
            np.testing.assert_allclose(s.eigenvalues, expected.eigenvalues[:k], rtol=1e-9)
            assert vector_error(s.u, expected.u[:, :k]) < 1e-6
            assert s.multiplicity == expected.multiplicity


@pytest.mark.parametrize("solver", ["auto", *ITERATIVE])
def test_64_pairs_in_a_few_hundred_steps(monkeypatch, solver):
    def short(*args, max_iterations: int, **options) -> davidson.Pairs:
        return davidson.davidson(*args, max_iterations=min(600, max_iterations), **options)

    monkeypatch.setattr(component, "davidson", short)
    g = Graph.from_networkx(nx.connected_watts_strogatz_graph(600, 4, 0.1, seed=1))
    s, expected = eigenpairs(g, gamma=0.5, k=64, solver=solver), by_hand(g, 0.5, 64)
    assert s.solver == ("lu" if solver == "auto" else solver)
    np.testing.assert_allclose(s.eigenvalues, expected.eigenvalues, rtol=1e-9)
    assert vector_error(s.u, expected.u) < 1e-6


def test_fewer_pairs_are_the_first_of_more():
    g = graph("hypercube")
    eight = eigenpairs(g, k=8)
    for k in (1, 4, 7):
        assert vector_error(eigenpairs(g, k=k).u, eight.u[:, :k]) < 1e-7


# Copies that are easily missed


@pytest.mark.parametrize("solver", ITERATIVE)
@pytest.mark.parametrize("n", [17, 18, 24, 40])
def test_a_named_solver_on_a_small_graph(n, solver):
    """The basis may not outgrow the space that it lies in."""
    for small in (nx.complete_graph(n), nx.star_graph(n - 1), nx.cycle_graph(n)):
        g = Graph.from_networkx(small)
        for k in (1, 3, n // 2, n - 3, n - 2):
            s, expected = eigenpairs(g, k=k, solver=solver), by_hand(g, 1.0, k)
            np.testing.assert_allclose(s.eigenvalues, expected.eigenvalues, rtol=1e-9)
            assert s.multiplicity == expected.multiplicity
            assert vector_error(s.u, expected.u) < 1e-6


@pytest.mark.parametrize(
    ("g", "gamma", "k", "solver", "seed"),
    [
        (spider(9, 20), 0.0, 3, "lanczos", 2),
        (spider(9, 20), 0.0, 3, "lanczos", 6),
        (spider(3, 60, 59), 1.0, 1, "lanczos", 5),
        (lobes([20] * 12, paths=4, length=14), 0.0, 1, "lu", 2),
        (lobes([20] * 12, paths=4, length=14), 0.0, 1, "amg", 2),
        (Graph.from_networkx(nx.balanced_tree(5, 3)), 0.0, 3, "amg", 0),
    ],
)
def test_no_copy_is_missed(g, gamma, k, solver, seed):
    """A guard that has a small part only of the missing copy looks like another eigenvalue."""
    s, expected = eigenpairs(g, gamma=gamma, k=k, solver=solver, seed=seed), by_hand(g, gamma, k)
    assert s.multiplicity == expected.multiplicity
    check(s, expected, 1e-6)


@pytest.mark.parametrize("solver", ["auto", *ITERATIVE])
@pytest.mark.parametrize("name", ["hypercube", "square torus", "spider"])
def test_k_just_below_the_number_of_copies(name, solver):
    """Then every copy but one or two is wanted, and the guard itself is one of them."""
    g = spider(9, 22) if name == "spider" else graph(name)
    copies = by_hand(g, 1.0).multiplicity
    expected = by_hand(g, 1.0, copies)
    for k in range(copies - 2, copies + 1):
        s = eigenpairs(g, k=k, solver=solver)
        assert s.multiplicity == copies
        assert vector_error(s.u, expected.u[:, :k]) < 1e-6


@pytest.mark.parametrize("solver", ITERATIVE)
@pytest.mark.parametrize("legs", [3, 5, 12, 30])
def test_no_copy_is_missed_at_any_seed(legs, solver):
    g = spider(legs, 180 // legs + 1)
    expected = by_hand(g, 0.5)
    assert expected.multiplicity == legs - 1
    for seed in range(3):
        check(eigenpairs(g, gamma=0.5, solver=solver, seed=seed), expected)


@pytest.mark.parametrize("solver", ["dense", *ITERATIVE])
@pytest.mark.parametrize("delta", [1e-3, 1e-5])
def test_two_eigenvalues_that_nearly_agree_are_two(delta, solver):
    """Legs of weight 1, 1 + δ and 1 − δ: λ1 and λ2 differ by about δ, relatively."""
    g = spider(3, 70)
    leg = (g.edge_index.max(dim=0).values - 1) // 70
    near = Graph.from_edge_index(g.edge_index, g.num_nodes, 1 + delta * (leg - 1).double())
    expected = by_hand(near, 0.0)
    assert expected.multiplicity == 1
    assert delta / 2 < expected.gap / expected.eigenvalues[0] < 2 * delta
    s = eigenpairs(near, gamma=0.0, solver=solver)
    assert s.multiplicity == 1
    np.testing.assert_allclose(s.gap, expected.gap, rtol=0.1)
    assert vector_error(s.u, expected.u) < 1e-6
