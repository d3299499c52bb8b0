"""The edges of a graph as the kernels read them: grouped by target, and by source for gradients."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor

from pdgnn.errors import InputError

__all__ = ["HUB", "Edges", "check_integers", "missing_node"]

HUB = 512
"""A node with more edges is a hub: on a GPU they are dealt out in chunks of so many."""


@dataclass(frozen=True)
class Edges:
    """A sparse structure of E edges (j, i), each carrying a message from source j to target i.

    Slot e of the first layout (grouped by target) is where every per-edge value belongs; the second
    layout (grouped by source) names those slots, for the gradients that flow back along the edges.

    >>> edges = Edges.from_edge_index(torch.tensor([[2, 0, 1], [1, 1, 0]]), num_nodes=3)
    >>> edges.rowptr.tolist(), edges.col.tolist(), edges.order.tolist()
    ([0, 1, 3, 3], [1, 2, 0], [2, 0, 1])
    >>> edges.sorted(torch.tensor([0.2, 0.0, 1.0])).tolist()
    [1.0, 0.20000000298023224, 0.0]
    """

    rowptr: Tensor  # [targets + 1]: slots of target i are rowptr[i] .. rowptr[i + 1]
    col: Tensor  # [E], the source of each slot
    row: Tensor  # [E], the target of each slot
    t_rowptr: Tensor  # [sources + 1]
    t_row: Tensor  # [E], targets, grouped by source
    t_slot: Tensor  # [E], their slots in the first layout
    hub_chunks: Tensor  # [2E / HUB, 2], chunks of targets with more than HUB edges
    t_hub_chunks: Tensor  # [2E / HUB, 2], of such sources
    order: Tensor | None = None  # [E], the column of edge_index in each slot; None: as they came

    @property
    def num_edges(self) -> int:
        """E."""
        return self.col.numel()

    @property
    def num_targets(self) -> int:
        """How many nodes messages go to."""
        return self.rowptr.numel() - 1

    @property
    def num_sources(self) -> int:
        """How many nodes messages come from."""
        return self.t_rowptr.numel() - 1

    @classmethod
    def from_edge_index(
        cls, edge_index: Tensor, *, num_nodes: int, num_targets: int | None = None
    ) -> Edges:
        """From PyG's ``[2, E]``; `num_targets` where sources and targets are two sets of nodes."""
        check_integers(edge_index)
        targets = num_nodes if num_targets is None else num_targets
        source, target = edge_index
        order = target.argsort(stable=True)
        col, row = source[order], target[order]
        t_order = col.argsort(stable=True)
        by_source = col[t_order]
        _check_ends(by_source, num_nodes, "source")
        _check_ends(row, targets, "target")
        small = max(edge_index.shape[1], num_nodes, targets) < 2**31
        index = torch.int32 if small else torch.int64
        rowptr, t_rowptr = _pointers(row, targets), _pointers(by_source, num_nodes)
        edges = edge_index.shape[1]
        return cls(
            rowptr.to(index),
            col.to(index),
            row.to(index),
            t_rowptr.to(index),
            row[t_order].to(index),
            t_order.to(index),
            _hub_chunks(rowptr, edges).to(index),
            _hub_chunks(t_rowptr, edges).to(index),
            order,
        )

    @classmethod
    def from_csr(cls, rowptr: NDArray[Any], col: NDArray[Any], *, num_sources: int) -> Edges:
        """From the sources of each target, ascending, in CSR; nothing is sorted or widened.

        >>> Edges.from_csr(np.array([0, 1, 3]), np.array([1, 0, 1]), num_sources=2).t_slot.tolist()
        [1, 0, 2]
        """
        targets, edges = len(rowptr) - 1, len(col)
        index = np.int32 if max(edges, targets, num_sources) < 2**31 else np.int64
        rowptr, col = rowptr.astype(index), col.astype(index, copy=False)
        slots = sp.csr_array(
            (np.arange(edges, dtype=index), col, rowptr), shape=(targets, num_sources)
        )
        by_source = slots.tocsc()
        del slots
        row = np.repeat(np.arange(targets, dtype=index), np.diff(rowptr))
        t_parts = (by_source.indptr, by_source.indices, by_source.data)
        found = [torch.from_numpy(part) for part in (rowptr, col, row, *t_parts)]
        chunks = [_hub_chunks(p.long(), edges).to(p.dtype) for p in (found[0], found[3])]
        return cls(*found, *chunks)

    def sorted(self, values: Tensor) -> Tensor:
        """Values ``[E, ...]`` in the order of edge_index, brought to their slots."""
        return values if self.order is None else values[self.order]

    def trimmed(self) -> Edges:
        """The same with no more chunks than hubs have, for edges that are used often.

        Not done from the start, as it waits for the device.

        >>> edges = Edges.from_edge_index(torch.zeros(2, HUB, dtype=torch.long), num_nodes=1)
        >>> len(edges.hub_chunks), len(edges.trimmed().hub_chunks)
        (2, 0)
        """
        chunks = self.hub_chunks[self.hub_chunks[:, 0] < self.num_targets]
        t_chunks = self.t_hub_chunks[self.t_hub_chunks[:, 0] < self.num_sources]
        return replace(self, hub_chunks=chunks, t_hub_chunks=t_chunks)

    def to(self, device: torch.device | str) -> Edges:
        """The same on another device."""
        order = None if self.order is None else self.order.to(device)
        moved = (t.to(device) for t in self.tensors())
        return Edges(*moved, order=order)  # type: ignore[misc]

    def tensors(self) -> tuple[Tensor, ...]:
        """What every kernel takes, in this order."""
        by_target = (self.rowptr, self.col, self.row)
        by_source = (self.t_rowptr, self.t_row, self.t_slot)
        return *by_target, *by_source, self.hub_chunks, self.t_hub_chunks


