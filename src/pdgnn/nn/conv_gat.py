"""PDGCNConv and PDGATConv: the two layers of the paper for any PyG model.

Both take PyG's edge_index ``[2, E]``, a torch.sparse ``adj_t``, or :class:`~pdgnn.ops.Edges`, which
are taken as they are: per-edge values in their slots, no self-loops dropped or added. With `Edges`
nothing waits for the device, and the layers work under torch.compile and in CUDA graphs.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812
from torch_geometric.nn.dense.linear import Linear
from torch_geometric.nn.inits import glorot, zeros
from torch_geometric.utils import add_self_loops, remove_self_loops

from pdgnn.errors import InputError
from pdgnn.laplacian import check_alpha, check_gamma
from pdgnn.nn.blocks import attention, edge_scores, node_scores
from pdgnn.nn.checks import (
    as_edge_index,
    as_edges,
    check_attr,
    check_degree,
    check_range,
    check_rate,
    check_sizes,
    check_weight,
    positive,
)
from pdgnn.ops import Edges, aggregate, attend, attend_nodes, score_nodes

__all__ = ["PDGATConv", "PDGCNConv", "block_weights"]

INSIDE = 0.01
"""Learned α and γ start at least so far inside (0, 1), where gradients can still move them."""


def block_weights(
    edges: Edges,
    degree: tuple[Tensor, Tensor],
    *,
    alpha: float | Tensor = 1.0,
    gamma: float | Tensor = 1.0,
    edge_weight: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """The entries of P^(α,γ) on `edges` ``[E]`` and on the diagonal of the targets.

    :func:`pdgnn.diffusion_weights` with the degrees of sources and targets given, as those of a
    sampled block are not its own. Both results have the type of the degrees.

    >>> edges = Edges.from_edge_index(torch.tensor([[1], [0]]), num_nodes=2)
    >>> on_edges, on_diagonal = block_weights(edges, (torch.ones(2), torch.ones(2)), gamma=0.25)
    >>> on_edges.tolist(), on_diagonal.tolist()
    ([0.25], [0.75, 0.75])
    """
    m_src, m_dst = (torch.where(d == 0, 1.0, gamma * d + (1.0 - gamma)) for d in degree)
    on_edges = gamma * (m_dst**-alpha)[edges.row] * (m_src ** (alpha - 1.0))[edges.col]  # [E]
    on_diagonal = torch.where(degree[1] == 0, 1.0, (1.0 - gamma) / m_dst)  # [targets]
    return on_edges if edge_weight is None else on_edges * edge_weight, on_diagonal


class PDGCNConv(nn.Module):
    """P^(α,γ) X W + b, the diffusion of PD-GCN (Section 3.2).

    At (½, 1) it is :class:`~torch_geometric.nn.GCNConv` without self-loops, at (1, 1) the mean of
    the neighbours; with γ < 1 a node keeps (1−γ)/M_i of itself.

    Args:
        in_channels: Features of a node; -1 to see at the first call.
        out_channels: Features that come out.
        alpha: α in [0, 1].
        gamma: γ in [0, 1].
        learn: Learn α and γ from there on, as sigmoids, so that they stay in (0, 1). They start
            at least 0.01 inside.
        bias: Whether to add b.

    >>> conv = PDGCNConv(5, 16, gamma=0.5)
    >>> conv(torch.ones(3, 5), torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])).shape
    torch.Size([3, 16])
    """

    alpha_logit: nn.Parameter | None
    gamma_logit: nn.Parameter | None
    bias: nn.Parameter | None

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        *,
        alpha: float = 1.0,
        gamma: float = 1.0,
        learn: bool = False,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.in_channels, self.out_channels = in_channels, positive("out_channels", out_channels)
        self._start, self.learn = (check_alpha(alpha), check_gamma(gamma)), learn
        for name in ("alpha_logit", "gamma_logit"):
            self.register_parameter(name, nn.Parameter(torch.empty(())) if learn else None)
        self.lin = Linear(in_channels, out_channels, bias=False, weight_initializer="glorot")
        self.register_parameter("bias", nn.Parameter(torch.empty(out_channels)) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw W anew; set b to 0, and α and γ to where they began."""
        self.lin.reset_parameters()
        zeros(self.bias)
        for logit, start in zip((self.alpha_logit, self.gamma_logit), self._start, strict=True):
            if logit is not None:
                inside = min(max(start, INSIDE), 1.0 - INSIDE)
                nn.init.constant_(logit, math.log(inside / (1.0 - inside)))

    @property
    def alpha(self) -> float | Tensor:
        """α; a tensor where it is learned."""
        return self._start[0] if self.alpha_logit is None else self.alpha_logit.sigmoid()

    @property
    def gamma(self) -> float | Tensor:
        """γ; a tensor where it is learned."""
        return self._start[1] if self.gamma_logit is None else self.gamma_logit.sigmoid()

    def forward(
        self,
        x: Tensor | tuple[Tensor, Tensor],
        edge_index: Tensor | Edges,
        edge_weight: Tensor | None = None,
        *,
        degree: Tensor | tuple[Tensor, Tensor] | None = None,
    ) -> Tensor:
        """``[N, in_channels]`` to ``[N, out_channels]``.

        Args:
            x: Features of the nodes, or (x_src, x_dst) of a sampled block, x_dst those of the first
                nodes of x_src; the diagonal of P applies to x_dst.
            edge_index: Undirected, every edge both ways; its self-loops are dropped. Where an
                `adj_t` has values, they are its weights.
            edge_weight: Non-negative weights a_ij of the edges ``[E]``, default 1.
            degree: d of each node in the whole graph, ``[N]`` or one of (sources, targets).
                Without it d is counted on the edges given. A block lacks edges: there a target
                counts those it was sampled with, and a source only those it has in the block.
        """
        x_src, x_dst = x if isinstance(x, tuple) else (x, x)
        sizes = (x_src.shape[0], x_dst.shape[0])
        edges, edge_weight = _without_loops(edge_index, edge_weight, sizes)
        dtype = torch.promote_types(x_src.dtype, torch.float32)
        weight = None if edge_weight is None else edge_weight.to(dtype)
        if degree is None:
            degrees = _degrees(edges, weight, x_src.new_ones((), dtype=dtype), isinstance(x, tuple))
        else:
            degrees = check_degree(degree, sizes, dtype)
        on_edges, on_diagonal = block_weights(
            edges, degrees, alpha=self.alpha, gamma=self.gamma, edge_weight=weight
        )
        h_src = self.lin(x_src)  # [N, out]
        h_dst = h_src if x_dst is x_src else self.lin(x_dst)
        weight = on_edges.to(h_src.dtype)[:, None]
        out: Tensor = aggregate(h_src[:, None], weight, edges).squeeze(1)
        out = out + on_diagonal.to(h_src.dtype)[:, None] * h_dst
        return out if self.bias is None else out + self.bias

    def __repr__(self) -> str:
        with torch.no_grad():
            values = f"alpha={float(self.alpha):.4g}, gamma={float(self.gamma):.4g}"
        learned = ", learn=True" if self.learn else ""
        return f"{type(self).__name__}({self.in_channels}, {self.out_channels}, {values}{learned})"


