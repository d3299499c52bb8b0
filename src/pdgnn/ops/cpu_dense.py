"""The kernels of :mod:`pdgnn.ops.reference` that follow no edges, on the CPU.

Norms and scores are torch's own operations. Dropout and activations are one pass over memory each,
in the loops of :mod:`pdgnn.ops.cpu_rows`. All are for float32 and float64; where the types of the
tensors differ, the reference is used.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import wraps
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from pdgnn.ops import cpu_numba, reference
from pdgnn.ops import cpu_rows as kernels
from pdgnn.ops.cpu_numba import Array, Arrays, Function
from pdgnn.ops.reference import DropoutState

EACH = 8
"""Multiplications, or what takes as long, for an element of an activation, at least."""


def _of_one_type(function: Function) -> Function:
    """`function` if all tensors are float32, or all float64; else the reference of its name."""

    @wraps(function)
    def call(*args: Any) -> Any:
        types = {t.dtype for t in args if isinstance(t, Tensor)}
        same = len(types) == 1 and types <= _NOTHING.keys()
        return (function if same else getattr(reference, function.__name__))(*args)

    return cast(Function, call)


def dropout(x: Tensor, p: Tensor, seed: Tensor, step: Tensor, layer: int) -> Tensor:
    """x where its random number is at least p, scaled by 1 / (1 − p); else 0.

    :func:`pdgnn.ops.reference.dropout`, bit for bit.
    """
    flat = x.reshape(x.shape[0], -1)
    out = torch.empty(flat.shape, dtype=x.dtype)
    inputs = (_array(flat, flat.shape), *_state((p, seed, step, layer), len(x)))
    cpu_numba.run(kernels.dropout, x.numel(), *inputs, out.numpy())
    return out.reshape(x.shape)


@_of_one_type
def activate(
    h: Tensor, bias: Tensor, residual: Tensor | None, state: DropoutState | None
) -> Tensor:
    """GELU(u) or residual + u of u = dropout(h + bias): :func:`pdgnn.ops.reference.activate`.

    >>> h, bias = torch.tensor([[[1.0], [-1.0]]]), torch.tensor([[1.0]])
    >>> activate(h, bias, h, None).flatten().tolist()
    [3.0, -1.0]
    """
    out = torch.empty(h.shape, dtype=h.dtype)
    inputs = (_rows(h, h), _runs(bias, h), _rows(residual, h), *_state(state, len(h)))
    cpu_numba.run(kernels.activate, EACH * h.numel(), *inputs, out.numpy())
    return out


@_of_one_type
def activate_backward(
    g: Tensor, h: Tensor, bias: Tensor, gelu: bool, state: DropoutState | None
) -> tuple[Tensor, Tensor]:
    """Gradients to h and bias: :func:`pdgnn.ops.reference.activate_backward`."""
    (batch, n, width), dh = h.shape, torch.empty(h.shape, dtype=h.dtype)
    sums = torch.empty(batch, -(-n // kernels.ROWS), width, dtype=h.dtype)
    inputs = (_rows(g, h), _rows(h if gelu else None, h), _runs(bias, h), gelu)
    arrays = (*inputs, *_state(state, batch), dh.numpy(), sums.numpy())
    cpu_numba.run(kernels.activate_backward, EACH * h.numel(), *arrays)
    return dh, sums.sum(dim=1)


@_of_one_type
def layer_norm(
    x: Tensor, weight: Tensor, bias: Tensor, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """y = w ⊙ (x − mean) · scale + b, mean and scale, by torch's own norm, run by run.

    >>> x, one = torch.tensor([[[1.0, 3.0]]]), torch.ones(1, 2)
    >>> [t.flatten().tolist() for t in layer_norm(x, one, one, 0.0)]
    [[0.0, 2.0], [2.0], [1.0]]
    """
    width = x.shape[2:]
    runs = zip(x, weight.expand(len(x), -1), bias.expand(len(x), -1), strict=True)
    y, mean, scale = _stacked(torch.native_layer_norm(t, width, w, b, eps) for t, w, b in runs)
    return y, mean.squeeze(2), scale.squeeze(2)


@_of_one_type
def layer_norm_backward(
    g: Tensor, passed: Tensor | None, x: Tensor, weight: Tensor, mean: Tensor, scale: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients to x, weight and bias: :func:`pdgnn.ops.reference.layer_norm_backward`."""
    backward, width = torch.ops.aten.native_layer_norm_backward, x.shape[2:]
    runs = zip(g, x, mean[..., None], scale[..., None], weight.expand(len(x), -1), strict=True)
    dx, dw, db = _stacked(
        backward(d, t, width, m, s, w, w, [True, True, True]) for d, t, m, s, w in runs
    )
    return dx if passed is None else dx.add_(passed), dw, db


