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

from torch import Tensor

from pdgnn.baselines.parts import (
    MLP,
    keep_options,
    loops_inputs,
    number_option,
    propagate,
    whole,
)
from pdgnn.nn.backbone import SeededModule
from pdgnn.nn.features import SparseFeatures
from pdgnn.nn.interface import Model, Option, Size
from pdgnn.ops import Edges

if TYPE_CHECKING:
    from pdgnn.training.spec import RunSpec

__all__ = ["APPNP", "MODEL"]


class APPNP(SeededModule):
    """The module; see above."""

    teleport: Tensor

    def __init__(self, size: Size, spec: RunSpec) -> None:
        super().__init__(spec.dropout, spec.seed)
        self.hops = int(spec.options["hops"] or 0)
        self.mlp = MLP(size.in_channels, *(spec.depth - 1) * [spec.width], size.out_channels)
        keep_options(self, spec, "teleport")

    def forward(self, x: Tensor | SparseFeatures, edges: Edges, edge_weight: Tensor) -> Tensor:
        """``[N, in]`` to logits ``[N, out]``; the weights ``[E]`` are Â."""
        h: Tensor = self.mlp(x, self.dropout_state()).to(edge_weight.dtype)
        t, z = self.teleport, h
        for _ in range(self.hops):
            z = (1 - t) * propagate(z, edge_weight, edges) + t * h
        return z


MODEL = Model(
    build=APPNP,
    inputs=loops_inputs,
    optimizer="adam",
    options={
        "hops": Option(10, whole(), help="steps of propagation"),
        "teleport": number_option(0.1, 0, 1, "share of the MLP in each step"),
    },
    name="APPNP",
    uses=("depth", "width", "dropout", "rewired"),
    values=("dropout",),
    sparse=True,
)
