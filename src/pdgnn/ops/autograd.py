"""The gradients of the kernels, as autograd functions that work under vmap, grad and compile.

A forward pass takes the arguments of the op of the same name in :mod:`pdgnn.ops.library`, but for
the tensors of the structure, which come last.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from inspect import Parameter, Signature
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from pdgnn.errors import InputError
from pdgnn.ops import library

__all__ = [
    "Activate",
    "Aggregate",
    "Attend",
    "AttendDot",
    "AttendNodes",
    "BatchNorm",
    "Dropout",
    "LayerNorm",
    "Linear",
    "ScoreNodes",
]

Backward = Callable[..., tuple[Tensor | None, ...]]


class _Final(torch.autograd.Function):
    """The first `count` tensors, gradients that were computed from the others."""

    generate_vmap_rule = True

    @staticmethod
    def forward(count: int, *tensors: Tensor) -> tuple[Tensor, ...]:
        return tuple(t.view_as(t) for t in tensors[:count])

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> None:
        raise InputError(
            "the kernels of pdgnn.ops have no second derivatives; leave create_graph=True out, or "
            "give PDGCNConv or PDGATConv a message hook, with which they are PyTorch's own ops"
        )


def _first_order(backward: Backward) -> Backward:
    """`backward`, whose results raise an error where they are differentiated once more.

    Autograd would take what the kernels compute for constants.
    """

    @wraps(backward)
    def guarded(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        if not torch.is_grad_enabled() or torch.compiler.is_compiling():
            return backward(ctx, *grads)
        with torch.no_grad():
            found = backward(ctx, *grads)
        there = [t for t in found if t is not None]
        origin = [t for t in (*grads, *ctx.saved_tensors) if t is not None]
        apply: Any = _Final.apply
        final = iter(apply(len(there), *there, *origin))
        return tuple(None if t is None else next(final) for t in found)

    return guarded


class Aggregate(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, weight: Tensor, *structure: Tensor) -> Any:
        return library.aggregate(x, weight, structure)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    @_first_order
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (x, weight, *structure), (need_x, need_w) = ctx.saved_tensors, ctx.needs_input_grad[:2]
        g = grads[0].contiguous()
        dx, dw = library.aggregate_backward(g, x, weight, structure, need_x, need_w)
        return (dx if need_x else None, dw if need_w else None, *[None] * len(structure))


class Attend(torch.autograd.Function):
    """Takes x, a_src, a_dst, edge_attr, w_edge, mask, slope, keep, and the structure."""

    generate_vmap_rule = True

    @staticmethod
    def forward(*args: Any) -> Any:
        return library.attend(*args[:6], args[8:], *args[6:8])

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        _save_attention(ctx, inputs, output)

    @staticmethod
    @_first_order
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        if grads[0] is None:
            return (None,) * len(ctx.needs_input_grad)
        kept, data, structure = _saved_attention(ctx)
        found = _attention_gradients(ctx, grads[0], data, kept, structure)
        return (*found, *[None] * (3 + len(structure)))


class AttendNodes(torch.autograd.Function):
    """:class:`ScoreNodes` without a bias and then :class:`Attend`, as one node of autograd.

    Takes att_src and att_dst in the place of a_src and a_dst.
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(*args: Any) -> Any:
        x, att_src, att_dst, edge_attr, w_edge, mask, slope, keep, *structure = args
        _, a_src, a_dst = library.score_nodes(x, None, att_src, att_dst)
        out = library.attend(x, a_src, a_dst, edge_attr, w_edge, mask, structure, slope, keep)
        return *out, a_src, a_dst

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        _save_attention(ctx, inputs, output)

    @staticmethod
    @_first_order
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        if grads[0] is None:
            return (None,) * len(ctx.needs_input_grad)
        (*kept, a_src, a_dst), (x, *att), structure = _saved_attention(ctx)
        data = (x, a_src, a_dst, *att[2:])
        dx, *to_scores, dattr, dw = _attention_gradients(ctx, grads[0], data, kept, structure)
        dx, _, *to_att = library.score_nodes_backward(dx, *to_scores, x, *att[:2])
        return (dx, *to_att, dattr, dw, *[None] * (3 + len(structure)))


