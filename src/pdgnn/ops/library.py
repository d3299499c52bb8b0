"""The kernels as torch ops: their shapes for torch.compile and their rules for vmap.

Every tensor of an op has a batch of runs in front; the rule for :func:`torch.func.vmap` folds the
mapped dimension into it, so that R runs are one launch and no layout is copied. The structure of
the edges is passed as the tensors of :class:`~pdgnn.ops.edges.Edges`. Gradients are in
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
def aggregate(x: Tensor, weight: Tensor, structure: Sequence[Tensor]) -> Tensor:
    out: Tensor = kernels_for(x).spmm(x, weight, structure)
    return out


@_op
def aggregate_backward(
    g: Tensor,
    x: Tensor,
    weight: Tensor,
    structure: Sequence[Tensor],
    need_x: bool,
    need_weight: bool,
) -> tuple[Tensor, Tensor]:
    kernels = kernels_for(x)
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
    structure: Sequence[Tensor],
    slope: float,
    keep: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The messages, log Σ exp of the scores, and what gradients need besides if `keep`."""
    kernels, args = kernels_for(x), (x, a_src, a_dst, edge_attr, w_edge, mask, structure, slope)
    if keep and kernels.KEEPS_BELOW:
        out, lse, below, share = kernels.attend_keeping(*args)
        return out, lse, below, share
    out, lse = kernels.attend(*args)
    return out, lse, _nothing(x), _nothing(x)


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
    below: Tensor,
    share: Tensor,
    structure: Sequence[Tensor],
    slope: float,
    need_attr: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Gradients to x, a_src, a_dst, w_edge and (where needed) edge_attr."""
    dx, da_src, da_dst, dw, dz = kernels_for(x).attend_gradients(
        g, x, a_src, a_dst, edge_attr, w_edge, mask, out, lse, below, share, structure, slope,
        need_attr,
    )  # fmt: skip
    to_w = _nothing(x) if dw is None or w_edge is None else dw.to(w_edge.dtype)
    to_attr = _nothing(x)
    if need_attr and edge_attr is not None and w_edge is not None:
        to_attr = _reduced(dz @ w_edge.to(dz.dtype), edge_attr)  # [1 or B, E, F]
    return dx, da_src, da_dst, to_w, to_attr


@_op
def attend_dot(
    q: Tensor, k: Tensor, v: Tensor, structure: Sequence[Tensor], scale: float
) -> tuple[Tensor, Tensor]:
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
    structure: Sequence[Tensor],
    scale: float,
) -> tuple[Tensor, Tensor, Tensor]:
    kernels = kernels_for(v)
    inner = (g * out).sum(dim=-1, dtype=lse.dtype)
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
    row: int,
) -> Tensor:
    out: Tensor = kernels_for(h).activate(h, bias, residual, _noise(p, seed, step, layer), row)
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
    row: int,
    gelu: bool,
) -> tuple[Tensor, Tensor]:
    """Gradients to h and bias."""
    noise = _noise(p, seed, step, layer)
    dh, dbias = kernels_for(h).activate_backward(g, h, bias, gelu, noise, row)
    return dh.clone() if dh is g else dh, dbias


@_op
def layer_norm(
    x: Tensor, weight: Tensor, bias: Tensor, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    y, mean, scale = kernels_for(x).layer_norm(x, weight, bias, eps)
    return y, mean, scale


@_op
def layer_norm_backward(
    g: Tensor, passed: Tensor | None, x: Tensor, weight: Tensor, mean: Tensor, scale: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients to x (with what comes back along the residual), weight and bias."""
    dx, dw, db = kernels_for(x).layer_norm_backward(g, passed, x, weight, mean, scale)
    return dx, dw, db


