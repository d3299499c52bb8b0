"""GBK-GNN: one kernel for neighbours of the same class, one for the others, mixed by a gate.

Du, Shi, Fu, Ma, Liu, Han and Zhang, "GBK-GNN: Gated Bi-Kernel Graph Neural Networks for Modeling
Both Homophily and Heterophily", WWW 2022.

A layer is hᵢ ← W_f hᵢ + b + 1/dᵢ Σ_j [α_ij W_s hⱼ + (1 − α_ij) W_d hⱼ] over the neighbours j of i,
where the gate α_ij = sigmoid(⟨a, [hᵢ ‖ hⱼ]⟩ + c) is a guess whether i and j are of the same class.
Between layers there is ReLU, then dropout. The loss is the cross entropy of the classes plus λ
times, for each layer, the mean binary cross entropy of the gates against "same class" over the
edges with both ends in training.

Choices: ``gate=True`` is the method as the paper has it. ``gate=False`` is what the public run
behind the published row did, which left the gate off: a plain GraphSAGE with means,
hᵢ ← W_f hᵢ + b + 1/dᵢ Σ_j W hⱼ, and no other loss. The public code of the method differs from its
paper: the second kernel sees hᵢ in the place of hⱼ, the two kernels fill halves of the output, the
gate has a LeakyReLU inside, and its loss takes probabilities for logits. Cost of a step:
depth · E · width · 2. No loops.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from pdgnn.baselines.parts import (
    affine,
    at_edges,
    class_loss,
    dropped,
    keep_options,
    number_option,
    propagate,
)
from pdgnn.graph import Graph
from pdgnn.nn.backbone import SeededModule
from pdgnn.nn.features import SparseFeatures, feature_matmul
from pdgnn.nn.inputs import graph_inputs
from pdgnn.nn.interface import Model, Option, Size
from pdgnn.ops import Edges, aggregate

if TYPE_CHECKING:
    from pdgnn.training.spec import RunSpec

__all__ = ["GBKGNN", "MODEL", "GatedLayer", "gate_loss"]


class GatedLayer(nn.Module):
    """W_f hᵢ + b and the messages of both kernels."""

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.own = nn.Linear(in_channels, out_channels)
        self.same = nn.Linear(in_channels, out_channels, bias=False)
        self.other = nn.Linear(in_channels, out_channels, bias=False)
        self.gate = nn.Linear(2 * in_channels, 1)

    def forward(
        self, h: Tensor | SparseFeatures, edges: Edges, mean: Tensor
    ) -> tuple[Tensor, Tensor | None]:
        """``[N, in]`` to ``[N, out]``, and the gates' logits ``[E]``; mean ``[E]`` is 1/dᵢ."""
        scores = feature_matmul(h, self.gate.weight.view(2, -1))  # [N, 2], of target and source
        gate = at_edges(scores[:, 1], scores[:, 0], edges) + self.gate.bias  # [E]
        both = torch.stack([affine(self.same, h), affine(self.other, h)], dim=1)  # [N, 2, out]
        share = mean[:, None] * torch.stack([gate, -gate], dim=1).sigmoid()  # [E, 2]
        return affine(self.own, h) + aggregate(both, share, edges).sum(dim=1), gate


class MeanLayer(nn.Module):
    """W_f hᵢ + b + the mean of W hⱼ over the neighbours."""

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.own = nn.Linear(in_channels, out_channels)
        self.same = nn.Linear(in_channels, out_channels, bias=False)

    def forward(
        self, h: Tensor | SparseFeatures, edges: Edges, mean: Tensor
    ) -> tuple[Tensor, Tensor | None]:
        """``[N, in]`` to ``[N, out]``; there are no gates."""
        return affine(self.own, h) + propagate(affine(self.same, h), mean, edges), None


class GBKGNN(SeededModule):
    """The module; see above."""

    gate_weight: Tensor

    def __init__(self, size: Size, spec: RunSpec) -> None:
        super().__init__(spec.dropout, spec.seed)
        kind = GatedLayer if spec.options["gate"] else MeanLayer
        widths = [size.in_channels, *[spec.width] * (spec.depth - 1), size.out_channels]
        self.layers = nn.ModuleList(map(kind, widths[:-1], widths[1:]))
        keep_options(self, spec, "gate_weight")

    def forward(
        self, x: Tensor | SparseFeatures, edges: Edges, edge_weight: Tensor
    ) -> Tensor | dict[str, Any]:
        """``[N, in]`` to logits ``[N, out]``, in training with the gates ``[depth, E]``."""
        dropout, gates = self.dropout_state(), []
        h: Any = x
        for i, layer in enumerate(self.layers):
            h = dropped(h.relu(), dropout) if i else h
            h, gate = layer(h, edges, edge_weight)
            gates += [gate] if gate is not None else []
        if not self.training:
            out: Tensor = h
            return out
        return {"logits": h, "gates": gates, "edges": edges, "gate_weight": self.gate_weight}


def gate_loss(gate: Tensor, edges: Edges, target: Tensor, train: Tensor) -> Tensor:
    """The mean binary cross entropy of the gates ``[E]`` over the edges between training nodes.

    It is 0 where there is no such edge.
    """
    gate = gate.to(torch.promote_types(gate.dtype, torch.float32))
    ends = [t.index_select(0, end) for t in (target, train) for end in (edges.row, edges.col)]
    same = (ends[0] == ends[1]).to(gate.dtype)  # [E]
    known = (ends[2] & ends[3]).to(gate.dtype)  # [E]
    each = F.binary_cross_entropy_with_logits(gate, same, reduction="none")
    return (each * known).sum() / known.sum().clamp(min=1)


def _loss(
    outputs: dict[str, Any],
    target: Tensor,
    train: Tensor,
    step: Tensor,
    weight: Tensor | None = None,
) -> Tensor:
    loss = class_loss(outputs["logits"], target, train, weight)
    for gate in outputs["gates"]:
        loss = loss + outputs["gate_weight"] * gate_loss(gate, outputs["edges"], target, train)
    return loss


def _inputs(graph: Graph, x: Tensor, spec: RunSpec) -> dict[str, Any]:
    return graph_inputs(graph, weight="mean")


MODEL = Model(
    build=GBKGNN,
    inputs=_inputs,
    loss=_loss,
    optimizer="adam",
    options={
        "gate": Option(True, help="whether there are two kernels and a gate; without: GraphSAGE"),
        "gate_weight": number_option(30.0, 0, float("inf"), "λ, the weight of the gates' loss"),
    },
    name="GBK-GNN",
    uses=("depth", "width", "dropout", "rewired"),
    values=("dropout",),
    sparse=True,
)
