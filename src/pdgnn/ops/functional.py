"""The kernels as functions of the tensors of one run, for use in modules.

Under :func:`torch.func.vmap` many runs are one kernel launch (see :mod:`pdgnn.ops.library`). The
form is picked by the device (see :mod:`pdgnn.ops.backends`): Triton on a GPU, numba on the CPU,
plain torch elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from pdgnn.errors import InputError
from pdgnn.ops import autograd
from pdgnn.ops.edges import Edges


def _apply(function: Any, *args: Any) -> Any:
    return function.apply(*args) if torch.is_grad_enabled() else function.forward(*args)


def _first(function: Any, *args: Any) -> Tensor:
    """The first result for one run, without the batch in front.

    Taken off by squeeze, as the gradient of an index is written into zeros.
    """
    out = _apply(function, *args)
    first: Tensor = out if isinstance(out, Tensor) else out[0]
    return first.squeeze(0)


def _check(**given: tuple[Tensor | None, tuple[int | str, ...]]) -> None:
    """An error if a tensor has not the shape beside it; a letter is any size.

    The kernels do not look: they would read what lies beyond the end.
    """
    for name, (t, shape) in given.items():
        if t is not None and not (
            t.ndim == len(shape)
            and all(isinstance(n, str) or n == m for n, m in zip(shape, t.shape, strict=True))
        ):
            wanted = ", ".join(map(str, shape))
            raise InputError(f"{name} has shape {list(t.shape)}; with these edges give [{wanted}]")


def aggregate(x: Tensor, weight: Tensor, edges: Edges) -> Tensor:
    """out_i = Σ_e w_e x_j over the edges e = (j, i): ``[N, H, C]`` to ``[targets, H, C]``.

    `weight` is ``[E, H]``, or ``[E, 1]`` for all heads alike, in the slots of `edges`.

    >>> edges = Edges.from_edge_index(torch.tensor([[1, 2], [0, 0]]), num_nodes=3)
    >>> x = torch.tensor([[[1.0]], [[2.0]], [[4.0]]])
    >>> aggregate(x, torch.tensor([[0.5], [0.25]]), edges).flatten().tolist()
    [2.0, 0.0, 0.0]
    """
    _check(x=(x, (edges.num_sources, "H", "C")))
    heads = 1 if weight.shape[-1:] == (1,) else x.shape[1]
    _check(weight=(weight, (edges.num_edges, heads)))
    return _first(autograd.Aggregate, x[None], weight[None], *edges.tensors())


def attend(
    x: Tensor,
    a_src: Tensor,
    a_dst: Tensor,
    edges: Edges,
    *,
    edge_attr: Tensor | None = None,
    w_edge: Tensor | None = None,
    mask: Tensor | None = None,
    negative_slope: float = 0.2,
) -> Tensor:
    """out_i = Σ_e p_e m_e x_j with p = softmax over the edges into i of LeakyReLU(z_e).

    z_e = a_src_j + a_dst_i + ⟨w_edge, f_e⟩, in float32 at least. x ``[N, H, C]``, a_src ``[N, H]``,
    a_dst ``[targets, H]``; the features f = `edge_attr` ``[E, F]`` with w_edge ``[H, F]``, and the
    mask m ``[E, H]`` (dropout of attention) are optional, in the slots of `edges`.

    >>> edges = Edges.from_edge_index(torch.tensor([[1, 2], [0, 0]]), num_nodes=3)
    >>> x = torch.tensor([[[1.0]], [[2.0]], [[4.0]]])
    >>> attend(x, torch.zeros(3, 1), torch.zeros(3, 1), edges).flatten().tolist()
    [3.0, 0.0, 0.0]
    """
    _check(x=(x, (edges.num_sources, "H", "C")))
    _check(
        a_src=(a_src, x.shape[:2]),
        a_dst=(a_dst, (edges.num_targets, x.shape[1])),
        **_of_edges(edges, x.shape[1], edge_attr, w_edge, mask),
    )
    batched = [None if t is None else t[None] for t in (edge_attr, w_edge, mask)]
    wide = torch.promote_types(a_src.dtype, torch.float32)
    scores, keep = (a_src[None].to(wide), a_dst[None].to(wide)), torch.is_grad_enabled()
    rest = (negative_slope, keep, *edges.tensors())
    return _first(autograd.Attend, x[None], *scores, *batched, *rest)


def attend_nodes(
    h: Tensor,
    att_src: Tensor,
    att_dst: Tensor,
    edges: Edges,
    *,
    edge_attr: Tensor | None = None,
    w_edge: Tensor | None = None,
    mask: Tensor | None = None,
    negative_slope: float = 0.2,
) -> Tensor:
    """:func:`attend` with the scores of :func:`score_nodes`, in fewer steps.

    h is ``[N, H · C]``, as a matrix product leaves it, and so is the result. att_src and att_dst
    are ``[1, H, C]``, w_edge is ``[1, H, F]``; the others are those of :func:`attend`.

    >>> edges = Edges.from_edge_index(torch.tensor([[1, 2], [0, 0]]), num_nodes=3)
    >>> h, att = torch.tensor([[1.0, 0.0], [2.0, 3.0], [4.0, 7.0]]), torch.zeros(1, 2, 1)
    >>> attend_nodes(h, att, att, edges).tolist()
    [[3.0, 5.0], [0.0, 0.0], [0.0, 0.0]]
    """
    _check(att_src=(att_src, (1, "H", "C")))
    _, heads, channels = att_src.shape
    if edges.num_sources != edges.num_targets:
        raise InputError(
            "these edges join two sets of nodes; use attend, which takes scores of both"
        )
    flat = None if w_edge is None else w_edge.squeeze(0)
    _check(
        h=(h, (edges.num_sources, heads * channels)),
        att_dst=(att_dst, att_src.shape),
        **_of_edges(edges, heads, edge_attr, flat, mask),
    )
    attr, mask = (None if t is None else t[None] for t in (edge_attr, mask))
    x = h.view(1, h.shape[0], *att_src.shape[1:])  # [1, N, H, C]
    rest = (attr, w_edge, mask, negative_slope, torch.is_grad_enabled())
    out, *_ = _apply(autograd.AttendNodes, x, att_src, att_dst, *rest, *edges.tensors())
    result: Tensor = out.view(-1, h.shape[1])  # one step, with which the batch goes too
    return result


def _of_edges(
    edges: Edges, heads: int, edge_attr: Tensor | None, w_edge: Tensor | None, mask: Tensor | None
) -> dict[str, tuple[Tensor | None, tuple[int | str, ...]]]:
    """The shapes of what :func:`attend` takes for each edge."""
    if (edge_attr is None) != (w_edge is None):
        raise InputError("edge_attr and w_edge belong together; give both or neither")
    features = "F" if edge_attr is None else edge_attr.shape[-1]
    return {
        "edge_attr": (edge_attr, (edges.num_edges, "F")),
        "w_edge": (w_edge, (heads, features)),
        "mask": (mask, (edges.num_edges, heads)),
    }


def attend_dot(q: Tensor, k: Tensor, v: Tensor, edges: Edges, *, scale: float) -> Tensor:
    """out_i = Σ_e p_e v_j with p = softmax over the edges into i of scale · ⟨q_i, k_j⟩.

    q ``[targets, H, C]``, k and v ``[N, H, C]``.
    """
    _check(k=(k, (edges.num_sources, "H", "C")))
    _check(q=(q, (edges.num_targets, *k.shape[1:])), v=(v, k.shape))
    return _first(autograd.AttendDot, q[None], k[None], v[None], scale, *edges.tensors())


def dropout(x: Tensor, p: Tensor, seed: Tensor, step: Tensor, *, layer: int) -> Tensor:
    """Dropout whose mask is a function of (seed, step, layer, element), so of one run alone.

    p, seed and step are tensors without dimensions. Nothing is kept for the backward pass.

    >>> one = [torch.tensor(0.5), torch.tensor(3), torch.tensor(0)]
    >>> dropout(torch.ones(8), *one, layer=1).tolist()
    [2.0, 0.0, 0.0, 2.0, 2.0, 0.0, 2.0, 0.0]
    """
    return _first(autograd.Dropout, x[None], p[None], seed[None], step[None], layer)


def activate(
    h: Tensor,
    bias: Tensor,
    *,
    residual: Tensor | None = None,
    dropout: tuple[Tensor, Tensor, Tensor, int] | None = None,
) -> Tensor:
    """What follows a matrix product in the models: GELU(dropout(h + bias)), in one pass.

    With a `residual` it is residual + dropout(h + bias). h ``[N, D]``, bias ``[D]``; `dropout`
    is the p, seed, step and layer of :func:`dropout`, and None drops nothing.

    >>> activate(torch.tensor([[1.0]]), torch.tensor([2.0]), residual=torch.tensor([[4.0]])).item()
    7.0
    """
    rate, seed, step, layer = (None, None, None, 0) if dropout is None else dropout
    tensors = [None if t is None else t[None] for t in (h, bias, residual, rate, seed, step)]
    return _first(autograd.Activate, *tensors, layer)


def layer_norm(
    x: Tensor, weight: Tensor, bias: Tensor, *, eps: float = 1e-5
) -> tuple[Tensor, Tensor]:
    """LayerNorm of x ``[N, D]`` in the type of `weight` ``[D]``, and x itself to be passed on.

    Where the second result is used in the place of x, as a residual, its gradient is added in the
    backward pass of the norm and takes no pass of its own.

    >>> layer_norm(torch.tensor([[1.0, 3.0]]), torch.ones(2), torch.zeros(2), eps=0)[0].tolist()
    [[-1.0, 1.0]]
    """
    y, same, *_ = _apply(autograd.LayerNorm, x[None], weight[None], bias[None], eps)
    return y.squeeze(0), same.squeeze(0)


def batch_norm(
    x: Tensor,
    weight: Tensor,
    bias: Tensor,
    *,
    added: Sequence[Tensor] = (),
    eps: float = 1e-5,
    dropout: tuple[Tensor, Tensor, Tensor, int] | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """dropout(ReLU(w ⊙ (x − μ) / √(σ² + ε) + b)) with μ and σ² over the nodes; and μ and σ².

    x ``[N, D]``, to which up to two that are `added` are added first; weight and bias ``[D]``;
    `dropout` is that of :func:`activate`. μ and σ² ``[D]``, the latter divided by N, are in float32
    at least, and have no gradient of their own.

    >>> batch_norm(torch.tensor([[1.0], [3.0]]), torch.ones(1), torch.zeros(1), eps=0)[0].tolist()
    [[0.0], [1.0]]
    """
    rate, seed, step, layer = (None, None, None, 0) if dropout is None else dropout
    if len(added) > 2:
        raise InputError(f"{len(added)} tensors are added to x; give at most two, sum others first")
    second, third, *_ = (*added, None, None)
    given = (x, second, third, weight, bias, rate, seed, step)
    tensors = [None if t is None else t[None] for t in given]
    y, mean, var, _ = _apply(autograd.BatchNorm, *tensors, layer, eps)
    return y.squeeze(0), mean.squeeze(0), var.squeeze(0)


def linear(x: Tensor, weight: Tensor) -> Tensor:
    """x Wᵀ for x ``[N, in]`` and weight ``[out, in]``, with gradients that need no copy.

    >>> linear(torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0, 4.0]])).item()
    11.0
    """
    out: Tensor = _apply(autograd.Linear, x, weight)
    return out


def score_nodes(
    h: Tensor, bias: Tensor | None, att_src: Tensor, att_dst: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """x = h + bias, and the terms of its nodes in the scores of :func:`attend`, in one pass.

    h ``[N, H, C]``; bias (or None), att_src and att_dst ``[H, C]``. Gives x ``[N, H, C]``,
    a_src = ⟨att_src, x⟩ and a_dst = ⟨att_dst, x⟩ ``[N, H]``, the latter in float32 at least.

    >>> h, one = torch.tensor([[[1.0, 2.0]]]), torch.ones(1, 2)
    >>> [t.flatten().tolist() for t in score_nodes(h, one, one, 2 * one)]
    [[2.0, 3.0], [5.0], [10.0]]
    """
    tensors = [None if t is None else t[None] for t in (h, bias, att_src, att_dst)]
    x, a_src, a_dst = _apply(autograd.ScoreNodes, *tensors)
    return x.squeeze(0), a_src.squeeze(0), a_dst.squeeze(0)
