"""Dropout whose masks depend on nothing but the module and its step."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from pdgnn.nn.checks import check_rate
from pdgnn.ops import dropout

__all__ = ["Dropout"]


class Dropout(nn.Module):
    """:class:`torch.nn.Dropout` with masks that are a function of (seed, step, element).

    The seed is drawn from torch's generator when the module is made, the step counts the forward
    passes in training mode. So a run of :func:`pdgnn.training.train` gets the same masks whichever
    runs it trains with, on whatever device, and after a stop. The rate is a buffer: runs that
    differ in it can train together (``Model(values=("dropout",))``).

    >>> layer = Dropout(0.5)
    >>> layer(torch.ones(1000)).unique().tolist(), layer.eval()(torch.ones(2)).tolist()
    ([0.0, 2.0], [1.0, 1.0])
    """

    rate: Tensor
    seed: Tensor
    step: Tensor

    def __init__(self, p: float = 0.5) -> None:
        super().__init__()
        self.register_buffer("rate", torch.tensor(check_rate(p), dtype=torch.float32))
        self.register_buffer("seed", torch.randint(2**62, ()))
        self.register_buffer("step", torch.tensor(0))

    def forward(self, x: Tensor) -> Tensor:
        """x, of any shape, with some entries 0 and the others divided by 1 − rate in training."""
        if not self.training:
            return x
        step = self.step.add_(1).clone()  # a copy: the backward pass may come after the next step
        return dropout(x, self.rate.float(), self.seed, step, layer=0)
