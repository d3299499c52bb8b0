"""PDGCNConv: the diffusion layer of PD-GCN for any PyG model."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch_geometric.nn.inits import zeros

from pdgnn.errors import InputError, check_whole
from pdgnn.laplacian import check_alpha, check_gamma, diffusion_weights
from pdgnn.nn.checks import (
    as_edge_index,
    check_degree,
    check_range,
    check_sources,
    check_values,
    check_weight,
    loopless_weight,
    warn_one_way,
)
from pdgnn.nn.conv import FusedConv, check_features, glorot_linear
from pdgnn.ops import Edges, aggregate

__all__ = ["PDGCNConv"]

INSIDE = 0.01
"""Learned α and γ start at least so far inside (0, 1), where gradients can still move them."""

FEW_NUMBERS = 2**22
"""Numbers in all messages of an edge_index up to which writing them takes less than sorting the
edges for the kernel: 16 MiB in float32."""


class _Diffusion(NamedTuple):
    """P^(α,γ) on given edges; its entries are in their order, or in their slots."""

    edges: Tensor | Edges
    on_edges: Tensor  # [E]
    on_diagonal: Tensor  # [targets]


class PDGCNConv(FusedConv):
    """P^(α,γ) X W + b, the diffusion of PD-GCN (Section 3.2).

    At (½, 1) it is :class:`~torch_geometric.nn.GCNConv` without self-loops, at (1, 1) the mean of
    the neighbours; with γ < 1 a node keeps (1−γ)/M_i of itself. That part is no message: an
    explainer's edge mask leaves it as it is.

    Args:
        in_channels: Features of a node; -1 to see at the first call.
        out_channels: Features that come out.
        alpha: α in [0, 1].
        gamma: γ in [0, 1].
        learn: Learn α and γ from there on, as sigmoids, so that they stay in (0, 1). They start
            at least 0.01 inside.
        cached: Keep P of the first call and use it in all others, whatever edges they give. For
            one graph that stays the same.
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
        cached: bool = False,
        bias: bool = True,
    ) -> None:
        super().__init__(PDGCNConv)
        if learn and cached:
            raise InputError("P changes while alpha and gamma are learned; leave cached=True out")
        self.in_channels, self.out_channels = in_channels, check_whole("out_channels", out_channels)
        self._start, self.learn = (check_alpha(alpha), check_gamma(gamma)), learn
        self.cached, self._checked = cached, False
        for name in ("alpha_logit", "gamma_logit"):
            self.register_parameter(name, nn.Parameter(torch.empty(())) if learn else None)
        self.lin = glorot_linear(in_channels, out_channels)
        self.register_parameter("bias", nn.Parameter(torch.empty(out_channels)) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw W anew; set b to 0, and α and γ to where they began; forget a P that was kept."""
        self.lin.reset_parameters()
        zeros(self.bias)
        for logit, start in zip((self.alpha_logit, self.gamma_logit), self._start, strict=True):
            if logit is not None:
                inside = min(max(start, INSIDE), 1.0 - INSIDE)
                nn.init.constant_(logit, math.log(inside / (1.0 - inside)))
        self._kept: _Diffusion | None = None

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
                `adj_t` has values, they are its weights. One-way edges get a warning, once, where
                they are no part of a larger graph (no block, no `degree`) and on the CPU.
            edge_weight: Non-negative weights a_ij of the edges ``[E]``, default 1.
            degree: d of each node in the whole graph, ``[N]`` or one of (sources, targets).
                Without it d is counted on the edges given. A block lacks edges: there a target
                counts those it was sampled with, and a source only those it has in the block.
        """
        x_src, x_dst = map(check_features, x if isinstance(x, tuple) else (x, x))
        whole = degree is None and not isinstance(x, tuple)
        if whole and not self._checked and warn_one_way(edge_index, x_src.shape[0]):
            self._checked = True
        h_src: Tensor = self.lin(x_src)  # [N, out]
        h_dst = h_src if x_dst is x_src else self.lin(x_dst)
        sizes = (h_src.shape[0], h_dst.shape[0])
        p = self._diffusion(h_src, sizes, edge_index, edge_weight, degree, whole=whole)
        if isinstance(p.edges, Edges):
            weight = p.on_edges.to(h_src.dtype)[:, None]
            out = aggregate(h_src[:, None], weight, p.edges).squeeze(1)
        else:
            # propagate_type: (x: Tensor, edge_weight: Tensor)
            out = self.propagate(p.edges, x=h_src, edge_weight=p.on_edges, size=sizes)
            out = out.to(h_src.dtype)
        out = out + p.on_diagonal.to(h_src.dtype)[:, None] * h_dst
        return out if self.bias is None else out + self.bias

    def message(self, x_j: Tensor, edge_weight: Tensor) -> Tensor:
        """P_ij W x_j, in float32 at least."""
        return edge_weight[:, None] * x_j

    def _diffusion(
        self,
        h: Tensor,
        sizes: tuple[int, int],
        edge_index: Tensor | Edges,
        edge_weight: Tensor | None,
        degree: Tensor | tuple[Tensor, Tensor] | None,
        *,
        whole: bool,
    ) -> _Diffusion:
        """P on the edges given, or what was kept of the first call."""
        messages = self.wants_messages(edge_index)
        kept, dtype = self._kept, torch.promote_types(h.dtype, torch.float32)
        like = (h.device, dtype)
        if kept and (kept.on_edges.device, kept.on_edges.dtype) == like and not messages:
            return _check_kept(kept, sizes)
        index, weight = _weighted_edges(edge_index, edge_weight, sizes, dtype)
        if degree is None:
            degrees = _degrees(edge_index, index, weight, sizes, dtype=dtype, whole=whole)
        else:
            degrees = check_degree(degree, sizes, dtype)
        on_edges, on_diagonal = diffusion_weights(
            index,
            sizes[0],
            alpha=self.alpha,
            gamma=self.gamma,
            edge_weight=weight,
            degree=degrees,
        )
        few = on_edges.numel() * self.out_channels <= FEW_NUMBERS
        if messages or (few and not self.cached and not isinstance(edge_index, Edges)):
            index = index if isinstance(index, Tensor) else torch.stack(index)
            return _Diffusion(index, on_edges, on_diagonal)
        edges = edge_index
        if not isinstance(edges, Edges):
            edges = Edges.from_edge_index(index, num_nodes=sizes[0], num_targets=sizes[1])
            on_edges = edges.sorted(on_edges)
        if not self.cached:
            return _Diffusion(edges, on_edges, on_diagonal)
        self._kept = _Diffusion(edges.trimmed(), on_edges.detach(), on_diagonal.detach())
        return self._kept

    def __repr__(self) -> str:
        with torch.no_grad():
            values = f"alpha={float(self.alpha):.4g}, gamma={float(self.gamma):.4g}"
        options = (("learn", self.learn), ("cached", self.cached))
        said = "".join(f", {name}=True" for name, value in options if value)
        return f"{type(self).__name__}({self.in_channels}, {self.out_channels}, {values}{said})"


def _check_kept(kept: _Diffusion, sizes: tuple[int, int]) -> _Diffusion:
    edges: Any = kept.edges
    if (edges.num_sources, edges.num_targets) != sizes:
        raise InputError(
            f"this layer keeps P of a graph of {edges.num_targets} nodes, but x has {sizes[1]} "
            "rows; leave cached=True out, or call reset_parameters() first"
        )
    return kept


def _weighted_edges(
    edge_index: Tensor | Edges,
    edge_weight: Tensor | None,
    sizes: tuple[int, int],
    dtype: torch.dtype,
) -> tuple[Any, Tensor | None]:
    """Sources and targets ``[2, E]``, and the weights a_ij; self-loops weigh 0."""
    if isinstance(edge_index, Edges):
        edges = check_sources(edge_index, *sizes)
        if edge_weight is not None:
            edge_weight = check_values(check_weight(edge_weight, edges.num_edges)).to(dtype)
        return (edges.col, edges.row), edge_weight
    index, values = as_edge_index(edge_index)
    check_range(index, *sizes)
    return index, loopless_weight(index, values if edge_weight is None else edge_weight, dtype)


def _degrees(
    edge_index: Tensor | Edges,
    index: Any,
    weight: Tensor | None,
    sizes: tuple[int, int],
    *,
    dtype: torch.dtype,
    whole: bool,
) -> tuple[Tensor, Tensor] | None:
    """d of sources and targets on the edges given; None for :func:`diffusion_weights` to count."""
    if weight is None and isinstance(edge_index, Edges):
        into = edge_index.rowptr.diff().to(dtype)
        return (into if whole else edge_index.t_rowptr.diff().to(dtype)), into
    if whole or weight is None:
        return None
    source, target = (
        weight.new_zeros(size).index_add(0, ids, weight)
        for ids, size in zip(index, sizes, strict=True)
    )
    return source, target
