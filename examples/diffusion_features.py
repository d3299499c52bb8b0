"""What the graph adds to an ordinary tabular model: the same learners, with and without.

Run it as it is: ``python examples/diffusion_features.py``.
"""

from __future__ import annotations

import lightgbm as lgb
import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from pdgnn import DiffusionFeatures
from pdgnn.datasets import load


def accuracy(x: np.ndarray, y: np.ndarray, train: np.ndarray, test: np.ndarray) -> list[float]:
    """Of logistic regression and of boosted trees on the test nodes."""
    trees = lgb.LGBMClassifier(
        n_estimators=40, num_leaves=7, min_child_samples=10, n_jobs=1, verbose=-1
    )
    learners = (make_pipeline(StandardScaler(), LogisticRegression(max_iter=500)), trees)
    return [learner.fit(x[train], y[train]).score(x[test], y[test]) for learner in learners]


def main() -> None:
    """Features alone, diffused, and with the labels that are known among the neighbours."""
    data = load("synthetic:num_nodes=1500,num_classes=10,homophily=0.1,edges_per_node=8")
    x, y, edges = data.x.numpy(), data.y.numpy(), data.edge_index
    train, test = data.train_mask[:, 0].numpy(), data.test_mask[:, 0].numpy()
    known = np.where(train, y, -1)  # what may be known of the labels

    diffused = DiffusionFeatures(hops=2).fit_transform(x, graph=edges)  # [N, F']
    labels = DiffusionFeatures(hops=2, labels=True).fit_transform(x, known, graph=edges)
    print("test accuracy                 logistic  trees")
    for name, columns in (
        ("features alone", x),
        ("and diffused", diffused),
        ("and label shares", labels),
    ):
        scores = accuracy(columns, y, train, test)
        print(f"{name:22} {columns.shape[1]:3} columns {scores[0]:.3f}  {scores[1]:.3f}")


if __name__ == "__main__":
    main()
