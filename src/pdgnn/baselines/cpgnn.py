"""CPGNN: an MLP's beliefs, propagated by a learned compatibility of classes.

Zhu, Rossi, Rao, Mai, Lipka, Ahmed and Koutra, "Graph Neural Networks with Heterophily", AAAI 2021
(the variant CPGNN-MLP).

Z = MLP(X) are scores of the C classes and B⁰ = softmax(Z) − 1/C centred beliefs. K rounds of linear
belief propagation follow, Bᵏ = B⁰ + A Bᵏ⁻¹ H, and softmax(Bᴷ) is what is read. The compatibility
H ``[C, C]`` is learned. It is centred: its rows should sum to 0, and the loss has Σ|row sums of H|.

The first `pretraining` steps train the MLP alone, by the cross entropy of Z. Then H begins where
the beliefs say: with B̃ = softmax(Z), the one-hot label for training nodes, row c of the estimate
is the mean of (D⁻¹ A B̃)ᵢ over the training nodes i of class c, which is made doubly stochastic
(Sinkhorn), symmetric, and 1/C is taken off. From then on the loss is the cross entropy of Bᴷ plus
that of Z plus Σ|row sums|.

Choices: A is the plain adjacency matrix, as in the paper; ``norm="symmetric"`` takes
D^(−½) A D^(−½), with which hubs do not drown the others. H is the estimate, a buffer that follows
the beliefs during pretraining and then stays, plus a learned change, which begins at 0 and has no
decay. So pretraining and training are one course of steps, and the logits at any step, also those
of pretraining, are Bᴷ. A class without training nodes has the row 1/C. Sinkhorn takes 30 rounds.
K is ``depth``. Cost of a step: (K + 1) · E · C.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn.functional import hardshrink

from pdgnn.baselines.parts import (
    adjacency_inputs,
    affine,
    class_loss,
    dropped,
    keep_options,
    one_logit,
    one_of,
    plain_inputs,
    propagate,
    whole,
)
from pdgnn.graph import Graph
from pdgnn.nn.backbone import SeededModule
from pdgnn.nn.features import SparseFeatures
from pdgnn.nn.inputs import graph_inputs
from pdgnn.nn.interface import Model, Option, Size
from pdgnn.ops import Edges

if TYPE_CHECKING:
    from pdgnn.training.spec import RunSpec

__all__ = ["CPGNN", "MODEL", "doubly_stochastic", "estimate"]

ROUNDS = 30
"""Of Sinkhorn."""
NOTHING = 1e-6
"""Row sums of H up to this are 0: the sign of what rounding leaves would be the gradient."""
NORMS = ("none", "symmetric")


def doubly_stochastic(h: Tensor, rounds: int = ROUNDS) -> Tensor:
    """Rows and columns of a positive matrix ``[C, C]`` divided by their sums, in turns.

    >>> doubly_stochastic(torch.tensor([[2.0, 2.0], [3.0, 3.0]])).tolist()
    [[0.5, 0.5], [0.5, 0.5]]
    """
    for _ in range(rounds):
        h = h / h.sum(dim=0, keepdim=True)
        h = h / h.sum(dim=1, keepdim=True)
    return h


def estimate(beliefs: Tensor, known: Tensor, mean: Tensor, edges: Edges) -> Tensor:
    """The centred compatibility ``[C, C]`` that beliefs ``[N, C]`` and training labels show.

    `known` ``[N, C]`` has the one-hot label of training nodes and 0 elsewhere; `mean` ``[E]`` is
    1/dᵢ.
    """
    classes, labelled = known.shape[1], known.sum(dim=1, keepdim=True)
    around = propagate(torch.where(labelled > 0, known, beliefs), mean, edges)  # [N, C]
    count = known.sum(dim=0)[:, None]  # [C, 1]
    rows = known.T @ around / count.clamp(min=1)
    tiny = torch.finfo(rows.dtype).eps  # no row or column of zeros
    rows = torch.where(count > 0, rows, 1 / classes) + tiny
    h = doubly_stochastic(rows)
    return (h + h.T) / 2 - 1 / classes


class CPGNN(SeededModule):
    """The module; see above."""

    wide = ("change",)
    start: Tensor
    pretraining: Tensor

    def __init__(self, size: Size, spec: RunSpec) -> None:
        super().__init__(spec.dropout, spec.seed)
        self.rounds, self.out_channels, classes = spec.depth, size.out_channels, size.num_classes
        self.lin_in = nn.Linear(size.in_channels, spec.width)
        self.lin_out = nn.Linear(spec.width, classes)
        self.change = nn.Parameter(torch.zeros(classes, classes))
        self.register_buffer("start", torch.zeros(classes, classes))
        keep_options(self, spec, "pretraining")

    def forward(
        self,
        x: Tensor | SparseFeatures,
        edges: Edges,
        edge_weight: Tensor,
        mean: Tensor,
        labels: Tensor,
    ) -> Tensor | dict[str, Tensor]:
        """``[N, in]`` to logits ``[N, out]``, in training with what the loss needs.

        The weights ``[E]`` are A and D⁻¹ A; the labels ``[N]`` of training nodes, -1 elsewhere, are
        floating-point numbers, so that those of many splits can be stacked.
        """
        dropout = self.dropout_state()
        hidden = dropped(affine(self.lin_in, x), dropout).relu()
        prior = affine(self.lin_out, hidden).to(self.change.dtype)  # [N, C]
        first, start = prior.softmax(dim=1), self.start
        if self.training:
            known = labels[:, None] == torch.arange(len(start), device=labels.device)  # [N, C]
            shown = estimate(first.detach(), known.to(first.dtype), mean, edges)
            start = torch.where(dropout.step <= self.pretraining.clamp(min=1), shown, self.start)
            self.start.copy_(start)
        h = start + self.change
        first = first - 1 / h.shape[0]
        belief = first
        for _ in range(self.rounds):
            belief = first + propagate(belief @ h, edge_weight, edges)
        logits = one_logit(belief, self.out_channels)
        if not self.training:
            return logits
        sums = hardshrink(h.sum(dim=1), NOTHING).abs().sum()
        prior = one_logit(prior, self.out_channels)
        return {"logits": logits, "prior": prior, "sums": sums, "pretraining": self.pretraining}


def _loss(
    outputs: dict[str, Tensor],
    target: Tensor,
    train: Tensor,
    step: Tensor,
    weight: Tensor | None = None,
) -> Tensor:
    prior = class_loss(outputs["prior"], target, train, weight)
    whole = class_loss(outputs["logits"], target, train, weight) + prior + outputs["sums"]
    return torch.where(step <= outputs["pretraining"], prior, whole)


def _inputs(graph: Graph, x: Tensor, spec: RunSpec, labels: Tensor) -> dict[str, Any]:
    means = graph_inputs(graph, weight="mean")  # of the same edges
    kind = adjacency_inputs if spec.options["norm"] == "symmetric" else plain_inputs
    return {**kind(graph), "mean": means["edge_weight"], "labels": labels.double()}


MODEL = Model(
    build=CPGNN,
    inputs=_inputs,
    loss=_loss,
    groups={"change": {"weight_decay": 0.0}},
    optimizer="adam",
    options={
        "pretraining": Option(400, whole(0), value=True, help="steps that train the MLP alone"),
        "norm": Option("none", one_of(*NORMS), help="of the adjacency matrix: none or symmetric"),
    },
    name="CPGNN",
    uses=("depth", "width", "dropout", "rewired"),
    values=("dropout",),
    labels=True,
    sparse=True,
)
