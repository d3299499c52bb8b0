"""The stacked state of R runs: parameters, AdamW's moments, and the best step so far."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import groupby

import torch
from torch import Tensor, nn

from pdgnn.errors import InputError
from pdgnn.ops.backends import kernels_for

__all__ = ["AdamW", "RunState", "StackedParameters", "flat_parameters", "views"]

BETAS, EPS = (0.9, 0.999), 1e-8
"""AdamW's, as in torch."""
ALIGNED = 64
"""Where a parameter may begin: matrix products are slow on what no wide load can reach."""
SMALL = 4096
"""Entries up to which a parameter is small: vectors are, and few matrices."""


@dataclass
class RunState:
    """All that a group of runs carries from one step to the next; R is the first dimension."""

    parameters: Tensor  # [R, P], each run's parameters in one row
    mean: Tensor  # [R, P], of the gradients
    square: Tensor  # [R, P], of their squares
    step: Tensor  # [R], steps taken
    loss: Tensor  # [R], of the last step
    score: Tensor  # [R, 2], validation and test after the last step
    best: Tensor  # [R, 2], at the best validation step
    best_step: Tensor  # [R], 0 before there is one
    diverged_at: Tensor  # [R], the first step whose loss was not finite; 0: none
    seconds: Tensor  # [R], each run's share of the time taken so far
    curves: Tensor  # [R, steps, 3], or [R, 0, 3] if not asked for

    @classmethod
    def new(cls, parameters: Tensor, *, curve_steps: int = 0) -> RunState:
        """Before the first step."""
        runs = parameters.shape[0]
        nan = torch.full((runs, 2), torch.nan, dtype=torch.float64)
        whole = torch.zeros(runs, dtype=torch.int64)
        return cls(
            parameters,
            torch.zeros_like(parameters),
            torch.zeros_like(parameters),
            whole,
            torch.zeros(runs, dtype=parameters.dtype),
            nan,
            nan.clone(),
            whole.clone(),
            whole.clone(),
            torch.zeros(runs, dtype=torch.float64),
            torch.full((runs, curve_steps, 3), torch.nan),
        )

    def tensors(self) -> dict[str, Tensor]:
        """By name."""
        return {f.name: getattr(self, f.name) for f in fields(self)}

    def going_on(self, rows: Sequence[dict[str, Tensor] | None]) -> RunState:
        """The same with the runs that have a row here, begun before, as they were.

        A row of other tensors is an error, but for curves: they may be asked for at one time and
        not at another.
        """
        for i, row in enumerate(rows):
            if row is None:
                continue
            mine = {name: t[i] for name, t in self.tensors().items()}
            if not self.curves.shape[1]:
                row = {**row, "curves": mine["curves"]}  # noqa: PLW2901
            if _shapes(row) != _shapes(mine):
                raise InputError(
                    "the state kept of a run is not one of this model and graph; start it anew"
                )
            for name, value in row.items():
                mine[name].copy_(value)
        return self

    def to(self, device: torch.device | str) -> RunState:
        """The same on another device."""
        return RunState(**{name: t.to(device) for name, t in self.tensors().items()})


def _shapes(row: dict[str, Tensor]) -> dict[str, tuple[torch.dtype, torch.Size]]:
    return {name: (t.dtype, t.shape) for name, t in row.items()}


def flat_parameters(models: Iterable[nn.Module]) -> Tensor:
    """The parameters of each model in one row, ``[R, P]``, each from a multiple of ALIGNED on."""
    rows = []
    for model in models:
        parts = [p.detach()[None] for p in model.parameters()]
        rows.append(torch.cat(_padded(parts, parts[0].new_zeros(ALIGNED)), dim=1))
    return torch.cat(rows)


def _padded(parts: Iterable[Tensor], zeros: Tensor) -> list[Tensor]:
    """Parts ``[R, ...]`` as rows ``[R, n]``, each with as many of the `zeros` as it takes."""
    flat = []
    for part in parts:
        runs, size = part.shape[0], part[0].numel()
        pad = -size % ALIGNED
        flat += [part.reshape(runs, size), zeros[: runs * pad].view(runs, pad)]
    return [part for part in flat if part.shape[1]]


