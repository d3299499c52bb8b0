"""The Triton kernels of a batch norm with ReLU and dropout; see :mod:`pdgnn.ops.gpu_rows`.

Means and variances over the nodes are put together from those of each program's own nodes, in a
fixed order; the latter are taken around its first node, so that a large mean costs no digits.
"""
# mypy: ignore-errors

from __future__ import annotations

import triton
import triton.language as tl

from pdgnn.ops.gpu_rows import SIZES, keep_mask, mask_keys, tile


@triton.jit
def summed(x, second, third, at, inside, PARTS: tl.constexpr, ACC: tl.constexpr):
    """The sum of the parts as it is kept, in the type of x."""
    z = tl.load(x + at, mask=inside, other=0.0).to(ACC)
    if PARTS > 1:
        z += tl.load(second + at, mask=inside, other=0.0).to(ACC)
    if PARTS > 2:
        z += tl.load(third + at, mask=inside, other=0.0).to(ACC)
    return z.to(x.dtype.element_ty).to(ACC)


@triton.jit(do_not_specialize=SIZES)
def batch_moments(
    x, second, third, total, part, nodes, width, per_program,
    PARTS: tl.constexpr, ACC: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
    VEC: tl.constexpr,
):  # fmt: skip
    """The sum of the parts where there are several, and its mean and Σ (x − mean)² over the nodes
    of each program, ``[2, runs, programs, width]``."""
    run, there, column, c, inside, _first, at = tile(nodes, width, per_program, COLUMNS, VEC)
    x, second, third, total = x + at, second + at, third + at, total + at
    around = summed(x, second, third, c, inside, PARTS, ACC)
    one = tl.zeros([ROWS, COLUMNS], dtype=ACC)
    two = tl.zeros([ROWS, COLUMNS], dtype=ACC)
    for start in range(0, there, ROWS):
        row = start + tl.arange(0, ROWS)
        both = (row < there)[:, None] & inside[None, :]
        n = row[:, None] * width + c[None, :]
        z = summed(x, second, third, n, both, PARTS, ACC)
        if PARTS > 1:
            tl.store(total + n, z.to(x.dtype.element_ty), mask=both)
        z = tl.where(both, z - around[None, :], 0.0)
        one += z
        two += z * z
    mean = tl.sum(one, axis=0) / there
    square = tl.maximum(tl.sum(two, axis=0) - there * mean * mean, 0.0)
    programs = tl.num_programs(0)
    place = (run * programs + tl.program_id(0)) * width + column + c
    tl.store(part + place, around + mean, mask=inside)
    beyond = tl.num_programs(1).to(tl.int64) * programs * width
    tl.store(part + beyond + place, square, mask=inside)


