"""LINKX: an MLP of the rows of the adjacency matrix beside one of the features, and one of both.

H_A = MLP_A(A), H_X = MLP_X(X), Y = MLP_f(relu(W [H_A ‖ H_X] + b + H_A + H_X)).

Lim et al.: *Large scale learning on non-homophilous graphs: new benchmarks and strong simple
methods*, NeurIPS 2021.

A is not an image of the features: its first layer has a row of weights for each node, and A W_A is
the sum of the rows of a node's neighbours, O(E · width). Nothing of the size N × N is made. So the
weights belong to the nodes of one graph, and are permuted with them.

Choices: an MLP is Linear → ReLU → BatchNorm (→ dropout in MLP_f) between its layers and ends in a
Linear layer, as in the authors' code and in PyG's ``LINKX``, which gives the same numbers for the
same weights. `depth` counts the layers of MLP_f. The norms take their statistics from all nodes.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING, cast

import torch
from torch import Tensor, nn

from pdgnn.baselines.parts import affine, dropped, plain_inputs, propagate, whole
from pdgnn.nn.backbone import SeededModule
from pdgnn.nn.blocks import DropoutState
from pdgnn.nn.features import SparseFeatures
from pdgnn.nn.interface import Model, Option, Size
from pdgnn.ops import Edges

if TYPE_CHECKING:
    from pdgnn.training.spec import RunSpec

__all__ = ["LINKX", "MODEL"]


class Rest(nn.Module):
    """ReLU → BatchNorm → dropout, if there is some → Linear for each layer after the first."""

    def __init__(self, *widths: int) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.BatchNorm1d(width) for width in widths[:-1])
        self.lins = nn.ModuleList(nn.Linear(*pair) for pair in pairwise(widths))

    def forward(self, h: Tensor, dropout: DropoutState | None = None) -> Tensor:
        """``[N, first]`` to ``[N, last]`` of the widths."""
        for norm, lin in zip(self.norms, self.lins, strict=True):
            h = affine(cast(nn.Linear, lin), dropped(norm(h.relu()), dropout))
        return h


class LINKX(SeededModule):
    """The module; see above."""

    wide = ("more_edges.norms", "more_nodes.norms", "more_final.norms")

    def __init__(self, size: Size, spec: RunSpec) -> None:
        super().__init__(spec.dropout, spec.seed)
        width, bound = spec.width, 1 / math.sqrt(size.num_nodes)
        edges, nodes = (int(spec.options[n] or 0) for n in ("edge_layers", "node_layers"))
        self.weight = nn.Parameter(torch.empty(size.num_nodes, width))  # W_A, a row for each node
        self.bias = nn.Parameter(torch.empty(width))
        self.more_edges = Rest(*edges * [width])
        self.lin_nodes = nn.Linear(size.in_channels, width)
        self.more_nodes = Rest(*nodes * [width])
        self.mix = nn.Linear(2 * width, width)
        first, *widths = [*(spec.depth - 1) * [width], size.out_channels]
        self.lin_final = nn.Linear(width, first)
        self.more_final = Rest(first, *widths)
        for parameter in (self.weight, self.bias):  # as torch draws a Linear from N to `width`
            nn.init.uniform_(parameter, -bound, bound)

    def forward(self, x: Tensor | SparseFeatures, edges: Edges, edge_weight: Tensor) -> Tensor:
        """``[N, in]`` to logits ``[N, out]``; the weights ``[E]`` are A."""
        of_edges = self.more_edges(propagate(self.weight, edge_weight, edges) + self.bias)
        of_nodes = self.more_nodes(affine(self.lin_nodes, x))
        mixed = affine(self.mix, torch.cat([of_edges, of_nodes], dim=1)) + of_edges + of_nodes
        out: Tensor = self.more_final(affine(self.lin_final, mixed.relu()), self.dropout_state())
        return out


MODEL = Model(
    build=LINKX,
    inputs=plain_inputs,
    options={
        "edge_layers": Option(1, whole(), help="layers of the MLP of the adjacency matrix"),
        "node_layers": Option(1, whole(), help="layers of the MLP of the features"),
    },
    name="LINKX",
    uses=("depth", "width", "dropout", "rewired"),
    values=("dropout",),
    sparse=True,
)
