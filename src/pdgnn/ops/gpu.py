"""The kernels in Triton: the same functions as :mod:`pdgnn.ops.reference`, on a GPU.

One program sums over the edges of one node, one head and one run, a block of edges at a time. Runs
are the slowest dimension of the grid, so that the x of the run at work stays in the L2 cache.
Sums are taken in float32 (float64 for float64) and in a fixed order: the same input, the same bits.
Nothing of size E × H × C is written; the backward pass recomputes the softmax from its log-sum.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from pdgnn.ops import gpu_kernels as kernels
from pdgnn.ops.reference import Noise, Structure

TILE = 2048
"""Entries of x that a program holds at a time, in the registers of its single warp. Where several
warps share a tile its sums go through shared memory: measured to be 2 to 5 times slower."""
WIDE = 256
"""Channels of a tile where they need not be kept together."""


def _blocks(channels: int, edges: int, rows: int) -> tuple[int, int]:
    """Channels and edges of a tile; few edges where nodes have few."""
    c = max(triton.next_power_of_2(channels), 1)
    e = 32 if edges >= 24 * rows else 8
    return c, max(min(TILE // c, e), 1)


def _scores_dtype(x: Tensor) -> torch.dtype:
    return torch.promote_types(x.dtype, torch.float32)


_ACC = {torch.float64: tl.float64}


def _launch(kernel: Any, grid: tuple[int, ...], *args: Any, **options: Any) -> None:
    if min(grid) > 0:
        kernel[grid](*args, **options)


def _weighted_sum(
    x: Tensor, weight: Tensor, ptr: Tensor, other: Tensor, slot: Tensor | None
) -> Tensor:
    """Σ_e w_e x_other over the edges of each row of the layout (ptr, other, slot)."""
    x = x.contiguous()
    runs, sources, heads, channels = x.shape
    shape = (runs, ptr.numel() - 1, heads, channels)
    if weight.shape[2] == 1:  # one weight for all heads: they are one wide head
        heads, channels = 1, heads * channels
    rows = ptr.numel() - 1
    c, e = _blocks(min(channels, WIDE), other.numel(), rows)
    out = x.new_empty(shape)
    shared = weight.shape[0] == 1
    _launch(
        kernels.spmm, (rows * heads, runs, triton.cdiv(channels, c)),
        x, weight, out, ptr, other, other if slot is None else slot, rows, sources, channels,
        heads, 0 if shared else weight.stride(0), weight.stride(1),
        0 if weight.shape[2] == 1 else weight.stride(2),
        SLOTS=slot is not None, ACC=_ACC.get(x.dtype, tl.float32), C=c, E=e, num_warps=1,
    )  # fmt: skip
    return out


def spmm(x: Tensor, weight: Tensor, structure: Structure) -> Tensor:
    """out_i = Σ_e w_e x_j; see :func:`pdgnn.ops.reference.spmm`."""
    return _weighted_sum(x, weight, structure[0], structure[1], None)


def spmm_transposed(g: Tensor, weight: Tensor, structure: Structure) -> Tensor:
    """out_j = Σ_e w_e g_i; see :func:`pdgnn.ops.reference.spmm_transposed`."""
    return _weighted_sum(g, weight, *structure[3:6])


def sddmm(g: Tensor, x: Tensor, structure: Structure) -> Tensor:
    """⟨g_i, x_j⟩ of each edge and head, ``[B, E, H]``."""
    g, x = g.contiguous(), x.contiguous()
    _, col, row, *_ = structure
    runs, sources, heads, channels = x.shape
    c, e = _blocks(min(channels, WIDE), 32, 1)
    out = x.new_empty(runs, col.numel(), heads, dtype=_scores_dtype(x))
    _launch(
        kernels.sddmm, (triton.cdiv(col.numel(), e), runs, heads),
        g, x, out, row, col, col.numel(), g.shape[1], sources, channels, heads,
        ACC=_ACC.get(x.dtype, tl.float32), C=c, E=e, num_warps=1,
    )  # fmt: skip
    return out


def edge_sum(values: Tensor, structure: Structure) -> Tensor:
    """Σ_e v_e over the edges into each target, ``[B, targets, H]``."""
    runs, _, heads = values.shape
    rows = structure[0].numel() - 1
    out = values.new_empty(runs, rows, heads)
    _launch(
        kernels.edge_sum, (rows * heads, runs),
        values, out, structure[0], rows, heads, *values.stride(),
        ACC=_ACC.get(values.dtype, tl.float32), E=32, num_warps=1,
    )  # fmt: skip
    return out


def feature_grad(dz: Tensor, edge_attr: Tensor) -> Tensor:
    """Σ_e ∂z_e f_e of each head, ``[B, H, F]``; partial sums in a fixed order, then theirs."""
    runs, edges, heads = dz.shape
    attr, _, a_run, count = _features(dz, edge_attr, edge_attr)
    block = 512
    parts = max(1, min(64, triton.cdiv(edges, block)))
    out = dz.new_zeros(parts, runs, heads, count)
    _launch(
        kernels.feature_sum, (parts, runs, heads),
        dz, attr, out, edges, *dz.stride(), a_run, parts, heads,
        F=count, PADDED=triton.next_power_of_2(count), ACC=_ACC.get(dz.dtype, tl.float32), E=block,
    )  # fmt: skip
    return out.sum(dim=0)


def _features(x: Tensor, attr: Tensor | None, w_edge: Tensor | None) -> tuple[Any, ...]:
    """Pointers to the features and their weights, the stride from run to run, and their number."""
    if attr is None or w_edge is None:
        return x, x, 0, 0
    attr, w_edge = attr.contiguous(), w_edge.contiguous()
    return attr, w_edge, 0 if attr.shape[0] == 1 else attr.stride(0), attr.shape[2]


def attend(
    x: Tensor,
    a_src: Tensor,
    a_dst: Tensor,
    edge_attr: Tensor | None,
    w_edge: Tensor | None,
    mask: Tensor | None,
    structure: Structure,
    slope: float,
) -> tuple[Tensor, Tensor]:
    """The attention layer; see :func:`pdgnn.ops.reference.attend`."""
    x, a_src, a_dst = x.contiguous(), a_src.contiguous(), a_dst.contiguous()
    attr, weight, a_run, count = _features(x, edge_attr, w_edge)
    runs, sources, heads, channels = x.shape
    rowptr, col = structure[:2]
    targets = rowptr.numel() - 1
    c, e = _blocks(channels, col.numel(), targets)
    out = x.new_empty(runs, targets, heads, channels)
    lse = x.new_empty(runs, targets, heads, dtype=_scores_dtype(x))
    _launch(
        kernels.attend, (targets * heads, runs),
        x, a_src, a_dst, attr, weight, x if mask is None else mask.contiguous(), out, lse, rowptr,
        col, targets, sources, col.numel(), channels, heads, a_run,
        SLOPE=slope, F=count, MASK=mask is not None, ACC=_ACC.get(x.dtype, tl.float32), C=c, E=e,
        num_warps=1,
    )  # fmt: skip
    return out, lse


def attend_backward(
    g: Tensor,
    x: Tensor,
    a_src: Tensor,
    a_dst: Tensor,
    edge_attr: Tensor | None,
    w_edge: Tensor | None,
    mask: Tensor | None,
    lse: Tensor,
    inner: Tensor,
    structure: Structure,
    slope: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients to x, a_src and the scores; see :func:`pdgnn.ops.reference.attend_backward`."""
    g, x, a_src, a_dst = g.contiguous(), x.contiguous(), a_src.contiguous(), a_dst.contiguous()
    attr, weight, a_run, count = _features(x, edge_attr, w_edge)
    runs, sources, heads, channels = x.shape
    t_rowptr, t_row, t_slot = structure[3:6]
    edges = t_row.numel()
    c, e = _blocks(channels, edges, sources)
    dx, da_src = torch.empty_like(x), torch.empty_like(a_src)
    dz = x.new_empty(runs, heads, edges, dtype=_scores_dtype(x))
    _launch(
        kernels.attend_backward, (sources * heads, runs),
        g, x, a_src, a_dst, attr, weight, x if mask is None else mask.contiguous(),
        lse.contiguous(), inner.contiguous(), dx, da_src, dz, t_rowptr, t_row, t_slot,
        g.shape[1], sources, edges, channels, heads, a_run,
        SLOPE=slope, F=count, MASK=mask is not None, ACC=_ACC.get(x.dtype, tl.float32), C=c, E=e,
        num_warps=1,
    )  # fmt: skip
    return dx, da_src, dz.transpose(1, 2)


