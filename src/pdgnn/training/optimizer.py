"""AdamW, and Adam with L2 decay, on all runs of a state at once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from pdgnn.errors import InputError
from pdgnn.models import Model
from pdgnn.ops.backends import kernels_for
from pdgnn.training.spec import RunSpec
from pdgnn.training.state import RunState

__all__ = ["Optimizer", "parameter_groups"]

BETAS, EPS = (0.9, 0.999), 1e-8
"""As in torch."""


def parameter_groups(
    model: Model, specs: Sequence[RunSpec], names: Sequence[str]
) -> tuple[list[int], Tensor]:
    """The group of each parameter, and the rates ``[G, 2, R]``: lr and weight decay of each run.

    A parameter is of the group with the longest beginning of its name.
    """
    rates = [model.rates(spec) for spec in specs]
    prefixes = sorted(rates[0], key=len, reverse=True)
    for prefix in prefixes:
        if prefix and not any(name.startswith(prefix) for name in names):
            raise InputError(
                f"the groups of the model {specs[0].model!r} name {prefix!r}, and no parameter "
                f"begins like that; there are {', '.join(names)}"
            )
    group_of = [next(i for i, p in enumerate(prefixes) if n.startswith(p)) for n in names]
    table = torch.tensor([[own[p] for own in rates] for p in prefixes], dtype=torch.float64)
    return group_of, table.transpose(1, 2).contiguous()


class Optimizer:
    """One step of AdamW or, if `coupled`, of Adam whose gradients have weight_decay · θ added.

    `rates` ``[G, 2, R]`` are the learning rate and the weight decay of each group and run;
    `coupled` is one flag for all runs, or one for each.
    """

    def __init__(
        self, state: RunState, rates: Tensor, *, coupled: bool | Sequence[bool] = False
    ) -> None:
        lr, decay = rates.double().unbind(1)  # [G, R]
        flags = torch.tensor(coupled, device=lr.device).expand(lr.shape[1])
        self._state, self._coupled = state, bool(flags.any())
        added = torch.where(flags, decay, 0.0)  # [G, R], to the gradient
        self._decay = added[:, :, None].to(state.parameters.dtype)  # [G, R, 1]
        self._rates = torch.stack([lr, lr * (decay - added)])
        self._betas = self._rates.new_tensor(BETAS)[:, None]

    def step(self, grads: Iterable[tuple[int, Tensor]], running: Tensor) -> None:
        """One step by gradients ``[R, n]`` with their group; side by side they are ``[R, P]``.

        A run that is not `running` keeps its parameters. `state.step` counts this step already.
        """
        state, (rate, decay) = self._state, self._rates * running  # [G, R] each
        left = 1 - self._betas**state.step  # [2, R]
        rate, keep, root = rate / left[0], 1 - decay, left[1].sqrt()
        own, start = (state.parameters, state.mean, state.square), 0
        for number, given in grads:
            here = [t.narrow(1, start, given.shape[1]) for t in own]
            part = given
            if self._coupled:
                part = torch.addcmul(given.to(here[0].dtype), here[0], self._decay[number])
            kernels_for(state.parameters).adamw_(
                *here, part, keep[number], rate[number], root, BETAS, EPS
            )
            start += given.shape[1]
