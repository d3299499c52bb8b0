"""Message passing (aggregate, attend) and bias, dropout, activation and normalisation around it."""

from pdgnn.ops.backends import BACKENDS, use_backend
from pdgnn.ops.edges import Edges
from pdgnn.ops.functional import (
    activate,
    aggregate,
    attend,
    attend_dot,
    attend_nodes,
    batch_norm,
    dropout,
    layer_norm,
    linear,
    score_nodes,
)

__all__ = [
    "BACKENDS",
    "Edges",
    "activate",
    "aggregate",
    "attend",
    "attend_dot",
    "attend_nodes",
    "batch_norm",
    "dropout",
    "layer_norm",
    "linear",
    "score_nodes",
    "use_backend",
]
