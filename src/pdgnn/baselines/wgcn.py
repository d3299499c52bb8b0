"""ωGCN: GCN whose layers smooth or sharpen, each channel as much as it has learned.

H^(0) = relu(X K_open); then H^(l+1) = relu((H^(l) − (I − P̂) H^(l) Ω^(l)) K^(l)) with
P̂ = D̂^(−½) (A + I) D̂^(−½) and Ω^(l) = diag(ω_1, …, ω_C), learned for each layer and channel; the
logits are H^(L) K_close. A channel with ω = 1 is that of GCN, one with ω = 0 sees the node alone,
one with ω < 0 sharpens.

Eliasof, Ruthotto, Treister: *Improving graph neural networks with learnable propagation operators*,
ICML 2023.

Choices: as in the authors' code no layer has a bias, there is dropout before the first and the last
product only, every ω starts at 1 and every K^(l) at the identity with a little noise, and K_open
and K_close are drawn by Glorot's rule. The ω may have a learning rate and a decay of their own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from pdgnn.baselines.parts import (
    affine,
    dropped,
    loops_inputs,
    own_rates,
    propagate,
    rate_options,
)
from pdgnn.nn.backbone import SeededModule
from pdgnn.nn.features import SparseFeatures
from pdgnn.nn.interface import Model, Size
from pdgnn.ops import Edges

if TYPE_CHECKING:
    from pdgnn.training.spec import RunSpec

__all__ = ["MODEL", "OmegaGCN"]

NOISE = 1e-4
"""Added to the identity that K^(l) starts at."""


class OmegaGCN(SeededModule):
    """The module; see above."""

    wide = ("omega",)

    def __init__(self, size: Size, spec: RunSpec) -> None:
        super().__init__(spec.dropout, spec.seed)
        width, depth = spec.width, spec.depth
        self.lin_in = nn.Linear(size.in_channels, width, bias=False)
        self.layers = nn.ModuleList(nn.Linear(width, width, bias=False) for _ in range(depth))
        self.lin_out = nn.Linear(width, size.out_channels, bias=False)
        self.omega = nn.Parameter(torch.ones(depth, width))
        for lin in (self.lin_in, self.lin_out):
            nn.init.xavier_uniform_(lin.weight)
        for weight in self.layers.parameters():
            nn.init.uniform_(weight, 0.0, NOISE)
            weight.data.diagonal().add_(1.0)

    def forward(self, x: Tensor | SparseFeatures, edges: Edges, edge_weight: Tensor) -> Tensor:
        """``[N, in]`` to logits ``[N, out]``; the weights ``[E]`` are P̂."""
        dropout = self.dropout_state()
        h = affine(self.lin_in, dropped(x, dropout)).relu()
        layers: list[Any] = list(self.layers)
        for lin, omega in zip(layers, self.omega, strict=True):
            h = affine(lin, h - omega * (h - propagate(h, edge_weight, edges))).relu()
        return affine(self.lin_out, dropped(h, dropout))


def _groups(spec: RunSpec) -> Mapping[str, Mapping[str, float]]:
    return own_rates(spec, "omega")


MODEL = Model(
    build=OmegaGCN,
    inputs=loops_inputs,
    groups=_groups,
    optimizer="adam",
    options=rate_options("omega", "the ω"),
    name="wGCN",
    uses=("depth", "width", "dropout", "rewired"),
    values=("dropout",),
    sparse=True,
)