def _save_attention(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    """Save the outputs, the structure and the first six inputs for :func:`_saved_attention`."""
    data, ctx.slope, structure = inputs[:6], inputs[6], inputs[8:]
    ctx.given, ctx.sizes = tuple(t is not None for t in data), (len(output), len(structure))
    ctx.mark_non_differentiable(*output[1:])
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(*output, *structure, *(t for t in data if t is not None))


def _saved_attention(ctx: Any) -> tuple[Any, Any, Any]:
    """The outputs, the first six inputs (None where they were) and the structure."""
    saved, (outputs, tensors) = ctx.saved_tensors, ctx.sizes
    given = iter(saved[outputs + tensors :])
    data = tuple(next(given) if there else None for there in ctx.given)
    return saved[:outputs], data, saved[outputs : outputs + tensors]


def _attention_gradients(
    ctx: Any, g: Tensor, data: tuple[Any, ...], kept: Any, structure: Any
) -> tuple[Any, ...]:
    """To x, a_src, a_dst, edge_attr and w_edge; None where they are not given or not asked for."""
    need_attr, featured = ctx.needs_input_grad[3], ctx.given[4]
    dx, da_src, da_dst, dw, dattr = library.attend_backward(
        g.contiguous(), *data, *kept, structure, ctx.slope, need_attr
    )
    return dx, da_src, da_dst, dattr if need_attr else None, dw if featured else None


class AttendDot(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(q: Tensor, k: Tensor, v: Tensor, scale: float, *structure: Tensor) -> Any:
        return library.attend_dot(q, k, v, structure, scale)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        q, k, v, ctx.scale, *structure = inputs
        ctx.mark_non_differentiable(output[1])
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(q, k, v, *output, *structure)

    @staticmethod
    @_first_order
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        if grads[0] is None:
            return (None,) * len(ctx.needs_input_grad)
        tensors, structure = ctx.saved_tensors[:5], ctx.saved_tensors[5:]
        g = grads[0].contiguous()
        found = library.attend_dot_backward(g, *tensors, structure, ctx.scale)
        return (*found, *[None] * (1 + len(structure)))


class Dropout(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(*args: Any) -> Any:
        return library.dropout(*args)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.save_for_backward(*inputs[1:4])
        ctx.layer = inputs[4]

    @staticmethod
    @_first_order
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        return (library.dropout(grads[0].contiguous(), *ctx.saved_tensors, ctx.layer), *[None] * 4)


class Activate(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(*args: Any) -> Any:
        return library.activate(*args)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        h, bias, residual, *state, ctx.layer = inputs
        ctx.gelu, ctx.drops, ctx.dtype = residual is None, state[0] is not None, h.dtype
        values = (h,) if ctx.gelu else ()  # elsewhere only its type is needed
        ctx.save_for_backward(bias, *(state if ctx.drops else ()), *values)

    @staticmethod
    @_first_order
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        g, (bias, *saved) = grads[0].contiguous(), ctx.saved_tensors
        state = saved[:3] if ctx.drops else [None, None, None]
        h = saved[-1] if ctx.gelu else torch.empty_like(g, dtype=ctx.dtype)
        dh, dbias = library.activate_backward(g, h, bias, *state, ctx.layer, ctx.gelu)
        return (dh, dbias, None if ctx.gelu else g, *[None] * 4)


class LayerNorm(torch.autograd.Function):
    """Also gives x back: the gradient along it is added in the backward pass of the norm."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, weight: Tensor, bias: Tensor, eps: float) -> tuple[Tensor, ...]:
        y, mean, scale = library.layer_norm(x, weight, bias, eps)
        return y, x.view_as(x), mean, scale

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.mark_non_differentiable(*output[2:])
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*inputs[:2], *output[2:])  # x, weight, mean and scale

    @staticmethod
    @_first_order
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        g, passed = (None if t is None else t.contiguous() for t in grads[:2])
        if g is None:
            return passed, None, None, None
        dx, dw, db = library.layer_norm_backward(g, passed, *ctx.saved_tensors)
        return dx, dw, db, None


class BatchNorm(torch.autograd.Function):
    """Takes up to three parts of x, weight, bias, rate, seed, step, layer and eps.

    Gives y, mean, var, and the sum of the parts where there are several.
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(*args: Any) -> Any:
        return library.batch_norm(*args)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        x, *more, weight, bias, rate, seed, step, ctx.layer, ctx.eps = inputs
        ctx.mark_non_differentiable(*output[1:])
        ctx.set_materialize_grads(False)
        ctx.parts = [True, *(t is not None for t in more)]
        ctx.drops = rate is not None
        x = output[3] if ctx.parts[1] else x
        state = (rate, seed, step) if ctx.drops else ()
        ctx.save_for_backward(x, weight, bias, *output[1:3], *state)

    @staticmethod
    @_first_order
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        if grads[0] is None:
            return (None,) * len(ctx.needs_input_grad)
        saved = ctx.saved_tensors
        state = saved[5:] if ctx.drops else (None, None, None)
        given = (grads[0].contiguous(), *saved[:5], *state, ctx.layer, ctx.eps)
        dx, dw, db = library.batch_norm_backward(*given)
        return *(dx if there else None for there in ctx.parts), dw, db, *[None] * 5


class Linear(torch.autograd.Function):
    """The gradient to W has the layout of W; under vmap torch's own has that of Wᵀ."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, weight: Tensor) -> Tensor:
        return torch.mm(x, weight.T)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    @_first_order
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        need_x, need_weight = ctx.needs_input_grad
        dx = torch.mm(grads[0], weight) if need_x else None
        return dx, _over_nodes(grads[0], x) if need_weight else None


def _over_nodes(g: Tensor, x: Tensor) -> Tensor:
    """gᵀ x."""
    if not x.is_cuda:  # nothing is gained by an op
        return torch.mm(g.T, x)
    found: Tensor = library.over_nodes(g[None], x[None]).squeeze(0)
    return found


class ScoreNodes(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(h: Tensor, bias: Tensor | None, *att: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        x, a_src, a_dst = library.score_nodes(h, bias, *att)
        return h.view_as(h) if bias is None else x, a_src, a_dst

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        h, bias, *att = inputs
        ctx.biased = bias is not None
        ctx.save_for_backward(output[0] if ctx.biased else h, *att)

    @staticmethod
    @_first_order
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        g, g_src, g_dst = (t.contiguous() for t in grads)
        dh, dbias, *to_att = library.score_nodes_backward(g, g_src, g_dst, *ctx.saved_tensors)
        return dh, dbias if ctx.biased else None, *to_att


class _Positional(Signature):
    """Gives the arguments back as they came; torch binds them to names at every call."""

    def bind(self, *args: Any, **kwargs: Any) -> Any:
        return SimpleNamespace(args=args, kwargs=kwargs, apply_defaults=lambda: None)


for _name in __all__:
    globals()[_name].forward.__signature__ = _Positional(
        [Parameter("args", Parameter.VAR_POSITIONAL)]
    )
