"""Scores of many runs at once, on the device, each as scikit-learn defines it.

All take logits ``[R, N, out]`` (one logit for two classes), labels ``[N]`` and masks ``[R, K, N]``,
and give ``[R, K]`` float64 in [0, 1]; nan where a mask has no nodes or lacks what the score needs.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from pdgnn.errors import InputError

__all__ = ["METRICS", "check_metric", "roc_auc", "scores"]


def scores(logits: Tensor, y: Tensor, masks: Tensor, metric: str | None = None) -> Tensor:
    """The score of each run on each of its masks, ``[R, K]`` float64, nan where a logit is nan.

    The `metric` is one of :data:`METRICS`; default ROC AUC for one logit, accuracy for several.
    """
    if metric is None:
        metric = "roc_auc" if logits.shape[-1] == 1 else "accuracy"
    found = METRICS[metric](logits, y, masks)
    broken = logits.isnan().flatten(1).any(dim=1)[:, None]  # [R, 1]
    return torch.where(broken, torch.nan, found)


def predicted(logits: Tensor) -> Tensor:
    """The class of each node, ``[R, N]``: the largest logit, or whether the only one is above 0."""
    if logits.shape[-1] == 1:
        return (logits[..., 0] > 0).long()
    return logits.argmax(dim=-1)


def accuracy(logits: Tensor, y: Tensor, masks: Tensor) -> Tensor:
    """The share of the nodes in each mask whose class is predicted.

    >>> logits = torch.tensor([[[2.0, 1.0], [0.0, 3.0]]])
    >>> accuracy(logits, torch.tensor([0, 0]), torch.tensor([[[True, True]]])).tolist()
    [[0.5]]
    """
    right = (predicted(logits) == y)[:, None, :] & masks  # [R, K, N]
    return right.sum(dim=-1).double() / masks.sum(dim=-1)


def balanced_accuracy(logits: Tensor, y: Tensor, masks: Tensor) -> Tensor:
    """The mean over the classes in a mask of the share of their nodes that are predicted.

    >>> logits, y = torch.tensor([[[1.0], [1.0], [1.0], [-1.0]]]), torch.tensor([1, 1, 1, 1])
    >>> balanced_accuracy(logits, y, torch.ones(1, 1, 4, dtype=torch.bool)).tolist()
    [[0.75]]
    """
    right, actual, _ = _counts(logits, y, masks)
    return _mean_where(right / actual, actual > 0)


def macro_f1(logits: Tensor, y: Tensor, masks: Tensor) -> Tensor:
    """The mean of 2 · right / (actual + predicted) over the classes that a mask has of either.

    >>> logits, y = torch.tensor([[[1.0], [1.0], [-1.0]]]), torch.tensor([1, 0, 0])
    >>> macro_f1(logits, y, torch.ones(1, 1, 3, dtype=torch.bool)).mul(3).round().tolist()
    [[2.0]]
    """
    right, actual, guessed = _counts(logits, y, masks)
    return _mean_where(2 * right / (actual + guessed), actual + guessed > 0)


def roc_auc(logits: Tensor, y: Tensor, masks: Tensor) -> Tensor:
    """The chance that a positive node outscores a negative one, ties counting half; exact.

    With several logits: the mean over the classes of class against the rest, by its probability.

    >>> logits, y = torch.tensor([[[0.1], [0.4], [0.4], [0.8]]]), torch.tensor([0, 0, 1, 1])
    >>> roc_auc(logits, y, torch.ones(1, 1, 4, dtype=torch.bool)).tolist()
    [[0.875]]
    """
    return _one_against_rest(_roc_auc, logits, y, masks)


def average_precision(logits: Tensor, y: Tensor, masks: Tensor) -> Tensor:
    """The mean over the positive nodes of the precision among all that score as high or higher.

    With several logits: the mean over the classes of class against the rest, by its probability.

    >>> logits, y = torch.tensor([[[0.1], [0.4], [0.35], [0.8]]]), torch.tensor([0, 0, 1, 1])
    >>> average_precision(logits, y, torch.ones(1, 1, 4, dtype=torch.bool)).mul(6).round().tolist()
    [[5.0]]
    """
    return _one_against_rest(_average_precision, logits, y, masks)


METRICS: dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = {
    "accuracy": accuracy,
    "balanced_accuracy": balanced_accuracy,
    "macro_f1": macro_f1,
    "roc_auc": roc_auc,
    "average_precision": average_precision,
}


def check_metric(name: str) -> str:
    """`name` if it is one of :data:`METRICS`."""
    if name not in METRICS:
        raise InputError(f"unknown metric {name!r}; choose one of {', '.join(METRICS)}")
    return name


def _counts(logits: Tensor, y: Tensor, masks: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Nodes predicted right, nodes and predictions of each class in each mask, ``[R, K, C]``."""
    classes = max(2, logits.shape[-1])
    inside = masks.double()  # [R, K, N]
    guess = F.one_hot(predicted(logits), classes).double()  # [R, N, C]
    truth = F.one_hot(y.clamp(min=0), classes).double()  # [N, C]
    return inside @ (guess * truth), inside @ truth, inside @ guess


def _mean_where(values: Tensor, counted: Tensor) -> Tensor:
    """The mean over the last dimension of what is `counted`."""
    return torch.where(counted, values, 0).sum(dim=-1) / counted.sum(dim=-1)


def _one_against_rest(
    score: Callable[[Tensor, Tensor, Tensor], Tensor], logits: Tensor, y: Tensor, masks: Tensor
) -> Tensor:
    if logits.shape[-1] == 1:
        return score(logits[..., 0], y == 1, masks)
    shares = logits.softmax(dim=-1)
    found = [score(shares[..., c], y == c, masks) for c in range(logits.shape[-1])]
    return torch.stack(found, dim=-1).mean(dim=-1)


def _roc_auc(score: Tensor, positive: Tensor, masks: Tensor) -> Tensor:
    """score ``[R, N]``, positive ``[N]``; counts are integers, so that the result is exact."""
    ascending, order = score.contiguous().sort(dim=-1)  # [R, N]
    below = torch.searchsorted(ascending, ascending)  # scores strictly below
    up_to = torch.searchsorted(ascending, ascending, right=True)
    inside = masks.gather(2, order[:, None, :].expand_as(masks))  # [R, K, N]
    wanted = positive[order][:, None, :]
    counts = _cumulated(inside & ~wanted)
    lower = counts.gather(2, below[:, None, :].expand_as(masks))
    level = counts.gather(2, up_to[:, None, :].expand_as(masks))
    wins = ((lower + level) * (inside & wanted)).sum(dim=-1)  # [R, K], twice the wins
    pairs = (inside & wanted).sum(dim=-1) * counts[..., -1]
    return wins.double() / (2 * pairs).double()


def _average_precision(score: Tensor, positive: Tensor, masks: Tensor) -> Tensor:
    descending, order = (-score).contiguous().sort(dim=-1)  # [R, N]
    up_to = torch.searchsorted(descending, descending, right=True)  # as high or higher
    inside = masks.gather(2, order[:, None, :].expand_as(masks))  # [R, K, N]
    hits = inside & positive[order][:, None, :]
    place = up_to[:, None, :].expand_as(masks)
    precision = _cumulated(hits).gather(2, place).double() / _cumulated(inside).gather(2, place)
    return torch.where(hits, precision, 0).sum(dim=-1) / hits.sum(dim=-1)


def _cumulated(flags: Tensor) -> Tensor:
    """How many are set among the first 0, 1, ..., N, ``[R, K, N + 1]``."""
    return F.pad(flags.long().cumsum(dim=-1), (1, 0))