def views(flat: Tensor, shapes: Mapping[str, torch.Size]) -> dict[str, Tensor]:
    """Parts ``[R, ...]`` of these shapes in the rows `flat`, where flat_parameters puts them."""
    parts, start = {}, 0
    for name, shape in shapes.items():
        parts[name] = flat[:, start : start + shape.numel()].view(-1, *shape)
        start += shape.numel() + -shape.numel() % ALIGNED
    return parts


class StackedParameters:
    """What R models like `model` are applied with: leaves ``[R, ...]`` that follow their `rows`.

    With the type `narrow` they follow in that type, but for those whose names begin with one of
    `wide`. Large ones share the rows or their narrow copy, as matrix products take them with any
    stride from run to run; of the small ones kernels want those of all runs side by side.

    A step then takes few launches however many parameters there are: one to narrow the rows, one
    to gather the small ones of each type, and one to join the gradients of neighbours of a type.
    """

    def __init__(
        self,
        rows: Tensor,
        model: nn.Module,
        *,
        narrow: torch.dtype | None = None,
        wide: Sequence[str] = (),
    ) -> None:
        shapes = {name: p.shape for name, p in model.named_parameters()}
        self._rows = rows
        self._copy = None if narrow is None else torch.empty_like(rows, dtype=narrow)
        sources = [rows] if self._copy is None else [rows, self._copy]
        self._zeros = {t.dtype: t.new_zeros(len(t) * ALIGNED) for t in sources}
        parts = views(rows, shapes)
        if self._copy is not None:
            copied = views(self._copy, shapes).items()
            parts.update({name: t for name, t in copied if not name.startswith(tuple(wide))})
        self._gathered = []
        for source in sources if len(rows) > 1 else ():
            of_source = [name for name, t in parts.items() if t.dtype == source.dtype]
            small = [name for name in of_source if shapes[name].numel() <= SMALL]
            if small:
                index, out, beside = _gathering(source, shapes, small)
                self._gathered.append((source, index, out))
                parts.update(beside)
        self.by_name = {name: t.detach().requires_grad_() for name, t in parts.items()}
        self.follow()

    def follow(self) -> None:
        """Take the values that the rows have now."""
        if self._copy is not None:
            self._copy.copy_(self._rows)
        for source, index, out in self._gathered:
            torch.index_select(source.view(-1), 0, index, out=out)

    def side_by_side(self, grads: Iterable[Tensor]) -> list[Tensor]:
        """Gradients to the leaves, in their order, as the columns of the rows ``[R, P]``.

        One tensor for all neighbours of a type: to bring them to one type would be a pass more.
        """
        by_type = groupby(grads, key=lambda g: g.dtype)
        return [torch.cat(_padded(group, self._zeros[dtype]), dim=1) for dtype, group in by_type]


def _gathering(
    source: Tensor, shapes: Mapping[str, torch.Size], names: Sequence[str]
) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
    """Where these parts are in the rows `source`, room for them, and each ``[R, ...]`` in there."""
    runs, size = source.shape
    columns = views(torch.arange(size)[None], shapes)
    before = torch.arange(runs)[:, None] * size
    places = [(before + columns[name].flatten(1)).flatten()[None] for name in names]
    index = torch.cat(_padded(places, places[0].new_zeros(ALIGNED)), dim=1)[0]
    out = source.new_empty(len(index))
    parts = views(out[None], {name: torch.Size((runs, *shapes[name])) for name in names})
    return index.to(source.device), out, {name: part[0] for name, part in parts.items()}


class AdamW:
    """AdamW on all runs of a state, in place; lr and weight_decay ``[R]`` are those of each run."""

    def __init__(self, state: RunState, lr: Tensor, weight_decay: Tensor) -> None:
        self._state = state
        self._rates = torch.stack([lr, lr * weight_decay]).double()  # [2, R]
        self._betas = self._rates.new_tensor(BETAS)[:, None]

    def step(self, grads: Iterable[Tensor], running: Tensor) -> None:
        """One step by gradients ``[R, n]``, which side by side are those of ``[R, P]``.

        A run that is not `running` keeps its parameters. `state.step` counts this step already.
        """
        state, (rate, decay) = self._state, self._rates * running
        left = 1 - self._betas**state.step  # [2, R]
        factors = (1 - decay, rate / left[0], left[1].sqrt(), BETAS, EPS)
        own, start = (state.parameters, state.mean, state.square), 0
        for part in grads:
            here = (t.narrow(1, start, part.shape[1]) for t in own)
            kernels_for(state.parameters).adamw_(*here, part, *factors)
            start += part.shape[1]
