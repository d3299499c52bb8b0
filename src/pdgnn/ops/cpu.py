"""The kernels of :mod:`pdgnn.ops.reference` on the CPU, without the B × E × H × C messages.

Same functions, same shapes, float32 and float64; the loops are in :mod:`pdgnn.ops.cpu_kernels`.
What has no edges is in :mod:`pdgnn.ops.cpu_dense`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pdgnn.csr import csr_tensor
from pdgnn.ops import cpu_kernels as kernels
from pdgnn.ops import cpu_numba, reference
from pdgnn.ops.cpu_numba import Arrays
from pdgnn.ops.reference import AttentionInputs, Gradients, Structure

MKL = bool(torch.backends.mkl.is_available())  # type: ignore[no-untyped-call]
NARROW = 128
"""Bytes of a row of channels up to which MKL's sparse product is two to seven times as fast."""


def spmm(x: Tensor, weight: Tensor, structure: Structure) -> Tensor:
    """out_i = Σ_e w_e x_j: :func:`pdgnn.ops.reference.spmm`.

    >>> from pdgnn.ops import Edges
    >>> edges = Edges.from_edge_index(torch.tensor([[1, 2], [0, 0]]), num_nodes=3)
    >>> x = torch.tensor([1.0, 2.0, 4.0]).view(1, 3, 1, 1)
    >>> spmm(x, torch.tensor([0.5, 0.25]).view(1, 2, 1), edges.tensors()).flatten().tolist()
    [2.0, 0.0, 0.0]
    """
    return _spmm(x, weight, _by_target(structure))


def spmm_transposed(g: Tensor, weight: Tensor, structure: Structure) -> Tensor:
    """out_j = Σ_e w_e g_i: :func:`pdgnn.ops.reference.spmm_transposed`."""
    return _spmm(g, weight, _by_source(structure))


def _spmm(x: Tensor, weight: Tensor, layout: Arrays) -> Tensor:
    dtype, shape = _dtype(x, weight), x.shape
    if weight.shape[2] == 1:  # heads that share their weights are as good as one
        x = x.flatten(2)[:, :, None]
    if MKL and x.shape[2] == 1 and 0 < x.shape[3] * dtype.itemsize <= NARROW:
        out = _spmm_narrow(x.to(dtype), weight.to(dtype), layout)
    else:
        out = _rows_like(x, layout, dtype)
        _run(kernels.spmm, _work(x, layout), layout, _arrays(dtype, x, weight), out)
    return out.view(*out.shape[:2], *shape[2:])


def _spmm_narrow(x: Tensor, weight: Tensor, layout: Arrays) -> Tensor:
    """The same of one head by torch's sparse matrices, run by run."""
    pointers, index, slot = map(torch.from_numpy, layout)
    size = (len(pointers) - 1, x.shape[1])
    values = weight.detach()[:, :, 0]
    if len(slot):
        values = values.index_select(1, slot)
    rows = torch.empty(len(x), size[0], *x.shape[2:], dtype=x.dtype)
    for out, own, given in zip(rows, values.expand(len(x), -1), x.detach(), strict=True):
        torch.mm(csr_tensor(pointers, index, own, size), given[:, 0], out=out[:, 0])
    return rows


def sddmm(g: Tensor, x: Tensor, structure: Structure) -> Tensor:
    """⟨g_i, x_j⟩ of each edge and head: :func:`pdgnn.ops.reference.sddmm`."""
    layout, dtype = _by_target(structure), _dtype(g, x)
    out = _edges_like(x, layout, dtype)
    _run(kernels.sddmm, _work(x, layout), layout, _arrays(dtype, g, x), out)
    return out


def edge_sum(values: Tensor, structure: Structure) -> Tensor:
    """Σ_e v_e over the edges into each target: :func:`pdgnn.ops.reference.edge_sum`."""
    layout = _by_target(structure)
    out = _rows_like(values, layout, values.dtype)
    _run(kernels.edge_sum, values.numel(), layout, _arrays(values.dtype, values), out)
    return out


def attend(inputs: AttentionInputs, keep: bool = False) -> tuple[Tensor, Tensor]:
    """Σ_e softmax_e(LeakyReLU(z_e)) m_e x_j and log Σ exp: :func:`pdgnn.ops.reference.attend`."""
    x, layout, dtype = inputs.x, _by_target(inputs.structure), _dtype(*inputs[:5])
    arrays = (*_attention_arrays(inputs, dtype), _scalar(inputs.slope, dtype))
    out, top, total = _softmax_state(x, layout, dtype)
    _run(kernels.attend, _work(x, layout), layout, arrays, out, top, total)
    return out, top.add_(total.log_())


