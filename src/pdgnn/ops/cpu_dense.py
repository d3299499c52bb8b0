"""The dense kernels of :mod:`pdgnn.ops.reference` on the CPU, each in one pass over memory.

The loops are in :mod:`pdgnn.ops.cpu_rows`. They are for float32 and float64; where the types of
the tensors differ, it is the reference that is used.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from pdgnn.ops import cpu_numba, reference
from pdgnn.ops import cpu_rows as kernels
from pdgnn.ops.cpu_numba import Array, Arrays
from pdgnn.ops.reference import DropoutState

__all__ = [
    "activate",
    "activate_backward",
    "adamw_",
    "dropout",
    "layer_norm",
    "layer_norm_backward",
    "score_nodes",
    "score_nodes_backward",
]

EACH = 8
"""Multiplications, or what takes as long, for an element of an activation, at least."""


def dropout(x: Tensor, p: Tensor, seed: Tensor, step: Tensor, layer: int, first: int = 0) -> Tensor:
    """x where its random number is at least p, scaled by 1 / (1 − p); else 0.

    :func:`pdgnn.ops.reference.dropout`, bit for bit.
    """
    flat = x.reshape(x.shape[0], -1)
    out = torch.empty(flat.shape, dtype=x.dtype)
    inputs = (_array(flat, flat.shape), *_noise((p, seed, step, layer), len(x), first))
    cpu_numba.run(kernels.dropout, x.numel(), *inputs, out.numpy())
    return out.reshape(x.shape)


def activate(
    h: Tensor, bias: Tensor, residual: Tensor | None, noise: DropoutState | None, row: int = 0
) -> Tensor:
    """GELU(u) or residual + u of u = dropout(h + bias): :func:`pdgnn.ops.reference.activate`.

    >>> h, bias = torch.tensor([[[1.0], [-1.0]]]), torch.tensor([[1.0]])
    >>> activate(h, bias, h, None).flatten().tolist()
    [3.0, -1.0]
    """
    if not _alike(h, bias, residual):
        return reference.activate(h, bias, residual, noise, row, dropout)
    out = torch.empty(h.shape, dtype=h.dtype)
    masks = _noise(noise, len(h), row * h.shape[2])
    inputs = (_rows(h, h), _runs(bias, h), _rows(residual, h), *masks)
    cpu_numba.run(kernels.activate, EACH * h.numel(), *inputs, out.numpy())
    return out


def activate_backward(
    g: Tensor, h: Tensor, bias: Tensor, gelu: bool, noise: DropoutState | None, row: int = 0
) -> tuple[Tensor, Tensor]:
    """Gradients to h and bias: :func:`pdgnn.ops.reference.activate_backward`."""
    if not _alike(g, h, bias):
        return reference.activate_backward(g, h, bias, gelu, noise, row, dropout)
    dh, sums = torch.empty(h.shape, dtype=h.dtype), _sums(h)
    inputs = (_rows(g, h), _rows(h if gelu else None, h), _runs(bias, h), gelu)
    outputs = (dh.numpy(), sums.numpy())
    masks, work = _noise(noise, len(h), row * h.shape[2]), EACH * h.numel()
    cpu_numba.run(kernels.activate_backward, work, *inputs, *masks, *outputs)
    return dh, _summed(sums)


def layer_norm(
    x: Tensor, weight: Tensor, bias: Tensor, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """y = w ⊙ (x − mean) · scale + b, mean and scale: :func:`pdgnn.ops.reference.layer_norm`.

    >>> x, one = torch.tensor([[[1.0, 3.0]]]), torch.ones(1, 2)
    >>> [t.flatten().tolist() for t in layer_norm(x, one, one, 0.0)]
    [[0.0, 2.0], [2.0], [1.0]]
    """
    if not _alike(x, weight, bias):
        return reference.layer_norm(x, weight, bias, eps)
    y = torch.empty(x.shape, dtype=x.dtype)
    mean, scale = (torch.empty(x.shape[:2], dtype=x.dtype) for _ in range(2))
    inputs = (_rows(x, x), _runs(weight, x), _runs(bias, x), _scalar(eps, x))
    outputs = (y.numpy(), mean.numpy(), scale.numpy())
    cpu_numba.run(kernels.layer_norm, x.numel(), *inputs, *outputs)
    return y, mean, scale


def layer_norm_backward(
    g: Tensor, passed: Tensor | None, x: Tensor, weight: Tensor, mean: Tensor, scale: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients to x, weight and bias: :func:`pdgnn.ops.reference.layer_norm_backward`."""
    if not _alike(g, passed, x, weight, mean, scale):
        return reference.layer_norm_backward(g, passed, x, weight, mean, scale)
    dx, sums = torch.empty(x.shape, dtype=x.dtype), _sums(x, 2)
    inputs = (_rows(g, x), _rows(passed, x), _rows(x, x), _runs(weight, x))
    moments = (_array(mean, x.shape[:2]), _array(scale, x.shape[:2]))
    outputs = (dx.numpy(), sums.numpy())
    cpu_numba.run(kernels.layer_norm_backward, x.numel(), *inputs, *moments, *outputs)
    dw, db = _summed(sums.flatten(2)).chunk(2, dim=1)  # [B, 2 D]
    return dx, dw.contiguous(), db.contiguous()


