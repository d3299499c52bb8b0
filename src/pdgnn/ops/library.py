"""The kernels as torch ops: their shapes for torch.compile and their rules for vmap.

Every tensor of an op has a batch of runs in front; the rule for :func:`torch.func.vmap` folds the
mapped dimension into it, so that R runs are one launch and no layout is copied. The structure of
the edges is passed as the six tensors of :class:`~pdgnn.ops.edges.Edges`. Gradients are in
:mod:`pdgnn.ops.autograd`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.library import Library, infer_schema, register_fake, register_vmap

from pdgnn.ops.backends import kernels_for

_library = Library("pdgnn", "DEF")  # type: ignore[no-untyped-call]


def _op(function: Callable[..., Any]) -> Callable[..., Any]:
    """A torch op made of `function`: opaque to torch.compile, without a gradient of its own.

    Not `torch.library.custom_op`, whose autograd wrapper refuses to run under torch.func.grad.
    """
    name = function.__name__
    _library.define(name + infer_schema(function, mutates_args=()))  # type: ignore[no-untyped-call]
    _library.impl(name, function, "CompositeExplicitAutograd")  # type: ignore[no-untyped-call]
    op: Callable[..., Any] = getattr(torch.ops.pdgnn, name).default
    return op


def _shapes_of(op: Any) -> Callable[[Callable[..., Any]], None]:
    """Take a function for what torch.compile asks of `op`: empty tensors like its results."""
    return lambda function: register_fake(op, function)


@_op
def aggregate(
    x: Tensor,
    weight: Tensor,
    rowptr: Tensor,
    col: Tensor,
    row: Tensor,
    t_rowptr: Tensor,
    t_row: Tensor,
    t_slot: Tensor,
) -> Tensor:
    structure = (rowptr, col, row, t_rowptr, t_row, t_slot)
    out: Tensor = kernels_for(x).spmm(x, weight, structure)
    return out


@_op
def aggregate_backward(
    g: Tensor,
    x: Tensor,
    weight: Tensor,
    rowptr: Tensor,
    col: Tensor,
    row: Tensor,
    t_rowptr: Tensor,
    t_row: Tensor,
    t_slot: Tensor,
    need_x: bool,
    need_weight: bool,
) -> tuple[Tensor, Tensor]:
    structure, kernels = (rowptr, col, row, t_rowptr, t_row, t_slot), kernels_for(x)
    dx = kernels.spmm_transposed(g, weight, structure) if need_x else _nothing(x)
    dw = _reduced(kernels.sddmm(g, x, structure), weight) if need_weight else _nothing(weight)
    return dx, dw


@_op
def attend(
    x: Tensor,
    a_src: Tensor,
    a_dst: Tensor,
    edge_attr: Tensor | None,
    w_edge: Tensor | None,
    mask: Tensor | None,
    rowptr: Tensor,
    col: Tensor,
    row: Tensor,
    t_rowptr: Tensor,
    t_row: Tensor,
    t_slot: Tensor,
    slope: float,
) -> tuple[Tensor, Tensor]:
    structure = (rowptr, col, row, t_rowptr, t_row, t_slot)
    out, lse = kernels_for(x).attend(x, a_src, a_dst, edge_attr, w_edge, mask, structure, slope)
    return out, lse


@_op
def attend_backward(
    g: Tensor,
    x: Tensor,
    a_src: Tensor,
    a_dst: Tensor,
    edge_attr: Tensor | None,
    w_edge: Tensor | None,
    mask: Tensor | None,
    out: Tensor,
    lse: Tensor,
    rowptr: Tensor,
    col: Tensor,
    row: Tensor,
    t_rowptr: Tensor,
    t_row: Tensor,
    t_slot: Tensor,
    slope: float,
    need_attr: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Gradients to x, a_src, a_dst, w_edge and (where needed) edge_attr."""
    structure, kernels = (rowptr, col, row, t_rowptr, t_row, t_slot), kernels_for(x)
    inner = (g * out).sum(dim=-1)  # [B, targets, H]
    dx, da_src, dz = kernels.attend_backward(
        g, x, a_src, a_dst, edge_attr, w_edge, mask, lse, inner, structure, slope
    )
    da_dst = kernels.edge_sum(dz, structure)
    dw, dattr = _nothing(x), _nothing(x)
    if edge_attr is not None and w_edge is not None:
        dw = kernels.feature_grad(dz, edge_attr).to(w_edge.dtype)  # [B, H, F]
        if need_attr:
            dattr = _reduced(dz @ w_edge.to(dz.dtype), edge_attr)  # [1 or B, E, F]
    return dx, da_src, da_dst, dw, dattr


