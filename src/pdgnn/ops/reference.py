"""The kernels as plain torch, on any device: what the fast forms are tested against.

Every tensor has a batch of B runs in front; where a run's values are shared, that dimension is 1.
`x` is ``[B, N, H, C]``, a value of an edge and head ``[B, E, H]`` in the slots of
:class:`~pdgnn.ops.edges.Edges`. These forms build the B × E × H × C messages; the others do not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import leaky_relu

Structure = Sequence[Tensor]
"""The tensors of :class:`~pdgnn.ops.edges.Edges`, in the order of its fields."""
DropoutState = tuple[Tensor, Tensor, Tensor, int]
"""p, seed, step and layer of :func:`dropout`."""
Gradients = tuple[Tensor, Tensor, Tensor, Tensor | None, Tensor | None]
"""To x, a_src, a_dst, w_edge (where given) and each z_e (where asked for)."""
KEEPS_NEGATIVE_PART = False
"""Whether :func:`attend` gives two more results where it is told to keep them for the gradients:
Σ p m x and Σ p over the edges into each target whose z is not positive."""


class AttentionInputs(NamedTuple):
    """What :func:`attend` and its gradients take."""

    x: Tensor  # [B, N, H, C]
    a_src: Tensor  # [B, N, H]
    a_dst: Tensor  # [B, targets, H]
    edge_attr: Tensor | None  # [1 or B, E, F]
    w_edge: Tensor | None  # [B, H, F]
    mask: Tensor | None  # [B, E, H]
    structure: Structure
    slope: float  # of the LeakyReLU


def segment_sum(values: Tensor, index: Tensor, size: int) -> Tensor:
    """Sums of ``[B, E, ...]`` over the edges that `index` ``[E]`` gives to each of `size` nodes."""
    zeros = values.new_zeros(values.shape[0], size, *values.shape[2:])
    return zeros.index_add(1, index, values)


def _wide(values: Tensor) -> Tensor:
    return values.to(torch.promote_types(values.dtype, torch.float32))


def _kept_narrow(values: Tensor, like: Tensor) -> Tensor:
    """Back in the type of `like` where that is narrower than float32."""
    return values.to(like.dtype) if like.dtype.itemsize < torch.float32.itemsize else values


def spmm(x: Tensor, weight: Tensor, structure: Structure) -> Tensor:
    """out_i = Σ_e w_e x_j over the edges e = (j, i); `weight` is ``[1 or B, E, 1 or H]``."""
    rowptr, col, row, *_ = structure
    return _kept_narrow(segment_sum(weight[..., None] * x[:, col], row, rowptr.numel() - 1), x)


def spmm_transposed(g: Tensor, weight: Tensor, structure: Structure) -> Tensor:
    """out_j = Σ_e w_e g_i over the edges e = (j, i): the gradient of :func:`spmm` to x."""
    _, col, row, t_rowptr, *_ = structure
    return _kept_narrow(segment_sum(weight[..., None] * g[:, row], col, t_rowptr.numel() - 1), g)


def sddmm(g: Tensor, x: Tensor, structure: Structure) -> Tensor:
    """⟨g_i, x_j⟩ of each edge and head, ``[B, E, H]``, in float32 at least."""
    _, col, row, *_ = structure
    return (_wide(g)[:, row] * _wide(x)[:, col]).sum(dim=-1)


def edge_sum(values: Tensor, structure: Structure) -> Tensor:
    """Σ_e v_e over the edges into each target, ``[B, E, H]`` to ``[B, targets, H]``."""
    rowptr, _, row, *_ = structure
    return segment_sum(values, row, rowptr.numel() - 1)


def _logits(inputs: AttentionInputs) -> Tensor:
    """z_e = a_src_j + a_dst_i + ⟨w_edge, f_e⟩ before the LeakyReLU, ``[B, E, H]``."""
    _, a_src, a_dst, edge_attr, w_edge, _, (_, col, row, *_), _ = inputs
    z = _wide(a_src)[:, col] + _wide(a_dst)[:, row]
    if edge_attr is not None and w_edge is not None:
        z = z + _wide(edge_attr) @ _wide(w_edge).transpose(1, 2)  # [1 or B, E, F] @ [B, F, H]
    return z


def _softmax(s: Tensor, structure: Structure) -> tuple[Tensor, Tensor]:
    """Softmax over the edges into each target ``[B, E, H]``, and log Σ exp ``[B, targets, H]``."""
    rowptr, _, row, *_ = structure
    targets = rowptr.numel() - 1
    top = s.new_full((s.shape[0], targets, s.shape[2]), -torch.inf)
    top = top.scatter_reduce(1, row.long()[None, :, None].expand_as(s), s, "amax")
    top = torch.where(top.isinf(), 0.0, top)  # targets without edges
    lse = segment_sum((s - top[:, row]).exp(), row, targets).log() + top
    return (s - lse[:, row]).exp(), lse


def attend(inputs: AttentionInputs, keep: bool = False) -> tuple[Tensor, ...]:
    """out_i = Σ_e softmax_e(LeakyReLU(z_e)) m_e x_j, and log Σ exp of the scores.

    With `keep`, and where KEEPS_NEGATIVE_PART, also what that describes.
    """
    structure, mask = inputs.structure, inputs.mask
    p, lse = _softmax(leaky_relu(_logits(inputs), inputs.slope), structure)
    return spmm(inputs.x, p if mask is None else p * mask, structure), lse


def attend_backward(
    g: Tensor, inputs: AttentionInputs, lse: Tensor, inner: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients to x, to a_src, and to each z_e ``[B, E, H]``.

    `inner` ``[B, targets, H]`` is ⟨g_i, out_i⟩ = Σ_e p_e ∂/∂p_e. With p_e = exp(s_e − lse_i):
    ∂s_e = p_e (m_e ⟨g_i, x_j⟩ − inner_i), ∂z_e = LeakyReLU′(z_e) ∂s_e, ∂x_j = Σ_e p_e m_e g_i.
    """
    structure, slope = inputs.structure, inputs.slope
    _, col, row, t_rowptr, *_ = structure
    z = _logits(inputs)
    p = (leaky_relu(z, slope) - lse[:, row]).exp()
    m = torch.ones_like(p) if inputs.mask is None else inputs.mask
    ds = p * (m * sddmm(g, inputs.x, structure) - inner[:, row])
    dz = torch.where(z > 0, ds, slope * ds)
    dx = spmm_transposed(g, p * m, structure)
    da_src = segment_sum(dz, col, t_rowptr.numel() - 1)
    return dx, _kept_narrow(da_src, inputs.a_src), dz


