"""The kernels as torch ops. Each is declared once: its schema, its shapes and its vmap rule.

Every tensor of an op has a batch of runs in front; under :func:`torch.func.vmap` the mapped
dimension is folded into it, so that R runs are one launch and no layout is copied. The structure of
the edges is passed as the tensors of :class:`~pdgnn.ops.edges.Edges`, which all runs share.
Gradients are in :mod:`pdgnn.ops.autograd`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from inspect import signature
from typing import Any, cast

import torch
from torch import Tensor
from torch.library import Library, infer_schema, register_fake, register_vmap

from pdgnn.ops.backends import kernels_for
from pdgnn.ops.reference import AttentionInputs, DropoutState

Op = Callable[..., Any]

_library = Library("pdgnn", "DEF")  # type: ignore[no-untyped-call]


def op(*, like: str | Callable[..., Any], shared: str = "") -> Callable[[Op], Op]:
    """Declare a function as a torch op with its name and signature.

    The op is opaque to torch.compile and has no gradient of its own. It is not made by
    `torch.library.custom_op`, whose autograd wrapper refuses to run under torch.func.grad.

    Args:
        like: What the results look like, for torch.compile. Either the names of arguments, one for
            each result, or a function of the arguments that gives empty tensors. A result is of
            size 0 if its argument x is None, or if there is an argument `need_x` that is False.
        shared: Names of arguments that keep a batch of 1 under vmap if they are the same for all
            runs; all other tensors are expanded. If there is an argument `need_x` that is True,
            x is expanded too, as each run then has a gradient of its own.
    """

    def declare(function: Op) -> Op:
        name, parameters = function.__name__, signature(function, eval_str=True).parameters
        schema = infer_schema(function, mutates_args=())
        _library.define(name + schema)  # type: ignore[no-untyped-call]
        _library.impl(name, function, "CompositeExplicitAutograd")  # type: ignore[no-untyped-call]
        made: Any = getattr(torch.ops.pdgnn, name).default
        tensors = [n for n, p in parameters.items() if p.annotation in (Tensor, Tensor | None)]

        def fake(*args: Any) -> Any:
            if callable(like):
                return like(*args)
            given = dict(zip(parameters, args, strict=True))
            results = [_empty(given, n) for n in like.split()]
            return results[0] if len(results) == 1 else tuple(results)

        def batched(info: Any, in_dims: tuple[Any, ...], *args: Any) -> tuple[Any, Any]:
            given, dims = (dict(zip(parameters, a, strict=True)) for a in (args, in_dims))
            for n in tensors:
                t, may_share = given[n], n in shared.split() and not given.get(f"need_{n}")
                if t is not None and not (may_share and dims[n] is None and t.shape[0] == 1):
                    given[n] = _folded(t, dims[n], info.batch_size)
            return _unfolded(made(*given.values()), info.batch_size)

        register_fake(made, fake)
        register_vmap(made, batched)
        return cast(Op, made)

    return declare


def _empty(given: dict[str, Any], name: str) -> Tensor:
    """A result like the argument of this name."""
    t, first = given[name], next(iter(given.values()))
    needed = t is not None and given.get(f"need_{name}", True)
    return torch.empty_like(t) if needed else _nothing(first if t is None else t)


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


def _nothing(like: Tensor) -> Tensor:
    return like.new_empty(0)


def _scores_like(a: Tensor) -> Tensor:
    """Scores are kept in float32 at least."""
    return a.new_empty(a.shape, dtype=torch.promote_types(a.dtype, torch.float32))


# --- messages -------------------------------------------------------------------------------------


def _messages_like(x: Tensor, weight: Tensor, structure: Sequence[Tensor]) -> Tensor:
    return x.new_empty(x.shape[0], structure[0].shape[0] - 1, *x.shape[2:])


@op(like=_messages_like, shared="weight")
def aggregate(x: Tensor, weight: Tensor, structure: Sequence[Tensor]) -> Tensor:
    out: Tensor = kernels_for(x).spmm(x, weight, structure)
    return out


@op(like="x weight", shared="weight")
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


def _reduced(values: Tensor, like: Tensor) -> Tensor:
    """Sum ``[B, E, H]`` over what `like` shares: runs, heads or both."""
    for dim in (0, 2):
        if like.shape[dim] == 1 and values.shape[dim] > 1:
            values = values.sum(dim=dim, keepdim=True)
    return values.to(like.dtype)


def _attend_like(x: Tensor, a_src: Tensor, a_dst: Tensor, *rest: Any) -> tuple[Tensor, ...]:
    out, lse = x.new_empty(x.shape[0], a_dst.shape[1], *x.shape[2:]), _scores_like(a_dst)
    if rest[-1] and kernels_for(x).KEEPS_NEGATIVE_PART:
        return out, lse, torch.empty_like(out), torch.empty_like(lse)
    return out, lse, _nothing(x), _nothing(x)


@op(like=_attend_like, shared="edge_attr")
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
    """The messages, log Σ exp of the scores, and if `keep` what else the gradients need."""
    inputs = AttentionInputs(x, a_src, a_dst, edge_attr, w_edge, mask, structure, slope)
    out, lse, *more = kernels_for(x).attend(inputs, keep)
    neg_out, neg_weight = more or (_nothing(x), _nothing(x))
    return out, lse, neg_out, neg_weight


@op(like="x a_src a_dst w_edge edge_attr", shared="edge_attr")
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
    neg_out: Tensor,
    neg_weight: Tensor,
    structure: Sequence[Tensor],
    slope: float,
    need_edge_attr: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Gradients to x, a_src, a_dst, w_edge and (if needed) edge_attr."""
    inputs = AttentionInputs(x, a_src, a_dst, edge_attr, w_edge, mask, structure, slope)
    kept = (out, lse, neg_out, neg_weight)
    dx, da_src, da_dst, dw, dz = kernels_for(x).attend_gradients(g, inputs, kept, need_edge_attr)
    to_w = _nothing(x) if dw is None or w_edge is None else dw.to(w_edge.dtype)
    to_attr = _nothing(x if edge_attr is None else edge_attr)
    if need_edge_attr and edge_attr is not None and w_edge is not None:
        to_attr = _reduced(dz @ w_edge.to(dz.dtype), edge_attr)  # [1 or B, E, F]
    return dx, da_src, da_dst, to_w, to_attr


