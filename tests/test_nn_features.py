"""Sparse node features give what dense ones give."""

from __future__ import annotations

import pytest
import torch

from pdgnn import Graph
from pdgnn.nn import SparseFeatures, compact_features
from pdgnn.nn.features import SPARSE_SHARE, feature_matmul
from runs import OWN, build, prepare


def words(nodes: int = 12, features: int = 40, share: float = 0.03) -> torch.Tensor:
    """A bag of words: mostly 0, a node and a feature with nothing at all."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(nodes, features, generator=generator, dtype=torch.float64)
    x = x * (torch.rand(nodes, features, generator=generator) < share)
    x[3], x[:, 5] = 0.0, 0.0
    return x


def test_product_and_gradient_are_those_of_the_dense_matrix() -> None:
    x = words()
    weight = torch.randn(7, 40, dtype=torch.float64, requires_grad=True)
    sparse = feature_matmul(SparseFeatures.from_dense(x), weight)
    dense = feature_matmul(x, weight)
    torch.testing.assert_close(sparse, dense, atol=1e-13, rtol=0)
    (a,), (b,) = (torch.autograd.grad(out.sin().sum(), weight) for out in (sparse, dense))
    torch.testing.assert_close(a, b, atol=1e-13, rtol=0)


def test_many_runs_at_once() -> None:
    x = SparseFeatures.from_dense(words())
    weights = torch.randn(3, 7, 40, dtype=torch.float64)
    together = torch.vmap(lambda w: feature_matmul(x, w))(weights)
    torch.testing.assert_close(together, torch.stack([feature_matmul(x, w) for w in weights]))


@pytest.mark.parametrize("name", OWN)
def test_a_model_takes_either(name: str) -> None:
    g = Graph.from_edge_index([[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10], range(1, 12)])
    model = build(name, 40, 3, hidden_channels=8, heads=2).double().eval()
    inputs = prepare(g, name, gamma=0.5, dtype=torch.float64)
    rest = (inputs.edges, inputs.edge_weight, inputs.edge_attr)
    torch.testing.assert_close(
        model(SparseFeatures.from_dense(words()), *rest), model(words(), *rest), atol=1e-12, rtol=0
    )


def test_the_form_is_chosen_by_the_share_of_zeros() -> None:
    x = torch.zeros(10, 100)
    x.view(-1)[: int(1000 * SPARSE_SHARE)] = 1.0
    found = compact_features(x)
    assert isinstance(found, SparseFeatures)
    assert found.shape == (10, 100)
    x.view(-1)[500] = 1.0  # one more than the share
    assert compact_features(x) is x
