"""The kernels in Triton that follow no edges: dropout, activations, norms and AdamW.

The same functions as in :mod:`pdgnn.ops.reference`; :mod:`pdgnn.ops.gpu` has the others.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
import triton.language as tl
from torch import Tensor

from pdgnn.ops import gpu_batch_norm as norms
from pdgnn.ops import gpu_linear as linear
from pdgnn.ops import gpu_rows as kernels
from pdgnn.ops import reference
from pdgnn.ops.reference import DropoutState

BLOCK = 1024
"""Entries of a program that goes through them one by one."""
DROPOUT_BLOCK = 4096
"""The same for dropout, whose programs each work out a key first."""
WIDE = 512
"""Columns of a tile whose rows need not be whole."""
NARROW = 64
"""Columns up to which a product over nodes has a kernel of ours."""
PROCESSORS = 132
"""Multiprocessors to share nodes among, as an H200 has them; sums would change with the device."""
SHAPES = {
    "activate": (1024, 4, 48),
    "activate_backward": (2048, 4, 6),
    "batch_moments": (2048, 4, 6),
    "batch_norm": (1024, 4, 48),
    "batch_norm_backward": (2048, 4, 6),
    "layer_norm": (512, 1, 28),
    "layer_norm_backward": (512, 1, 16),
    "over_nodes": (4096, 4, 1),
    "score_nodes": (512, 1, 28),
    "score_nodes_backward": (512, 2, 14),
}
"""Entries of a tile, the warps that it is for, and how many programs of a multiprocessor the nodes
are dealt out to: mostly as many as its registers hold, so that all begin and end together. The
fastest of a few that were measured on an H200."""


def launch(kernel: Any, grid: tuple[int, ...], *args: Any, **options: Any) -> None:
    """Run a kernel, unless there is nothing to do."""
    if min(grid) > 0:
        kernel[grid](*args, **options)


# Triton's own take 3 µs a call
def cdiv(a: int, b: int) -> int:
    """⌈a / b⌉."""
    return -(-a // b)


def power_of_2(n: int) -> int:
    """The least power of two that is n or more."""
    return 1 << max(n - 1, 0).bit_length()


def wide_type(x: Tensor) -> torch.dtype:
    """What sums over x are kept in."""
    return torch.promote_types(x.dtype, torch.float32)


def acc(x: Tensor) -> Any:
    """The same for Triton."""
    return tl.float64 if x.dtype == torch.float64 else tl.float32


def _state(state: DropoutState | None, instead: Tensor) -> tuple[Any, ...]:
    """Pointers to rate, seed and step, the stride of the step from run to run, and the layer."""
    if state is None:
        return instead, instead, instead, 0, 0
    rate, seed, step, layer = state
    stride = 0 if step.numel() == 1 else 1
    return rate.contiguous(), seed.contiguous(), step.contiguous(), stride, layer


class _Shape(NamedTuple):
    """How a kernel goes through the nodes of its runs."""

    rows: int
    warps: int
    per_program: int
    grid: tuple[int, int, int]


def _shape(kernel: str, nodes: int, runs: int, columns: int, blocks: int = 1) -> _Shape:
    """Rows and warps of a tile of `columns`, nodes of a program, and programs by runs by blocks.

    A tile has a row at least, and then more warps. Programs count their entries in 32 bits.
    """
    tile, warps, held = SHAPES[kernel]
    rows, wider = max(1, tile // columns), max(1, min(columns // tile, 16 // warps))
    programs = max(1, PROCESSORS * held // max(1, runs * blocks * wider))
    per_program = min(cdiv(nodes, programs), 2**30 // (columns * blocks))
    per_program = max(1, cdiv(per_program, rows)) * rows
    return _Shape(rows, warps * wider, per_program, (cdiv(nodes, per_program), runs, blocks))


def _columns(width: int) -> tuple[int, int]:
    """Columns of a tile, and how many tiles make a row."""
    columns = min(power_of_2(width), WIDE)
    return columns, cdiv(width, columns)


def _vector(*tensors: Tensor) -> int:
    """Entries of 16 bytes of the widest of these."""
    return 16 // max(t.dtype.itemsize for t in tensors)


def dropout(x: Tensor, p: Tensor, seed: Tensor, step: Tensor, layer: int) -> Tensor:
    """Dropout by run, step, layer and element; see :func:`pdgnn.ops.reference.dropout`."""
    x = x.contiguous()
    size, out = x[0].numel(), torch.empty_like(x)
    launch(
        kernels.dropout, (cdiv(size, DROPOUT_BLOCK), x.shape[0]),
        x, out, *_state((p, seed, step, layer), x), size,
        LARGE=size > 2**32, BLOCK=DROPOUT_BLOCK, num_warps=4,
    )  # fmt: skip
    return out


def _row_options(
    h: Tensor, shape: _Shape, columns: int, state: DropoutState | None, *tensors: Tensor
) -> dict[str, Any]:
    """Constants of the kernels around h ``[B, N, D]``, whose `tensors` are those of its shape.

    Elements are numbered by groups for the masks, and in more than 32 bits or not.
    """
    nodes, width = h.shape[1:]
    numbering = {"GROUP": math.gcd(width, 8), "LARGE": nodes * width > 2**32}
    tile = {"ROWS": shape.rows, "COLUMNS": columns, "VEC": _vector(h, *tensors)}
    other = {"DROPOUT": state is not None, "ACC": acc(h), "num_warps": shape.warps}
    return numbering | tile | other


def activate(
    h: Tensor, bias: Tensor, residual: Tensor | None, state: DropoutState | None
) -> Tensor:
    """GELU(dropout(h + bias)), or residual + dropout(h + bias), in one pass."""
    h, bias = h.contiguous(), bias.contiguous()
    other = h if residual is None else residual.contiguous()
    runs, nodes, width = h.shape
    columns, blocks = _columns(width)
    shape, out = _shape("activate", nodes, runs, columns, blocks), torch.empty_like(other)
    launch(
        kernels.activate, shape.grid,
        h, bias, other, out, *_state(state, h), nodes, width, shape.per_program,
        GELU=residual is None, **_row_options(h, shape, columns, state, other),
    )  # fmt: skip
    return out


def activate_backward(
    g: Tensor, h: Tensor, bias: Tensor, gelu: bool, state: DropoutState | None
) -> tuple[Tensor, Tensor]:
    """Gradients to h and bias; see :func:`pdgnn.ops.reference.activate_backward`."""
    g, h, bias = g.contiguous(), h.contiguous(), bias.contiguous()
    runs, nodes, width = h.shape
    columns, blocks = _columns(width)
    shape, dh = _shape("activate_backward", nodes, runs, columns, blocks), torch.empty_like(h)
    sums = h.new_empty(runs, shape.grid[0], width, dtype=wide_type(h))
    launch(
        kernels.activate_backward, shape.grid,
        g, h, bias, dh, sums, *_state(state, h), nodes, width, shape.per_program,
        GELU=gelu, **_row_options(h, shape, columns, state, g),
    )  # fmt: skip
    return dh, sums.sum(dim=1).to(bias.dtype)


def layer_norm(
    x: Tensor, weight: Tensor, bias: Tensor, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """LayerNorm with its statistics; see :func:`pdgnn.ops.reference.layer_norm`."""
    x, weight, bias = x.contiguous(), weight.contiguous(), bias.contiguous()
    runs, nodes, width = x.shape
    columns = power_of_2(width)
    shape, y = _shape("layer_norm", nodes, runs, columns), torch.empty_like(x, dtype=weight.dtype)
    mean = x.new_empty(runs, nodes, dtype=wide_type(x))
    scale = torch.empty_like(mean)
    launch(
        kernels.layer_norm, shape.grid,
        x, weight, bias, y, mean, scale, nodes, width, shape.per_program,
        EPS=eps, ACC=acc(x), ROWS=shape.rows, COLUMNS=columns, VEC=_vector(x, y),
        num_warps=shape.warps,
    )  # fmt: skip
    return y, mean, scale


def layer_norm_backward(
    g: Tensor, passed: Tensor | None, x: Tensor, weight: Tensor, mean: Tensor, scale: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients to x, weight and bias; see :func:`pdgnn.ops.reference.layer_norm_backward`."""
    g, x, weight = g.contiguous(), x.contiguous(), weight.contiguous()
    runs, nodes, width = x.shape
    columns = power_of_2(width)
    shape, dx = _shape("layer_norm_backward", nodes, runs, columns), torch.empty_like(x)
    sums = x.new_empty(2, runs, shape.grid[0], width, dtype=mean.dtype)
    launch(
        kernels.layer_norm_backward, shape.grid,
        g, g if passed is None else passed.contiguous(), x, weight, mean.contiguous(),
        scale.contiguous(), dx, sums[0], sums[1], nodes, width, shape.per_program,
        PASSED=passed is not None, ACC=acc(x), ROWS=shape.rows, COLUMNS=columns,
        VEC=_vector(g, x), num_warps=shape.warps,
    )  # fmt: skip
    dw, db = sums.sum(dim=2).to(weight.dtype)
    return dx, dw, db