def attend_gradients(
    g: Tensor,
    inputs: AttentionInputs,
    kept: Sequence[Tensor],
    need_dz: bool,
    backward: Callable[..., tuple[Tensor, Tensor, Tensor]] = attend_backward,
    summed: Callable[[Tensor, Structure], Tensor] = edge_sum,
) -> Gradients:
    """All gradients of :func:`attend`, of which `kept` is what it gave.

    `backward` and `summed` are the forms to use. ∂a_dst_i = Σ_e ∂z_e over the edges into i,
    ∂w_edge = Σ_e ∂z_e f_e over all.
    """
    (out, lse, *_), attr = kept, inputs.edge_attr
    inner = (_wide(g) * out).sum(dim=-1)  # [B, targets, H]
    dx, da_src, dz = backward(g, inputs, lse, inner)
    da_dst = _kept_narrow(summed(dz, inputs.structure), inputs.a_dst)
    dw = None if attr is None else dz.transpose(1, 2) @ attr.to(dz.dtype)  # [B, H, F]
    return dx, da_src, da_dst, dw, dz


def attend_dot(
    q: Tensor, k: Tensor, v: Tensor, structure: Structure, scale: float
) -> tuple[Tensor, Tensor]:
    """out_i = Σ_e softmax_e(scale ⟨q_i, k_j⟩) v_j, and log Σ exp; q ``[B, targets, H, C]``."""
    p, lse = _softmax(scale * sddmm(q, k, structure), structure)
    return spmm(v, p, structure), lse


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
    """Gradients to k, to v, and to each scale-free score ⟨q_i, k_j⟩ ``[B, E, H]``."""
    row = structure[2]
    p = (scale * sddmm(q, k, structure) - lse[:, row]).exp()
    ds = scale * p * (sddmm(g, v, structure) - inner[:, row])
    return spmm_transposed(q, ds, structure), spmm_transposed(g, p, structure), ds


def _mix(x: Tensor) -> Tensor:
    """A bijection of 32-bit integers whose output bits look random (held in int64)."""
    x = x ^ (x >> 16)
    x = (x * 0x7FEB352D) & 0xFFFFFFFF
    x = x ^ (x >> 15)
    x = (x * 0x846CA68B) & 0xFFFFFFFF
    return x ^ (x >> 16)


