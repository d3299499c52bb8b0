"""PD-Net: diffusion in one or several scopes beside a path of the node's own, applied in rounds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from pdgnn.errors import InputError, check_whole
from pdgnn.graph import Graph
from pdgnn.nn.backbone import SeededModule
from pdgnn.nn.blocks import Context
from pdgnn.nn.checks import as_edge_index, as_edges, check_attr
from pdgnn.nn.features import SparseFeatures, feature_matmul
from pdgnn.nn.inputs import EDGE_DIM
from pdgnn.nn.pd_layer import NORMS, Norm, PDLayer, PDRound, Scales, Statistics
from pdgnn.nn.scopes import (
    AGGREGATIONS,
    LEAST_GAMMA,
    Aggregation,
    bounded,
    check_scopes,
    net_inputs,
    scope_scales,
)
from pdgnn.ops import Edges

__all__ = ["PDNet", "check_parts"]

MOMENTUM = 0.1
"""What a step counts in the running statistics, as in torch."""


class PDNet(SeededModule):
    """PD-Net: layers of diffusion beside a path of the node's own, the same ones in every round.

    A layer is

        h' = dropout(ReLU(Norm(W_self z + Σ_s W_s P^(α_s,γ_s) z + b)))

    with z = h, or z = [h, h0] with `inject`. h0 = W x + b is where h begins, the `depth` layers are
    applied `rounds` times with the same weights, and logits are a Linear of the last h. There are
    no residuals. A batch norm has no b before it, which it would take out again.

    As all rounds have the same weights, there may be more of them after training than in it
    (``net.rounds = 40``), for a graph that is larger or whose nodes must hear from further away.

    What the parts are worth was measured on seven graphs, by changing one at a time of the setting
    that validation chose (docs/records.md). On minesweeper, with 16 rounds of 3 layers, `inject`
    and 99.8 ROC AUC, points fall by 7.5 with one round, 3.7 with weights of their own for each
    round, 17.3 without `inject`, 9.7 without `self_path`, 0.7 without a norm and at most 0.1 with
    another aggregation. On squirrel-filtered, with one round and an accuracy of 45.3, they fall by
    9.1 with "sage" in the place of P, 7.8 with "gat", 1.9 with "gcn", 6.0 without a norm, 1.4
    without `self_path`, and by 2.1 to 2.8 with a second round, `inject` or a second scope; there
    only the differences of 6 points and more are significant over ten splits.

    Args:
        in_channels: Features of a node.
        hidden_channels: Width D.
        out_channels: Classes, or 1 for one logit.
        depth: Different layers.
        rounds: How often they are applied.
        inject: Whether every layer sees h0 beside h.
        scopes: (α, γ) of P^(α,γ), one or several side by side, each with weights of its own.
        norm: "batch", over the nodes of the graph; "layer", over the channels of a node; "none".
        running: Evaluate a batch norm with running statistics of training, kept for each round and
            layer, and not with those of the graph at hand. Rounds beyond those trained have those
            of the last.
        self_path: Whether there is W_self.
        aggregation: What stands in the place of P: "pd" is P itself, "gcn" the normalised adjacency
            matrix with self-loops, "sage" the mean of the neighbours, "gat" attention.
        attention: Whether there are, beside the sums over neighbours, messages of attention whose
            scores see the direction features of the first scope; with "gat", in its place.
        eigenvectors: How many eigenvectors of the first scope are further features.
        learned: Learn α and γ of each scope and channel, from those given on.
        dropout: Its rate in [0, 1).
        heads: Heads of attention, which split D.
        seed: Of dropout.

    >>> net = PDNet(5, 16, 3, depth=2, rounds=4, inject=True)
    >>> edge_index = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    >>> net(torch.ones(3, 5), edge_index).shape
    torch.Size([3, 3])
    >>> from pdgnn import Graph
    >>> net(torch.ones(3, 5), **net.inputs(Graph.from_edge_index(edge_index))).shape  # made once
    torch.Size([3, 3])
    """

    wide = ("lin_in", "lin_phi", "scope_", "lin_out")
    scope_alpha: nn.Parameter | None
    scope_gamma: nn.Parameter | None
    running_mean: Tensor | None
    running_var: Tensor | None

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        *,
        depth: int = 4,
        rounds: int = 1,
        inject: bool = False,
        scopes: Sequence[Sequence[float]] = ((0.0, 1.0),),
        norm: Norm = "batch",
        running: bool = False,
        self_path: bool = True,
        aggregation: Aggregation = "pd",
        attention: bool = False,
        eigenvectors: int = 0,
        learned: bool = False,
        dropout: float = 0.2,
        heads: int = 8,
        seed: int = 0,
    ) -> None:
        super().__init__(dropout, seed)
        width, depth = check_whole("hidden_channels", hidden_channels), check_whole("depth", depth)
        self.rounds = check_whole("rounds", rounds)
        self.scopes = check_scopes(scopes, learned=learned)
        check_parts(self.scopes, norm, aggregation, running=running, learned=learned)
        self.aggregation: Aggregation = aggregation
        self.attention, self.learned = attention, learned
        self.eigenvectors = check_whole("eigenvectors", eigenvectors, 0)
        self.lin_in = nn.Linear(check_whole("in_channels", in_channels), width)
        self.lin_phi = nn.Linear(eigenvectors, width, bias=False) if eigenvectors else None
        self.layers = PDRound(
            PDLayer(
                width,
                scopes=0 if aggregation == "gat" else len(self.scopes),
                inject=inject,
                norm=norm,
                self_path=self_path,
                attend=attention or aggregation == "gat",
                edge_dim=EDGE_DIM if attention else None,
                heads=heads,
            )
            for _ in range(depth)
        )
        self.lin_out = nn.Linear(width, check_whole("out_channels", out_channels))
        for name, values in zip(("alpha", "gamma"), zip(*self.scopes, strict=True), strict=True):
            start = torch.tensor(values)[:, None].repeat(1, width) if learned else None  # [S, D]
            own = None if start is None else nn.Parameter(start)
            self.register_parameter(f"scope_{name}", own)
        shape = (rounds, depth, width)
        self.register_buffer("running_mean", torch.zeros(shape) if running else None)
        self.register_buffer("running_var", torch.ones(shape) if running else None)

    def inputs(self, graph: Graph) -> dict[str, Any]:
        """What ``forward`` takes of `graph` besides x, by name, in the type of the module."""
        found = net_inputs(
            graph,
            self.scopes,
            aggregation=self.aggregation,
            attention=self.attention,
            eigenvectors=self.eigenvectors,
            learned=self.learned,
        )
        dtype = self.lin_in.weight.dtype
        return {n: v.to(dtype) if isinstance(v, Tensor) else v for n, v in found.items()}

    def forward(
        self,
        x: Tensor | SparseFeatures,
        edge_index: Tensor | Edges,
        edge_weight: Tensor | None = None,
        edge_attr: Tensor | None = None,
        *,
        degree: Tensor | None = None,
        phi: Tensor | None = None,
        rounds: int | None = None,
    ) -> Tensor:
        """``[N, in_channels]`` to ``[N, out_channels]``.

        Args:
            x: Features of the nodes, dense or sparse.
            edge_index: An undirected graph ``[2, E]``, from which everything else is made at every
                call, in SciPy and not traced; self-loops are dropped. Or the edges of
                :meth:`inputs`, made once, as torch.export needs them.
            edge_weight: Weights of the graph's edges ``[E]``, default 1. With edges of
                :meth:`inputs`, and so all that follows: the weights in their slots.
            edge_attr: The direction features of the edges ``[E, 2]``.
            degree: Of the nodes ``[N]``, where scopes are learned.
            phi: The eigenvectors ``[N, k]``.
            rounds: In the place of those of the module.
        """
        if not isinstance(edge_index, Edges):
            made = self._made(x.shape[0], edge_index, edge_weight)
            return self.forward(x, **made, rounds=rounds)
        given = self._context(x.shape[0], edge_index, edge_weight, edge_attr)
        h0, scales = self._start(x, phi), self._scales(degree, given)
        layers: Sequence[Any] = list(self.layers)
        constants = tuple(layer.constants(h0, given, scales) for layer in layers)
        count = check_whole("rounds", self.rounds if rounds is None else rounds)
        h = h0
        every: list[Tensor] = []
        for number in range(count):
            h, *seen = self.through(
                self.layers, h, given, scales, constants, self._statistics(number)
            )
            every += seen
        self._keep(every, x.shape[0])
        out: Tensor = self.lin_out(h.to(self.lin_out.weight.dtype))
        return out

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def _made(self, nodes: int, edge_index: Tensor, edge_weight: Tensor | None) -> dict[str, Any]:
        """The :meth:`inputs` of an edge_index, on its device; not traced, as NumPy makes them."""
        index, values = as_edge_index(edge_index)
        graph = Graph.from_edge_index(index, nodes, values if edge_weight is None else edge_weight)
        return {n: v.to(index.device) for n, v in self.inputs(graph).items()}

    def _context(
        self, nodes: int, edges: Edges, weight: Tensor | None, attr: Tensor | None
    ) -> Context:
        edges, dtype = as_edges(edges, nodes), self.lin_in.weight.dtype
        scopes = 1 if self.learned else len(self.scopes)
        if weight is not None:
            shape = (edges.num_edges, *([scopes] if scopes > 1 else []))
            if weight.shape != shape:
                raise InputError(
                    f"edge_weight has shape {list(weight.shape)}; give {list(shape)}, see "
                    "PDNet.inputs"
                )
            weight = weight.to(dtype)
        if attr is not None:
            attr = check_attr(attr, edges.num_edges, EDGE_DIM).to(dtype)
        return Context(edges, weight, attr, self.dropout_state())

    def _start(self, x: Tensor | SparseFeatures, phi: Tensor | None) -> Tensor:
        """h0, in the type of the layers."""
        h = feature_matmul(x, self.lin_in.weight) + self.lin_in.bias
        if self.lin_phi is not None:
            if phi is None or phi.shape != (x.shape[0], self.eigenvectors):
                raise InputError(
                    f"this PDNet takes {self.eigenvectors} eigenvectors; give phi "
                    f"[{x.shape[0]}, {self.eigenvectors}], see PDNet.inputs"
                )
            h = h + self.lin_phi(phi.to(h.dtype))
        first: Any = self.layers[0]
        return h.to(next(first.parameters()).dtype)

    def _scales(self, degree: Tensor | None, context: Context) -> Scales:
        """The diffusion of each scope and channel, where scopes are learned."""
        if self.scope_alpha is None or self.scope_gamma is None:
            return None
        if degree is None or degree.shape != (context.edges.num_targets,):
            raise InputError(
                f"this PDNet learns its scopes; give degree [{context.edges.num_targets}], see "
                "PDNet.inputs"
            )
        first: Any = self.layers[0]
        dtype = next(first.parameters()).dtype
        alpha = bounded(self.scope_alpha, 0.0, 1.0).flatten()  # [S · D]
        gamma = bounded(self.scope_gamma, LEAST_GAMMA, 1.0).flatten()
        left, right, diagonal = scope_scales(degree.to(alpha.dtype), alpha, gamma)
        return left.to(dtype), right.to(dtype), diagonal.to(dtype)

    def _statistics(self, number: int) -> tuple[Statistics, ...]:
        """The running statistics of the layers in a round, where they are used."""
        if self.running_mean is None or self.running_var is None or self.training:
            return ()
        at = min(number, len(self.running_mean) - 1)
        return tuple(zip(self.running_mean[at], self.running_var[at], strict=True))

    def _keep(self, seen: Sequence[Tensor], nodes: int) -> None:
        """Take means and variances, of all rounds and layers, over into the running ones."""
        if self.running_mean is None or self.running_var is None or not self.training:
            return
        with torch.no_grad():
            unbiased = nodes / max(nodes - 1, 1)
            for kept, own, factor in (
                (self.running_mean, seen[::2], 1.0),
                (self.running_var, seen[1::2], unbiased),
            ):
                _, depth, width = kept.shape
                now = torch.stack(list(own)).view(-1, depth, width)[: len(kept)]
                share = MOMENTUM * factor
                kept[: len(now)].mul_(1 - MOMENTUM).add_(share * now.to(kept.dtype))


def check_parts(
    scopes: Sequence[Any], norm: str, aggregation: str, *, running: bool, learned: bool
) -> None:
    """An error where these do not go together."""
    if norm not in NORMS:
        raise InputError(f"norm must be one of {', '.join(NORMS)}, not {norm!r}")
    if aggregation not in AGGREGATIONS:
        raise InputError(
            f"aggregation must be one of {', '.join(AGGREGATIONS)}, not {aggregation!r}"
        )
    if running and norm != "batch":
        raise InputError(f"norm={norm!r} has no running statistics; leave running=True out")
    if aggregation != "pd" and (learned or len(scopes) > 1):
        raise InputError(
            f"aggregation={aggregation!r} has no scopes to learn or to put side by side; take 'pd'"
        )
