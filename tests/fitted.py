"""A stand-in for a fitted classifier, for the tests of its page."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace

import numpy as np

from pdgnn import Graph
from pdgnn.datasets.synthetic import synthetic

HOSTILE = "<script>document.title='owned'</script>"
BREAKS = "</script><img src=x onerror=alert(1)>\u2028&amp;\"'"


@dataclass
class Estimate:
    score: float = 0.713
    low: float = 0.68
    high: float = 0.744
    n: int = 240
    metric: str = "accuracy"
    how: str = "A fifth of the labelled nodes was set aside before anything was tried."
    baselines: dict = field(
        default_factory=lambda: {
            "majority": (0.21, 0.17, 0.26),
            "logistic regression": (0.61, 0.57, 0.65),
            "mlp": (0.62, 0.58, 0.66),
        }
    )
    helps: bool = True
    sentence: str = "The graph helps: accuracy 71.3 against 62.0 of mlp without it."


BOARD = [
    ("PD-GAT-sep, rewired", 0.74, 21.4, {"depth": 2, "alpha": 0.5, "gamma": 0.3, "lr": 0.003}),
    ("PD-GCN", 0.722, 9.1, {"depth": 2, "alpha": 1.0, "gamma": 0.3, "lr": 0.01}),
    ("pd-trees", 0.71, 4.2, {"reduce": None, "scopes": ((0.0, 1.0), (1.0, 1.0)), "hops": 4}),
    ("SAGE", 0.69, 8.4, {"depth": 2, "lr": 0.003, "dropout": 0.2}),
    ("GCN", 0.66, 7.9, {"depth": 1, "lr": 0.003}),
    ("mlp", 0.63, 3.3, {"depth": 2, "lr": 0.003}),
    ("logistic regression", 0.62, 0.4, {}),
    ("diverged", float("nan"), 1.5, {}),
]


def fitted(
    *,
    nodes: int = 300,
    classes: int = 5,
    rewired: bool = True,
    gamma: float = 0.3,
    alpha: float = 0.5,
    scoped: bool = True,
    attention=None,
    graph: Graph | None = None,
    honest: bool = True,
    hostile: bool = True,
    seed: int = 1,
) -> SimpleNamespace:
    """Synthetic classes on a synthetic graph, or on `graph`, with noisy probabilities of them."""
    rng = np.random.default_rng(seed)
    if graph is None:
        data = synthetic(num_nodes=nodes, num_classes=classes, homophily=0.25, seed=seed)
        graph, x, y = Graph.from_data(data), data.x.numpy(), data.y.numpy().copy()
    else:
        nodes = graph.num_nodes
        y = rng.integers(classes, size=nodes)
        x = rng.normal(size=(nodes, 4)).astype(np.float32)
    noisy = 2.0 * np.eye(classes)[y] + rng.gumbel(size=(nodes, classes))
    proba = np.exp(noisy) / np.exp(noisy).sum(axis=1, keepdims=True)
    part = rng.choice([0, 1, 2], p=[0.5, 0.25, 0.25], size=nodes).astype(np.int8)
    y[rng.random(nodes) < 0.1] = -1
    part[y < 0] = -1
    held = proba.copy() if honest else np.full_like(proba, np.nan)
    held[part != 2] = np.nan
    ids = np.array([f"user-{i:05d}" for i in range(nodes)], dtype=object)
    names = [f"group {c}" for c in range(classes)]
    if hostile:
        ids[:2] = HOSTILE, BREAKS
        names[0] = "<b>0</b>"
    table = SimpleNamespace(
        name=f"people & groups {HOSTILE}" if hostile else "people and groups",
        graph=graph,
        ids=ids,
        features=x,
        labels=None,
        split=None,
        id_name="user",
        label_name="group",
    )
    gammas = np.linspace(0, 1, 11)
    return SimpleNamespace(
        classes_=np.array(names, dtype=object),
        model_="PD-GAT-sep, rewired",
        alpha_=alpha,
        gamma_=gamma,
        has_scope_=scoped,
        depth_=2,
        rewired_=rewired,
        leaderboard_=[
            {"name": n, "model": n, "val": v, "seconds": s, "steps": 100, "settings": t}
            for n, v, s, t in BOARD
        ],
        estimate_=Estimate(),
        notes_=["Classes are unbalanced: 9 nodes are <b>0</b>."] if hostile else [],
        table_=table,
        x_=x,
        y_=y.astype(np.int64),
        part_=part,
        proba_=proba,
        honest_=held,
        attention_=attention,
        dial_={
            "gamma": [(float(t), 0.74 - 0.12 * (t - 0.3) ** 2) for t in gammas],
            "alpha": [(t, 0.74 - 0.02 * abs(t - 0.5)) for t in (0.0, 0.5, 1.0)],
        },
    )
