"""GloGNN: every node may listen to every other, by coefficients that are solved for.

Li, Zhu, Cheng, Shan, Luo, Li and Qian, "Finding Global Homophily in Graph Neural Networks When
Meeting Heterophily", ICML 2022.

H⁰ = W dropout(ReLU(δ MLP(X) + (1 − δ) MLP(A))) + b are scores of the C classes, ``[N, C]``. A layer
is H ← (1 − γ) Z H + γ H⁰ with the Z ``[N, N]`` that minimises
‖H − (1 − γ) Z H − γ H⁰‖² + β₁ ‖Z‖² + β₂ ‖Z − Σ_k λ_k Âᵏ‖²:
Z = [(1 − γ) (H − γ H⁰) Hᵀ + β₂ Σ_k λ_k Âᵏ] [(1 − γ)² H Hᵀ + (β₁ + β₂) I]⁻¹.

Z is never formed. The inverse times H is H M⁻¹ with M = (1 − γ)² HᵀH + (β₁ + β₂) I, which is
``[C, C]`` (push-through identity), so that with G = H M⁻¹ a layer is
(1 − γ)² (H − γ H⁰) (HᵀG) + (1 − γ) β₂ Σ_k λ_k Âᵏ G + γ H⁰. Cost of a step: E · width for MLP(A),
and for each of ``depth`` layers N · C² + orders · E · C.

Choices: Â = D̂⁻¹ (A + I), and MLP(A) reads the same matrix, as in the public code. δ is the share
of the features there: δ = 0, the setting behind the published row, reads the adjacency alone.
γ is called ``residual``. The λ are learned and begin at 1 / orders (in the public code they stay
there on a GPU). M is inverted in float32 at least.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from pdgnn.baselines.parts import (
    affine,
    dropped,
    keep_options,
    number_option,
    one_logit,
    propagate,
    whole,
)
from pdgnn.errors import InputError
from pdgnn.graph import Graph
from pdgnn.nn.backbone import SeededModule
from pdgnn.nn.features import SparseFeatures
from pdgnn.nn.inputs import graph_inputs
from pdgnn.nn.interface import Model, Option, Size
from pdgnn.ops import Edges

if TYPE_CHECKING:
    from pdgnn.training.spec import RunSpec

__all__ = ["MODEL", "GloGNN", "inverse"]


class GloGNN(SeededModule):
    """The module; see above."""

    wide = ("order_weight",)
    beta1: Tensor
    beta2: Tensor
    residual: Tensor
    delta: Tensor

    def __init__(self, size: Size, spec: RunSpec) -> None:
        super().__init__(spec.dropout, spec.seed)
        self.layers, self.out_channels = spec.depth, size.out_channels
        self.lin_x = nn.Linear(size.in_channels, spec.width)
        bound = 1 / math.sqrt(size.num_nodes)  # as torch draws the weights of a Linear
        self.rows = nn.Parameter(torch.empty(size.num_nodes, spec.width).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.empty(spec.width).uniform_(-bound, bound))
        self.lin_out = nn.Linear(spec.width, size.num_classes)
        orders = int(spec.options["orders"] or 0)
        self.order_weight = nn.Parameter(torch.full((orders,), 1 / orders))
        keep_options(self, spec, "beta1", "beta2", "residual", "delta")

    def forward(self, x: Tensor | SparseFeatures, edges: Edges, edge_weight: Tensor) -> Tensor:
        """``[N, in]`` to logits ``[N, out]``; the weights ``[E]`` are Â."""
        of_features = affine(self.lin_x, x)  # [N, width]
        of_edges = propagate(self.rows, edge_weight, edges) + self.bias
        delta = self.delta.to(of_edges.dtype)
        h = (delta * of_features + (1 - delta) * of_edges).relu()
        h = affine(self.lin_out, dropped(h, self.dropout_state()))
        first = h.to(self.order_weight.dtype)  # [N, C]
        h = first
        for _ in range(self.layers):
            h = self._layer(h, first, edges, edge_weight)
        return one_logit(h, self.out_channels)

    def _layer(self, h: Tensor, first: Tensor, edges: Edges, edge_weight: Tensor) -> Tensor:
        """``[N, C]`` to ``[N, C]``; see the formula above."""
        keep = 1 - self.residual
        eye = torch.eye(h.shape[1], dtype=h.dtype, device=h.device)
        m = keep**2 * (h.T @ h) + (self.beta1 + self.beta2) * eye  # [C, C]
        g = h @ inverse(m)
        spread, local = g, torch.zeros_like(g)
        for weight in self.order_weight.unbind():
            spread = propagate(spread, edge_weight, edges)
            local = local + weight * spread
        across = keep**2 * (h - self.residual * first) @ (h.T @ g)
        out: Tensor = across + keep * self.beta2 * local + self.residual * first
        return out


def inverse(m: Tensor) -> Tensor:
    """That of a positive definite matrix ``[C, C]``, by Gauss and Jordan.

    Not :func:`torch.linalg.inv`, whose solvers may wait for the device or allocate on the host,
    which a CUDA graph cannot capture. A positive definite matrix needs no pivots.

    >>> inverse(torch.tensor([[2.0, 0.0], [0.0, 4.0]])).tolist()
    [[0.5, 0.0], [0.0, 0.25]]
    """
    size = m.shape[0]
    one = torch.eye(size, dtype=m.dtype, device=m.device)
    both = torch.cat([m.detach(), one], dim=1)  # [C, 2C], ends as [I, M⁻¹]
    for k in range(size):
        row = both[k] / both[k, k]
        both = torch.where(one[:, k : k + 1] > 0, row, both - both[:, k : k + 1] * row)
    found = both[:, size:]
    return found + found @ (m.detach() - m) @ found  # adds 0, and d(M⁻¹) = −M⁻¹ dM M⁻¹


def _inputs(graph: Graph, x: Tensor, spec: RunSpec) -> dict[str, Any]:
    # P^(1, ½) is (D + I)⁻¹ (A + I)
    return graph_inputs(graph, loops=True, weight="diffusion", scope=(1.0, 0.5))


def _check(spec: RunSpec) -> None:
    if spec.options["beta1"] == spec.options["beta2"] == 0:
        raise InputError("beta1 and beta2 are both 0, and the coefficients free; set one above 0")


MODEL = Model(
    build=GloGNN,
    inputs=_inputs,
    optimizer="adam",
    options={
        "beta1": number_option(1.0, 0, math.inf, "weight of ‖Z‖² (α of the public code)"),
        "beta2": number_option(1.0, 0, math.inf, "weight of ‖Z − Σ λ_k Âᵏ‖² (β there)"),
        "residual": number_option(0.0, 0, 1, "γ, share of H⁰ in each layer", end=False),
        "delta": number_option(0.0, 0, 1, "share of the features; the rest is the adjacency's"),
        "orders": Option(1, whole(1), help="largest power of the adjacency matrix"),
    },
    name="GloGNN",
    uses=("depth", "width", "dropout", "rewired"),
    values=("dropout",),
    sparse=True,
    check=_check,
)
