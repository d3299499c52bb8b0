"""PGSO-GCN: GCN whose matrix of propagation is itself learned, by seven numbers.

H^(l+1) = relu(γ(A) H^(l) W^(l) + b^(l)), the last layer without relu, with the parametrised graph
shift operator

    γ(A) = m1 D_a^e1 + m2 D_a^e2 A_a D_a^e3 + m3 I,    A_a = A + a I,  D_a = D + a I,

where m1, m2, m3, e1, e2, e3 and a are all learned. As it starts it is one of the usual matrices,
see :data:`STARTS`.

Dasoulas, Lutzeyer, Vazirgiannis: *Learning parametrised graph shift operators*, ICLR 2021.

The operator is never a matrix: γ(A) h scales the nodes, sums over neighbours and scales again, so
that the gradients of the seven numbers come from vectors ``[N]``. The memory of a layer is that of
GCN.

Choices: all layers share the seven numbers (the paper's PGSO); with ``per_layer`` each has its own
(its mPGSO). The paper's a is one number; with ``node_loops`` each node has one, as in the authors'
code for the starts "GCN" and "all zeros". A node with d + a ≤ 0 has D_a^e = 0. As in that code,
dropout follows each relu, and the identity of a Laplacian is m1 D^0 at the start. With all zeros,
what is learned first comes from the biases.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from pdgnn.baselines.parts import one_of, propagate, transform
from pdgnn.graph import Graph
from pdgnn.nn.dropout import Dropout
from pdgnn.nn.features import SparseFeatures
from pdgnn.nn.inputs import structure
from pdgnn.nn.interface import Model, Option, Size
from pdgnn.ops import Edges

if TYPE_CHECKING:
    from pdgnn.training.spec import RunSpec

__all__ = ["MODEL", "PGSOGCN", "STARTS", "PGSOLayer", "shift"]

STARTS = {
    "GCN": (0.0, 1.0, 0.0, 0.0, -0.5, -0.5, 1.0),
    "all zeros": (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0),
    "SymLaplacian": (1.0, -1.0, 0.0, 0.0, -0.5, -0.5, 0.0),
    "RWLaplacian": (1.0, -1.0, 0.0, 0.0, -1.0, 0.0, 0.0),
    "Adjacency": (0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0),
}
"""m1, m2, m3, e1, e2, e3 and a: those of the published grid, by its names."""


def shift(
    h: Tensor, numbers: Tensor, a: Tensor, degree: Tensor, edges: Edges, edge_weight: Tensor
) -> Tensor:
    """γ(A) h: ``[N, C]`` to ``[N, C]``.

    `numbers` ``[6]`` are m1, m2, m3, e1, e2, e3; a is one number or ``[N]``; degree ``[N]``, and
    edge_weight ``[E]`` holds A in the slots of `edges`.
    """
    m1, m2, m3, *exponents = numbers.unbind()
    own = degree + a  # [N]
    there = own > 0
    safe = torch.where(there, own, 1.0)
    d1, d2, d3 = (torch.where(there, safe**e, 0.0)[:, None] for e in exponents)  # [N, 1]
    scaled = d3 * h
    loops = a[:, None] if a.ndim else a
    neighbours = propagate(scaled, edge_weight, edges) + loops * scaled  # A_a D^e3 h
    return (m1 * d1 + m3) * h + m2 * d2 * neighbours


class PGSOLayer(nn.Module):
    """γ(A) X W + b, the operator given."""

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.lin = nn.Linear(in_channels, out_channels, bias=False)
        self.bias = nn.Parameter(torch.empty(out_channels))
        nn.init.uniform_(self.bias, -1 / math.sqrt(in_channels), 1 / math.sqrt(in_channels))

    def forward(self, x: Tensor | SparseFeatures, *operator: Any) -> Tensor:
        """``[N, in_channels]`` to ``[N, out_channels]``; see :func:`shift`."""
        return shift(transform(self.lin, x), *operator) + self.bias


class PGSOGCN(nn.Module):
    """`depth` layers of GCN with the learned operator that starts as `start`."""

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        *,
        depth: int = 2,
        start: str = "GCN",
        per_layer: bool = False,
        loops: int | None = None,
        dropout: float = 0.5,
    ) -> None:
        """Args:
        in_channels: Features of a node.
        hidden_channels: Width of the layers before the last.
        out_channels: Classes, or 1 for one logit.
        depth: Layers.
        start: One of :data:`STARTS`.
        per_layer: Whether each layer has an operator of its own.
        loops: Number of nodes, if each has an a of its own.
        dropout: Rate.
        """
        super().__init__()
        widths = [in_channels, *(depth - 1) * [hidden_channels], out_channels]
        self.layers = nn.ModuleList(PGSOLayer(*pair) for pair in pairwise(widths))
        self.drops = nn.ModuleList(Dropout(dropout) for _ in range(depth - 1))
        operators = depth if per_layer else 1
        *numbers, a = STARTS[start]
        self.numbers = nn.Parameter(torch.tensor(numbers).repeat(operators, 1))  # [L or 1, 6]
        self.a = nn.Parameter(torch.full((operators, *([] if loops is None else [loops])), a))

    def forward(
        self, x: Tensor | SparseFeatures, edges: Edges, edge_weight: Tensor, degree: Tensor
    ) -> Tensor:
        """``[N, in_channels]``, A in slots ``[E]`` and degree ``[N]`` to ``[N, out_channels]``."""
        first, *more = self.layers
        numbers, a = (self._of_layers(t) for t in (self.numbers, self.a))
        h: Tensor = first(x, numbers[0], a[0], degree, edges, edge_weight)
        for i, (layer, dropout) in enumerate(zip(more, self.drops, strict=True), start=1):
            h = layer(dropout(h.relu()), numbers[i], a[i], degree, edges, edge_weight)
        return h

    def _of_layers(self, values: Tensor) -> tuple[Tensor, ...]:
        """The value of each layer, which may be that of all."""
        return values.expand(len(self.layers), *values.shape[1:]).unbind()


def _build(size: Size, spec: RunSpec) -> nn.Module:
    return PGSOGCN(
        size.in_channels,
        spec.width,
        size.out_channels,
        depth=spec.depth,
        start=str(spec.options["start"]),
        per_layer=bool(spec.options["per_layer"]),
        loops=size.num_nodes if spec.options["node_loops"] else None,
        dropout=spec.dropout,
    )


def _inputs(graph: Graph, x: Tensor, spec: RunSpec) -> dict[str, object]:
    edges, order = structure(graph, loops=False)
    degree = torch.from_numpy(graph.degree.astype("float64"))  # [N]
    return {"edges": edges, "edge_weight": graph.edge_weight[order], "degree": degree}


MODEL = Model(
    build=_build,
    inputs=_inputs,
    optimizer="adam",
    options={
        "start": Option("GCN", one_of(*STARTS), value=True, help=", ".join(STARTS)),
        "per_layer": Option(False, help="an operator for each layer"),
        "node_loops": Option(False, help="an a for each node"),
    },
    name="PGSO-GCN",
    uses=("depth", "width", "dropout", "rewired"),
    values=("dropout",),
    sparse=True,
)