@_op
def score_nodes(
    h: Tensor, bias: Tensor | None, att_src: Tensor, att_dst: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Without a bias x is h, and not given again."""
    x, a_src, a_dst = kernels_for(h).score_nodes(h, bias, att_src, att_dst)
    return _nothing(h) if bias is None else x, a_src, a_dst


@_op
def score_nodes_backward(
    g: Tensor, g_src: Tensor, g_dst: Tensor, x: Tensor, att_src: Tensor, att_dst: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Gradients to h, bias, att_src and att_dst."""
    dh, db, of_src, of_dst = kernels_for(x).score_nodes_backward(
        g, g_src, g_dst, x, att_src, att_dst
    )
    return dh, db, of_src, of_dst


@_op
def weight_gradient(g: Tensor, x: Tensor) -> Tensor:
    out: Tensor = kernels_for(g).weight_gradient(g, x)
    return out


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
def _(x: Tensor, weight: Tensor, structure: Sequence[Tensor]) -> Tensor:
    return x.new_empty(x.shape[0], structure[0].shape[0] - 1, *x.shape[2:])


@_shapes_of(aggregate_backward)
def _(g: Tensor, x: Tensor, weight: Tensor, *rest: Any) -> tuple[Tensor, Tensor]:
    need_x, need_weight = rest[-2:]
    return (
        torch.empty_like(x) if need_x else _nothing(x),
        torch.empty_like(weight) if need_weight else _nothing(weight),
    )


@_shapes_of(attend)
def _(x: Tensor, a_src: Tensor, a_dst: Tensor, *rest: Any) -> tuple[Tensor, ...]:
    out = x.new_empty(x.shape[0], a_dst.shape[1], *x.shape[2:])
    lse, below, share = _scores_like(a_dst), _nothing(x), _nothing(x)
    if rest[-1] and kernels_for(x).KEEPS_BELOW:
        below, share = torch.empty_like(out), torch.empty_like(lse)
    return out, lse, below, share


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
def _(g: Tensor, h: Tensor, bias: Tensor, *_: Any) -> tuple[Tensor, Tensor]:
    return torch.empty_like(h), torch.empty_like(bias)


@_shapes_of(layer_norm)
def _(x: Tensor, weight: Tensor, *_: Any) -> tuple[Tensor, Tensor, Tensor]:
    of_rows = _scores_like(x[..., 0])
    return torch.empty_like(x, dtype=weight.dtype), of_rows, torch.empty_like(of_rows)


@_shapes_of(layer_norm_backward)
def _(g: Tensor, passed: Any, x: Tensor, weight: Tensor, *_: Any) -> tuple[Tensor, ...]:
    return torch.empty_like(x), torch.empty_like(weight), torch.empty_like(weight)


@_shapes_of(score_nodes)
def _(h: Tensor, bias: Tensor | None, *_: Any) -> tuple[Tensor, ...]:
    a = _scores_like(h[..., 0])
    return _nothing(h) if bias is None else torch.empty_like(h), a, torch.empty_like(a)


@_shapes_of(score_nodes_backward)
def _(g: Tensor, g_src: Any, g_dst: Any, x: Any, att: Tensor, *_: Any) -> tuple[Tensor, ...]:
    return torch.empty_like(g), *(torch.empty_like(att) for _ in range(3))


@_shapes_of(weight_gradient)
def _(g: Tensor, x: Tensor) -> Tensor:
    return g.new_empty(len(g), g.shape[2], x.shape[2])


def _scores_like(a: Tensor) -> Tensor:
    """Scores are kept in float32 at least."""
    return a.new_empty(a.shape, dtype=torch.promote_types(a.dtype, torch.float32))


def _register_vmap(
    op: Any, batched: Sequence[int], shared: Sequence[int] = (), *, asked: bool = False
) -> None:
    """Fold the mapped dimension into the batch in front of the arguments at these places.

    Those `shared` may keep a batch of 1 where they are the same for all; the others are expanded.
    With `asked` the last argument says whether their gradient is, which each run has its own of.
    """

    def rule(info: Any, in_dims: tuple[int | None, ...], *args: Any) -> tuple[Any, Any]:
        size, folded = info.batch_size, list(args)
        may_share = () if asked and args[-1] else shared
        for i in (*batched, *shared):
            if args[i] is not None:
                keep_shared = i in may_share and in_dims[i] is None and args[i].shape[0] == 1
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
_register_vmap(aggregate_backward, [0, 1], shared=[2], asked=True)
_register_vmap(attend, [0, 1, 2, 4, 5], shared=[3])
_register_vmap(attend_backward, [0, 1, 2, 3, 5, 6, 7, 8, 9, 10], shared=[4], asked=True)
_register_vmap(attend_dot, [0, 1, 2])
_register_vmap(attend_dot_backward, [0, 1, 2, 3, 4, 5])
_register_vmap(dropout, [0, 1, 2, 3])
_register_vmap(activate, [0, 1, 2, 3, 4, 5])
_register_vmap(activate_backward, [0, 1, 2, 3, 4, 5])
_register_vmap(layer_norm, [0, 1, 2])
_register_vmap(layer_norm_backward, [0, 1, 2, 3, 4, 5])
_register_vmap(score_nodes, [0, 1, 2, 3])
_register_vmap(score_nodes_backward, [0, 1, 2, 3, 4, 5])
_register_vmap(weight_gradient, [0], shared=[1])
