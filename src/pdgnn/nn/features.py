"""Node features of which most are 0, such as bags of words, as what they are: a sparse matrix."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from pdgnn.ops import Edges, aggregate, linear

__all__ = ["SPARSE_SHARE", "SparseFeatures", "compact_features", "feature_matmul"]

SPARSE_SHARE = 0.05
"""Share of non-zero features below which a sparse product is the quicker one."""


@dataclass(frozen=True)
class SparseFeatures:
    """X ``[N, F]`` by its non-zero entries; a model takes it in the place of the dense x.

    An entry x_nf is an edge that carries row f of Wᵀ to node n: X Wᵀ is an aggregation.

    >>> x = SparseFeatures.from_dense(torch.tensor([[0.0, 2.0], [0.0, 0.0]]))
    >>> x.shape, feature_matmul(x, torch.tensor([[5.0, 7.0]])).tolist()
    ((2, 2), [[14.0], [0.0]])
    """

    edges: Edges  # from features to nodes
    values: Tensor  # [nnz], in their slots

    @property
    def shape(self) -> tuple[int, int]:
        """(N, F)."""
        return self.edges.num_targets, self.edges.num_sources

    @classmethod
    def from_dense(cls, x: Tensor) -> SparseFeatures:
        """The non-zero entries of `x`."""
        node, feature = x.nonzero(as_tuple=True)
        edges = Edges.from_edge_index(
            torch.stack([feature, node]), num_nodes=x.shape[1], num_targets=x.shape[0]
        )
        return cls(edges.trimmed(), edges.sorted(x[node, feature]))

    def to(self, device: torch.device | str) -> SparseFeatures:
        """The same on another device."""
        return SparseFeatures(self.edges.to(device), self.values.to(device))


def compact_features(x: Tensor) -> Tensor | SparseFeatures:
    """`x` itself, or its sparse form where that is the quicker one to multiply with."""
    dense = int(x.count_nonzero()) > SPARSE_SHARE * x.numel()
    return x if dense else SparseFeatures.from_dense(x)


def feature_matmul(x: Tensor | SparseFeatures, weight: Tensor) -> Tensor:
    """X Wᵀ for weight ``[D, F]``, ``[N, D]``, in its type."""
    if isinstance(x, Tensor):
        return linear(x.to(weight.dtype), weight)
    rows = weight.t().contiguous()[:, None]  # [F, 1, D]
    values = x.values.to(torch.promote_types(weight.dtype, torch.float32))
    return aggregate(rows, values[:, None], x.edges).squeeze(1)
