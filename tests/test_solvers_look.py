"""What the first steps of a Lanczos process foretell, and the polynomial made from them."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
import torch

from oracle import symmetric
from pdgnn import Graph
from pdgnn.solvers.look import Look, filtered, looked_at, plain, room
from pdgnn.solvers.problem import Component, ComponentProblem

GRAPHS = {
    "expander": nx.random_regular_graph(6, 1000, seed=1),
    "hubs": nx.barabasi_albert_graph(1000, 4, seed=1),
    "mesh": nx.grid_2d_graph(40, 25),
    "path": nx.path_graph(1000),
}


def look(name: str, k: int = 1) -> tuple[Graph, ComponentProblem, Look]:
    g = Graph.from_networkx(GRAPHS[name])
    problem = ComponentProblem(Component(g.adjacency()), 1.0)
    start = torch.randn(problem.n, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    return g, problem, looked_at(problem, k, start)


def test_few_products_for_an_expander_and_many_for_a_path():
    assert look("expander")[2].products(1) < 300
    assert look("path")[2].products(1) > 1000


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("k", [1, 8])
def test_more_steps_do_not_change_what_the_first_ones_said(name, k):
    seen = look(name, k)[2]
    low, products = seen.low(k), seen.products(k)
    seen.process.extend(10)
    np.testing.assert_allclose([seen.low(k), seen.products(k)], [low, products])


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("k", [1, 3, 8])
def test_the_polynomial_keeps_the_order_of_the_wanted_pairs_and_the_next(name, k):
    """Largest at the lowest eigenvalues, in their order, and smaller at all others."""
    g, problem, seen = look(name, k)
    operator, start, degree = filtered(problem, seen.process, k)
    values, u = np.linalg.eigh(symmetric(g, 1.0))
    image = operator(torch.from_numpy(u[:, 1:].T.copy()[0]))
    assert degree % 2 == 1
    f = [float(torch.from_numpy(c) @ operator(torch.from_numpy(c))) for c in u.T[1:].copy()]
    order = np.argsort(-np.array(f), kind="stable")[: k + 1]
    np.testing.assert_allclose(values[1:][order], values[1 : k + 2], rtol=1e-9)
    np.testing.assert_allclose(image, f[0] * u[:, 1], atol=1e-9)  # the vectors are the same
    assert start.shape == (problem.n,)


def test_plain_turns_the_spectrum_around():
    g, problem, _ = look("hubs")
    v = np.random.default_rng(0).standard_normal(g.num_nodes)
    expected = v - symmetric(g, 1.0) @ v * (2 / problem.norm)
    np.testing.assert_allclose(plain(problem)(torch.from_numpy(v)), expected, atol=1e-12)


def test_room_for_vectors_is_bounded():
    assert room(1000) == 300
    assert room(10**6) * 10**6 <= 32_000_000
