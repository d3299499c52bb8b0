"""DGN: neighbours averaged and differentiated along a direction, that of an eigenvector φ.

With Δ_ij = φ_j − φ_i on the edges, every row divided by its Σ_j |Δ_ij| (a row of zeros stays
zeros), a layer aggregates messages m_ij by

    mean:     Σ_j m_ij a_ij / d_i,
    dir-av:   Σ_j |Δ_ij| m_ij,
    dir-dx:   | Σ_j Δ_ij m_ij − (Σ_j Δ_ij) h_i |,

and H' = H + relu(BatchNorm(W [the aggregates side by side] + b)), with dropout at the end. In the
"simple" net m_ij = h_j. In the "complex" net m_ij = U h_j + V h_i + c, and W also sees h_i itself.

Beaini et al.: *Directional graph networks*, ICML 2021.

The messages of the complex net are linear, so that Σ_j w_ij m_ij = Σ_j w_ij (U h_j) +
(Σ_j w_ij) (V h_i + c): no tensor has a row of channels for each edge, and a layer takes the memory
of N · width, whatever E.

Choices: φ is the first non-trivial eigenvector of the random-walk Laplacian, for which the paper
proves its theorem; the authors' code takes that of D − A unless told otherwise, which is the option
``laplacian="combinatorial"``. Here it is per component and canonical, as everywhere in the package,
and computed to full precision. On a rewired graph it is that of the graph before, at the run's
(α, γ). Layers have no scalers of degree, as the settings of the published row name none. As in the
authors' net for nodes, features are embedded by a Linear layer, and an MLP that halves its width
twice reads the classes out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from pdgnn.baselines.parts import MLP, affine, dropped, one_of, propagate
from pdgnn.direction import checked_phi, direction_features
from pdgnn.graph import Graph
from pdgnn.nn.backbone import SeededModule
from pdgnn.nn.features import SparseFeatures
from pdgnn.nn.inputs import edge_weights, structure
from pdgnn.nn.interface import Model, Option, Size
from pdgnn.ops import Edges
from pdgnn.spectrum import first_eigenvector

if TYPE_CHECKING:
    from pdgnn.training.spec import RunSpec

__all__ = ["AGGREGATORS", "DGN", "MODEL", "DGNLayer"]

MEAN, AVERAGE, DERIVATIVE = range(3)
"""The rows of the weights."""
AGGREGATORS = {
    "mean-dir1-av": (MEAN, AVERAGE),
    "mean-dir1-dx": (MEAN, DERIVATIVE),
    "mean-dir1-av-dir1-dx": (MEAN, AVERAGE, DERIVATIVE),
}
"""Those of the published grid, and the rows that they use."""
NETS = ("simple", "complex")


class DGNLayer(nn.Module):
    """One layer of `channels`, which adds its input."""

    def __init__(self, channels: int, *, rows: tuple[int, ...], net: str) -> None:
        super().__init__()
        self.rows, self.net = rows, net
        if net == "complex":
            self.lin_source = nn.Linear(channels, channels, bias=False)  # U
            self.lin_target = nn.Linear(channels, channels)  # V and c
        self.lin = nn.Linear((len(rows) + (net == "complex")) * channels, channels)
        self.norm = nn.BatchNorm1d(channels)

    def forward(self, h: Tensor, edges: Edges, weights: Tensor, totals: Tensor) -> Tensor:
        """``[N, C]``, weights ``[3, E]`` in slots and their sums ``[3, N]`` to ``[N, C]``."""
        seen = torch.cat(self.aggregates(h, edges, weights, totals), dim=1)
        out: Tensor = h + self.norm(affine(self.lin, seen)).relu()
        return out

    def aggregates(self, h: Tensor, edges: Edges, weights: Tensor, totals: Tensor) -> list[Tensor]:
        """What stands side by side before W, ``[N, C]`` each."""
        source, target = h, None
        found = []
        if self.net == "complex":
            source, target = affine(self.lin_source, h), affine(self.lin_target, h)
            found.append(h)
        for row in self.rows:
            total = totals[row][:, None]  # [N, 1]
            message = propagate(source, weights[row], edges)
            if target is not None:
                message = message + total * target
            found.append((message - total * h).abs() if row == DERIVATIVE else message)
        return found


class DGN(SeededModule):
    """The module; see above."""

    def __init__(self, size: Size, spec: RunSpec) -> None:
        super().__init__(spec.dropout, spec.seed)
        width, half, quarter = (max(1, spec.width // part) for part in (1, 2, 4))
        rows, net = AGGREGATORS[str(spec.options["aggregators"])], str(spec.options["net"])
        self.lin_in = nn.Linear(size.in_channels, width)
        self.layers = nn.ModuleList(DGNLayer(width, rows=rows, net=net) for _ in range(spec.depth))
        self.readout = MLP(width, half, quarter, size.out_channels)
        self.wide = tuple(f"layers.{i}.norm" for i in range(spec.depth))

    def forward(
        self, x: Tensor | SparseFeatures, edges: Edges, weights: Tensor, totals: Tensor
    ) -> Tensor:
        """``[N, in]``, weights ``[3, E]`` and totals ``[3, N]`` to logits ``[N, out]``."""
        h, dropout = affine(self.lin_in, x), self.dropout_state()
        for layer in self.layers:
            h = dropped(layer(h, edges, weights, totals), dropout)
        out: Tensor = self.readout(h)
        return out


def _inputs(graph: Graph, x: Tensor, spec: RunSpec) -> dict[str, object]:
    phi = getattr(graph, "phi", None)  # a rewired graph has that of the graph before
    if phi is None:
        gamma = 0.0 if spec.options["laplacian"] == "combinatorial" else 1.0
        phi = first_eigenvector(graph, alpha=1.0, gamma=gamma)
    edges, order = structure(graph, loops=False)
    along = direction_features(graph, checked_phi(graph, phi).double())  # [E, 2]
    mean = edge_weights(graph, "mean", loops=False)
    weights = torch.stack([mean, *along.T])  # [3, E]
    totals = weights.new_zeros(3, graph.num_nodes).index_add(1, graph.edge_index[1], weights)
    return {"edges": edges, "weights": weights[:, order], "totals": totals}


MODEL = Model(
    build=DGN,
    inputs=_inputs,
    optimizer="adam",
    options={
        "aggregators": Option(
            "mean-dir1-av-dir1-dx", one_of(*AGGREGATORS), help=", ".join(AGGREGATORS)
        ),
        "net": Option(
            "complex", one_of(*NETS), help="simple: messages of the source; complex: of both ends"
        ),
        "laplacian": Option(
            "walk",
            one_of("walk", "combinatorial"),
            value=True,
            help="walk or combinatorial: whose eigenvector φ is",
        ),
    },
    name="DGN",
    uses=("depth", "width", "dropout", "rewired"),
    values=("dropout",),
    sparse=True,
)
