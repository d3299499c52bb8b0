"""The stacked state of R runs: parameters, AdamW's moments, and the best step so far."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields

import torch
from torch import Tensor, nn

from pdgnn.errors import InputError
from pdgnn.ops.backends import kernels_for

__all__ = ["RunState", "adamw_", "flat_parameters", "flat_row", "views"]

BETAS, EPS = (0.9, 0.999), 1e-8
"""AdamW's, as in torch."""
ALIGNED = 64
"""Where a parameter may begin: matrix products are slow on what no wide load can reach."""


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
    return torch.stack([flat_row([p.detach()[None] for p in m.parameters()])[0] for m in models])


def flat_row(parts: Sequence[Tensor]) -> Tensor:
    """Parts ``[R, ...]`` side by side ``[R, P]``, zeros between them where they do not fit."""
    flat = [part.flatten(1) for part in parts]
    pads = [part.new_zeros(1, 1).expand(len(part), -part.shape[1] % ALIGNED) for part in flat]
    return torch.cat([t for pair in zip(flat, pads, strict=True) for t in pair], dim=1)


def views(
    flat: Tensor, model: nn.Module, whole: Tensor | None = None, wide: Sequence[str] = ()
) -> dict[str, Tensor]:
    """The parameters ``[R, ...]`` of R models like `model`, as leaves that share `flat`.

    Those whose names begin with one of `wide` share `whole`, of the same layout, instead.
    """
    parts, start = {}, 0
    for name, p in model.named_parameters():
        source = whole if whole is not None and name.startswith(tuple(wide)) else flat
        part = source[:, start : start + p.numel()].view(flat.shape[0], *p.shape)
        parts[name] = part.detach().requires_grad_()
        start += p.numel() + -p.numel() % ALIGNED
    return parts


def adamw_(state: RunState, grads: Tensor, lr: Tensor, weight_decay: Tensor) -> None:
    """One step of AdamW on all runs, in place; grads ``[R, P]``, lr and weight_decay ``[R]``.

    `state.step` counts this step already. A run whose lr is 0 keeps its parameters.
    """
    step, lr = state.step.double(), lr.double()
    kernels_for(grads).adamw_(
        state.parameters,
        state.mean,
        state.square,
        grads,
        1 - lr * weight_decay,
        lr / (1 - BETAS[0] ** step),
        (1 - BETAS[1] ** step).sqrt(),
        BETAS,
        EPS,
    )
