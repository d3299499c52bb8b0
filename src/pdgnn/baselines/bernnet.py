"""BernNet: an MLP, then a filter of the spectrum that is a Bernstein polynomial of degree K.

Z = Σ_k relu(θ_k) 2^(−K) C(K, k) (2I − L)^(K−k) L^k H with H = MLP(X) and L = I − D^(−½) A D^(−½).
The θ start at 1, where the filter is the identity, and stay non-negative by the relu.

He, Wei, Huang, Xu: *BernNet: learning arbitrary graph spectral filters via Bernstein
approximation*, NeurIPS 2021.

How it is computed: with S = I − L/2, T = L/2 and b_k = relu(θ_k) C(K, k) the sum is
Σ_k b_k S^(K−k) T^k H. From v_0 = H and r_0 = b_0 H, the step v_k = T v_(k−1) and
r_k = S r_(k−1) + b_k v_k ends in r_K = Z: K products with the adjacency matrix, each of two
vectors for a channel, where the powers one by one take K (K + 3) / 2. Rounding grows with the
binomials, in this form as with the powers one by one: in float32 it is up to 2e-5 at K = 10 and
1e-2 at K = 20, and at K = 30 as large as the result. So K is at most 20, in float64 40.

Choices: dropout of the MLP is the run's; that of H before the filter is an option, as in the
authors' code, and so is a learning rate of θ, which does not decay.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from pdgnn.baselines.parts import (
    MLP,
    adjacency_inputs,
    dropped,
    keep_options,
    number_option,
    own_rates,
    rate_options,
    whole,
)
from pdgnn.errors import InputError
from pdgnn.nn.backbone import SeededModule
from pdgnn.nn.features import SparseFeatures
from pdgnn.nn.interface import Model, Option, Size
from pdgnn.ops import Edges, aggregate

if TYPE_CHECKING:
    from pdgnn.training.spec import RunSpec

__all__ = ["MODEL", "BernNet", "bernstein"]

MOST_HOPS = {"float64": 40}
USUAL_MOST = 20
"""The largest K by the precision of a run, and that of all others."""


def bernstein(h: Tensor, b: Tensor, edges: Edges, edge_weight: Tensor) -> Tensor:
    """Σ_k b_k 2^(−K) (2I − L)^(K−k) L^k h: ``[N, C]`` to ``[N, C]``.

    b ``[K + 1]`` is θ_k C(K, k); edge_weight ``[E]`` holds D^(−½) A D^(−½) in slots of `edges`.
    """
    v, r = h, b[0] * h
    for k in range(1, len(b)):
        both = aggregate(torch.stack([v, r], dim=1), edge_weight[:, None], edges)  # [N, 2, C]
        v = 0.5 * (v - both[:, 0])
        r = 0.5 * (r + both[:, 1]) + b[k] * v
    return r


class BernNet(SeededModule):
    """The module; see above."""

    wide = ("theta",)
    binomials: Tensor
    filter_dropout: Tensor

    def __init__(self, size: Size, spec: RunSpec) -> None:
        super().__init__(spec.dropout, spec.seed)
        hops = int(spec.options["hops"] or 0)
        if hops > (most := MOST_HOPS.get(spec.precision, USUAL_MOST)):
            raise InputError(
                f"hops={hops} of bernnet is more than {spec.precision} can carry without large "
                f"rounding errors; choose at most {most}"
            )
        self.mlp = MLP(size.in_channels, *(spec.depth - 1) * [spec.width], size.out_channels)
        self.theta = nn.Parameter(torch.ones(hops + 1))
        keep_options(self, spec, "filter_dropout")
        binomials = [float(math.comb(hops, k)) for k in range(hops + 1)]
        self.register_buffer("binomials", torch.tensor(binomials, dtype=torch.float64))

    def forward(self, x: Tensor | SparseFeatures, edges: Edges, edge_weight: Tensor) -> Tensor:
        """``[N, in]`` to logits ``[N, out]``; the weights ``[E]`` are D^(−½) A D^(−½)."""
        dropout = self.dropout_state()
        h = dropped(self.mlp(x, dropout), dropout, self.filter_dropout).to(edge_weight.dtype)
        b = self.theta.relu() * self.binomials
        return bernstein(h, b, edges, edge_weight)


def _groups(spec: RunSpec) -> Mapping[str, Mapping[str, float]]:
    return {"theta": {"weight_decay": 0.0, **own_rates(spec, "theta")["theta"]}}


MODEL = Model(
    build=BernNet,
    inputs=adjacency_inputs,
    groups=_groups,
    optimizer="adam",
    options={
        "hops": Option(10, whole(), help="degree K of the filter, at most 20 (in float64 40)"),
        "filter_dropout": number_option(0.0, 0, 1, "dropout before the filter", end=False),
        **rate_options("theta", "the filter (decay None: 0)"),
    },
    name="BernNet",
    uses=("depth", "width", "dropout", "rewired"),
    values=("dropout",),
    sparse=True,
)
