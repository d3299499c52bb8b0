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
from pdgnn.models import MODELS, Size, find_model
from pdgnn.nn.blocks import Attention
from pdgnn.nn.features import compact_features
from pdgnn.nn.pd_layer import PDLayer, Statistics
from pdgnn.nn.scopes import parse_scopes
from pdgnn.training.spec import RunSpec

__all__ = [
    "DATASET",
    "WITHOUT_GRAPH",
    "NetworkModel",
    "network_candidates",
    "network_name",
    "network_settings",
    "probabilities",
]

DATASET = "graph"
"""What the specs of a portfolio call their data."""
BASE = RunSpec(dataset=DATASET, model="gcn", width=64, lr=3e-3, weight_decay=1e-3, steps=270)
WAYS = ((5, 3e-3, 0.2), (2, 0.01, 0.5), (3, 0.01, 0.2), (5, 3e-3, 0.5), (1, 0.01, 0.5))
"""Depth, learning rate and dropout that a network is tried with, in this order.

From a grid over generated graphs, tolokers and CiteSeer: the first loses least where it is the only
one, and each next one gains most beside those before it.
"""
MLP_WAYS = ((1, 0.01, 0.5), (3, 0.03, 0.2), (2, 3e-3, 0.5))
NET_WAYS = ((4, 0.01, 0.2), (4, 0.01, 0.5), (2, 3e-3, 0.7))
ROUND_WAYS = ((2, 0.02, 0.2), (2, 0.01, 0.5), (1, 0.02, 0.2))
NET_SCOPE = (0.0, 1.0)
"""The first scope of PD-Net: neighbours give shares of their values, so degrees have an effect."""
WITHOUT_GRAPH = ("mlp", "resnet")
ROUNDS: dict[str, Any] = {"width": 32, "options": {"rounds": 8, "inject": True}}
"""PD-Net whose layers are applied eight times with the same weights; narrow, as a step is slow."""
KINDS: tuple[dict[str, Any], ...] = (
    {"model": "pd-net"},
    {"model": "pd-net", **ROUNDS},
    {"model": "sage"},
    {"model": "pd-gcn"},
    {"model": "pd-gat-sep"},
    {"model": "gcn"},
    {"model": "pd-gcn", "rewired": True},
    {"model": "pd-gat-sep", "rewired": True},
)
"""Networks of ``model="auto"``, in the order in which they take turns.

PD-Net is the first, and the only one where there is time for one: in a hundred steps it reached
about what SAGE does on PubMed and generated graphs and more on squirrel-filtered, by validation, in
three quarters of the time. Its rounds come next, for tasks in which what is known has to spread.
"""


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
    scopes: Sequence[tuple[float, float]], *, model: str = "auto"
) -> list[RunSpec]:
    """Networks to try, the most promising first: every kind in every way, over the `scopes`.

    The ways of a kind take turns with those of the others, and within a way the scopes with each
    other, for models that have one. A `model` of the registry has turns of its own, rewired too.
    """
    kinds: Sequence[dict[str, Any]] = KINDS
    if model != "auto":
        plain = [k for k in KINDS if k["model"] == model and "rewired" not in k]
        plain = plain or [{"model": model}]
        rewirable = "rewired" in MODELS[model].uses
        kinds = [*plain, *({**k, "rewired": True} for k in plain if rewirable)]
    rows = []
    for kind in kinds:
        specs = [
            replace(BASE, **kind, depth=depth, lr=lr, dropout=dropout)
            for depth, lr, dropout in _ways(kind)
        ]
        rows.append([s for spec in specs for s in _scoped(spec, scopes)])
    turns = [spec for turn in zip_longest(*rows) for spec in turn if spec is not None]
    return list(dict.fromkeys(turns))


def _ways(kind: Mapping[str, Any]) -> Sequence[tuple[int, float, float]]:
    if kind["model"] in WITHOUT_GRAPH:
        return MLP_WAYS
    if kind["model"] == "pd-net":
        return ROUND_WAYS if "rounds" in kind.get("options", {}) else NET_WAYS
    return WAYS


def _scoped(spec: RunSpec, scopes: Sequence[tuple[float, float]]) -> list[RunSpec]:
    if not (spec.uses("alpha") or spec.uses("gamma")):
        return [spec]
    if spec.model == "pd-net":
        scopes = list(dict.fromkeys([NET_SCOPE, *scopes]))
    return [replace(spec, alpha=alpha, gamma=gamma) for alpha, gamma in scopes]


def network_settings(spec: RunSpec) -> dict[str, Any]:
    """Its settings for the leaderboard; of the model's own options those not at their default."""
    names = ("depth", "width", "lr", "dropout", "alpha", "gamma", "rewired")
    found = {n: getattr(spec, n) for n in names if n == "lr" or spec.uses(n)}
    own: dict[str, Any] = {n: v for n, v in spec.options.items() if n not in spec.defaults}
    if further := own.get("scopes"):
        own["scopes"] = ((spec.alpha, spec.gamma), *parse_scopes(str(further)))
    return {**found, **own, "steps": spec.steps}


def network_name(spec: RunSpec) -> str:
    """The name of its kind, such as ``PD-GCN, rewired``; an average has one member of each kind."""
    said = [MODELS[spec.model].name or spec.model]
    if (rounds := spec.options.get("rounds", 1)) != 1:
        said.append(f"{rounds} rounds")
    if further := spec.options.get("scopes"):
        said.append(f"{1 + len(parse_scopes(str(further)))} scopes")
    return ", ".join([*said, *(["rewired"] if spec.rewired else [])])


