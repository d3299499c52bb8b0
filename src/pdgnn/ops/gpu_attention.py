"""The Triton kernels of attention behind :mod:`pdgnn.ops.gpu`.

As in :mod:`pdgnn.ops.gpu_kernels`; a program works on HB heads of a node at a time, many where
nodes have few edges, so that its tile ``[E, HB, C]`` is full.
"""
# mypy: ignore-errors

from __future__ import annotations

import triton
import triton.language as tl

from pdgnn.ops.gpu_kernels import SIZES, span


@triton.jit
def feature_term(
    attr, w_edge, run, hd, heads, real, slots, there, a_run, F: tl.constexpr, ACC: tl.constexpr
):
    """⟨w_edge, f_e⟩ of the edges and heads of a tile, ``[E, HB]``."""
    term = tl.zeros([slots.shape[0], hd.shape[0]], dtype=ACC)
    for f in tl.static_range(F):
        value = tl.load(attr + run * a_run + slots * F + f, mask=there, other=0.0).to(ACC)
        weight = tl.load(w_edge + (run * heads + hd) * F + f, mask=real, other=0.0).to(ACC)
        term += value[:, None] * weight[None, :]
    return term


@triton.jit(do_not_specialize=SIZES)
def attend(
    x, a_src, a_dst, attr, w_edge, mask, out, lse, below, share, scratch, stats, ptr, col, parts,
    count, targets, sources, edges, channels, heads, blocks, a_run,
    SLOPE: tl.constexpr, F: tl.constexpr, MASK: tl.constexpr, KEEP: tl.constexpr,
    HUB: tl.constexpr, ACC: tl.constexpr, HB: tl.constexpr, C: tl.constexpr, E: tl.constexpr,
):  # fmt: skip
    """`below` and `share` are the sums of p x and p over the edges whose z is not positive."""
    run = tl.program_id(1).to(tl.int64)
    unit, row, block, first, last, whole, part = span(
        tl.program_id(0).to(tl.int64), blocks, ptr, parts, count, targets, HUB
    )
    hd, c = block * HB + tl.arange(0, HB), tl.arange(0, C)
    real = hd < heads
    inside = real[:, None] & (c < channels)[None, :]
    column = hd[:, None] * channels + c[None, :]  # [HB, C]
    width = heads * channels
    base = x + run * sources * width
    here = (run * targets + row) * heads + hd
    own = tl.load(a_dst + here, mask=hd < tl.where(row < targets, heads, 0), other=0.0).to(ACC)
    acc = tl.zeros([HB, C], dtype=ACC)
    low = tl.zeros([HB, C], dtype=ACC)
    top = tl.full([HB], -float("inf"), dtype=ACC)
    totals = tl.zeros([E, HB], dtype=ACC)  # added up at the end: sums across lanes are dear
    lowers = tl.zeros([E, HB], dtype=ACC)
    for start in range(first, last, E):
        e = start + tl.arange(0, E)
        there = e < last
        slots = e.to(tl.int64)
        node = tl.load(col + e, mask=there, other=0).to(tl.int64)
        both = there[:, None, None] & inside[None, :, :]
        values = tl.load(
            base + node[:, None, None] * width + column[None, :, :], mask=both, other=0.0
        )
        values = values.to(ACC)
        on = there[:, None] & real[None, :]
        at = (run * sources + node)[:, None] * heads + hd[None, :]
        z = tl.load(a_src + at, mask=on, other=0.0).to(ACC) + own[None, :]
        z += feature_term(attr, w_edge, run, hd, heads, real, slots, there, a_run, F, ACC)
        s = tl.where(there[:, None], tl.where(z > 0, z, SLOPE * z), -float("inf"))
        higher = tl.maximum(top, tl.max(s, axis=0))
        p = tl.exp(s - higher[None, :])
        shrink = tl.exp(top - higher)
        totals = totals * shrink[None, :] + p
        if KEEP:
            lowers = lowers * shrink[None, :] + tl.where(z > 0, 0.0, p)
        if MASK:
            at = mask + (run * edges + slots)[:, None] * heads + hd[None, :]
            p = p * tl.load(at, mask=on, other=0.0).to(ACC)
        acc = acc * shrink[:, None] + tl.sum(values * p[:, :, None], axis=0)
        if KEEP:
            p = tl.where(z > 0, 0.0, p)
            low = low * shrink[:, None] + tl.sum(values * p[:, :, None], axis=0)
        top = higher
    total, lower = tl.sum(totals, axis=0), tl.sum(lowers, axis=0)
    if part:
        at = (run * count + unit) * heads + hd
        place = scratch + at[:, None] * 2 * channels + c[None, :]
        tl.store(place, acc, mask=inside)
        tl.store(place + channels, low, mask=inside)
        tl.store(stats + at * 3, top, mask=real)
        tl.store(stats + at * 3 + 1, total, mask=real)
        tl.store(stats + at * 3 + 2, lower, mask=real)
    if whole:
        total = tl.where(total > 0, total, 1.0)  # a target without edges gets 0
        place = (run * targets + row) * width + column
        tl.store(out + place, (acc / total[:, None]).to(out.dtype.element_ty), mask=inside)
        tl.store(lse + here, top + tl.log(total), mask=real)
        if KEEP:
            low = low / total[:, None]
            tl.store(below + place, low.to(below.dtype.element_ty), mask=inside)
            tl.store(share + here, lower / total, mask=real)


