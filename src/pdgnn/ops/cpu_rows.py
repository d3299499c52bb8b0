"""The kernels of :mod:`pdgnn.ops.cpu_dense`: each reads and writes the rows ``[B, N, D]`` once.

The rows of each run are taken in chunks of `ROWS`. A sum over all rows is a sum of each chunk, row
after row, then of the chunks, so that it depends on the run alone: not on the other runs, nor on
the parts and the threads that do them. An optional array that is not given is empty.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pdgnn.ops.cpu_math import normal
from pdgnn.ops.cpu_numba import Array, Arrays, inline, kernel, step

u32 = np.uint32
ROWS = 64
"""Rows of a chunk."""
ELEMENTS = 1024
"""Elements of a chunk where there are no rows."""


# --- steps ----------------------------------------------------------------------------------------


@inline
def _chunks(part: int, parts: int, batch: int, chunks: int) -> range:
    """The chunks of a part, run after run."""
    return range(batch * chunks * part // parts, batch * chunks * (part + 1) // parts)


@step
def _mix(x: Any) -> Any:
    """The bijection of :mod:`pdgnn.ops.reference`, on unsigned 32-bit integers.

    numba makes 64 bits of every result, and half as many of these fit into a vector.
    """
    x = u32(x ^ u32(x >> u32(16)))
    x = u32(x * u32(0x7FEB352D))
    x = u32(x ^ u32(x >> u32(15)))
    x = u32(x * u32(0x846CA68B))
    return u32(x ^ u32(x >> u32(16)))


@step
def _key(seed: int, step: int, layer: int) -> Any:
    """What the random numbers of a run, a step and a layer have in common."""
    key = _mix(u32(_mix(u32(u32(seed) ^ u32(0x9E3779B9))) ^ u32(seed >> 32)))
    return _mix(u32(_mix(u32(key ^ u32(step))) ^ u32(layer)))


@step
def _draw(factor: Array, count: int, start: int, key: Any, p: Any) -> None:
    """The factors of `count` elements from `start` on: 1 / (1 − p) where one is kept, else 0.

    Their numbers are bits / 2^24: they are at least p where the bits are at least `least`.
    """
    low, high, one, zero = u32(start), u32(start >> 32), np.float32(1), factor.dtype.type(0)
    least = u32(max(np.ceil(np.float64(p) * 2.0**24), 0.0)) if p < 1 else u32(1 << 24)
    scale = factor.dtype.type(one / (one - p)) if p < 1 else zero
    second = _mix(u32(key ^ u32(0x85EBCA6B)))
    for u in range(count):
        element = u32(low + u32(u))
        over = u32(high + u32(element < low))
        first = u32(_mix(u32(element ^ key)) ^ over)
        bits = u32(_mix(u32(first + second)) >> u32(8))
        factor[u] = scale if bits >= least else zero


@step
def _times(x: float, factor: float) -> Any:
    """x · factor, and 0 where x is dropped, whatever it is."""
    return x * factor if factor > 0 else factor


# --- kernels --------------------------------------------------------------------------------------


@kernel
def dropout(part: int, parts: int, args: Arrays) -> None:
    """x / (1 − p) where its random number is at least p, else 0; x is ``[B, size]``."""
    x, p, seeds, steps, layer, first, out = args
    batch, size = x.shape
    factor, chunks = np.empty(ELEMENTS, x.dtype), (size + ELEMENTS - 1) // ELEMENTS
    for k in _chunks(part, parts, batch, chunks):
        b, start = k // chunks, k % chunks * ELEMENTS
        values, kept = x[b, start : start + ELEMENTS], out[b, start : start + ELEMENTS]
        _draw(factor, values.size, first + start, _key(seeds[b], steps[b], layer), p[b])
        for u in range(values.size):
            kept[u] = _times(values[u], factor[u])


@kernel
def activate(part: int, parts: int, args: Arrays) -> None:
    """GELU(u) = u Φ(u), or residual + u, of u = dropout(h + bias)."""
    h, bias, residual, p, seeds, steps, layer, first, out = args
    batch, n, width = h.shape
    factor, chunks = np.ones(width, h.dtype), (n + ROWS - 1) // ROWS
    for k in _chunks(part, parts, batch, chunks):
        b, start = k // chunks, k % chunks * ROWS
        key = _key(seeds[b], steps[b], layer) if p.size else u32(0)
        for i in range(start, min(start + ROWS, n)):
            if p.size:
                _draw(factor, width, first + i * width, key, p[b])
            if residual.size:
                for d in range(width):
                    out[b, i, d] = residual[b, i, d] + _times(h[b, i, d] + bias[b, d], factor[d])
            else:
                for d in range(width):
                    u = _times(h[b, i, d] + bias[b, d], factor[d])
                    out[b, i, d] = u * normal(u)[0]


@kernel
def activate_backward(part: int, parts: int, args: Arrays) -> None:
    """∂h = dropout(g ⊙ (Φ(u) + u φ(u))), or dropout(g) without `gelu`, and its sum over a chunk."""
    g, h, bias, gelu, p, seeds, steps, layer, first, dh, sums = args
    batch, n, width = g.shape
    factor, chunks = np.ones(width, g.dtype), sums.shape[1]
    for k in _chunks(part, parts, batch, chunks):
        b, c = k // chunks, k % chunks
        key = _key(seeds[b], steps[b], layer) if p.size else u32(0)
        for d in range(width):
            sums[b, c, d] = 0
        for i in range(c * ROWS, min(c * ROWS + ROWS, n)):
            if p.size:
                _draw(factor, width, first + i * width, key, p[b])
            if gelu:
                for d in range(width):
                    u = _times(h[b, i, d] + bias[b, d], factor[d])
                    below, density = normal(u)
                    dh[b, i, d] = _times(g[b, i, d] * (below + u * density), factor[d])
            else:
                for d in range(width):
                    dh[b, i, d] = _times(g[b, i, d], factor[d])
            for d in range(width):
                sums[b, c, d] += dh[b, i, d]


@kernel
def layer_norm(part: int, parts: int, args: Arrays) -> None:
    """y = w ⊙ (x − mean) · scale + b."""
    x, weight, bias, eps, y, mean, scale = args
    batch, n, width = x.shape
    chunks = (n + ROWS - 1) // ROWS
    for k in _chunks(part, parts, batch, chunks):
        b, start = k // chunks, k % chunks * ROWS
        for i in range(start, min(start + ROWS, n)):
            total = square = x.dtype.type(0)
            for d in range(width):
                total += x[b, i, d]
            centre = total / x.dtype.type(width)
            for d in range(width):
                square += (x[b, i, d] - centre) * (x[b, i, d] - centre)
            rise = x.dtype.type(1) / np.sqrt(square / x.dtype.type(width) + eps)
            mean[b, i], scale[b, i] = centre, rise
            for d in range(width):
                y[b, i, d] = (x[b, i, d] - centre) * rise * weight[b, d] + bias[b, d]


@kernel
def layer_norm_backward(part: int, parts: int, args: Arrays) -> None:
    """∂x = scale (u − ⟨u⟩ − z ⟨u z⟩) + passed; the sums ``[2, D]`` of g z and of g over a chunk.

    z = (x − mean) · scale and u = g ⊙ w.
    """
    g, passed, x, weight, mean, scale, dx, sums = args
    batch, n, width = x.shape
    chunks, share = sums.shape[1], x.dtype.type(1) / x.dtype.type(width)
    for k in _chunks(part, parts, batch, chunks):
        b, c = k // chunks, k % chunks
        for d in range(width):
            sums[b, c, 0, d] = sums[b, c, 1, d] = 0
        for i in range(c * ROWS, min(c * ROWS + ROWS, n)):
            centre, rise = mean[b, i], scale[b, i]
            of_u = of_uz = x.dtype.type(0)
            for d in range(width):
                z = (x[b, i, d] - centre) * rise
                of_u += g[b, i, d] * weight[b, d]
                of_uz += g[b, i, d] * weight[b, d] * z
                sums[b, c, 0, d] += g[b, i, d] * z
                sums[b, c, 1, d] += g[b, i, d]
            of_u, of_uz = of_u * share, of_uz * share
            for d in range(width):
                z = (x[b, i, d] - centre) * rise
                dx[b, i, d] = (g[b, i, d] * weight[b, d] - of_u - z * of_uz) * rise
            if passed.size:
                for d in range(width):
                    dx[b, i, d] += passed[b, i, d]


@kernel
def score_nodes(part: int, parts: int, args: Arrays) -> None:
    """x = h + bias (written only with a bias), ⟨att_src, x⟩ and ⟨att_dst, x⟩ of each head."""
    h, bias, att_src, att_dst, x, a_src, a_dst = args
    batch, n, heads, width = h.shape
    chunks = (n + ROWS - 1) // ROWS
    for k in _chunks(part, parts, batch, chunks):
        b, start = k // chunks, k % chunks * ROWS
        for i in range(start, min(start + ROWS, n)):
            for v in range(heads):
                if bias.size:
                    for c in range(width):
                        x[b, i, v, c] = h[b, i, v, c] + bias[b, v, c]
                source = target = h.dtype.type(0)
                for c in range(width):
                    source += x[b, i, v, c] * att_src[b, v, c]
                    target += x[b, i, v, c] * att_dst[b, v, c]
                a_src[b, i, v], a_dst[b, i, v] = source, target


@kernel
def score_nodes_backward(part: int, parts: int, args: Arrays) -> None:
    """∂h = g + g_src att_src + g_dst att_dst; sums ``[3, H, C]`` of ∂h, g_src x and g_dst x."""
    g, g_src, g_dst, x, att_src, att_dst, dh, sums = args
    batch, n, heads, width = x.shape
    chunks = sums.shape[1]
    for k in _chunks(part, parts, batch, chunks):
        b, q = k // chunks, k % chunks
        sums[b, q] = 0
        for i in range(q * ROWS, min(q * ROWS + ROWS, n)):
            for v in range(heads):
                source, target = g_src[b, i, v], g_dst[b, i, v]
                for c in range(width):
                    u = g[b, i, v, c] + source * att_src[b, v, c] + target * att_dst[b, v, c]
                    dh[b, i, v, c] = u
                    sums[b, q, 0, v, c] += u
                    sums[b, q, 1, v, c] += source * x[b, i, v, c]
                    sums[b, q, 2, v, c] += target * x[b, i, v, c]


@kernel
def sum_of_chunks(part: int, parts: int, args: Arrays) -> None:
    """out = Σ_c sums_c: ``[B, chunks, K]`` to ``[B, K]``."""
    sums, out = args
    batch, chunks, width = sums.shape
    total = np.empty(width)
    for b in range(batch * part // parts, batch * (part + 1) // parts):
        for d in range(width):
            total[d] = 0
        for c in range(chunks):
            for d in range(width):
                total[d] += sums[b, c, d]
        for d in range(width):
            out[b, d] = total[d]


@kernel
def adamw(part: int, parts: int, args: Arrays) -> None:
    """m ← m + α (g − m),  v ← β v + γ g²,  θ ← decay · θ − rate · m / (√v / root + ε)."""
    theta, mean, square, grads, decay, rate, root, alpha, beta, gamma, eps = args
    batch, size = theta.shape
    chunks = (size + ELEMENTS - 1) // ELEMENTS
    for k in _chunks(part, parts, batch, chunks):
        r, start = k // chunks, k % chunks * ELEMENTS
        stop, kept, rise, below = start + ELEMENTS, decay[r], rate[r], root[r]
        p, m, v = theta[r, start:stop], mean[r, start:stop], square[r, start:stop]
        g = grads[r, start:stop]
        for u in range(p.size):
            m[u] += alpha * (g[u] - m[u])
            v[u] = beta * v[u] + gamma * g[u] * g[u]
            p[u] = kept * p[u] - rise * m[u] / (np.sqrt(v[u]) / below + eps)
