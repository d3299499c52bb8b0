"""The stacked state of R runs: parameters, moments of the optimizer, and the best step so far."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import groupby, repeat
from typing import Any

import torch
from torch import Tensor, nn

from pdgnn.errors import InputError

__all__ = [
    "Row",
    "RunState",
    "StackedParameters",
    "flat_parameters",
    "stacked_buffers",
    "trained_parameters",
    "views",
]

Row = dict[str, Tensor]
"""The tensors of one run of a state."""
ALIGNED = 64
"""Parameters begin at multiples of this many entries: matrix products are slow on others."""
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
    best_logits: Tensor  # [R, N, out], or [R, 0] if not asked for
    best_parameters: Tensor  # [R, P], or [R, 0]
    buffers: dict[str, Tensor]  # [R, ...], those of the modules
    best_buffers: dict[str, Tensor]  # [R, ...], or none

    @classmethod
    def new(
        cls,
        parameters: Tensor,
        buffers: Mapping[str, Tensor] | None = None,
        *,
        curve_steps: int = 0,
        logits: tuple[int, int] | None = None,
        weights: bool = False,
    ) -> RunState:
        """Before the first step, where the parameters are.

        `logits` (N, out) and `weights` say whether the best are kept.
        """
        runs, own, device = parameters.shape[0], dict(buffers or {}), parameters.device
        nan = torch.full((runs, 2), torch.nan, dtype=torch.float64, device=device)
        whole = torch.zeros(runs, dtype=torch.int64, device=device)
        return cls(
            parameters,
            torch.zeros_like(parameters),
            torch.zeros_like(parameters),
            whole,
            torch.zeros_like(whole, dtype=parameters.dtype),
            nan,
            nan.clone(),
            whole.clone(),
            whole.clone(),
            torch.zeros_like(whole, dtype=torch.float64),
            torch.full((runs, curve_steps, 3), torch.nan, device=device),
            parameters.new_zeros(runs, *(logits or (0,))),
            parameters.clone() if weights else parameters.new_zeros(runs, 0),
            own,
            {name: t.clone() for name, t in own.items()} if weights else {},
        )

    def tensors(self) -> dict[str, Tensor]:
        """By name; those of the dicts have the name of the dict, a dot and their own."""
        found = {}
        for f in fields(self):
            value = getattr(self, f.name)
            if isinstance(value, Tensor):
                found[f.name] = value
            else:
                found |= {f"{f.name}.{name}": t for name, t in value.items()}
        return found

    def going_on(self, rows: Sequence[Row | None]) -> RunState:
        """The same with the runs that have a row here, begun before, as they were.

        A row of other tensors is an error, but for what may be asked for at one time and not at
        another, and is not asked for now.
        """
        for i, row in enumerate(rows):
            if row is None:
                continue
            mine = {name: t[i] for name, t in self.tensors().items()}
            unasked = {name: t for name, t in mine.items() if name in OPTIONAL and not t.numel()}
            row = {**{n: t for n, t in row.items() if not _unwanted(n, mine)}, **unasked}  # noqa: PLW2901
            if _shapes(row) != _shapes(mine):
                raise InputError(
                    "the state kept of a run is not one of this model and graph; start it anew"
                )
            for name, value in row.items():
                mine[name].copy_(value)
        return self

    def to(self, device: torch.device | str) -> RunState:
        """The same on another device."""
        moved: dict[str, Any] = {}
        for f in fields(self):
            value = getattr(self, f.name)
            if isinstance(value, Tensor):
                moved[f.name] = value.to(device)
            else:
                moved[f.name] = {name: t.to(device) for name, t in value.items()}
        return RunState(**moved)


OPTIONAL = ("curves", "best_logits", "best_parameters")
"""Kept only if they are asked for."""


def _unwanted(name: str, mine: Mapping[str, Tensor]) -> bool:
    return name.startswith("best_buffers.") and name not in mine


def _shapes(row: dict[str, Tensor]) -> dict[str, tuple[torch.dtype, torch.Size]]:
    return {name: (t.dtype, t.shape) for name, t in row.items()}


def flat_parameters(models: Iterable[nn.Module]) -> Tensor:
    """The parameters of each model in one row, ``[R, P]``, each from a multiple of ALIGNED on."""
    rows = []
    for model in models:
        parts = [p.detach()[None] for p in trained_parameters(model).values()]
        rows.append(torch.cat(_padded(parts, parts[0].new_zeros(ALIGNED)), dim=1))
    return torch.cat(rows)


def trained_parameters(model: nn.Module) -> dict[str, nn.Parameter]:
    """By name, those that are not frozen."""
    return {name: p for name, p in model.named_parameters() if p.requires_grad}


def stacked_buffers(models: Sequence[nn.Module], dtype: torch.dtype) -> dict[str, Tensor]:
    """The buffers and frozen parameters of the models by name, ``[R, ...]``."""
    rows = []
    for model in models:
        frozen = {name: p.detach() for name, p in model.named_parameters() if not p.requires_grad}
        rows.append({**frozen, **dict(model.named_buffers())})
    stacked = {name: torch.stack([row[name] for row in rows]) for name in rows[0]}
    wide = {torch.float32, torch.float64}
    return {n: t.to(dtype) if t.dtype in wide else t for n, t in stacked.items()}


def _padded(parts: Iterable[Tensor], zeros: Tensor) -> list[Tensor]:
    """Parts ``[R, ...]`` as rows ``[R, n]``, each padded with `zeros` to a multiple of ALIGNED."""
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
    """The parameters of R modules like `model` by name, ``[R, ...]`` each, as autograd's leaves.

    Their values are those of `rows` ``[R, P]``, which the optimizer changes; :meth:`follow` takes
    them over. With the type `narrow` they are of that type, but for those whose names begin with
    one of `wide`.

    Large parameters are views of the rows, or of their narrow copy: matrix products take any stride
    between runs. Small ones are gathered, as kernels want them contiguous. So a step takes few
    launches however many parameters there are: one to narrow the rows, one to gather the small
    ones of each type, one to join the gradients of neighbours of a type.
    """

    def __init__(
        self,
        rows: Tensor,
        model: nn.Module,
        *,
        narrow: torch.dtype | None = None,
        wide: Sequence[str] = (),
    ) -> None:
        shapes = {name: p.shape for name, p in trained_parameters(model).items()}
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

    def side_by_side(
        self, grads: Iterable[Tensor], groups: Iterable[int] | None = None
    ) -> list[tuple[int, Tensor]]:
        """Gradients to the leaves, in their order, as the columns of the rows ``[R, P]``.

        One tensor for all neighbours of a type and of a group (default: all are of group 0), with
        the number of the group. To bring them to one type would be a pass more.
        """
        numbered = zip(repeat(0) if groups is None else groups, grads, strict=False)
        alike = groupby(numbered, key=lambda pair: (pair[0], pair[1].dtype))
        return [
            (number, torch.cat(_padded((g for _, g in some), self._zeros[dtype]), dim=1))
            for (number, dtype), some in alike
        ]


def _gathering(
    source: Tensor, shapes: Mapping[str, torch.Size], names: Sequence[str]
) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
    """Positions of these parameters in the rows `source`, a tensor to gather them into, and views
    ``[R, ...]`` of it by name.
    """
    runs, size = source.shape
    columns = views(torch.arange(size)[None], shapes)
    before = torch.arange(runs)[:, None] * size
    places = [(before + columns[name].flatten(1)).flatten()[None] for name in names]
    index = torch.cat(_padded(places, places[0].new_zeros(ALIGNED)), dim=1)[0]
    out = source.new_empty(len(index))
    parts = views(out[None], {name: torch.Size((runs, *shapes[name])) for name in names})
    return index.to(source.device), out, {name: part[0] for name, part in parts.items()}
