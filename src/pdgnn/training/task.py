"""What there is to learn: a graph with features, labels and splits, checked."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pdgnn.errors import InputError, check_whole
from pdgnn.graph import Graph
from pdgnn.io.sources import PARTS, Source, open_source
from pdgnn.models import Size
from pdgnn.training.metrics import check_metric

__all__ = ["RANKED", "Task", "Weights", "usual_metric"]

Weights = Sequence[float] | Tensor | NDArray[Any] | str | None
"""Of the classes in the loss: numbers, ``"balanced"``, or None for all alike."""


@dataclass(frozen=True, eq=False)
class Task:
    """Node classification on one graph, with S splits; made by :meth:`open` or ``from_...``.

    Two classes are learned by one logit and, unless another `metric` is asked for, scored by ROC
    AUC; more by one logit each and accuracy.
    """

    name: str
    graph: Graph
    x: Tensor  # [N, F], float32
    y: Tensor  # [N], int64; -1 where unlabelled
    masks: Tensor  # [S, 3, N], bool: train, val, test; the last may be empty
    num_classes: int
    metric: str  # of METRICS
    class_weights: Tensor | Literal["balanced"] | None = None  # [classes]

    @property
    def num_splits(self) -> int:
        """S."""
        return self.masks.shape[0]

    @property
    def out_channels(self) -> int:
        """Logits that a model needs."""
        return 1 if self.num_classes == 2 else self.num_classes

    @property
    def size(self) -> Size:
        """What a model is built for."""
        return Size(self.x.shape[1], self.out_channels, self.graph.num_nodes, self.num_classes)

    def weights(self, split: int) -> Tensor | None:
        """The weight of each class in the loss of a split, ``[classes]``, float32; None: all 1.

        ``"balanced"``: n / (classes · n_c) for n_c of n training nodes; 0 for a class without any.
        """
        if not isinstance(self.class_weights, str):
            return self.class_weights
        count = torch.bincount(self.y[self.masks[split, 0]], minlength=self.num_classes)
        weights = count.sum() / (self.num_classes * count.clamp(min=1))
        return torch.where(count > 0, weights, 0.0)

    def fingerprint(self) -> str:
        """The same for the same edges, features, labels, splits, metric and class weights."""
        digest = hashlib.blake2b(digest_size=12)
        for t in (self.graph.edge_index, self.graph.edge_weight, self.x, self.y, self.masks):
            digest.update(str(tuple(t.shape)).encode())
            digest.update(t.contiguous().numpy().data)
        usual = (int(self.y.max()) + 1, usual_metric(self.num_classes))
        weights, own = self.class_weights, (self.num_classes, self.metric)
        if own != usual or weights is not None:
            plain = weights.tolist() if isinstance(weights, Tensor) else weights
            digest.update(str((*own, plain)).encode())
        return digest.hexdigest()

    @classmethod
    def open(
        cls,
        name: str,
        root: str | PathLike[str] | None = None,
        *,
        metric: str | None = None,
        class_weights: Weights = None,
        max_bytes: int | None = None,
    ) -> Task:
        """The dataset called `name`, or the graph file, with all that training needs.

        `max_bytes` is what a file may take when it is read; see :meth:`pdgnn.Graph.load`.

        >>> Task.open("minesweeper-generated:size=5,seed=3").metric
        'roc_auc'
        """
        return cls.from_source(
            open_source(name, root, max_bytes=max_bytes), metric=metric, class_weights=class_weights
        )

    @classmethod
    def from_source(
        cls, source: Source, *, metric: str | None = None, class_weights: Weights = None
    ) -> Task:
        """From an opened graph; what is missing for training is an error."""
        missing = [
            what
            for what, found in (
                ("node features", source.features),
                ("labels", source.labels),
                ("splits", source.masks),
            )
            if found is None
        ]
        if missing or source.features is None or source.labels is None or source.masks is None:
            raise InputError(
                f"{source.name} has no {' and no '.join(missing)}, so there is nothing to train on;"
                " give a dataset's name or an .npz with node_features, node_labels and masks"
            )
        masks = np.stack([source.masks[part] for part in PARTS], axis=1)  # [S, 3, N]
        return cls.from_arrays(
            source.graph,
            source.features,
            source.labels,
            masks,
            name=source.name,
            metric=metric,
            class_weights=class_weights,
        )

    @classmethod
    def from_data(
        cls,
        data: Any,
        *,
        name: str = "graph",
        metric: str | None = None,
        class_weights: Weights = None,
    ) -> Task:
        """From a PyG `Data` with x, y and masks ``[N]`` or ``[N, S]``; it may lack test_mask."""
        parts = PARTS if data.get("test_mask") is not None else PARTS[:2]
        wanted = [f"{part}_mask" for part in parts]
        missing = [key for key in ("x", "y", *wanted) if data.get(key) is None]
        if missing:
            raise InputError(f"the data has no {', '.join(missing)}; training needs them")
        n = data.num_nodes
        wrong = [key for key in wanted if data[key].ndim not in (1, 2) or len(data[key]) != n]
        if wrong:
            shape = list(data[wrong[0]].shape)
            raise InputError(f"{wrong[0]} has shape {shape}; {n} nodes need [{n}] or [{n}, splits]")
        masks = [data[key].reshape(n, -1).T for key in wanted]
        if len({m.shape for m in masks}) > 1:
            raise InputError(f"{', '.join(wanted)} differ in their number of splits")
        graph, stacked = Graph.from_data(data), torch.stack(masks, dim=1)
        return cls.from_arrays(
            graph, data.x, data.y, stacked, name=name, metric=metric, class_weights=class_weights
        )

    @classmethod
    def from_arrays(
        cls,
        graph: Graph,
        x: Tensor | NDArray[Any],
        y: Tensor | NDArray[Any],
        masks: Tensor | NDArray[Any],
        *,
        name: str = "graph",
        metric: str | None = None,
        class_weights: Weights = None,
        num_classes: int | None = None,
    ) -> Task:
        """From features ``[N, F]``, labels ``[N]`` and masks ``[S, 3, N]``, all checked.

        Args:
            graph: The graph.
            x: Features of the nodes.
            y: Their classes, numbered from 0; -1 where there is none.
            masks: Nodes for training, validation and test; ``[S, 2, N]`` if none are for test.
            name: For messages.
            metric: One of :data:`~pdgnn.training.metrics.METRICS`, by which the best step is chosen
                too; default ROC AUC for two classes, else accuracy.
            class_weights: What a node of each class counts in the loss ``[classes]``, or
                ``"balanced"``: as much as makes all classes count the same.
            num_classes: Needed where there may be classes that no node has.
        """
        labels = _as(torch.int64, f"{name}: labels", y).reshape(-1)
        parts = _as(torch.bool, f"{name}: masks", masks)
        if parts.ndim == 3 and parts.shape[1] == 2:
            parts = torch.cat([parts, torch.zeros_like(parts[:, :1])], dim=1)
        if len(labels) != graph.num_nodes:
            raise InputError(
                f"{name}: {len(labels)} labels for {graph.num_nodes} nodes; give one for each"
            )
        classes = _checked_classes(name, labels, num_classes)
        task = cls(
            name,
            graph,
            _as(torch.float32, f"{name}: features", x),
            labels,
            parts,
            classes,
            usual_metric(classes) if metric is None else check_metric(metric),
            _checked_weights(name, class_weights, classes),
        )
        _check_shapes(task)
        _check_features(task)
        for split in range(task.num_splits):
            _check_split(task, split)
        return task


def usual_metric(classes: int) -> str:
    """What so many classes are scored by where nobody says."""
    return "roc_auc" if classes == 2 else "accuracy"


def _as(dtype: torch.dtype, what: str, values: Any) -> Tensor:
    """On the CPU and of this type; whole numbers and flags only where they are nothing else."""
    try:
        own = values if isinstance(values, Tensor) else np.array(values)
        given = torch.as_tensor(own).detach().cpu()
    except (TypeError, ValueError, RuntimeError) as e:
        raise InputError(f"{what} must be numbers: {e}") from e
    if given.is_complex():
        raise InputError(f"{what} must be real numbers, not {given.dtype}")
    found = given.to(dtype)
    if dtype != torch.float32 and not (found == given).all():
        kind = "true or false" if dtype == torch.bool else "whole numbers"
        raise InputError(f"{what} must be {kind}; give one for each node")
    return found


def _check_shapes(task: Task) -> None:
    n = task.graph.num_nodes
    if task.x.ndim != 2 or task.x.shape[0] != n or task.x.shape[1] == 0:
        raise InputError(
            f"{task.name}: features have shape {list(task.x.shape)}; {n} nodes need [{n}, F]"
        )
    if task.masks.ndim != 3 or task.masks.shape[1:] != (3, n) or task.masks.shape[0] == 0:
        raise InputError(
            f"{task.name}: masks have shape {list(task.masks.shape)}; give [splits, 3, {n}]"
        )


def _check_features(task: Task) -> None:
    finite = task.x.isfinite().all(dim=1)
    if not finite.all():
        bad = int((~finite).nonzero()[0])
        raise InputError(
            f"{task.name}: node {bad} has a feature that is not finite, and every loss would be "
            "nan; replace such values first"
        )


def _checked_classes(name: str, y: Tensor, num_classes: int | None) -> int:
    """How many classes there are: labels are −1 or a class, numbered from 0 without a gap."""
    lowest, highest = int(y.min()), int(y.max())
    limit = len(y) if num_classes is None else check_whole("num_classes", num_classes, 2)
    if lowest < -1 or highest >= limit:
        bad = lowest if lowest < -1 else highest
        raise InputError(
            f"{name}: label {bad} is out of range; number the classes from 0, and give -1 to "
            "unlabelled nodes"
        )
    sizes = torch.bincount(y[y >= 0])  # [classes]
    if (sizes > 0).sum() < 2:
        found = "a single class" if len(sizes) else "no label at all"
        raise InputError(f"{name} has {found}; there is nothing to tell apart")
    if num_classes is None and (sizes == 0).any():
        absent = int((sizes == 0).nonzero()[0])
        raise InputError(
            f"{name}: no node is of class {absent}; number the classes without a gap, or give "
            "num_classes"
        )
    return len(sizes) if num_classes is None else limit


def _checked_weights(
    name: str, weights: Weights, classes: int
) -> Tensor | Literal["balanced"] | None:
    if weights is None:
        return None
    if isinstance(weights, str):
        if weights != "balanced":
            raise InputError(f"{name}: class_weights are 'balanced' or numbers, not {weights!r}")
        return "balanced"
    found = _as(torch.float32, f"{name}: class_weights", weights)
    if found.shape != (classes,) or not found.isfinite().all() or (found < 0).any():
        raise InputError(
            f"{name}: class_weights must be {classes} finite numbers of at least 0, one for each "
            "class"
        )
    return found


RANKED = {"roc_auc": "ROC AUC", "average_precision": "average precision"}
"""Metrics that need nodes of every class."""


def _check_split(task: Task, split: int) -> None:
    train, val, test = task.masks[split]
    for part, mask in zip(PARTS, (train, val, test), strict=True):
        if part != "test" and not mask.any():
            raise InputError(f"{task.name}: split {split} has no {part} nodes")
        if (task.y[mask] < 0).any():
            bad = int((mask & (task.y < 0)).nonzero()[0])
            raise InputError(
                f"{task.name}: node {bad} is in the {part} part of split {split} and has no label"
            )
        if part != "train" and mask.any() and task.metric in RANKED:
            _check_ranked(task, split, part, mask)
    if (train & (val | test)).any() or (val & test).any():
        raise InputError(f"{task.name}: split {split} has a node in two of its parts")
    weights = task.weights(split)
    if weights is not None and not (weights[task.y[train]] > 0).any():
        raise InputError(
            f"{task.name}: no training node of split {split} has a class weight above 0"
        )


def _check_ranked(task: Task, split: int, part: str, mask: Tensor) -> None:
    found = int((torch.bincount(task.y[mask]) > 0).sum())
    if found < task.num_classes:
        has = "one class only" if found == 1 else f"{found} of {task.num_classes} classes only"
        needs = "two" if task.num_classes == 2 else "all"
        raise InputError(
            f"{task.name}: the {part} part of split {split} has {has}; {RANKED[task.metric]} "
            f"needs {needs}"
        )
