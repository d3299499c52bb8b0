"""What several of these systems have in common: an MLP, a step of propagation, rates of their own.

The modules are written for one run. They drop out by :class:`pdgnn.nn.Dropout` or as a
:class:`~pdgnn.nn.SeededModule` does, so that the masks of a run do not depend on which others it
trains with. Products take parameters in bfloat16 and inputs in float32.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any, overload

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from pdgnn.errors import InputError, check_number, check_whole
from pdgnn.graph import Graph
from pdgnn.laplacian import diffusion_weights
from pdgnn.nn.blocks import DropoutState
from pdgnn.nn.dropout import Dropout
from pdgnn.nn.features import SparseFeatures, feature_matmul
from pdgnn.nn.inputs import graph_inputs, structure
from pdgnn.nn.interface import Option
from pdgnn.ops import Edges, aggregate, dropout

if TYPE_CHECKING:
    from pdgnn.training.spec import RunSpec

__all__ = [
    "MLP",
    "adjacency_inputs",
    "affine",
    "at_edges",
    "class_loss",
    "drop",
    "dropped",
    "loops_inputs",
    "number_option",
    "one_logit",
    "one_of",
    "own_rates",
    "propagate",
    "rate_options",
    "share",
    "transform",
    "whole",
]


def propagate(h: Tensor, weight: Tensor, edges: Edges) -> Tensor:
    """Σ_e w_e h_j over the edges e = (j, i): ``[N, C]`` to ``[N, C]``, weight ``[E]`` in slots."""
    return aggregate(h[:, None], weight[:, None], edges).squeeze(1)


def adjacency_inputs(graph: Graph) -> dict[str, Any]:
    """``edges`` and ``edge_weight`` ``[E]`` of D^(−½) A D^(−½), without loops.

    A node without edges has a row of zeros.

    >>> adjacency_inputs(Graph.from_edge_index([[0, 1], [1, 2]]))["edge_weight"].tolist()
    [0.7071..., 0.7071..., 0.7071..., 0.7071...]
    """
    edges, order = structure(graph, loops=False)
    on_edges, _ = diffusion_weights(
        graph.edge_index, graph.num_nodes, alpha=0.5, gamma=1.0, edge_weight=graph.edge_weight
    )
    return {"edges": edges, "edge_weight": on_edges[order]}


def loops_inputs(graph: Graph, x: Tensor, spec: RunSpec) -> dict[str, Any]:
    """``edges`` and ``edge_weight`` ``[E]`` of D̂^(−½) (A + I) D̂^(−½), that of GCN."""
    return graph_inputs(graph, loops=True, weight="symmetric")


def affine(lin: nn.Linear, x: Tensor | SparseFeatures) -> Tensor:
    """W x + b, ``[N, in]`` to ``[N, out]``, in the type of W; for seeded modules."""
    h = feature_matmul(x, lin.weight)
    return h if lin.bias is None else h + lin.bias


@overload
def dropped(x: Tensor, state: DropoutState, rate: Tensor | None = None) -> Tensor: ...
@overload
def dropped(
    x: Tensor | SparseFeatures, state: DropoutState, rate: Tensor | None = None
) -> Tensor | SparseFeatures: ...
def dropped(
    x: Tensor | SparseFeatures, state: DropoutState, rate: Tensor | None = None
) -> Tensor | SparseFeatures:
    """x with some entries 0 and the others scaled up, in training, by `rate` or that of `state`.

    Of sparse features only the entries that are not 0 are drawn for.
    """
    drawn = state.draw()
    if drawn is None:
        return x
    usual, seed, step, layer = drawn
    p = usual if rate is None else rate.float()
    if isinstance(x, SparseFeatures):
        return SparseFeatures(x.edges, dropout(x.values, p, seed, step, layer=layer))
    return dropout(x, p, seed, step, layer=layer)


def at_edges(source: Tensor, target: Tensor, edges: Edges) -> Tensor:
    """source_j + target_i for each edge (j, i): ``[N]`` to ``[E]``, in the slots of `edges`."""
    return source.index_select(0, edges.col) + target.index_select(0, edges.row)


def one_logit(h: Tensor, out_channels: int) -> Tensor:
    """Scores of two classes ``[N, 2]`` as the one logit ``[N, 1]`` of a task of two classes.

    softmax(h)_1 = sigmoid(h_1 − h_0). With more classes h is returned as it is.
    """
    return h[:, 1:] - h[:, :1] if out_channels == 1 else h


def class_loss(logits: Tensor, target: Tensor, train: Tensor, weight: Tensor | None) -> Tensor:
    """The mean (binary) cross entropy over the training nodes, by class weights if there are some.

    >>> logits, both = torch.tensor([[0.0], [9.0]]), torch.tensor([1, 0])
    >>> round(class_loss(logits, both, torch.tensor([True, False]), None).item(), 3)
    0.693
    """
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    if logits.shape[1] == 1:
        wanted = target.to(logits.dtype)
        each = F.binary_cross_entropy_with_logits(logits[:, 0], wanted, reduction="none")
    else:
        each = F.cross_entropy(logits, target, reduction="none")
    share = train.to(each.dtype) if weight is None else train * weight[target]
    return (each * share).sum() / share.sum()


def drop(layer: Dropout, x: Tensor | SparseFeatures) -> Tensor | SparseFeatures:
    """Dropout of features; what is 0 stays 0, so only the other entries of sparse ones count."""
    if isinstance(x, Tensor):
        out: Tensor = layer(x)
        return out
    return replace(x, values=layer(x.values))


def transform(lin: nn.Linear, x: Tensor | SparseFeatures) -> Tensor:
    """:func:`affine` for modules that are not seeded, which run under autocast in bfloat16."""
    if isinstance(x, Tensor):
        out: Tensor = lin(x)
        return out
    return affine(lin, x)


class MLP(nn.Module):
    """`depth` times dropout → Linear, with ReLU between them.

    >>> import torch
    >>> MLP(5, 8, 3, depth=2, dropout=0.5)(torch.ones(4, 5)).shape
    torch.Size([4, 3])
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        *,
        depth: int,
        dropout: float,
    ) -> None:
        super().__init__()
        first, *more = pairwise([in_channels, *(depth - 1) * [hidden_channels], out_channels])
        self.drop_in = Dropout(dropout)
        self.lin_in = nn.Linear(*first)
        layers = ([nn.ReLU(), Dropout(dropout), nn.Linear(*widths)] for widths in more)
        self.more = nn.Sequential(*chain.from_iterable(layers))

    def forward(self, x: Tensor | SparseFeatures) -> Tensor:
        """``[N, in_channels]`` to ``[N, out_channels]``."""
        out: Tensor = self.more(transform(self.lin_in, drop(self.drop_in, x)))
        return out