def random_bits(seed: Tensor, step: Tensor, layer: int, size: int) -> Tensor:
    """24 random bits for each of the `size` elements of each run, ``[B, size]``.

    They depend on the run's seed, the step, the layer and the element, not on the other runs.
    """
    low, high = seed & 0xFFFFFFFF, (seed >> 32) & 0xFFFFFFFF
    key = _mix(_mix(_mix(low ^ 0x9E3779B9) ^ high) ^ (step & 0xFFFFFFFF))  # [B]
    key = _mix(key ^ (layer & 0xFFFFFFFF))[:, None]
    second = _mix(key ^ 0x85EBCA6B)
    element = torch.arange(size, device=seed.device)[None]
    bits = _mix((element & 0xFFFFFFFF) ^ key) ^ (element >> 32)
    return _mix((bits + second) & 0xFFFFFFFF) >> 8


def dropout(x: Tensor, p: Tensor, seed: Tensor, step: Tensor, layer: int) -> Tensor:
    """x where its random number in [0, 1) is at least p, scaled by 1 / (1 − p); else 0.

    x ``[B, ...]``; p (float32) and seed (int64) ``[B]``; step ``[1]``.
    """
    flat = x.reshape(x.shape[0], -1)
    number = random_bits(seed, step, layer, flat.shape[1]).to(torch.float32) * 2.0**-24
    keep = number >= p[:, None]
    scale = torch.where(p < 1, 1 / (1 - p), 0.0).to(x.dtype)
    return torch.where(keep, flat * scale[:, None], 0.0).reshape(x.shape)


def _dropped(h: Tensor, bias: Tensor, state: DropoutState | None) -> Tensor:
    u = h + bias[:, None]
    return u if state is None else dropout(u, *state)


def activate(
    h: Tensor, bias: Tensor, residual: Tensor | None, state: DropoutState | None
) -> Tensor:
    """What follows a matrix product h ``[B, N, D]``: u = dropout(h + bias), then GELU(u).

    With a `residual` ``[B, N, D]`` it is residual + u instead. bias is ``[B, D]``; without a
    `state` nothing is dropped.
    """
    u = _dropped(h, bias, state)
    return torch.nn.functional.gelu(u) if residual is None else residual + u


def activate_backward(
    g: Tensor, h: Tensor, bias: Tensor, gelu: bool, state: DropoutState | None
) -> tuple[Tensor, Tensor]:
    """Gradients to h ``[B, N, D]`` and to bias ``[B, D]``."""
    if gelu:
        g = torch.ops.aten.gelu_backward(g, _dropped(h, bias, state))
    dh = g if state is None else dropout(g, *state)
    return dh.to(h.dtype), dh.sum(dim=1).to(bias.dtype)


