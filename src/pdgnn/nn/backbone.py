"""The residual backbone that the graph models here share.

It is written for one run. Many runs are one :func:`torch.func.vmap` over their stacked state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.func import functional_call, vjp
from torch.utils._pytree import tree_flatten, tree_unflatten

from pdgnn.errors import check_whole
from pdgnn.nn.blocks import Context, DropoutState, FeedForwardBlock, gelu
from pdgnn.nn.checks import (
    as_edges,
    check_attr,
    check_rate,
    check_seed,
    check_weight,
)
from pdgnn.nn.features import SparseFeatures
from pdgnn.ops import Edges, layer_norm

__all__ = ["Backbone", "BlockFactory", "Residual", "SeededModule", "checked_context", "recomputed"]

T = TypeVar("T")

BlockFactory = Callable[[int, int], nn.Module]
"""Makes a block for (channels, heads)."""


class Residual(nn.Module):
    """x + block(LayerNorm(x), ...); the block itself adds x, in the pass of its last dropout."""

    def __init__(self, channels: int, block: nn.Module) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(channels)
        self.block = block

    def forward(self, x: Tensor, context: Context) -> Tensor:
        """``[N, D]`` to ``[N, D]``."""
        y, x = layer_norm(x, self.norm.weight, self.norm.bias, eps=self.norm.eps)
        out: Tensor = self.block(y, x, context)
        return out


class _Recomputed(torch.autograd.Function):
    """call(*tensors), which keeps these tensors alone and calls again in the backward pass.

    Of the tuple that `call` gives only the first has a gradient. Not `torch.utils.checkpoint`,
    whose second call knows nothing of the vmap of the first.
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(
        call: Callable[..., tuple[Tensor, ...]], *tensors: Tensor | None
    ) -> tuple[Tensor, ...]:
        return call(*tensors)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.call, *tensors = inputs
        ctx.mark_non_differentiable(*output[1:])
        ctx.save_for_backward(*tensors)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        tensors, needed = ctx.saved_tensors, ctx.needs_input_grad[1:]
        others = [None if need else t for t, need in zip(tensors, needed, strict=True)]

        def of_needed(*given: Tensor) -> Tensor:
            out: Tensor = ctx.call(*_merged(needed, given, others))[0]
            return out

        asked = [t for t, need in zip(tensors, needed, strict=True) if need]
        pull: Any = vjp(of_needed, *asked)[1]
        found = pull(grads[0], retain_graph=False)  # each part is let go once it is used
        return None, *_merged(needed, found, [None] * len(needed))


def _merged(here: Sequence[bool], given: Iterable[T], others: Sequence[T]) -> list[T]:
    """Those `given`, in their order, in the places `here`, and `others` in the other places."""
    left = iter(given)
    return [next(left) if h else other for h, other in zip(here, others, strict=True)]


def recomputed(
    layer: nn.Module, x: Tensor | SparseFeatures, context: Context, *more: Any
) -> Tensor | tuple[Tensor, ...]:
    """layer(x, context, *more), keeping x and what is given, and nothing of the layer's inside.

    The backward pass computes the layer a second time, with the parameters and the dropout that it
    had; so the layer must be a function of these, its input, `context` and `more` alone. `more` are
    tensors, in tuples or not. Where the layer gives a tuple, only its first has a gradient.

    >>> edges = Edges.from_edge_index(torch.tensor([[0, 1], [1, 0]]), num_nodes=2)
    >>> dropout = DropoutState(torch.tensor(0.5), torch.tensor(0), torch.tensor(1), active=True)
    >>> layer, x = Residual(4, FeedForwardBlock(4)), torch.ones(2, 4, requires_grad=True)
    >>> recomputed(layer, x, Context(edges, None, None, dropout)).shape, dropout.drawn
    (torch.Size([2, 4]), 2)
    """
    dropout, begun = context.dropout, context.dropout.drawn
    parameters = dict(layer.named_parameters())  # now: others may stand here in the backward pass
    names, dense = list(parameters), x if isinstance(x, Tensor) else None
    sparse = None if isinstance(x, Tensor) else x
    flat, form = tree_flatten(more)
    single = True

    def call(
        x: Tensor | None,
        weight: Tensor | None,
        attr: Tensor | None,
        rate: Tensor,
        seed: Tensor,
        step: Tensor,
        *values: Tensor,
    ) -> tuple[Tensor, ...]:
        nonlocal single
        own = DropoutState(rate, seed, step, active=dropout.active)
        own.drawn = begun  # the same masks the second time
        mine = replace(context, edge_weight=weight, edge_attr=attr, dropout=own)
        given, values = values[: len(flat)], values[len(flat) :]
        args = (sparse if x is None else x, mine, *tree_unflatten(given, form))
        out = functional_call(layer, dict(zip(names, values, strict=True)), args)
        dropout.drawn = own.drawn  # where the next layer goes on
        single = isinstance(out, Tensor)
        return (out,) if single else tuple(out)

    others = (context.edge_weight, context.edge_attr, dropout.rate, dropout.seed, dropout.step)
    apply: Any = _Recomputed.apply
    result: tuple[Tensor, ...] = apply(call, dense, *others, *flat, *parameters.values())
    return result[0] if single else result


