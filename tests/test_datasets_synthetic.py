"""The generator of synthetic graphs: its distribution, its sizes, its errors."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import stats

from pdgnn import Graph, datasets, homophily
from pdgnn.datasets import synthetic
from pdgnn.datasets.growth import grow
from pdgnn.datasets.synthetic import class_compatibility
from pdgnn.errors import InputError


@pytest.mark.parametrize("mu", [0.0, 0.1, 0.3, 0.5, 0.7, 0.9])
def test_homophily_is_what_was_asked_for(mu):
    data = synthetic(num_nodes=4000, homophily=mu, seed=3)
    g = Graph.from_data(data)
    sampling = 4 * (mu * (1 - mu) / g.num_edges) ** 0.5
    # classes of unlike degree sums, early on, take a little of it
    assert homophily.edge(g, data.y.numpy()) == pytest.approx(mu, abs=sampling + 0.012)


def test_without_homophily_no_edge_stays_in_its_class():
    data = synthetic(num_nodes=2000, homophily=0.0, seed=5)
    source, target = data.edge_index
    assert not (data.y[source] == data.y[target]).any()


def test_a_new_node_is_joined_by_degree_and_class():
    """The first node after the ring of a fixed graph, many times, against its exact chances."""
    compatibility = class_compatibility(4, 0.3)
    labels = np.array([0, 1, 2, 3, 0, 1, 2, 3, 1, 0])
    times = 20_000
    rng = np.random.default_rng(0)
    seen = np.zeros((2, 9))
    expected = np.zeros((2, 9))
    for _ in range(times):
        edges = grow(rng, labels, compatibility, 8, 1)
        ninth, tenth = edges[1, -2], edges[1, -1]
        degree = np.bincount(edges[:, :-2].ravel(), minlength=9).astype(float)
        p = degree[:8] * compatibility[1, labels[:8]]
        expected[0, :8] += p / p.sum()
        seen[0, ninth] += 1
        degree = np.bincount(edges[:, :-1].ravel(), minlength=9)
        p = degree * compatibility[0, labels[:9]]
        expected[1] += p / p.sum()
        seen[1, tenth] += 1
    assert stats.chisquare(seen[0, :8], expected[0, :8]).pvalue > 1e-4
    assert stats.chisquare(seen[1], expected[1]).pvalue > 1e-4


def test_edges_between_classes_fall_off_along_the_circle():
    data = synthetic(num_nodes=20_000, num_classes=6, homophily=0.2, seed=2)
    source, target = data.edge_index.numpy()
    apart = np.abs(data.y.numpy()[source] - data.y.numpy()[target])
    distance = np.minimum(apart, 6 - apart)
    share = np.bincount(distance, minlength=4) / distance.size
    weight = np.exp(-np.array([1.0, 2.0, 3.0]))
    total = 2 * weight[0] + 2 * weight[1] + weight[2]  # two classes at 1, two at 2, one at 3
    expected = [0.2, 0.8 * 2 * weight[0] / total, 0.8 * 2 * weight[1] / total]
    np.testing.assert_allclose(share[:3], expected, atol=0.01)


def test_attachment_makes_hubs():
    degree = Graph.from_data(synthetic(num_nodes=5000, seed=1)).degree
    assert degree.min() >= 6
    assert degree.max() > 100  # a random graph of this density has about 30
    assert np.corrcoef(np.arange(5000), degree)[0, 1] < -0.3  # the old have more


def test_every_edge_is_new():
    data = synthetic(num_nodes=600, num_classes=3, homophily=0.8, edges_per_node=5, seed=4)
    g = Graph.from_data(data)
    assert (g.report.self_loops, g.report.duplicates) == (0, 0)
    assert g.num_edges == 7 * 3 + 593 * 5
    assert g.num_components == 1


@pytest.mark.parametrize("c", [2, 3, 7])
def test_classes_are_of_equal_size(c):
    sizes = synthetic(num_nodes=101, num_classes=c, seed=0).y.bincount()
    assert sizes.numel() == c
    assert sizes.max() - sizes.min() <= 1


def test_features_are_gaussians_on_the_circle():
    data = synthetic(num_nodes=20_000, num_classes=4, feature_std=0.3, seed=6)
    corners = torch.tensor([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.0, -1.0]])
    for label, corner in enumerate(corners):
        mine = data.x[data.y == label]
        torch.testing.assert_close(mine.mean(dim=0), corner, atol=0.02, rtol=0)
        torch.testing.assert_close(mine.std(dim=0), torch.full((2,), 0.3), atol=0.02, rtol=0)


def test_splits_cover_all_nodes_once():
    data = synthetic(num_nodes=500, seed=0)
    parts = data.train_mask.int() + data.val_mask.int() + data.test_mask.int()
    assert (parts == 1).all()
    shares = [int(m.sum()) for m in (data.train_mask, data.val_mask, data.test_mask)]
    assert shares == [3000, 1000, 1000]
    assert (data.train_mask[:, 0] != data.train_mask[:, 1]).any()


def test_the_seed_decides_all():
    one, same, other = (synthetic(num_nodes=300, seed=s) for s in (1, 1, 2))
    for key in ("x", "edge_index", "y", "train_mask"):
        assert torch.equal(one[key], same[key])
        assert not torch.equal(one[key], other[key])


def test_loads_by_its_own_name():
    data = synthetic(num_nodes=150, homophily=0.25, seed=9)
    assert data.name == "synthetic:num_nodes=150,homophily=0.25,seed=9"
    again = datasets.load(data.name)
    assert torch.equal(again.edge_index, data.edge_index)
    assert torch.equal(again.x, data.x)
    info = datasets.REGISTRY["synthetic"]
    usual = datasets.load("synthetic")
    assert (usual.num_nodes, usual.num_edges // 2) == (info.nodes, info.edges)


def test_full_homophily_keeps_classes_apart_but_for_the_ring():
    data = synthetic(num_nodes=400, num_classes=5, homophily=1.0, seed=0)
    source, target = data.edge_index
    across = data.y[source] != data.y[target]
    assert (source[across] < 7).all()
    assert (target[across] < 7).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"homophily": 1.5}, r"homophily must be a number in \[0, 1\]"),
        ({"homophily": float("nan")}, r"homophily must be a number in \[0, 1\]"),
        ({"num_classes": 1}, "num_classes must be a whole number of at least 2"),
        ({"edges_per_node": 0}, "edges_per_node must be a whole number of at least 1"),
        ({"num_nodes": 12}, "take 15 or more"),
        ({"feature_std": -1.0}, "feature_std must be a number of at least 0"),
        ({"seed": -1}, "seed must be a whole number of at least 0"),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(InputError, match=message):
        synthetic(**options)