def _attend_dot_like(q: Tensor, *_: Any) -> tuple[Tensor, Tensor]:
    return torch.empty_like(q), _scores_like(q[..., 0])


@op(like=_attend_dot_like)
def attend_dot(
    q: Tensor, k: Tensor, v: Tensor, structure: Sequence[Tensor], scale: float
) -> tuple[Tensor, Tensor]:
    out, lse = kernels_for(v).attend_dot(q, k, v, structure, scale)
    return out, lse


@op(like="q k v")
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


# --- passes over the nodes ------------------------------------------------------------------------


@op(like="x")
def dropout(x: Tensor, p: Tensor, seed: Tensor, step: Tensor, layer: int) -> Tensor:
    out: Tensor = kernels_for(x).dropout(x, p, seed, step, layer)
    return out


def _state(
    p: Tensor | None, seed: Tensor | None, step: Tensor | None, layer: int
) -> DropoutState | None:
    return None if p is None or seed is None or step is None else (p, seed, step, layer)


def _activate_like(h: Tensor, bias: Tensor, residual: Tensor | None, *_: Any) -> Tensor:
    return torch.empty_like(h if residual is None else residual)


@op(like=_activate_like)
def activate(
    h: Tensor,
    bias: Tensor,
    residual: Tensor | None,
    p: Tensor | None,
    seed: Tensor | None,
    step: Tensor | None,
    layer: int,
) -> Tensor:
    out: Tensor = kernels_for(h).activate(h, bias, residual, _state(p, seed, step, layer))
    return out


@op(like="h bias")
def activate_backward(
    g: Tensor,
    h: Tensor,
    bias: Tensor,
    p: Tensor | None,
    seed: Tensor | None,
    step: Tensor | None,
    layer: int,
    gelu: bool,
) -> tuple[Tensor, Tensor]:
    """Gradients to h and bias."""
    state = _state(p, seed, step, layer)
    dh, dbias = kernels_for(h).activate_backward(g, h, bias, gelu, state)
    return dh.clone() if dh is g else dh, dbias


