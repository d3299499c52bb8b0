"""What each model asks of a graph: its edges, with or without loops, their weights and features."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from numpy.typing import ArrayLike
from torch import Tensor

from pdgnn.direction import checked_phi, direction_features
from pdgnn.graph import Graph
from pdgnn.laplacian import check_alpha, check_gamma, diffusion_weights
from pdgnn.nn.models import ModelSpec, Weight, model_spec
from pdgnn.ops import Edges
from pdgnn.rewiring import Reach, check_reach, rewire
from pdgnn.spectrum import eigenpairs

__all__ = ["GraphInputs", "edge_weights", "prepare"]


@dataclass(frozen=True)
class GraphInputs:
    """What a model is called with besides x, in the slots of `edges`.

    Attributes:
        edges: The structure; its `order` is None, as everything is in its slots already.
        edge_weight: ``[E]``, where the model weighs its edges.
        edge_attr: Direction features ``[E, 2]``, where it attends to them.
        graph: The graph that this is of: a :class:`~pdgnn.RewiredGraph` where it was rewired.
    """

    edges: Edges
    edge_weight: Tensor | None
    edge_attr: Tensor | None
    graph: Graph

    def to(self, device: torch.device | str) -> GraphInputs:
        """The same on another device."""
        weight, attr = (
            None if t is None else t.to(device) for t in (self.edge_weight, self.edge_attr)
        )
        return GraphInputs(self.edges.to(device), weight, attr, self.graph)


def prepare(
    g: Graph,
    name: str,
    *,
    alpha: float = 1.0,
    gamma: float = 1.0,
    rewired: bool = False,
    reach: Reach = "all",
    phi: Tensor | ArrayLike | None = None,
    device: torch.device | str = "cpu",
    dtype: torch.dtype = torch.float32,
) -> GraphInputs:
    """The inputs of the model `name` of :data:`~pdgnn.nn.models.MODELS` on the graph `g`.

    With ``rewired=True`` they are those of ``rewire(g, ...)``, the direction features included;
    φ = φ^(1)(α,γ) is that of `g` itself in both. PD-GCN then diffuses by P of the rewired graph,
    which the paper leaves out.

    φ is solved for only where it is used, and not where it is given as `phi` ``[N]``; α and γ
    matter to PD models and to rewiring only. PD-GCN has loops at γ = 1 as well, of weight 0, so
    that all its (α, γ) share one structure.

    >>> inputs = prepare(Graph.from_edge_index([[0, 1], [1, 2]]), "pd-gcn", gamma=0.5)
    >>> inputs.edges.row.tolist(), inputs.edges.col.tolist()
    ([0, 0, 1, 1, 1, 2, 2], [1, 0, 0, 2, 1, 1, 2])
    >>> [round(w, 3) for w in inputs.edge_weight.tolist()]
    [0.5, 0.5, 0.333, 0.333, 0.333, 0.5, 0.5]
    >>> model(x, inputs.edges, inputs.edge_weight, inputs.edge_attr)  # doctest: +SKIP
    """
    spec = model_spec(name)
    check_alpha(alpha)
    check_gamma(gamma)
    check_reach(reach)
    if (rewired or spec.features) and phi is None:
        phi = eigenpairs(g, gamma=gamma).eigenvectors(alpha)[:, 0]
    used = rewire(g, reach=reach, phi=phi) if rewired else g
    index = _edge_index(used, spec)  # [2, E]
    edges = Edges.from_edge_index(index, num_nodes=g.num_nodes).trimmed()
    weight, attr = None, None
    if spec.weight is not None:
        weight = edges.sorted(edge_weights(used, spec.weight, alpha=alpha, gamma=gamma)).to(dtype)
    if spec.features and phi is not None:
        values = checked_phi(g, phi).detach().double().cpu()
        features = direction_features(used, values, edge_index=index)
        attr = edges.sorted(features).to(dtype)  # [E, 2]
    return GraphInputs(replace(edges, order=None), weight, attr, used).to(device)


def edge_weights(g: Graph, kind: Weight, *, alpha: float = 1.0, gamma: float = 1.0) -> Tensor:
    """The weight of each edge of ``g.edge_index``, then of each node's loop if it has one, float64.

    ``"symmetric"``: D̂^(−½) (A + I) D̂^(−½) with D̂ = D + I, with loops. ``"mean"``: a_ij / d_i,
    without. ``"diffusion"``: P^(α,γ), its diagonal in the loops.

    >>> edge_weights(Graph.from_edge_index([[0, 1], [1, 2]]), "mean").tolist()
    [0.5, 1.0, 1.0, 0.5]
    """
    weight, (source, target) = g.edge_weight, g.edge_index
    if kind == "symmetric":
        scale = torch.from_numpy(g.degree + 1.0).rsqrt()  # [N]
        return torch.cat([scale[target] * weight * scale[source], scale**2])
    if kind == "mean":
        alpha = gamma = 1.0
    on_edges, on_diagonal = diffusion_weights(
        g.edge_index, g.num_nodes, alpha=alpha, gamma=gamma, edge_weight=weight
    )
    return on_edges if kind == "mean" else torch.cat([on_edges, on_diagonal])


def _edge_index(g: Graph, spec: ModelSpec) -> Tensor:
    """Both ways of every edge, then the loops where the model has them."""
    if not spec.loops:
        return g.edge_index
    return torch.cat([g.edge_index, torch.arange(g.num_nodes).expand(2, -1)], dim=1)
