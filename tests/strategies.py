"""Hypothesis strategies for random graphs: connected, disconnected, weighted."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from pdgnn import Graph


@st.composite
def graphs(draw, *, connected: bool = False, weighted: bool | None = None, max_nodes: int = 16):
    """A random graph of 2 to `max_nodes` nodes; `weighted=None` draws either kind."""
    n = draw(st.integers(2, max_nodes))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    upper = np.argwhere(np.triu(rng.random((n, n)) < draw(st.floats(0.05, 0.9)), k=1))
    if connected:
        child = np.arange(1, n)
        tree = np.stack([child, rng.integers(0, child)], axis=1)
        upper = np.concatenate([upper, tree])
    if weighted is None:
        weighted = draw(st.booleans())
    weight = rng.uniform(0.1, 3.0, len(upper)) if weighted else None
    return Graph.from_edge_index(upper.T, n, weight)
