"""The Triton kernels behind :mod:`pdgnn.ops.gpu` that go through nodes one by one, and AdamW.

The second dimension of a grid is the run; ACC is the type of the sums. Where a gradient is a sum
over nodes, every program leaves the sum over its own, and these are added in a fixed order.
"""
# mypy: ignore-errors

from __future__ import annotations

import triton
import triton.language as tl

SIZES = ("s_step", "layer", "size", "nodes")
"""Arguments whose values no compilation depends on."""


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


@triton.jit(do_not_specialize=SIZES)
def dropout(x, out, rate, seed, step, s_step, layer: tl.uint32, size, BLOCK: tl.constexpr):
    run = tl.program_id(1).to(tl.int64)
    n = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    there = n < size
    scale = kept(rate, seed, step, s_step, run, layer, n)
    value = tl.load(x + run * size + n, mask=there, other=0.0)
    value = tl.where(scale > 0, value * scale.to(value.dtype), 0.0)
    tl.store(out + run * size + n, value, mask=there)


@triton.jit(do_not_specialize=SIZES)
def activate(
    h, bias, residual, out, rate, seed, step, s_step, layer: tl.uint32, size, width,
    NOISE: tl.constexpr, GELU: tl.constexpr, ACC: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    run = tl.program_id(1).to(tl.int64)
    n = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    there = n < size
    at = run * size + n
    u = tl.load(h + at, mask=there, other=0.0).to(ACC)
    u += tl.load(bias + run * width + n % width, mask=there, other=0.0).to(ACC)
    if NOISE:
        scale = kept(rate, seed, step, s_step, run, layer, n)
        u = tl.where(scale > 0, u * scale.to(ACC), 0.0)
    if GELU:
        u = u * (0.5 + 0.5 * tl.erf(u * 0.7071067811865476))
    else:
        u += tl.load(residual + at, mask=there, other=0.0).to(ACC)
    tl.store(out + at, u.to(out.dtype.element_ty), mask=there)


@triton.jit(do_not_specialize=SIZES)
def activate_backward(
    g, h, bias, dh, dbias, rate, seed, step, s_step, layer: tl.uint32, nodes, width,
    NOISE: tl.constexpr, GELU: tl.constexpr, ACC: tl.constexpr, EACH: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Programs take EACH nodes, ROWS at a time."""
    run = tl.program_id(1).to(tl.int64)
    c = tl.program_id(2) * COLUMNS + tl.arange(0, COLUMNS)
    inside = c < width
    first = tl.program_id(0) * EACH
    b = tl.load(bias + run * width + c, mask=inside, other=0.0).to(ACC)
    acc = tl.zeros([ROWS, COLUMNS], dtype=ACC)
    for start in range(0, EACH, ROWS):
        row = (first + start + tl.arange(0, ROWS)).to(tl.int64)
        n = row[:, None] * width + c[None, :]
        both = (row < nodes)[:, None] & inside[None, :]
        at = run * nodes * width + n
        d = tl.load(g + at, mask=both, other=0.0).to(ACC)
        scale = tl.full([ROWS, COLUMNS], 1.0, tl.float32)
        if NOISE:
            scale = kept(rate, seed, step, s_step, run, layer, n)
        if GELU:
            u = tl.load(h + at, mask=both, other=0.0).to(ACC) + b[None, :]
            u = tl.where(scale > 0, u * scale.to(ACC), 0.0)
            slope = 0.5 + 0.5 * tl.erf(u * 0.7071067811865476)
            d = d * (slope + u * tl.exp(-0.5 * u * u) * 0.3989422804014327)
        d = tl.where(scale > 0, d * scale.to(ACC), 0.0)
        tl.store(dh + at, d.to(dh.dtype.element_ty), mask=both)
        acc += tl.where(both, d, 0.0)
    place = dbias + (run * tl.num_programs(0) + tl.program_id(0)) * width + c
    tl.store(place, tl.sum(acc, axis=0), mask=inside)


@triton.jit(do_not_specialize=SIZES)
def layer_norm(
    x, weight, bias, y, mean, scale, nodes, width,
    EPS: tl.constexpr, ACC: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    run = tl.program_id(1).to(tl.int64)
    c = tl.arange(0, COLUMNS)
    inside = c < width
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    both = (row < nodes)[:, None] & inside[None, :]
    at = (run * nodes + row)[:, None] * width + c[None, :]
    z = tl.load(x + at, mask=both, other=0.0).to(ACC)
    m = tl.sum(z, axis=1) / width
    z = tl.where(both, z - m[:, None], 0.0)
    s = 1 / tl.sqrt(tl.sum(z * z, axis=1) / width + EPS)
    w = tl.load(weight + run * width + c, mask=inside, other=0.0).to(ACC)
    b = tl.load(bias + run * width + c, mask=inside, other=0.0).to(ACC)
    z = z * s[:, None] * w[None, :] + b[None, :]
    tl.store(y + at, z.to(y.dtype.element_ty), mask=both)
    tl.store(mean + run * nodes + row, m, mask=row < nodes)
    tl.store(scale + run * nodes + row, s, mask=row < nodes)


@triton.jit(do_not_specialize=SIZES)
def layer_norm_backward(
    g, passed, x, weight, mean, scale, dx, dw, db, nodes, width,
    PASSED: tl.constexpr, ACC: tl.constexpr, EACH: tl.constexpr, ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):  # fmt: skip
    """Programs take EACH nodes, ROWS at a time."""
    run = tl.program_id(1).to(tl.int64)
    c = tl.arange(0, COLUMNS)
    inside = c < width
    first = tl.program_id(0) * EACH
    w = tl.load(weight + run * width + c, mask=inside, other=0.0).to(ACC)
    to_w = tl.zeros([ROWS, COLUMNS], dtype=ACC)
    to_b = tl.zeros([ROWS, COLUMNS], dtype=ACC)
    for start in range(0, EACH, ROWS):
        row = (first + start + tl.arange(0, ROWS)).to(tl.int64)
        both = (row < nodes)[:, None] & inside[None, :]
        at = (run * nodes + row)[:, None] * width + c[None, :]
        m = tl.load(mean + run * nodes + row, mask=row < nodes, other=0.0)
        s = tl.load(scale + run * nodes + row, mask=row < nodes, other=0.0)
        z = (tl.load(x + at, mask=both, other=0.0).to(ACC) - m[:, None]) * s[:, None]
        z = tl.where(both, z, 0.0)
        d = tl.load(g + at, mask=both, other=0.0).to(ACC)
        to_w += d * z
        to_b += d
        u = d * w[None, :]
        mean_u = tl.sum(u, axis=1) / width
        mean_uz = tl.sum(u * z, axis=1) / width
        u = (u - mean_u[:, None] - z * mean_uz[:, None]) * s[:, None]
        if PASSED:
            u += tl.load(passed + at, mask=both, other=0.0).to(ACC)
        tl.store(dx + at, u.to(dx.dtype.element_ty), mask=both)
    place = (run * tl.num_programs(0) + tl.program_id(0)) * width + c
    tl.store(dw + place, tl.sum(to_w, axis=0), mask=inside)
    tl.store(db + place, tl.sum(to_b, axis=0), mask=inside)


@triton.jit(do_not_specialize=SIZES)
def score_nodes(
    h, bias, att_src, att_dst, x, a_src, a_dst, size, heads, channels,
    BIAS: tl.constexpr, ACC: tl.constexpr, ROWS: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    """A row is a head of a node; `size` is how many a run has."""
    run = tl.program_id(1).to(tl.int64)
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    c = tl.arange(0, C)
    both = (row < size)[:, None] & (c < channels)[None, :]
    at = (run * size + row)[:, None] * channels + c[None, :]
    of_head = (run * heads + row % heads)[:, None] * channels + c[None, :]
    u = tl.load(h + at, mask=both, other=0.0).to(ACC)
    if BIAS:
        u += tl.load(bias + of_head, mask=both, other=0.0).to(ACC)
        tl.store(x + at, u.to(x.dtype.element_ty), mask=both)
        u = u.to(x.dtype.element_ty).to(ACC)
    s = tl.sum(u * tl.load(att_src + of_head, mask=both, other=0.0).to(ACC), axis=1)
    d = tl.sum(u * tl.load(att_dst + of_head, mask=both, other=0.0).to(ACC), axis=1)
    tl.store(a_src + run * size + row, s, mask=row < size)
    tl.store(a_dst + run * size + row, d, mask=row < size)


@triton.jit(do_not_specialize=SIZES)
def score_nodes_backward(
    g, g_src, g_dst, x, att_src, att_dst, dh, sums, nodes, heads, channels, width,
    ACC: tl.constexpr, EACH: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Programs take EACH nodes, ROWS at a time; `sums` are ∂bias, ∂att_src and ∂att_dst."""
    run = tl.program_id(1).to(tl.int64)
    c = tl.program_id(2) * COLUMNS + tl.arange(0, COLUMNS)
    inside = c < width
    head = c // channels
    first = tl.program_id(0) * EACH
    of_src = tl.load(att_src + run * width + c, mask=inside, other=0.0).to(ACC)
    of_dst = tl.load(att_dst + run * width + c, mask=inside, other=0.0).to(ACC)
    to_bias = tl.zeros([ROWS, COLUMNS], dtype=ACC)
    to_src = tl.zeros([ROWS, COLUMNS], dtype=ACC)
    to_dst = tl.zeros([ROWS, COLUMNS], dtype=ACC)
    for start in range(0, EACH, ROWS):
        row = (first + start + tl.arange(0, ROWS)).to(tl.int64)
        both = (row < nodes)[:, None] & inside[None, :]
        at = (run * nodes + row)[:, None] * width + c[None, :]
        by_head = (run * nodes + row)[:, None] * heads + head[None, :]
        s = tl.load(g_src + by_head, mask=both, other=0.0).to(ACC)
        d = tl.load(g_dst + by_head, mask=both, other=0.0).to(ACC)
        value = tl.load(x + at, mask=both, other=0.0).to(ACC)
        u = tl.load(g + at, mask=both, other=0.0).to(ACC)
        u += s * of_src[None, :] + d * of_dst[None, :]
        tl.store(dh + at, u.to(dh.dtype.element_ty), mask=both)
        to_bias += u
        to_src += s * value
        to_dst += d * value
    place = (run * tl.num_programs(0) + tl.program_id(0)) * 3 * width + c
    tl.store(sums + place, tl.sum(to_bias, axis=0), mask=inside)
    tl.store(sums + place + width, tl.sum(to_src, axis=0), mask=inside)
    tl.store(sums + place + 2 * width, tl.sum(to_dst, axis=0), mask=inside)


@triton.jit(do_not_specialize=SIZES)
def adamw(
    parameters, mean, square, grads, decay, rate, root, size,
    BETA1: tl.constexpr, BETA2: tl.constexpr, EPS: tl.constexpr, ACC: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    run = tl.program_id(1).to(tl.int64)
    n = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    there = n < size
    at = run * size + n
    g = tl.load(grads + at, mask=there, other=0.0).to(ACC)
    m = tl.load(mean + at, mask=there, other=0.0)
    v = tl.load(square + at, mask=there, other=0.0)
    m += (g - m) * (1 - BETA1)
    v = v * BETA2 + g * g * (1 - BETA2)
    theta = tl.load(parameters + at, mask=there, other=0.0) * tl.load(decay + run).to(ACC)
    below = tl.sqrt(v) / tl.load(root + run).to(ACC) + EPS
    theta -= m / below * tl.load(rate + run).to(ACC)
    tl.store(mean + at, m, mask=there)
    tl.store(square + at, v, mask=there)
    tl.store(parameters + at, theta, mask=there)
