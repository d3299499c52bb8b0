"""APPNP: an MLP, then personalised PageRank of what it predicts.

H = MLP(X) and Z_0 = H; then K times Z_(k+1) = (1 − t) Â Z_k + t H, with Â = D̂^(−½) (A + I) D̂^(−½)
and the teleport probability t. The logits are Z_K.

Gasteiger, Bojchevski, Günnemann: *Predict then propagate: graph neural networks meet personalized
PageRank*, ICLR 2019.

Choices: the MLP has `depth` layers of `width` channels, with dropout before each. The paper also
drops edges in each step of propagation, and decays the first layer only; here nothing is dropped
from Â, as in PyG's ``APPNP`` by default, and all layers decay, as in the later comparisons of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from pdgnn.baselines.parts import MLP, loops_inputs, propagate, whole
from pdgnn.errors import check_number
from pdgnn.nn.features import SparseFeatures
from pdgnn.nn.interface import Model, Option, Size
from pdgnn.ops import Edges

if TYPE_CHECKING:
    from pdgnn.training.spec import RunSpec

__all__ = ["APPNP", "MODEL"]


class APPNP(nn.Module):
    """An MLP and `hops` steps of personalised PageRank with the probability `teleport`."""

    teleport: Tensor

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        *,
        depth: int = 2,
        hops: int = 10,
        teleport: float = 0.1,
        dropout: float = 0.5,
    ) -> None:
        super().__init__()
        self.mlp = MLP(in_channels, hidden_channels, out_channels, depth=depth, dropout=dropout)
        self.hops = hops
        self.register_buffer("teleport", torch.tensor(teleport, dtype=torch.float64))

    def forward(self, x: Tensor | SparseFeatures, edges: Edges, edge_weight: Tensor) -> Tensor:
        """``[N, in_channels]`` and Â in slots ``[E]`` to ``[N, out_channels]``."""
        h: Tensor = self.mlp(x).to(edge_weight.dtype)
        t, z = self.teleport.to(h.dtype), h
        for _ in range(self.hops):
            z = (1 - t) * propagate(z, edge_weight, edges) + t * h
        return z


def _build(size: Size, spec: RunSpec) -> nn.Module:
    return APPNP(
        size.in_channels,
        spec.width,
        size.out_channels,
        depth=spec.depth,
        dropout=spec.dropout,
        **spec.options,  # type: ignore[arg-type]
    )


def _teleport(value: object) -> float:
    return check_number("it", value, 0, 1)


MODEL = Model(
    build=_build,
    inputs=loops_inputs,
    optimizer="adam",
    options={
        "hops": Option(10, whole(), help="steps of propagation"),
        "teleport": Option(0.1, _teleport, value=True, help="share of the MLP in each step"),
    },
    name="APPNP",
    uses=("depth", "width", "dropout", "rewired"),
    values=("dropout",),
    sparse=True,
)