@triton.jit(do_not_specialize=SIZES)
def attend_parts(
    scratch, stats, out, lse, below, share, ptr, parts, count, targets, channels, heads,
    KEEP: tl.constexpr, HUB: tl.constexpr, ACC: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    """The attention of hubs, from the sums of their parts, each relative to its highest score."""
    pid = tl.program_id(0).to(tl.int64)
    run = tl.program_id(1).to(tl.int64)
    unit, head = pid // heads, pid % heads
    c = tl.arange(0, C)
    inside = c < channels
    row = tl.load(parts + 2 * unit).to(tl.int64)
    mine = (row < targets) & (tl.load(parts + 2 * unit + 1) == 0)
    first = tl.load(ptr + row, mask=mine, other=0)
    last = tl.load(ptr + row + 1, mask=mine, other=0)
    acc = tl.zeros([C], dtype=ACC)
    low = tl.zeros([C], dtype=ACC)
    top = tl.full([], -float("inf"), dtype=ACC)
    total = tl.zeros([], dtype=ACC)
    lower = tl.zeros([], dtype=ACC)
    for k in range(0, tl.cdiv(last - first, HUB)):
        at = (run * count + unit + k) * heads + head
        its_top = tl.load(stats + 3 * at)
        higher = tl.maximum(top, its_top)
        shrink, its = tl.exp(top - higher), tl.exp(its_top - higher)
        total = total * shrink + its * tl.load(stats + 3 * at + 1)
        lower = lower * shrink + its * tl.load(stats + 3 * at + 2)
        place = scratch + at * 2 * channels + c
        acc = acc * shrink + its * tl.load(place, mask=inside, other=0.0)
        if KEEP:
            low = low * shrink + its * tl.load(place + channels, mask=inside, other=0.0)
        top = higher
    if mine:
        place = ((run * targets + row) * heads + head) * channels + c
        tl.store(out + place, (acc / total).to(out.dtype.element_ty), mask=inside)
        at = (run * targets + row) * heads + head
        tl.store(lse + at, top + tl.log(total))
        if KEEP:
            tl.store(below + place, (low / total).to(below.dtype.element_ty), mask=inside)
            tl.store(share + at, lower / total)


@triton.jit(do_not_specialize=SIZES)
def attend_inner(
    g, out, below, share, inner, da_dst, rows, channels,
    SLOPE: tl.constexpr, ACC: tl.constexpr, C: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """⟨g, out⟩, and ∂a_dst = Σ_e ∂z_e without the edges.

    Σ_e p_e (⟨g, x_e⟩ − inner) = 0, and LeakyReLU′ is 1 or SLOPE, so that the sum is SLOPE − 1 times
    that over the edges below zero: (SLOPE − 1) (⟨g, below⟩ − inner · share).
    """
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    c = tl.arange(0, C)
    at = row[:, None] * channels + c[None, :]
    both = (row < rows)[:, None] & (c < channels)[None, :]
    gi = tl.load(g + at, mask=both, other=0.0).to(ACC)
    product = tl.sum(gi * tl.load(out + at, mask=both, other=0.0).to(ACC), axis=1)
    lower = tl.sum(gi * tl.load(below + at, mask=both, other=0.0).to(ACC), axis=1)
    lower -= product * tl.load(share + row, mask=row < rows, other=0.0)
    tl.store(inner + row, product, mask=row < rows)
    tl.store(da_dst + row, ((SLOPE - 1) * lower).to(da_dst.dtype.element_ty), mask=row < rows)


@triton.jit(do_not_specialize=SIZES)
def attend_backward(
    g, x, a_src, a_dst, attr, w_edge, mask, lse, inner, dx, da_src, dw, dz, scratch, scratch_a, ptr,
    row_of, slot_of, parts, count, targets, sources, edges, channels, heads, blocks, a_run,
    SLOPE: tl.constexpr, F: tl.constexpr, PADDED: tl.constexpr, MASK: tl.constexpr,
    SCORES: tl.constexpr, HUB: tl.constexpr, ACC: tl.constexpr, HB: tl.constexpr, C: tl.constexpr,
    E: tl.constexpr,
):  # fmt: skip
    run = tl.program_id(1).to(tl.int64)
    unit, source, block, first, last, whole, part = span(
        tl.program_id(0).to(tl.int64), blocks, ptr, parts, count, sources, HUB
    )
    hd, c, f = block * HB + tl.arange(0, HB), tl.arange(0, C), tl.arange(0, PADDED)
    real = hd < heads
    inside = real[:, None] & (c < channels)[None, :]
    column = hd[:, None] * channels + c[None, :]  # [HB, C]
    width = heads * channels
    base = g + run * targets * width
    present = hd < tl.where(source < sources, heads, 0)
    here = (run * sources + source) * heads + hd
    own = tl.load(a_src + here, mask=present, other=0.0).to(ACC)
    at_x = (run * sources + source) * width + column
    its = present[:, None] & (c < channels)[None, :]
    xj = tl.load(x + at_x, mask=its, other=0.0).to(ACC)
    acc = tl.zeros([HB, C], dtype=ACC)
    totals = tl.zeros([E, HB], dtype=ACC)  # added up at the end: sums across lanes are dear
    to_w = tl.zeros([E, HB, PADDED], dtype=ACC)
    for start in range(first, last, E):
        e = start + tl.arange(0, E)
        there = e < last
        i = tl.load(row_of + e, mask=there, other=0).to(tl.int64)
        both = there[:, None, None] & inside[None, :, :]
        gi = tl.load(base + i[:, None, None] * width + column[None, :, :], mask=both, other=0.0)
        gi = gi.to(ACC)
        slots = tl.load(slot_of + e, mask=there, other=0).to(tl.int64)
        on = there[:, None] & real[None, :]
        per_target = (run * targets + i)[:, None] * heads + hd[None, :]
        z = tl.load(a_dst + per_target, mask=on, other=0.0).to(ACC) + own[None, :]
        z += feature_term(attr, w_edge, run, hd, heads, real, slots, there, a_run, F, ACC)
        s = tl.where(z > 0, z, SLOPE * z) - tl.load(lse + per_target, mask=on, other=0.0)
        p = tl.where(on, tl.exp(s), 0.0)
        kept = p
        dp = tl.sum(gi * xj[None, :, :], axis=2)
        if MASK:
            at = mask + (run * edges + slots)[:, None] * heads + hd[None, :]
            m = tl.load(at, mask=on, other=0.0).to(ACC)
            dp, kept = dp * m, p * m
        acc += tl.sum(gi * kept[:, :, None], axis=0)
        d = p * (dp - tl.load(inner + per_target, mask=on, other=0.0))
        d = tl.where(z > 0, d, SLOPE * d)
        totals += d
        if F > 0:
            those = there[:, None] & (f < F)[None, :]
            at = attr + run * a_run + slots[:, None] * F + f[None, :]
            value = tl.load(at, mask=those, other=0.0).to(ACC)
            to_w += d[:, :, None] * value[:, None, :]
        if SCORES:
            tl.store(dz + (run * edges + slots)[:, None] * heads + hd[None, :], d, mask=on)
    total = tl.sum(totals, axis=0)
    if whole:
        tl.store(dx + at_x, acc.to(dx.dtype.element_ty), mask=inside)
        tl.store(da_src + here, total.to(da_src.dtype.element_ty), mask=real)
    at = (run * count + unit) * heads + hd
    if part:
        tl.store(scratch + at[:, None] * channels + c[None, :], acc, mask=inside)
        tl.store(scratch_a + at, total, mask=real)
    if F > 0:  # every unit has a place of its own in this sum
        at = (run * (count + sources) + unit) * heads + hd
        those = real[:, None] & (f < F)[None, :]
        tl.store(dw + at[:, None] * F + f[None, :], tl.sum(to_w, axis=0), mask=those)


@triton.jit(do_not_specialize=SIZES)
def attend_dot(
    q, k, v, out, lse, scratch, stats, ptr, col, parts, count, targets, sources, channels, heads,
    blocks,
    SCALE: tl.constexpr, HUB: tl.constexpr, ACC: tl.constexpr, HB: tl.constexpr, C: tl.constexpr,
    E: tl.constexpr,
):  # fmt: skip
    run = tl.program_id(1).to(tl.int64)
    unit, row, block, first, last, whole, part = span(
        tl.program_id(0).to(tl.int64), blocks, ptr, parts, count, targets, HUB
    )
    hd, c = block * HB + tl.arange(0, HB), tl.arange(0, C)
    real = hd < heads
    inside = real[:, None] & (c < channels)[None, :]
    column = hd[:, None] * channels + c[None, :]  # [HB, C]
    width = heads * channels
    place = (run * targets + row) * width + column
    present = hd < tl.where(row < targets, heads, 0)
    its = present[:, None] & (c < channels)[None, :]
    qi = tl.load(q + place, mask=its, other=0.0).to(ACC) * SCALE
    acc = tl.zeros([HB, C], dtype=ACC)
    top = tl.full([HB], -float("inf"), dtype=ACC)
    totals = tl.zeros([E, HB], dtype=ACC)  # added up at the end: sums across lanes are dear
    for start in range(first, last, E):
        e = start + tl.arange(0, E)
        there = e < last
        node = tl.load(col + e, mask=there, other=0).to(tl.int64)
        at = (run * sources + node)[:, None, None] * width + column[None, :, :]
        both = there[:, None, None] & inside[None, :, :]
        keys = tl.load(k + at, mask=both, other=0.0).to(ACC)
        values = tl.load(v + at, mask=both, other=0.0).to(ACC)
        s = tl.sum(keys * qi[None, :, :], axis=2)
        s = tl.where(there[:, None], s, -float("inf"))
        higher = tl.maximum(top, tl.max(s, axis=0))
        p, shrink = tl.exp(s - higher[None, :]), tl.exp(top - higher)
        totals = totals * shrink[None, :] + p
        acc = acc * shrink[:, None] + tl.sum(values * p[:, :, None], axis=0)
        top = higher
    total = tl.sum(totals, axis=0)
    if part:
        at = (run * count + unit) * heads + hd
        tl.store(scratch + at[:, None] * 2 * channels + c[None, :], acc, mask=inside)
        tl.store(stats + at * 3, top, mask=real)
        tl.store(stats + at * 3 + 1, total, mask=real)
        tl.store(stats + at * 3 + 2, tl.zeros([HB], dtype=ACC), mask=real)
    if whole:
        total = tl.where(total > 0, total, 1.0)  # a target without edges gets 0
        tl.store(out + place, (acc / total[:, None]).to(out.dtype.element_ty), mask=inside)
        tl.store(lse + (run * targets + row) * heads + hd, top + tl.log(total), mask=real)


@triton.jit(do_not_specialize=SIZES)
def attend_dot_backward(
    g, q, k, v, lse, inner, dk, dv, ds, scratch_k, scratch_v, ptr, row_of, slot_of, parts, count,
    targets, sources, edges, channels, heads, blocks,
    SCALE: tl.constexpr, HUB: tl.constexpr, ACC: tl.constexpr, HB: tl.constexpr, C: tl.constexpr,
    E: tl.constexpr,
):  # fmt: skip
    run = tl.program_id(1).to(tl.int64)
    unit, source, block, first, last, whole, part = span(
        tl.program_id(0).to(tl.int64), blocks, ptr, parts, count, sources, HUB
    )
    hd, c = block * HB + tl.arange(0, HB), tl.arange(0, C)
    real = hd < heads
    inside = real[:, None] & (c < channels)[None, :]
    column = hd[:, None] * channels + c[None, :]  # [HB, C]
    width = heads * channels
    here = (run * sources + source) * width + column
    present = hd < tl.where(source < sources, heads, 0)
    its = present[:, None] & (c < channels)[None, :]
    kj = tl.load(k + here, mask=its, other=0.0).to(ACC)
    vj = tl.load(v + here, mask=its, other=0.0).to(ACC)
    to_k = tl.zeros([HB, C], dtype=ACC)
    to_v = tl.zeros([HB, C], dtype=ACC)
    for start in range(first, last, E):
        e = start + tl.arange(0, E)
        there = e < last
        i = tl.load(row_of + e, mask=there, other=0).to(tl.int64)
        slots = tl.load(slot_of + e, mask=there, other=0).to(tl.int64)
        on = there[:, None] & real[None, :]
        per_target = (run * targets + i)[:, None] * heads + hd[None, :]
        both = there[:, None, None] & inside[None, :, :]
        at = (run * targets + i)[:, None, None] * width + column[None, :, :]
        qi = tl.load(q + at, mask=both, other=0.0).to(ACC)
        gi = tl.load(g + at, mask=both, other=0.0).to(ACC)
        s = SCALE * tl.sum(qi * kj[None, :, :], axis=2)
        p = tl.exp(s - tl.load(lse + per_target, mask=on, other=0.0))
        p = tl.where(on, p, 0.0)
        dp = tl.sum(gi * vj[None, :, :], axis=2)
        d = SCALE * p * (dp - tl.load(inner + per_target, mask=on, other=0.0).to(ACC))
        to_v += tl.sum(gi * p[:, :, None], axis=0)
        to_k += tl.sum(qi * d[:, :, None], axis=0)
        tl.store(ds + (run * edges + slots)[:, None] * heads + hd[None, :], d, mask=on)
    if whole:
        tl.store(dk + here, to_k.to(dk.dtype.element_ty), mask=inside)
        tl.store(dv + here, to_v.to(dv.dtype.element_ty), mask=inside)
    if part:
        at = ((run * count + unit) * heads + hd)[:, None] * channels + c[None, :]
        tl.store(scratch_k + at, to_k, mask=inside)
        tl.store(scratch_v + at, to_v, mask=inside)
