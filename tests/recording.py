"""A small graph, a stand-in for PD-Net and tiny spaces, for the tests of the records."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from filing import npz
from pdgnn.experiments.means import Means
from pdgnn.experiments.records import Records, RecordsRequest, spaces
from pdgnn.models import MODELS, Model
from pdgnn.training import RunResult, stages
from pdgnn.training.store import read_runs
from runs import random_masks

NODES, SPLITS = 48, (0, 1)
OPTIONS = {
    **{"rounds": 1, "inject": False, "scopes": "", "norm": "batch", "running": False},
    **{"self_path": True, "aggregation": "pd", "attention": False, "eigenvectors": 0},
    **{"learned": False, "scope_lr": 0.01, "optimizer": "adamw"},
}
"""Those of PD-Net."""
HONEST, TRAP, BAD = 0, 1, 2
"""The features: one that is right on validation nodes, one on test nodes, one on neither."""


class Pick(nn.Module):
    """One feature is the logit."""

    def __init__(self, column: int) -> None:
        super().__init__()
        self.column, self.scale = column, nn.Parameter(torch.ones(1) + 0.1 * torch.rand(1))

    def forward(self, x, edge_index):
        return self.scale * x[:, self.column, None]


STAND_IN = Model(
    build=lambda size, spec: Pick(spec.options["column"]),
    options={**OPTIONS, "column": HONEST},
    name="PD-Net",
)
NETWORKS = ({"column": [BAD, TRAP, HONEST], "steps": [4], "lr": [0.01]},)
GCNS = ({"column": [BAD], "aggregation": ["gcn"], "steps": [4], "lr": [0.01]},)
TREES = ({"hops": [1, 2], "scopes": ["1,1"], "leaves": [3], "steps": [2], "lr": [0.1]},)


def write_graph(path: Path) -> str:
    """A ring with chords and two classes; both splits have the same parts."""
    rng, ends = np.random.default_rng(0), np.arange(NODES)
    edges = np.stack([np.r_[ends, ends[::3]], np.r_[(ends + 1) % NODES, (ends[::3] + 11) % NODES]])
    y = (ends % 4 < 2).astype(np.int64)
    masks = np.repeat(random_masks(NODES, 1), len(SPLITS), axis=0)
    sign = 2.0 * y - 1
    noise = 0.1 * rng.normal(size=(NODES, 3))
    right = np.stack([masks[0, 1], masks[0, 2], np.zeros(NODES, dtype=bool)], axis=1)
    x = np.where(right, sign[:, None], -sign[:, None]) + noise
    parts = {f"{part}_masks": masks[:, i] for i, part in enumerate(("train", "val", "test"))}
    content = npz(edges=edges.T, node_features=x.astype(np.float32), node_labels=y, **parts)
    path.write_bytes(content)
    return str(path)


def small_graph(folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of the graph; the spaces of it are tiny, and PD-Net is :class:`Pick`."""
    graph = write_graph(folder / "graph.npz")
    monkeypatch.setitem(MODELS, "pd-net", STAND_IN)
    for name, grids in (("NETWORKS", NETWORKS), ("GCNS", GCNS)):
        monkeypatch.setattr(spaces, name, {graph: grids})
    monkeypatch.setattr(spaces, "TREE_GRIDS", TREES)
    monkeypatch.setattr(spaces, "WIDE_GRIDS", ())
    monkeypatch.setattr(stages, "LEAST_STEPS", 1)
    return graph


def work(graph: str, folder: Path, *parts: str, methods=("pd-net",), seeds=3, **means) -> Records:
    """The records of the small graph, with a store in `folder`."""
    request = RecordsRequest(
        datasets=[graph], methods=methods, parts=parts, splits=SPLITS, seeds=seeds
    )
    return Records(request, Means(store=folder / "s.sqlite", **means))


def results_of(folder: Path) -> list[RunResult]:
    """What that store has."""
    return [run.result for run in read_runs(folder / "s.sqlite")[0]]
