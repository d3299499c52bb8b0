"""The kernels of :mod:`pdgnn.ops.cpu`, compiled by numba: each does one part of all rows.

Arrays are C-contiguous with a batch of runs in front. The rows of all runs are cut into parts of
equal cost, and a row is done by one part, edge by edge in its order: the result depends neither on
the number of parts nor on the threads that do them. Edges are taken in blocks whose scores lie in
a scratch ``[BLOCK, H]``, and four at a time where rows of channels are read, so that the innermost
loop runs over contiguous channels and stores once for four loads. Arrays are passed and indexed
whole: a view costs a reference count, which all threads would share.

A layout is (pointers, index, slot): that by target with the sources in `index`, or that by source
with the targets. `slot` names the slot of each edge; it is empty where an edge is its own slot. An
optional array that is not given is empty too.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pdgnn.ops.cpu_math import exp
from pdgnn.ops.cpu_numba import Array, Arrays, inline, kernel

BLOCK = 32
"""Edges whose scores are held at once: few enough that their channels are still in a near cache."""


# --- steps ----------------------------------------------------------------------------------------


@inline
def _boundary(part: int, parts: int, batch: int, pointers: Array) -> Any:
    """The first of the batch · n rows of a part; a row costs its edges and one more."""
    n = pointers.size - 1
    cost = pointers[n] + n
    at = batch * cost * part // parts
    run = at // max(cost, 1)
    at -= run * cost
    low, high = 0, n
    while low < high:
        middle = (low + high) // 2
        if pointers[middle] + middle < at:
            low = middle + 1
        else:
            high = middle
    return run * n + low


@inline
def _rows(part: int, parts: int, batch: int, pointers: Array) -> range:
    """The rows of a part, run after run."""
    first = _boundary(part, parts, batch, pointers)
    return range(first, _boundary(part + 1, parts, batch, pointers))


@inline
def _gather(out: Array, values: Array, b: int, slot: Array, first: int, count: int) -> None:
    """The values ``[1 or B, E, H]`` of the next `count` edges, in the scratch."""
    run = 0 if values.shape[0] == 1 else b
    for u in range(count):
        e = slot[first + u] if slot.size else first + u
        for h in range(values.shape[2]):
            out[u, h] = values[run, e, h]


@inline
def _fill(out: Array, b: int, i: int, value: float) -> None:
    """A row ``[H, C]`` of one value."""
    for h in range(out.shape[2]):
        for c in range(out.shape[3]):
            out[b, i, h, c] = value


@inline
def _accumulate(
    out: Array, b: int, i: int, w: Array, x: Array, index: Array, first: int, count: int
) -> None:
    """out_i += Σ_u w_u x_j with j = index[first + u], of each head."""
    u = 0
    while u + 4 <= count:
        t = first + u
        j0, j1, j2, j3 = index[t], index[t + 1], index[t + 2], index[t + 3]
        for h in range(out.shape[2]):
            w0, w1, w2, w3 = w[u, h], w[u + 1, h], w[u + 2, h], w[u + 3, h]
            for c in range(out.shape[3]):
                low = w0 * x[b, j0, h, c] + w1 * x[b, j1, h, c]
                out[b, i, h, c] += low + (w2 * x[b, j2, h, c] + w3 * x[b, j3, h, c])
        u += 4
    while u < count:
        j0 = index[first + u]
        for h in range(out.shape[2]):
            w0 = w[u, h]
            for c in range(out.shape[3]):
                out[b, i, h, c] += w0 * x[b, j0, h, c]
        u += 1


@inline
def _dots(
    dot: Array, g: Array, b: int, i: int, x: Array, index: Array, first: int, count: int
) -> None:
    """dot_u = ⟨g_i, x_j⟩ with j = index[first + u], of each head."""
    u = 0
    while u + 4 <= count:
        t = first + u
        j0, j1, j2, j3 = index[t], index[t + 1], index[t + 2], index[t + 3]
        for h in range(g.shape[2]):
            d0 = d1 = d2 = d3 = g.dtype.type(0)
            for c in range(g.shape[3]):
                own = g[b, i, h, c]
                d0 += own * x[b, j0, h, c]
                d1 += own * x[b, j1, h, c]
                d2 += own * x[b, j2, h, c]
                d3 += own * x[b, j3, h, c]
            dot[u, h], dot[u + 1, h], dot[u + 2, h], dot[u + 3, h] = d0, d1, d2, d3
        u += 4
    while u < count:
        j0 = index[first + u]
        for h in range(g.shape[2]):
            d0 = g.dtype.type(0)
            for c in range(g.shape[3]):
                d0 += g[b, i, h, c] * x[b, j0, h, c]
            dot[u, h] = d0
        u += 1


@inline
def _dots_and_sums(
    dot: Array,
    out: Array,
    w: Array,
    x: Array,
    b: int,
    j: int,
    g: Array,
    index: Array,
    first: int,
    count: int,
) -> None:
    """dot_u = ⟨x_j, g_i⟩ and out_j += Σ_u w_u g_i with i = index[first + u]: g_i is read once."""
    u = 0
    while u + 4 <= count:
        t = first + u
        i0, i1, i2, i3 = index[t], index[t + 1], index[t + 2], index[t + 3]
        for h in range(x.shape[2]):
            w0, w1, w2, w3 = w[u, h], w[u + 1, h], w[u + 2, h], w[u + 3, h]
            d0 = d1 = d2 = d3 = x.dtype.type(0)
            for c in range(x.shape[3]):
                own = x[b, j, h, c]
                g0, g1, g2, g3 = g[b, i0, h, c], g[b, i1, h, c], g[b, i2, h, c], g[b, i3, h, c]
                d0 += own * g0
                d1 += own * g1
                d2 += own * g2
                d3 += own * g3
                out[b, j, h, c] += (w0 * g0 + w1 * g1) + (w2 * g2 + w3 * g3)
            dot[u, h], dot[u + 1, h], dot[u + 2, h], dot[u + 3, h] = d0, d1, d2, d3
        u += 4
    while u < count:
        i0 = index[first + u]
        for h in range(x.shape[2]):
            w0 = w[u, h]
            d0 = x.dtype.type(0)
            for c in range(x.shape[3]):
                d0 += x[b, j, h, c] * g[b, i0, h, c]
                out[b, j, h, c] += w0 * g[b, i0, h, c]
            dot[u, h] = d0
        u += 1


@inline
def _logits(
    z: Array,
    a: Array,
    b: int,
    i: int,
    other: Array,
    index: Array,
    attr: Array,
    w_edge: Array,
    slot: Array,
    first: int,
    count: int,
) -> None:
    """z_u = a_i + other_j + ⟨w_edge, attr_e⟩ with j = index[first + u]; w_edge is ``[B, F, H]``."""
    run = 0 if attr.shape[0] == 1 else b
    for u in range(count):
        j = index[first + u]
        for h in range(a.shape[2]):
            z[u, h] = a[b, i, h] + other[b, j, h]
        for f in range(attr.shape[2]):
            value = attr[run, slot[first + u] if slot.size else first + u, f]
            for h in range(a.shape[2]):
                z[u, h] += value * w_edge[b, f, h]


@inline
def _softmax(
    s: Array, flat: Array, top: Array, total: Array, out: Array, b: int, i: int, count: int
) -> None:
    """exp(s − top_i) in place of s, one more block of a softmax whose numerators are summed.

    Where the block has a new maximum, what `total` and `out` hold so far is scaled to it.
    """
    for h in range(out.shape[2]):
        high = top[b, i, h]
        for u in range(count):
            high = max(high, s[u, h])
        if high > top[b, i, h]:
            if total[b, i, h] > 0:
                scale = exp(top[b, i, h] - high)
                total[b, i, h] *= scale
                for c in range(out.shape[3]):
                    out[b, i, h, c] *= scale
            top[b, i, h] = high
    for u in range(count):
        for h in range(out.shape[2]):
            s[u, h] -= top[b, i, h]
    for k in range(count * out.shape[2]):
        flat[k] = exp(flat[k])
    for u in range(count):
        for h in range(out.shape[2]):
            total[b, i, h] += s[u, h]


@inline
def _normalise(out: Array, total: Array, b: int, i: int) -> None:
    for h in range(out.shape[2]):
        for c in range(out.shape[3]):
            out[b, i, h, c] /= total[b, i, h]


# --- kernels --------------------------------------------------------------------------------------


@kernel
def spmm(part: int, parts: int, args: Arrays) -> None:
    """out_i = Σ_e w_e x_j, or its transpose given the layout by source."""
    pointers, index, slot, x, weight, out = args
    w = np.empty((BLOCK, x.shape[2]), x.dtype)
    for r in _rows(part, parts, len(x), pointers):
        b, i = r // (pointers.size - 1), r % (pointers.size - 1)
        _fill(out, b, i, 0)
        for first in range(pointers[i], pointers[i + 1], BLOCK):
            count = min(BLOCK, pointers[i + 1] - first)
            _gather(w, weight, b, slot, first, count)
            _accumulate(out, b, i, w, x, index, first, count)


@kernel
def sddmm(part: int, parts: int, args: Arrays) -> None:
    """out_e = ⟨g_i, x_j⟩."""
    pointers, index, _, g, x, out = args
    dot = np.empty((BLOCK, x.shape[2]), x.dtype)
    for r in _rows(part, parts, len(x), pointers):
        b, i = r // (pointers.size - 1), r % (pointers.size - 1)
        for first in range(pointers[i], pointers[i + 1], BLOCK):
            count = min(BLOCK, pointers[i + 1] - first)
            _dots(dot, g, b, i, x, index, first, count)
            for u in range(count):
                for h in range(x.shape[2]):
                    out[b, first + u, h] = dot[u, h]


@kernel
def edge_sum(part: int, parts: int, args: Arrays) -> None:
    """out_i = Σ_e v_e."""
    pointers, _, _, values, out = args
    for r in _rows(part, parts, len(values), pointers):
        b, i = r // (pointers.size - 1), r % (pointers.size - 1)
        for h in range(out.shape[2]):
            out[b, i, h] = 0
        for e in range(pointers[i], pointers[i + 1]):
            for h in range(out.shape[2]):
                out[b, i, h] += values[b, e, h]


@kernel
def attend(part: int, parts: int, args: Arrays) -> None:
    """out_i = Σ_e softmax_e(LeakyReLU(z_e)) m_e x_j; lse is top + log(total), given as −∞ and 0."""
    pointers, index, slot, x, a_src, a_dst, attr, w_edge, mask, slope, out, top, total = args
    s = np.empty((BLOCK, x.shape[2]), x.dtype)
    m, flat = np.empty((BLOCK, x.shape[2]), x.dtype), s.reshape(-1)
    for r in _rows(part, parts, len(x), pointers):
        b, i = r // (pointers.size - 1), r % (pointers.size - 1)
        _fill(out, b, i, 0)
        for first in range(pointers[i], pointers[i + 1], BLOCK):
            count = min(BLOCK, pointers[i + 1] - first)
            _logits(s, a_dst, b, i, a_src, index, attr, w_edge, slot, first, count)
            for k in range(count * x.shape[2]):
                flat[k] = flat[k] if flat[k] > 0 else slope * flat[k]
            _softmax(s, flat, top, total, out, b, i, count)
            if mask.size:
                _gather(m, mask, b, slot, first, count)
                for u in range(count):
                    for h in range(x.shape[2]):
                        s[u, h] *= m[u, h]
            _accumulate(out, b, i, s, x, index, first, count)
        if pointers[i] < pointers[i + 1]:
            _normalise(out, total, b, i)


@kernel
def attend_backward(part: int, parts: int, args: Arrays) -> None:
    """∂z_e = LeakyReLU′(z_e) p_e (m_e ⟨g_i, x_j⟩ − inner_i), ∂a_j = Σ_e ∂z_e and
    ∂x_j = Σ_e p_e m_e g_i, where p_e = exp(LeakyReLU(z_e) − lse_i).
    """
    pointers, index, slot, g, x, a_src, a_dst, attr, w_edge, mask, lse, inner = args[:12]
    slope, dx, da_src, dz = args[12:]
    heads, one = x.shape[2], x.dtype.type(1)
    p, m = np.empty((BLOCK, heads), x.dtype), np.empty((BLOCK, heads), x.dtype)
    rise, dot = np.empty((BLOCK, heads), x.dtype), np.empty((BLOCK, heads), x.dtype)
    flat, flat_rise = p.reshape(-1), rise.reshape(-1)
    for r in _rows(part, parts, len(x), pointers):
        b, j = r // (pointers.size - 1), r % (pointers.size - 1)
        _fill(dx, b, j, 0)
        for h in range(heads):
            da_src[b, j, h] = 0
        for first in range(pointers[j], pointers[j + 1], BLOCK):
            count = min(BLOCK, pointers[j + 1] - first)
            _logits(p, a_src, b, j, a_dst, index, attr, w_edge, slot, first, count)
            for k in range(count * heads):
                flat_rise[k] = one if flat[k] > 0 else slope
                flat[k] *= flat_rise[k]
            for u in range(count):
                for h in range(heads):
                    p[u, h] -= lse[b, index[first + u], h]
            for k in range(count * heads):
                flat[k] = exp(flat[k])
                flat_rise[k] *= flat[k]
            if mask.size:
                _gather(m, mask, b, slot, first, count)
                for u in range(count):
                    for h in range(heads):
                        p[u, h] *= m[u, h]
            _dots_and_sums(dot, dx, p, x, b, j, g, index, first, count)
            for u in range(count):
                i, e = index[first + u], slot[first + u]
                for h in range(heads):
                    d = dot[u, h] * m[u, h] if mask.size else dot[u, h]
                    d = rise[u, h] * (d - inner[b, i, h])
                    dz[b, e, h] = d
                    da_src[b, j, h] += d


@kernel
def attend_dot(part: int, parts: int, args: Arrays) -> None:
    """out_i = Σ_e softmax_e(scale ⟨q_i, k_j⟩) v_j; lse is top + log(total), given as −∞ and 0."""
    pointers, index, _, q, k, v, scale, out, top, total = args
    s = np.empty((BLOCK, q.shape[2]), q.dtype)
    flat = s.reshape(-1)
    for r in _rows(part, parts, len(q), pointers):
        b, i = r // (pointers.size - 1), r % (pointers.size - 1)
        _fill(out, b, i, 0)
        for first in range(pointers[i], pointers[i + 1], BLOCK):
            count = min(BLOCK, pointers[i + 1] - first)
            _dots(s, q, b, i, k, index, first, count)
            for u in range(count * q.shape[2]):
                flat[u] *= scale
            _softmax(s, flat, top, total, out, b, i, count)
            _accumulate(out, b, i, s, v, index, first, count)
        if pointers[i] < pointers[i + 1]:
            _normalise(out, total, b, i)


@kernel
def attend_dot_backward(part: int, parts: int, args: Arrays) -> None:
    """∂s_e = scale p_e (⟨g_i, v_j⟩ − inner_i), ∂k_j = Σ_e ∂s_e q_i, ∂v_j = Σ_e p_e g_i."""
    pointers, index, slot, g, q, k, v, lse, inner, scale, dk, dv, ds = args
    heads = k.shape[2]
    p, d = np.empty((BLOCK, heads), k.dtype), np.empty((BLOCK, heads), k.dtype)
    flat = p.reshape(-1)
    for r in _rows(part, parts, len(k), pointers):
        b, j = r // (pointers.size - 1), r % (pointers.size - 1)
        _fill(dk, b, j, 0)
        _fill(dv, b, j, 0)
        for first in range(pointers[j], pointers[j + 1], BLOCK):
            count = min(BLOCK, pointers[j + 1] - first)
            _dots(p, k, b, j, q, index, first, count)
            for u in range(count):
                for h in range(heads):
                    p[u, h] = scale * p[u, h] - lse[b, index[first + u], h]
            for u in range(count * heads):
                flat[u] = exp(flat[u])
            _dots_and_sums(d, dv, p, v, b, j, g, index, first, count)
            for u in range(count):
                i, e = index[first + u], slot[first + u]
                for h in range(heads):
                    d[u, h] = scale * p[u, h] * (d[u, h] - inner[b, i, h])
                    ds[b, e, h] = d[u, h]
            _accumulate(dk, b, j, d, q, index, first, count)
