"""GPR-GNN: a learned weight for each power of the adjacency matrix.

Chien, Peng, Li and Milenkovic, "Adaptive Universal Generalized PageRank Graph Neural Network",
ICLR 2021.

H = W₂ dropout(ReLU(W₁ dropout(X))) are scores of the classes, and Z = Σ_{k≤K} γ_k Âᵏ H' is what is
read, with H' = H after a dropout of its own and Â = D̂^(−½) (A + I) D̂^(−½), D̂ = D + I. All K + 1
weights γ are learned, may become negative, and begin at those of personalised PageRank:
γ_k = a (1 − a)ᵏ for k < K, and γ_K = (1 − a)ᴷ.

Choices: K is the option ``hops``, a is ``teleport`` (0.1, the default of the public code). No
decay of γ, as there. Two classes have one logit, and a dropout before the propagation takes out all
that a node has to say. With ``two_scores`` they have a score each, as in the public code, and the
logit is their difference: the dropout takes the two out one by one. On minesweeper, at the rate of
0.7 behind the published row, that is worth about three points. Cost of a step: K · E · classes.
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
    one_logit,
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
        self.two_scores, self.out_channels = bool(spec.options["two_scores"]), size.out_channels
        scores = max(2, size.out_channels) if self.two_scores else size.out_channels
        self.lin_in = nn.Linear(size.in_channels, spec.width)
        self.lin_out = nn.Linear(spec.width, scores)
        self.gamma = nn.Parameter(pagerank_weights(float(teleport or 0), int(hops or 0)))
        keep_options(self, spec, "prop_dropout")

    def forward(self, x: Tensor | SparseFeatures, edges: Edges, edge_weight: Tensor) -> Tensor:
        """``[N, in]`` to logits ``[N, out]``; the weights ``[E]`` are Â."""
        dropout = self.dropout_state()
        h = affine(self.lin_in, dropped(x, dropout)).relu()
        h = affine(self.lin_out, dropped(h, dropout))  # [N, scores]
        h = dropped(h, dropout, self.prop_dropout)
        out = self.gamma[0] * h
        for weight in self.gamma[1:].unbind():
            h = propagate(h, edge_weight, edges)
            out = out + weight * h
        return one_logit(out, self.out_channels) if self.two_scores else out


MODEL = Model(
    build=GPRGNN,
    inputs=loops_inputs,
    groups={"gamma": {"weight_decay": 0.0}},
    optimizer="adam",
    options={
        "hops": Option(10, whole(1), help="K, the largest power of the adjacency matrix"),
        "teleport": number_option(0.1, 0, 1, "a of the PageRank that the weights begin at"),
        "prop_dropout": number_option(0.7, 0, 1, "dropout before the propagation", end=False),
        "two_scores": Option(False, help="a score for each of two classes, and not one logit"),
    },
    name="GPR-GNN",
    uses=("width", "dropout", "rewired"),
    values=("dropout",),
    sparse=True,
)
