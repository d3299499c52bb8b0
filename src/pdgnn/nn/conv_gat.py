"""PDGATConv: the attention layer of PD-GAT for any PyG model."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812
from torch_geometric.nn.dense.linear import Linear
from torch_geometric.nn.inits import glorot, zeros
from torch_geometric.utils import add_self_loops, remove_self_loops

from pdgnn.errors import InputError, check_whole
from pdgnn.nn.blocks import attention, edge_scores, node_scores
from pdgnn.nn.checks import (
    as_edge_index,
    check_attr,
    check_range,
    check_rate,
    check_sizes,
    check_sources,
)
from pdgnn.nn.conv import FusedConv, check_features, glorot_linear
from pdgnn.ops import Edges, aggregate, attend, attend_nodes

__all__ = ["PDGATConv"]


class PDGATConv(FusedConv):
    """Attention to neighbours and to the features of edges, the layer of PD-GAT (Section 3.2).

    out_i = Σ_j softmax_j(LeakyReLU(⟨a_src, W x_j⟩ + ⟨a_dst, W x_i⟩ + ⟨a_edge, W_e f_ij⟩)) W x_j in
    each head. Parameters have the names and shapes of :class:`~torch_geometric.nn.GATConv`, so that
    a state_dict of one loads into the other and both give the same; but no message ``[E, H, C]`` is
    written here, unless somebody asks for messages.

    Args:
        in_channels: Features of a node; -1 to see at the first call; a pair for (x_src, x_dst)
            of different kinds.
        out_channels: C, features of a head that come out.
        heads: H.
        concat: Heads side by side, else their mean.
        negative_slope: Of LeakyReLU.
        dropout: Share of attention dropped in training.
        add_self_loops: Give every node an edge to itself, in place of any it has; its features
            then follow `fill_value`. The models here give their own loops, with the features of
            :func:`pdgnn.direction_features`, and turn this off.
        edge_dim: Features of an edge; None for none.
        fill_value: Features of added self-loops: a number, a tensor, or a reduction
            ("mean", "add", ...) of the features of the edges into the node.
        bias: Whether to add one.
        residual: Whether to add W_res x_i, a linear map of the target itself.

    >>> from pdgnn import Graph, direction_features
    >>> path = Graph.from_edge_index([[0, 1], [1, 2]])
    >>> edge_attr = direction_features(path, [1.0, 2.0, 5.0])
    >>> PDGATConv(5, 4, heads=2)(torch.ones(3, 5), path.edge_index, edge_attr).shape
    torch.Size([3, 8])
    """

    att_src: nn.Parameter
    att_dst: nn.Parameter
    att_edge: nn.Parameter
    lin: Linear | None
    lin_src: Linear | None
    lin_dst: Linear | None
    lin_edge: Linear | None
    res: Linear | None
    bias: nn.Parameter | None

    def __init__(
        self,
        in_channels: int | tuple[int, int],
        out_channels: int,
        heads: int = 1,
        *,
        concat: bool = True,
        negative_slope: float = 0.2,
        dropout: float = 0.0,
        add_self_loops: bool = True,
        edge_dim: int | None = 2,
        fill_value: float | Tensor | str = "mean",
        bias: bool = True,
        residual: bool = False,
    ) -> None:
        super().__init__(PDGATConv)
        self.in_channels = in_channels
        self.out_channels, self.heads = check_whole("out_channels", out_channels), heads
        self.concat, self.negative_slope = concat, negative_slope
        self.dropout, self.add_self_loops = check_rate(dropout), add_self_loops
        self.edge_dim, self.fill_value = edge_dim, fill_value
        width = check_whole("heads", heads) * out_channels
        self.lin = self.lin_src = self.lin_dst = self.lin_edge = None
        if isinstance(in_channels, tuple):
            if len(in_channels) != 2:
                raise InputError(f"in_channels is {in_channels}; give a number, or a pair of them")
            self.lin_src, self.lin_dst = (glorot_linear(size, width) for size in in_channels)
        else:
            self.lin = glorot_linear(in_channels, width)
        for name in ("att_src", "att_dst", "att_edge"):
            needed = name != "att_edge" or edge_dim is not None
            shape = (1, heads, out_channels)
            self.register_parameter(name, nn.Parameter(torch.empty(shape)) if needed else None)
        if edge_dim is not None:
            self.lin_edge = glorot_linear(check_whole("edge_dim", edge_dim), width)
        size = width if concat else out_channels
        own = in_channels[1] if isinstance(in_channels, tuple) else in_channels
        self.residual, self.res = residual, glorot_linear(own, size) if residual else None
        self.register_parameter("bias", nn.Parameter(torch.empty(size)) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw all weights anew; set the bias to 0."""
        for lin in (self.lin, self.lin_src, self.lin_dst, self.lin_edge, self.res):
            if lin is not None:
                lin.reset_parameters()
        for att in (self.att_src, self.att_dst, self.att_edge):
            glorot(att)
        zeros(self.bias)

    def forward(
        self,
        x: Tensor | tuple[Tensor, Tensor | None],
        edge_index: Tensor | Edges,
        edge_attr: Tensor | None = None,
        *,
        size: tuple[int, int] | None = None,
        return_attention_weights: bool | None = None,
    ) -> Tensor | tuple[Tensor, tuple[Tensor, Tensor]]:
        """``[N, in_channels]`` to ``[targets, H · C]`` (``[targets, C]`` unless `concat`).

        Args:
            x: Features of the nodes, or (x_src, x_dst), x_dst possibly None.
            edge_index: The edges. Where an `adj_t` has values ``[E, F]``, they are its features.
            edge_attr: ``[E, edge_dim]``; without it scores have no term of edges.
            size: Numbers of sources and targets, where x does not tell.
            return_attention_weights: Return (out, (edge_index, weights ``[E, H]``)) as PyG does,
                the edges including added self-loops.
        """
        h_src, h_dst = self._transformed(x)  # [N, H · C], [targets, H · C]
        sizes = check_sizes(h_src, h_dst, size)
        index, attr = self._looped(edge_index, edge_attr, sizes)
        attr = None if attr is None else attr.to(h_src.dtype)
        messages = self.wants_messages(edge_index)
        if not (messages or return_attention_weights):
            edges, attr = _slotted(index, attr, sizes)
            return self._combined(self._attended(h_src, h_dst, edges, attr), x)
        x_src, a_src, a_dst = self._node_terms(h_src, h_dst, sizes[1])
        pair = index if isinstance(index, Tensor) else torch.stack([index.col, index.row])
        p = self._attention(a_src, a_dst, pair, attr).to(h_src.dtype)  # [E, H]
        if messages:
            # propagate_type: (x: Tensor, alpha: Tensor)
            out = self.propagate(pair, x=x_src, alpha=p, size=sizes)
        else:
            edges, weight = _slotted(index, p, sizes)
            out = aggregate(x_src, weight, edges)
        out = self._combined(out.flatten(1), x)
        return (out, (pair.long(), p)) if return_attention_weights else out

    def message(self, x_j: Tensor, alpha: Tensor) -> Tensor:
        """The attention of an edge times W x_j, ``[E, H, C]``."""
        return alpha.unsqueeze(-1) * x_j

    def _attended(
        self, h_src: Tensor, h_dst: Tensor | None, edges: Edges, attr: Tensor | None
    ) -> Tensor:
        """Σ_j p_ij W x_j of all heads, without a message ``[E, H, C]``: ``[targets, H · C]``."""
        term: Any = {"negative_slope": self.negative_slope}
        if attr is not None:
            term |= {"edge_attr": attr, "w_edge": self._edge_weight()}
        if self.training and self.dropout > 0:
            ones = h_src.new_ones(edges.num_edges, self.heads)
            term["mask"] = F.dropout(ones, self.dropout)  # [E, H]
        if h_dst is h_src:
            return attend_nodes(h_src, self.att_src, self.att_dst, edges, **term)
        if attr is not None:
            term["w_edge"] = term["w_edge"].squeeze(0)
        nodes = self._node_terms(h_src, h_dst, edges.num_targets)
        return attend(*nodes, edges, **term).flatten(1)

    def _attention(
        self, a_src: Tensor, a_dst: Tensor, edge_index: Tensor, attr: Tensor | None
    ) -> Tensor:
        """The attention of each edge and head ``[E, H]``, with dropout in training."""
        term: Any = {"negative_slope": self.negative_slope}
        if attr is not None:
            term |= {"edge_attr": attr, "w_edge": self._edge_weight().squeeze(0)}
        p = attention(a_src, a_dst, edge_index, **term)
        return F.dropout(p, self.dropout, self.training)

    def _edge_weight(self) -> Tensor:
        """⟨a_edge, W_e ·⟩ as a vector for each head, ``[1, H, edge_dim]``."""
        lin: Any = self.lin_edge
        return edge_scores(lin.weight, self.att_edge)

    def _combined(self, out: Tensor, x: Tensor | tuple[Tensor, Tensor | None]) -> Tensor:
        """The heads side by side or their mean, then W_res x and the bias."""
        if not self.concat:
            out = out.view(-1, self.heads, self.out_channels).mean(dim=1)
        x_dst = x[1] if isinstance(x, tuple) else x
        if self.res is not None and x_dst is not None:
            out = out + self.res(x_dst)
        return out if self.bias is None else out + self.bias

    def _transformed(
        self, x: Tensor | tuple[Tensor, Tensor | None]
    ) -> tuple[Tensor, Tensor | None]:
        """W x of sources and targets; one tensor where they are the same."""
        x_src, x_dst = x if isinstance(x, tuple) else (x, x)
        for features in (x_src, x_dst):
            if features is not None:
                check_features(features)
        lin_src: Any = self.lin or self.lin_src
        lin_dst: Any = self.lin or self.lin_dst
        h_src = lin_src(x_src)
        if x_dst is None or (x_dst is x_src and lin_dst is lin_src):
            return h_src, None if x_dst is None else h_src
        return h_src, lin_dst(x_dst)

    def _node_terms(
        self, h_src: Tensor, h_dst: Tensor | None, targets: int
    ) -> tuple[Tensor, Tensor, Tensor]:
        """W x_j, ⟨a_src, W x_j⟩ and ⟨a_dst, W x_i⟩ by heads: ``[N, H, C]`` and ``[N, H]`` each."""
        att_src, att_dst = self.att_src.squeeze(0), self.att_dst.squeeze(0)
        x_src = h_src.view(-1, *att_src.shape)
        (a_src,) = node_scores(x_src, att_src)
        if h_dst is None:
            return x_src, a_src, a_src.new_zeros(targets, self.heads)
        return x_src, a_src, node_scores(h_dst.view(-1, *att_dst.shape), att_dst)[0]

    def _looped(
        self, edge_index: Tensor | Edges, edge_attr: Tensor | None, sizes: tuple[int, int]
    ) -> tuple[Tensor | Edges, Tensor | None]:
        """The edges, self-loops among them, and their features."""
        if isinstance(edge_index, Edges):
            edges = check_sources(edge_index, *sizes)
            return edges, self._features(edge_attr, edges.num_edges)
        index, values = as_edge_index(edge_index)
        check_range(index, *sizes)
        if edge_attr is None and values is not None and values.ndim == 2:
            edge_attr = values
        attr = self._features(edge_attr, index.shape[1])
        if self.add_self_loops:
            index, attr = remove_self_loops(index, attr)
            index, attr = add_self_loops(
                index, attr, fill_value=self.fill_value, num_nodes=min(sizes)
            )
        return index, attr

    def _features(self, edge_attr: Tensor | None, num_edges: int) -> Tensor | None:
        if edge_attr is None:
            return None
        if self.edge_dim is None:
            raise InputError(
                "this layer was made without edge features; leave edge_attr out, or set edge_dim"
            )
        return check_attr(edge_attr, num_edges, self.edge_dim)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.in_channels}, {self.out_channels}, heads={self.heads})"


def _slotted(
    index: Tensor | Edges, values: Tensor | None, sizes: tuple[int, int]
) -> tuple[Edges, Any]:
    """The edges, and their values in the slots."""
    if isinstance(index, Edges):
        return index, values
    edges = Edges.from_edge_index(index, num_nodes=sizes[0], num_targets=sizes[1])
    return edges, None if values is None else edges.sorted(values)
