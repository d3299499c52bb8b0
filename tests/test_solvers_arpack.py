"""ARPACK on graphs whose eigenvalues repeat, come in clusters, or lie close together."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
import torch

from oracle import by_hand, lobes, spider, three_leaders, vector_error
from pdgnn import Graph, InputError, eigenpairs
from pdgnn.solvers import component
from pdgnn.solvers.arpack import EARLIEST, _extended, arpack
from pdgnn.solvers.copies import is_whole
from pdgnn.solvers.davidson import Pairs
from pdgnn.solvers.lanczos import Lanczos
from pdgnn.solvers.preconditioners import lu
from pdgnn.solvers.problem import Component, ComponentProblem

GRAPHS = {
    "cycle": Graph.from_networkx(nx.cycle_graph(200)),
    "square grid": Graph.from_networkx(nx.grid_2d_graph(13, 13)),
    "cubic grid": Graph.from_networkx(nx.grid_graph([6, 6, 6])),
    "square torus": Graph.from_networkx(nx.grid_2d_graph(13, 13, periodic=True)),
    "hypercube": Graph.from_networkx(nx.hypercube_graph(8)),
    "tree": Graph.from_networkx(nx.balanced_tree(2, 7)),
    "spider": spider(5, 40),
    "lobes": lobes([20] * 8, paths=3, length=14),
    "leaders": three_leaders(3),
    "hubs": Graph.from_networkx(nx.barabasi_albert_graph(300, 2, seed=1)),
    "regular": Graph.from_networkx(nx.random_regular_graph(4, 300, seed=2)),
    "small world": Graph.from_networkx(nx.connected_watts_strogatz_graph(300, 4, 0.1, seed=1)),
}


def found(g: Graph, gamma: float, k: int, *, inverse: bool, seed: int = 0, **options):
    problem = ComponentProblem(Component(g.adjacency()), gamma)
    return arpack(
        problem,
        lu(g.adjacency()) if inverse else None,
        k=k,
        tol=1e-8,
        generator=torch.Generator().manual_seed(seed),
        most=20_000,
        **options,
    )


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("inverse", [False, True])
@pytest.mark.parametrize("name", GRAPHS)
def test_what_is_called_whole_is_whole(name, inverse, seed):
    """Either every copy is there, or the answer says that it is not separated."""
    g = GRAPHS[name]
    for gamma, k in ((1.0, 1), (0.6, 3), (1.0, 6)):
        pairs = found(g, gamma, k, inverse=inverse, seed=seed)
        if not pairs.converged:
            continue
        expected = by_hand(g, gamma, pairs.complete + 1).eigenvalues
        np.testing.assert_allclose(pairs.values[: pairs.complete], expected[:-1], rtol=1e-9)
        assert expected[-1] > expected[-2] * (1 + 1e-9)
        u = pairs.vectors[:, : pairs.complete]
        np.testing.assert_allclose(u.T @ u, np.eye(pairs.complete), atol=1e-10)


@pytest.mark.parametrize("inverse", [False, True])
@pytest.mark.parametrize("name", ["hubs", "regular", "small world", "square grid", "cycle"])
def test_ordinary_graphs_are_solved(name, inverse):
    assert found(GRAPHS[name], 1.0, 3, inverse=inverse).converged


@pytest.mark.parametrize("seed", range(3))
def test_many_pairs_of_an_inverse_are_as_sharp_as_one(seed):
    """What rounding adds of the trivial vector must not be enlarged, step after step."""
    g = Graph.from_networkx(nx.barabasi_albert_graph(800, 3, seed=seed))
    pairs = found(g, 1.0, 32, inverse=True, seed=seed)
    assert pairs.converged
    assert float(pairs.residuals[:32].max()) < 1e-10


def test_nothing_is_tried_where_many_steps_are_foreseen():
    path = Graph.from_networkx(nx.path_graph(3000))
    pairs = found(path, 1.0, 1, inverse=False, limit=600.0)
    assert pairs.iterations == 21
    assert pairs.complete == 0
    assert not pairs.converged


def test_the_number_of_products_is_kept():
    problem = ComponentProblem(Component(GRAPHS["lobes"].adjacency()), 1.0)
    generator = torch.Generator().manual_seed(0)
    pairs = arpack(problem, None, k=1, tol=1e-8, generator=generator, most=30)
    assert not pairs.converged


def test_lanczos_finds_the_ends_of_the_spectrum():
    a = np.diag(np.linspace(0.0, 1.0, 60))
    a[0, 0], a[-1, -1] = -1.0, 2.0
    matrix = torch.from_numpy(a)
    known = torch.eye(60, dtype=torch.float64)[-1:]  # without the largest
    v = torch.randn(60, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    process = Lanczos(lambda x: matrix @ x, known, v, 100)
    process.extend(100)
    theta, q = process.ritz()
    assert process.full
    np.testing.assert_allclose([theta[0], theta[-1]], [58 / 59, -1.0], atol=1e-8)
    vector = process.vectors(q[:, -1:])[:, 0]
    assert abs(abs(float(vector[0])) - 1) < 1e-8
    assert len(process.ritz(10)[0]) == 10


def spread(*top: float) -> tuple[Lanczos, torch.Tensor]:
    """A process on a diagonal matrix: a few eigenvalues on top, 500 well below."""
    rest = torch.linspace(-0.3, 0.3, 500, dtype=torch.float64)
    values = torch.cat([torch.tensor(top, dtype=torch.float64), rest])
    n = len(values)
    v = torch.randn(n, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    return Lanczos(lambda x: values * x, torch.zeros(0, n, dtype=torch.float64), v, 300), values


@pytest.mark.parametrize("steps", [0, 20, 30])
def test_a_residual_at_rounding_ends_the_process(steps):
    """Beyond it the first Ritz value has copies, and the distance to the next one says nothing."""
    process, _ = spread(1.0, 0.99)
    process.extend(steps)
    assert _extended(process, 1e-8, 300, 1, np.inf)
    assert process.size < max(20, steps) + 10
    assert process.top()[0][0] == pytest.approx(1.0, abs=1e-12)


def test_a_process_is_left_where_many_steps_are_foreseen():
    process, values = spread(*np.linspace(0.3, 1.0, 300))
    assert not _extended(process, 1e-8, 300, 1, worth=150)
    assert EARLIEST <= process.size < 150
    process, values = spread(*np.linspace(0.3, 1.0, 300))
    assert _extended(process, 1e-8, 300, 1, worth=np.inf)
    assert process.top()[0][0] == pytest.approx(float(values.max()), rel=1e-12)


@pytest.mark.parametrize("k", [1, 8, 64])
@pytest.mark.parametrize("gamma", [1.0, 0.5, 0.0])
def test_expanders_of_a_thousand_nodes(k, gamma):
    g = Graph.from_networkx(nx.barabasi_albert_graph(1000, 4, seed=5))
    s, expected = eigenpairs(g, gamma=gamma, k=k), by_hand(g, gamma, k)
    np.testing.assert_allclose(s.eigenvalues, expected.eigenvalues, rtol=1e-9)
    assert vector_error(s.u, expected.u) < 1e-5
    assert s.solver == "lanczos"


@pytest.mark.parametrize("gamma", [1.0, 0.3, 0.0])
@pytest.mark.parametrize("seed", range(8))
def test_the_gap_of_a_pair_found_long_before_the_next(seed, gamma):
    """λ1 of two blocks is found in a few steps, the edge of the others only in many."""
    sizes, share = [170 + 20 * seed, 230], 0.004 * (seed + 1)
    g = Graph.from_networkx(
        nx.stochastic_block_model(sizes, [[0.1, share], [share, 0.1]], seed=seed)
    )
    s, expected = eigenpairs(g, gamma=gamma, solver="lanczos", seed=seed), by_hand(g, gamma)
    np.testing.assert_allclose(s.eigenvalues, expected.eigenvalues, rtol=1e-9)
    np.testing.assert_allclose(s.gap, expected.gap, rtol=0.1)
    assert vector_error(s.u, expected.u) < 1e-6


@pytest.mark.parametrize("beside", [1, 8])
def test_rough_pairs_beside_one(beside):
    """As many as were asked for, above the one that was wanted, or one where these are unseen."""
    for name in ("hubs", "small world", "lobes", "square grid"):
        pairs = found(GRAPHS[name], 1.0, 1, inverse=False, beside=beside)
        expected = by_hand(GRAPHS[name], 1.0, 20).eigenvalues
        more = pairs.values.numel()
        assert 2 <= more <= max(1 + beside, pairs.complete + 1)
        assert (pairs.values.numpy() >= expected[:more] * (1 - 1e-9)).all()
        np.testing.assert_allclose(pairs.values[0], expected[0], rtol=1e-9)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("solver", ["lanczos", "lu"])
@pytest.mark.parametrize("name", ["cycle", "cubic grid", "hypercube", "tree", "spider", "lobes"])
def test_no_copy_is_missed_when_arpack_is_first(monkeypatch, name, solver, seed):
    monkeypatch.setattr(component, "ARPACK_NODES", 0)
    g = GRAPHS[name]
    for k in (1, 4):
        s, expected = eigenpairs(g, k=k, solver=solver, seed=seed), by_hand(g, 1.0, k)
        np.testing.assert_allclose(s.eigenvalues, expected.eigenvalues, rtol=1e-9)
        assert s.multiplicity == expected.multiplicity
        assert vector_error(s.u, expected.u) < 1e-5


@pytest.mark.parametrize("turns", [1, 3, 5])
@pytest.mark.parametrize("seed", range(4))
def test_a_block_of_vectors_finds_copies_that_the_search_has_not(monkeypatch, seed, turns):
    """It has to begin from other random vectors than those that the search has used up."""
    monkeypatch.setattr("pdgnn.solvers.copies.MOST_TURNS", turns)
    for dimension in (8, 9):
        g = Graph.from_networkx(nx.hypercube_graph(dimension))
        for gamma in (1.0, 0.3):
            s = eigenpairs(g, gamma=gamma, solver="lanczos", seed=seed, cache=False)
            assert s.multiplicity == dimension


@pytest.mark.parametrize("branches", [2, 3, 4, 5])
def test_many_copies_of_the_last_eigenvalue(monkeypatch, branches):
    """More of them lie beyond k than a block of vectors keeps track of."""
    monkeypatch.setattr(component, "DENSE_RESCUE_NODES", 0)
    monkeypatch.setattr(component, "MOST_COPIES", 4)
    node = np.arange(1, 900)
    g = Graph.from_edge_index(np.stack([node, (node - 1) // branches]))
    for k, gamma in ((8, 1.0), (20, 0.4)):
        s, expected = eigenpairs(g, gamma=gamma, k=k), by_hand(g, gamma, k)
        np.testing.assert_allclose(s.eigenvalues, expected.eigenvalues, rtol=1e-9)
        assert vector_error(s.u, expected.u) < 1e-5
        assert s.solver == "lu"


def test_a_pivot_of_zero_leaves_the_copies_to_a_block_of_vectors(monkeypatch):
    calls = []

    def singular(problem, value):
        calls.append(value)
        raise RuntimeError("Factor is exactly singular")

    monkeypatch.setattr("pdgnn.solvers.copies.inverse_near", singular)
    node = np.arange(1, 900)
    g = Graph.from_edge_index(np.stack([node, (node - 1) // 3]))
    s, expected = eigenpairs(g, k=8), by_hand(g, 1.0, 8)
    assert calls
    np.testing.assert_allclose(s.eigenvalues, expected.eigenvalues, rtol=1e-9)
    assert vector_error(s.u, expected.u) < 1e-5


# What a factorization counts


def pairs_at(g: Graph, gamma: float, places: list[int]):
    """The problem, these of its pairs without the last one, and that one."""
    problem = ComponentProblem(Component(g.adjacency()), gamma)
    values, vectors = np.linalg.eigh(problem.matrix.to_dense().numpy())
    value, u = torch.from_numpy(values[places]), torch.from_numpy(vectors[:, places])
    last, none = len(places) - 1, torch.zeros(len(places), dtype=torch.float64)
    taken = Pairs(value[:last], u[:, :last], none[:last], last, 0, separated=False, converged=False)
    return problem, taken, (value[last:], u[:, last:], none[last:])


@pytest.mark.parametrize("gamma", [1.0, 0.4, 0.0])
@pytest.mark.parametrize("name", GRAPHS)
def test_a_factorization_counts_every_copy(name, gamma):
    g = GRAPHS[name]
    values = by_hand(g, gamma, 12).eigenvalues
    v = torch.randn(g.num_nodes, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    for k in range(1, 12):
        apart = values[k] > values[k - 1] * (1 + 1e-6)
        assert is_whole(*pairs_at(g, gamma, list(range(1, k + 2))), v) == apart
        if apart and k > 1:  # without the k-th: whether a copy or not, it is missed
            assert not is_whole(*pairs_at(g, gamma, [*range(1, k), k + 1, k + 2]), v)


def test_what_a_bad_factorization_counts_is_not_believed(monkeypatch):
    problem, taken, guard = pairs_at(GRAPHS["hubs"], 1.0, [1, 2, 3])
    v = torch.randn(problem.n, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    assert is_whole(problem, taken, guard, v)
    monkeypatch.setattr("pdgnn.solvers.copies.inverse_near", lambda *_: (lambda u: 1.01 * u, 3))
    assert not is_whole(problem, taken, guard, v)


def test_nothing_is_searched_for_where_a_factorization_has_counted(monkeypatch):
    def search(*_, **__):
        raise AssertionError("a search was begun")

    monkeypatch.setattr("pdgnn.solvers.copies.Lanczos", search)
    assert found(GRAPHS["small world"], 1.0, 3, inverse=True).converged


# The tolerance


@pytest.mark.parametrize("tol", [1e-4, 1e-6, 1e-10])
def test_the_residual_is_below_the_tolerance_asked_for(tol):
    for graph in (nx.barabasi_albert_graph(800, 4, seed=1), nx.grid_2d_graph(30, 25)):
        s = eigenpairs(Graph.from_networkx(graph), k=4, tol=tol)
        assert (s.residuals <= tol).all()


@pytest.mark.parametrize("tol", [0.0, -1e-8, 1.0, 1e-15, np.nan, "1e-8", True])
def test_bad_tolerance(tol):
    with pytest.raises(InputError, match=r"tol must be a number in \[1e-10, 0\.01\]"):
        eigenpairs(GRAPHS["cycle"], tol=tol)
