"""The kernels of :mod:`pdgnn.ops.cpu_dense`: each reads and writes the rows ``[B, N, D]`` once.

The rows of each run are taken in chunks of `ROWS`. A sum over all rows is left as a sum of each
chunk, which depends on the run alone: not on the other runs, nor on the parts and the threads that
do them. An optional array that is not given is empty.
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
    x, p, seeds, steps, layer, out = args
    batch, size = x.shape
    factor, chunks = np.empty(ELEMENTS, x.dtype), (size + ELEMENTS - 1) // ELEMENTS
    for k in _chunks(part, parts, batch, chunks):
        b, start = k // chunks, k % chunks * ELEMENTS
        values, kept = x[b, start : start + ELEMENTS], out[b, start : start + ELEMENTS]
        _draw(factor, values.size, start, _key(seeds[b], steps[b], layer), p[b])
        for u in range(values.size):
            kept[u] = _times(values[u], factor[u])


@kernel
def activate(part: int, parts: int, args: Arrays) -> None:
    """GELU(u) = u Φ(u), or residual + u, of u = dropout(h + bias)."""
    h, bias, residual, p, seeds, steps, layer, out = args
    batch, n, width = h.shape
    factor, chunks = np.ones(width, h.dtype), (n + ROWS - 1) // ROWS
    for k in _chunks(part, parts, batch, chunks):
        b, start = k // chunks, k % chunks * ROWS
        key = _key(seeds[b], steps[b], layer) if p.size else u32(0)
        for i in range(start, min(start + ROWS, n)):
            if p.size:
                _draw(factor, width, i * width, key, p[b])
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
    g, h, bias, gelu, p, seeds, steps, layer, dh, sums = args
    batch, n, width = g.shape
    factor, chunks = np.ones(width, g.dtype), sums.shape[1]
    for k in _chunks(part, parts, batch, chunks):
        b, c = k // chunks, k % chunks
        key = _key(seeds[b], steps[b], layer) if p.size else u32(0)
        for d in range(width):
            sums[b, c, d] = 0
        for i in range(c * ROWS, min(c * ROWS + ROWS, n)):
            if p.size:
                _draw(factor, width, i * width, key, p[b])
            if gelu:
                for d in range(width):
                    u = _times(h[b, i, d] + bias[b, d], factor[d])
                    cdf, pdf = normal(u)
                    dh[b, i, d] = _times(g[b, i, d] * (cdf + u * pdf), factor[d])
            else:
                for d in range(width):
                    dh[b, i, d] = _times(g[b, i, d], factor[d])
            for d in range(width):
                sums[b, c, d] += dh[b, i, d]