@_op
def attend_dot(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    rowptr: Tensor,
    col: Tensor,
    row: Tensor,
    t_rowptr: Tensor,
    t_row: Tensor,
    t_slot: Tensor,
    scale: float,
) -> tuple[Tensor, Tensor]:
    structure = (rowptr, col, row, t_rowptr, t_row, t_slot)
    out, lse = kernels_for(v).attend_dot(q, k, v, structure, scale)
    return out, lse


@_op
def attend_dot_backward(
    g: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    out: Tensor,
    lse: Tensor,
    rowptr: Tensor,
    col: Tensor,
    row: Tensor,
    t_rowptr: Tensor,
    t_row: Tensor,
    t_slot: Tensor,
    scale: float,
) -> tuple[Tensor, Tensor, Tensor]:
    structure, kernels = (rowptr, col, row, t_rowptr, t_row, t_slot), kernels_for(v)
    inner = (g * out).sum(dim=-1)
    dk, dv, ds = kernels.attend_dot_backward(g, q, k, v, lse, inner, structure, scale)
    return kernels.spmm(k, ds, structure), dk, dv


@_op
def dropout(x: Tensor, p: Tensor, seed: Tensor, step: Tensor, layer: int) -> Tensor:
    out: Tensor = kernels_for(x).dropout(x, p, seed, step, layer)
    return out


@_op
def activate(
    h: Tensor,
    bias: Tensor,
    residual: Tensor | None,
    p: Tensor | None,
    seed: Tensor | None,
    step: Tensor | None,
    layer: int,
) -> Tensor:
    out: Tensor = kernels_for(h).activate(h, bias, residual, _noise(p, seed, step, layer))
    return out


@_op
def activate_backward(
    g: Tensor,
    h: Tensor,
    bias: Tensor,
    p: Tensor | None,
    seed: Tensor | None,
    step: Tensor | None,
    layer: int,
    gelu: bool,
) -> Tensor:
    noise = _noise(p, seed, step, layer)
    out: Tensor = kernels_for(h).activate_backward(g, h, bias, gelu, noise)
    return out.clone() if out is g else out


def _noise(
    p: Tensor | None, seed: Tensor | None, step: Tensor | None, layer: int
) -> tuple[Tensor, Tensor, Tensor, int] | None:
    return None if p is None or seed is None or step is None else (p, seed, step, layer)


def _nothing(like: Tensor) -> Tensor:
    return like.new_empty(0)


def _reduced(values: Tensor, like: Tensor) -> Tensor:
    """Sum ``[B, E, H]`` over what `like` shares: runs, heads or both."""
    for dim in (0, 2):
        if like.shape[dim] == 1 and values.shape[dim] > 1:
            values = values.sum(dim=dim, keepdim=True)
    return values.to(like.dtype)


@_shapes_of(aggregate)
def _(x: Tensor, weight: Tensor, rowptr: Tensor, *_: Any) -> Tensor:
    return x.new_empty(x.shape[0], rowptr.shape[0] - 1, *x.shape[2:])


@_shapes_of(aggregate_backward)
def _(g: Tensor, x: Tensor, weight: Tensor, *rest: Any) -> tuple[Tensor, Tensor]:
    need_x, need_weight = rest[-2:]
    return (
        torch.empty_like(x) if need_x else _nothing(x),
        torch.empty_like(weight) if need_weight else _nothing(weight),
    )


