"""The Triton kernel of a product over nodes, gᵀ x, in TF32.

Neither g nor x is contiguous in the nodes, which are summed over. For ten runs of 10,000 nodes and
a width of 64 cuBLAS takes 94 µs on an H200, and this 40; from a width of 128 on it gains nothing.
"""
# mypy: ignore-errors

from __future__ import annotations

import triton
import triton.language as tl

from pdgnn.ops.gpu_rows import rows_of


@triton.jit(do_not_specialize=("nodes", "per_program", "x_run"))
def over_nodes(
    g, x, part, nodes, out, inside, per_program, x_run,
    ROWS: tl.constexpr, M: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    """gᵀ x over each program's nodes, ``[runs, programs, out, inside]``."""
    run, node, there = rows_of(nodes, per_program)
    m, c = tl.arange(0, M), tl.arange(0, C)
    g += (run * nodes + node) * out
    x += run * x_run + node * inside
    acc = tl.zeros([M, C], dtype=tl.float32)
    for start in range(0, there, ROWS):
        row = start + tl.arange(0, ROWS)
        real = (row < there)[:, None]
        left = tl.load(g + row[:, None] * out + m[None, :], mask=real & (m < out), other=0.0)
        right = tl.load(x + row[:, None] * inside + c[None, :], mask=real & (c < inside), other=0.0)
        acc = tl.dot(tl.trans(left), right, acc, input_precision="tf32")
    place = (run * tl.num_programs(0) + tl.program_id(0)) * out * inside
    place += m[:, None] * inside + c[None, :]
    tl.store(part + place, acc, mask=(m < out)[:, None] & (c < inside)[None, :])
