"""The GPU gives the canonical vector that the CPU gives."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
import torch

from pdgnn import Graph, datasets, eigenpairs, eigenpairs_path

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA GPU")


def agree(a: np.ndarray, b: np.ndarray) -> None:
    np.testing.assert_allclose(a, b, rtol=0, atol=1e-6 * np.abs(b).max())


@pytest.mark.parametrize("gamma", [1.0, 0.4, 0.0])
@pytest.mark.parametrize("name", ["chameleon-filtered", "squirrel-filtered", "cora", "tolokers"])
def test_real_graphs(data_root, name: str, gamma: float) -> None:
    g = Graph.from_data(datasets.load(name, root=data_root))
    there = eigenpairs(g, gamma=gamma, solver="lanczos", device="cuda")
    assert there.solver == "lanczos"
    here = eigenpairs(g, gamma=gamma, cache=False)
    np.testing.assert_allclose(there.eigenvalues, here.eigenvalues, rtol=1e-9)
    agree(there.u, here.u)


@pytest.mark.parametrize(
    "graph", [nx.cycle_graph(300), nx.grid_2d_graph(20, 20), nx.hypercube_graph(9)], ids=str
)
def test_repeated_eigenvalues(graph: nx.Graph) -> None:
    g = Graph.from_networkx(graph)
    there, here = eigenpairs(g, solver="lanczos", device="cuda"), eigenpairs(g, cache=False)
    assert there.solver == "lanczos"
    assert there.multiplicity == here.multiplicity
    agree(there.u, here.u)


def test_a_path_of_gammas() -> None:
    g = Graph.from_data(datasets.minesweeper(size=40, seed=1))
    gammas = [0.0, 0.5, 1.0]
    for there, here in zip(
        eigenpairs_path(g, gammas, solver="lanczos", device="cuda"),
        eigenpairs_path(g, gammas, cache=False),
        strict=True,
    ):
        assert there.gamma == here.gamma
        agree(there.u, here.u)
