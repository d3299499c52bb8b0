"""The Triton kernels behind :mod:`pdgnn.ops.gpu` that go through nodes one by one, and AdamW.

The second dimension of a grid is the run; ACC is the type of the sums. A program takes
`per_program` nodes, ROWS at a time, and counts their elements in 32 bits from its first one. VEC is
how many columns a lane takes at once: 16 bytes of the widest tensor, so that no warp writes half a
sector. Where a gradient is a sum over nodes, every program leaves the sum over its own, and these
are added in a fixed order.
"""
# mypy: ignore-errors

from __future__ import annotations

import triton
import triton.language as tl

SIZES = ("s_step", "layer", "nodes", "per_program")
"""Arguments whose values no compilation depends on."""


@triton.jit
def rows_of(nodes, per_program):
    """The run of this program, the first of its nodes, and how many it has."""
    node = tl.program_id(0).to(tl.int64) * per_program
    there = tl.minimum(nodes - node, per_program).to(tl.int32)
    return tl.program_id(1).to(tl.int64), node, there


@triton.jit
def tile(nodes, width, per_program, COLUMNS: tl.constexpr, VEC: tl.constexpr):
    """Run and nodes of this program, its columns from `column` on, which of them there are, and
    where its first element is in the run and in all runs."""
    run, node, there = rows_of(nodes, per_program)
    column = tl.program_id(2) * COLUMNS
    c = tl.max_contiguous(tl.arange(0, COLUMNS), VEC)
    first = node * width + column
    return run, there, column, c, c < width - column, first, run * nodes * width + first


