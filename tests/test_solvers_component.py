"""One component: the choice of a solver, and what happens where the first choice fails."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from oracle import by_hand, spider, symmetric, vector_error
from pdgnn import ConvergenceError, Graph, eigenpairs
from pdgnn.solvers import component
from pdgnn.solvers.component import ComponentSolver, dense_pairs
from pdgnn.solvers.problem import Component, ComponentProblem
from strategies import graphs

GAMMA = st.sampled_from([0.0, 0.5, 1.0]) | st.floats(0.01, 1.0)
GRID = Graph.from_networkx(nx.grid_2d_graph(15, 14))


def check(pairs, g: Graph, gamma: float, k: int = 1) -> None:
    expected = by_hand(g, gamma, k)
    np.testing.assert_allclose(pairs.values[0], expected.eigenvalues, rtol=1e-9)
    assert vector_error(pairs.vectors[0], expected.u) < 1e-6
    assert pairs.multiplicity.tolist() == [expected.multiplicity]


# The problem


@given(graphs(connected=True), GAMMA)
def test_the_operator_is_the_dense_matrix(g, gamma):
    problem, matrix = ComponentProblem(Component(g.adjacency()), gamma), symmetric(g, gamma)
    eye = torch.eye(g.num_nodes, dtype=torch.float64)
    np.testing.assert_allclose(problem.apply(eye).numpy(), matrix, atol=1e-13)
    assert np.abs(matrix @ problem.trivial.numpy()).max() < 1e-13
    assert abs(float(problem.trivial.norm()) - 1) < 1e-14
    values, vectors = np.linalg.eigh(matrix)
    assert values[-1] <= problem.norm * (1 + 1e-12)
    u = torch.from_numpy(vectors)
    np.testing.assert_allclose(problem.rayleigh(u), values, atol=1e-12)
    assert problem.residuals(torch.from_numpy(values), u).max() < 1e-12


@given(graphs(connected=True), st.floats(1e-6, 1.0))
def test_the_norm_bound_holds_and_is_not_far_off(g, gamma):
    top = np.linalg.eigvalsh(symmetric(g, gamma))[-1]
    bound = ComponentProblem(Component(g.adjacency()), gamma).norm
    assert top <= bound * (1 + 1e-12)
    assert bound <= 4 * g.num_nodes * top


# Dense


@given(graphs(connected=True), GAMMA, st.integers(1, 5))
def test_dense(g, gamma, k):
    k = min(k, g.num_nodes - 1)
    pairs = dense_pairs(g.adjacency().toarray()[None], gamma, k=k)
    check(pairs, g, gamma, k)
    assert pairs.solver == "dense"
    assert pairs.residuals.max() < 1e-12


def test_a_dense_batch_is_each_of_its_graphs():
    several = [nx.cycle_graph(6), nx.star_graph(5), nx.path_graph(6), nx.complete_graph(6)]
    matrices = np.stack([nx.to_numpy_array(g) for g in several])
    for gamma in (0.0, 0.3, 1.0):
        together = dense_pairs(matrices, gamma, k=3)
        for b, graph in enumerate(several):
            expected = by_hand(Graph.from_networkx(graph), gamma, 3)
            np.testing.assert_allclose(together.values[b], expected.eigenvalues, rtol=1e-12)
            np.testing.assert_allclose(together.vectors[b], expected.u, atol=1e-10)
            assert together.multiplicity[b] == expected.multiplicity
            np.testing.assert_allclose(together.gap[b], expected.gap, rtol=1e-10)


@given(st.lists(graphs(connected=True, max_nodes=9), min_size=1, max_size=4), GAMMA)
def test_components_of_several_sizes_filled_up(several, gamma):
    """Rows of 0 make them one size; what is left of the answer is each graph's own."""
    sizes = np.array([g.num_nodes for g in several])
    n, k = int(sizes.max()) + 1, 3
    matrices = np.zeros((len(several), n, n))
    for b, g in enumerate(several):
        matrices[b, : sizes[b], : sizes[b]] = g.adjacency().toarray()
    together = dense_pairs(matrices, gamma, k=k, sizes=sizes)
    for b, g in enumerate(several):
        expected = by_hand(g, gamma, k)
        width = min(k, n - 1)
        np.testing.assert_allclose(together.values[b], expected.eigenvalues[:width], rtol=1e-9)
        assert vector_error(together.vectors[b, : sizes[b]], expected.u[:, :width]) < 1e-7
        assert (together.vectors[b, sizes[b] :] == 0).all()
        assert together.multiplicity[b] == expected.multiplicity
        np.testing.assert_allclose(together.gap[b], expected.gap, rtol=1e-7)
        assert together.residuals[b].max() < 1e-12 * max(1.0, g.degree.max())


# The choice


@pytest.mark.parametrize(
    ("n", "k", "expected"), [(160, 1, "dense"), (161, 1, "lu"), (300, 80, "dense")]
)
def test_small_components_are_solved_densely(n, k, expected):
    g = Graph.from_networkx(nx.path_graph(n))
    assert eigenpairs(g, k=k).solver == expected


@pytest.fixture
def no_lu(monkeypatch) -> None:
    """Every factorization counts as too costly, and none may be made."""
    monkeypatch.setattr(component, "LU_FIRST_COST", 0.0)
    monkeypatch.setattr(component, "LU_COST", 0.0)
    monkeypatch.setattr(component, "lu", lambda _: pytest.fail("this is too costly"))