@_shapes_of(attend)
def _(x: Tensor, a_src: Tensor, a_dst: Tensor, *_: Any) -> tuple[Tensor, Tensor]:
    return x.new_empty(x.shape[0], a_dst.shape[1], *x.shape[2:]), _scores_like(a_dst)


@_shapes_of(attend_backward)
def _(
    g: Tensor,
    x: Tensor,
    a_src: Tensor,
    a_dst: Tensor,
    edge_attr: Tensor | None,
    w_edge: Tensor | None,
    *rest: Any,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    dw, dattr = _nothing(x), _nothing(x)
    if edge_attr is not None and w_edge is not None:
        dw = torch.empty_like(w_edge)
        dattr = torch.empty_like(edge_attr) if rest[-1] else dattr
    return torch.empty_like(x), torch.empty_like(a_src), torch.empty_like(a_dst), dw, dattr


@_shapes_of(attend_dot)
def _(q: Tensor, k: Tensor, v: Tensor, *_: Any) -> tuple[Tensor, Tensor]:
    return torch.empty_like(q), _scores_like(q[..., 0])


@_shapes_of(attend_dot_backward)
def _(g: Tensor, q: Tensor, k: Tensor, v: Tensor, *_: Any) -> tuple[Tensor, Tensor, Tensor]:
    return torch.empty_like(q), torch.empty_like(k), torch.empty_like(v)


@_shapes_of(dropout)
def _(x: Tensor, *_: Any) -> Tensor:
    return torch.empty_like(x)


@_shapes_of(activate)
def _(h: Tensor, *_: Any) -> Tensor:
    return torch.empty_like(h)


@_shapes_of(activate_backward)
def _(g: Tensor, h: Tensor, *_: Any) -> Tensor:
    return torch.empty_like(h)


def _scores_like(a: Tensor) -> Tensor:
    """Scores are kept in float32 at least."""
    return a.new_empty(a.shape, dtype=torch.promote_types(a.dtype, torch.float32))


def _register_vmap(op: Any, batched: Sequence[int], shared: Sequence[int] = ()) -> None:
    """Fold the mapped dimension into the batch in front of the arguments at these places.

    Those `shared` may keep a batch of 1 where they are the same for all; the others are expanded.
    """

    def rule(info: Any, in_dims: tuple[int | None, ...], *args: Any) -> tuple[Any, Any]:
        size, folded = info.batch_size, list(args)
        for i in (*batched, *shared):
            if args[i] is not None:
                keep_shared = i in shared and in_dims[i] is None and args[i].shape[0] == 1
                folded[i] = args[i] if keep_shared else _folded(args[i], in_dims[i], size)
        out = op(*folded)
        return _unfolded(out, size)

    register_vmap(op, rule)


def _folded(t: Tensor, dim: int | None, size: int) -> Tensor:
    """``[R, B, ...]`` (or shared by all R) as ``[R · B, ...]``."""
    t = t.expand(size, *t.shape) if dim is None else t.movedim(dim, 0)
    return t.flatten(0, 1)


def _unfolded(out: Any, size: int) -> tuple[Any, Any]:
    if isinstance(out, Tensor):
        return _split(out, size)
    pairs = [_split(t, size) for t in out]
    return tuple(t for t, _ in pairs), tuple(d for _, d in pairs)


def _split(t: Tensor, size: int) -> tuple[Tensor, int | None]:
    if t.numel() == 0 and t.ndim == 1:  # a gradient nobody asked for
        return t, None
    return t.reshape(size, -1, *t.shape[1:]), 0


_register_vmap(aggregate, [0], shared=[1])
_register_vmap(aggregate_backward, [0, 1, 2])
_register_vmap(attend, [0, 1, 2, 4, 5], shared=[3])
_register_vmap(attend_backward, [0, 1, 2, 3, 4, 5, 6, 7, 8])
_register_vmap(attend_dot, [0, 1, 2])
_register_vmap(attend_dot_backward, [0, 1, 2, 3, 4, 5])
_register_vmap(dropout, [0, 1, 2, 3])
_register_vmap(activate, [0, 1, 2, 3, 4, 5])
_register_vmap(activate_backward, [0, 1, 2, 3, 4, 5])
