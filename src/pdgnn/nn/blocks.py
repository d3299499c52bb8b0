"""The blocks of the residual backbone: an aggregation, then a small feed-forward network.

Every block is made by (channels, heads) and called alike, ``block(x, residual, context)``:
``[N, D]`` to ``[N, D]``, the `residual` added at the end; what all share is a :class:`Context`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812
from torch_geometric.utils import softmax

from pdgnn.errors import InputError
from pdgnn.nn.checks import check_heads
from pdgnn.nn.features import SparseFeatures, feature_matmul
from pdgnn.ops import (
    Edges,
    activate,
    aggregate,
    attend,
    attend_dot,
    linear,
    score_nodes,
)

__all__ = [
    "AggregateBlock",
    "AttendBlock",
    "Attention",
    "Context",
    "DotBlock",
    "DropoutState",
    "FeedForward",
    "FeedForwardBlock",
    "added",
    "attention",
    "edge_scores",
    "gelu",
    "node_scores",
]


class DropoutState:
    """The dropout of one forward pass: a function of (seed, step, place in the pass) alone.

    `rate`, `seed` and `step` are tensors without dimensions.
    """

    def __init__(self, rate: Tensor, seed: Tensor, step: Tensor, *, active: bool) -> None:
        self.rate, self.seed, self.step, self.active = rate, seed, step, active
        self.drawn = 0

    def draw(self) -> tuple[Tensor, Tensor, Tensor, int] | None:
        """What names the next mask of :func:`pdgnn.ops.activate`; None where nothing is dropped."""
        if not self.active:
            return None
        self.drawn += 1
        return self.rate, self.seed, self.step, self.drawn - 1


@dataclass(frozen=True)
class Context:
    """What all blocks share in one forward pass; per-edge values are in the slots of `edges`."""

    edges: Edges
    edge_weight: Tensor | None  # [E]
    edge_attr: Tensor | None  # [E, F]
    dropout: DropoutState


def gelu(lin: nn.Linear, x: Tensor | SparseFeatures, dropout: DropoutState) -> Tensor:
    """GELU(dropout(W x + b))."""
    return activate(feature_matmul(x, lin.weight), lin.bias, dropout=dropout.draw())


def added(lin: nn.Linear, x: Tensor, residual: Tensor, dropout: DropoutState) -> Tensor:
    """residual + dropout(W x + b)."""
    return activate(linear(x, lin.weight), lin.bias, residual=residual, dropout=dropout.draw())


def node_scores(x: Tensor, *att: Tensor) -> tuple[Tensor, ...]:
    """⟨att_h, x_nh⟩ for each `att` ``[H, C]``: ``[N, H, C]`` to one ``[N, H]`` each.

    As products of matrices, so that nothing of the size of x is written. For two of the same x
    there is :func:`pdgnn.ops.score_nodes`.

    >>> x = torch.tensor([[[1.0, 2.0], [3.0, 4.0]]])
    >>> node_scores(x, torch.tensor([[1.0, 1.0], [0.0, 2.0]]))[0].tolist()
    [[3.0, 8.0]]
    """
    by_head = x.transpose(0, 1)  # [H, N, C]
    return tuple(torch.bmm(by_head, a.unsqueeze(2)).squeeze(2).T for a in att)  # [H, N, 1]


def edge_scores(weight: Tensor, att: Tensor) -> Tensor:
    """w_hf = Σ_c att_hc W_hcf, so that ⟨w_h, f_e⟩ = ⟨att_h, W_h f_e⟩: ``[H·C, F]`` to ``[H, F]``.

    The W_e f of the paper is linear in f, and never computed for an edge. `att` is ``[H, C]``, or
    ``[1, H, C]`` for ``[1, H, F]``.
    """
    heads, channels = att.shape[-2:]
    own = weight.reshape(heads, channels, -1)  # [H, C, F]
    w = torch.bmm(att.reshape(heads, 1, channels), own)  # [H, 1, F]
    return w.view(*att.shape[:-1], -1)


def attention(
    a_src: Tensor,
    a_dst: Tensor,
    edge_index: Tensor,
    *,
    edge_attr: Tensor | None = None,
    w_edge: Tensor | None = None,
    negative_slope: float = 0.2,
) -> Tensor:
    """The attention of each edge and head ``[E, H]``, as :func:`pdgnn.ops.attend` weighs them.

    >>> both = torch.tensor([[1, 2], [0, 0]])
    >>> attention(torch.zeros(3, 1), torch.zeros(3, 1), both).flatten().tolist()
    [0.5, 0.5]
    """
    source, target = edge_index.long()
    z = a_src[source] + a_dst[target]
    if edge_attr is not None and w_edge is not None:
        z = z + edge_attr @ w_edge.T
    scores = F.leaky_relu(z, negative_slope)
    p: Tensor = softmax(scores, target, num_nodes=a_dst.shape[0])
    return p


class FeedForward(nn.Module):
    """Linear → dropout → GELU → Linear → dropout; `inputs` vectors of width D side by side."""

    def __init__(self, channels: int, *, inputs: int = 1) -> None:
        super().__init__()
        self.lin1 = nn.Linear(channels * inputs, channels)
        self.lin2 = nn.Linear(channels, channels)

    def forward(self, x: Tensor, residual: Tensor, context: Context) -> Tensor:
        """``[N, inputs · D]`` to ``[N, D]``, added to `residual`."""
        return added(self.lin2, gelu(self.lin1, x, context.dropout), residual, context.dropout)


class FeedForwardBlock(nn.Module):
    """A feed-forward network on each node, without the graph."""

    def __init__(self, channels: int, heads: int = 1) -> None:
        super().__init__()
        self.feed_forward = FeedForward(channels)

    def forward(self, x: Tensor, residual: Tensor, context: Context) -> Tensor:
        """``[N, D]`` to ``[N, D]``."""
        out: Tensor = self.feed_forward(x, residual, context)
        return out


class AggregateBlock(nn.Module):
    """Messages Σ_e w_e x_j with weights that are given, then the feed-forward network.

    With ``sep=True`` the network sees [x, message] side by side.
    """

    def __init__(self, channels: int, heads: int = 1, *, sep: bool = False) -> None:
        super().__init__()
        self.sep = sep
        self.feed_forward = FeedForward(channels, inputs=1 + sep)

    def forward(self, x: Tensor, residual: Tensor, context: Context) -> Tensor:
        """``[N, D]`` and edge_weight ``[E]`` to ``[N, D]``."""
        weight = context.edge_weight
        if weight is None:
            raise InputError(
                "this model weighs its messages; give edge_weight, see nn.graph_inputs"
            )
        message = aggregate(x[:, None], weight[:, None], context.edges).squeeze(1)  # [N, D]
        out: Tensor = self.feed_forward(_seen(x, message, self.sep), residual, context)
        return out


class Attention(nn.Module):
    """The scores of graph attention and the messages that they weigh.

    The edge (j, i) has the score LeakyReLU(⟨a_src, h_j⟩ + ⟨a_dst, h_i⟩ + ⟨a_edge, W_e f_ij⟩) in
    each head, the last term only with `edge_dim`.
    """

    def __init__(self, channels: int, heads: int, *, edge_dim: int | None = None) -> None:
        super().__init__()
        self.heads, self.width = heads, check_heads(channels, heads)
        self.att_src = nn.Parameter(torch.zeros(heads, self.width))
        self.att_dst = nn.Parameter(torch.zeros(heads, self.width))
        self.lin_edge: nn.Linear | None = None
        self.register_parameter("att_edge", None)
        if edge_dim is not None:
            self.lin_edge = nn.Linear(edge_dim, channels, bias=False)
            self.att_edge = nn.Parameter(torch.zeros(heads, self.width))

    def draw(self) -> None:
        """Draw a_src, a_dst and a_edge, which are 0 before: all neighbours alike."""
        for att in (self.att_src, self.att_dst, self.att_edge):
            if att is not None:  # as torch draws the weights of a Linear from `width` to 1
                nn.init.uniform_(att, -1 / math.sqrt(self.width), 1 / math.sqrt(self.width))

    def forward(self, h: Tensor, bias: Tensor | None, context: Context) -> tuple[Tensor, Tensor]:
        """x = h + bias, and the messages of x to each node."""
        x, a_src, a_dst, attr, w_edge = self._scored(h, bias, context)
        message = attend(x, a_src, a_dst, context.edges, edge_attr=attr, w_edge=w_edge)
        return x.flatten(1), message.flatten(1)

    def weights(self, h: Tensor, bias: Tensor | None, context: Context) -> Tensor:
        """What each edge, in the order of ``context.edges``, weighs in each head, ``[E, H]``."""
        _, a_src, a_dst, attr, w_edge = self._scored(h, bias, context)
        pair = torch.stack([context.edges.col, context.edges.row])
        return attention(a_src, a_dst, pair, edge_attr=attr, w_edge=w_edge)

    def _scored(
        self, h: Tensor, bias: Tensor | None, context: Context
    ) -> tuple[Tensor, Tensor, Tensor, Tensor | None, Tensor | None]:
        """x ``[N, H, C]``, the terms of source and target ``[N, H]``, and those of edges."""
        by_head = h.reshape(-1, self.heads, self.width)  # [N, H, C]
        bias = None if bias is None else bias.reshape(self.heads, self.width)
        x, a_src, a_dst = score_nodes(by_head, bias, self.att_src, self.att_dst)
        attr, w_edge = None, None
        if self.lin_edge is not None:
            attr = context.edge_attr
            if attr is None:
                raise InputError("this model attends to edge features; give edge_attr [E, 2]")
            w_edge = edge_scores(self.lin_edge.weight, self.att_edge)  # [H, edge_dim]
        return x, a_src, a_dst, attr, w_edge


class AttendBlock(nn.Module):
    """Graph attention (Section 3.2), then the feed-forward network in the place of W^(l).

    h = W_n x + b is what :class:`Attention` sees. With ``sep=True`` the network sees [h, message]
    side by side.
    """

    def __init__(
        self, channels: int, heads: int, *, sep: bool = False, edge_dim: int | None = None
    ) -> None:
        super().__init__()
        self.sep = sep
        self.lin = nn.Linear(channels, channels)
        self.attention = Attention(channels, heads, edge_dim=edge_dim)
        self.feed_forward = FeedForward(channels, inputs=1 + sep)
        # Drawn last, so that seeds of earlier versions still give the same parameters.
        self.attention.draw()

    def forward(self, x: Tensor, residual: Tensor, context: Context) -> Tensor:
        """``[N, D]`` and edge_attr ``[E, edge_dim]`` (where used) to ``[N, D]``."""
        h, message = self.attention(linear(x, self.lin.weight), self.lin.bias, context)
        out: Tensor = self.feed_forward(_seen(h, message, self.sep), residual, context)
        return out


class DotBlock(nn.Module):
    """Attention of a graph transformer: softmax over neighbours of ⟨q_i, k_j⟩ / √C, then Linear.

    It has no feed-forward network: a :class:`FeedForwardBlock` of its own follows it.
    """

    def __init__(self, channels: int, heads: int, *, sep: bool = False) -> None:
        super().__init__()
        self.heads, self.width, self.sep = heads, check_heads(channels, heads), sep
        self.query = nn.Linear(channels, channels)
        self.key = nn.Linear(channels, channels)
        self.value = nn.Linear(channels, channels)
        self.lin = nn.Linear(channels * (1 + sep), channels)

    def forward(self, x: Tensor, residual: Tensor, context: Context) -> Tensor:
        """``[N, D]`` to ``[N, D]``."""
        q, k, v = (
            lin(x).unflatten(1, (self.heads, self.width))  # [N, H, C]
            for lin in (self.query, self.key, self.value)
        )
        message = attend_dot(q, k, v, context.edges, scale=1 / math.sqrt(self.width)).flatten(1)
        return added(self.lin, _seen(x, message, self.sep), residual, context.dropout)


def _seen(x: Tensor, message: Tensor, sep: bool) -> Tensor:
    return torch.cat([x, message], dim=1) if sep else message
