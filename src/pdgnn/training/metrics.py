"""Accuracy and ROC AUC of many runs at once, on the device, exact."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["accuracy", "roc_auc", "scores"]


def scores(logits: Tensor, y: Tensor, masks: Tensor) -> Tensor:
    """The score of each run on each of its masks, ``[R, K]`` float64, nan where a logit is nan.

    ROC AUC for one logit ``[R, N, 1]``, accuracy for several ``[R, N, classes]``; y ``[N]``, masks
    ``[R, K, N]``.
    """
    if logits.shape[-1] == 1:
        found = roc_auc(logits[..., 0], y, masks)
    else:
        found = accuracy(logits, y, masks)
    broken = logits.isnan().flatten(1).any(dim=1)[:, None]  # [R, 1]
    return torch.where(broken, torch.nan, found)


def accuracy(logits: Tensor, y: Tensor, masks: Tensor) -> Tensor:
    """The share of the nodes in each mask whose largest logit is that of their class, ``[R, K]``.

    >>> logits = torch.tensor([[[2.0, 1.0], [0.0, 3.0]]])
    >>> accuracy(logits, torch.tensor([0, 0]), torch.tensor([[[True, True]]])).tolist()
    [[0.5]]
    """
    right = (logits.argmax(dim=-1) == y)[:, None, :] & masks  # [R, K, N]
    return right.sum(dim=-1).double() / masks.sum(dim=-1)


def roc_auc(score: Tensor, y: Tensor, masks: Tensor) -> Tensor:
    """The chance that a positive node outscores a negative one, ties counting half, ``[R, K]``.

    score ``[R, N]``, y ``[N]`` of 0 and 1, masks ``[R, K, N]``. Counts are integers: the result is
    exact. nan where a mask lacks a class.

    >>> score = torch.tensor([[0.1, 0.4, 0.4, 0.8]])
    >>> roc_auc(score, torch.tensor([0, 0, 1, 1]), torch.ones(1, 1, 4, dtype=torch.bool)).tolist()
    [[0.875]]
    """
    ascending, order = score.contiguous().sort(dim=-1)  # [R, N]
    below = torch.searchsorted(ascending, ascending)  # scores strictly below
    up_to = torch.searchsorted(ascending, ascending, right=True)
    inside = masks.gather(2, order[:, None, :].expand_as(masks))  # [R, K, N]
    positive = (y[order] == 1)[:, None, :]
    counts = torch.nn.functional.pad((inside & ~positive).long().cumsum(dim=-1), (1, 0))
    lower = counts.gather(2, below[:, None, :].expand_as(masks))
    level = counts.gather(2, up_to[:, None, :].expand_as(masks))
    wins = ((lower + level) * (inside & positive)).sum(dim=-1)  # [R, K], twice the wins
    pairs = (inside & positive).sum(dim=-1) * counts[..., -1]
    return wins.double() / (2 * pairs).double()
