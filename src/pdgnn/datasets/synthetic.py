"""Synthetic graphs of any homophily (Appendix C.2), of the paper's experiment on γ.

Nodes arrive one by one and are joined to older ones with the chance p_ij ∝ d_j · μ where the
classes agree and p_ij ∝ d_j · (1 − μ) · w_d(z_i, z_j) where they do not. d(z, c) is the distance of
two classes on a circle, w_d ∝ e^(−d), and Σ_{c≠z} w_d(z, c) = 1: only so is μ the share of edges
within a class. Features are drawn from a Gaussian in the plane for each class, whose means lie on
the unit circle in the order of the classes, and which overlap.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from pdgnn.datasets.options import dataset_name
from pdgnn.errors import InputError, check_number, check_whole

if TYPE_CHECKING:
    from torch_geometric.data import Data

__all__ = ["class_compatibility", "synthetic"]

NAME = "synthetic"
NUM_SPLITS = 10


def synthetic(
    *,
    num_nodes: int = 5000,
    num_classes: int = 10,
    homophily: float = 0.5,
    edges_per_node: int = 6,
    feature_std: float = 0.5,
    seed: int = 0,
) -> Data:
    """A graph whose share of edges within a class is `homophily`, up to sampling.

    Classes are of equal size (± 1). The first nodes, max(C, m + 1) or one more, form a ring, in
    turn of every class; each later one brings m = `edges_per_node` edges, or fewer while there are
    fewer nodes that it may be joined to. The ten splits are 60/20/20, drawn at random. Everything
    depends on `seed` alone, through ``numpy.random.default_rng``.

    >>> data = synthetic(num_nodes=200, num_classes=4, homophily=0.1, seed=1)
    >>> data.num_nodes, data.num_edges // 2, data.x.shape[1], data.y.bincount().tolist()
    (200, 1179, 2, [50, 50, 50, 50])
    >>> data.name
    'synthetic:num_nodes=200,num_classes=4,homophily=0.1,seed=1'
    """
    from torch_geometric.data import Data

    from pdgnn.datasets.growth import grow

    c = check_whole("num_classes", num_classes, 2)
    m = check_whole("edges_per_node", edges_per_node)
    first = max(c, 2 * ((m + 1) // 2) + 1)  # in a smaller ring an edge would come twice
    n = check_whole("num_nodes", num_nodes)
    if n < first + 5:
        raise InputError(
            f"num_nodes={n} is too few for {c} classes and {m} edges for each new node; "
            f"take {first + 5} or more"
        )
    mu = check_number("homophily", homophily, 0, 1)
    check_number("feature_std", feature_std)
    rng = np.random.default_rng(check_whole("seed", seed, 0))
    labels = _labels(rng, n, c, first)
    edges = grow(rng, labels, class_compatibility(c, mu), first, m)
    train, val, test = _splits(rng, n)
    said = {
        "num_nodes": (num_nodes, 5000),
        "num_classes": (num_classes, 10),
        "homophily": (homophily, 0.5),
        "edges_per_node": (edges_per_node, 6),
        "feature_std": (feature_std, 0.5),
        "seed": (seed, 0),
    }
    return Data(
        x=torch.from_numpy(_features(rng, labels, c, float(feature_std))),
        edge_index=torch.from_numpy(np.concatenate([edges, edges[::-1]], axis=1)),
        y=torch.from_numpy(labels),
        train_mask=torch.from_numpy(train),
        val_mask=torch.from_numpy(val),
        test_mask=torch.from_numpy(test),
        name=dataset_name(NAME, said),
        metric="roc_auc" if c == 2 else "accuracy",
    )


def class_compatibility(num_classes: int, homophily: float) -> NDArray[np.float64]:
    """μ on the diagonal, (1 − μ) w_d(z,c) off it, ``[C, C]``; every row sums to 1.

    >>> class_compatibility(4, 0.5).round(3)[0].tolist()
    [0.5, 0.211, 0.078, 0.211]
    """
    classes = np.arange(num_classes)
    apart = np.abs(classes[:, None] - classes)
    distance = np.minimum(apart, num_classes - apart)  # [C, C], on the circle
    weight = np.where(distance > 0, np.exp(-distance.astype(np.float64)), 0.0)
    weight /= weight.sum(axis=1, keepdims=True)
    return np.asarray(homophily * np.eye(num_classes) + (1.0 - homophily) * weight)


def _labels(rng: np.random.Generator, n: int, c: int, first: int) -> NDArray[np.int64]:
    """Classes of equal size, in random order but for the first, which take turns."""
    turns = np.arange(n, dtype=np.int64) % c
    return np.concatenate([turns[:first], rng.permutation(turns[first:])])


def _features(
    rng: np.random.Generator, labels: NDArray[np.int64], c: int, std: float
) -> NDArray[np.float32]:
    angle = 2.0 * np.pi * labels / c
    means = np.stack([np.cos(angle), np.sin(angle)], axis=1)  # [N, 2]
    return (means + std * rng.normal(size=means.shape)).astype(np.float32)


def _splits(
    rng: np.random.Generator, n: int
) -> tuple[NDArray[np.bool_], NDArray[np.bool_], NDArray[np.bool_]]:
    """Train, val and test masks, each ``[N, 10]``."""
    place = np.stack([rng.permutation(n) for _ in range(NUM_SPLITS)], axis=1)
    train, val = place < round(0.6 * n), (place >= round(0.6 * n)) & (place < round(0.8 * n))
    return train, val, ~(train | val)
