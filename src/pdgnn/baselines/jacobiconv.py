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

from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from pdgnn.baselines.parts import (
    adjacency_inputs,
    drop,
    one_logit,
    own_rates,
    propagate,
    rate_options,
    share,
    transform,
    whole,
)
from pdgnn.errors import InputError, check_number
from pdgnn.graph import Graph
from pdgnn.nn.dropout import Dropout
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


class JacobiConv(nn.Module):
    """A Linear layer and a learned filter of degree `hops` in the basis of P_k^(a,b)."""

    bound: Tensor
    recurrence: Tensor  # [K, 3]

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        *,
        hops: int = 10,
        a: float = 1.0,
        b: float = 1.0,
        bound: float = 1.0,
        dropout: float = 0.5,
        filter_dropout: float = 0.0,
    ) -> None:
        super().__init__()
        channels = max(2, out_channels)
        self.out_channels = out_channels
        self.drop_in, self.drop_out = Dropout(dropout), Dropout(filter_dropout)
        self.lin = nn.Linear(in_channels, channels)
        self.eta = nn.Parameter(torch.full((hops,), min(1 / bound, 1.0)))
        self.theta = nn.Parameter(torch.ones(hops + 1, channels))
        recurrence = torch.tensor(jacobi_recurrence(hops, a, b), dtype=torch.float64)
        self.register_buffer("bound", torch.tensor(bound, dtype=torch.float64))
        self.register_buffer("recurrence", recurrence)

    def forward(self, x: Tensor | SparseFeatures, edges: Edges, edge_weight: Tensor) -> Tensor:
        """``[N, in_channels]`` and D^(−½) A D^(−½) in slots ``[E]`` to ``[N, out_channels]``."""
        h: Tensor = self.drop_out(transform(self.lin, drop(self.drop_in, x))).to(edge_weight.dtype)
        gamma = self.bound.to(h.dtype) * self.eta.tanh()  # [K]
        recurrence = self.recurrence.to(h.dtype)
        before, last, z = h, h, self.theta[0] * h
        for k in range(1, len(self.theta)):
            p, q, r = recurrence[k - 1].unbind()
            own = p * propagate(last, edge_weight, edges) + q * last
            if k > 1:
                own = own + r * gamma[k - 2] * before
            before, last = last, gamma[k - 1] * own
            z = z + self.theta[k] * last
        return one_logit(z, self.out_channels)


def _build(size: Size, spec: RunSpec) -> nn.Module:
    own = {name: spec.options[name] for name in ("hops", "a", "b", "bound", "filter_dropout")}
    return JacobiConv(
        size.in_channels,
        size.out_channels,
        dropout=spec.dropout,
        **own,  # type: ignore[arg-type]
    )


def _inputs(graph: Graph, x: Tensor, spec: RunSpec) -> dict[str, object]:
    return adjacency_inputs(graph)


def _groups(spec: RunSpec) -> Mapping[str, Mapping[str, float]]:
    return own_rates(spec, "eta", "theta")


def _exponent(value: object) -> float:
    return check_number("it", value, -1.0)


def _bound(value: object) -> float:
    if (bound := check_number("it", value)) == 0:
        raise InputError("a bound of 0 leaves nothing of the filter; choose one above 0")
    return bound


def _check(spec: RunSpec) -> None:
    if spec.options["a"] == spec.options["b"] == -1:
        raise InputError("a = b = -1 has no Jacobi polynomials of order 2; raise one of them")


MODEL = Model(
    build=_build,
    inputs=_inputs,
    groups=_groups,
    optimizer="adam",
    options={
        "hops": Option(10, whole(), help="degree K of the filter"),
        "a": Option(1.0, _exponent, value=True, help="of the Jacobi polynomials, at least -1"),
        "b": Option(1.0, _exponent, value=True, help="of the Jacobi polynomials, at least -1"),
        "bound": Option(1.0, _bound, value=True, help="of the factors between orders"),
        "filter_dropout": Option(0.0, share, value=True, help="dropout before the filter"),
        **rate_options("eta", "the factors between orders"),
        **rate_options("theta", "the coefficients of orders and classes"),
    },
    name="JacobiConv",
    uses=("dropout", "rewired"),
    values=("dropout",),
    sparse=True,
    check=_check,
)
