"""The Triton kernels of attention behind :mod:`pdgnn.ops.gpu`.

As in :mod:`pdgnn.ops.gpu_kernels`; a program works on HB heads of a node at a time. Its tile is
``[HB, E, C]`` in this order: Triton then lays channels and heads across the lanes of the warp, and
a sum over edges crosses none. INDEX is the type of places within a run. The indices of the next
tile are read before the sums of this one are done.
"""
# mypy: ignore-errors

from __future__ import annotations

import triton
import triton.language as tl

from pdgnn.ops.gpu_kernels import SIZES, indices, span


@triton.jit
def place_of(
    ptr, chunks, count, rows, heads, channels, blocks,
    HUB: tl.constexpr, INDEX: tl.constexpr, HB: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    """The :func:`span` of a program and its run; then its heads, the channels, which of the heads
    there are, and which columns ``[HB, C]`` of the tile, and these columns."""
    unit, node, block, first, last, whole, chunk = span(
        tl.program_id(0).to(tl.int64), blocks, ptr, chunks, count, rows, HUB
    )
    hd, c = block.to(INDEX) * HB + tl.arange(0, HB), tl.arange(0, C)
    real = hd < heads
    inside = real[:, None] & (c < channels)[None, :]
    column = hd[:, None] * channels + c[None, :]
    run = tl.program_id(1).to(tl.int64)
    return run, unit, node, first, last, whole, chunk, hd, c, real, inside, column


@triton.jit
def tile_of(base, node, there, inside, column, width):
    """The rows of the nodes of E edges, ``[HB, E, C]``: channels, then heads lie across lanes."""
    both = inside[:, None, :] & there[None, :, None]
    return tl.load(base + node[None, :, None] * width + column[:, None, :], mask=both, other=0.0)


@triton.jit
def terms_of(scores, node, attr, slots, w_edge, hd, heads, real, there, first, second, F, ACC):
    """score_node + ⟨w_edge, f_e⟩ of the heads and edges of a tile, ``[HB, E]``."""
    on = real[:, None] & there[None, :]
    z = tl.load(scores + node[None, :] * heads + hd[:, None], mask=on, other=0.0).to(ACC)
    for f in tl.static_range(F):
        value = tl.load(attr + slots * F + f, mask=there, other=0.0).to(ACC)
        if f == 0:
            weight = first
        elif f == 1:
            weight = second
        else:
            weight = tl.load(w_edge + hd * F + f, mask=real, other=0.0).to(ACC)
        z += weight[:, None] * value[None, :]
    return z


@triton.jit(do_not_specialize=SIZES)
def attend(
    x, a_src, a_dst, attr, w_edge, mask, out, lse, neg_out, neg_weight, scratch, stats, ptr, col,
    chunks, count, targets, sources, edges, channels, heads, blocks, a_run,
    SLOPE: tl.constexpr, F: tl.constexpr, MASK: tl.constexpr, KEEP: tl.constexpr,
    HUB: tl.constexpr, ACC: tl.constexpr, INDEX: tl.constexpr, HB: tl.constexpr, C: tl.constexpr,
    E: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """`neg_out` and `neg_weight` are Σ p m x and Σ p over the edges whose z is not positive."""
    run, unit, row, first, last, whole, chunk, hd, c, real, inside, column = place_of(
        ptr, chunks, count, targets, heads, channels, blocks, HUB, INDEX, HB, C
    )
    width = heads * channels
    x += run * sources * width
    a_src += run * sources * heads
    attr += run * a_run
    w_edge += run * heads * F
    mask += run * edges * heads
    w0 = tl.load(w_edge + hd * F, mask=real & (F > 0), other=0.0).to(ACC)
    w1 = tl.load(w_edge + hd * F + 1, mask=real & (F > 1), other=0.0).to(ACC)
    here = (run * targets + row) * heads + hd
    own = tl.load(a_dst + here, mask=hd < tl.where(row < targets, heads, 0), other=0.0).to(ACC)
    acc = tl.zeros([HB, C], dtype=ACC)
    low = tl.zeros([HB, C], dtype=ACC)
    top = tl.full([HB], -float("inf"), dtype=ACC)
    totals = tl.zeros([HB, E], dtype=ACC)  # added up at the end: sums across lanes are dear
    lowers = tl.zeros([HB, E], dtype=ACC)
    node = indices(col, first + tl.arange(0, E), last)
    for start in tl.range(first, last, E, num_stages=STAGES):
        e = start + tl.arange(0, E)
        there = e < last
        j, slots = node.to(INDEX), e.to(INDEX)
        values = tile_of(x, j, there, inside, column, width).to(ACC)
        z = terms_of(a_src, j, attr, slots, w_edge, hd, heads, real, there, w0, w1, F, ACC)
        node = indices(col, e + E, last)
        z += own[:, None]
        s = tl.where(there[None, :], tl.where(z > 0, z, SLOPE * z), -float("inf"))
        higher = tl.maximum(top, tl.max(s, axis=1))
        p = tl.exp(s - higher[:, None])
        shrink = tl.exp(top - higher)
        totals = totals * shrink[:, None] + p
        signed = p
        if KEEP:
            lowers = lowers * shrink[:, None] + tl.where(z > 0, 0.0, p)
            signed = tl.where(z > 0, p, -p)  # crosses lanes once for both sums
        signed = signed[:, :, None]
        weight = tl.abs(signed)
        if MASK:
            on = real[:, None] & there[None, :]
            at = mask + slots[None, :] * heads + hd[:, None]
            weight *= tl.load(at, mask=on, other=0.0).to(ACC)[:, :, None]
        acc = acc * shrink[:, None] + tl.sum(values * weight, axis=1)
        if KEEP:
            low = low * shrink[:, None] + tl.sum(values * tl.where(signed < 0, weight, 0.0), axis=1)
        top = higher
    total, lower = tl.sum(totals, axis=1), tl.sum(lowers, axis=1)
    if chunk:
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
            tl.store(neg_out + place, low.to(neg_out.dtype.element_ty), mask=inside)
            tl.store(neg_weight + here, lower / total, mask=real)


@triton.jit(do_not_specialize=SIZES)
def attend_hub_chunks(
    scratch, stats, out, lse, neg_out, neg_weight, ptr, chunks, count, targets, channels, heads,
    KEEP: tl.constexpr, HUB: tl.constexpr, ACC: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    """The attention of hubs, from the sums of their chunks, each relative to its highest score."""
    pid = tl.program_id(0).to(tl.int64)
    run = tl.program_id(1).to(tl.int64)
    unit, head = pid // heads, pid % heads
    c = tl.arange(0, C)
    inside = c < channels
    row = tl.load(chunks + 2 * unit).to(tl.int64)
    mine = (row < targets) & (tl.load(chunks + 2 * unit + 1) == 0)
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
            tl.store(neg_out + place, (low / total).to(neg_out.dtype.element_ty), mask=inside)
            tl.store(neg_weight + at, lower / total)


@triton.jit(do_not_specialize=SIZES)
def attend_inner(
    g, out, neg_out, neg_weight, inner, da_dst, rows, channels,
    SLOPE: tl.constexpr, ACC: tl.constexpr, C: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """⟨g, out⟩, and ∂a_dst = Σ_e ∂z_e without the edges.

    Σ_e p_e (⟨g, x_e⟩ − inner) = 0, and LeakyReLU′ is 1 or SLOPE, so that the sum is SLOPE − 1 times
    that over the edges of negative z: (SLOPE − 1) (⟨g, neg_out⟩ − inner · neg_weight).
    """
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    c = tl.arange(0, C)
    at = row[:, None] * channels + c[None, :]
    both = (row < rows)[:, None] & (c < channels)[None, :]
    gi = tl.load(g + at, mask=both, other=0.0).to(ACC)
    product = tl.sum(gi * tl.load(out + at, mask=both, other=0.0).to(ACC), axis=1)
    lower = tl.sum(gi * tl.load(neg_out + at, mask=both, other=0.0).to(ACC), axis=1)
    lower -= product * tl.load(neg_weight + row, mask=row < rows, other=0.0)
    tl.store(inner + row, product, mask=row < rows)
    tl.store(da_dst + row, ((SLOPE - 1) * lower).to(da_dst.dtype.element_ty), mask=row < rows)


@triton.jit(do_not_specialize=SIZES)
def attend_backward(
    g, x, a_src, a_dst, attr, w_edge, mask, lse, inner, dx, da_src, dw, dz, scratch, scratch_a, ptr,
    row_of, slot_of, chunks, count, targets, sources, edges, channels, heads, blocks, a_run,
    SLOPE: tl.constexpr, F: tl.constexpr, MASK: tl.constexpr, SCORES: tl.constexpr,
    HUB: tl.constexpr, ACC: tl.constexpr, INDEX: tl.constexpr, HB: tl.constexpr, C: tl.constexpr,
    E: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    run, unit, source, first, last, whole, chunk, hd, c, real, inside, column = place_of(
        ptr, chunks, count, sources, heads, channels, blocks, HUB, INDEX, HB, C
    )
    width = heads * channels
    g += run * targets * width
    a_dst += run * targets * heads
    lse += run * targets * heads
    inner += run * targets * heads
    attr += run * a_run
    w_edge += run * heads * F
    mask += run * edges * heads
    dz += run * edges * heads
    w0 = tl.load(w_edge + hd * F, mask=real & (F > 0), other=0.0).to(ACC)
    w1 = tl.load(w_edge + hd * F + 1, mask=real & (F > 1), other=0.0).to(ACC)
    present = hd < tl.where(source < sources, heads, 0)
    here = (run * sources + source) * heads + hd
    own = tl.load(a_src + here, mask=present, other=0.0).to(ACC)
    at_x = (run * sources + source) * width + column
    its = present[:, None] & (c < channels)[None, :]
    xj = tl.load(x + at_x, mask=its, other=0.0).to(ACC)
    acc = tl.zeros([HB, C], dtype=ACC)
    totals = tl.zeros([HB, E], dtype=ACC)  # added up at the end: sums across lanes are dear
    to_w0 = tl.zeros([HB, E], dtype=ACC)
    to_w1 = tl.zeros([HB, E], dtype=ACC)
    target = indices(row_of, first + tl.arange(0, E), last)
    slot = indices(slot_of, first + tl.arange(0, E), last)
    for start in tl.range(first, last, E, num_stages=STAGES):
        e = start + tl.arange(0, E)
        there = e < last
        on = real[:, None] & there[None, :]
        i, slots = target.to(INDEX), slot.to(INDEX)
        gi = tile_of(g, i, there, inside, column, width).to(ACC)
        z = terms_of(a_dst, i, attr, slots, w_edge, hd, heads, real, there, w0, w1, F, ACC)
        per_target = i[None, :] * heads + hd[:, None]
        log_sum = tl.load(lse + per_target, mask=on, other=0.0)
        mean = tl.load(inner + per_target, mask=on, other=0.0)
        target = indices(row_of, e + E, last)
        slot = indices(slot_of, e + E, last)
        z += own[:, None]
        p = tl.where(on, tl.exp(tl.where(z > 0, z, SLOPE * z) - log_sum), 0.0)
        kept = p
        dp = tl.sum(gi * xj[:, None, :], axis=2)
        if MASK:
            m = tl.load(mask + slots[None, :] * heads + hd[:, None], mask=on, other=0.0).to(ACC)
            dp, kept = dp * m, p * m
        acc += tl.sum(gi * kept[:, :, None], axis=1)
        d = p * (dp - mean)
        d = tl.where(z > 0, d, SLOPE * d)
        totals += d
        if F > 0:
            to_w0 += d * tl.load(attr + slots * F, mask=there, other=0.0).to(ACC)[None, :]
        if F > 1:
            to_w1 += d * tl.load(attr + slots * F + 1, mask=there, other=0.0).to(ACC)[None, :]
        if SCORES:
            tl.store(dz + slots[None, :] * heads + hd[:, None], d, mask=on)
    total = tl.sum(totals, axis=1)
    if whole:
        tl.store(dx + at_x, acc.to(dx.dtype.element_ty), mask=inside)
        tl.store(da_src + here, total.to(da_src.dtype.element_ty), mask=real)
    at = (run * count + unit) * heads + hd
    if chunk:
        tl.store(scratch + at[:, None] * channels + c[None, :], acc, mask=inside)
        tl.store(scratch_a + at, total, mask=real)
    at = (run * (count + sources) + unit) * heads + hd  # a place of its own for every unit
    if F > 0:
        tl.store(dw + at * F, tl.sum(to_w0, axis=1), mask=real)
    if F > 1:
        tl.store(dw + at * F + 1, tl.sum(to_w1, axis=1), mask=real)


@triton.jit(do_not_specialize=SIZES)
def attend_dot(
    q, k, v, out, lse, scratch, stats, ptr, col, chunks, count, targets, sources, channels, heads,
    blocks,
    SCALE: tl.constexpr, HUB: tl.constexpr, ACC: tl.constexpr, INDEX: tl.constexpr,
    HB: tl.constexpr, C: tl.constexpr, E: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    run, unit, row, first, last, whole, chunk, hd, c, real, inside, column = place_of(
        ptr, chunks, count, targets, heads, channels, blocks, HUB, INDEX, HB, C
    )
    width = heads * channels
    k += run * sources * width
    v += run * sources * width
    place = (run * targets + row) * width + column
    present = hd < tl.where(row < targets, heads, 0)
    its = present[:, None] & (c < channels)[None, :]
    qi = tl.load(q + place, mask=its, other=0.0).to(ACC) * SCALE
    acc = tl.zeros([HB, C], dtype=ACC)
    top = tl.full([HB], -float("inf"), dtype=ACC)
    totals = tl.zeros([HB, E], dtype=ACC)  # added up at the end: sums across lanes are dear
    node = indices(col, first + tl.arange(0, E), last)
    for start in tl.range(first, last, E, num_stages=STAGES):
        e = start + tl.arange(0, E)
        there = e < last
        j = node.to(INDEX)
        keys = tile_of(k, j, there, inside, column, width).to(ACC)
        values = tile_of(v, j, there, inside, column, width).to(ACC)
        node = indices(col, e + E, last)
        s = tl.sum(keys * qi[:, None, :], axis=2)
        s = tl.where(there[None, :], s, -float("inf"))
        higher = tl.maximum(top, tl.max(s, axis=1))
        p, shrink = tl.exp(s - higher[:, None]), tl.exp(top - higher)
        totals = totals * shrink[:, None] + p
        acc = acc * shrink[:, None] + tl.sum(values * p[:, :, None], axis=1)
        top = higher
    total = tl.sum(totals, axis=1)
    if chunk:
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
    g, q, k, v, lse, inner, dk, dv, ds, scratch_k, scratch_v, ptr, row_of, slot_of, chunks, count,
    targets, sources, edges, channels, heads, blocks,
    SCALE: tl.constexpr, HUB: tl.constexpr, ACC: tl.constexpr, INDEX: tl.constexpr,
    HB: tl.constexpr, C: tl.constexpr, E: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    run, unit, source, first, last, whole, chunk, hd, c, real, inside, column = place_of(
        ptr, chunks, count, sources, heads, channels, blocks, HUB, INDEX, HB, C
    )
    width = heads * channels
    g += run * targets * width
    q += run * targets * width
    lse += run * targets * heads
    inner += run * targets * heads
    ds += run * edges * heads
    here = (run * sources + source) * width + column
    present = hd < tl.where(source < sources, heads, 0)
    its = present[:, None] & (c < channels)[None, :]
    kj = tl.load(k + here, mask=its, other=0.0).to(ACC)
    vj = tl.load(v + here, mask=its, other=0.0).to(ACC)
    to_k = tl.zeros([HB, C], dtype=ACC)
    to_v = tl.zeros([HB, C], dtype=ACC)
    target = indices(row_of, first + tl.arange(0, E), last)
    slot = indices(slot_of, first + tl.arange(0, E), last)
    for start in tl.range(first, last, E, num_stages=STAGES):
        e = start + tl.arange(0, E)
        there = e < last
        on = real[:, None] & there[None, :]
        i, slots = target.to(INDEX), slot.to(INDEX)
        qi = tile_of(q, i, there, inside, column, width).to(ACC)
        gi = tile_of(g, i, there, inside, column, width).to(ACC)
        per_target = i[None, :] * heads + hd[:, None]
        log_sum = tl.load(lse + per_target, mask=on, other=0.0)
        mean = tl.load(inner + per_target, mask=on, other=0.0).to(ACC)
        target = indices(row_of, e + E, last)
        slot = indices(slot_of, e + E, last)
        s = SCALE * tl.sum(qi * kj[:, None, :], axis=2)
        p = tl.where(on, tl.exp(s - log_sum), 0.0)
        d = SCALE * p * (tl.sum(gi * vj[:, None, :], axis=2) - mean)
        to_v += tl.sum(gi * p[:, :, None], axis=1)
        to_k += tl.sum(qi * d[:, :, None], axis=1)
        tl.store(ds + slots[None, :] * heads + hd[:, None], d, mask=on)
    if whole:
        tl.store(dk + here, to_k.to(dk.dtype.element_ty), mask=inside)
        tl.store(dv + here, to_v.to(dv.dtype.element_ty), mask=inside)
    if chunk:
        at = ((run * count + unit) * heads + hd)[:, None] * channels + c[None, :]
        tl.store(scratch_k + at, to_k, mask=inside)
        tl.store(scratch_v + at, to_v, mask=inside)
