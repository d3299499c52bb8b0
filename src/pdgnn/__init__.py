"""pdgnn: learning on graphs whose neighbours disagree.

>>> import pdgnn
>>> g = pdgnn.Graph.from_edge_index([[0, 1, 2, 3], [1, 2, 3, 4]])
>>> pdgnn.gradient_node(g), pdgnn.rewire(g).num_edges
(0, 7)
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pdgnn import datasets, homophily, nn, ops, training, transforms
    from pdgnn.diffusion import DiffusionFeatures
    from pdgnn.direction import average_matrix, derivative_matrix, direction_features
    from pdgnn.distance import diffusion_distance, order_time, spectral_distance
    from pdgnn.errors import ConvergenceError, InputError, PdgnnError
    from pdgnn.estimator.classifier import PDClassifier
    from pdgnn.graph import Graph, GraphReport
    from pdgnn.laplacian import (
        DiffusionOperator,
        diffusion_matrix,
        diffusion_weights,
        parameterized_laplacian,
    )
    from pdgnn.rewiring import RewiredGraph, gradient_node, gradient_nodes, rewire
    from pdgnn.spectrum import Spectrum, eigenpairs, eigenpairs_path

__version__ = "0.1.0"

__all__ = [
    "ConvergenceError",
    "DiffusionFeatures",
    "DiffusionOperator",
    "Graph",
    "GraphReport",
    "InputError",
    "PDClassifier",
    "PdgnnError",
    "RewiredGraph",
    "Spectrum",
    "average_matrix",
    "datasets",
    "derivative_matrix",
    "diffusion_distance",
    "diffusion_matrix",
    "diffusion_weights",
    "direction_features",
    "eigenpairs",
    "eigenpairs_path",
    "gradient_node",
    "gradient_nodes",
    "homophily",
    "nn",
    "ops",
    "order_time",
    "parameterized_laplacian",
    "rewire",
    "spectral_distance",
    "training",
    "transforms",
]

# Where each name lives. It is imported when it is first used, as torch and PyG take seconds.
_NAMES = {
    "diffusion": ("DiffusionFeatures",),
    "direction": ("average_matrix", "derivative_matrix", "direction_features"),
    "distance": ("diffusion_distance", "order_time", "spectral_distance"),
    "errors": ("ConvergenceError", "InputError", "PdgnnError"),
    "estimator.classifier": ("PDClassifier",),
    "graph": ("Graph", "GraphReport"),
    "laplacian": (
        "DiffusionOperator",
        "diffusion_matrix",
        "diffusion_weights",
        "parameterized_laplacian",
    ),
    "rewiring": ("RewiredGraph", "gradient_node", "gradient_nodes", "rewire"),
    "spectrum": ("Spectrum", "eigenpairs", "eigenpairs_path"),
}
_MODULE_OF = {name: module for module, names in _NAMES.items() for name in names}
_MODULES = ("datasets", "homophily", "nn", "ops", "training", "transforms")


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"pdgnn.{name}")
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'pdgnn' has no attribute {name!r}")
    value = getattr(import_module(f"pdgnn.{_MODULE_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