class SeededModule(nn.Module):
    """A model with dropout of its own: the buffers `rate`, `seed` and `step` say which masks.

    They are tensors, so that the runs of one vmap may differ in them, and part of the state_dict.
    Every forward pass in training mode begins a step.
    """

    wide: tuple[str, ...] = ()
    """Parameters, by how their names begin, that stay in float32 where layers are in bfloat16."""
    recompute: bool = False
    """Whether training keeps only the input of each layer, which the backward pass computes again:
    less memory, more time, the same numbers."""
    rate: Tensor
    seed: Tensor
    step: Tensor

    def __init__(self, dropout: float, seed: int) -> None:
        super().__init__()
        self.register_buffer("rate", torch.tensor(check_rate(dropout), dtype=torch.float32))
        self.register_buffer("seed", torch.tensor(check_seed(seed)))
        self.register_buffer("step", torch.tensor(0))

    def dropout_state(self) -> DropoutState:
        """The dropout of this forward pass."""
        # A copy, as backward passes still need this step when the next one has begun.
        step = self.step.add_(1).clone() if self.training else self.step
        return DropoutState(self.rate.float(), self.seed, step, active=self.training)

    def through(
        self, layer: nn.Module, x: Tensor | SparseFeatures, context: Context, *more: Any
    ) -> Any:
        """layer(x, context, *more), in the way that `recompute` says."""
        if self.recompute and self.training and torch.is_grad_enabled():
            return recomputed(layer, x, context, *more)
        return layer(x, context, *more)


def checked_context(
    nodes: int,
    edges: Edges | Tensor,
    edge_weight: Tensor | None,
    edge_attr: Tensor | None,
    dtype: torch.dtype,
    dropout: DropoutState,
) -> Context:
    """What all layers share, checked, in slots, and in the type of the model or float32."""
    edges, dtype = as_edges(edges, nodes), torch.promote_types(dtype, torch.float32)
    if edge_weight is not None:
        edge_weight = edges.sorted(check_weight(edge_weight, edges.num_edges)).to(dtype)
    if edge_attr is not None:
        edge_attr = edges.sorted(check_attr(edge_attr, edges.num_edges)).to(dtype)
    return Context(edges, edge_weight, edge_attr, dropout)


class Backbone(SeededModule):
    """Linear → dropout → GELU, `depth` layers of residual blocks, LayerNorm → Linear.

    A layer is x + block(LayerNorm(x)), once for each of `blocks`, which are called with
    (hidden_channels, heads). The architecture is that of Platonov et al. (2023).

    Args:
        in_channels: Features of a node.
        hidden_channels: D.
        out_channels: Classes, or 1 for one logit.
        depth: Layers.
        heads: Heads of attention, which split D.
        dropout: Its rate in [0, 1).
        seed: Of dropout. Parameters are drawn by torch's global generator, as everywhere in torch.
        blocks: What a layer consists of; default a feed-forward network (ResNet).

    >>> edges = Edges.from_edge_index(torch.tensor([[0, 1], [1, 0]]), num_nodes=2)
    >>> Backbone(5, 8, 3, depth=2)(torch.ones(2, 5), edges).shape
    torch.Size([2, 3])
    """

    wide = ("lin_in", "norm_out", "lin_out")  # and so is x between the layers

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
        blocks: Sequence[BlockFactory] = (FeedForwardBlock,),
    ) -> None:
        super().__init__(dropout, seed)
        width = check_whole("hidden_channels", hidden_channels)
        self.lin_in = nn.Linear(check_whole("in_channels", in_channels), width)
        self.layers = nn.ModuleList(
            Residual(width, block(width, heads))
            for _ in range(check_whole("depth", depth))
            for block in blocks
        )
        self.norm_out = nn.LayerNorm(width)
        self.lin_out = nn.Linear(width, check_whole("out_channels", out_channels))

    def forward(
        self,
        x: Tensor | SparseFeatures,
        edges: Edges | Tensor,
        edge_weight: Tensor | None = None,
        edge_attr: Tensor | None = None,
    ) -> Tensor:
        """``[N, in_channels]`` to ``[N, out_channels]``.

        Args:
            x: Features of the nodes, dense or sparse.
            edges: The structure, or PyG's edge_index ``[2, E]``; nothing is added to it.
            edge_weight: ``[E]``, where the blocks use it: in the slots of `Edges`, or in the order
                of an edge_index.
            edge_attr: ``[E, F]``, likewise.
        """
        nodes, dropout = x.shape[0], self.dropout_state()
        h = gelu(self.lin_in, x, dropout)
        context = checked_context(nodes, edges, edge_weight, edge_attr, h.dtype, dropout)
        for layer in self.layers:
            h = self.through(layer, h, context)
        h, _ = layer_norm(h, self.norm_out.weight, self.norm_out.bias, eps=self.norm_out.eps)
        out: Tensor = self.lin_out(h)
        return out
