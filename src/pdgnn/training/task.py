"""What there is to learn: a graph with features, labels and splits, checked."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from os import PathLike
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pdgnn.errors import InputError
from pdgnn.graph import Graph
from pdgnn.io.sources import PARTS, Source, open_source

__all__ = ["Task"]


@dataclass(frozen=True, eq=False)
class Task:
    """Node classification on one graph, with S splits.

    Two classes are learned by one logit and scored by ROC AUC, more by one each and accuracy.
    """

    name: str
    graph: Graph
    x: Tensor  # [N, F], float32
    y: Tensor  # [N], int64; -1 where unlabelled
    masks: Tensor  # [S, 3, N], bool: train, val, test

    @property
    def num_splits(self) -> int:
        """S."""
        return self.masks.shape[0]

    @property
    def num_classes(self) -> int:
        """How many classes there are."""
        return int(self.y.max()) + 1

    @property
    def out_channels(self) -> int:
        """Logits that a model needs."""
        return 1 if self.num_classes == 2 else self.num_classes

    @property
    def metric(self) -> str:
        """``"roc_auc"`` or ``"accuracy"``."""
        return "roc_auc" if self.num_classes == 2 else "accuracy"

    def fingerprint(self) -> str:
        """The same for the same edges, features, labels and splits, whatever the name."""
        digest = hashlib.blake2b(digest_size=12)
        for t in (self.graph.edge_index, self.graph.edge_weight, self.x, self.y, self.masks):
            digest.update(str(tuple(t.shape)).encode())
            digest.update(t.contiguous().numpy().data)
        return digest.hexdigest()

    @classmethod
    def open(cls, name: str, root: str | PathLike[str] | None = None) -> Task:
        """The dataset called `name`, or the graph file, with all that training needs.

        >>> Task.open("minesweeper-generated:size=5,seed=3").metric
        'roc_auc'
        """
        return cls.from_source(open_source(name, root))

    @classmethod
    def from_source(cls, source: Source) -> Task:
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
            source.graph, source.features, source.labels, masks, name=source.name
        )

    @classmethod
    def from_data(cls, data: Any, *, name: str = "graph") -> Task:
        """From a PyG `Data` with x, y and masks ``[N]`` or ``[N, S]``."""
        wanted = [f"{part}_mask" for part in PARTS]
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
            raise InputError("train_mask, val_mask and test_mask differ in their number of splits")
        return cls.from_arrays(
            Graph.from_data(data), data.x, data.y, torch.stack(masks, dim=1), name=name
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
    ) -> Task:
        """From features ``[N, F]``, labels ``[N]`` and masks ``[S, 3, N]``, all checked."""
        task = cls(
            name,
            graph,
            _as(torch.float32, f"{name}: features", x),
            _as(torch.int64, f"{name}: labels", y).reshape(-1),
            _as(torch.bool, f"{name}: masks", masks),
        )
        _check_shapes(task)
        _check_values(task)
        for split in range(task.num_splits):
            _check_split(task, split)
        return task


def _as(dtype: torch.dtype, what: str, values: Tensor | NDArray[Any]) -> Tensor:
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
    if task.y.shape != (n,):
        raise InputError(f"{task.name}: {task.y.numel()} labels for {n} nodes; give one for each")
    if task.masks.ndim != 3 or task.masks.shape[1:] != (3, n) or task.masks.shape[0] == 0:
        raise InputError(
            f"{task.name}: masks have shape {list(task.masks.shape)}; give [splits, 3, {n}]"
        )


def _check_values(task: Task) -> None:
    finite = task.x.isfinite().all(dim=1)
    if not finite.all():
        bad = int((~finite).nonzero()[0])
        raise InputError(
            f"{task.name}: node {bad} has a feature that is not finite, and every loss would be "
            "nan; replace such values first"
        )
    _check_labels(task.name, task.y)


def _check_labels(name: str, y: Tensor) -> None:
    """Labels are −1 or a class, and classes are numbered from 0 without a gap."""
    lowest, highest = int(y.min()), int(y.max())
    if lowest < -1 or highest >= len(y):
        bad = lowest if lowest < -1 else highest
        raise InputError(
            f"{name}: label {bad} is out of range; number the classes from 0, and give -1 to "
            "unlabelled nodes"
        )
    sizes = torch.bincount(y[y >= 0])  # [classes]
    if (sizes > 0).sum() < 2:
        found = "a single class" if len(sizes) else "no label at all"
        raise InputError(f"{name} has {found}; there is nothing to tell apart")
    if (sizes == 0).any():
        absent = int((sizes == 0).nonzero()[0])
        raise InputError(f"{name}: no node is of class {absent}; number the classes without a gap")


def _check_split(task: Task, split: int) -> None:
    train, val, test = task.masks[split]
    for part, mask in zip(PARTS, (train, val, test), strict=True):
        if not mask.any():
            raise InputError(f"{task.name}: split {split} has no {part} nodes")
        if (task.y[mask] < 0).any():
            bad = int((mask & (task.y < 0)).nonzero()[0])
            raise InputError(
                f"{task.name}: node {bad} is in the {part} part of split {split} and has no label"
            )
        if part != "train" and task.num_classes == 2 and task.y[mask].min() == task.y[mask].max():
            raise InputError(
                f"{task.name}: the {part} part of split {split} has one class only; ROC AUC needs "
                "two"
            )
    if (train & (val | test)).any() or (val & test).any():
        raise InputError(f"{task.name}: split {split} has a node in two of its parts")
