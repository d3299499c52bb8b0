"""The kernels in Triton that follow no edges: dropout, activations, norms and AdamW.

The same functions as in :mod:`pdgnn.ops.reference`; :mod:`pdgnn.ops.gpu` has the others.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from pdgnn.ops import gpu_rows as kernels
from pdgnn.ops.reference import Noise

__all__ = [
    "acc",
    "activate",
    "activate_backward",
    "adamw_",
    "dropout",
    "launch",
    "layer_norm",
    "layer_norm_backward",
    "score_nodes",
    "score_nodes_backward",
    "wide_type",
]

BLOCK = 1024
"""Entries of a program that goes through them one by one."""
TILE = 2048
"""Entries of a tile of whole rows."""
WIDE = 512
"""Columns of a tile whose rows need not be whole."""


def launch(kernel: Any, grid: tuple[int, ...], *args: Any, **options: Any) -> None:
    """Run a kernel, unless there is nothing to do."""
    if min(grid) > 0:
        kernel[grid](*args, **options)


def wide_type(x: Tensor) -> torch.dtype:
    """What sums over x are kept in."""
    return torch.promote_types(x.dtype, torch.float32)


def acc(x: Tensor) -> Any:
    """The same for Triton."""
    return tl.float64 if x.dtype == torch.float64 else tl.float32


def _noise(noise: Noise | None, instead: Tensor) -> tuple[Any, ...]:
    """Pointers to rate, seed and step, the stride of the step from run to run, and the layer."""
    if noise is None:
        return instead, instead, instead, 0, 0
    rate, seed, step, layer = noise
    stride = 0 if step.numel() == 1 else 1
    return rate.contiguous(), seed.contiguous(), step.contiguous(), stride, layer


def _tile(width: int, most: int | None = None) -> tuple[int, int]:
    """Rows and columns of a tile; whole rows unless they are wider than `most`."""
    columns = triton.next_power_of_2(width)
    columns = columns if most is None else min(columns, most)
    return max(1, TILE // columns), columns


def _share(nodes: int, runs: int, rows: int) -> tuple[int, int]:
    """Nodes for each program of a kernel that sums over them, many, and how many programs."""
    each = 64
    while each > rows and triton.cdiv(nodes, each) * runs < 1024:
        each //= 2
    each = max(each, rows)
    return each, triton.cdiv(nodes, each)


def dropout(x: Tensor, p: Tensor, seed: Tensor, step: Tensor, layer: int) -> Tensor:
    """Dropout by run, step, layer and element; see :func:`pdgnn.ops.reference.dropout`."""
    x = x.contiguous()
    size, out = x[0].numel(), torch.empty_like(x)
    launch(
        kernels.dropout, (triton.cdiv(size, BLOCK), x.shape[0]),
        x, out, *_noise((p, seed, step, layer), x), size, BLOCK=BLOCK, num_warps=4,
    )  # fmt: skip
    return out


def activate(h: Tensor, bias: Tensor, residual: Tensor | None, noise: Noise | None) -> Tensor:
    """GELU(dropout(h + bias)), or residual + dropout(h + bias), in one pass."""
    h, bias = h.contiguous(), bias.contiguous()
    other = h if residual is None else residual.contiguous()
    runs, width = bias.shape
    size, out = h[0].numel(), torch.empty_like(other)
    launch(
        kernels.activate, (triton.cdiv(size, BLOCK), runs),
        h, bias, other, out, *_noise(noise, h), size, width,
        NOISE=noise is not None, GELU=residual is None, ACC=acc(h), BLOCK=BLOCK, num_warps=4,
    )  # fmt: skip
    return out


def activate_backward(
    g: Tensor, h: Tensor, bias: Tensor, gelu: bool, noise: Noise | None
) -> tuple[Tensor, Tensor]:
    """Gradients to h and bias; see :func:`pdgnn.ops.reference.activate_backward`."""
    g, h, bias = g.contiguous(), h.contiguous(), bias.contiguous()
    runs, nodes, width = h.shape
    rows, columns = _tile(width, WIDE)
    each, programs = _share(nodes, runs, rows)
    dh = torch.empty_like(h)
    sums = h.new_empty(runs, programs, width, dtype=wide_type(h))
    launch(
        kernels.activate_backward, (programs, runs, triton.cdiv(width, columns)),
        g, h, bias, dh, sums, *_noise(noise, h), nodes, width,
        NOISE=noise is not None, GELU=gelu, ACC=acc(h), EACH=each, ROWS=rows, COLUMNS=columns,
        num_warps=4,
    )  # fmt: skip
    return dh, sums.sum(dim=1).to(bias.dtype)


def layer_norm(
    x: Tensor, weight: Tensor, bias: Tensor, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """LayerNorm with its statistics; see :func:`pdgnn.ops.reference.layer_norm`."""
    x, weight, bias = x.contiguous(), weight.contiguous(), bias.contiguous()
    runs, nodes, width = x.shape
    rows, columns = _tile(width)
    y = torch.empty_like(x, dtype=weight.dtype)
    mean = x.new_empty(runs, nodes, dtype=wide_type(x))
    scale = torch.empty_like(mean)
    launch(
        kernels.layer_norm, (triton.cdiv(nodes, rows), runs),
        x, weight, bias, y, mean, scale, nodes, width,
        EPS=eps, ACC=acc(x), ROWS=rows, COLUMNS=columns, num_warps=4,
    )  # fmt: skip
    return y, mean, scale


def layer_norm_backward(
    g: Tensor, passed: Tensor | None, x: Tensor, weight: Tensor, mean: Tensor, scale: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients to x, weight and bias; see :func:`pdgnn.ops.reference.layer_norm_backward`."""
    g, x, weight = g.contiguous(), x.contiguous(), weight.contiguous()
    runs, nodes, width = x.shape
    rows, columns = _tile(width)
    each, programs = _share(nodes, runs, rows)
    dx = torch.empty_like(x)
    sums = x.new_empty(2, runs, programs, width, dtype=mean.dtype)
    launch(
        kernels.layer_norm_backward, (programs, runs),
        g, g if passed is None else passed.contiguous(), x, weight, mean.contiguous(),
        scale.contiguous(), dx, sums[0], sums[1], nodes, width,
        PASSED=passed is not None, ACC=acc(x), EACH=each, ROWS=rows, COLUMNS=columns, num_warps=4,
    )  # fmt: skip
    dw, db = sums.sum(dim=2).to(weight.dtype)
    return dx, dw, db


