"""Edges of a growing graph: preferential attachment times class compatibility, sampled exactly.

Apart from :mod:`pdgnn.datasets.synthetic`, since numba takes half a second to import.
"""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray

__all__ = ["grow"]


@numba.njit(cache=True)  # type: ignore[untyped-decorator, unused-ignore]
def grow(
    rng: np.random.Generator,
    labels: NDArray[np.int64],
    compatibility: NDArray[np.float64],
    seeds: int,
    edges_per_node: int,
) -> NDArray[np.int64]:
    """The undirected edges ``[2, E]`` of a graph to which one node after another is added.

    The first `seeds` nodes form a ring in which each is joined to the next ⌈m/2⌉. Every further
    node i is joined to m others (or all there are with p_ij > 0), drawn one after another without
    replacement with p_ij ∝ d_j · compatibility[z_i, z_j], where d_j is the degree when i arrives.

    A node that is drawn from the list of all edges' ends has a chance ∝ d_j; it is kept with the
    chance that its compatibility has of the largest. That is exact, and costs O(1) a draw.
    """
    n, m = labels.size, edges_per_node
    classes = compatibility.shape[0]
    reach = (m + 1) // 2
    ends = np.empty(2 * (seeds * reach + (n - seeds) * m), dtype=np.int64)
    count = 0
    for i in range(seeds):
        for step in range(1, reach + 1):
            ends[count], ends[count + 1] = i, (i + step) % seeds
            count += 2
    there = np.zeros(classes, dtype=np.int64)  # nodes of each class so far
    for i in range(seeds):
        there[labels[i]] += 1
    joined = np.full(n, -1, dtype=np.int64)  # the last node that was joined to this one
    for i in range(seeds, n):
        row = compatibility[labels[i]]
        top, wanted = row.max(), min(m, there[row > 0].sum())
        arrived = count  # the new node's own edges do not count yet
        while wanted > 0:
            j = ends[rng.integers(0, arrived)]
            if joined[j] != i and rng.random() * top < row[labels[j]]:
                joined[j] = i
                ends[count], ends[count + 1] = i, j
                count += 2
                wanted -= 1
        there[labels[i]] += 1
    return ends[:count].reshape(-1, 2).T.copy()
