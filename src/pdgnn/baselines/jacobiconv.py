"""JacobiConv: a Linear layer, then a filter in the basis of Jacobi polynomials; no non-linearity.

Z = Σ_k θ_k ⊙ γ_1 ⋯ γ_k P_k^(a,b)(Â) H with H = W X + b, Â = D^(−½) A D^(−½), one θ for each k and
class, and scalars γ_k = bound · tanh(η_k), which keep the coefficients of high orders in bounds.
The P_k are computed by their recurrence, with the products of γ in it.

Wang, Zhang: *How powerful are spectral graph neural networks*, ICML 2022.

Choices: as in the authors' code θ starts at 1 and η at min(1 / bound, 1); there is dropout before
the Linear layer (the run's) and after it (an option), and θ and η may have learning rates and
decays of their own. Two classes have two channels, each with its filter, and the difference of the
two is the one logit: its binary cross entropy is the cross entropy of the two.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from pdgnn.baselines.parts import (
    adjacency_inputs,
    affine,
    dropped,
    keep_options,
    number_option,
    one_logit,
    own_rates,
    propagate,
    rate_options,
    whole,
)
from pdgnn.errors import InputError, check_number
from pdgnn.nn.backbone import SeededModule
from pdgnn.nn.features import SparseFeatures
from pdgnn.nn.interface import Model, Option, Size
from pdgnn.ops import Edges

if TYPE_CHECKING:
    from pdgnn.training.spec import RunSpec

__all__ = ["MODEL", "JacobiConv", "jacobi_recurrence"]


def jacobi_recurrence(order: int, a: float, b: float) -> list[tuple[float, float, float]]:
    """(p, q, r) with P_k(x) = (p x + q) P_(k−1)(x) + r P_(k−2)(x), for k from 1 to `order`.

    For a = b = 0 they are Legendre's, k P_k = (2k − 1) x P_(k−1) − (k − 1) P_(k−2).

    >>> jacobi_recurrence(3, 0.0, 0.0)[1:]
    [(1.5, 0.0, -0.5), (1.6666666666666667, 0.0, -0.6666666666666666)]
    """
    found = [((a + b) / 2 + 1, (a - b) / 2, 0.0)]
    for k in range(2, order + 1):
        s = 2 * k + a + b
        below = 2 * k * (k + a + b) * (s - 2)
        p = (s - 1) * s * (s - 2) / below
        q = (s - 1) * (a**2 - b**2) / below
        found.append((p, q, -2 * (k + a - 1) * (k + b - 1) * s / below))
    return found


class JacobiConv(SeededModule):
    """The module; see above."""

    wide = ("eta", "theta")
    bound: Tensor
    filter_dropout: Tensor
    recurrence: Tensor  # [K, 3]

    def __init__(self, size: Size, spec: RunSpec) -> None:
        super().__init__(spec.dropout, spec.seed)
        hops, channels = int(spec.options["hops"] or 0), max(2, size.out_channels)
        a, b, bound = (float(spec.options[name] or 0) for name in ("a", "b", "bound"))
        self.out_channels = size.out_channels
        self.lin = nn.Linear(size.in_channels, channels)
        self.eta = nn.Parameter(torch.full((hops,), min(1 / bound, 1.0)))
        self.theta = nn.Parameter(torch.ones(hops + 1, channels))
        recurrence = torch.tensor(jacobi_recurrence(hops, a, b), dtype=torch.float64)
        self.register_buffer("recurrence", recurrence)
        keep_options(self, spec, "bound", "filter_dropout")

    def forward(self, x: Tensor | SparseFeatures, edges: Edges, edge_weight: Tensor) -> Tensor:
        """``[N, in]`` to logits ``[N, out]``; the weights ``[E]`` are D^(−½) A D^(−½)."""
        dropout = self.dropout_state()
        h = affine(self.lin, dropped(x, dropout))
        h = dropped(h, dropout, self.filter_dropout).to(edge_weight.dtype)
        gamma = self.bound * self.eta.tanh()  # [K]
        before, last, z = h, h, self.theta[0] * h
        for k in range(1, len(self.theta)):
            p, q, r = self.recurrence[k - 1].unbind()
            own = p * propagate(last, edge_weight, edges) + q * last
            if k > 1:
                own = own + r * gamma[k - 2] * before
            before, last = last, gamma[k - 1] * own
            z = z + self.theta[k] * last
        return one_logit(z, self.out_channels)


def _groups(spec: RunSpec) -> Mapping[str, Mapping[str, float]]:
    return own_rates(spec, "eta", "theta")


def _bound(value: object) -> float:
    if (bound := check_number("it", value)) == 0:
        raise InputError("a bound of 0 leaves nothing of the filter; choose one above 0")
    return bound


def _check(spec: RunSpec) -> None:
    if spec.options["a"] == spec.options["b"] == -1:
        raise InputError("a = b = -1 has no Jacobi polynomials of order 2; raise one of them")


MODEL = Model(
    build=JacobiConv,
    inputs=adjacency_inputs,
    groups=_groups,
    optimizer="adam",
    options={
        "hops": Option(10, whole(), help="degree K of the filter"),
        "a": number_option(1.0, -1, math.inf, "of the Jacobi polynomials, at least -1"),
        "b": number_option(1.0, -1, math.inf, "of the Jacobi polynomials, at least -1"),
        "bound": Option(1.0, _bound, value=True, help="of the factors between orders"),
        "filter_dropout": number_option(0.0, 0, 1, "dropout before the filter", end=False),
        **rate_options("eta", "the factors between orders"),
        **rate_options("theta", "the coefficients of orders and classes"),
    },
    name="JacobiConv",
    uses=("dropout", "rewired"),
    values=("dropout",),
    sparse=True,
    check=_check,
)
