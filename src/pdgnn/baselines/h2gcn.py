"""H2GCN: ego, neighbours and neighbours of neighbours apart, and all rounds side by side.

Zhu, Yan, Zhao, Heimann, Akoglu and Koutra, "Beyond Homophily in Graph Neural Networks: Current
Limitations and Effective Designs", NeurIPS 2020.

r⁰ = ReLU(W x + b); rᵏ = [Ā₁ rᵏ⁻¹ ‖ Ā₂ rᵏ⁻¹] for each round k = 1 … K; the classes are read from
dropout([r⁰ ‖ r¹ ‖ … ‖ rᴷ]) by a Linear. Ā₁ and Ā₂ are D^(−½) A D^(−½) of the graph of neighbours
and of the graph of nodes at distance exactly 2, neither with loops; each has its own degrees.

Choices: K is ``depth``. A bias in both Linears. Features are taken as they are, where the public
code divides each row by its sum. The second graph has an entry for every pair at distance 2, which
is a third of all pairs on tolokers (45 million); it is made once for each graph, in blocks of rows.
Cost of a step: (E + E₂) · width · 2ᴷ, and N · width · 2ᴷ⁺¹ numbers kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor, nn

from pdgnn.baselines.parts import adjacency_inputs, affine, dropped, propagate
from pdgnn.errors import InputError
from pdgnn.graph import Graph
from pdgnn.nn.backbone import SeededModule
from pdgnn.nn.features import SparseFeatures
from pdgnn.nn.interface import Model, Size
from pdgnn.ops import Edges

if TYPE_CHECKING:
    from pdgnn.training.spec import RunSpec

__all__ = ["H2GCN", "MODEL", "two_hop_edges"]

BLOCK = 2**24
"""Walks of length 2, or pairs, that are looked at at one time."""
MOST_CHANNELS = 2**20
"""Of all rounds side by side: what more takes is memory that no machine has for a whole graph."""


class H2GCN(SeededModule):
    """The module; see above."""

    def __init__(self, size: Size, spec: RunSpec) -> None:
        super().__init__(spec.dropout, spec.seed)
        self.rounds = spec.depth
        channels = spec.width * (2 ** (spec.depth + 1) - 1)
        if channels > MOST_CHANNELS:
            raise InputError(
                f"each round of h2gcn doubles the channels: depth={spec.depth} at width "
                f"{spec.width} makes more than {MOST_CHANNELS:,}; choose a smaller depth or width"
            )
        self.lin_in = nn.Linear(size.in_channels, spec.width)
        self.lin_out = nn.Linear(channels, size.out_channels)

    def forward(
        self,
        x: Tensor | SparseFeatures,
        edges: Edges,
        edge_weight: Tensor,
        edges2: Edges,
        edge_weight2: Tensor,
    ) -> Tensor:
        """``[N, in]`` to logits ``[N, out]``; the weights ``[E]`` and ``[E₂]`` are Ā₁ and Ā₂."""
        rounds = [affine(self.lin_in, x).relu()]  # [N, D], then [N, 2D], [N, 4D] ...
        for _ in range(self.rounds):
            near = propagate(rounds[-1], edge_weight, edges)
            far = propagate(rounds[-1], edge_weight2, edges2)
            rounds.append(torch.cat([near, far], dim=1))
        return affine(self.lin_out, dropped(torch.cat(rounds, dim=1), self.dropout_state()))


def two_hop_edges(graph: Graph) -> Edges:
    """Every ordered pair of nodes at distance exactly 2, an edge from the first to the second.

    >>> found = two_hop_edges(Graph.from_edge_index([[0, 1, 2], [1, 2, 3]]))
    >>> found.col.tolist(), found.row.tolist()
    ([2, 3, 0, 1], [0, 1, 2, 3])
    """
    pattern, nodes = graph.adjacency().astype(bool), graph.num_nodes
    near = pattern + sp.eye_array(nodes, dtype=bool, format="csr")
    walks = (pattern.astype(np.int64) @ np.diff(pattern.indptr)).cumsum()  # [N]
    found, degrees, start = [np.zeros(0, np.int32)], [np.zeros(1, np.int64)], 0
    while start < nodes:
        before = walks[start - 1] if start else 0
        end = max(start + 1, int(np.searchsorted(walks, before + BLOCK, side="right")))
        far = pattern[start:end] @ pattern > near[start:end]  # reached, and not near
        far.sort_indices()
        found.append(far.indices.astype(np.int32))
        degrees.append(np.diff(far.indptr))
        start = end
    col = np.concatenate(found)
    del found
    return Edges.from_csr(np.concatenate(degrees).cumsum(), col, num_sources=nodes)


def _inputs(graph: Graph, x: Tensor, spec: RunSpec) -> dict[str, Any]:
    edges = two_hop_edges(graph).trimmed()
    scale = edges.rowptr.diff().double().rsqrt()  # [N]
    weight = scale.index_select(0, edges.col)
    for start in range(0, edges.num_edges, BLOCK):  # in parts, as there may be many
        part = slice(start, start + BLOCK)
        weight[part] *= scale.index_select(0, edges.row[part])
    return {**adjacency_inputs(graph), "edges2": edges, "edge_weight2": weight}


MODEL = Model(
    build=H2GCN,
    inputs=_inputs,
    optimizer="adam",
    name="H2GCN",
    uses=("depth", "width", "dropout", "rewired"),
    values=("dropout",),
    sparse=True,
)