def test_a_costly_factorization_is_not_made(no_lu):
    pairs = ComponentSolver(GRID.adjacency(), k=1).solve(1.0)
    check(pairs, GRID, 1.0)
    assert pairs.solver == "lanczos"


def test_multigrid_takes_over_where_lanczos_is_slow(no_lu, monkeypatch):
    monkeypatch.setattr(component, "LANCZOS_STEPS", -15)  # 5 steps, with 20 more for each pair
    solver = ComponentSolver(GRID.adjacency(), k=1)
    for gamma in (1.0, 0.4, 0.0):
        pairs = solver.solve(gamma)
        assert pairs.solver == "amg"
        check(pairs, GRID, gamma)


def test_an_affordable_factorization_takes_over_where_lanczos_is_slow(monkeypatch):
    monkeypatch.setattr(component, "LU_FIRST_COST", 0.0)
    monkeypatch.setattr(component, "LANCZOS_STEPS", -15)
    solver = ComponentSolver(GRID.adjacency(), k=1)
    for gamma in (1.0, 0.4, 0.0):
        pairs = solver.solve(gamma)
        assert pairs.solver == "lu"
        check(pairs, GRID, gamma)


def test_lu_does_not_work_on_the_device_that_looked_ahead(monkeypatch):
    """A long chain on a GPU is left to LU on the CPU, with a component of its own there."""
    devices, made = [], component.Component

    def on_cpu(adjacency, device=None):
        devices.append(device)
        return made(adjacency)

    monkeypatch.setattr(component, "Component", on_cpu)
    ring = Graph.from_networkx(nx.circular_ladder_graph(component.LOOK_NODES // 2)).adjacency()
    solver = ComponentSolver(ring, k=1, device=torch.device("cuda"))
    assert solver._look.process.size > 0
    assert devices == [torch.device("cuda"), None]
    assert solver.solve(1.0).solver == "lu"


def test_a_long_chain_is_not_tried_by_lanczos(no_lu, monkeypatch):
    """λ2 − λ1 is about 1e-6: Lanczos would take thousands of steps, and is foreseen to."""
    steps = []
    real = component.davidson
    monkeypatch.setattr(
        component, "davidson", lambda *a, **o: steps.append(real(*a, **o)) or steps[-1]
    )
    n = 5000
    s = eigenpairs(Graph.from_networkx(nx.path_graph(n)), gamma=0.0)
    assert s.solver == "amg"
    assert [pairs.iterations < 50 for pairs in steps] == [True]
    u = np.sqrt(2 / n) * np.cos(np.pi * (np.arange(n) + 0.5) / n)
    assert vector_error(s.u[:, 0], u) < 1e-6


@pytest.mark.parametrize("solver", ["lanczos", "lu", "amg"])
def test_a_named_solver_is_never_replaced_by_another_iterative_one(monkeypatch, solver):
    monkeypatch.setattr(component, "LANCZOS_STEPS", 1)
    pairs = ComponentSolver(GRID.adjacency(), k=2, solver=solver).solve(0.5)
    assert pairs.solver == solver
    check(pairs, GRID, 0.5, 2)


def test_the_factorization_is_made_once(monkeypatch):
    made = []
    real = component.lu
    monkeypatch.setattr(component, "lu", lambda a: made.append(1) or real(a))
    solver = ComponentSolver(GRID.adjacency(), k=1)
    for gamma in (1.0, 0.7, 0.3, 0.0):
        check(solver.solve(gamma), GRID, gamma)
    assert made == [1]


# Where nothing converges


@pytest.mark.parametrize("solver", ["lanczos", "lu", "amg"])
def test_steps_that_run_out_are_an_error(monkeypatch, solver):
    """A component too large for a dense rescue."""
    real = component.davidson
    monkeypatch.setattr(
        component, "davidson", lambda *a, **o: real(*a, **{**o, "max_iterations": 2})
    )
    monkeypatch.setattr(component, "DENSE_RESCUE_NODES", 0)
    with pytest.raises(ConvergenceError, match=rf"after 2 steps of {solver} .*of 210 nodes"):
        ComponentSolver(GRID.adjacency(), k=1, solver=solver).solve(1.0)


def test_steps_that_run_out_on_a_small_component_are_made_good_densely(monkeypatch):
    real = component.davidson
    monkeypatch.setattr(
        component, "davidson", lambda *a, **o: real(*a, **{**o, "max_iterations": 0})
    )
    pairs = ComponentSolver(GRID.adjacency(), k=1).solve(0.3)
    assert pairs.solver == "dense"
    check(pairs, GRID, 0.3)


def test_too_many_copies_on_a_large_component_are_an_error(monkeypatch):
    monkeypatch.setattr(component, "DENSE_RESCUE_NODES", 0)
    with pytest.raises(
        ConvergenceError, match=r"λ = \S+ repeats more than \d+ times on a component"
    ):
        eigenpairs(spider(90, 3))


def test_threads_are_put_back_after_an_error(monkeypatch):
    monkeypatch.setattr(component, "RESIDUAL_TOLERANCE", 0.0)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with pytest.raises(ConvergenceError):
            ComponentSolver(GRID.adjacency(), k=1).solve(1.0)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
