"""What a user hands to a layer or a model, checked and brought to the slots of its edges."""

from __future__ import annotations

import warnings
from dataclasses import replace

import torch
from torch import Tensor
from torch_geometric.utils import is_torch_sparse_tensor, to_edge_index

from pdgnn.errors import InputError, check_number, check_whole
from pdgnn.io.raw import checked_weights
from pdgnn.ops import Edges
from pdgnn.ops.edges import check_integers, missing_node

__all__ = [
    "as_edge_index",
    "as_edges",
    "check_attr",
    "check_degree",
    "check_heads",
    "check_range",
    "check_rate",
    "check_seed",
    "check_sizes",
    "check_sources",
    "check_values",
    "check_weight",
    "loopless_weight",
    "warn_one_way",
]


def check_heads(channels: int, heads: int) -> int:
    """Channels of one head."""
    if channels % check_whole("heads", heads):
        raise InputError(
            f"hidden_channels={channels} does not split into heads={heads} equal heads; "
            "choose a multiple"
        )
    return channels // heads


def check_rate(p: float) -> float:
    """A dropout rate in [0, 1)."""
    return check_number("dropout", p, 0, 1, end=False)


def check_seed(seed: int) -> int:
    """A seed that fits into a signed 64-bit integer and a torch generator."""
    return check_whole("seed", seed, 0, below=2**63)


def as_edge_index(edge_index: Tensor) -> tuple[Tensor, Tensor | None]:
    """``[2, E]`` as it is; of a torch.sparse ``adj_t`` (row: target) also its values."""
    if not isinstance(edge_index, Tensor):
        raise InputError(
            f"edge_index must be a tensor [2, E] or Edges, not {type(edge_index).__name__}"
        )
    if not is_torch_sparse_tensor(edge_index):
        return edge_index, None
    if edge_index.layout == torch.sparse_coo:
        edge_index = edge_index.coalesce()  # PyG would call the caller's own tensor coalesced
    index, values = to_edge_index(edge_index)
    return index.flip(0), values


def check_range(edge_index: Tensor, sources: int, targets: int) -> None:
    """An error if `edge_index` is not ``[2, E]`` or names nodes that are not there.

    Node ids on a GPU are trusted, as reading them would make the step wait for the device.
    """
    check_integers(edge_index)
    if edge_index.device.type != "cpu" or not edge_index.numel() or torch.compiler.is_compiling():
        return
    low, high = (int(v) for v in edge_index.aminmax())
    if low >= 0 and high < min(sources, targets):
        return
    for ids, size, side in zip(edge_index, (sources, targets), ("source", "target"), strict=True):
        low, high = (int(v) for v in ids.aminmax())
        if low < 0 or high >= size:
            node = low if low < 0 else high
            raise missing_node(side, node, size)


def check_weight(edge_weight: Tensor, num_edges: int) -> Tensor:
    """`edge_weight` if it is ``[E]``."""
    if edge_weight.shape != (num_edges,):
        raise InputError(
            f"edge_weight has shape {list(edge_weight.shape)}; give one number for each of "
            f"{num_edges} edges"
        )
    return edge_weight


def check_values(edge_weight: Tensor) -> Tensor:
    """`edge_weight` if it has no weights that a graph cannot have: see :class:`~pdgnn.Graph`.

    Weights on a GPU, of a model that is traced, and of torch.func's transforms are trusted.
    """
    if edge_weight.device.type != "cpu" or torch.compiler.is_compiling():
        return edge_weight
    try:
        values = edge_weight.detach().double().numpy()
    except RuntimeError:  # torch.func's tensors have no values to look at
        return edge_weight
    checked_weights(values, lambda i: f"edge_weight[{i}]")
    return edge_weight


