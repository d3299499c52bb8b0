"""Trained networks as members of a portfolio: their candidates, and how they predict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from pdgnn.errors import InputError, check_whole
from pdgnn.graph import Graph
from pdgnn.models import Size, find_model
from pdgnn.nn.features import compact_features
from pdgnn.training.spec import RunSpec

__all__ = ["DATASET", "WITHOUT_GRAPH", "NetworkModel", "network_candidates", "probabilities"]

DATASET = "graph"
"""What the specs of a portfolio call their data."""
BASE = RunSpec(dataset=DATASET, model="gcn", width=64, lr=3e-3, weight_decay=1e-3, steps=270)
WAYS: tuple[dict[str, Any], ...] = (
    {"depth": 2, "dropout": 0.5, "lr": 0.01},
    {"depth": 3, "dropout": 0.2, "lr": 3e-3},
    {"depth": 1, "dropout": 0.7, "lr": 0.01},
    {"depth": 4, "dropout": 0.5, "lr": 3e-3},
    {"depth": 5, "dropout": 0.2, "lr": 0.01},
    {"depth": 2, "dropout": 0.7, "lr": 1e-3},
)
"""Settings that every model is tried with, the most promising first."""
WITHOUT_GRAPH = ("mlp", "resnet")
KINDS: tuple[dict[str, Any], ...] = (
    {"model": "pd-gcn"},
    {"model": "pd-gat-sep"},
    {"model": "sage"},
    {"model": "gcn"},
    {"model": "pd-gat-sep", "rewired": True},
    {"model": "mlp"},
    {"model": "pd-gcn", "rewired": True},
)


def probabilities(logits: Tensor) -> NDArray[np.float64]:
    """``[N, C]`` from logits ``[N, out]``, of which there is one for two classes.

    >>> probabilities(torch.tensor([[0.0]])).tolist()
    [[0.5, 0.5]]
    """
    logits = logits.double()
    if logits.shape[1] == 1:
        logits = torch.cat([torch.zeros_like(logits), logits], dim=1)
    found: NDArray[np.float64] = logits.softmax(dim=1).numpy()
    return found


def network_candidates(
    scopes: Sequence[tuple[float, float]], *, seed: int = 0, kinds: Sequence[str] | None = None
) -> list[RunSpec]:
    """Networks to try, those that come first first: every kind in every way, over the `scopes`.

    The ways of a kind take turns with those of the others, and within a way the scopes with each
    other, for models that have one. `kinds` keeps the models of these names alone.
    """
    rows = []
    for kind in KINDS:
        if kinds is None or kind["model"] in kinds:
            ways = [replace(BASE, **kind, **way, seed=seed) for way in WAYS]
            rows.append([s for spec in ways for s in _scoped(spec, scopes)])
    turns = [spec for turn in zip_longest(*rows) for spec in turn if spec is not None]
    return list(dict.fromkeys(turns))


def _scoped(spec: RunSpec, scopes: Sequence[tuple[float, float]]) -> list[RunSpec]:
    if not (spec.uses("alpha") or spec.uses("gamma")):
        return [spec]
    return [replace(spec, alpha=alpha, gamma=gamma) for alpha, gamma in scopes]


@dataclass(frozen=True, eq=False)
class NetworkModel:
    """A network as it was at its best validation step."""

    spec: RunSpec
    weights: Mapping[str, Tensor]
    in_channels: int
    num_classes: int

    def predict_proba(self, graph: Graph, x: NDArray[np.float32]) -> NDArray[np.float64]:
        """The probability of each class at each node of this or another graph, ``[N, C]``."""
        model, module = find_model(self.spec.model), self._module(graph.num_nodes)
        features = torch.from_numpy(x)
        inputs = model.prepare(graph, features, self.spec)
        given = compact_features(features) if model.sparse else features
        with torch.no_grad():
            return probabilities(module(given, **inputs))

    def _module(self, num_nodes: int) -> nn.Module:
        out = 1 if self.num_classes == 2 else self.num_classes
        size = Size(self.in_channels, out, num_nodes, self.num_classes)
        module = find_model(self.spec.model).make(size, self.spec)
        try:
            module.load_state_dict(dict(self.weights))
        except RuntimeError as e:
            raise InputError(f"the weights do not fit {self.spec.model}; fit the model anew") from e
        return module.eval()

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]], dict[str, str]]:
        """What it is as plain values, and its weights."""
        about = {
            "spec": self.spec.to_dict(),
            "in_channels": self.in_channels,
            "num_classes": self.num_classes,
        }
        return about, {name: t.numpy() for name, t in self.weights.items()}, {}

    @classmethod
    def from_state(
        cls, about: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], texts: Mapping[str, str]
    ) -> NetworkModel:
        """From :meth:`state`; an error if the weights are not those of such a network."""
        spec = RunSpec.from_dict(about["spec"])
        weights = {name: torch.from_numpy(a.copy()) for name, a in arrays.items()}
        in_channels = check_whole("in_channels", about["in_channels"])
        found = cls(spec, weights, in_channels, check_whole("num_classes", about["num_classes"], 2))
        found._module(num_nodes=1)
        return found