def attend_backward(
    g: Tensor, inputs: AttentionInputs, lse: Tensor, inner: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients to x, to a_src, and to each z_e: :func:`pdgnn.ops.reference.attend_backward`."""
    x, layout = inputs.x, _by_source(inputs.structure)
    dtype = _dtype(g, lse, *inputs[:5])
    first, last = _arrays(dtype, g), (*_arrays(dtype, lse, inner), _scalar(inputs.slope, dtype))
    arrays = (*first, *_attention_arrays(inputs, dtype), *last)
    dx, da_src = _rows_like(x, layout, dtype), _rows_like(inputs.a_src, layout, dtype)
    dz = _edges_like(x, layout, dtype)
    _run(kernels.attend_backward, _work(x, layout), layout, arrays, dx, da_src, dz)
    return dx, da_src, dz


def attend_gradients(
    g: Tensor, inputs: AttentionInputs, kept: Sequence[Tensor], need_dz: bool
) -> Gradients:
    """All gradients of :func:`attend`: :func:`pdgnn.ops.reference.attend_gradients`."""
    return reference.attend_gradients(g, inputs, kept, need_dz, attend_backward, edge_sum)


def attend_dot(
    q: Tensor, k: Tensor, v: Tensor, structure: Structure, scale: float
) -> tuple[Tensor, Tensor]:
    """Σ_e softmax_e(scale ⟨q_i, k_j⟩) v_j and log Σ exp: :func:`pdgnn.ops.reference.attend_dot`."""
    layout, dtype = _by_target(structure), _dtype(q, k, v)
    arrays = (*_arrays(dtype, q, k, v), _scalar(scale, dtype))
    out, top, total = _softmax_state(v, layout, dtype)
    _run(kernels.attend_dot, _work(v, layout), layout, arrays, out, top, total)
    return out, top.add_(total.log_())


def attend_dot_backward(
    g: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    lse: Tensor,
    inner: Tensor,
    structure: Structure,
    scale: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients to k, v and each ⟨q_i, k_j⟩: :func:`pdgnn.ops.reference.attend_dot_backward`."""
    layout, dtype = _by_source(structure), _dtype(g, q, k, v, lse)
    arrays = (*_arrays(dtype, g, q, k, v, lse, inner), _scalar(scale, dtype))
    dk, dv = _rows_like(k, layout, dtype), _rows_like(v, layout, dtype)
    ds = _edges_like(k, layout, dtype)
    _run(kernels.attend_dot_backward, _work(v, layout), layout, arrays, dk, dv, ds)
    return dk, dv, ds


# --- from tensors to arrays -----------------------------------------------------------------------


def _by_target(structure: Structure) -> Arrays:
    rowptr, col, *_ = structure
    pointers, index = rowptr.contiguous().numpy(), col.contiguous().numpy()
    return pointers, index, np.empty(0, index.dtype)


def _by_source(structure: Structure) -> Arrays:
    return tuple(t.contiguous().numpy() for t in structure[3:6])


def _dtype(*tensors: Tensor | None) -> torch.dtype:
    """What they are all computed in."""
    return reduce(torch.promote_types, (t.dtype for t in tensors if t is not None))


def _arrays(dtype: torch.dtype, *tensors: Tensor) -> Arrays:
    return tuple(t.detach().to(dtype).contiguous().numpy() for t in tensors)


def _scalar(value: float, dtype: torch.dtype) -> np.floating[Any]:
    """A number that leaves sums in this type."""
    return np.float32(value) if dtype == torch.float32 else np.float64(value)


def _attention_arrays(inputs: AttentionInputs, dtype: torch.dtype) -> Arrays:
    """The six tensors, each ``[B, ...]``, w_edge as ``[B, F, H]``; of size 0 what is not given."""
    x, a_src, a_dst, edge_attr, w_edge, mask, *_ = inputs
    w_edge = None if w_edge is None else w_edge.transpose(1, 2)
    nothing = x.new_empty(1, 0, 0)
    optional = (nothing if t is None else t for t in (edge_attr, w_edge, mask))
    return _arrays(dtype, x, a_src, a_dst, *optional)


def _rows_like(x: Tensor, layout: Arrays, dtype: torch.dtype) -> Tensor:
    """``[B, rows, ...]``, still to be written."""
    return torch.empty(x.shape[0], layout[0].size - 1, *x.shape[2:], dtype=dtype)


def _edges_like(x: Tensor, layout: Arrays, dtype: torch.dtype) -> Tensor:
    """``[B, E, H]``, still to be written."""
    return torch.empty(x.shape[0], layout[1].size, x.shape[2], dtype=dtype)


def _softmax_state(x: Tensor, layout: Arrays, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
    """Messages, maxima and sums of no edge yet."""
    out = _rows_like(x, layout, dtype)
    return out, torch.full(out.shape[:3], -torch.inf, dtype=dtype), out.new_zeros(out.shape[:3])


def _run(kernel: Any, work: int, layout: Arrays, arrays: Arrays, *outputs: Tensor) -> None:
    cpu_numba.run(kernel, work, *layout, *arrays, *(t.numpy() for t in outputs))


def _work(x: Tensor, layout: Arrays) -> int:
    """Multiplications of a sum over all edges."""
    batch, _, heads, channels = x.shape
    return batch * len(layout[1]) * heads * channels