def batch_norm(
    parts: Sequence[Tensor], weight: Tensor, bias: Tensor, eps: float, state: DropoutState | None
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """:func:`pdgnn.ops.reference.batch_norm` with the dropout from here.

    >>> x, one = torch.tensor([[[1.0], [3.0]]]), torch.ones(1, 1)
    >>> [t.flatten().tolist() for t in batch_norm([x], one, one, 0.0, None)]
    [[0.0, 2.0], [2.0], [1.0], [1.0, 3.0]]
    """
    y, mean, var, x = reference.batch_norm(parts, weight, bias, eps, None)
    return y if state is None else dropout(y, *state), mean, var, x


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
    """Gradients to x, weight and bias: :func:`pdgnn.ops.reference.batch_norm_backward`."""
    g = g if state is None else dropout(g, *state)
    return reference.batch_norm_backward(g, x, weight, bias, mean, var, eps, None)


@_of_one_type
def score_nodes(
    h: Tensor, bias: Tensor | None, att_src: Tensor, att_dst: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """x = h + bias and its scores: :func:`pdgnn.ops.reference.score_nodes`."""
    x = h if bias is None else h + bias[:, None]
    a_src, a_dst = torch.bmm(x.flatten(2), _by_head(att_src, att_dst)).chunk(2, dim=2)
    return x, a_src.contiguous(), a_dst.contiguous()


@_of_one_type
def score_nodes_backward(
    g: Tensor, g_src: Tensor, g_dst: Tensor, x: Tensor, att_src: Tensor, att_dst: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """All gradients: :func:`pdgnn.ops.reference.score_nodes_backward`."""
    to_scores, (batch, _, heads, channels) = torch.cat([g_src, g_dst], dim=2), x.shape
    dh = torch.baddbmm(g.flatten(2), to_scores, _by_head(att_src, att_dst).mT).view(x.shape)
    every = torch.bmm(to_scores.mT, x.flatten(2)).view(batch, 2, heads, heads, channels)
    d_src, d_dst = every.diagonal(dim1=2, dim2=3).mT.unbind(1)  # [B, H, C]
    return dh, dh.sum(dim=1), d_src.contiguous(), d_dst.contiguous()


def _by_head(att_src: Tensor, att_dst: Tensor) -> Tensor:
    """``[B, H · C, 2 H]``: column h is att_src of head h, column H + h its att_dst; else 0.

    The scores of all heads are then one product of matrices.
    """
    both = torch.stack([att_src, att_dst], dim=2).permute(0, 3, 2, 1)  # [B, C, 2, H]
    return torch.diag_embed(both, dim1=1, dim2=4).flatten(3).flatten(1, 2)


# --- from tensors to arrays -----------------------------------------------------------------------

_NOTHING: dict[torch.dtype, Array] = {
    torch.float32: np.empty((0, 0, 0), np.float32),
    torch.float64: np.empty((0, 0, 0)),
}
_NO_DROPOUT = (np.empty(0, np.float32), np.empty(0, np.int64), np.empty(0, np.int64), 0)


def _stacked(runs: Iterable[tuple[Tensor, ...]]) -> Iterator[Tensor]:
    """Each result of all runs; that of a single run is not copied."""
    for each in zip(*runs, strict=True):
        yield torch.stack(each) if len(each) > 1 else each[0][None]


def _array(t: Tensor, shape: torch.Size) -> Array:
    t = t if t.shape == shape else t.expand(shape)
    return t.detach().contiguous().numpy()


def _rows(t: Tensor | None, x: Tensor) -> Array:
    """``[B, N, D]``; empty if it is not given."""
    return _NOTHING[x.dtype] if t is None else _array(t, x.shape)


def _runs(t: Tensor, x: Tensor) -> Array:
    """``[B, D]``."""
    return _array(t, x.shape[::2])


def _state(state: DropoutState | None, batch: int) -> Arrays:
    """p, seed and step ``[B]``, and the layer; empty if nothing is dropped."""
    if state is None:
        return _NO_DROPOUT
    p, seed, step, layer = state
    shape = torch.Size((batch,))
    return *(_array(t, shape) for t in (p.float(), seed.long(), step.long())), layer