def whole(least: int = 1) -> Any:
    """The check of an option that is a whole number of at least so many."""

    def check(value: Any) -> int:
        return check_whole("it", value, least)

    return check


def share(value: Any) -> float:
    """The check of an option in [0, 1)."""
    return check_number("it", value, 0, 1, end=False)


def one_of(*names: str) -> Any:
    """The check of an option that is one of these texts."""

    def check(value: Any) -> str:
        if value not in names:
            raise InputError(f"choose one of {', '.join(names)}, not {value!r}")
        return str(value)

    return check


def _rate(value: Any) -> float | None:
    return None if value is None else check_number("it", value)


def rate_options(name: str, what: str) -> dict[str, Option]:
    """Options ``{name}_lr`` and ``{name}_decay``; None is the run's own."""
    return {
        f"{name}_lr": Option(None, _rate, value=True, help=f"learning rate of {what}"),
        f"{name}_decay": Option(None, _rate, value=True, help=f"weight decay of {what}"),
    }


def own_rates(spec: RunSpec, *names: str) -> Mapping[str, Mapping[str, float]]:
    """The groups of parameters whose names begin so, by the options of :func:`rate_options`."""
    groups = {}
    for name in names:
        given = {"lr": spec.options[f"{name}_lr"], "weight_decay": spec.options[f"{name}_decay"]}
        groups[name] = {key: float(value) for key, value in given.items() if value is not None}
    return groups


def number_option(
    default: float, low: float, high: float, help: str, *, end: bool = True
) -> Option:
    """An option that is a number in [low, high], kept as a tensor: runs that differ in it mix."""
    check: Callable[[Any], float] = partial(check_number, "it", low=low, high=high, end=end)
    return Option(default, check, value=True, help=help)
