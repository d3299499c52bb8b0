"""The kernels of :mod:`pdgnn.ops.reference` on the CPU, without the B × E × H × C messages.

Same functions, same shapes, float32 and float64; the loops are in :mod:`pdgnn.ops.cpu_kernels`.
What has no edges is in :mod:`pdgnn.ops.cpu_dense`.
"""

from __future__ import annotations

from functools import partial, reduce
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pdgnn.ops import cpu_kernels as kernels
from pdgnn.ops import cpu_numba, reference
from pdgnn.ops.cpu_dense import (
    activate,
    activate_backward,
    adamw_,
    dropout,
    layer_norm,
    layer_norm_backward,
    score_nodes,
    score_nodes_backward,
)
from pdgnn.ops.cpu_numba import Arrays
from pdgnn.ops.reference import KEEPS_BELOW, Gradients, Structure, weight_gradient

__all__ = [
    "KEEPS_BELOW",
    "activate",
    "activate_backward",
    "adamw_",
    "attend",
    "attend_backward",
    "attend_dot",
    "attend_dot_backward",
    "attend_gradients",
    "dropout",
    "edge_sum",
    "layer_norm",
    "layer_norm_backward",
    "score_nodes",
    "score_nodes_backward",
    "sddmm",
    "spmm",
    "spmm_transposed",
    "weight_gradient",
]


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
    dtype = _dtype(x, weight)
    if weight.shape[2] == 1:  # heads that share their weights are as good as one
        flat = _spmm_per_head(x.flatten(2)[:, :, None], weight, layout, dtype)
        return flat.reshape(x.shape[0], -1, *x.shape[2:])
    return _spmm_per_head(x, weight, layout, dtype)


def _spmm_per_head(x: Tensor, weight: Tensor, layout: Arrays, dtype: torch.dtype) -> Tensor:
    out = _rows_like(x, layout, dtype)
    cpu_numba.run(kernels.spmm, _work(x, layout), *layout, *_arrays(dtype, x, weight), out.numpy())
    return out


def sddmm(g: Tensor, x: Tensor, structure: Structure) -> Tensor:
    """⟨g_i, x_j⟩ of each edge and head: :func:`pdgnn.ops.reference.sddmm`."""
    layout, dtype = _by_target(structure), _dtype(g, x)
    out = _edges_like(x, layout, dtype)
    cpu_numba.run(kernels.sddmm, _work(x, layout), *layout, *_arrays(dtype, g, x), out.numpy())
    return out


def edge_sum(values: Tensor, structure: Structure) -> Tensor:
    """Σ_e v_e over the edges into each target: :func:`pdgnn.ops.reference.edge_sum`."""
    layout = _by_target(structure)
    out = _rows_like(values, layout, values.dtype)
    cpu_numba.run(
        kernels.edge_sum, values.numel(), *layout, *_arrays(values.dtype, values), out.numpy()
    )
    return out


def attend(
    x: Tensor,
    a_src: Tensor,
    a_dst: Tensor,
    edge_attr: Tensor | None,
    w_edge: Tensor | None,
    mask: Tensor | None,
    structure: Structure,
    slope: float,
) -> tuple[Tensor, Tensor]:
    """out_i = Σ_e softmax_e(LeakyReLU(z_e)) m_e x_j, and log Σ exp of the scores.

    :func:`pdgnn.ops.reference.attend`.
    """
    layout, dtype = _by_target(structure), _dtype(x, a_src, a_dst, edge_attr, w_edge)
    inputs = _arrays(dtype, x, a_src, a_dst, *_optional(x, edge_attr, w_edge, mask))
    out, top, total = _softmax_state(x, layout, dtype)
    outputs = (out.numpy(), top.numpy(), total.numpy())
    cpu_numba.run(
        kernels.attend, _work(x, layout), *layout, *inputs, _scalar(slope, dtype), *outputs
    )
    return out, top.add_(total.log_())


def attend_backward(
    g: Tensor,
    x: Tensor,
    a_src: Tensor,
    a_dst: Tensor,
    edge_attr: Tensor | None,
    w_edge: Tensor | None,
    mask: Tensor | None,
    lse: Tensor,
    inner: Tensor,
    structure: Structure,
    slope: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients to x, to a_src, and to each z_e: :func:`pdgnn.ops.reference.attend_backward`."""
    layout, dtype = _by_source(structure), _dtype(g, x, a_src, a_dst, edge_attr, w_edge, lse)
    optional = _optional(x, edge_attr, w_edge, mask)
    inputs = _arrays(dtype, g, x, a_src, a_dst, *optional, lse, inner)
    dx, da_src = _rows_like(x, layout, dtype), _rows_like(a_src, layout, dtype)
    dz = _edges_like(x, layout, dtype)
    outputs = (dx.numpy(), da_src.numpy(), dz.numpy())
    cpu_numba.run(
        kernels.attend_backward, _work(x, layout), *layout, *inputs, _scalar(slope, dtype), *outputs
    )
    return dx, da_src, dz


def attend_gradients(*args: Any) -> Gradients:
    """All gradients of :func:`attend`: :func:`pdgnn.ops.reference.attend_gradients`."""
    form = partial(reference.attend_gradients, backward=attend_backward, summed=edge_sum)
    return form(*args)


def attend_dot(
    q: Tensor, k: Tensor, v: Tensor, structure: Structure, scale: float
) -> tuple[Tensor, Tensor]:
    """out_i = Σ_e softmax_e(scale ⟨q_i, k_j⟩) v_j, and log Σ exp of the scores.

    :func:`pdgnn.ops.reference.attend_dot`.
    """
    layout, dtype = _by_target(structure), _dtype(q, k, v)
    out, top, total = _softmax_state(v, layout, dtype)
    outputs = (out.numpy(), top.numpy(), total.numpy())
    inputs = _arrays(dtype, q, k, v)
    cpu_numba.run(
        kernels.attend_dot, _work(v, layout), *layout, *inputs, _scalar(scale, dtype), *outputs
    )
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
    """Gradients to k, to v and to each ⟨q_i, k_j⟩.

    :func:`pdgnn.ops.reference.attend_dot_backward`.
    """
    layout, dtype = _by_source(structure), _dtype(g, q, k, v, lse)
    dk, dv = _rows_like(k, layout, dtype), _rows_like(v, layout, dtype)
    ds = _edges_like(k, layout, dtype)
    outputs = (dk.numpy(), dv.numpy(), ds.numpy())
    inputs, factor = _arrays(dtype, g, q, k, v, lse, inner), _scalar(scale, dtype)
    cpu_numba.run(kernels.attend_dot_backward, _work(v, layout), *layout, *inputs, factor, *outputs)
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
    return np.float32(value) if dtype == torch.float32 else np.float64(value)


def _optional(
    x: Tensor, edge_attr: Tensor | None, w_edge: Tensor | None, mask: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """Each ``[B, ...]``, w_edge as ``[B, F, H]``; of size 0 what is not given."""
    nothing = x.new_empty(1, 0, 0)
    mask = nothing if mask is None else mask
    if edge_attr is None or w_edge is None:
        return nothing, nothing, mask
    return edge_attr, w_edge.transpose(1, 2), mask


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


def _work(x: Tensor, layout: Arrays) -> int:
    batch, _, heads, channels = x.shape
    return batch * len(layout[1]) * heads * channels