@triton.jit(do_not_specialize=[*SIZES, "programs", "runs"])
def batch_statistics(
    part, mean, var, nodes, width, per_program, programs, runs,
    ACC: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Mean and variance over all nodes, from those of the programs."""
    run = tl.program_id(0).to(tl.int64)
    c = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    inside = c < width
    beyond = runs.to(tl.int64) * programs * width
    total = tl.zeros([ROWS, COLUMNS], dtype=ACC)
    for start in range(0, programs, ROWS):
        p = start + tl.arange(0, ROWS)
        both = (p < programs)[:, None] & inside[None, :]
        count = tl.minimum(nodes - p * per_program, per_program).to(ACC)
        m = tl.load(part + (run * programs + p[:, None]) * width + c[None, :], mask=both, other=0.0)
        total += m * count[:, None]
    middle = tl.sum(total, axis=0) / nodes
    total = tl.zeros([ROWS, COLUMNS], dtype=ACC)
    for start in range(0, programs, ROWS):
        p = start + tl.arange(0, ROWS)
        both = (p < programs)[:, None] & inside[None, :]
        count = tl.minimum(nodes - p * per_program, per_program).to(ACC)
        place = (run * programs + p[:, None]) * width + c[None, :]
        m = tl.load(part + place, mask=both, other=0.0) - middle[None, :]
        square = tl.load(part + beyond + place, mask=both, other=0.0)
        total += tl.where(both, square + count[:, None] * m * m, 0.0)
    tl.store(mean + run * width + c, middle, mask=inside)
    tl.store(var + run * width + c, tl.sum(total, axis=0) / nodes, mask=inside)


@triton.jit
def normal_form(mean, var, weight, bias, at, inside, EPS: tl.constexpr, ACC: tl.constexpr):
    """Mean, scale, weight and bias of the columns of a program."""
    m = tl.load(mean + at, mask=inside, other=0.0)
    eps = tl.full([], EPS, ACC)  # as a plain number it is a float32
    s = 1 / tl.sqrt(tl.load(var + at, mask=inside, other=0.0) + eps)
    w = tl.load(weight + at, mask=inside, other=0.0).to(ACC)
    b = tl.load(bias + at, mask=inside, other=0.0).to(ACC)
    return m, s, w, b


@triton.jit(do_not_specialize=SIZES)
def batch_norm(
    x, mean, var, weight, bias, y, rate, seed, step, s_step, layer: tl.uint32, nodes, width,
    per_program,
    EPS: tl.constexpr, DROPOUT: tl.constexpr, GROUP: tl.constexpr, LARGE: tl.constexpr,
    ACC: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, VEC: tl.constexpr,
):  # fmt: skip
    """The norm by mean and variance that are known, ReLU and dropout."""
    run, there, column, c, inside, first, at = tile(nodes, width, per_program, COLUMNS, VEC)
    m, s, w, b = normal_form(mean, var, weight, bias, run * width + column + c, inside, EPS, ACC)
    factor = 1.0
    if DROPOUT:
        key, second, threshold, scale = mask_keys(rate, seed, step, s_step, run, layer)
        factor = scale.to(ACC)
    w = w * s
    for start in range(0, there, ROWS):
        row = start + tl.arange(0, ROWS)
        both = (row < there)[:, None] & inside[None, :]
        row = row[:, None] * width
        n = row + c[None, :]
        u = tl.load(x + at + n, mask=both, other=0.0).to(ACC)
        u = (u - m[None, :]) * w[None, :] + b[None, :]
        u = tl.maximum(u, 0.0, propagate_nan=tl.PropagateNan.ALL) * factor
        if DROPOUT:
            keep = keep_mask(first, row, c[None, :], key, second, threshold, GROUP, LARGE)
            u = tl.where(keep, u, 0.0)
        tl.store(y + at + n, u.to(y.dtype.element_ty), mask=both)


@triton.jit(do_not_specialize=SIZES)
def batch_norm_backward(
    g, x, mean, var, weight, bias, sums, dx, rate, seed, step, s_step, layer: tl.uint32, nodes,
    width, per_program, beyond,
    SUMS: tl.constexpr, EPS: tl.constexpr, DROPOUT: tl.constexpr, GROUP: tl.constexpr,
    LARGE: tl.constexpr, ACC: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
    VEC: tl.constexpr,
):  # fmt: skip
    """Σ d and Σ d z over each program's nodes into `sums` if SUMS, else ∂x from those of all."""
    run, there, column, c, inside, first, at = tile(nodes, width, per_program, COLUMNS, VEC)
    own = run * width + column + c
    m, s, w, b = normal_form(mean, var, weight, bias, own, inside, EPS, ACC)
    factor = 1.0
    if DROPOUT:
        key, second, threshold, scale = mask_keys(rate, seed, step, s_step, run, layer)
        factor = scale.to(ACC)
    if SUMS:
        to_b = tl.zeros([ROWS, COLUMNS], dtype=ACC)
        to_w = tl.zeros([ROWS, COLUMNS], dtype=ACC)
    else:
        mean_b = tl.load(sums + own, mask=inside, other=0.0) / nodes
        mean_w = tl.load(sums + beyond + own, mask=inside, other=0.0) / nodes
    for start in range(0, there, ROWS):
        row = start + tl.arange(0, ROWS)
        both = (row < there)[:, None] & inside[None, :]
        row = row[:, None] * width
        n = row + c[None, :]
        z = tl.load(x + at + n, mask=both, other=0.0).to(ACC)
        d = tl.load(g + at + n, mask=both, other=0.0).to(ACC) * factor
        z = (z - m[None, :]) * s[None, :]
        d = tl.where(z * w[None, :] + b[None, :] > 0, d, 0.0)
        if DROPOUT:
            keep = keep_mask(first, row, c[None, :], key, second, threshold, GROUP, LARGE)
            d = tl.where(keep, d, 0.0)
        if SUMS:
            to_b += d
            to_w += d * z
        else:
            d = (d - mean_b[None, :] - z * mean_w[None, :]) * (w * s)[None, :]
            tl.store(dx + at + n, d.to(dx.dtype.element_ty), mask=both)
    if SUMS:
        place = (run * tl.num_programs(0) + tl.program_id(0)) * width + column + c
        tl.store(sums + place, tl.sum(to_b, axis=0), mask=inside)
        tl.store(sums + beyond + place, tl.sum(to_w, axis=0), mask=inside)