def score_nodes(
    h: Tensor, bias: Tensor | None, att_src: Tensor, att_dst: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """x = h + bias and its scores; see :func:`pdgnn.ops.reference.score_nodes`."""
    h, att_src, att_dst = h.contiguous(), att_src.contiguous(), att_dst.contiguous()
    runs, nodes, heads, channels = h.shape
    x = h if bias is None else torch.empty_like(h)
    a_src = h.new_empty(h.shape[:3], dtype=wide_type(h))
    a_dst = torch.empty_like(a_src)
    c = triton.next_power_of_2(channels)
    rows = max(1, 2 * TILE // c)
    launch(
        kernels.score_nodes, (triton.cdiv(nodes * heads, rows), runs),
        h, h if bias is None else bias.contiguous(), att_src, att_dst, x, a_src, a_dst,
        nodes * heads, heads, channels,
        BIAS=bias is not None, ACC=acc(h), ROWS=rows, C=c, num_warps=4,
    )  # fmt: skip
    return x, a_src, a_dst


def score_nodes_backward(
    g: Tensor, g_src: Tensor, g_dst: Tensor, x: Tensor, att_src: Tensor, att_dst: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """All gradients; see :func:`pdgnn.ops.reference.score_nodes_backward`."""
    runs, nodes, heads, channels = x.shape
    width = heads * channels
    rows, columns = _tile(width, WIDE)
    each, programs = _share(nodes, runs, rows)
    dh = torch.empty_like(x)
    sums = g_src.new_empty(runs, programs, 3, heads, channels)
    launch(
        kernels.score_nodes_backward, (programs, runs, triton.cdiv(width, columns)),
        g.contiguous(), g_src.contiguous(), g_dst.contiguous(), x.contiguous(),
        att_src.contiguous(), att_dst.contiguous(), dh, sums, nodes, heads, channels, width,
        ACC=acc(x), EACH=each, ROWS=rows, COLUMNS=columns, num_warps=4,
    )  # fmt: skip
    db, of_src, of_dst = sums.sum(dim=1).to(att_src.dtype).unbind(1)
    return dh, db, of_src, of_dst


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
        kernels.adamw, (triton.cdiv(size, BLOCK), runs),
        parameters, mean, square, grads.contiguous(), decay, rate, root, size,
        BETA1=betas[0], BETA2=betas[1], EPS=eps, ACC=acc(parameters), BLOCK=BLOCK, num_warps=4,
    )  # fmt: skip
