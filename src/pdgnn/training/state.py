"""The stacked state of R runs: parameters, AdamW's moments, and the best step so far."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields

import torch
from torch import Tensor, nn

from pdgnn.errors import InputError

__all__ = ["RunState", "adamw_", "flat_parameters", "views"]

BETAS, EPS = (0.9, 0.999), 1e-8
"""AdamW's, as in torch."""


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
    """The parameters of each model in one row, ``[R, P]``."""
    return torch.stack(
        [torch.cat([p.detach().flatten() for p in model.parameters()]) for model in models]
    )


def views(flat: Tensor, model: nn.Module) -> dict[str, Tensor]:
    """The parameters ``[R, ...]`` of R models like `model`, as leaves that share `flat`."""
    parts, start = {}, 0
    for name, p in model.named_parameters():
        part = flat[:, start : start + p.numel()].view(flat.shape[0], *p.shape)
        parts[name] = part.detach().requires_grad_()
        start += p.numel()
    return parts


def adamw_(state: RunState, grads: Tensor, lr: Tensor, weight_decay: Tensor) -> None:
    """One step of AdamW on all runs, in place; grads ``[R, P]``, lr and weight_decay ``[R, 1]``.

    `state.step` counts this step already. A run whose lr is 0 keeps its parameters.
    """
    (beta1, beta2), step = BETAS, state.step[:, None].double()  # [R, 1]
    state.parameters.mul_(1 - lr * weight_decay)
    state.mean.lerp_(grads, 1 - beta1)
    state.square.mul_(beta2).addcmul_(grads, grads, value=1 - beta2)
    rate = (lr / (1 - torch.pow(beta1, step))).to(grads.dtype)
    root = (1 - torch.pow(beta2, step)).sqrt().to(grads.dtype)
    root = state.square.sqrt().div_(root).add_(EPS)  # [R, P]
    state.parameters.sub_(torch.div(state.mean, root, out=root).mul_(rate))
