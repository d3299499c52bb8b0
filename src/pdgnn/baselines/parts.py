"""What several of these systems have in common: an MLP, a step of propagation, rates of their own.

Every system is a :class:`~pdgnn.nn.SeededModule` of (size, spec), written for one run: its dropout
masks do not depend on which other runs it trains with. In bfloat16 its parameters are narrow, but
for those that it names in ``wide``; :func:`affine` takes an input of any type.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, cast, overload

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from pdgnn.errors import InputError, check_number, check_whole
from pdgnn.graph import Graph
from pdgnn.laplacian import diffusion_weights
from pdgnn.nn.blocks import DropoutState
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
    "dropped",
    "keep_options",
    "loops_inputs",
    "number_option",
    "one_logit",
    "one_of",
    "own_rates",
    "plain_inputs",
    "propagate",
    "rate_options",
    "whole",
]


def propagate(h: Tensor, weight: Tensor, edges: Edges) -> Tensor:
    """Σ_e w_e h_j over the edges e = (j, i): ``[N, C]`` to ``[N, C]``, weight ``[E]`` in slots."""
    return aggregate(h[:, None], weight[:, None], edges).squeeze(1)


def plain_inputs(graph: Graph, *_: Any) -> dict[str, Any]:
    """``edges`` and ``edge_weight`` ``[E]`` of A itself."""
    edges, order = structure(graph, loops=False)
    return {"edges": edges, "edge_weight": graph.edge_weight[order]}


def adjacency_inputs(graph: Graph, *_: Any) -> dict[str, Any]:
    """``edges`` and ``edge_weight`` ``[E]`` of D^(−½) A D^(−½), without loops.

    A node without edges has a row of zeros.

    >>> adjacency_inputs(Graph.from_edge_index([[0, 1], [1, 2]]))["edge_weight"].tolist()
    [0.7071..., 0.7071..., 0.7071..., 0.7071...]
    """
    edges, order = structure(graph, loops=False)
    on_edges = diffusion_weights(
        graph.edge_index, graph.num_nodes, alpha=0.5, gamma=1.0, edge_weight=graph.edge_weight
    )[0]
    return {"edges": edges, "edge_weight": on_edges[order]}


def loops_inputs(graph: Graph, *_: Any) -> dict[str, Any]:
    """``edges`` and ``edge_weight`` ``[E]`` of D̂^(−½) (A + I) D̂^(−½), that of GCN."""
    return graph_inputs(graph, loops=True, weight="symmetric")


def affine(lin: nn.Linear, x: Tensor | SparseFeatures) -> Tensor:
    """W x + b, ``[N, in]`` to ``[N, out]``, in the type of W."""
    h = feature_matmul(x, lin.weight)
    return h if lin.bias is None else h + lin.bias


@overload
def dropped(x: Tensor, state: DropoutState | None, rate: Tensor | None = None) -> Tensor: ...
@overload
def dropped(
    x: Tensor | SparseFeatures, state: DropoutState | None, rate: Tensor | None = None
) -> Tensor | SparseFeatures: ...
def dropped(
    x: Tensor | SparseFeatures, state: DropoutState | None, rate: Tensor | None = None
) -> Tensor | SparseFeatures:
    """x with some entries 0 and the others scaled up, in training, by `rate` or that of `state`.

    Of sparse features only the entries that are not 0 are drawn for.
    """
    drawn = state.draw() if state is not None else None
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


class MLP(nn.Module):
    """Dropout → Linear from each of the widths to the next, with ReLU between them.

    >>> MLP(5, 8, 3)(torch.ones(4, 5)).shape
    torch.Size([4, 3])
    """

    def __init__(self, *widths: int) -> None:
        super().__init__()
        self.lins = nn.ModuleList(nn.Linear(*pair) for pair in pairwise(widths))

    def forward(self, x: Tensor | SparseFeatures, dropout: DropoutState | None = None) -> Tensor:
        """``[N, first]`` to ``[N, last]`` of the widths."""
        h: Any = x
        for i, lin in enumerate(self.lins):
            h = affine(cast(nn.Linear, lin), dropped(h.relu() if i else h, dropout))
        out: Tensor = h
        return out


# partial, as a function made within another cannot be sent to a worker process


def whole(least: int = 1) -> Any:
    """The check of an option that is a whole number of at least so many."""
    return partial(check_whole, "it", least=least)


def one_of(*names: str) -> Any:
    """The check of an option that is one of these texts."""
    return partial(_one_of, names)


def _one_of(names: Sequence[str], value: Any) -> str:
    if value not in names:
        raise InputError(f"choose one of {', '.join(names)}, not {value!r}")
    return str(value)


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


def keep_options(module: nn.Module, spec: RunSpec, *names: str) -> None:
    """Register the values of these options as buffers of `module`, under their names."""
    for name in names:
        value = spec.options[name]
        wide = torch.float64 if isinstance(value, float) else None  # until the run's type is known
        module.register_buffer(name, torch.tensor(value, dtype=wide))