def batch_norm(
    parts: Sequence[Tensor], weight: Tensor, bias: Tensor, eps: float, state: DropoutState | None
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Batch norm, ReLU and dropout; see :func:`pdgnn.ops.reference.batch_norm`."""
    weight, bias = weight.contiguous(), bias.contiguous()
    x, mean, var = _batch_statistics([part.contiguous() for part in parts])
    y = torch.empty_like(x)
    runs, nodes, width = x.shape
    columns, blocks = _columns(width)
    shape = _shape("batch_norm", nodes, runs, columns, blocks)
    launch(
        norms.batch_norm, shape.grid,
        x, mean, var, weight, bias, y, *_state(state, x), nodes, width, shape.per_program,
        EPS=eps, **_row_options(x, shape, columns, state),
    )  # fmt: skip
    return y, mean, var, x


def _batch_statistics(parts: Sequence[Tensor]) -> tuple[Tensor, Tensor, Tensor]:
    """The sum of the parts, and its mean and variance over the nodes, ``[B, D]`` each."""
    first, second, third, *_ = (*parts, parts[0], parts[0])
    x = torch.empty_like(first) if len(parts) > 1 else first
    runs, nodes, width = x.shape
    columns, blocks = _columns(width)
    shape = _shape("batch_moments", nodes, runs, columns, blocks)
    part = x.new_empty(2, runs, shape.grid[0], width, dtype=wide_type(x))
    launch(
        norms.batch_moments, shape.grid,
        first, second, third, x, part, nodes, width, shape.per_program,
        PARTS=len(parts), ACC=acc(x), ROWS=shape.rows, COLUMNS=columns, VEC=_vector(*parts),
        num_warps=shape.warps,
    )  # fmt: skip
    mean, var = part.new_empty(2, runs, width).unbind()
    few = min(columns, 32)
    launch(
        norms.batch_statistics, (runs, cdiv(width, few)),
        part, mean, var, nodes, width, shape.per_program, shape.grid[0], runs,
        ACC=acc(x), ROWS=32, COLUMNS=few, num_warps=4,
    )  # fmt: skip
    return x, mean, var


def batch_norm_backward(
    g: Tensor,
    x: Tensor,
    weight: Tensor,
    bias: Tensor,
    mean: Tensor,
    var: Tensor,
    eps: float,
    state: DropoutState | None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients to x, weight and bias; see :func:`pdgnn.ops.reference.batch_norm_backward`."""
    g, x, weight, bias = (t.contiguous() for t in (g, x, weight, bias))
    mean, var, dx = mean.contiguous(), var.contiguous(), torch.empty_like(x)
    runs, nodes, width = x.shape
    columns, blocks = _columns(width)
    shape = _shape("batch_norm_backward", nodes, runs, columns, blocks)
    sums = x.new_empty(2, runs, shape.grid[0], width, dtype=mean.dtype)
    given, sizes = (g, x, mean, var, weight, bias), (nodes, width, shape.per_program)
    options = {"EPS": eps, **_row_options(x, shape, columns, state, g)}
    drawn = _state(state, x)
    launch(
        norms.batch_norm_backward, shape.grid,
        *given, sums, dx, *drawn, *sizes, sums.stride(0), SUMS=True, **options,
    )  # fmt: skip
    sums = sums.sum(dim=2)  # [2, B, D]
    launch(
        norms.batch_norm_backward, shape.grid,
        *given, sums, dx, *drawn, *sizes, sums.stride(0), SUMS=False, **options,
    )  # fmt: skip
    db, dw = sums.to(weight.dtype)
    return dx, dw, db


def over_nodes(g: Tensor, x: Tensor) -> Tensor:
    """gᵀ x; see :func:`pdgnn.ops.reference.over_nodes`. Small ones in TF32 by a kernel of ours."""
    runs, nodes, out = g.shape
    inside, fast = x.shape[2], torch.get_float32_matmul_precision() != "highest"
    if not fast or x.dtype != torch.float32 or max(out, inside) > NARROW:
        return reference.over_nodes(g, x)
    m, c = (max(16, power_of_2(n)) for n in (out, inside))
    shape = _shape("over_nodes", nodes, runs, max(m, c))
    part = g.new_empty(runs, shape.grid[0], out, inside)
    g, x = g.contiguous(), x.contiguous()
    launch(
        linear.over_nodes, shape.grid,
        g, x, part, nodes, out, inside, shape.per_program, 0 if len(x) == 1 else nodes * inside,
        ROWS=shape.rows, M=m, C=c, num_warps=shape.warps, num_stages=3,
    )  # fmt: skip
    return part.sum(dim=1)


def score_nodes(
    h: Tensor, bias: Tensor | None, att_src: Tensor, att_dst: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """x = h + bias and its scores; see :func:`pdgnn.ops.reference.score_nodes`."""
    h, att_src, att_dst = h.contiguous(), att_src.contiguous(), att_dst.contiguous()
    runs, nodes, heads, channels = h.shape
    x = h if bias is None else torch.empty_like(h)
    a_src = h.new_empty(h.shape[:3], dtype=wide_type(h))
    a_dst = torch.empty_like(a_src)
    c = power_of_2(channels)
    hb = min(power_of_2(heads), max(1, WIDE // c))
    shape = _shape("score_nodes", nodes, runs, hb * c, cdiv(heads, hb))
    launch(
        kernels.score_nodes, shape.grid,
        h, h if bias is None else bias.contiguous(), att_src, att_dst, x, a_src, a_dst, nodes,
        heads, channels, shape.per_program,
        BIAS=bias is not None, ACC=acc(h), ROWS=shape.rows, HEADS=hb, C=c, num_warps=shape.warps,
    )  # fmt: skip
    return x, a_src, a_dst


def score_nodes_backward(
    g: Tensor, g_src: Tensor, g_dst: Tensor, x: Tensor, att_src: Tensor, att_dst: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """All gradients; see :func:`pdgnn.ops.reference.score_nodes_backward`."""
    runs, nodes, heads, channels = x.shape
    c = min(power_of_2(channels), WIDE)
    hb = min(power_of_2(heads), WIDE // c)
    blocks = cdiv(heads, hb) * cdiv(channels, c)
    shape, dh = _shape("score_nodes_backward", nodes, runs, hb * c, blocks), torch.empty_like(x)
    sums = g_src.new_empty(runs, shape.grid[0], 3, heads, channels)
    launch(
        kernels.score_nodes_backward, shape.grid,
        g.contiguous(), g_src.contiguous(), g_dst.contiguous(), x.contiguous(),
        att_src.contiguous(), att_dst.contiguous(), dh, sums, nodes, heads, channels,
        shape.per_program,
        ACC=acc(x), ROWS=shape.rows, HEADS=hb, C=c, num_warps=shape.warps,
    )  # fmt: skip
    db, d_src, d_dst = sums.permute(2, 0, 1, 3, 4).sum(dim=2).to(att_src.dtype)  # [B, H, C]
    return dh, db, d_src, d_dst


def adamw_(
    parameters: Tensor,
    mean: Tensor,
    square: Tensor,
    grads: Tensor,
    decay: Tensor,
    rate: Tensor,
    root: Tensor,
    betas: tuple[float, float],
    eps: float,
) -> None:
    """One step of AdamW in one pass; see :func:`pdgnn.ops.reference.adamw_`."""
    runs, size = parameters.shape
    launch(
        kernels.adamw, (cdiv(size, BLOCK), runs),
        parameters, mean, square, grads.contiguous(), decay, rate, root, size, parameters.stride(0),
        BETA1=betas[0], BETA2=betas[1], EPS=eps, ACC=acc(parameters), BLOCK=BLOCK, num_warps=4,
    )  # fmt: skip
