"""A path of γ gives what separate solves give, also where eigenvalues cross on the way."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
import torch

from oracle import ITERATIVE, by_hand, lobes, spider, three_leaders, vector_error
from pdgnn import Graph, datasets, eigenpairs, eigenpairs_path

SOLVERS = ("auto", *ITERATIVE)
GRID = [1.0, 0.8, 0.6, 0.4, 0.3, 0.2, 0.1, 0.05, 0.02, 0.01, 0.0]
# Two cliques and two paths, each pair exchanged by a symmetry of its own.
CROSSING = lobes([45, 45], paths=2, length=45)
CLIQUES, PATHS = slice(8, 98), slice(98, 188)


def check(found, g: Graph, gammas, k: int = 1) -> None:
    assert len(found) == len(gammas)
    for s, gamma in zip(found, gammas, strict=True):
        expected = by_hand(g, gamma, k)
        assert s.gamma == gamma
        np.testing.assert_allclose(s.eigenvalues, expected.eigenvalues, rtol=1e-10)
        assert s.multiplicity == expected.multiplicity
        assert vector_error(s.u, expected.u) < 1e-6


# The same as separate solves


@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize(
    "graph",
    [nx.grid_2d_graph(14, 13), nx.hypercube_graph(8), nx.barabasi_albert_graph(400, 3, seed=3)],
    ids=["grid", "hypercube", "hubs"],
)
def test_equals_separate_solves(graph, solver, k):
    g = Graph.from_networkx(graph)
    gammas = [1.0, 0.6, 0.2, 0.0]
    for s in eigenpairs_path(g, gammas, k=k, solver=solver):
        alone = eigenpairs(g, gamma=s.gamma, k=k, solver=solver)
        np.testing.assert_allclose(s.eigenvalues, alone.eigenvalues, rtol=1e-10)
        assert vector_error(s.u, alone.u) < 1e-6
        assert (s.m == alone.m).all()
        assert s.multiplicity == alone.multiplicity
        np.testing.assert_allclose(s.gap, alone.gap, rtol=0.1)
        assert s.solver == alone.solver == ("lu" if solver == "auto" else solver)


def test_components_of_all_sizes():
    parts = [nx.path_graph(250), nx.cycle_graph(180), nx.star_graph(5), nx.empty_graph(2)]
    g = Graph.from_networkx(nx.disjoint_union_all(parts))
    gammas = [0.0, 0.5, 1.0]
    for s in eigenpairs_path(g, gammas, k=2):
        expected = by_hand(g, s.gamma, 2)
        np.testing.assert_allclose(
            s.component_eigenvalues, expected.component_eigenvalues, rtol=1e-9
        )
        assert vector_error(s.u, expected.u) < 1e-6


def test_the_order_given_is_the_order_returned():
    gammas = [0.25, 1.0, 0.0, 0.25, 0.75, 1.0]
    for g in (Graph.from_edge_index([[0, 1], [1, 2]]), spider(3, 60)):
        found = eigenpairs_path(g, gammas)
        assert [s.gamma for s in found] == gammas
        assert (found[0].u == found[3].u).all()
        check(found, g, gammas)


@pytest.mark.parametrize(
    "gammas",
    [(x for x in (1, 0.5)), np.array([1.0, 0.5]), torch.tensor([1.0, 0.5]), (1, "0.5")],
    ids=["generator", "array", "tensor", "text"],
)
def test_any_kind_of_numbers(gammas):
    assert [s.gamma for s in eigenpairs_path(spider(2, 3), gammas)] == [1.0, 0.5]


def test_no_gammas():
    assert eigenpairs_path(spider(2, 3), []) == []


def test_gammas_that_nearly_agree():
    g = spider(3, 60)
    gammas = [1.0, 1.0 - 1e-15, 1.0 - 1e-12, 0.5, 0.5 + 1e-9, 1e-3, 0.0]
    check(eigenpairs_path(g, gammas, k=2), g, gammas, k=2)


def test_progress_is_told_of_each():
    told = []
    found = eigenpairs_path(spider(3, 60), [0.0, 1.0, 0.5, 1.0], progress=told.append)
    assert sorted(s.gamma for s in told) == [0.0, 0.5, 1.0]
    assert {id(s) for s in told} == {id(s) for s in found}


# Crossings


def test_the_first_eigenvector_changes_its_class():
    """What the tests below rest on: three symmetry classes lead in turn."""

    def shares(gamma: float) -> tuple[float, float, float]:
        u = by_hand(CROSSING, gamma).u[:, 0]
        left, right = u[PATHS].reshape(2, -1)
        return float(u[CLIQUES] @ u[CLIQUES]), float(u[PATHS] @ u[PATHS]), float(left @ right)

    cliques, paths, _ = shares(1.0)
    assert cliques > 0.999
    assert paths < 1e-9
    _, paths, parity = shares(0.5)
    assert paths > 0.9
    assert parity > 0.4  # both paths alike
    _, paths, parity = shares(0.0)
    assert paths > 0.999
    assert parity < -0.49  # one against the other


@pytest.mark.parametrize("k", [1, 2])
@pytest.mark.parametrize("solver", SOLVERS)
def test_the_lowest_is_followed_through_crossings(solver, k):
    check(eigenpairs_path(CROSSING, GRID, k=k, solver=solver), CROSSING, GRID, k)
    ends = [1.0, 0.0]
    check(eigenpairs_path(CROSSING, ends, k=k, solver=solver), CROSSING, ends, k)


@pytest.mark.parametrize(("k", "seed"), [(1, 0), (3, 0), (3, 1)])
@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("paths", [1, 3, 8])
def test_an_eigenspace_that_comes_from_far_above(paths, solver, k, seed):
    """At γ = 1 twelve cliques lead; at γ = 0 the paths do, which repeat `paths` − 1 times."""
    g = lobes([*range(25, 37)], paths=paths, length=20)
    gammas = [1.0, 0.01, 0.0]
    check(eigenpairs_path(g, gammas, k=k, solver=solver, seed=seed), g, gammas, k)


@pytest.mark.parametrize("solver", SOLVERS)
def test_many_small_steps_lose_no_copy(solver):
    """Each solve starts from clean vectors, in which a copy that rises has hardly any part."""
    g = lobes([*range(30, 38)], paths=3, length=28)
    check(eigenpairs_path(g, GRID, solver=solver), g, GRID)


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("solver", SOLVERS)
def test_an_eigenspace_that_leads_in_the_middle_alone(solver, k):
    """Neither end of the path has a reason to know of it."""
    g = three_leaders(8)
    gammas = [1.0, 0.4, 0.2, 0.0]
    assert [by_hand(g, gamma, k).multiplicity for gamma in gammas] == [2, 7, 7, 1]
    check(eigenpairs_path(g, gammas, k=k, solver=solver), g, gammas, k)


def one_lobe(rng: np.random.Generator) -> nx.Graph:
    kind, n = rng.integers(0, 6), int(rng.integers(8, 40))
    if kind == 4:
        degree = int(rng.choice([3, 4, 5, 6]))
        return nx.random_regular_graph(degree, 2 * (n // 2), seed=int(rng.integers(1e6)))
    make = [nx.complete_graph, nx.path_graph, nx.cycle_graph, lambda _: nx.star_graph(min(n, 12))]
    return nx.balanced_tree(2, 4) if kind == 5 else make[kind](n)


def many_lobes(seed: int) -> Graph:
    """A core of 8 nodes with random lobes, each there up to nine times: as many symmetries."""
    rng = np.random.default_rng(seed)
    graph = nx.complete_graph(8)
    while graph.number_of_nodes() < 220:
        lobe, copies = one_lobe(rng), int(rng.choice([1, 1, 2, 2, 3, 5, 9]))
        joint = int(rng.integers(0, 8))
        for _ in range(copies):
            start = graph.number_of_nodes()
            graph.add_edges_from((start + i, start + j) for i, j in lobe.edges)
            graph.add_edge(joint, start)
    return Graph.from_networkx(graph)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize(
    ("seed", "copies", "k"),
    [
        (42, [2, 2, 1], 1),
        (46, [4, 4, 1], 1),
        (48, [1, 1, 8], 2),
        (49, [1, 1, 2], 1),  # the next eigenvalue is 0.6 % above
        (53, [4, 1, 4], 3),
        (59, [1, 1, 8], 1),
        (127, [4, 8, 8], 1),
    ],
)
def test_copies_that_come_and_go(seed, copies, k, solver):
    """Sharp vectors of another symmetry stand guard where a copy is still missing."""
    g = many_lobes(seed)
    assert [by_hand(g, gamma, k).multiplicity for gamma in (1.0, 0.3, 0.0)] == copies
    for start, gammas in enumerate([[1.0, 0.0], [0.3, 0.0, 1.0, 0.01]]):
        check(eigenpairs_path(g, gammas, k=k, solver=solver, seed=start), g, gammas, k)


@pytest.mark.parametrize("solver", ["lanczos", "lu", "amg"])
def test_a_second_copy_at_the_only_other_gamma(solver):
    """Few γ share few probes; each of these seeds has to see it."""
    g = many_lobes(49)
    for seed in range(20):
        found = eigenpairs_path(g, [1.0, 0.0], solver=solver, seed=seed)
        assert [s.multiplicity for s in found] == [1, 2]


@pytest.mark.parametrize(("paths", "k"), [(8, 1), (8, 2), (3, 1)])
def test_progress_is_told_of_nothing_wrong(paths, k):
    g = lobes([*range(25, 37)], paths=paths, length=20)
    told = []
    found = eigenpairs_path(g, [1.0, 0.01, 0.0], k=k, progress=told.append)
    assert [s.gamma for s in told] == [1.0, 0.0, 0.01]  # the ends first
    assert {id(s) for s in told} == {id(s) for s in found}
    check(told, g, [1.0, 0.0, 0.01], k)


def test_minesweeper_keeps_both_copies():
    g = Graph.from_data(datasets.minesweeper(size=13, seed=1))
    gammas = [1.0, 0.7, 0.4, 0.1, 0.0]
    found = eigenpairs_path(g, gammas)
    assert [s.multiplicity for s in found] == [2] * 5
    check(found, g, gammas)
