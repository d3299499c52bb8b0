"""The layers of PD-Net."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, get_args

import torch
from torch import Tensor, nn

from pdgnn.errors import InputError
from pdgnn.nn.blocks import Attention, Context
from pdgnn.ops import aggregate, batch_norm, dropout, layer_norm, linear

__all__ = ["NORMS", "Norm", "PDLayer", "PDRound", "Scales", "StateLinear", "Statistics"]

Norm = Literal["batch", "layer", "none"]
NORMS: tuple[Norm, ...] = get_args(Norm)
EPS = 1e-5
"""Of the norms, as in torch."""
Scales = tuple[Tensor, Tensor, Tensor] | None
"""left, right and diagonal ``[N, S · D]`` of scopes that are learned."""
Statistics = tuple[Tensor, Tensor]
"""Mean and variance ``[D]`` of a norm."""


class StateLinear(nn.Module):
    """W z without a bias for z = h or, with `inject`, z = [h, h0]: W h + W_0 h0.

    W_0 h0 is the same in every round, and computed once.
    """

    def __init__(self, channels: int, out_channels: int, *, inject: bool) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(out_channels, channels))
        self.register_parameter("weight0", None)
        if inject:
            self.weight0 = nn.Parameter(torch.empty(out_channels, channels))
        bound = 1 / math.sqrt(channels * (1 + inject))  # as torch draws a Linear that takes z
        for weight in self.parameters():
            nn.init.uniform_(weight, -bound, bound)

    def forward(self, h: Tensor) -> Tensor:
        """W h, ``[N, D]`` to ``[N, out]``."""
        return linear(h, self.weight)

    def constant(self, h0: Tensor) -> Tensor:
        """W_0 h0."""
        return linear(h0, self.weight0)


class PDLayer(nn.Module):
    """dropout(ReLU(Norm(W_self z + Σ_s W_s P_s z + b))); see :class:`PDNet`."""

    lin_self: StateLinear | None
    lin_scopes: StateLinear | None
    lin_attend: StateLinear | None
    bias: nn.Parameter | None
    norm_weight: nn.Parameter
    norm_bias: nn.Parameter

    def __init__(
        self,
        channels: int,
        *,
        scopes: int,
        inject: bool = False,
        norm: Norm = "batch",
        self_path: bool = True,
        attend: bool = False,
        edge_dim: int | None = None,
        heads: int = 8,
    ) -> None:
        """Args:
        channels: D.
        scopes: How many weighted sums over neighbours there are; may be 0 with `attend`.
        inject: Whether z has h0 beside h.
        norm: Which.
        self_path: Whether there is W_self.
        attend: Whether there are messages of attention.
        edge_dim: Features of an edge that it sees, if any.
        heads: Of attention.
        """
        super().__init__()
        self.channels, self.norm, self.inject = channels, norm, inject
        for name, out in (
            ("lin_self", channels * self_path),
            ("lin_scopes", channels * scopes),
            ("lin_attend", channels * attend),
        ):
            made = StateLinear(channels, out, inject=inject) if out else None
            self.register_module(name, made)
        self.attention = Attention(channels, heads, edge_dim=edge_dim) if attend else None
        if self.attention is not None:
            self.attention.draw()
        for name, there in (
            ("bias", norm != "batch"),
            ("norm_weight", norm != "none"),
            ("norm_bias", norm != "none"),
        ):
            self.register_parameter(name, nn.Parameter(torch.zeros(channels)) if there else None)
        if norm != "none":
            nn.init.ones_(self.norm_weight)

    def constants(self, h0: Tensor, context: Context, scales: Scales) -> tuple[Tensor, ...]:
        """What h0 adds in every round alike: to the sum, and to what attention sees."""
        if not self.inject:
            return ()
        parts = []
        if self.lin_scopes is not None:
            parts.append(self._spread(self.lin_scopes.constant(h0), context, scales))
        if self.lin_self is not None:
            parts.append(self.lin_self.constant(h0))
        added = sum(parts[1:], parts[0]) if parts else torch.zeros_like(h0)
        return (added,) if self.lin_attend is None else (added, self.lin_attend.constant(h0))

    def forward(
        self,
        h: Tensor,
        context: Context,
        scales: Scales,
        constants: tuple[Tensor, ...],
        statistics: Statistics | None = None,
    ) -> tuple[Tensor, Statistics | None]:
        """``[N, D]`` to ``[N, D]``, and the mean and variance of the nodes, of a batch norm.

        With `statistics` these take the place of the nodes' own.
        """
        parts = list(constants[:1])
        if self.bias is not None:
            parts.append(self.bias)
        if self.lin_scopes is not None:
            parts.append(self._spread(self.lin_scopes(h), context, scales))
        if self.lin_self is not None:
            parts.append(self.lin_self(h))
        if self.attention is not None and self.lin_attend is not None:
            seen = self.lin_attend(h)
            seen = seen + constants[1] if self.inject else seen
            parts.append(self.attention(seen, None, context)[1])
        if self.norm == "batch" and statistics is None:
            y, mean, var = batch_norm(
                sum(parts[3:], parts[0]),
                self.norm_weight,
                self.norm_bias,
                added=parts[1:3],
                eps=EPS,
                dropout=context.dropout.draw(),
            )
            return y, (mean, var)
        return self._normed(sum(parts[1:], parts[0]), context, statistics), None

    def _spread(self, y: Tensor, context: Context, scales: Scales) -> Tensor:
        """Σ_s P_s y_s of y ``[N, S · D]``: ``[N, D]``."""
        weight = context.edge_weight
        if weight is None:
            raise InputError("PDNet weighs its messages; give edge_weight, see PDNet.inputs")
        weight = weight if weight.ndim == 2 else weight[:, None]  # [E, S or 1]
        if scales is None:
            own = y.view(y.shape[0], weight.shape[1], -1)  # [N, S, D]
            message = aggregate(own, weight, context.edges)
        else:
            left, right, diagonal = scales
            sent = aggregate((right * y)[:, None], weight, context.edges).squeeze(1)
            message = torch.addcmul(diagonal * y, left, sent)
            message = message.view(y.shape[0], -1, self.channels)
        return message.squeeze(1) if message.shape[1] == 1 else message.sum(dim=1)

    def _normed(self, x: Tensor, context: Context, statistics: Statistics | None) -> Tensor:
        """dropout(ReLU(Norm(x))), but for a batch norm by the nodes' own statistics."""
        if statistics is not None:
            mean, var = statistics
            scale = self.norm_weight * (var + EPS).rsqrt()
            x = ((x - mean) * scale + self.norm_bias).to(x.dtype)
        elif self.norm == "layer":
            x, _ = layer_norm(x, self.norm_weight, self.norm_bias, eps=EPS)
        x, drawn = x.relu(), context.dropout.draw()
        if drawn is None:
            return x
        *state, layer = drawn
        return dropout(x, *state, layer=layer)


class PDRound(nn.ModuleList):
    """The layers, one after another."""

    def forward(
        self,
        h: Tensor,
        context: Context,
        scales: Scales,
        constants: Sequence[tuple[Tensor, ...]],
        statistics: Sequence[Statistics] = (),
    ) -> tuple[Tensor, ...]:
        """``[N, D]`` to ``[N, D]``, and the mean and variance of each batch norm, in turn."""
        found: list[Tensor] = []
        for i, layer in enumerate(self):
            own = statistics[i] if statistics else None
            h, seen = layer(h, context, scales, constants[i], own)
            found += seen or ()
        return h, *found
