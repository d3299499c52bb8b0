"""The gradients of the kernels, as autograd functions that work under vmap, grad and compile."""

from __future__ import annotations

from inspect import Signature, signature
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from pdgnn.ops import library

__all__ = [
    "Activate",
    "Aggregate",
    "Attend",
    "AttendDot",
    "AttendNodes",
    "Dropout",
    "FeedForward",
    "LayerNorm",
    "Linear",
    "ScoreNodes",
]

FEW = 16
"""Features of a node up to which a kernel beats the product for the gradient to the weights: cuBLAS
does not split its sum over the nodes."""


class Aggregate(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, weight: Tensor, *structure: Tensor) -> Tensor:
        out: Tensor = library.aggregate(x, weight, structure)
        return out

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (x, weight, *structure), (need_x, need_w) = ctx.saved_tensors, ctx.needs_input_grad[:2]
        g = grads[0].contiguous()
        dx, dw = library.aggregate_backward(g, x, weight, structure, need_x, need_w)
        return (dx if need_x else None, dw if need_w else None, *[None] * len(structure))


class Attend(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(
        x: Tensor,
        a_src: Tensor,
        a_dst: Tensor,
        edge_attr: Tensor | None,
        w_edge: Tensor | None,
        mask: Tensor | None,
        slope: float,
        keep: bool,
        *structure: Tensor,
    ) -> tuple[Tensor, ...]:
        out: tuple[Tensor, ...] = library.attend(
            x, a_src, a_dst, edge_attr, w_edge, mask, structure, slope, keep
        )
        return out

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        _save_attention(ctx, inputs, output)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        if grads[0] is None:
            return (None,) * len(ctx.needs_input_grad)
        kept, data, structure = _saved_attention(ctx)
        found = _attention_gradients(ctx, grads[0], data, kept, structure)
        return (*found, *[None] * (3 + len(structure)))


class AttendNodes(torch.autograd.Function):
    """:class:`ScoreNodes` without a bias and then :class:`Attend`, as one node of autograd."""

    generate_vmap_rule = True

    @staticmethod
    def forward(
        x: Tensor,
        att_src: Tensor,
        att_dst: Tensor,
        edge_attr: Tensor | None,
        w_edge: Tensor | None,
        mask: Tensor | None,
        slope: float,
        keep: bool,
        *structure: Tensor,
    ) -> tuple[Tensor, ...]:
        _, a_src, a_dst = library.score_nodes(x, None, att_src, att_dst)
        out = library.attend(x, a_src, a_dst, edge_attr, w_edge, mask, structure, slope, keep)
        return *out, a_src, a_dst

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        _save_attention(ctx, inputs, output)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        if grads[0] is None:
            return (None,) * len(ctx.needs_input_grad)
        (*kept, a_src, a_dst), (x, *att), structure = _saved_attention(ctx)
        data = (x, a_src, a_dst, *att[2:])
        dx, *to, dattr, dw = _attention_gradients(ctx, grads[0], data, kept, structure)
        dx, _, *of_att = library.score_nodes_backward(dx, *to, x, *att[:2])
        return (dx, *of_att, dattr, dw, *[None] * (3 + len(structure)))


def _save_attention(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    """What :func:`_saved_attention` gives: the outputs, the first six inputs, the structure."""
    data, ctx.slope, structure = inputs[:6], inputs[6], inputs[8:]
    ctx.given, ctx.parts = tuple(t is not None for t in data), (len(output), len(structure))
    ctx.mark_non_differentiable(*output[1:])
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(*output, *structure, *(t for t in data if t is not None))


def _saved_attention(ctx: Any) -> tuple[Any, Any, Any]:
    saved, (outputs, parts) = ctx.saved_tensors, ctx.parts
    given = iter(saved[outputs + parts :])
    data = tuple(next(given) if there else None for there in ctx.given)
    return saved[:outputs], data, saved[outputs : outputs + parts]


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
    def forward(
        q: Tensor, k: Tensor, v: Tensor, scale: float, *structure: Tensor
    ) -> tuple[Tensor, Tensor]:
        out, lse = library.attend_dot(q, k, v, structure, scale)
        return out, lse

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        q, k, v, ctx.scale, *structure = inputs
        ctx.mark_non_differentiable(output[1])
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(q, k, v, *output, *structure)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        if grads[0] is None:
            return (None,) * len(ctx.needs_input_grad)
        q, k, v, out, lse, *structure = ctx.saved_tensors
        g = grads[0].contiguous()
        found = library.attend_dot_backward(g, q, k, v, out, lse, structure, ctx.scale)
        return (*found, *[None] * (1 + len(structure)))


class Dropout(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, p: Tensor, seed: Tensor, step: Tensor, layer: int) -> Tensor:
        out: Tensor = library.dropout(x, p, seed, step, layer)
        return out

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.save_for_backward(*inputs[1:4])
        ctx.layer = inputs[4]

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        return (library.dropout(grads[0].contiguous(), *ctx.saved_tensors, ctx.layer), *[None] * 4)


class Activate(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(
        h: Tensor,
        bias: Tensor,
        residual: Tensor | None,
        p: Tensor | None,
        seed: Tensor | None,
        step: Tensor | None,
        layer: int,
        row: int,
    ) -> Tensor:
        out: Tensor = library.activate(h, bias, residual, p, seed, step, layer, row)
        return out

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        h, bias, residual, *noise, ctx.layer, ctx.row = inputs
        ctx.gelu, ctx.noisy, ctx.dtype = residual is None, noise[0] is not None, h.dtype
        values = (h,) if ctx.gelu else ()  # elsewhere only its type is needed
        ctx.save_for_backward(bias, *(noise if ctx.noisy else ()), *values)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        g, (bias, *saved) = grads[0].contiguous(), ctx.saved_tensors
        noise = saved[:3] if ctx.noisy else [None, None, None]
        h = saved[-1] if ctx.gelu else torch.empty_like(g, dtype=ctx.dtype)
        dh, dbias = library.activate_backward(g, h, bias, *noise, ctx.layer, ctx.row, ctx.gelu)
        return (dh, dbias, None if ctx.gelu else g, *[None] * 5)


class FeedForward(torch.autograd.Function):
    """Blocks of rows go through one after another, and through again in the backward pass."""

    generate_vmap_rule = True

    @staticmethod
    def forward(
        x: Tensor,
        residual: Tensor,
        w1: Tensor,
        b1: Tensor,
        w2: Tensor,
        b2: Tensor,
        p: Tensor | None,
        seed: Tensor | None,
        step: Tensor | None,
        layers: tuple[int, int],
        rows: int,
    ) -> Tensor:
        parts, noise = [], (p, seed, step)
        for row in range(0, max(1, x.shape[0]), rows):
            _, a = _hidden(x[row : row + rows], w1, b1, noise, layers[0], row)
            h, onto = torch.mm(a.squeeze(0), w2.T)[None], residual[None, row : row + rows]
            parts.append(library.activate(h, b2, onto, *noise, layers[1], row).squeeze(0))
        return torch.cat(parts)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        x, _, *tensors, ctx.layers, ctx.rows = inputs
        ctx.save_for_backward(x, *tensors)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (g,), (x, w1, b1, w2, b2, *noise) = grads, ctx.saved_tensors
        dx, sums = [], None
        for row in range(0, max(1, x.shape[0]), ctx.rows):
            of_x, *found = _row_gradients(
                g[row : row + ctx.rows], x[row : row + ctx.rows], (w1, b1, w2, b2), noise,
                ctx.layers, row,
            )  # fmt: skip
            dx.append(of_x)
            sums = found if sums is None else [s + f for s, f in zip(sums, found, strict=True)]
        to_weights = [s.to(t.dtype) for s, t in zip(sums or [], (w1, b1, w2, b2), strict=True)]
        return (torch.cat(dx), g, *to_weights, *[None] * 5)


def _hidden(
    x: Tensor, w1: Tensor, b1: Tensor, noise: Any, layer: int, row: int
) -> tuple[Tensor, Tensor]:
    """W1 x, and GELU(dropout(W1 x + b1)), ``[1, rows, D]`` each."""
    h = torch.mm(x, w1.T)[None]
    return h, library.activate(h, b1, None, *noise, layer, row)


def _row_gradients(
    g: Tensor, x: Tensor, weights: Any, noise: Any, layers: tuple[int, int], row: int
) -> tuple[Tensor, ...]:
    """Gradients to x and the weights of a block, those to weights in float32 at least."""
    w1, b1, w2, b2 = weights
    h, a = _hidden(x, w1, b1, noise, layers[0], row)
    like = torch.empty_like(g, dtype=w2.dtype)[None]  # only its type is needed
    g = g[None].contiguous()
    dh, db2 = library.activate_backward(g, like, b2, *noise, layers[1], row, False)
    dh, wide = dh.squeeze(0), torch.promote_types(w1.dtype, torch.float32)
    dw2, da = torch.mm(dh.T, a.squeeze(0)), torch.mm(dh, w2)[None]
    dh, db1 = library.activate_backward(da, h, b1, *noise, layers[0], row, True)
    dh = dh.squeeze(0)
    found = (torch.mm(dh.T, x), db1, dw2, db2)
    return torch.mm(dh, w1), *(t.to(wide) for t in found)


class LayerNorm(torch.autograd.Function):
    """Also gives x back: the gradient along it is added in the backward pass of the norm."""

    generate_vmap_rule = True

    @staticmethod
    def forward(
        x: Tensor, weight: Tensor, bias: Tensor, eps: float
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        y, mean, scale = library.layer_norm(x, weight, bias, eps)
        return y, x.view_as(x), mean, scale

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        x, weight, *_ = inputs
        _, _, mean, scale = output
        ctx.mark_non_differentiable(mean, scale)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(x, weight, mean, scale)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        g, passed = (None if t is None else t.contiguous() for t in grads[:2])
        if g is None:
            return passed, None, None, None
        dx, dw, db = library.layer_norm_backward(g, passed, *ctx.saved_tensors)
        return dx, dw, db, None


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
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        need_x, need_weight = ctx.needs_input_grad
        dx = torch.mm(grads[0], weight) if need_x else None
        return dx, _weight_gradient(grads[0], x) if need_weight else None


def _weight_gradient(g: Tensor, x: Tensor) -> Tensor:
    """gᵀ x."""
    if x.shape[1] > FEW:
        return torch.mm(g.T, x)
    out: Tensor = library.weight_gradient(g[None], x[None])
    return out.squeeze(0)


class ScoreNodes(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(
        h: Tensor, bias: Tensor | None, att_src: Tensor, att_dst: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        x, a_src, a_dst = library.score_nodes(h, bias, att_src, att_dst)
        return h.view_as(h) if bias is None else x, a_src, a_dst

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        h, bias, att_src, att_dst = inputs
        ctx.biased = bias is not None
        ctx.save_for_backward(output[0] if ctx.biased else h, att_src, att_dst)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        g, g_src, g_dst = (t.contiguous() for t in grads)
        dh, db, of_src, of_dst = library.score_nodes_backward(g, g_src, g_dst, *ctx.saved_tensors)
        return dh, db if ctx.biased else None, of_src, of_dst


class _ByPlace(Signature):
    """The arguments as they come: torch binds them to their names at every call."""

    def bind(self, *args: Any, **kwargs: Any) -> Any:
        return SimpleNamespace(args=args, kwargs=kwargs, apply_defaults=lambda: None)


for _name in __all__:
    _forward = globals()[_name].forward
    _forward.__signature__ = _ByPlace(list(signature(_forward).parameters.values()))
