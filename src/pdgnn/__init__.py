"""pdgnn: learning on graphs whose neighbours disagree."""

from pdgnn.errors import ConvergenceError, InputError, PdgnnError
from pdgnn.graph import Graph, GraphReport
from pdgnn.laplacian import diffusion_matrix, diffusion_weights, parameterized_laplacian
from pdgnn.spectrum import Spectrum, eigenpairs

__version__ = "0.1.0"

__all__ = [
    "ConvergenceError",
    "Graph",
    "GraphReport",
    "InputError",
    "PdgnnError",
    "Spectrum",
    "diffusion_matrix",
    "diffusion_weights",
    "eigenpairs",
    "parameterized_laplacian",
]
