"""The Triton kernels behind :mod:`pdgnn.ops.gpu`.

One program sums over the edges of one node, one head and one run, a tile of edges at a time. The
second dimension of a grid is the run. ACC is the type of the sums, C and E the channels and edges
of a tile; a run of tensors that all runs share has stride 0.
"""
# mypy: ignore-errors

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def spmm(
    x, w, out, ptr, other, slot, rows, sources, channels, heads, w_run, w_edge, w_head,
    SLOTS: tl.constexpr, ACC: tl.constexpr, C: tl.constexpr, E: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(0).to(tl.int64)
    run = tl.program_id(1).to(tl.int64)
    chunk = tl.program_id(2) * C
    row, head = pid // heads, pid % heads
    c = chunk + tl.arange(0, C)
    inside = c < channels
    first, last = tl.load(ptr + row), tl.load(ptr + row + 1)
    width = heads * channels
    base = x + run * sources * width + head * channels + c[None, :]
    acc = tl.zeros([C], dtype=ACC)
    for start in range(first, last, E):
        e = start + tl.arange(0, E)
        there = e < last
        node = tl.load(other + e, mask=there, other=0).to(tl.int64)
        where = (tl.load(slot + e, mask=there, other=0) if SLOTS else e).to(tl.int64)
        weight = tl.load(w + run * w_run + where * w_edge + head * w_head, mask=there, other=0.0)
        both = there[:, None] & inside[None, :]
        values = tl.load(base + node[:, None] * width, mask=both, other=0.0)
        acc += tl.sum(values.to(ACC) * weight.to(ACC)[:, None], axis=0)
    place = out + (run * rows + row) * width + head * channels + c
    tl.store(place, acc.to(out.dtype.element_ty), mask=inside)


@triton.jit
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


@triton.jit
def edge_sum(
    values, out, ptr, rows, heads, v_run, v_edge, v_head, ACC: tl.constexpr, E: tl.constexpr
):
    pid = tl.program_id(0).to(tl.int64)
    run = tl.program_id(1).to(tl.int64)
    row, head = pid // heads, pid % heads
    first, last = tl.load(ptr + row), tl.load(ptr + row + 1)
    acc = tl.zeros([E], dtype=ACC)
    for start in range(first, last, E):
        e = start + tl.arange(0, E)
        at = values + run * v_run + e.to(tl.int64) * v_edge + head * v_head
        acc += tl.load(at, mask=e < last, other=0.0).to(ACC)
    tl.store(out + (run * rows + row) * heads + head, tl.sum(acc, axis=0).to(out.dtype.element_ty))


@triton.jit
def feature_term(
    attr, w_edge, run, head, heads, slots, there, a_run, F: tl.constexpr, ACC: tl.constexpr
):
    term = tl.zeros(slots.shape, dtype=ACC)
    for f in tl.static_range(F):
        value = tl.load(attr + run * a_run + slots * F + f, mask=there, other=0.0)
        term += value.to(ACC) * tl.load(w_edge + (run * heads + head) * F + f).to(ACC)
    return term


@triton.jit
def attend(
    x, a_src, a_dst, attr, w_edge, mask, out, lse, ptr, col, targets, sources, edges, channels,
    heads, a_run,
    SLOPE: tl.constexpr, F: tl.constexpr, MASK: tl.constexpr, ACC: tl.constexpr,
    C: tl.constexpr, E: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(0).to(tl.int64)
    run = tl.program_id(1).to(tl.int64)
    row, head = pid // heads, pid % heads
    c = tl.arange(0, C)
    inside = c < channels
    first, last = tl.load(ptr + row), tl.load(ptr + row + 1)
    width = heads * channels
    base = x + run * sources * width + head * channels + c[None, :]
    own = tl.load(a_dst + (run * targets + row) * heads + head).to(ACC)
    acc = tl.zeros([C], dtype=ACC)
    top = tl.full([], -float("inf"), dtype=ACC)
    total = tl.zeros([], dtype=ACC)
    for start in range(first, last, E):
        e = start + tl.arange(0, E)
        there = e < last
        slots = e.to(tl.int64)
        node = tl.load(col + e, mask=there, other=0).to(tl.int64)
        z = own + tl.load(a_src + (run * sources + node) * heads + head, mask=there, other=0.0).to(
            ACC
        )
        z += feature_term(attr, w_edge, run, head, heads, slots, there, a_run, F, ACC)
        s = tl.where(there, tl.where(z > 0, z, SLOPE * z), -float("inf"))
        higher = tl.maximum(top, tl.max(s, axis=0))
        p = tl.exp(s - higher)
        shrink = tl.exp(top - higher)
        total = total * shrink + tl.sum(p, axis=0)
        if MASK:
            at = mask + (run * edges + slots) * heads + head
            p = p * tl.load(at, mask=there, other=0.0).to(ACC)
        both = there[:, None] & inside[None, :]
        values = tl.load(base + node[:, None] * width, mask=both, other=0.0).to(ACC)
        acc = acc * shrink + tl.sum(values * p[:, None], axis=0)
        top = higher
    total = tl.where(last > first, total, 1.0)  # a target without edges gets 0
    acc = acc / total
    place = out + (run * targets + row) * width + head * channels + c
    tl.store(place, acc.to(out.dtype.element_ty), mask=inside)
    tl.store(lse + (run * targets + row) * heads + head, top + tl.log(total))


@triton.jit
def attend_backward(
    g, x, a_src, a_dst, attr, w_edge, mask, lse, inner, dx, da_src, dz, ptr, row_of, slot_of,
    targets, sources, edges, channels, heads, a_run,
    SLOPE: tl.constexpr, F: tl.constexpr, MASK: tl.constexpr, ACC: tl.constexpr,
    C: tl.constexpr, E: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(0).to(tl.int64)
    run = tl.program_id(1).to(tl.int64)
    source, head = pid // heads, pid % heads
    c = tl.arange(0, C)
    inside = c < channels
    first, last = tl.load(ptr + source), tl.load(ptr + source + 1)
    width = heads * channels
    own = tl.load(a_src + (run * sources + source) * heads + head).to(ACC)
    at = (run * sources + source) * width + head * channels + c
    xj = tl.load(x + at, mask=inside, other=0.0).to(ACC)
    base = g + run * targets * width + head * channels + c[None, :]
    acc = tl.zeros([C], dtype=ACC)
    total = tl.zeros([E], dtype=ACC)
    for start in range(first, last, E):
        e = start + tl.arange(0, E)
        there = e < last
        i = tl.load(row_of + e, mask=there, other=0).to(tl.int64)
        slots = tl.load(slot_of + e, mask=there, other=0).to(tl.int64)
        per_target = (run * targets + i) * heads + head
        z = own + tl.load(a_dst + per_target, mask=there, other=0.0).to(ACC)
        z += feature_term(attr, w_edge, run, head, heads, slots, there, a_run, F, ACC)
        s = tl.where(z > 0, z, SLOPE * z) - tl.load(lse + per_target, mask=there, other=0.0)
        p = tl.where(there, tl.exp(s), 0.0)
        kept = p
        both = there[:, None] & inside[None, :]
        gi = tl.load(base + i[:, None] * width, mask=both, other=0.0).to(ACC)
        dp = tl.sum(gi * xj[None, :], axis=1)
        if MASK:
            m = tl.load(mask + (run * edges + slots) * heads + head, mask=there, other=0.0).to(ACC)
            dp, kept = dp * m, p * m
        acc += tl.sum(gi * kept[:, None], axis=0)
        d = p * (dp - tl.load(inner + per_target, mask=there, other=0.0).to(ACC))
        d = tl.where(z > 0, d, SLOPE * d)
        total += d
        tl.store(dz + (run * heads + head) * edges + slots, d, mask=there)
    tl.store(dx + at, acc.to(dx.dtype.element_ty), mask=inside)
    place = da_src + (run * sources + source) * heads + head
    tl.store(place, tl.sum(total, axis=0).to(da_src.dtype.element_ty))


@triton.jit
def attend_dot(
    q, k, v, out, lse, ptr, col, targets, sources, channels, heads,
    SCALE: tl.constexpr, ACC: tl.constexpr, C: tl.constexpr, E: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(0).to(tl.int64)
    run = tl.program_id(1).to(tl.int64)
    row, head = pid // heads, pid % heads
    c = tl.arange(0, C)
    inside = c < channels
    first, last = tl.load(ptr + row), tl.load(ptr + row + 1)
    width = heads * channels
    here = (run * targets + row) * width + head * channels + c
    qi = tl.load(q + here, mask=inside, other=0.0).to(ACC) * SCALE
    base = run * sources * width + head * channels + c[None, :]
    acc = tl.zeros([C], dtype=ACC)
    top = tl.full([], -float("inf"), dtype=ACC)
    total = tl.zeros([], dtype=ACC)
    for start in range(first, last, E):
        e = start + tl.arange(0, E)
        there = e < last
        at = base + tl.load(col + e, mask=there, other=0).to(tl.int64)[:, None] * width
        both = there[:, None] & inside[None, :]
        s = tl.sum(tl.load(k + at, mask=both, other=0.0).to(ACC) * qi[None, :], axis=1)
        s = tl.where(there, s, -float("inf"))
        higher = tl.maximum(top, tl.max(s, axis=0))
        p, shrink = tl.exp(s - higher), tl.exp(top - higher)
        total = total * shrink + tl.sum(p, axis=0)
        values = tl.load(v + at, mask=both, other=0.0).to(ACC)
        acc = acc * shrink + tl.sum(values * p[:, None], axis=0)
        top = higher
    total = tl.where(last > first, total, 1.0)  # a target without edges gets 0
    acc = acc / total
    tl.store(out + here, acc.to(out.dtype.element_ty), mask=inside)
    tl.store(lse + (run * targets + row) * heads + head, top + tl.log(total))


@triton.jit
def attend_dot_backward(
    g, q, k, v, lse, inner, dk, dv, ds, ptr, row_of, slot_of, targets, sources, edges, channels,
    heads,
    SCALE: tl.constexpr, ACC: tl.constexpr, C: tl.constexpr, E: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(0).to(tl.int64)
    run = tl.program_id(1).to(tl.int64)
    source, head = pid // heads, pid % heads
    c = tl.arange(0, C)
    inside = c < channels
    first, last = tl.load(ptr + source), tl.load(ptr + source + 1)
    width = heads * channels
    here = (run * sources + source) * width + head * channels + c
    kj = tl.load(k + here, mask=inside, other=0.0).to(ACC)
    vj = tl.load(v + here, mask=inside, other=0.0).to(ACC)
    base = run * targets * width + head * channels + c[None, :]
    to_k = tl.zeros([C], dtype=ACC)
    to_v = tl.zeros([C], dtype=ACC)
    for start in range(first, last, E):
        e = start + tl.arange(0, E)
        there = e < last
        i = tl.load(row_of + e, mask=there, other=0).to(tl.int64)
        slots = tl.load(slot_of + e, mask=there, other=0).to(tl.int64)
        per_target = (run * targets + i) * heads + head
        both = there[:, None] & inside[None, :]
        at = base + i[:, None] * width
        qi = tl.load(q + at, mask=both, other=0.0).to(ACC)
        gi = tl.load(g + at, mask=both, other=0.0).to(ACC)
        s = SCALE * tl.sum(qi * kj[None, :], axis=1)
        p = tl.exp(s - tl.load(lse + per_target, mask=there, other=0.0))
        p = tl.where(there, p, 0.0)
        dp = tl.sum(gi * vj[None, :], axis=1)
        d = SCALE * p * (dp - tl.load(inner + per_target, mask=there, other=0.0).to(ACC))
        to_v += tl.sum(gi * p[:, None], axis=0)
        to_k += tl.sum(qi * d[:, None], axis=0)
        tl.store(ds + (run * heads + head) * edges + slots, d, mask=there)
    tl.store(dk + here, to_k.to(dk.dtype.element_ty), mask=inside)
    tl.store(dv + here, to_v.to(dv.dtype.element_ty), mask=inside)


@triton.jit
def mix(x):
    x = x ^ (x >> 16)
    x = x * 0x7FEB352D
    x = x ^ (x >> 15)
    x = x * 0x846CA68B
    return x ^ (x >> 16)


@triton.jit
def kept(rate, seed, step, s_step, run, layer, n):
    """1 / (1 − p) where element n of this run is kept, else 0."""
    p, whole = tl.load(rate + run), tl.load(seed + run)
    low, high = whole.to(tl.uint32), (whole >> 32).to(tl.uint32)
    now = tl.load(step + run * s_step).to(tl.uint32)
    key = mix(mix(mix(low ^ 0x9E3779B9) ^ high) ^ now)
    key = mix(key ^ layer)
    bits = mix(n.to(tl.uint32) ^ key) ^ (n >> 32).to(tl.uint32)
    bits = mix(bits + mix(key ^ 0x85EBCA6B)) >> 8
    keep = bits.to(tl.float32) * (1.0 / 16777216.0) >= p
    return tl.where(keep, tl.where(p < 1, tl.div_rn(1.0, 1 - p), 0.0), 0.0)


@triton.jit
def dropout(x, out, rate, seed, step, s_step, layer: tl.uint32, size, BLOCK: tl.constexpr):
    run = tl.program_id(1).to(tl.int64)
    n = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    there = n < size
    scale = kept(rate, seed, step, s_step, run, layer, n)
    value = tl.load(x + run * size + n, mask=there, other=0.0)
    value = tl.where(scale > 0, value * scale.to(value.dtype), 0.0)
    tl.store(out + run * size + n, value, mask=there)


@triton.jit
def activate(
    h, bias, residual, out, rate, seed, step, s_step, layer: tl.uint32, size, width,
    NOISE: tl.constexpr, GELU: tl.constexpr, BACKWARD: tl.constexpr, ACC: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    run = tl.program_id(1).to(tl.int64)
    n = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    there = n < size
    at = run * size + n
    u = tl.load(h + at, mask=there, other=0.0).to(ACC)
    u += tl.load(bias + run * width + n % width, mask=there, other=0.0).to(ACC)
    scale = tl.full([BLOCK], 1.0, tl.float32)
    if NOISE:
        scale = kept(rate, seed, step, s_step, run, layer, n)
        u = tl.where(scale > 0, u * scale.to(ACC), 0.0)
    if not GELU or BACKWARD:
        other = tl.load(residual + at, mask=there, other=0.0).to(ACC)
    if GELU:
        share = 0.5 + 0.5 * tl.erf(u * 0.7071067811865476)
        if BACKWARD:  # `residual` is the gradient that comes in
            slope = share + u * tl.exp(-0.5 * u * u) * 0.3989422804014327
            u = other * slope
            u = tl.where(scale > 0, u * scale.to(ACC), 0.0)
        else:
            u = u * share
    else:
        u = other + u
    tl.store(out + at, u.to(out.dtype.element_ty), mask=there)


@triton.jit
def feature_sum(
    values, attr, out, edges, v_run, v_edge, v_head, a_run, parts, heads,
    F: tl.constexpr, PADDED: tl.constexpr, ACC: tl.constexpr, E: tl.constexpr,
):  # fmt: skip
    part = tl.program_id(0)
    run = tl.program_id(1).to(tl.int64)
    head = tl.program_id(2)
    f = tl.arange(0, PADDED)
    acc = tl.zeros([PADDED], dtype=ACC)
    for start in range(part * E, edges, parts * E):
        e = start + tl.arange(0, E).to(tl.int64)
        there = e < edges
        v = tl.load(values + run * v_run + e * v_edge + head * v_head, mask=there, other=0.0)
        both = there[:, None] & (f < F)[None, :]
        a = tl.load(attr + run * a_run + e[:, None] * F + f[None, :], mask=both, other=0.0)
        acc += tl.sum(v.to(ACC)[:, None] * a.to(ACC), axis=0)
    place = out + ((part * tl.num_programs(1) + run) * heads + head) * F + f
    tl.store(place, acc, mask=f < F)
