"""Plain layers H = σ(P H W), without residuals or norms, as in the paper's synthetic experiment."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

from torch import Tensor, nn

from pdgnn.errors import InputError, check_whole
from pdgnn.nn.backbone import SeededModule, checked_context
from pdgnn.nn.blocks import Attention, Context, gelu
from pdgnn.nn.features import SparseFeatures, feature_matmul
from pdgnn.ops import Edges, activate, aggregate

__all__ = ["Plain", "PlainAggregate", "PlainAttend", "PlainFactory", "PlainLinear"]

PlainFactory = Callable[[int, int, int], nn.Module]
"""Makes a layer for (in_channels, out_channels, heads)."""


class PlainLinear(nn.Module):
    """GELU(dropout(W x + b)), without the graph."""

    def __init__(self, in_channels: int, out_channels: int, heads: int = 1) -> None:
        super().__init__()
        self.lin = nn.Linear(in_channels, out_channels)

    def forward(self, x: Tensor | SparseFeatures, context: Context) -> Tensor:
        """``[N, in]`` to ``[N, out]``."""
        return gelu(self.lin, x, context.dropout)


class PlainAggregate(nn.Module):
    """GELU(dropout(Σ_e w_e W x_j + b)) with weights that are given."""

    def __init__(self, in_channels: int, out_channels: int, heads: int = 1) -> None:
        super().__init__()
        self.lin = nn.Linear(in_channels, out_channels)

    def forward(self, x: Tensor | SparseFeatures, context: Context) -> Tensor:
        """``[N, in]`` and edge_weight ``[E]`` to ``[N, out]``."""
        if context.edge_weight is None:
            raise InputError(
                "this model weighs its messages; give edge_weight, see nn.graph_inputs"
            )
        h = feature_matmul(x, self.lin.weight)
        message = aggregate(h[:, None], context.edge_weight[:, None], context.edges).squeeze(1)
        return activate(message, self.lin.bias, dropout=context.dropout.draw())


class PlainAttend(nn.Module):
    """GELU(dropout(messages of attention + b))."""

    def __init__(
        self, in_channels: int, out_channels: int, heads: int, *, edge_dim: int | None = None
    ) -> None:
        super().__init__()
        self.lin = nn.Linear(in_channels, out_channels)
        self.attention = Attention(out_channels, heads, edge_dim=edge_dim)
        self.attention.draw()

    def forward(self, x: Tensor | SparseFeatures, context: Context) -> Tensor:
        """``[N, in]`` and edge_attr ``[E, edge_dim]`` (where used) to ``[N, out]``."""
        _, message = self.attention(feature_matmul(x, self.lin.weight), None, context)
        return activate(message, self.lin.bias, dropout=context.dropout.draw())


class Plain(SeededModule):
    """`depth` plain layers, then Linear.

    >>> import torch
    >>> edges = Edges.from_edge_index(torch.tensor([[0, 1], [1, 0]]), num_nodes=2)
    >>> model = Plain(5, 8, 3, depth=2, layer=PlainAggregate)
    >>> model(torch.ones(2, 5), edges, torch.ones(2)).shape
    torch.Size([2, 3])
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        *,
        depth: int,
        heads: int = 8,
        dropout: float = 0.2,
        seed: int = 0,
        layer: PlainFactory = PlainLinear,
    ) -> None:
        super().__init__(dropout, seed)
        width = check_whole("hidden_channels", hidden_channels)
        widths = [check_whole("in_channels", in_channels)] + check_whole("depth", depth) * [width]
        self.layers = nn.ModuleList(
            layer(before, after, heads) for before, after in pairwise(widths)
        )
        self.lin_out = nn.Linear(width, check_whole("out_channels", out_channels))

    def forward(
        self,
        x: Tensor | SparseFeatures,
        edges: Edges | Tensor,
        edge_weight: Tensor | None = None,
        edge_attr: Tensor | None = None,
    ) -> Tensor:
        """``[N, in_channels]`` to ``[N, out_channels]``; see :class:`~pdgnn.nn.Backbone`."""
        dtype = self.lin_out.weight.dtype
        context = checked_context(
            x.shape[0], edges, edge_weight, edge_attr, dtype, self.dropout_state()
        )
        for layer in self.layers:
            x = self.through(layer, x, context)
        out: Tensor = self.lin_out(x)
        return out