def _layer_norm_like(x: Tensor, weight: Tensor, *_: Any) -> tuple[Tensor, Tensor, Tensor]:
    mean = _scores_like(x[..., 0])
    return torch.empty_like(x, dtype=weight.dtype), mean, torch.empty_like(mean)


@op(like=_layer_norm_like)
def layer_norm(
    x: Tensor, weight: Tensor, bias: Tensor, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    y, mean, scale = kernels_for(x).layer_norm(x, weight, bias, eps)
    return y, mean, scale


@op(like="x weight weight")
def layer_norm_backward(
    g: Tensor, passed: Tensor | None, x: Tensor, weight: Tensor, mean: Tensor, scale: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients to x (with what comes back along the residual), weight and bias."""
    dx, dw, db = kernels_for(x).layer_norm_backward(g, passed, x, weight, mean, scale)
    return dx, dw, db


def _batch_norm_like(x: Tensor, second: Tensor | None, *_: Any) -> tuple[Tensor, ...]:
    mean, total = _scores_like(x[:, 0]), _nothing(x) if second is None else torch.empty_like(x)
    return torch.empty_like(x), mean, torch.empty_like(mean), total


@op(like=_batch_norm_like)
def batch_norm(
    x: Tensor,
    second: Tensor | None,
    third: Tensor | None,
    weight: Tensor,
    bias: Tensor,
    p: Tensor | None,
    seed: Tensor | None,
    step: Tensor | None,
    layer: int,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """What comes out, the mean and variance of each run and channel, and the sum of the parts.

    Of a single part the sum is x, and not given again.
    """
    parts, state = [t for t in (x, second, third) if t is not None], _state(p, seed, step, layer)
    y, mean, var, total = kernels_for(x).batch_norm(parts, weight, bias, eps, state)
    return y, mean, var, _nothing(x) if second is None else total


@op(like="x weight weight")
def batch_norm_backward(
    g: Tensor,
    x: Tensor,
    weight: Tensor,
    bias: Tensor,
    mean: Tensor,
    var: Tensor,
    p: Tensor | None,
    seed: Tensor | None,
    step: Tensor | None,
    layer: int,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients to x, weight and bias."""
    state = _state(p, seed, step, layer)
    dx, dw, db = kernels_for(x).batch_norm_backward(g, x, weight, bias, mean, var, eps, state)
    return dx, dw, db


@op(like=lambda g, x: g.new_empty(g.shape[0], g.shape[2], x.shape[2]), shared="x")
def over_nodes(g: Tensor, x: Tensor) -> Tensor:
    """gᵀ x of g ``[B, N, out]`` and x ``[B, N, in]``, ``[B, out, in]``."""
    found: Tensor = kernels_for(x).over_nodes(g, x)
    return found


def _score_nodes_like(h: Tensor, bias: Tensor | None, *_: Any) -> tuple[Tensor, Tensor, Tensor]:
    a = _scores_like(h[..., 0])
    return _nothing(h) if bias is None else torch.empty_like(h), a, torch.empty_like(a)


@op(like=_score_nodes_like)
def score_nodes(
    h: Tensor, bias: Tensor | None, att_src: Tensor, att_dst: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Without a bias x is h, and not given again."""
    x, a_src, a_dst = kernels_for(h).score_nodes(h, bias, att_src, att_dst)
    return _nothing(h) if bias is None else x, a_src, a_dst


@op(like="g att_src att_src att_dst")
def score_nodes_backward(
    g: Tensor, g_src: Tensor, g_dst: Tensor, x: Tensor, att_src: Tensor, att_dst: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Gradients to h, bias, att_src and att_dst."""
    given = (g, g_src, g_dst, x, att_src, att_dst)
    dh, dbias, d_src, d_dst = kernels_for(x).score_nodes_backward(*given)
    return dh, dbias, d_src, d_dst
