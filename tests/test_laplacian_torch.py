"""P^(α,γ) on edges in PyTorch: the entries of the matrix, gradients, and many runs at once."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.func import grad, vmap

from pdgnn import Graph, InputError, diffusion_matrix, diffusion_weights
from pdgnn.laplacian import diffusion_entries
from strategies import graphs

UNIT = st.sampled_from([0.0, 0.5, 1.0]) | st.floats(0.0, 1.0)
# 0 - 1 - 2 with a triangle 1 - 2 - 3, and node 4 alone
EDGE_INDEX = torch.tensor([[0, 1, 1, 2, 1, 3, 2, 3], [1, 0, 2, 1, 3, 1, 3, 2]])
WEIGHT = torch.tensor([0.5, 0.5, 2.0, 2.0, 1.0, 1.0, 0.25, 0.25], dtype=torch.float64)
NUM_NODES = 5


def entries(g: Graph, alpha: float, gamma: float) -> tuple[np.ndarray, np.ndarray]:
    p = diffusion_matrix(g, alpha=alpha, gamma=gamma).toarray()
    source, target = g.edge_index.numpy()
    return p[target, source], p.diagonal()


def weights(alpha: Tensor, gamma: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    return diffusion_weights(EDGE_INDEX, NUM_NODES, alpha=alpha, gamma=gamma, edge_weight=weight)


def double(value: float) -> Tensor:
    return torch.tensor(value, dtype=torch.float64)


@given(graphs(), UNIT, UNIT)
def test_the_entries_of_the_matrix(g, alpha, gamma):
    on_edges, on_diagonal = diffusion_weights(
        g.edge_index, g.num_nodes, alpha=alpha, gamma=gamma, edge_weight=g.edge_weight
    )
    expected_edges, expected_diagonal = entries(g, alpha, gamma)
    assert on_edges.dtype == torch.float64
    assert np.allclose(on_edges, expected_edges, rtol=1e-12, atol=1e-14)
    assert np.allclose(on_diagonal, expected_diagonal, rtol=1e-12, atol=1e-14)


@given(graphs(weighted=False), UNIT, UNIT)
def test_without_weights_every_edge_counts_one(g, alpha, gamma):
    expected_edges, expected_diagonal = entries(g, alpha, gamma)
    for a, c in ((alpha, gamma), (double(alpha), gamma), (alpha, double(gamma))):
        on_edges, on_diagonal = diffusion_weights(g.edge_index, g.num_nodes, alpha=a, gamma=c)
        assert np.allclose(on_edges, expected_edges, atol=1e-6)
        assert np.allclose(on_diagonal, expected_diagonal, atol=1e-6)


def test_the_type_follows_the_tensors_given():
    def dtype(**options) -> torch.dtype:
        return diffusion_weights(EDGE_INDEX, NUM_NODES, **options)[0].dtype

    assert dtype() == torch.float32
    assert dtype(gamma=double(0.5)) == torch.float64
    assert dtype(alpha=double(0.5)) == torch.float64
    assert dtype(edge_weight=WEIGHT.float(), alpha=double(0.5)) == torch.float32


def test_the_order_of_the_edges_is_kept():
    """An edge (j, i) has P_ij: at α = 1 it is divided by the degree of i, where it ends."""
    on_edges, _ = diffusion_weights(torch.tensor([[2, 0, 1, 0], [0, 2, 0, 1]]), 3)
    assert on_edges.tolist() == [0.5, 1.0, 0.5, 1.0]


def test_a_graph_without_edges():
    on_edges, on_diagonal = diffusion_weights(torch.zeros(2, 0, dtype=torch.int64), 3)
    assert on_edges.shape == (0,)
    assert on_diagonal.tolist() == [1.0, 1.0, 1.0]


@given(graphs(), UNIT, UNIT)
def test_arrays_and_tensors_have_one_formula(g, alpha, gamma):
    degree = torch.tensor(g.degree)
    arrays = diffusion_entries(g.degree, alpha, gamma)
    tensors = diffusion_entries(degree, alpha, gamma)
    learned = diffusion_entries(degree, double(alpha), double(gamma))
    for array, tensor, other in zip(arrays, tensors, learned, strict=True):
        assert np.allclose(array, tensor, rtol=1e-14)
        assert np.allclose(array, other, rtol=1e-14)


def test_the_weights_of_a_block_by_the_formula():
    """At α = ½, γ = 1 an edge has a_ij / √(d_i d_j), with degrees that are not the block's."""
    block = torch.tensor([[2, 0], [0, 1]])
    degree = (torch.tensor([4.0, 2.0, 9.0]), torch.tensor([4.0, 0.0]))
    on_edges, on_diagonal = diffusion_weights(
        block, 3, alpha=0.5, edge_weight=torch.tensor([2.0, 1.0]), degree=degree
    )
    assert torch.allclose(on_edges, torch.tensor([2.0 / 6.0, 0.5]))
    assert on_diagonal.tolist() == [0.0, 1.0]
    counted, _ = diffusion_weights(block, 3, alpha=0.5, degree=degree)
    assert torch.allclose(counted, torch.tensor([1.0 / 6.0, 0.5]))


