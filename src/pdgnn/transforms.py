"""PyG transforms over the rest of the library: spectral embedding, edge features, rewiring.

They compose with each other and with PyG's own, and never change their input. A one-way edge counts
as both ways, as everywhere here. A `Batch` is transformed graph by graph and stays a `Batch`.

>>> import torch
>>> from torch_geometric.data import Data
>>> from torch_geometric.transforms import AddSelfLoops, Compose
>>> transform = Compose([RewireToGradientNode(gamma=0.5), AddSelfLoops(), AddDirectionFeatures()])
>>> transform(Data(edge_index=torch.tensor([[0, 1, 2], [1, 2, 3]]), num_nodes=4))
Data(edge_index=[2, 14], num_nodes=4, edge_attr=[14, 2])
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.data import Batch, Data
from torch_geometric.data.datapipes import functional_transform
from torch_geometric.transforms import BaseTransform

from pdgnn.direction import direction_features
from pdgnn.errors import InputError, check_whole
from pdgnn.graph import Graph
from pdgnn.laplacian import check_alpha, check_gamma
from pdgnn.rewiring import Reach, check_reach, rewire
from pdgnn.spectrum import eigenpairs

__all__ = ["AddDirectionFeatures", "AddSpectralEmbedding", "RewireToGradientNode"]


class _GraphTransform(BaseTransform):  # type: ignore[misc]
    """What the three have in common: α, γ, one graph at a time, and a readable form."""

    def __init__(self, alpha: float, gamma: float) -> None:
        self.alpha, self.gamma = check_alpha(alpha), check_gamma(gamma)

    def forward(self, data: Data | Batch) -> Data | Batch:
        """Transform a graph, or every graph of a batch."""
        if isinstance(data, Batch) and hasattr(data, "_slice_dict"):
            batch = Batch.from_data_list([self._one(d) for d in data.to_data_list()])
            for key in set(data.keys()) - set(batch.keys()):  # such as x_batch of follow_batch
                batch[key] = data[key]
            return batch
        if not isinstance(data, Data):
            raise InputError(
                f"{type(self).__name__} needs a Data with one kind of nodes and edges, not "
                f"{type(data).__name__}; call to_homogeneous() first"
            )
        return self._one(data)

    def _one(self, data: Data) -> Data:
        raise NotImplementedError

    def __repr__(self) -> str:
        options = ", ".join(f"{name}={value!r}" for name, value in vars(self).items())
        return f"{type(self).__name__}({options})"


@functional_transform("pd_spectral_embedding")
class AddSpectralEmbedding(_GraphTransform):
    """Add φ^(1), …, φ^(k) of L^(α,γ) to the nodes, ``[N, k]``, float32.

    (Functional name: ``pd_spectral_embedding``.) Columns are zero on isolated nodes and where a
    component is too small to have so many.

    Args:
        k: The number of eigenvectors.
        alpha: α of L^(α,γ).
        gamma: γ of L^(α,γ).
        attr_name: The attribute to write; None appends the columns to ``x``.

    >>> data = Data(edge_index=torch.tensor([[0, 1], [1, 2]]), num_nodes=3)
    >>> AddSpectralEmbedding(gamma=0.0)(data).spectral_embedding.abs().round(decimals=3).tolist()
    [[0.7070000171661377], [0.0], [0.7070000171661377]]
    """

    def __init__(
        self,
        *,
        k: int = 1,
        alpha: float = 1.0,
        gamma: float = 1.0,
        attr_name: str | None = "spectral_embedding",
    ) -> None:
        self.k = check_whole("k", k)
        super().__init__(alpha, gamma)
        self.attr_name = attr_name

    def _one(self, data: Data) -> Data:
        g = Graph.from_data(data)
        phi = eigenpairs(g, gamma=self.gamma, k=self.k).eigenvectors(self.alpha)  # [N, k]
        embedding = torch.from_numpy(phi).float().to(data.edge_index.device)
        if self.attr_name is None:
            data.x = _appended(data.x, embedding)
        else:
            data[self.attr_name] = embedding
        return data


@functional_transform("pd_direction_features")
class AddDirectionFeatures(_GraphTransform):
    """Add the direction features of φ^(1)(α,γ) to the edges, ``[E, 2]``, float32.

    (Functional name: ``pd_direction_features``.) The edges stay as they are given, in their order
    and direction; self-loops get theirs too, so `AddSelfLoops` goes before this transform. See
    :func:`pdgnn.direction_features`.

    Args:
        alpha: α of L^(α,γ).
        gamma: γ of L^(α,γ).
        normalize: Whether the features are divided by Σ_j |Δ_ij|.
        attr_name: The attribute to write.
        cat: Append to the attribute where there is one already; False replaces it.

    >>> data = Data(edge_index=torch.tensor([[0, 2], [1, 1]]), num_nodes=3)
    >>> AddDirectionFeatures()(data).edge_attr[:, 0].tolist()
    [0.5, 0.5]
    """

    def __init__(
        self,
        *,
        alpha: float = 1.0,
        gamma: float = 1.0,
        normalize: bool = True,
        attr_name: str = "edge_attr",
        cat: bool = True,
    ) -> None:
        super().__init__(alpha, gamma)
        self.normalize = normalize
        self.attr_name = attr_name
        self.cat = cat

    def _one(self, data: Data) -> Data:
        g = Graph.from_data(data)
        phi = eigenpairs(g, gamma=self.gamma).eigenvectors(self.alpha)[:, 0]  # [N]
        features = direction_features(
            g, phi, edge_index=data.edge_index, normalize=self.normalize
        ).to(data.edge_index.device)  # [E, 2]
        present = data[self.attr_name] if self.cat and self.attr_name in data else None
        data[self.attr_name] = _appended(present, features)
        return data


@functional_transform("pd_rewire")
class RewireToGradientNode(_GraphTransform):
    """Join nodes to the gradient node of their component (see :func:`pdgnn.rewire`).

    (Functional name: ``pd_rewire``.) The new ``edge_index`` is undirected and simple: both ways of
    every edge, sorted by source, without self-loops. Attributes of nodes and of the graph stay. An
    attribute of edges follows its edge, in the other direction too where that one was missing (the
    first of several wins), and is zero on new edges; ``edge_weight`` is 1 there.

    Args:
        alpha: α of L^(α,γ).
        gamma: γ of L^(α,γ).
        reach: "all" nodes, or only those "far" from it.

    >>> data = Data(edge_index=torch.tensor([[0, 1], [1, 2]]), num_nodes=3)
    >>> data.edge_attr = torch.tensor([5.0, 7.0])
    >>> data = RewireToGradientNode()(data)
    >>> data.edge_index.tolist(), data.edge_attr.tolist()
    ([[0, 0, 1, 1, 2, 2], [1, 2, 0, 2, 0, 1]], [5.0, 0.0, 5.0, 7.0, 0.0, 7.0])
    """

    def __init__(self, *, alpha: float = 1.0, gamma: float = 1.0, reach: Reach = "all") -> None:
        super().__init__(alpha, gamma)
        check_reach(reach)
        self.reach: Reach = reach

    def _one(self, data: Data) -> Data:
        old = data.edge_index
        g = rewire(Graph.from_data(data), alpha=self.alpha, gamma=self.gamma, reach=self.reach)
        place = _place_of(g.edge_index, old.cpu(), g.num_nodes).to(old.device)  # [E']
        for key in _edge_attributes(data):
            values = torch.cat([data[key], data[key].new_zeros(1, *data[key].shape[1:])])
            data[key] = values[place]  # [E', ...]
        if data.edge_weight is not None:
            shape = (-1, *data.edge_weight.shape[1:])
            data.edge_weight = g.edge_weight.to(data.edge_weight).reshape(shape)
        data.edge_index = g.edge_index.to(old.device)
        return data


def _edge_attributes(data: Data) -> list[str]:
    """The attributes that hold one row for each edge, less its weight."""
    keys = [
        key
        for key in data.edge_attrs()
        if key not in {"edge_index", "edge_weight"} and data.__cat_dim__(key, data[key]) == 0
    ]
    for key in keys:
        if not isinstance(data[key], Tensor):
            raise InputError(
                f"the edge attribute {key!r} is a {type(data[key]).__name__} and cannot follow the "
                "edges; make it a tensor, or delete it first"
            )
    return keys


def _appended(present: Tensor | None, columns: Tensor) -> Tensor:
    """`columns` after those present; whole numbers become floating point, never the reverse."""
    if present is None:
        return columns
    present = present[:, None] if present.ndim == 1 else present
    return torch.cat([present, columns.to(present.device)], dim=1)


def _place_of(wanted: Tensor, given: Tensor, num_nodes: int) -> Tensor:
    """The first column of `given` that is each column of `wanted`, else its reverse, else −1."""
    key = given[0] * num_nodes + given[1]
    keys = torch.cat([key, given[1] * num_nodes + given[0]])  # [2E], the reversed ones last
    keys, order = keys.sort(stable=True)
    asked = wanted[0] * num_nodes + wanted[1]  # [E']
    first = torch.searchsorted(keys, asked)
    found = torch.cat([keys, keys.new_tensor([-1])])[first] == asked
    column = torch.cat([order, order.new_zeros(1)])[first] % max(given.shape[1], 1)
    return torch.where(found, column, -1)