def layer_norm(
    x: Tensor, weight: Tensor, bias: Tensor, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """y = w ⊙ (x − mean) · scale + b over the last dimension, and mean and scale ``[B, N]``.

    x ``[B, N, D]``; weight and bias ``[B, D]``, whose type is that of y. scale² = 1 / (var + eps).
    """
    wide = torch.promote_types(x.dtype, torch.float32)
    z = x.to(wide)
    mean = z.mean(dim=-1)
    scale = (z.var(dim=-1, unbiased=False) + eps).rsqrt()
    z = (z - mean[..., None]) * scale[..., None]
    return (z * weight[:, None] + bias[:, None]).to(weight.dtype), mean, scale


def layer_norm_backward(
    g: Tensor, passed: Tensor | None, x: Tensor, weight: Tensor, mean: Tensor, scale: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients to x, weight and bias; `passed` ``[B, N, D]`` is added to that of x.

    With z = (x − mean) · scale and u = g ⊙ w: ∂x = scale (u − ⟨u⟩ − z ⟨u z⟩), ⟨·⟩ a mean over D.
    """
    z = (x.to(mean.dtype) - mean[..., None]) * scale[..., None]
    g = g.to(mean.dtype)
    u = g * weight[:, None]
    dx = u - u.mean(dim=-1, keepdim=True) - z * (u * z).mean(dim=-1, keepdim=True)
    dx = dx * scale[..., None]
    dx = dx if passed is None else dx + passed
    return dx.to(x.dtype), (g * z).sum(dim=1).to(weight.dtype), g.sum(dim=1).to(weight.dtype)


def batch_norm(
    parts: Sequence[Tensor], weight: Tensor, bias: Tensor, eps: float, state: DropoutState | None
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """y = dropout(max(w ⊙ (x − mean) · scale + b, 0)), mean and var over the nodes, and x.

    x is the sum of one, two or three `parts` ``[B, N, D]``; weight and bias, mean and var are
    ``[B, D]``. scale² = 1 / (var + eps), var is divided by N.
    """
    first, *more = parts
    x = sum(map(_wide, more), _wide(first)).to(first.dtype)
    z = _wide(x)
    mean = z.mean(dim=1)
    z = z - mean[:, None]
    var = z.square().mean(dim=1)  # torch.var takes several times as long on a CPU
    scale = weight.to(z.dtype) * (var + eps).rsqrt()
    y = torch.addcmul(bias[:, None].to(z.dtype), z, scale[:, None]).relu_().to(x.dtype)
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
    """Gradients to x, weight and bias.

    With z = (x − mean) · scale, u = w ⊙ z + b and d = dropout(g) where u > 0, else 0:
    ∂b = Σ_n d, ∂w = Σ_n d z and ∂x = w scale (d − (∂b + z ∂w) / N).
    """
    d = _wide(g if state is None else dropout(g, *state))
    scale = (var + eps).rsqrt()
    z = (x.to(mean.dtype) - mean[:, None]) * scale[:, None]
    w = weight.to(mean.dtype)
    d = torch.where(torch.addcmul(bias[:, None].to(z.dtype), z, w[:, None]) > 0, d, 0.0)
    db, dw = d.sum(dim=1), (d * z).sum(dim=1)
    of_nodes = torch.addcmul(db[:, None], z, dw[:, None]) / x.shape[1]
    dx = (d - of_nodes) * (w * scale)[:, None]
    return dx.to(x.dtype), dw.to(weight.dtype), db.to(weight.dtype)


def over_nodes(g: Tensor, x: Tensor) -> Tensor:
    """gᵀ x of g ``[B, N, out]`` and x ``[B or 1, N, in]``."""
    return torch.matmul(g.mT, x[0] if len(x) == 1 else x)


def score_nodes(
    h: Tensor, bias: Tensor | None, att_src: Tensor, att_dst: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """x = h + bias, ⟨att_src, x⟩ and ⟨att_dst, x⟩ of each node and head.

    h ``[B, N, H, C]``; bias, att_src and att_dst ``[B, H, C]``; the products are ``[B, N, H]``.
    """
    x = h if bias is None else h + bias[:, None]
    wide = _wide(x)
    a_src, a_dst = ((wide * _wide(att)[:, None]).sum(dim=-1) for att in (att_src, att_dst))
    return x, a_src, a_dst


def score_nodes_backward(
    g: Tensor, g_src: Tensor, g_dst: Tensor, x: Tensor, att_src: Tensor, att_dst: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Gradients to h (which is that to x), bias, att_src and att_dst.

    ∂h = g + g_src att_src + g_dst att_dst, ∂bias = Σ_n ∂h, ∂att_src = Σ_n g_src x.
    """
    g_src, g_dst = g_src[..., None], g_dst[..., None]
    dh = _wide(g) + g_src * att_src[:, None] + g_dst * att_dst[:, None]
    of_src, of_dst = ((_wide(x) * to).sum(dim=1).to(att_src.dtype) for to in (g_src, g_dst))
    return dh.to(g.dtype), dh.sum(dim=1).to(att_src.dtype), of_src, of_dst


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
    """One step of AdamW on the rows of `parameters`, `mean` and `square` ``[R, P]``, in place.

    m ← β₁ m + (1 − β₁) g,  v ← β₂ v + (1 − β₂) g²,  θ ← decay · θ − rate · m / (√v / root + ε);
    decay = 1 − lr · λ, rate = lr / (1 − β₁^t) and root = √(1 − β₂^t) are ``[R]``, in any type.
    """
    decay, rate, root = (t.to(parameters.dtype)[:, None] for t in (decay, rate, root))
    grads = grads.to(parameters.dtype)
    mean.lerp_(grads, 1 - betas[0])
    square.mul_(betas[1]).addcmul_(grads, grads, value=1 - betas[1])
    scale = square.sqrt().div_(root).add_(eps)
    parameters.mul_(decay).sub_(torch.div(mean, scale, out=scale).mul_(rate))
