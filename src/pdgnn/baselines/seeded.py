"""Parts of modules whose dropout is that of :class:`~pdgnn.nn.SeededModule`, and a loss.

They take parameters in bfloat16 and inputs in float32.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, overload

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from pdgnn.errors import check_number
from pdgnn.nn.blocks import DropoutState
from pdgnn.nn.features import SparseFeatures, feature_matmul
from pdgnn.nn.interface import Option
from pdgnn.ops import Edges, dropout

__all__ = [
    "affine",
    "at_edges",
    "class_loss",
    "dropped",
    "number_option",
    "one_logit",
]


def affine(lin: nn.Linear, x: Tensor | SparseFeatures) -> Tensor:
    """W x + b, ``[N, in]`` to ``[N, out]``, in the type of W."""
    h = feature_matmul(x, lin.weight)
    return h if lin.bias is None else h + lin.bias


@overload
def dropped(x: Tensor, state: DropoutState, rate: Tensor | None = None) -> Tensor: ...
@overload
def dropped(
    x: Tensor | SparseFeatures, state: DropoutState, rate: Tensor | None = None
) -> Tensor | SparseFeatures: ...
def dropped(
    x: Tensor | SparseFeatures, state: DropoutState, rate: Tensor | None = None
) -> Tensor | SparseFeatures:
    """x with some entries 0 and the others scaled up, in training, by `rate` or that of `state`.

    Of sparse features only the entries that are not 0 are drawn for.
    """
    drawn = state.draw()
    if drawn is None:
        return x
    usual, seed, step, layer = drawn
    p = usual if rate is None else rate.float()
    if isinstance(x, SparseFeatures):
        return SparseFeatures(x.edges, dropout(x.values, p, seed, step, layer=layer))
    return dropout(x, p, seed, step, layer=layer)


def at_edges(source: Tensor, target: Tensor, edges: Edges) -> Tensor:
    """source_j + target_i for each edge (j, i): ``[N]`` to ``[E]``, in the slots of `edges`."""
    return source.index_select(0, edges.col) + target.index_select(0, edges.row)


def one_logit(h: Tensor, out_channels: int) -> Tensor:
    """Scores of two classes ``[N, 2]`` as the one logit ``[N, 1]`` of a task of two classes.

    softmax(h)_1 = sigmoid(h_1 − h_0). With more classes h is returned as it is.
    """
    return h[:, 1:] - h[:, :1] if out_channels == 1 else h


def class_loss(logits: Tensor, target: Tensor, train: Tensor, weight: Tensor | None) -> Tensor:
    """The mean (binary) cross entropy over the training nodes, by class weights if there are some.

    >>> logits, both = torch.tensor([[0.0], [9.0]]), torch.tensor([1, 0])
    >>> round(class_loss(logits, both, torch.tensor([True, False]), None).item(), 3)
    0.693
    """
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    if logits.shape[1] == 1:
        wanted = target.to(logits.dtype)
        each = F.binary_cross_entropy_with_logits(logits[:, 0], wanted, reduction="none")
    else:
        each = F.cross_entropy(logits, target, reduction="none")
    share = train.to(each.dtype) if weight is None else train * weight[target]
    return (each * share).sum() / share.sum()


def number_option(
    default: float, low: float, high: float, help: str, *, end: bool = True
) -> Option:
    """An option that is a number in [low, high], kept as a tensor: runs that differ in it mix."""
    check: Callable[[Any], float] = partial(check_number, "it", low=low, high=high, end=end)
    return Option(default, check, value=True, help=help)
