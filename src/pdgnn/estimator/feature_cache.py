"""The table that a tabular learner is given, ``[N, F']`` float32, computed once for many specs."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from pdgnn.diffusion import Matrix, diffused, node_inputs, reduction
from pdgnn.estimator.tabular_spec import TabularSpec
from pdgnn.graph import Graph

__all__ = ["Components", "FeatureCache", "feature_table"]

Components = NDArray[np.float64] | None
SPARSE_SHARE = 0.1
"""Share of non-zero features below which they are held as a sparse matrix."""


def feature_table(
    spec: TabularSpec, graph: Graph, x: NDArray[Any], components: Components
) -> Matrix:
    """The features, or what the graph makes of them; sparse where most of it is zero."""
    return _table(spec, graph, _compact(x), components)


class FeatureCache:
    """Tables that were computed before, of the last few (graph, x, settings).

    Graphs and x are compared by identity: change neither in place.
    """

    def __init__(self, limit: int = 2**30) -> None:
        """Keep tables of `limit` bytes in all, and at least the last one."""
        self.limit = limit
        self._held: OrderedDict[Any, tuple[Any, Components, Matrix]] = OrderedDict()

    def get(self, spec: TabularSpec, graph: Graph, x: NDArray[Any]) -> tuple[Components, Matrix]:
        """The singular vectors and the table of `spec`, fitted to these features."""
        key = (id(graph), id(x), spec.table)
        if key not in self._held:
            compact = _compact(x)
            components = reduction(compact, spec.reduce)
            # graph and x are held too: no other object can take their ids
            self._held[key] = ((graph, x), components, _table(spec, graph, compact, components))
        self._held.move_to_end(key)
        while len(self._held) > 1 and sum(_bytes(h[2]) for h in self._held.values()) > self.limit:
            self._held.popitem(last=False)
        return self._held[key][1:]


def _compact(x: NDArray[Any]) -> Matrix:
    """`x` as float32, sparse where most of it is zero."""
    x = np.asarray(x, dtype=np.float32)
    sparse = np.count_nonzero(x) <= SPARSE_SHARE * x.size
    return sp.csr_array(x) if sparse else x


def _bytes(x: Matrix) -> int:
    return int(x.data.nbytes + x.indices.nbytes) if sp.issparse(x) else int(x.nbytes)


def _table(spec: TabularSpec, graph: Graph, x: Matrix, components: Components) -> Matrix:
    """``[N, F']``, float32."""
    z = node_inputs(graph, x, components, degree=spec.diffuse)
    return diffused(graph, z, scopes=spec.scopes, hops=spec.hops) if spec.diffuse else z