def attend_dot(
    q: Tensor, k: Tensor, v: Tensor, structure: Structure, scale: float
) -> tuple[Tensor, Tensor]:
    """Dot-product attention; see :func:`pdgnn.ops.reference.attend_dot`."""
    q, k, v = q.contiguous(), k.contiguous(), v.contiguous()
    runs, sources, heads, channels = k.shape
    targets = q.shape[1]
    c, e = _blocks(channels, structure[1].numel(), targets)
    out = torch.empty_like(q)
    lse = q.new_empty(runs, targets, heads, dtype=_scores_dtype(q))
    _launch(
        kernels.attend_dot, (targets * heads, runs),
        q, k, v, out, lse, *structure[:2], targets, sources, channels, heads,
        SCALE=scale, ACC=_ACC.get(q.dtype, tl.float32), C=c, E=e, num_warps=1,
    )  # fmt: skip
    return out, lse


def attend_dot_backward(
    g: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    lse: Tensor,
    inner: Tensor,
    structure: Structure,
    scale: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients to k, v and ⟨q_i, k_j⟩; see :func:`pdgnn.ops.reference.attend_dot_backward`."""
    g, q, k, v = g.contiguous(), q.contiguous(), k.contiguous(), v.contiguous()
    runs, sources, heads, channels = k.shape
    edges = structure[4].numel()
    c, e = _blocks(channels, edges, sources)
    dk, dv = torch.empty_like(k), torch.empty_like(v)
    ds = q.new_empty(runs, heads, edges, dtype=_scores_dtype(q))
    _launch(
        kernels.attend_dot_backward, (sources * heads, runs),
        g, q, k, v, lse.contiguous(), inner.contiguous(), dk, dv, ds, *structure[3:6],
        q.shape[1], sources, edges, channels, heads,
        SCALE=scale, ACC=_ACC.get(q.dtype, tl.float32), C=c, E=e, num_warps=1,
    )  # fmt: skip
    return dk, dv, ds.transpose(1, 2)


def dropout(x: Tensor, p: Tensor, seed: Tensor, step: Tensor, layer: int) -> Tensor:
    """Dropout by run, step, layer and element; see :func:`pdgnn.ops.reference.dropout`."""
    x = x.contiguous()
    runs = x.shape[0]
    size, block = x[0].numel(), 1024
    out = torch.empty_like(x)
    _launch(
        kernels.dropout, (triton.cdiv(size, block), runs),
        x, out, p.contiguous(), seed.contiguous(), step.contiguous(), 0 if step.numel() == 1 else 1,
        layer, size, BLOCK=block, num_warps=4,
    )  # fmt: skip
    return out


def activate(h: Tensor, bias: Tensor, residual: Tensor | None, noise: Noise | None) -> Tensor:
    """GELU(dropout(h + bias)), or residual + dropout(h + bias), in one pass."""
    return _activated(h, bias, residual, noise, gelu=residual is None)


def activate_backward(
    g: Tensor, h: Tensor, bias: Tensor, gelu: bool, noise: Noise | None
) -> Tensor:
    """The gradient to h; see :func:`pdgnn.ops.reference.activate_backward`."""
    if gelu:
        return _activated(h, bias, g, noise, gelu=True, backward=True)
    return g if noise is None else dropout(g, *noise)


def _activated(
    h: Tensor,
    bias: Tensor,
    other: Tensor | None,
    noise: Noise | None,
    *,
    gelu: bool,
    backward: bool = False,
) -> Tensor:
    h, bias = h.contiguous(), bias.contiguous()
    other = h if other is None else other.contiguous()
    rate, seed, step, layer = (h, h, h, 0) if noise is None else noise
    runs, width = bias.shape
    size, block = h[0].numel(), 1024
    out = torch.empty_like(h)
    _launch(
        kernels.activate, (triton.cdiv(size, block), runs),
        h, bias, other, out, rate.contiguous(), seed.contiguous(), step.contiguous(),
        0 if step.numel() == 1 else 1, layer, size, width,
        NOISE=noise is not None, GELU=gelu, BACKWARD=backward, ACC=_ACC.get(h.dtype, tl.float32),
        BLOCK=block, num_warps=4,
    )  # fmt: skip
    return out