@settings(max_examples=15)
@given(UNIT, UNIT)
def test_gradients_are_the_differences(alpha, gamma):
    """Node 4 has no edges, and γ = 1 is among the values."""
    given_values = (double(alpha), double(gamma), WEIGHT.clone())
    assert torch.autograd.gradcheck(weights, [v.requires_grad_() for v in given_values])


def test_the_gradient_on_paper():
    """Two nodes joined by w = 2: P_01 = γw / (γw + 1 − γ), and at γ = 1 its slope is 1/w."""
    edge_index = torch.tensor([[0, 1], [1, 0]])
    gamma = double(1.0).requires_grad_()
    weight = torch.full((2,), 2.0, dtype=torch.float64)
    on_edges, on_diagonal = diffusion_weights(edge_index, 2, gamma=gamma, edge_weight=weight)
    assert on_edges.tolist() == [1.0, 1.0]
    (by_gamma,) = torch.autograd.grad(on_edges[0], gamma, retain_graph=True)
    assert by_gamma.item() == 0.5
    (by_gamma,) = torch.autograd.grad(on_diagonal[0], gamma)
    assert by_gamma.item() == -0.5


@pytest.mark.parametrize("alpha", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("gamma", [0.0, 0.5, 1.0])
def test_no_gradient_is_nan_where_nodes_have_no_edges(alpha, gamma):
    values = (double(alpha), double(gamma), WEIGHT.clone())
    for value in values:
        value.requires_grad_()
    on_edges, on_diagonal = weights(*values)
    found = torch.autograd.grad(on_edges.sum() + on_diagonal.sum(), values)
    assert all(torch.isfinite(value).all() for value in found)
    alone = torch.autograd.grad(weights(*values)[1][4], values, allow_unused=True)
    assert all(value is None or (value == 0).all() for value in alone)


@pytest.mark.parametrize("weighted", [True, False])
def test_many_runs_at_once_are_the_runs_one_by_one(weighted):
    alphas, gammas = (
        torch.tensor(v).double() for v in ([0.0, 0.5, 1.0, 0.3], [1.0, 0.0, 0.7, 1.0])
    )
    weight = WEIGHT if weighted else None

    def run(alpha: Tensor, gamma: Tensor) -> tuple[Tensor, Tensor]:
        return weights(alpha, gamma, weight)

    on_edges, on_diagonal = vmap(run)(alphas, gammas)  # [R, E], [R, N]
    assert on_edges.shape == (4, 8)
    assert on_diagonal.shape == (4, 5)
    for r, (alpha, gamma) in enumerate(zip(alphas, gammas, strict=True)):
        alone = run(alpha, gamma)
        assert torch.allclose(on_edges[r], alone[0], rtol=1e-14)
        assert torch.allclose(on_diagonal[r], alone[1], rtol=1e-14)


def test_one_parameter_of_many_runs_may_be_shared():
    alphas = torch.tensor([0.0, 0.5, 1.0]).double()
    on_edges, _ = vmap(lambda alpha: weights(alpha, double(0.5), WEIGHT))(alphas)
    assert torch.equal(on_edges[1], weights(alphas[1], double(0.5), WEIGHT)[0])
    scaled = torch.stack([WEIGHT, 2 * WEIGHT, 3 * WEIGHT])  # [R, E]
    batched, _ = vmap(lambda weight: weights(double(0.5), double(1.0), weight))(scaled)
    assert torch.allclose(batched, weights(double(0.5), double(1.0), WEIGHT)[0].expand(3, -1))


def test_gradients_of_many_runs_at_once():
    def loss(alpha: Tensor, gamma: Tensor) -> Tensor:
        on_edges, on_diagonal = weights(alpha, gamma, WEIGHT)
        return (on_edges**2).sum() + (on_diagonal**3).sum()

    alphas, gammas = torch.tensor([0.1, 1.0]).double(), torch.tensor([1.0, 0.4]).double()
    found = vmap(grad(loss, argnums=(0, 1)))(alphas, gammas)
    for r in range(2):
        alone = grad(loss, argnums=(0, 1))(alphas[r], gammas[r])
        assert torch.allclose(torch.stack([f[r] for f in found]), torch.stack(alone), rtol=1e-12)


@pytest.mark.parametrize("name", ["alpha", "gamma"])
@pytest.mark.parametrize("value", [-0.1, 1.1, float("nan")])
def test_numbers_out_of_range_are_refused(name, value):
    with pytest.raises(InputError, match=rf"{name} must be a number in \[0, 1\], not "):
        diffusion_weights(EDGE_INDEX, NUM_NODES, **{name: value})