@triton.jit
def heads_tile(
    att_src, att_dst, nodes, heads, channels, per_program,
    ACC: tl.constexpr, HEADS: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    """Run and nodes of this program, its heads, which ``[HEADS, C]`` there are, their columns, the
    first node of all runs, and att_src and att_dst. Heads by channels are the grid's third
    dimension."""
    run, node, there = rows_of(nodes, per_program)
    blocks = tl.cdiv(channels, C)
    head = tl.program_id(2) // blocks * HEADS + tl.arange(0, HEADS)
    c = tl.program_id(2) % blocks * C + tl.arange(0, C)
    inside = (head < heads)[:, None] & (c < channels)[None, :]
    column = head[:, None] * channels + c[None, :]
    own = run * heads * channels + column
    of_src = tl.load(att_src + own, mask=inside, other=0.0).to(ACC)
    of_dst = tl.load(att_dst + own, mask=inside, other=0.0).to(ACC)
    return run, there, head, inside, column, run * nodes + node, of_src, of_dst


@triton.jit
def mix(x):
    x = x ^ (x >> 16)
    x = x * 0x7FEB352D
    x = x ^ (x >> 15)
    x = x * 0x846CA68B
    return x ^ (x >> 16)


@triton.jit
def mask_keys(rate, seed, step, s_step, run, layer):
    """The two keys and the threshold of :func:`keep_mask` for a run, and 1 / (1 − p)."""
    p, whole = tl.load(rate + run), tl.load(seed + run)
    low, high = whole.to(tl.uint32), (whole >> 32).to(tl.uint32)
    now = tl.load(step + run * s_step).to(tl.uint32)
    key = mix(mix(mix(mix(low ^ 0x9E3779B9) ^ high) ^ now) ^ tl.cast(layer, tl.uint32))
    # a number of 24 bits, the highest of 32, is at least 2^24 p; where p is 1 or more none is
    some = p < 1
    p = tl.where(some, p, 0.0)
    threshold = tl.ceil(tl.maximum(p, 0.0) * 16777216.0).to(tl.uint32) << 8
    threshold = tl.where(some, threshold, 0xFFFFFFFF)
    scale = tl.div_rn(1.0, 1 - p)
    return key ^ (key >> 16), mix(key ^ 0x85EBCA6B), threshold, scale


@triton.jit
def keep_mask(first, row, n, key, second, threshold, GROUP: tl.constexpr, LARGE: tl.constexpr):
    """Which of the elements first + row + n of a run are kept.

    GROUP, a power of two, divides `first` and `row`: GROUP neighbours differ in their lowest bits,
    which the first shift of `mix` drops, and share what comes before its first product.
    """
    whole = first.to(tl.uint32) + (row + (n & -GROUP)).to(tl.uint32)
    bits = (whole ^ (whole >> 16) ^ key) ^ (n & (GROUP - 1)).to(tl.uint32)
    bits = bits * 0x7FEB352D
    bits = bits ^ (bits >> 15)
    bits = bits * 0x846CA68B
    bits = bits ^ (bits >> 16)
    if LARGE:  # a run has more than 2^32 elements
        bits = bits ^ ((first + row + n) >> 32).to(tl.uint32)
    return (mix(bits + second) & 0xFFFFFF00) >= threshold


@triton.jit
def gelu(u):
    """u Φ(u) = max(u, 0) − |u| Φ(−|u|), with a polynomial for log₂ Φ(−|u|): an error of 6e-8."""
    if u.dtype == tl.float64:
        y = u * (0.5 + 0.5 * tl.erf(u * 0.7071067811865476))
    else:
        a = tl.minimum(tl.abs(u), 6.0)
        q = 6.119302724982845e-06 * a - 3.2479110814165324e-05
        q = q * a - 0.0004947069101035595
        q = q * a + 0.007508276496082544
        q = q * a - 0.05278468504548073
        q = q * a - 0.4591203033924103
        q = q * a - 1.1511149406433105
        q = q * a - 0.9999998211860657
        y = tl.maximum(u, 0.0, propagate_nan=tl.PropagateNan.ALL) - a * tl.exp2(q)
    return y


@triton.jit
def gelu_slope(v):
    """Φ(u) + u φ(u) for v = u √(½ log₂ e), with which e^(−u²/2) = 2^(−v²).

    It is ½ ± (½ − 2^(−v²) q) with the sign of v, q a polynomial in |v|: an error of 7e-8.
    """
    if v.dtype == tl.float64:
        u = v / 0.8493218002880191
        bell = tl.exp(-0.5 * u * u) * 0.3989422804014327
        y = 0.5 + 0.5 * tl.erf(u * 0.7071067811865476) + u * bell
    else:
        a = tl.minimum(tl.abs(v), 5.1, propagate_nan=tl.PropagateNan.ALL)
        q = 8.354430974577554e-06 * a - 0.00015310516755562276
        q = q * a + 0.001254780450835824
        q = q * a - 0.006194127257913351
        q = q * a + 0.021152127534151077
        q = q * a - 0.055016640573740005
        q = q * a + 0.11752822250127792
        q = q * a - 0.21629391610622406
        q = q * a + 0.3464582562446594
        q = q * a - 0.9394304752349854
        q = q * a + 0.4999999403953552
        half = 0.5 - tl.exp2(0.0 - a * a) * q
        sign = v.to(tl.uint32, bitcast=True) & 0x80000000
        y = 0.5 + (half.to(tl.uint32, bitcast=True) ^ sign).to(tl.float32, bitcast=True)
    return y


@triton.jit(do_not_specialize=SIZES)
def dropout(
    x, out, rate, seed, step, s_step, layer: tl.uint32, size,
    LARGE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    run = tl.program_id(1).to(tl.int64)
    first = tl.program_id(0).to(tl.int64) * BLOCK
    n = tl.arange(0, BLOCK)
    there = n < size - first
    at = run * size + first
    value = tl.load(x + at + n, mask=there, other=0.0)
    key, second, threshold, scale = mask_keys(rate, seed, step, s_step, run, layer)
    keep = keep_mask(first, 0, n, key, second, threshold, 8, LARGE)
    value = tl.where(keep, value * scale.to(value.dtype), 0.0)
    tl.store(out + at + n, value, mask=there)


@triton.jit(do_not_specialize=SIZES)
def activate(
    h, bias, residual, out, rate, seed, step, s_step, layer: tl.uint32, nodes, width, per_program,
    DROPOUT: tl.constexpr, GELU: tl.constexpr, GROUP: tl.constexpr, LARGE: tl.constexpr,
    ACC: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, VEC: tl.constexpr,
):  # fmt: skip
    run, there, column, c, inside, first, at = tile(nodes, width, per_program, COLUMNS, VEC)
    b = tl.load(bias + run * width + column + c, mask=inside, other=0.0).to(ACC)
    factor = 1.0
    if DROPOUT:
        key, second, threshold, scale = mask_keys(rate, seed, step, s_step, run, layer)
        factor = scale.to(ACC)
        b *= factor
    for start in range(0, there, ROWS):
        row = start + tl.arange(0, ROWS)
        both = (row < there)[:, None] & inside[None, :]
        row = row[:, None] * width
        n = row + c[None, :]
        u = tl.load(h + at + n, mask=both, other=0.0).to(ACC) * factor + b[None, :]
        if not GELU:
            onto = tl.load(residual + at + n, mask=both, other=0.0).to(ACC)
        if DROPOUT:
            keep = keep_mask(first, row, c[None, :], key, second, threshold, GROUP, LARGE)
            u = tl.where(keep, u, 0.0)
        u = gelu(u) if GELU else onto + u
        tl.store(out + at + n, u.to(out.dtype.element_ty), mask=both)


@triton.jit(do_not_specialize=SIZES)
def activate_backward(
    g, h, bias, dh, dbias, rate, seed, step, s_step, layer: tl.uint32, nodes, width, per_program,
    DROPOUT: tl.constexpr, GELU: tl.constexpr, GROUP: tl.constexpr, LARGE: tl.constexpr,
    ACC: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, VEC: tl.constexpr,
):  # fmt: skip
    run, there, column, c, inside, first, at = tile(nodes, width, per_program, COLUMNS, VEC)
    factor, inner = 1.0, tl.full([], 0.8493218002880191, ACC)  # as a plain number it is a float32
    if DROPOUT:
        key, second, threshold, scale = mask_keys(rate, seed, step, s_step, run, layer)
        factor = scale.to(ACC)
        inner *= factor
    b = tl.load(bias + run * width + column + c, mask=inside, other=0.0).to(ACC) * inner
    acc = tl.zeros([ROWS, COLUMNS], dtype=ACC)
    for start in range(0, there, ROWS):
        row = start + tl.arange(0, ROWS)
        both = (row < there)[:, None] & inside[None, :]
        row = row[:, None] * width
        n = row + c[None, :]
        d = tl.load(g + at + n, mask=both, other=0.0).to(ACC) * factor
        if GELU:
            v = tl.load(h + at + n, mask=both, other=0.0).to(ACC) * inner + b[None, :]
            d = d * gelu_slope(v)
        if DROPOUT:
            keep = keep_mask(first, row, c[None, :], key, second, threshold, GROUP, LARGE)
            d = tl.where(keep, d, 0.0)
        tl.store(dh + at + n, d.to(dh.dtype.element_ty), mask=both)
        acc += d
    place = dbias + (run * tl.num_programs(0) + tl.program_id(0)) * width + column + c
    tl.store(place, tl.sum(acc, axis=0), mask=inside)


@triton.jit(do_not_specialize=SIZES)
def layer_norm(
    x, weight, bias, y, mean, scale, nodes, width, per_program,
    EPS: tl.constexpr, ACC: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
    VEC: tl.constexpr,
):  # fmt: skip
    run, node, there = rows_of(nodes, per_program)
    at = run * nodes + node
    c = tl.max_contiguous(tl.arange(0, COLUMNS), VEC)
    inside = c < width
    w = tl.load(weight + run * width + c, mask=inside, other=0.0).to(ACC)
    b = tl.load(bias + run * width + c, mask=inside, other=0.0).to(ACC)
    for start in range(0, there, ROWS):
        row = start + tl.arange(0, ROWS)
        both = (row < there)[:, None] & inside[None, :]
        n = row[:, None] * width + c[None, :]
        z = tl.load(x + at * width + n, mask=both, other=0.0).to(ACC)
        m = tl.sum(z, axis=1) / width
        z = tl.where(inside[None, :], z - m[:, None], 0.0)
        s = 1 / tl.sqrt(tl.sum(z * z, axis=1) / width + EPS)
        z = z * s[:, None] * w[None, :] + b[None, :]
        tl.store(y + at * width + n, z.to(y.dtype.element_ty), mask=both)
        tl.store(mean + at + row, m, mask=row < there)
        tl.store(scale + at + row, s, mask=row < there)


@triton.jit(do_not_specialize=SIZES)
def layer_norm_backward(
    g, passed, x, weight, mean, scale, dx, dw, db, nodes, width, per_program,
    PASSED: tl.constexpr, ACC: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
    VEC: tl.constexpr,
):  # fmt: skip
    run, node, there = rows_of(nodes, per_program)
    at = run * nodes + node
    c = tl.max_contiguous(tl.arange(0, COLUMNS), VEC)
    inside = c < width
    w = tl.load(weight + run * width + c, mask=inside, other=0.0).to(ACC)
    to_w = tl.zeros([ROWS, COLUMNS], dtype=ACC)
    to_b = tl.zeros([ROWS, COLUMNS], dtype=ACC)
    for start in range(0, there, ROWS):
        row = start + tl.arange(0, ROWS)
        both = (row < there)[:, None] & inside[None, :]
        n = row[:, None] * width + c[None, :]
        m = tl.load(mean + at + row, mask=row < there, other=0.0)
        s = tl.load(scale + at + row, mask=row < there, other=0.0)
        z = tl.load(x + at * width + n, mask=both, other=0.0).to(ACC)
        d = tl.load(g + at * width + n, mask=both, other=0.0).to(ACC)
        if PASSED:
            onto = tl.load(passed + at * width + n, mask=both, other=0.0).to(ACC)
        z = (z - m[:, None]) * s[:, None]  # not 0 in columns outside, where d is
        to_w += d * z
        to_b += d
        u = d * w[None, :]
        mean_u = tl.sum(u, axis=1) / width
        mean_uz = tl.sum(u * z, axis=1) / width
        u = (u - mean_u[:, None] - z * mean_uz[:, None]) * s[:, None]
        if PASSED:
            u += onto
        tl.store(dx + at * width + n, u.to(dx.dtype.element_ty), mask=both)
    place = (run * tl.num_programs(0) + tl.program_id(0)) * width + c
    tl.store(dw + place, tl.sum(to_w, axis=0), mask=inside)
    tl.store(db + place, tl.sum(to_b, axis=0), mask=inside)


@triton.jit(do_not_specialize=SIZES)
def score_nodes(
    h, bias, att_src, att_dst, x, a_src, a_dst, nodes, heads, channels, per_program,
    BIAS: tl.constexpr, ACC: tl.constexpr, ROWS: tl.constexpr, HEADS: tl.constexpr,
    C: tl.constexpr,
):  # fmt: skip
    run, there, head, inside, column, at, of_src, of_dst = heads_tile(
        att_src, att_dst, nodes, heads, channels, per_program, ACC, HEADS, C
    )
    width = heads * channels
    if BIAS:
        b = tl.load(bias + run * width + column, mask=inside, other=0.0).to(ACC)
    for start in range(0, there, ROWS):
        row = start + tl.arange(0, ROWS)
        n = row[:, None, None] * width + column[None]
        every = (row < there)[:, None, None] & inside[None]
        u = tl.load(h + at * width + n, mask=every, other=0.0).to(ACC)
        if BIAS:
            u += b[None]
            tl.store(x + at * width + n, u.to(x.dtype.element_ty), mask=every)
            u = u.to(x.dtype.element_ty).to(ACC)
        score = row[:, None] * heads + head[None, :]
        scored = (row < there)[:, None] & (head < heads)[None, :]
        tl.store(a_src + at * heads + score, tl.sum(u * of_src[None], axis=2), mask=scored)
        tl.store(a_dst + at * heads + score, tl.sum(u * of_dst[None], axis=2), mask=scored)


@triton.jit(do_not_specialize=SIZES)
def score_nodes_backward(
    g, g_src, g_dst, x, att_src, att_dst, dh, sums, nodes, heads, channels, per_program,
    ACC: tl.constexpr, ROWS: tl.constexpr, HEADS: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    """`sums` are ∂bias, ∂att_src and ∂att_dst."""
    run, there, head, inside, column, at, of_src, of_dst = heads_tile(
        att_src, att_dst, nodes, heads, channels, per_program, ACC, HEADS, C
    )
    width = heads * channels
    to_bias = tl.zeros([ROWS, HEADS, C], dtype=ACC)
    to_src = tl.zeros([ROWS, HEADS, C], dtype=ACC)
    to_dst = tl.zeros([ROWS, HEADS, C], dtype=ACC)
    for start in range(0, there, ROWS):
        row = start + tl.arange(0, ROWS)
        score = row[:, None] * heads + head[None, :]
        scored = (row < there)[:, None] & (head < heads)[None, :]
        n = row[:, None, None] * width + column[None]
        every = (row < there)[:, None, None] & inside[None]
        s = tl.load(g_src + at * heads + score, mask=scored, other=0.0).to(ACC)[:, :, None]
        d = tl.load(g_dst + at * heads + score, mask=scored, other=0.0).to(ACC)[:, :, None]
        value = tl.load(x + at * width + n, mask=every, other=0.0).to(ACC)
        u = tl.load(g + at * width + n, mask=every, other=0.0).to(ACC)
        u += s * of_src[None] + d * of_dst[None]
        tl.store(dh + at * width + n, u.to(dh.dtype.element_ty), mask=every)
        to_bias += u
        to_src += s * value
        to_dst += d * value
    place = (run * tl.num_programs(0) + tl.program_id(0)) * 3 * width + column
    tl.store(sums + place, tl.sum(to_bias, axis=0), mask=inside)
    tl.store(sums + place + width, tl.sum(to_src, axis=0), mask=inside)
    tl.store(sums + place + 2 * width, tl.sum(to_dst, axis=0), mask=inside)


@triton.jit(do_not_specialize=SIZES)
def adamw(
    parameters, mean, square, grads, decay, rate, root, size, stride,
    BETA1: tl.constexpr, BETA2: tl.constexpr, EPS: tl.constexpr, ACC: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    run = tl.program_id(1).to(tl.int64)
    first = tl.program_id(0).to(tl.int64) * BLOCK
    n = tl.arange(0, BLOCK)
    there = n < size - first
    at = run * stride + first
    g = tl.load(grads + run * size + first + n, mask=there, other=0.0).to(ACC)
    m = tl.load(mean + at + n, mask=there, other=0.0)
    v = tl.load(square + at + n, mask=there, other=0.0)
    theta = tl.load(parameters + at + n, mask=there, other=0.0)
    m += (g - m) * (1 - BETA1)
    v = v * BETA2 + g * g * (1 - BETA2)
    scale = tl.sqrt(v) / tl.load(root + run).to(ACC) + EPS
    theta = theta * tl.load(decay + run).to(ACC) - m / scale * tl.load(rate + run).to(ACC)
    tl.store(mean + at + n, m, mask=there)
    tl.store(square + at + n, v, mask=there)
    tl.store(parameters + at + n, theta, mask=there)
