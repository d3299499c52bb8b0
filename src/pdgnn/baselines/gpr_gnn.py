"""GPR-GNN: a learned weight for each power of the adjacency matrix.

Chien, Peng, Li and Milenkovic, "Adaptive Universal Generalized PageRank Graph Neural Network",
ICLR 2021.

H = W₂ dropout(ReLU(W₁ dropout(X))) are scores of the classes, and Z = Σ_{k≤K} γ_k Âᵏ H' is what is
read, with H' = H after a dropout of its own and Â = D̂^(−½) (A + I) D̂^(−½), D̂ = D + I. All K + 1
weights γ are learned, may become negative, and begin at those of personalised PageRank:
γ_k = a (1 − a)ᵏ for k < K, and γ_K = (1 − a)ᴷ.

Choices: K is the option ``hops``, a is ``teleport`` (0.1, the default of the public code). No
decay of γ, as there. Cost of a step: K · E · classes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from pdgnn.baselines.parts import (
    affine,
    dropped,
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

__all__ = ["GPRGNN", "MODEL", "pagerank_weights"]


def pagerank_weights(teleport: float, hops: int) -> Tensor:
    """The first γ, ``[hops + 1]``, which sum to 1.

    >>> pagerank_weights(0.5, 2).tolist()
    [0.5, 0.25, 0.25]
    """
    decay = (1 - teleport) ** torch.arange(hops + 1.0)
    return torch.cat([teleport * decay[:-1], decay[-1:]])


class GPRGNN(SeededModule):
    """The module; see above."""

    wide = ("gamma",)
    prop_dropout: Tensor

    def __init__(self, size: Size, spec: RunSpec) -> None:
        super().__init__(spec.dropout, spec.seed)
        hops, teleport = (spec.options[name] for name in ("hops", "teleport"))
        self.lin_in = nn.Linear(size.in_channels, spec.width)
        self.lin_out = nn.Linear(spec.width, size.out_channels)
        self.gamma = nn.Parameter(pagerank_weights(float(teleport or 0), int(hops or 0)))
        keep_options(self, spec, "prop_dropout")

    def forward(self, x: Tensor | SparseFeatures, edges: Edges, edge_weight: Tensor) -> Tensor:
        """``[N, in]`` to logits ``[N, out]``; the weights ``[E]`` are Â."""
        dropout = self.dropout_state()
        h = affine(self.lin_in, dropped(x, dropout)).relu()
        h = affine(self.lin_out, dropped(h, dropout))  # [N, out]
        h = dropped(h, dropout, self.prop_dropout)
        out = self.gamma[0] * h
        for weight in self.gamma[1:].unbind():
            h = propagate(h, edge_weight, edges)
            out = out + weight * h
        return out


MODEL = Model(
    build=GPRGNN,
    inputs=loops_inputs,
    groups={"gamma": {"weight_decay": 0.0}},
    optimizer="adam",
    options={
        "hops": Option(10, whole(1), help="K, the largest power of the adjacency matrix"),
        "teleport": number_option(0.1, 0, 1, "a of the PageRank that the weights begin at"),
        "prop_dropout": number_option(0.7, 0, 1, "dropout before the propagation", end=False),
    },
    name="GPR-GNN",
    uses=("width", "dropout", "rewired"),
    values=("dropout",),
    sparse=True,
)