def _without_loops(
    edge_index: Tensor | Edges, edge_weight: Tensor | None, sizes: tuple[int, int]
) -> tuple[Edges, Tensor | None]:
    """The structure, and the weights in its slots."""
    if isinstance(edge_index, Edges):
        edges = as_edges(edge_index, *sizes)
        return edges, None if edge_weight is None else check_weight(edge_weight, edges.num_edges)
    index, values = as_edge_index(edge_index)
    check_range(index, *sizes)
    edge_weight = values if edge_weight is None else edge_weight
    if edge_weight is not None:
        check_weight(edge_weight, index.shape[1])
    index, edge_weight = remove_self_loops(index, edge_weight)
    edges = as_edges(index, *sizes)
    return edges, None if edge_weight is None else edges.sorted(edge_weight)


def _degrees(
    edges: Edges, weight: Tensor | None, one: Tensor, block: bool
) -> tuple[Tensor, Tensor]:
    """d of sources and targets, counted on `edges`: the same nodes, unless they are a block."""
    values = one.expand(edges.num_edges) if weight is None else weight
    into = values.new_zeros(edges.num_targets).index_add(0, edges.row, values)
    if not block:
        return into, into
    return values.new_zeros(edges.num_sources).index_add(0, edges.col, values), into


class PDGATConv(nn.Module):
    """Attention to neighbours and to the features of edges, the layer of PD-GAT (Section 3.2).

    out_i = Σ_j softmax_j(LeakyReLU(⟨a_src, W x_j⟩ + ⟨a_dst, W x_i⟩ + ⟨a_edge, W_e f_ij⟩)) W x_j in
    each head. Parameters have the names and shapes of :class:`~torch_geometric.nn.GATConv`, so that
    a state_dict of one loads into the other and both give the same; but no message ``[E, H, C]`` is
    ever written here.

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
    bias: nn.Parameter | None

    def __init__(
        self,
        in_channels: int | tuple[int, int],
        out_channels: int,
        *,
        heads: int = 1,
        concat: bool = True,
        negative_slope: float = 0.2,
        dropout: float = 0.0,
        add_self_loops: bool = True,
        edge_dim: int | None = 2,
        fill_value: float | Tensor | str = "mean",
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.in_channels = in_channels
        self.out_channels, self.heads = positive("out_channels", out_channels), heads
        self.concat, self.negative_slope = concat, negative_slope
        self.dropout, self.add_self_loops = check_rate(dropout), add_self_loops
        self.edge_dim, self.fill_value = edge_dim, fill_value
        width = positive("heads", heads) * out_channels
        self.lin = self.lin_src = self.lin_dst = self.lin_edge = None
        if isinstance(in_channels, tuple):
            self.lin_src, self.lin_dst = (_glorot_linear(size, width) for size in in_channels)
        else:
            self.lin = _glorot_linear(in_channels, width)
        for name in ("att_src", "att_dst", "att_edge"):
            needed = name != "att_edge" or edge_dim is not None
            shape = (1, heads, out_channels)
            self.register_parameter(name, nn.Parameter(torch.empty(shape)) if needed else None)
        if edge_dim is not None:
            self.lin_edge = _glorot_linear(positive("edge_dim", edge_dim), width)
        size = width if concat else out_channels
        self.register_parameter("bias", nn.Parameter(torch.empty(size)) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw all weights anew; set the bias to 0."""
        for lin in (self.lin, self.lin_src, self.lin_dst, self.lin_edge):
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
        edges, attr = self._structure(edge_index, edge_attr, sizes)
        w_edge = None
        if attr is not None and self.lin_edge is not None:
            attr = attr.to(h_src.dtype)
            w_edge = edge_scores(self.lin_edge.weight, self.att_edge)  # [1, H, edge_dim]
        mask = None
        if self.training and self.dropout > 0:
            mask = F.dropout(h_src.new_ones(edges.num_edges, self.heads), self.dropout)  # [E, H]
        term: Any = {"edge_attr": attr, "w_edge": w_edge, "negative_slope": self.negative_slope}
        if h_dst is h_src and not return_attention_weights:
            att = (self.att_src, self.att_dst)
            return self._combined(attend_nodes(h_src, *att, edges, mask=mask, **term))
        term["w_edge"] = None if w_edge is None else w_edge.squeeze(0)
        x_src, a_src, a_dst = self._node_terms(h_src, h_dst, sizes[1])
        out = self._combined(attend(x_src, a_src, a_dst, edges, mask=mask, **term).flatten(1))
        if not return_attention_weights:
            return out
        p = attention(a_src, a_dst, edges, **term).to(h_src.dtype)  # [E, H]
        p = edges.unsorted(p if mask is None else p * mask)
        return out, (edges.unsorted(torch.stack([edges.col, edges.row], dim=1)).T.long(), p)

    def _combined(self, out: Tensor) -> Tensor:
        """The heads side by side or their mean, and the bias."""
        if not self.concat:
            out = out.view(-1, self.heads, self.out_channels).mean(dim=1)
        return out if self.bias is None else out + self.bias

    def _transformed(
        self, x: Tensor | tuple[Tensor, Tensor | None]
    ) -> tuple[Tensor, Tensor | None]:
        """W x of sources and targets; one tensor where they are the same."""
        x_src, x_dst = x if isinstance(x, tuple) else (x, x)
        for features in (x_src, x_dst):
            if features is not None and features.ndim != 2:
                raise InputError(f"x has shape {list(features.shape)}; give [N, in_channels]")
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
        if h_dst is h_src:
            return score_nodes(x_src, None, att_src, att_dst)
        (a_src,) = node_scores(x_src, att_src)
        if h_dst is None:
            return x_src, a_src, a_src.new_zeros(targets, self.heads)
        return x_src, a_src, node_scores(h_dst.view(-1, *att_dst.shape), att_dst)[0]

    def _structure(
        self, edge_index: Tensor | Edges, edge_attr: Tensor | None, sizes: tuple[int, int]
    ) -> tuple[Edges, Tensor | None]:
        """The edges, loops among them, and their features in their slots."""
        if isinstance(edge_index, Edges):
            edges = as_edges(edge_index, *sizes)
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
        edges = as_edges(index, *sizes)
        return edges, None if attr is None else edges.sorted(attr)

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


def _glorot_linear(in_channels: int, out_channels: int) -> Linear:
    return Linear(in_channels, out_channels, bias=False, weight_initializer="glorot")
