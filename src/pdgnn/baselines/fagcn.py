"""FAGCN: attention whose sign is learned, and a share of the first features in each layer.

Bo, Wang, Shi and Shen, "Beyond Low-frequency Information in Graph Convolutional Networks",
AAAI 2021.

h⁰ = dropout(ReLU(W dropout(x) + b)); each layer is
hᵢ ← ε h⁰ᵢ + Σ_j dropout(tanh(⟨g, [hᵢ ‖ hⱼ]⟩ + c) / √(dᵢ dⱼ)) hⱼ over the neighbours j of i; the
classes are read by a Linear. tanh may be negative: a layer may take differences of neighbours
(high frequencies) as well as means.

Choices: no loops, as in the paper (the ego comes in by ε); g has a bias c, and weights begin as in
the public code (Xavier, gain √2). The formula is that of PyG's ``FAConv`` without loops, on the
package's own ops: FAConv drops by torch's generator, so that its masks would depend on which runs
train together. Cost of a step: depth · E · width.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from pdgnn.baselines.parts import (
    adjacency_inputs,
    affine,
    at_edges,
    dropped,
    keep_options,
    number_option,
    propagate,
)
from pdgnn.nn.backbone import SeededModule
from pdgnn.nn.features import SparseFeatures
from pdgnn.nn.interface import Model, Size
from pdgnn.ops import Edges, linear

if TYPE_CHECKING:
    from pdgnn.training.spec import RunSpec

__all__ = ["FAGCN", "MODEL", "signed_attention"]


class FAGCN(SeededModule):
    """The module; see above."""

    epsilon: Tensor

    def __init__(self, size: Size, spec: RunSpec) -> None:
        super().__init__(spec.dropout, spec.seed)
        self.lin_in = nn.Linear(size.in_channels, spec.width)
        self.gates = nn.ModuleList(nn.Linear(2 * spec.width, 1) for _ in range(spec.depth))
        self.lin_out = nn.Linear(spec.width, size.out_channels)
        for lin in (self.lin_in, *self.gates, self.lin_out):
            nn.init.xavier_normal_(lin.weight, gain=math.sqrt(2))
        keep_options(self, spec, "epsilon")

    def forward(self, x: Tensor | SparseFeatures, edges: Edges, edge_weight: Tensor) -> Tensor:
        """``[N, in]`` to logits ``[N, out]``; the weights ``[E]`` are 1 / √(dᵢ dⱼ)."""
        dropout = self.dropout_state()
        first = dropped(affine(self.lin_in, dropped(x, dropout)).relu(), dropout)  # [N, width]
        h, kept = first, self.epsilon.to(first.dtype) * first
        gates: list[Any] = list(self.gates)
        for gate in gates:
            weight = signed_attention(gate.weight, gate.bias, h, edges) * edge_weight
            h = kept + propagate(h, dropped(weight, dropout), edges)
        return affine(self.lin_out, h)


def signed_attention(weight: Tensor, bias: Tensor, h: Tensor, edges: Edges) -> Tensor:
    """tanh(⟨g, [hᵢ ‖ hⱼ]⟩ + c) for each edge (j, i): g ``[1, 2D]``, h ``[N, D]`` to ``[E]``."""
    target, source = linear(h, weight.view(2, -1)).unbind(dim=1)  # [N] each
    return torch.tanh(at_edges(source, target, edges) + bias)


MODEL = Model(
    build=FAGCN,
    inputs=adjacency_inputs,
    optimizer="adam",
    options={"epsilon": number_option(0.3, 0, 1, "share of the first features in each layer")},
    name="FAGCN",
    uses=("depth", "width", "dropout", "rewired"),
    values=("dropout",),
    sparse=True,
)
