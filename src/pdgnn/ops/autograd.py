"""The gradients of the kernels, as autograd functions that work under vmap, grad and compile."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from pdgnn.ops import library

__all__ = ["Activate", "Aggregate", "Attend", "AttendDot", "Dropout"]


class Aggregate(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, weight: Tensor, *structure: Tensor) -> Tensor:
        out: Tensor = library.aggregate(x, weight, *structure)
        return out

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        need_x, need_w = ctx.needs_input_grad[:2]
        dx, dw = library.aggregate_backward(
            grads[0].contiguous(), *ctx.saved_tensors, need_x, need_w
        )
        return (dx if need_x else None, dw if need_w else None, *[None] * 6)


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
        *structure: Tensor,
    ) -> tuple[Tensor, Tensor]:
        out, lse = library.attend(x, a_src, a_dst, edge_attr, w_edge, mask, *structure, slope)
        return out, lse

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        data, ctx.slope, structure = inputs[:6], inputs[6], inputs[7:]
        ctx.given = tuple(t is not None for t in data)
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(*output, *structure, *(t for t in data if t is not None))

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        out, lse, *saved = ctx.saved_tensors
        structure, given = saved[:6], iter(saved[6:])
        data = [next(given) if there else None for there in ctx.given]
        need_attr, featured = ctx.needs_input_grad[3], ctx.given[4]
        dx, da_src, da_dst, dw, dattr = library.attend_backward(
            grads[0].contiguous(), *data, out, lse, *structure, ctx.slope, need_attr
        )
        features = (dattr if need_attr else None, dw if featured else None)
        return (dx, da_src, da_dst, *features, *[None] * 8)


class AttendDot(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(
        q: Tensor, k: Tensor, v: Tensor, scale: float, *structure: Tensor
    ) -> tuple[Tensor, Tensor]:
        out, lse = library.attend_dot(q, k, v, *structure, scale)
        return out, lse

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        q, k, v, ctx.scale, *structure = inputs
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(q, k, v, *output, *structure)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        found = library.attend_dot_backward(grads[0].contiguous(), *ctx.saved_tensors, ctx.scale)
        return (*found, *[None] * 7)


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
    ) -> Tensor:
        out: Tensor = library.activate(h, bias, residual, p, seed, step, layer)
        return out

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        h, bias, residual, *noise, ctx.layer = inputs
        ctx.gelu, ctx.noisy = residual is None, noise[0] is not None
        ctx.save_for_backward(h, bias, *(noise if ctx.noisy else ()))

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        h, bias, *noise = ctx.saved_tensors
        noise = noise or [None, None, None]
        g = grads[0].contiguous()
        if ctx.gelu or ctx.noisy:
            dh = library.activate_backward(g, h, bias, *noise, ctx.layer, ctx.gelu)
        else:
            dh = g
        return (dh, dh.sum(dim=1), None if ctx.gelu else g, *[None] * 4)
