"""γ as a dial: how much a node listens to its neighbours, on graphs that agree and that do not.

Logistic regression sees P^(1,γ) x, what a node makes of its own features and its neighbours', and
nothing else. At γ = 0 that is x itself, at γ = 1 the mean over the neighbours.

Run it as it is: ``python examples/scopes.py``.
"""

from __future__ import annotations

import numpy as np
from sklearn.linear_model import LogisticRegression

from pdgnn import Graph, diffusion_matrix
from pdgnn.datasets import load

GAMMAS = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
SPLITS = 3


def scores(graph: str, gamma: float, alpha: float = 1.0) -> tuple[float, float]:
    """Mean accuracy over splits, on validation and on test nodes."""
    data = load(graph)
    p = diffusion_matrix(Graph.from_data(data), alpha=alpha, gamma=gamma)
    heard, y = p @ data.x.numpy(), data.y.numpy()  # [N, F], [N]
    found = []
    for split in range(SPLITS):
        train, val, test = (data[f"{part}_mask"][:, split] for part in ("train", "val", "test"))
        model = LogisticRegression(max_iter=300).fit(heard[train], y[train])
        found.append([model.score(heard[part], y[part]) for part in (val, test)])
    val_score, test_score = np.mean(found, axis=0)
    return float(val_score), float(test_score)


def main() -> None:
    """A graph in which one edge in ten joins nodes of one class, and one in which nine do."""
    for homophily in (0.1, 0.9):
        graph = f"synthetic:num_nodes=1000,num_classes=10,homophily={homophily}"
        found = {gamma: scores(graph, gamma) for gamma in GAMMAS}
        best = max(GAMMAS, key=lambda gamma: found[gamma][0])
        print(f"{100 * homophily:.0f} % of the edges join nodes of one class")
        for gamma, (_, test) in found.items():
            mark = "  <- chosen by validation" if gamma == best else ""
            print(f"  γ = {gamma}: {100 * test:4.1f} {'#' * round(50 * test)}{mark}")


if __name__ == "__main__":
    main()
