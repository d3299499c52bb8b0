"""FSGNN: features of several hops, each with a network of its own, weighed by a softmax.

Maurya, Liu and Murata, "Simplifying approach to node classification in Graph Neural Networks",
Journal of Computational Science, 2022 (arXiv:2111.06748).

The 2K + 1 feature matrices F are X, and for k = 1 … K both Āᵏ X and Âᵏ X, where
Ā = D^(−½) A D^(−½), and Â is the same of A + I. Each is mapped by a Linear, its rows are brought to
length 1, and it is multiplied by its entry of softmax(s), which is learned and begins uniform. The
classes are read from dropout(ReLU([… ‖ softmax(s)_f · normalise(W_f F_f + b_f) ‖ …])) by a Linear.

Choices: K is the option ``hops``. Both matrices are normalised, as in the paper (the run behind the
published row took sums of neighbours). One learning rate and decay for all, as there. The hop
features, 2K · N · in numbers, are made once for each graph in float64. Cost of a step:
K · N · in · width; the graph itself is no longer needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from pdgnn.baselines.parts import adjacency_inputs, affine, dropped, propagate, whole
from pdgnn.graph import Graph
from pdgnn.nn.backbone import SeededModule
from pdgnn.nn.features import SparseFeatures
from pdgnn.nn.inputs import graph_inputs
from pdgnn.nn.interface import Model, Option, Size

if TYPE_CHECKING:
    from pdgnn.training.spec import RunSpec

__all__ = ["FSGNN", "MODEL", "hop_features"]


class FSGNN(SeededModule):
    """The module; see above."""

    wide = ("score",)

    def __init__(self, size: Size, spec: RunSpec) -> None:
        super().__init__(spec.dropout, spec.seed)
        kinds = 2 * int(spec.options["hops"] or 0) + 1
        self.lins = nn.ModuleList(nn.Linear(size.in_channels, spec.width) for _ in range(kinds))
        self.score = nn.Parameter(torch.ones(kinds))
        self.lin_out = nn.Linear(kinds * spec.width, size.out_channels)

    def forward(self, x: Tensor | SparseFeatures, hops: Tensor) -> Tensor:
        """``[N, in]`` and hops ``[2K, N, in]`` to logits ``[N, out]``."""
        seen: list[Any] = [x, *hops]
        lins: list[Any] = list(self.lins)
        shares = self.score.softmax(0).unbind()
        parts = [
            share * F.normalize(affine(lin, features), dim=1)  # [N, width]
            for lin, features, share in zip(lins, seen, shares, strict=True)
        ]
        h = torch.cat(parts, dim=1).relu()
        return affine(self.lin_out, dropped(h, self.dropout_state()))


def hop_features(graph: Graph, x: Tensor, hops: int) -> Tensor:
    """Ā X, Â X, Ā² X, Â² X, … as ``[2 · hops, N, in]``, float64."""
    plain, looped = adjacency_inputs(graph), graph_inputs(graph, loops=True, weight="symmetric")
    found, last = [], [x.double(), x.double()]
    for _ in range(hops):
        last = [
            propagate(h, kind["edge_weight"], kind["edges"])
            for h, kind in zip(last, (plain, looped), strict=True)
        ]
        found += last
    return torch.stack(found)


def _inputs(graph: Graph, x: Tensor, spec: RunSpec) -> dict[str, Any]:
    return {"hops": hop_features(graph, x, int(spec.options["hops"] or 0))}


MODEL = Model(
    build=FSGNN,
    inputs=_inputs,
    optimizer="adam",
    options={"hops": Option(3, whole(1), help="K, the largest power of the adjacency matrix")},
    name="FSGNN",
    uses=("width", "dropout", "rewired"),
    values=("dropout",),
    sparse=True,
)