def score_nodes(
    h: Tensor, bias: Tensor | None, att_src: Tensor, att_dst: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """x = h + bias and its scores: :func:`pdgnn.ops.reference.score_nodes`."""
    if not _alike(h, bias, att_src, att_dst):
        return reference.score_nodes(h, bias, att_src, att_dst)
    h, shape = h.contiguous(), h.shape[:1] + h.shape[2:]
    x = h if bias is None else torch.empty_like(h)
    a_src, a_dst = (torch.empty(h.shape[:3], dtype=h.dtype) for _ in range(2))
    given = _NOTHING[h.dtype] if bias is None else _array(bias, shape)
    inputs = (h.detach().numpy(), given, _array(att_src, shape), _array(att_dst, shape))
    outputs = (x.detach().numpy(), a_src.numpy(), a_dst.numpy())
    cpu_numba.run(kernels.score_nodes, h.numel(), *inputs, *outputs)
    return x, a_src, a_dst


def score_nodes_backward(
    g: Tensor, g_src: Tensor, g_dst: Tensor, x: Tensor, att_src: Tensor, att_dst: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """All gradients: :func:`pdgnn.ops.reference.score_nodes_backward`."""
    if not _alike(g, g_src, g_dst, x, att_src, att_dst):
        return reference.score_nodes_backward(g, g_src, g_dst, x, att_src, att_dst)
    shape, (batch, n, *by_head) = x.shape[:1] + x.shape[2:], x.shape
    chunks = -(-n // kernels.ROWS)
    dh, sums = torch.empty(x.shape, dtype=x.dtype), x.new_empty(batch, chunks, 3, *by_head)
    inputs = (_array(g, x.shape), _array(g_src, x.shape[:3]), _array(g_dst, x.shape[:3]))
    of_heads = (_array(att_src, shape), _array(att_dst, shape))
    outputs = (dh.numpy(), sums.numpy())
    work = x.numel()
    cpu_numba.run(
        kernels.score_nodes_backward, work, *inputs, _array(x, x.shape), *of_heads, *outputs
    )
    db, of_src, of_dst = _summed(sums.flatten(2)).view(batch, 3, *by_head).unbind(1)
    return dh, db.contiguous(), of_src.contiguous(), of_dst.contiguous()


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
    """One step of AdamW in place: :func:`pdgnn.ops.reference.adamw_`."""
    own, given = (parameters, mean, square), (decay, rate, root)
    if not (_alike(*own) and all(t.is_contiguous() for t in own)):
        reference.adamw_(*own, grads, *given, betas, eps)
        return
    shape, dtype = parameters.shape, parameters.dtype
    arrays = (_array(t, shape) for t in (*own, grads.to(dtype)))
    of_rows = (_array(t.to(dtype), shape[:1]) for t in given)
    factors = (_scalar(f, parameters) for f in (1 - betas[0], betas[1], 1 - betas[1], eps))
    cpu_numba.run(kernels.adamw, parameters.numel(), *arrays, *of_rows, *factors)
    for t in own:
        torch.autograd.graph.increment_version(t)  # as torch does where it writes in place


# --- from tensors to arrays -----------------------------------------------------------------------

_NOTHING: dict[torch.dtype, Array] = {
    torch.float32: np.empty((0, 0, 0), np.float32),
    torch.float64: np.empty((0, 0, 0)),
}
_SILENCE = (np.empty(0, np.float32), np.empty(0, np.int64), np.empty(0, np.int64), 0, 0)


def _alike(*tensors: Tensor | None) -> bool:
    """Whether all are float32, or all float64."""
    types = {t.dtype for t in tensors if t is not None}
    return len(types) == 1 and types <= _NOTHING.keys()


def _array(t: Tensor, shape: torch.Size) -> Array:
    t = t if t.shape == shape else t.expand(shape)
    return t.detach().contiguous().numpy()


def _rows(t: Tensor | None, x: Tensor) -> Array:
    """``[B, N, D]``; empty if it is not given."""
    return _NOTHING[x.dtype] if t is None else _array(t, x.shape)


def _runs(t: Tensor, x: Tensor) -> Array:
    """``[B, D]``."""
    return _array(t, x.shape[::2])


def _scalar(value: float, x: Tensor) -> np.floating[Any]:
    return np.float32(value) if x.dtype == torch.float32 else np.float64(value)


def _noise(noise: DropoutState | None, batch: int, first: int) -> Arrays:
    """p, seed and step ``[B]``, the layer and the first element; empty if there is no noise."""
    if noise is None:
        return _SILENCE
    p, seed, step, layer = noise
    shape = torch.Size((batch,))
    return *(_array(t, shape) for t in (p.float(), seed.long(), step.long())), layer, first


def _sums(x: Tensor, *each: int) -> Tensor:
    """``[B, chunks, ..., D]``, still to be written."""
    chunks = -(-x.shape[1] // kernels.ROWS)
    return torch.empty(x.shape[0], chunks, *each, x.shape[2], dtype=x.dtype)


def _summed(sums: Tensor) -> Tensor:
    """Σ over the chunks, ``[B, chunks, K]`` to ``[B, K]``."""
    out = torch.empty(sums.shape[::2], dtype=sums.dtype)
    kernels.sum_of_chunks(0, 1, (sums.numpy(), out.numpy()))  # too little for more threads
    return out