def check_attr(edge_attr: Tensor, num_edges: int, edge_dim: int | None = None) -> Tensor:
    """`edge_attr` if it is ``[E, edge_dim]``; a single feature may come as ``[E]``."""
    attr = edge_attr[:, None] if edge_attr.ndim == 1 else edge_attr
    width = attr.shape[-1] if edge_dim is None else edge_dim
    if attr.shape != (num_edges, width):
        raise InputError(
            f"edge_attr has shape {list(edge_attr.shape)}; give [{num_edges}, {width}], a row of "
            f"{width} features for each edge"
        )
    return attr


def check_sources(edges: Edges, sources: int, targets: int) -> Edges:
    """`edges` if they are between so many nodes."""
    if (edges.num_sources, edges.num_targets) != (sources, targets):
        raise InputError(
            f"these Edges lead from {edges.num_sources} to {edges.num_targets} nodes, but x has "
            f"{sources} and {targets} rows; build them for this graph"
        )
    return edges


def as_edges(edges: Edges | Tensor, sources: int, targets: int | None = None) -> Edges:
    """Checked edges, whose `sorted` brings per-edge values from the order given to their slots.

    Values that come with `Edges` are in slots already, those that come with an edge_index in its
    order.
    """
    targets = sources if targets is None else targets
    if isinstance(edges, Edges):
        check_sources(edges, sources, targets)
        return edges if edges.order is None else replace(edges, order=None)
    edge_index, _ = as_edge_index(edges)
    return Edges.from_edge_index(edge_index, num_nodes=sources, num_targets=targets)


def loopless_weight(edge_index: Tensor, edge_weight: Tensor | None, dtype: torch.dtype) -> Tensor:
    """The weights ``[E]`` of an edge_index, default 1, with 0 for self-loops.

    So they count as little as if they were not there, and no shape depends on how many there are.
    """
    loop = edge_index[0] == edge_index[1]
    if edge_weight is None:
        return (~loop).to(dtype)
    weight = check_values(check_weight(edge_weight, edge_index.shape[1]))
    return weight.to(dtype).masked_fill(loop, 0.0)


def warn_one_way(edge_index: Tensor | Edges, num_nodes: int) -> bool:
    """Warn where an edge_index has edges without their reverse; whether it was looked at.

    That takes two sorts, and on a GPU a wait: there, and while a model is traced, nothing is looked
    at. For the `forward` of a module: the warning names the line that called it.
    """
    if isinstance(edge_index, Edges) or torch.compiler.is_compiling():
        return False
    index, _ = as_edge_index(edge_index)
    if index.device.type != "cpu":
        return False
    check_range(index, num_nodes, num_nodes)
    ways = [a.long() * num_nodes + b for a, b in (index, index.flip(0))]
    if not torch.equal(*(way.sort().values for way in ways)):
        warnings.warn(
            "edge_index has one-way edges, and P^(α,γ) is that of an undirected graph: degrees "
            "count edges into a node only; give both ways, by torch_geometric.utils.to_undirected",
            UserWarning,
            stacklevel=5,  # past forward and the two calls of nn.Module
        )
    return True


def check_degree(
    degree: Tensor | tuple[Tensor, Tensor], sizes: tuple[int, int], dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """Degrees of sources and targets ``[N]`` each, of one tensor where they are the same nodes."""
    src, dst = degree if isinstance(degree, tuple) else (degree, degree)
    for d, size in zip((src, dst), sizes, strict=True):
        if d.shape != (size,):
            raise InputError(
                f"degree has shape {list(d.shape)} for {size} nodes; give [N], or a pair of "
                "tensors where sources and targets differ"
            )
    return src.to(dtype), dst.to(dtype)


def check_sizes(
    h_src: Tensor, h_dst: Tensor | None, size: tuple[int, int] | None
) -> tuple[int, int]:
    """Numbers of sources and targets; without x_dst there are as many targets as sources."""
    known = (h_src.shape[0], None if h_dst is None else h_dst.shape[0])
    sources, targets = known if size is None else size
    if size is not None and (sources != known[0] or known[1] not in (None, targets)):
        raise InputError(f"size={size} does not fit x with {known[0]} and {known[1]} rows")
    return known[0], known[0] if targets is None else targets