def _check_ends(index: Tensor, size: int, side: str) -> None:
    """An error if the sorted `index` names nodes that are not there; on a GPU it is trusted.

    The kernels would read and write what lies beyond the end.
    """
    if index.device.type != "cpu" or not index.numel() or torch.compiler.is_compiling():
        return
    for node in (int(index[0]), int(index[-1])):
        if not 0 <= node < size:
            raise missing_node(side, node, size)


def check_integers(edge_index: Tensor) -> None:
    """An error if `edge_index` is not ``[2, E]``, or has no integers."""
    if edge_index.ndim != 2 or edge_index.shape[0] != 2 or edge_index.is_floating_point():
        raise InputError(
            f"edge_index must be integers of shape [2, E], not {edge_index.dtype} of shape "
            f"{list(edge_index.shape)}"
        )


def missing_node(side: str, node: int, size: int) -> InputError:
    """What is said of a node id that is not there."""
    return InputError(
        f"edge_index has {side} {node}, but there are {size} {side} nodes; renumber the edges "
        "from 0, or give all nodes: a row of x for each, or num_nodes"
    )


def _pointers(index: Tensor, size: int) -> Tensor:
    """Where each of `size` groups of the sorted `index` begins, ``[size + 1]``."""
    return torch.searchsorted(index, torch.arange(size + 1, device=index.device))


def _hub_chunks(pointers: Tensor, edges: int) -> Tensor:
    """(node, number of the chunk) for each chunk of HUB edges of a node that has more than HUB.

    The rows left over have the number of nodes for a node: how many are used is not known without
    waiting for the device, but there are never more than 2 E / HUB. :meth:`Edges.trimmed` drops
    them.

    >>> _hub_chunks(torch.tensor([0, 1, HUB + 4, HUB + 5]), HUB + 5).tolist()
    [[1, 0], [1, 1]]
    >>> _hub_chunks(torch.tensor([0, HUB, HUB + 5]), HUB + 5).tolist()
    [[2, 0], [2, 1]]
    """
    degree = pointers.diff()
    count = torch.where(degree > HUB, (degree + HUB - 1) // HUB, 0)
    ends = count.cumsum(0)
    chunk = torch.arange(2 * edges // HUB, device=pointers.device)
    node = torch.searchsorted(ends, chunk, right=True)
    begin = torch.cat([ends.new_zeros(1), ends])[node]
    return torch.stack([node, chunk - begin], dim=1)
