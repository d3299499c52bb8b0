"""Real graphs: every solver that suits one finds the same vector, with a small residual."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from oracle import vector_error
from pdgnn import Graph, datasets, eigenpairs, eigenpairs_path

# Solvers besides "auto"; an LU of tolokers or PubMed fills in, which takes minutes.
OTHERS = {
    "cora": ("lanczos", "lu", "amg"),
    "citeseer": ("lanczos", "lu", "amg"),
    "pubmed": ("lanczos", "amg"),
    "minesweeper": ("lanczos", "lu", "amg"),
    "tolokers": ("lanczos", "amg"),
    "squirrel-filtered": ("lanczos", "lu", "amg"),
    "chameleon-filtered": ("lanczos", "lu", "amg"),
}
GAMMAS = (1.0, 0.5, 0.0)


@cache
def real_graph(root: Path, name: str) -> Graph:
    return Graph.from_data(datasets.load(name, root=root))


def chain_with_chords(n: int = 22_662) -> Graph:
    """A chain of sentences, so to speak: words in a row, and links to words nearby."""
    rng = np.random.default_rng(0)
    word = np.arange(n - 1)
    first = rng.integers(0, n - 12, n // 2)
    ends = np.stack([np.r_[word, first], np.r_[word + 1, first + rng.integers(2, 12, n // 2)]])
    return Graph.from_edge_index(ends, n)


def measured_residual(g: Graph, s) -> float:
    """‖S u − λ u‖, the largest over the components, with S built here and not by the solver."""
    a = g.adjacency()
    root = sp.diags_array(s.m**-0.5 if s.gamma else np.ones(g.num_nodes))
    matrix = (s.gamma or 1.0) * (root @ (sp.diags_array(g.degree) - a) @ root)
    values = np.nan_to_num(s.component_eigenvalues[:, 0])[g.components]
    away = matrix @ s.u[:, 0] - values * s.u[:, 0]
    return float(np.sqrt(np.bincount(g.components, away**2)).max())


def check(g: Graph, s) -> None:
    limit = 1e-8 * (max(1.0, g.degree.max()) if s.gamma == 0 else 1.0)
    assert measured_residual(g, s) <= limit
    assert s.residuals[0] <= limit
    length = np.bincount(g.components, s.u[:, 0] ** 2)
    size = np.bincount(g.components)
    np.testing.assert_allclose(length, size > 1, atol=1e-10)
    overlap = np.bincount(g.components, s.u[:, 0] * np.sqrt(s.m))
    assert np.abs(overlap).max() < 1e-9 * np.sqrt(s.m.sum())


def component_error(g: Graph, u: np.ndarray, expected: np.ndarray) -> float:
    """The largest difference in any component, relative to the largest entry there."""
    away, top = np.zeros(g.num_components), np.zeros(g.num_components)
    np.maximum.at(away, g.components, np.abs(u - expected))
    np.maximum.at(top, g.components, np.abs(expected))
    return float((away[top > 0] / top[top > 0]).max())


@pytest.mark.parametrize("gamma", GAMMAS)
@pytest.mark.parametrize("name", OTHERS)
def test_all_solvers_agree(data_root, name, gamma):
    g = real_graph(data_root, name)
    auto = eigenpairs(g, gamma=gamma, cache=False)
    check(g, auto)
    assert auto.multiplicity == (2 if name == "minesweeper" else 1)
    for solver in OTHERS[name]:
        s = eigenpairs(g, gamma=gamma, solver=solver, seed=1)
        assert s.solver == solver
        check(g, s)
        np.testing.assert_allclose(
            s.component_eigenvalues, auto.component_eigenvalues, rtol=1e-8, atol=1e-13
        )
        assert s.multiplicity == auto.multiplicity
        assert component_error(g, s.u[:, 0], auto.u[:, 0]) < 1e-6


@pytest.mark.parametrize("name", ["cora", "minesweeper", "chameleon-filtered", "tolokers"])
def test_a_path_of_gammas_is_separate_solves(data_root, name):
    g = real_graph(data_root, name)
    for s in eigenpairs_path(g, [0.0, 0.3, 0.9, 1.0], cache=False):
        alone = eigenpairs(g, gamma=s.gamma, cache=False)
        check(g, s)
        np.testing.assert_allclose(s.component_eigenvalues, alone.component_eigenvalues, rtol=1e-10)
        assert s.multiplicity == alone.multiplicity
        assert component_error(g, s.u[:, 0], alone.u[:, 0]) < 1e-6


def test_components_of_citeseer(data_root):
    """438 components, 48 of them isolated nodes: each with a vector of its own, or none."""
    g = real_graph(data_root, "citeseer")
    s = eigenpairs(g, cache=False)
    size = np.bincount(g.components)
    assert g.num_components == 438
    assert (np.isnan(s.component_eigenvalues[:, 0]) == (size == 1)).all()
    assert (size == 1).sum() == 48
    assert (s.u[size[g.components] == 1] == 0).all()
    assert s.eigenvalues[0] == s.component_eigenvalues[size.argmax(), 0]
    pairs = s.component_eigenvalues[size == 2, 0]
    np.testing.assert_allclose(pairs, 2.0, rtol=1e-12)


def test_minesweeper_is_the_square_grid(data_root):
    """Both axes have one eigenvalue; their mean, along the diagonal from node 0, is taken."""
    g = real_graph(data_root, "minesweeper")
    s = eigenpairs(g, cache=False)
    u = s.eigenvectors(0.5)[:, 0].reshape(100, 100)
    assert vector_error(u, u.T) < 1e-7
    assert vector_error(u, -u[::-1, ::-1]) < 1e-7
    assert u[0, 0] > 0


@pytest.mark.parametrize("gamma", GAMMAS)
def test_a_long_chain_with_chords(gamma):
    g = chain_with_chords()
    auto, amg = eigenpairs(g, gamma=gamma, cache=False), eigenpairs(g, gamma=gamma, solver="amg")
    assert auto.solver == "lu"
    assert amg.solver == "amg"
    for s in (auto, amg):
        check(g, s)
    np.testing.assert_allclose(auto.eigenvalues, amg.eigenvalues, rtol=1e-6)
    assert vector_error(auto.u, amg.u) < 1e-6


@pytest.mark.parametrize(("name", "k"), [("cora", 32), ("minesweeper", 32), ("tolokers", 16)])
def test_many_pairs(data_root, name, k):
    g = real_graph(data_root, name)
    s = eigenpairs(g, k=k, cache=False)
    assert (s.residuals <= 1e-8).all()
    large = g.components == np.bincount(g.components).argmax()
    np.testing.assert_allclose(s.u[large].T @ s.u[large], np.eye(k), atol=1e-10)


def test_a_mesh_of_a_quarter_million_nodes(data_root):
    path = data_root / "scale" / "metis_mdual.npz"
    if not path.exists():
        pytest.skip("this root has no graphs for scale")
    g = Graph.load(path)
    assert g.num_nodes == 258_569
    s = eigenpairs(g, cache=False)
    check(g, s)
    assert 0 < s.eigenvalues[0] < 1e-3
    rayleigh = s.u[:, 0] / np.sqrt(g.degree)
    i, j = g.edge_index.numpy()
    quotient = ((rayleigh[i] - rayleigh[j]) ** 2).sum() / 2
    np.testing.assert_allclose(s.eigenvalues[0], quotient, rtol=1e-8)
