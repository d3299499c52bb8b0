"""What the models of this package ask of a graph: edges, loops, weights, features."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal, get_args
from weakref import WeakKeyDictionary

import torch
from numpy.typing import ArrayLike
from torch import Tensor

from pdgnn.direction import checked_phi, direction_features
from pdgnn.errors import InputError
from pdgnn.graph import Graph
from pdgnn.laplacian import diffusion_weights
from pdgnn.ops import Edges
from pdgnn.spectrum import first_eigenvector

__all__ = ["EDGE_DIM", "Weight", "direction_phi", "edge_weights", "graph_inputs", "structure"]

Weight = Literal["symmetric", "mean", "diffusion"]

EDGE_DIM = 2
"""Direction features of an edge."""

_structures: WeakKeyDictionary[Graph, dict[bool, tuple[Edges, Tensor]]] = WeakKeyDictionary()


def graph_inputs(
    g: Graph,
    *,
    loops: bool = False,
    weight: Weight | None = None,
    scope: tuple[float, float] = (1.0, 1.0),
    phi: Tensor | ArrayLike | None = None,
) -> dict[str, Any]:
    """What a :class:`~pdgnn.nn.Backbone` is called with besides x; all in the slots of ``edges``.

    Args:
        g: The graph.
        loops: Whether every node has an edge to itself.
        weight: Which ``edge_weight`` ``[E]`` there is; see :func:`edge_weights`.
        scope: (α, γ) of the weights ``"diffusion"``. Loops are there at γ = 1 too, of weight 0, so
            that all scopes share one structure.
        phi: φ ``[N]`` whose :func:`~pdgnn.direction_features` are ``edge_attr`` ``[E, 2]``.

    >>> path = Graph.from_edge_index([[0, 1], [1, 2]])
    >>> inputs = graph_inputs(path, loops=True, weight="diffusion", scope=(1.0, 0.5))
    >>> inputs["edges"].row.tolist(), inputs["edges"].col.tolist()
    ([0, 0, 1, 1, 1, 2, 2], [1, 0, 0, 2, 1, 1, 2])
    >>> [round(w, 3) for w in inputs["edge_weight"].tolist()]
    [0.5, 0.5, 0.333, 0.333, 0.333, 0.5, 0.5]
    """
    edges, order = structure(g, loops=loops)
    found: dict[str, Any] = {"edges": edges}
    if weight is not None:
        found["edge_weight"] = edge_weights(g, weight, loops=loops, scope=scope)[order]
    if phi is not None:
        values = checked_phi(g, phi).detach().double().cpu()
        attr = direction_features(g, values, edge_index=_edge_index(g, loops))
        found["edge_attr"] = attr[order]  # [E, 2]
    return found


def direction_phi(g: Graph, alpha: float, gamma: float) -> Any:
    """φ(α,γ) that the features of edges are of ``[N]``; of a rewired graph, that of the one before.

    >>> path = Graph.from_edge_index([[0, 1], [1, 2]])
    >>> direction_phi(path, 0.5, 1.0).round(3).tolist()
    [0.707, 0.0, -0.707]
    """
    known = getattr(g, "phi", None)
    return first_eigenvector(g, alpha=alpha, gamma=gamma) if known is None else known


def structure(g: Graph, *, loops: bool) -> tuple[Edges, Tensor]:
    """The edges of `g`, with a loop at each node if asked for, kept as long as `g` is.

    Values that belong to ``g.edge_index`` and then to the loops are brought to their slots by the
    order ``[E]`` that is the second result.

    >>> path = Graph.from_edge_index([[0, 1], [1, 2]])
    >>> structure(path, loops=True) is structure(path, loops=True)
    True
    """
    known = _structures.setdefault(g, {})
    if loops not in known:
        edges = Edges.from_edge_index(_edge_index(g, loops), num_nodes=g.num_nodes).trimmed()
        order = torch.arange(edges.num_edges) if edges.order is None else edges.order
        known[loops] = replace(edges, order=None), order
    return known[loops]


def edge_weights(
    g: Graph, kind: Weight, *, loops: bool, scope: tuple[float, float] = (1.0, 1.0)
) -> Tensor:
    """The weight of each edge of ``g.edge_index``, then of each node's loop if it has one, float64.

    ``"symmetric"``: D̂^(−½) (A + I) D̂^(−½) with D̂ = D + I, with loops. ``"mean"``: a_ij / d_i,
    without. ``"diffusion"``: P^(α,γ), its diagonal in the loops.

    >>> edge_weights(Graph.from_edge_index([[0, 1], [1, 2]]), "mean", loops=False).tolist()
    [0.5, 1.0, 1.0, 0.5]
    """
    if kind not in get_args(Weight):
        raise InputError(f"weight must be one of {', '.join(get_args(Weight))}, not {kind!r}")
    if loops == (kind == "mean"):
        raise InputError(f"weight={kind!r} needs loops={not loops}")
    if kind == "symmetric":
        scale = torch.from_numpy(g.degree + 1.0).rsqrt()  # [N]
        source, target = g.edge_index
        return torch.cat([scale[target] * g.edge_weight * scale[source], scale**2])
    alpha, gamma = scope if kind == "diffusion" else (1.0, 1.0)
    on_edges, on_diagonal = diffusion_weights(
        g.edge_index, g.num_nodes, alpha=alpha, gamma=gamma, edge_weight=g.edge_weight
    )
    return torch.cat([on_edges, on_diagonal]) if loops else on_edges


def _edge_index(g: Graph, loops: bool) -> Tensor:
    """Both ways of every edge, then the loops, ``[2, E]``."""
    if not loops:
        return g.edge_index
    return torch.cat([g.edge_index, torch.arange(g.num_nodes).expand(2, -1)], dim=1)
