"""pdgnn: learning on graphs whose neighbours disagree.

>>> import pdgnn
>>> g = pdgnn.Graph.from_edge_index([[0, 1, 2, 3], [1, 2, 3, 4]])
>>> pdgnn.gradient_node(g), pdgnn.rewire(g).num_edges
(0, 7)
"""

from pdgnn import datasets, homophily
from pdgnn.direction import average_matrix, derivative_matrix, direction_features
from pdgnn.distance import diffusion_distance, order_time, spectral_distance
from pdgnn.errors import ConvergenceError, InputError, PdgnnError
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
    "DiffusionOperator",
    "Graph",
    "GraphReport",
    "InputError",
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
    "order_time",
    "parameterized_laplacian",
    "rewire",
    "spectral_distance",
]
