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

from pdgnn.baselines.parts import affine, dropped, one_of, plain_inputs, propagate
from pdgnn.graph import Graph
from pdgnn.nn.backbone import SeededModule
from pdgnn.nn.features import SparseFeatures
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
        return shift(affine(self.lin, x), *operator) + self.bias


class PGSOGCN(SeededModule):
    """The module; see above."""

    wide = ("numbers", "a")

    def __init__(self, size: Size, spec: RunSpec) -> None:
        super().__init__(spec.dropout, spec.seed)
        start, per_layer, node_loops = (
            spec.options[name] for name in ("start", "per_layer", "node_loops")
        )
        widths = [size.in_channels, *(spec.depth - 1) * [spec.width], size.out_channels]
        self.layers = nn.ModuleList(PGSOLayer(*pair) for pair in pairwise(widths))
        operators, nodes = spec.depth if per_layer else 1, [size.num_nodes] if node_loops else []
        *numbers, a = STARTS[str(start)]
        self.numbers = nn.Parameter(torch.tensor(numbers).repeat(operators, 1))  # [L or 1, 6]
        self.a = nn.Parameter(torch.full((operators, *nodes), a))

    def forward(
        self, x: Tensor | SparseFeatures, edges: Edges, edge_weight: Tensor, degree: Tensor
    ) -> Tensor:
        """``[N, in]`` and degree ``[N]`` to logits ``[N, out]``; the weights ``[E]`` are A."""
        dropout, numbers, a = self.dropout_state(), *map(self._of_layers, (self.numbers, self.a))
        h: Any = x
        for i, layer in enumerate(self.layers):
            h = dropped(h.relu(), dropout) if i else h
            h = layer(h, numbers[i], a[i], degree, edges, edge_weight)
        out: Tensor = h
        return out

    def _of_layers(self, values: Tensor) -> tuple[Tensor, ...]:
        """The value of each layer, which may be that of all."""
        return values.expand(len(self.layers), *values.shape[1:]).unbind()


def _inputs(graph: Graph, x: Tensor, spec: RunSpec) -> dict[str, Any]:
    degree = torch.from_numpy(graph.degree.astype("float64"))  # [N]
    return {**plain_inputs(graph), "degree": degree}


MODEL = Model(
    build=PGSOGCN,
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
