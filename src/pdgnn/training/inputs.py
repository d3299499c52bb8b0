"""What modules are called with besides x: made once for all runs that share it, and let go."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from pdgnn.models import Model, find_model
from pdgnn.nn.features import SparseFeatures
from pdgnn.ops import Edges
from pdgnn.training.spec import RunSpec
from pdgnn.training.task import Task
from pdgnn.training.traced import traced, value_of

__all__ = ["InputCache", "Inputs", "first_layer_work", "same_structure", "stacked_inputs"]

Inputs = dict[str, Any]
SPARE = 2**28
"""Bytes of inputs that are kept for runs to come."""


@dataclass
class _Entry:
    """Inputs, and the values that they depend on: fields of the spec, and options by name."""

    depends: dict[str, Any]
    inputs: Inputs | None  # None once they were let go
    structure: int  # which of those known

    def serves(self, spec: RunSpec) -> bool:
        """Whether these are the inputs of this run."""
        return all(value_of(spec, name) == value for name, value in self.depends.items())


@dataclass
class InputCache:
    """The inputs of runs on these tasks; the same object for runs that share them.

    Which fields of a spec they depend on is seen from what ``Model.inputs`` reads of it.
    """

    tasks: Mapping[str, Task]
    models: Mapping[str, Model]
    _entries: dict[tuple[Any, ...], list[_Entry]] = field(default_factory=dict, init=False)
    _structures: list[Inputs] = field(default_factory=list, init=False)
    _recent: list[_Entry] = field(default_factory=list, init=False)

    def get(self, spec: RunSpec, dtype: torch.dtype) -> Inputs:
        """What the module of this run is called with."""
        entry = self._entry(spec, dtype)
        if entry.inputs is None:  # let go before, needed again
            entry.inputs = self._made(spec, dtype)[0]
        return entry.inputs

    def structure(self, spec: RunSpec, dtype: torch.dtype) -> int:
        """A number that is the same for runs whose inputs may be stacked."""
        return self._entry(spec, dtype).structure

    def let_go(self, spec: RunSpec, dtype: torch.dtype) -> None:
        """Free the inputs of this run; they are made again if they are needed."""
        self._entry(spec, dtype).inputs = None

    def keep_only(self, specs: Sequence[RunSpec], dtype: torch.dtype) -> None:
        """Let go of all inputs but those of these runs and, up to SPARE bytes, the last used."""
        wanted = [self._entry(spec, dtype) for spec in specs]
        ids = {id(entry) for entry in wanted}
        self._recent = [e for e in self._recent if id(e) not in ids and e.inputs is not None]
        held = 0
        for entry in reversed(self._recent):
            held += _bytes(entry.inputs)
            if held > SPARE:
                entry.inputs = None
        self._recent += list({id(e): e for e in wanted}.values())

    def _entry(self, spec: RunSpec, dtype: torch.dtype) -> _Entry:
        entries = self._entries.setdefault((spec.dataset, spec.model, dtype), [])
        for entry in entries:
            if entry.serves(spec):
                return entry
        inputs, depends = self._made(spec, dtype)
        entries.append(_Entry(depends, inputs, self._number(inputs)))
        return entries[-1]

    def _made(self, spec: RunSpec, dtype: torch.dtype) -> tuple[Inputs, dict[str, Any]]:
        model, task = find_model(spec.model, self.models), self.tasks[spec.dataset]
        noted, seen = traced(spec)
        labels = None
        if model.labels:
            labels = torch.where(task.masks[noted.split, 0], task.y, -1)
        made = model.prepare(task.graph, task.x, noted, labels)
        return {n: _in_type(v, dtype) for n, v in made.items()}, {
            n: value_of(spec, n) for n in seen
        }

    def _number(self, inputs: Inputs) -> int:
        for number, known in enumerate(self._structures):
            if same_structure(known, inputs):
                return number
        self._structures.append({name: _shape_only(v) for name, v in inputs.items()})
        return len(self._structures) - 1


def _bytes(inputs: Inputs | None) -> int:
    tensors = [v for v in (inputs or {}).values() if isinstance(v, Tensor)]
    return sum(t.numel() * t.element_size() for t in tensors)


def _in_type(value: Any, dtype: torch.dtype) -> Any:
    if isinstance(value, Tensor):
        return value.detach().to(dtype) if value.is_floating_point() else value.detach()
    return value


def _shape_only(value: Any) -> Any:
    """What is compared of an input: floating-point tensors by shape, all else by its values."""
    if isinstance(value, Tensor) and value.is_floating_point():
        return torch.empty(value.shape, dtype=value.dtype, device="meta")
    return value


def same_structure(one: Inputs, other: Inputs) -> bool:
    """Whether runs with these inputs can train together: floating-point tensors of the same shape
    may differ in their values, and nothing else may.
    """
    return one.keys() == other.keys() and all(_alike(one[n], other[n]) for n in one)


def _alike(one: Any, other: Any) -> bool:
    if one is other or type(one) is not type(other):
        return one is other
    if isinstance(one, Tensor):
        alike = one.dtype == other.dtype and one.shape == other.shape
        return alike and (one.is_floating_point() or torch.equal(one, other))
    if isinstance(one, Edges):
        return torch.equal(one.rowptr, other.rowptr) and torch.equal(one.col, other.col)
    return isinstance(one, bool | int | float | str) and bool(one == other)


def stacked_inputs(
    inputs: Sequence[Mapping[str, Any]], device: torch.device, dtype: torch.dtype
) -> tuple[Inputs, dict[str, Tensor]]:
    """What all runs share, and what each has of its own, ``[R, ...]``, on the device."""
    shared, mapped = {}, {}
    for name, first in inputs[0].items():
        values = [own[name] for own in inputs]
        if isinstance(first, Tensor) and first.is_floating_point():
            if any(v is not first for v in values):
                mapped[name] = torch.stack([v.to(dtype) for v in values]).to(device)
            else:
                shared[name] = first.to(device, dtype)
        else:
            shared[name] = first.to(device) if hasattr(first, "to") else first
    return shared, mapped


def first_layer_work(given: Mapping[str, Any], width: int) -> int:
    """Multiplications of one run's first layer, about: by its features and by its messages."""
    entries = 0
    for value in given.values():
        if isinstance(value, Edges):
            entries += value.num_edges
        elif isinstance(value, Tensor) and not value.is_floating_point() and value.ndim:
            entries += value.shape[-1]
    x = given["x"]
    entries += len(x.values) if isinstance(x, SparseFeatures) else int(x.count_nonzero())
    return (entries + int(x.shape[0])) * width
