"""The scopes (α, γ) of PD-Net: side by side, in the weights of edges or learned by channel."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from pdgnn import laplacian
from pdgnn.errors import InputError, check_whole
from pdgnn.graph import Graph
from pdgnn.laplacian import diffusion_entries
from pdgnn.nn.inputs import direction_phi, edge_weights, graph_inputs, structure
from pdgnn.spectrum import eigenpairs

__all__ = [
    "AGGREGATIONS",
    "LEAST_GAMMA",
    "Aggregation",
    "Scope",
    "bounded",
    "check_scopes",
    "net_inputs",
    "parse_scopes",
    "scope_scales",
]

Scope = tuple[float, float]
"""α and γ."""
Aggregation = Literal["pd", "gcn", "sage", "gat"]
AGGREGATIONS: tuple[Aggregation, ...] = ("pd", "gcn", "sage", "gat")
LEAST_GAMMA = 0.01
"""Where a learned γ ends: at 0 nothing comes from neighbours, and no gradient leads back."""


def check_scopes(scopes: Iterable[Sequence[float]], *, learned: bool = False) -> tuple[Scope, ...]:
    """Pairs of α and γ in [0, 1], at least one; where they are learned, γ not below its end."""
    found = laplacian.check_scopes(scopes)
    if learned and min(gamma for _, gamma in found) < LEAST_GAMMA:
        raise InputError(f"a gamma that is learned starts at {LEAST_GAMMA} or above")
    return found


def parse_scopes(text: str) -> tuple[Scope, ...]:
    """Scopes from a text such as ``"1,1;0.5,0.8"``, or ``"1:1;0.5:0.8"``; none from ``""``.

    >>> parse_scopes("1,1;0.5:0.8")
    ((1.0, 1.0), (0.5, 0.8))
    """
    parts = [part.replace(":", ",").split(",") for part in text.split(";")] if text else []
    try:
        return check_scopes([[float(v) for v in part] for part in parts]) if parts else ()
    except (ValueError, InputError) as e:
        raise InputError(
            f"scopes are pairs of alpha and gamma in [0, 1], written like '1,1' or '1,1;0.5,0.8', "
            f"not {text!r}"
        ) from e


class _Bounded(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, low: float, high: float) -> Tensor:
        return x.clamp(low, high)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        x, ctx.low, ctx.high = inputs
        ctx.save_for_backward(x)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (x,), g = ctx.saved_tensors, grads[0]
        outward = ((x <= ctx.low) & (g > 0)) | ((x >= ctx.high) & (g < 0))
        return torch.where(outward, 0.0, g), None, None


def bounded(x: Tensor, low: float, high: float) -> Tensor:
    """x clamped to [low, high]; at and beyond an end, gradients pass that lead back from it.

    So a parameter may start at an end, 0 or 1, does not run away from it, and can return.

    >>> x = torch.tensor([0.0, 0.0, 1.5], requires_grad=True)
    >>> bounded(x, 0, 1).backward(torch.tensor([1.0, -1.0, 1.0]))
    >>> x.grad.tolist()
    [0.0, -1.0, 1.0]
    """
    apply: Any = _Bounded.apply
    out: Tensor = apply(x, low, high)
    return out


def scope_scales(degree: Tensor, alpha: Tensor, gamma: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """P^(α,γ) of each channel by its nodes: (left, right, diagonal), ``[N, C]`` each.

    With α and γ of each channel ``[C]`` and degrees ``[N]``, channel c of P y is
    left ⊙ A (right ⊙ y) + diagonal ⊙ y: one aggregation for all channels, whose weights are those
    of A. See :func:`pdgnn.laplacian.diffusion_entries`.
    """
    left, right, diagonal = diffusion_entries(degree[:, None], alpha[None], gamma[None])
    return left, right, diagonal


def net_inputs(
    graph: Graph,
    scopes: Sequence[Scope],
    *,
    aggregation: Aggregation = "pd",
    attention: bool = False,
    eigenvectors: int = 0,
    learned: bool = False,
) -> dict[str, Any]:
    """What a :class:`~pdgnn.nn.PDNet` is called with besides x; all in the slots of its edges.

    Weights ``[E]`` or, of S scopes, ``[E, S]``; where scopes are learned, those of A, and the
    degrees ``[N]``. Eigenvectors ``[N, k]`` are those of the first scope times √N, so that their
    entries are about 1 whatever the size of the graph; on a rewired graph, its own. Direction
    features are of φ of the first scope, which on a rewired graph is that of the graph before.
    """
    loops = attention or not (aggregation == "sage" or learned)
    edges, order = structure(graph, loops=loops)
    found: dict[str, Any] = {"edge_index": edges}
    weight = _weights(graph, scopes, aggregation, learned=learned)
    if weight is not None:
        if len(weight) < edges.num_edges:  # an aggregation without loops on edges with loops
            weight = torch.cat([weight, weight.new_zeros(graph.num_nodes)])
        found["edge_weight"] = weight[order]
    if learned:
        found["degree"] = torch.tensor(graph.degree, dtype=torch.float64)
    if attention:
        phi = direction_phi(graph, *scopes[0])
        found["edge_attr"] = graph_inputs(graph, loops=loops, phi=phi)["edge_attr"]
    if eigenvectors:
        found["phi"] = _eigenvectors(graph, scopes[0], eigenvectors)
    return found


def _weights(
    graph: Graph, scopes: Sequence[Scope], aggregation: Aggregation, *, learned: bool
) -> Tensor | None:
    """Of the edges, and of the loops where the aggregation has some, ``[E]`` or ``[E, S]``."""
    if aggregation == "gat":
        return None
    if learned:
        return graph.edge_weight
    if aggregation == "gcn":
        return edge_weights(graph, "symmetric", loops=True)
    if aggregation == "sage":
        return edge_weights(graph, "mean", loops=False)
    every = [edge_weights(graph, "diffusion", loops=True, scope=scope) for scope in scopes]
    return every[0] if len(every) == 1 else torch.stack(every, dim=1)


def _eigenvectors(graph: Graph, scope: Scope, k: int) -> Tensor:
    most = int(np.bincount(graph.components).max()) - 1
    if check_whole("eigenvectors", k) > most:
        raise InputError(
            f"eigenvectors={k}, but the largest component of the graph has {most} that are not "
            "trivial; ask for fewer"
        )
    alpha, gamma = scope
    found = eigenpairs(graph, gamma=gamma, k=k).eigenvectors(alpha)  # [N, k]
    return torch.from_numpy(found) * math.sqrt(graph.num_nodes)
