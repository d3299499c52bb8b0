"""The Triton kernels behind :mod:`pdgnn.ops.gpu` that sum over edges.

One program sums over the edges of one node and one run, a tile of edges at a time. The second
dimension of a grid is the run. ACC is the type of the sums, C and E the channels and edges of a
tile; a run of tensors that all runs share has stride 0.

A node with more than HUB edges is dealt out: its chunks are done first, by programs of their own
that leave their sums in a scratch ``[runs, chunks, heads, ...]``, which a second kernel adds up in
the order of the edges.
"""
# mypy: ignore-errors

from __future__ import annotations

import triton
import triton.language as tl

SIZES = ("count", "rows", "targets", "sources", "edges", "blocks", "runs", "a_run", "w_run")
"""Arguments whose values no compilation depends on."""


@triton.jit
def span(pid, heads, ptr, chunks, count, rows, HUB: tl.constexpr):
    """The unit, node, head and edges of a program, and whether they are a whole node or a chunk."""
    unit, head = pid // heads, pid % heads
    dealt = unit < count
    node = tl.where(
        dealt, tl.load(chunks + 2 * unit, mask=dealt, other=0).to(tl.int64), unit - count
    )
    number = tl.load(chunks + 2 * unit + 1, mask=dealt, other=0)
    real = node < rows
    first = tl.load(ptr + node, mask=real, other=0)
    last = tl.load(ptr + node + 1, mask=real, other=0)
    hub = last - first > HUB
    begin = first + number * HUB
    end = tl.where(dealt, tl.minimum(begin + HUB, last), tl.where(hub, first, last))
    return unit, node, head, begin, end, (unit >= count) & (last - first <= HUB), dealt & real


@triton.jit
def indices(of, e, last):
    """What the edges e lead to or from, or their slots; 0 from `last` on."""
    return tl.load(of + e, mask=e < last, other=0)


@triton.jit(do_not_specialize=SIZES)
def add_hub_chunks(
    scratch, out, ptr, chunks, count, rows, channels, heads,
    HUB: tl.constexpr, ACC: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    """The sums of hubs, from those of their chunks."""
    pid = tl.program_id(0).to(tl.int64)
    run = tl.program_id(1).to(tl.int64)
    unit, head = pid // heads, pid % heads
    c = tl.program_id(2) * C + tl.arange(0, C)
    node = tl.load(chunks + 2 * unit).to(tl.int64)
    mine = (node < rows) & (tl.load(chunks + 2 * unit + 1) == 0)
    first = tl.load(ptr + node, mask=mine, other=0)
    last = tl.load(ptr + node + 1, mask=mine, other=0)
    acc = tl.zeros([C], dtype=ACC)
    for k in range(0, tl.cdiv(last - first, HUB)):
        at = scratch + ((run * count + unit + k) * heads + head) * channels + c
        acc += tl.load(at, mask=c < channels, other=0.0)
    if mine:
        place = out + ((run * rows + node) * heads + head) * channels + c
        tl.store(place, acc.to(out.dtype.element_ty), mask=c < channels)


@triton.jit(do_not_specialize=SIZES)
def spmm(
    x, w, out, scratch, ptr, other, slot, chunks, count, rows, sources, channels, heads, runs,
    w_run, w_edge, w_head,
    SLOTS: tl.constexpr, HUB: tl.constexpr, ACC: tl.constexpr, INDEX: tl.constexpr, R: tl.constexpr,
    C: tl.constexpr, E: tl.constexpr,
):  # fmt: skip
    """A program takes R runs, which have the same edges."""
    run = tl.program_id(1).to(tl.int64) * R + tl.arange(0, R)
    c = tl.program_id(2) * C + tl.arange(0, C)
    inside = (run < runs)[:, None] & (c < channels)[None, :]
    unit, row, head, first, last, whole, chunk = span(
        tl.program_id(0).to(tl.int64), heads, ptr, chunks, count, rows, HUB
    )
    width = heads * channels
    base = x + run[:, None, None] * sources * width + head * channels
    w += head * w_head
    acc = tl.zeros([R, C], dtype=ACC)
    e = first + tl.arange(0, E)
    node = indices(other, e, last)
    where = indices(slot, e, last) if SLOTS else e
    for start in range(first, last, E):
        e = start + tl.arange(0, E)
        there = e < last
        places = run[:, None] * w_run + (where.to(INDEX) * w_edge)[None, :]
        weight = tl.load(w + places, mask=(run < runs)[:, None] & there[None, :], other=0.0)
        at = node.to(INDEX)[None, :, None] * width + c[None, None, :]
        values = tl.load(base + at, mask=there[None, :, None] & inside[:, None, :], other=0.0)
        node = indices(other, e + E, last)
        where = indices(slot, e + E, last) if SLOTS else e + E
        acc += tl.sum(values.to(ACC) * weight.to(ACC)[:, :, None], axis=1)
    column = head * channels + c[None, :]
    if whole:
        place = out + (run * rows + row)[:, None] * width + column
        tl.store(place, acc.to(out.dtype.element_ty), mask=inside)
    if chunk:
        tl.store(scratch + (run * count + unit)[:, None] * width + column, acc, mask=inside)


@triton.jit(do_not_specialize=SIZES)
def sddmm(
    g, x, out, row, col, edges, targets, sources, channels, heads,
    ACC: tl.constexpr, C: tl.constexpr, E: tl.constexpr,
):  # fmt: skip
    run = tl.program_id(1).to(tl.int64)
    head = tl.program_id(2)
    e = tl.program_id(0).to(tl.int64) * E + tl.arange(0, E)
    there = e < edges
    i = tl.load(row + e, mask=there, other=0).to(tl.int64)
    j = tl.load(col + e, mask=there, other=0).to(tl.int64)
    width = heads * channels
    acc = tl.zeros([E], dtype=ACC)
    for start in range(0, channels, C):
        c = start + tl.arange(0, C)
        both = there[:, None] & (c < channels)[None, :]
        at = head * channels + c[None, :]
        gi = tl.load(g + (run * targets + i)[:, None] * width + at, mask=both, other=0.0)
        xj = tl.load(x + (run * sources + j)[:, None] * width + at, mask=both, other=0.0)
        acc += tl.sum(gi.to(ACC) * xj.to(ACC), axis=1)
    place = out + (run * edges + e) * heads + head
    tl.store(place, acc.to(out.dtype.element_ty), mask=there)
