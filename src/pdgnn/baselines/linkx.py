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
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from pdgnn.baselines.parts import propagate, transform, whole
from pdgnn.graph import Graph
from pdgnn.nn.dropout import Dropout
from pdgnn.nn.features import SparseFeatures
from pdgnn.nn.inputs import structure
from pdgnn.nn.interface import Model, Option, Size
from pdgnn.ops import Edges

if TYPE_CHECKING:
    from pdgnn.training.spec import RunSpec

__all__ = ["LINKX", "MODEL"]


def _more(*widths: int, dropout: float | None = None) -> nn.Sequential:
    """ReLU → BatchNorm → dropout → Linear for each layer of an MLP after its first."""
    layers = list[nn.Module]()
    for before, after in pairwise(widths):
        layers += [nn.ReLU(), nn.BatchNorm1d(before)]
        layers += [] if dropout is None else [Dropout(dropout)]
        layers.append(nn.Linear(before, after))
    return nn.Sequential(*layers)


class LINKX(nn.Module):
    """The three MLPs, for a graph of `num_nodes` nodes."""

    def __init__(
        self,
        num_nodes: int,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        *,
        depth: int = 1,
        edge_layers: int = 1,
        node_layers: int = 1,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        width = hidden_channels
        self.weight = nn.Parameter(torch.empty(num_nodes, width))  # W_A, a row for each node
        self.bias = nn.Parameter(torch.empty(width))
        self.more_edges = _more(*edge_layers * [width])
        self.lin_nodes = nn.Linear(in_channels, width)
        self.more_nodes = _more(*node_layers * [width])
        self.mix = nn.Linear(2 * width, width)
        first, *widths = [*(depth - 1) * [width], out_channels]
        self.lin_final = nn.Linear(width, first)
        self.more_final = _more(first, *widths, dropout=dropout)
        for parameter in (self.weight, self.bias):  # as torch draws a Linear from N to `width`
            nn.init.uniform_(parameter, -1 / math.sqrt(num_nodes), 1 / math.sqrt(num_nodes))

    def forward(self, x: Tensor | SparseFeatures, edges: Edges, edge_weight: Tensor) -> Tensor:
        """``[N, in_channels]`` and A in slots ``[E]`` to ``[N, out_channels]``."""
        of_edges = self.more_edges(propagate(self.weight, edge_weight, edges) + self.bias)
        of_nodes = self.more_nodes(transform(self.lin_nodes, x))
        mixed = self.mix(torch.cat([of_edges, of_nodes], dim=1)) + of_edges + of_nodes
        out: Tensor = self.more_final(self.lin_final(mixed.relu()))
        return out


def _build(size: Size, spec: RunSpec) -> nn.Module:
    return LINKX(
        size.num_nodes,
        size.in_channels,
        spec.width,
        size.out_channels,
        depth=spec.depth,
        dropout=spec.dropout,
        **spec.options,  # type: ignore[arg-type]
    )


def _inputs(graph: Graph, x: Tensor, spec: RunSpec) -> dict[str, object]:
    edges, order = structure(graph, loops=False)
    return {"edges": edges, "edge_weight": graph.edge_weight[order]}


MODEL = Model(
    build=_build,
    inputs=_inputs,
    options={
        "edge_layers": Option(1, whole(), help="layers of the MLP of the adjacency matrix"),
        "node_layers": Option(1, whole(), help="layers of the MLP of the features"),
    },
    name="LINKX",
    uses=("depth", "width", "dropout", "rewired"),
    values=("dropout",),
    sparse=True,
)
