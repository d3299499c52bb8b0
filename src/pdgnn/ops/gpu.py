"""The kernels in Triton: the same functions as :mod:`pdgnn.ops.reference`, on a GPU.

One program sums over the edges of one node and one run, a block of edges at a time. Runs
are the slowest dimension of the grid, so that the x of the run at work stays in the L2 cache.
Sums are taken in float32 (float64 for float64) and in a fixed order: the same input, the same bits.
Nothing of size E × H × C is written; the backward pass recomputes the softmax from its log-sum.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import torch
import triton.language as tl
from torch import Tensor

from pdgnn.ops import edges as layout
from pdgnn.ops import gpu_attention as attention
from pdgnn.ops import gpu_kernels as kernels
from pdgnn.ops.gpu_dense import acc, cdiv, launch, power_of_2, wide_type
from pdgnn.ops.reference import AttentionInputs, Gradients, Structure

KEEPS_NEGATIVE_PART = True
"""Attention keeps its sums over edges of negative scores: gradients then need no E × H."""
TILE = 2048
"""Entries of x that a program of attention holds at a time, in the registers of its single warp.
Where several warps work on a tile its sums go through shared memory: 2 to 5 times slower."""
ROW = 1024
"""Bytes of a row that such a program reads: measured to be better than more or less."""
WIDE = 512
"""Channels of a tile where heads need not be kept apart."""
TOGETHER = 4096
"""Bytes of x that a program of a weighted sum reads at a time: of several runs where rows are
narrow, so that it is not the indices that it waits for."""
L2 = 2**25
"""Bytes that an L2 cache holds besides what else goes through it."""


def _blocks(channels: int, edges: int, rows: int) -> tuple[int, int]:
    """Channels and edges of a tile; few edges where nodes have few."""
    c = power_of_2(min(channels, WIDE))
    return c, max(min(TILE // (2 * c), _edges(edges, rows)), 1)


def _edges(edges: int, rows: int) -> int:
    """Edges of a tile at the most, by how many a row has."""
    return 32 if edges >= 24 * rows else 8


def _heads_tile(x: Tensor, edges: int, rows: int, tiles: int = 1) -> tuple[int, int, int]:
    """Heads, channels and edges of one of `tiles` tiles that a program holds at a time."""
    heads, channels = x.shape[2:]
    c = power_of_2(channels)
    hb = min(power_of_2(heads), max(1, ROW // (x.element_size() * c)))
    return hb, c, max(1, min(_edges(edges, rows), TILE // (tiles * c * hb)))


def _stages(x: Tensor) -> int:
    """Tiles on their way at a time: several only help where rows come from beyond the L2 cache."""
    beyond = prod(x.shape[1:]) * x.element_size() > L2
    return 3 if x.element_size() == 2 and beyond else 1


def _index(x: Tensor, col: Tensor, count: int) -> Any:
    """The type of places in a run of x, or of `count` numbers for an edge: 32 bits if they hold."""
    most = max(prod(x.shape[1:]), col.numel() * count)
    return tl.int32 if most < 2**31 else tl.int64


def _scratch(x: Tensor, chunks: Tensor, *shape: int) -> Tensor:
    """Room for the sums of the chunks of hubs, ``[B, chunks, ...]``."""
    return x.new_empty(x.shape[0], len(chunks), *shape, dtype=wide_type(x))


def _add_hub_chunks(scratch: Tensor, out: Tensor, ptr: Tensor, chunks: Tensor) -> None:
    """The rows of hubs in `out` ``[B, rows, H, C]``, from the sums of their chunks."""
    runs, rows, heads, channels = out.shape
    c = min(power_of_2(channels), WIDE)
    launch(
        kernels.add_hub_chunks, (len(chunks) * heads, runs, cdiv(channels, c)),
        scratch, out, ptr, chunks, len(chunks), rows, channels, heads,
        HUB=layout.HUB, ACC=acc(out), C=c, num_warps=1,
    )  # fmt: skip


def _weighted_sum(
    x: Tensor, weight: Tensor, ptr: Tensor, other: Tensor, slot: Tensor | None, chunks: Tensor
) -> Tensor:
    """Σ_e w_e x_other over the edges of each row of the layout (ptr, other, slot)."""
    x = x.contiguous()
    runs, sources, heads, channels = x.shape
    rows = ptr.numel() - 1
    out = x.new_empty(runs, rows, heads, channels)
    if weight.shape[2] == 1:  # one weight for all heads: they are one wide head
        heads, channels = 1, heads * channels
    c, e = _blocks(channels, other.numel(), rows)
    r = min(power_of_2(runs), max(1, TOGETHER // (c * e * x.element_size()))) if c < WIDE else 1
    scratch = _scratch(x, chunks, heads, channels)
    shared = weight.shape[0] == 1
    launch(
        kernels.spmm, ((len(chunks) + rows) * heads, cdiv(runs, r), cdiv(channels, c)),
        x, weight, out, scratch, ptr, other, other if slot is None else slot, chunks, len(chunks),
        rows, sources, channels, heads, runs, 0 if shared else weight.stride(0), weight.stride(1),
        0 if weight.shape[2] == 1 else weight.stride(2),
        SLOTS=slot is not None, HUB=layout.HUB, ACC=acc(x),
        INDEX=_index(x, other, weight.stride(1)), R=r, C=c, E=e, num_warps=1,
    )  # fmt: skip
    _add_hub_chunks(scratch, out.view(runs, rows, heads, channels), ptr, chunks)
    return out


def spmm(x: Tensor, weight: Tensor, structure: Structure) -> Tensor:
    """out_i = Σ_e w_e x_j; see :func:`pdgnn.ops.reference.spmm`."""
    return _weighted_sum(x, weight, structure[0], structure[1], None, structure[6])


def spmm_transposed(g: Tensor, weight: Tensor, structure: Structure) -> Tensor:
    """out_j = Σ_e w_e g_i; see :func:`pdgnn.ops.reference.spmm_transposed`."""
    _, _, _, ptr, other, slot, _, chunks = structure
    return _weighted_sum(g, weight, ptr, other, slot, chunks)


def sddmm(g: Tensor, x: Tensor, structure: Structure) -> Tensor:
    """⟨g_i, x_j⟩ of each edge and head, ``[B, E, H]``."""
    g, x = g.contiguous(), x.contiguous()
    _, col, row, *_ = structure
    runs, sources, heads, channels = x.shape
    c = power_of_2(min(channels, WIDE // 2))  # two tiles at a time
    e = max(1, min(32, TILE // c))
    out = x.new_empty(runs, col.numel(), heads, dtype=wide_type(x))
    launch(
        kernels.sddmm, (cdiv(col.numel(), e), runs, heads),
        g, x, out, row, col, col.numel(), g.shape[1], sources, channels, heads,
        ACC=acc(x), C=c, E=e, num_warps=1,
    )  # fmt: skip
    return out


def _features(x: Tensor, attr: Tensor | None, w_edge: Tensor | None) -> tuple[Any, ...]:
    """Pointers to the features and their weights, the stride from run to run, and their number."""
    if attr is None or w_edge is None:
        return x, x, 0, 0
    attr, w_edge = attr.contiguous(), w_edge.contiguous()
    return attr, w_edge, 0 if attr.shape[0] == 1 else attr.stride(0), attr.shape[2]


def attend(inputs: AttentionInputs, keep: bool = False) -> tuple[Tensor, ...]:
    """The attention layer; see :func:`pdgnn.ops.reference.attend`."""
    x, a_src, a_dst = (t.contiguous() for t in inputs[:3])
    edge_attr, w_edge, mask, structure, slope = inputs[3:]
    attr, weight, a_run, count = _features(x, edge_attr, w_edge)
    runs, sources, heads, channels = x.shape
    rowptr, col, chunks = structure[0], structure[1], structure[6]
    targets = rowptr.numel() - 1
    hb, c, e = _heads_tile(x, col.numel(), targets)
    blocks = cdiv(heads, hb)
    out, lse = _messages(x, targets)
    neg_out, neg_weight = (torch.empty_like(out), torch.empty_like(lse)) if keep else (out, lse)
    scratch, stats = _scratch(x, chunks, heads, 2, channels), _scratch(x, chunks, heads, 3)
    launch(
        attention.attend, ((len(chunks) + targets) * blocks, runs),
        x, a_src, a_dst, attr, weight, x if mask is None else mask.contiguous(), out, lse, neg_out,
        neg_weight, scratch, stats, rowptr, col, chunks, len(chunks), targets, sources, col.numel(),
        channels, heads, blocks, a_run,
        SLOPE=slope, F=count, MASK=mask is not None, KEEP=keep, HUB=layout.HUB, ACC=acc(x),
        INDEX=_index(x, col, max(heads, count)), HB=hb, C=c, E=e, STAGES=_stages(x),
        num_warps=1,
    )  # fmt: skip
    results = (out, lse, neg_out, neg_weight)
    _attend_hub_chunks((scratch, stats), results, rowptr, chunks, keep)
    return results if keep else (out, lse)


def _messages(x: Tensor, targets: int) -> tuple[Tensor, Tensor]:
    """Messages and log-sums, still to be written."""
    runs, _, heads, channels = x.shape
    out = x.new_empty(runs, targets, heads, channels)
    return out, x.new_empty(runs, targets, heads, dtype=wide_type(x))


def _attend_hub_chunks(
    sums: tuple[Tensor, Tensor],
    results: tuple[Tensor, ...],
    ptr: Tensor,
    chunks: Tensor,
    keep: bool,
) -> None:
    """The rows of hubs in the results of attention, from the sums of their chunks."""
    runs, targets, heads, channels = results[0].shape
    launch(
        attention.attend_hub_chunks, (len(chunks) * heads, runs),
        *sums, *results, ptr, chunks, len(chunks), targets, channels, heads,
        KEEP=keep, HUB=layout.HUB, ACC=acc(results[0]), C=power_of_2(channels), num_warps=1,
    )  # fmt: skip


def attend_gradients(
    g: Tensor, inputs: AttentionInputs, kept: Sequence[Tensor], need_dz: bool
) -> Gradients:
    """All gradients; see :func:`pdgnn.ops.reference.attend_gradients`."""
    g, x, a_src, a_dst, lse = (t.contiguous() for t in (g, *inputs[:3], kept[1]))
    edge_attr, w_edge, mask, structure, slope = inputs[3:]
    attr, weight, a_run, count = _features(x, edge_attr, w_edge)
    runs, sources, heads, channels = x.shape
    t_rowptr, t_row, t_slot, chunks = (structure[i] for i in (3, 4, 5, 7))
    edges = t_row.numel()
    hb, c, e = _heads_tile(x, edges, sources)
    blocks = cdiv(heads, hb)
    inner, da_dst = _attend_inner(g, kept, a_dst, slope)
    dx, da_src = torch.empty_like(x), torch.empty_like(a_src)
    units = len(chunks) + sources
    dw = x.new_empty(runs, units, heads, count, dtype=wide_type(x))
    need_dz |= count > 2  # the kernel sums up two features
    dz = x.new_empty(runs, edges, heads, dtype=wide_type(x)) if need_dz else None
    scratch, scratch_a = _scratch(x, chunks, heads, channels), _scratch(x, chunks, 1, heads)
    launch(
        attention.attend_backward, (units * blocks, runs),
        g, x, a_src, a_dst, attr, weight, x if mask is None else mask.contiguous(), lse, inner, dx,
        da_src, dw, lse if dz is None else dz, scratch, scratch_a, t_rowptr, t_row, t_slot, chunks,
        len(chunks), g.shape[1], sources, edges, channels, heads, blocks, a_run,
        SLOPE=slope, F=count, MASK=mask is not None, SCORES=need_dz, HUB=layout.HUB, ACC=acc(x),
        INDEX=_index(g, t_row, max(heads, count)), HB=hb, C=c, E=e, STAGES=_stages(g),
        num_warps=1,
    )  # fmt: skip
    _add_hub_chunks(scratch, dx, t_rowptr, chunks)
    _add_hub_chunks(scratch_a, da_src.view(runs, sources, 1, heads), t_rowptr, chunks)
    if dz is not None and edge_attr is not None and count > 2:
        return dx, da_src, da_dst, dz.mT @ edge_attr.to(dz.dtype), dz
    return dx, da_src, da_dst, dw.sum(dim=1) if count else None, dz


def _attend_inner(
    g: Tensor, kept: Sequence[Tensor], a_dst: Tensor, slope: float
) -> tuple[Tensor, Tensor]:
    """⟨g_i, out_i⟩ and the gradient to a_dst, ``[B, targets, H]`` each."""
    out, _, neg_out, neg_weight = (t.contiguous() for t in kept)
    runs, targets, heads, channels = g.shape
    inner = g.new_empty(runs, targets, heads, dtype=wide_type(g))
    da_dst = torch.empty_like(a_dst)
    c = power_of_2(channels)
    rows, each = inner.numel(), max(1, 2 * TILE // c)
    launch(
        attention.attend_inner, (cdiv(rows, each),),
        g, out, neg_out, neg_weight, inner, da_dst, rows, channels,
        SLOPE=slope, ACC=acc(g), C=c, ROWS=each, num_warps=4,
    )  # fmt: skip
    return inner, da_dst


def attend_dot(
    q: Tensor, k: Tensor, v: Tensor, structure: Structure, scale: float
) -> tuple[Tensor, Tensor]:
    """Dot-product attention; see :func:`pdgnn.ops.reference.attend_dot`."""
    q, k, v = q.contiguous(), k.contiguous(), v.contiguous()
    runs, sources, heads, channels = k.shape
    targets, chunks = q.shape[1], structure[6]
    hb, c, e = _heads_tile(v, structure[1].numel(), targets, 2)
    blocks = cdiv(heads, hb)
    out, lse = _messages(v, targets)
    scratch, stats = _scratch(v, chunks, heads, 2, channels), _scratch(v, chunks, heads, 3)
    launch(
        attention.attend_dot, ((len(chunks) + targets) * blocks, runs),
        q, k, v, out, lse, scratch, stats, *structure[:2], chunks, len(chunks), targets, sources,
        channels, heads, blocks,
        SCALE=scale, HUB=layout.HUB, ACC=acc(q), INDEX=_index(k, structure[1], heads), HB=hb, C=c,
        E=e, STAGES=_stages(k), num_warps=1,
    )  # fmt: skip
    _attend_hub_chunks((scratch, stats), (out, lse, out, lse), structure[0], chunks, False)
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
    edges, chunks = structure[4].numel(), structure[7]
    hb, c, e = _heads_tile(v, edges, sources)
    blocks = cdiv(heads, hb)
    dk, dv = torch.empty_like(k), torch.empty_like(v)
    ds = q.new_empty(runs, edges, heads, dtype=wide_type(q))
    scratch_k, scratch_v = (_scratch(k, chunks, heads, channels) for _ in range(2))
    launch(
        attention.attend_dot_backward, ((len(chunks) + sources) * blocks, runs),
        g, q, k, v, lse.contiguous(), inner.contiguous(), dk, dv, ds, scratch_k, scratch_v,
        *structure[3:6], chunks, len(chunks), q.shape[1], sources, edges, channels, heads, blocks,
        SCALE=scale, HUB=layout.HUB, ACC=acc(q), INDEX=_index(q, structure[1], heads), HB=hb, C=c,
        E=e, STAGES=_stages(q), num_warps=1,
    )  # fmt: skip
    _add_hub_chunks(scratch_k, dk, structure[3], chunks)
    _add_hub_chunks(scratch_v, dv, structure[3], chunks)
    return dk, dv, ds