@dataclass(frozen=True, eq=False)
class NetworkModel:
    """A network as it was at its best validation step, on a graph of `num_nodes`."""

    spec: RunSpec
    weights: Mapping[str, Tensor]
    in_channels: int
    num_classes: int
    num_nodes: int

    def predict_proba(self, graph: Graph, x: NDArray[np.float32]) -> NDArray[np.float64]:
        """The probability of each class at each node of this or another graph, ``[N, C]``.

        Of another graph this is an error for a model with weights for each node of the fitted one,
        and of any graph for a model that takes the labels of training nodes as an input.
        """
        return probabilities(self._logits(self._module(graph.num_nodes), graph, x))

    def attention(
        self, graph: Graph, x: NDArray[np.float32]
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]] | None:
        """Edges (source, target) ``[2, E]`` and what each weighs ``[E]``: the mean over layers and
        heads. None of a network without attention.
        """
        module = self._module(graph.num_nodes)
        layers = [layer for layer in module.modules() if isinstance(layer, Attention)]
        if not layers:
            return None
        found = []

        def note(layer: Attention, given: Any, _: Any) -> None:
            edges = given[2].edges
            pair = torch.stack([edges.col, edges.row]).long()
            found.append((pair, layer.weights(*given).mean(dim=1)))

        for layer in layers:
            layer.register_forward_hook(note)
        self._logits(module, graph, x)
        weight = torch.stack([w for _, w in found]).mean(dim=0)
        return found[0][0].numpy(), weight.double().numpy()

    def frozen(self, graph: Graph, x: NDArray[np.float32]) -> NetworkModel:
        """The same with batch norms by the statistics of `graph` and `x`, on every graph.

        What it predicts for a node of another graph then does not depend on the nodes that are far
        from it, nor on how many there are. A network without such norms is itself.
        """
        options = self.spec.options
        if self.spec.model != "pd-net" or options["norm"] != "batch" or options["running"]:
            return self
        module = self._module(graph.num_nodes)
        seen: list[Statistics] = []
        for layer in module.modules():
            if isinstance(layer, PDLayer):
                layer.register_forward_hook(lambda _, __, out: seen.append(out[1]))
        self._logits(module, graph, x)
        spec = replace(self.spec, options={**options, "running": True}, defaults=())
        running = _in_rounds(seen, (int(options["rounds"] or 1), self.spec.depth))
        return replace(self, spec=spec, weights={**self.weights, **running})

    def _logits(self, module: nn.Module, graph: Graph, x: NDArray[np.float32]) -> Tensor:
        model, features = find_model(self.spec.model), torch.from_numpy(x)
        if model.labels:
            raise InputError(
                f"{self.spec.model} needs the labels of its training nodes to predict, and so "
                "predicts no other graph; fit another model"
            )
        inputs = model.prepare(graph, features, self.spec)
        for name, value in inputs.items():
            if isinstance(value, Tensor) and value.is_floating_point():
                inputs[name] = value.to(features)  # float32, as in training
        with torch.no_grad():
            found: Tensor = module(
                compact_features(features) if model.sparse else features, **inputs
            )
        return found

    def _module(self, num_nodes: int) -> nn.Module:
        out = 1 if self.num_classes == 2 else self.num_classes
        size = Size(self.in_channels, out, num_nodes, self.num_classes)
        module = find_model(self.spec.model).make(size, self.spec)
        try:
            module.load_state_dict(dict(self.weights))
        except RuntimeError as e:
            if num_nodes != self.num_nodes:
                raise InputError(
                    f"{self.spec.model} has weights for each of the {self.num_nodes:,} nodes of "
                    "the fitted graph, and so predicts no other; fit another model"
                ) from e
            raise InputError(f"the weights do not fit {self.spec.model}; fit the model anew") from e
        return module.eval()

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]], dict[str, str]]:
        """What is to be saved: plain values for JSON, and the weights."""
        about = {
            "spec": self.spec.to_dict(),
            "in_channels": self.in_channels,
            "num_classes": self.num_classes,
            "num_nodes": self.num_nodes,
        }
        return about, {name: t.numpy() for name, t in self.weights.items()}, {}

    @classmethod
    def from_state(
        cls, about: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], texts: Mapping[str, str]
    ) -> NetworkModel:
        """From :meth:`state`; an error if the weights are not those of such a network."""
        spec = RunSpec.from_dict(about["spec"])
        weights = {name: torch.from_numpy(a.copy()) for name, a in arrays.items()}
        found = cls(
            spec,
            weights,
            in_channels=check_whole("in_channels", about["in_channels"]),
            num_classes=check_whole("num_classes", about["num_classes"], 2),
            num_nodes=check_whole("num_nodes", about.get("num_nodes", 1)),  # not in older files
        )
        found._module(found.num_nodes)
        return found


def _in_rounds(seen: Sequence[Statistics], shape: tuple[int, int]) -> dict[str, Tensor]:
    """Means and variances of layers in the order of their calls, ``[rounds, depth, D]`` each."""
    means, variances = (torch.stack(each) for each in zip(*seen, strict=True))
    return {
        "running_mean": means.view(*shape, -1),
        "running_var": variances.view(*shape, -1),
    }
