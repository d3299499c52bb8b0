"""PD-GCN and PD-GAT as modules for anyone's own training loop; see :mod:`pdgnn.models` for ours."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor
from torch_geometric.utils import remove_self_loops

from pdgnn.errors import InputError
from pdgnn.laplacian import check_alpha, check_gamma, diffusion_weights
from pdgnn.nn.backbone import Backbone
from pdgnn.nn.blocks import AggregateBlock, AttendBlock
from pdgnn.nn.checks import (
    as_edge_index,
    check_attr,
    check_range,
    loopless_weight,
    warn_one_way,
)
from pdgnn.nn.inputs import EDGE_DIM
from pdgnn.ops import Edges

__all__ = ["PDGAT", "PDGCN"]


class PDGCN(Backbone):
    """PD-GCN: each block sums its messages by P^(α,γ), diagonal included, on the residual backbone.

    Args:
        in_channels: Features of a node.
        hidden_channels: Width D.
        out_channels: Classes, or 1 for one logit.
        depth: Layers.
        alpha: α of P^(α,γ).
        gamma: γ of P^(α,γ).
        dropout: Its rate in [0, 1).
        seed: Of dropout.

    >>> model = PDGCN(5, 16, 3, gamma=0.5)
    >>> model(torch.ones(4, 5), torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])).shape
    torch.Size([4, 3])
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        *,
        depth: int = 2,
        alpha: float = 1.0,
        gamma: float = 1.0,
        dropout: float = 0.2,
        seed: int = 0,
    ) -> None:
        super().__init__(
            in_channels,
            hidden_channels,
            out_channels,
            depth=depth,
            dropout=dropout,
            seed=seed,
            blocks=(AggregateBlock,),
        )
        self.alpha, self.gamma = check_alpha(alpha), check_gamma(gamma)
        self._checked = False

    def forward(  # type: ignore[override]
        self, x: Tensor, edge_index: Tensor | Edges, edge_weight: Tensor | None = None
    ) -> Tensor:
        """``[N, in_channels]`` to ``[N, out_channels]``.

        Args:
            x: Features of the nodes.
            edge_index: An undirected graph, every edge both ways, ``[2, E]``; self-loops are
                dropped. Or the `edges` of :func:`pdgnn.nn.graph_inputs`, taken as they are.
            edge_weight: Weights of the graph's edges ``[E]``, default 1; with `Edges` the entries
                of P in their slots, which :func:`pdgnn.nn.graph_inputs` gives too.
        """
        if isinstance(edge_index, Edges):
            return super().forward(x, edge_index, edge_weight)
        if not self._checked and warn_one_way(edge_index, x.shape[0]):
            self._checked = True
        index, values = as_edge_index(edge_index)
        check_range(index, x.shape[0], x.shape[0])
        dtype = torch.promote_types(x.dtype, torch.float32)
        weight = loopless_weight(index, values if edge_weight is None else edge_weight, dtype)
        on_edges, on_diagonal = diffusion_weights(
            index, x.shape[0], alpha=self.alpha, gamma=self.gamma, edge_weight=weight
        )
        loops = torch.arange(x.shape[0], device=index.device).expand(2, -1)  # [2, N]
        return super().forward(
            x, torch.cat([index, loops], dim=1), torch.cat([on_edges, on_diagonal])
        )


class PDGAT(Backbone):
    """PD-GAT: each block attends to neighbours by their features and the edges' directions.

    With ``sep=True``, PD-GAT-sep: nodes have no edge to themselves, and a block sees itself and the
    message side by side.

    Args:
        in_channels: Features of a node.
        hidden_channels: Width D.
        out_channels: Classes, or 1 for one logit.
        depth: Layers.
        heads: Heads of attention, which split D.
        sep: Whether a node is kept apart from its neighbours.
        dropout: Its rate in [0, 1).
        seed: Of dropout.

    >>> from pdgnn import Graph, direction_features
    >>> path = Graph.from_edge_index([[0, 1], [1, 2]])
    >>> edge_attr = direction_features(path, [1.0, 2.0, 5.0])
    >>> PDGAT(5, 16, 3)(torch.ones(3, 5), path.edge_index, edge_attr).shape
    torch.Size([3, 3])
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        *,
        depth: int = 2,
        heads: int = 8,
        sep: bool = False,
        dropout: float = 0.2,
        seed: int = 0,
    ) -> None:
        super().__init__(
            in_channels,
            hidden_channels,
            out_channels,
            depth=depth,
            heads=heads,
            dropout=dropout,
            seed=seed,
            blocks=(partial(AttendBlock, edge_dim=EDGE_DIM, sep=sep),),
        )
        self.sep = sep

    def forward(  # type: ignore[override]
        self, x: Tensor, edge_index: Tensor | Edges, edge_attr: Tensor | None = None
    ) -> Tensor:
        """``[N, in_channels]`` to ``[N, out_channels]``.

        Args:
            x: Features of the nodes.
            edge_index: ``[2, E]``; self-loops are dropped, and added anew unless `sep`. Or the
                `edges` of :func:`pdgnn.nn.graph_inputs`, taken as they are.
            edge_attr: :func:`pdgnn.direction_features` of the edges, ``[E, 2]``. A self-loop has
                [0, −Σ_j f_ij,2], the diagonal of B_dx, whatever is given for it.
        """
        if edge_attr is None:
            raise InputError(
                "PDGAT attends to directions; give edge_attr [E, 2], made by "
                "pdgnn.direction_features or pdgnn.transforms.AddDirectionFeatures"
            )
        if isinstance(edge_index, Edges):
            return super().forward(
                x, edge_index, edge_attr=check_attr(edge_attr, edge_index.num_edges, EDGE_DIM)
            )
        index, _ = as_edge_index(edge_index)
        check_range(index, x.shape[0], x.shape[0])
        index, attr = remove_self_loops(index, check_attr(edge_attr, index.shape[1], EDGE_DIM))
        if not self.sep:
            index, attr = _with_loops(index, attr, x.shape[0])
        return super().forward(x, index, edge_attr=attr)


def _with_loops(edge_index: Tensor, attr: Tensor, num_nodes: int) -> tuple[Tensor, Tensor]:
    """Edges and direction features with those of self-loops after them."""
    net = attr.new_zeros(num_nodes).index_add(0, edge_index[1], attr[:, 1])  # Σ_j Δ_ij / Σ_j |Δ_ij|
    on_loops = torch.stack([torch.zeros_like(net), -net], dim=1)  # [N, 2]
    loops = torch.arange(num_nodes, device=edge_index.device).expand(2, -1)  # [2, N]
    return torch.cat([edge_index, loops], dim=1), torch.cat([attr, on_loops])
