"""What one would call for the k smallest non-trivial eigenvectors of L_sym, ours among them.

A method is a function of a graph and k: it readies what its users have at hand, and returns the
call that is timed. All get the largest component, on which the answer of the peers means something;
`whole` is ours on all components. Every answer is judged alike, on the largest component and in
float64.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.linalg import eigsh, lobpcg

import pdgnn
from pdgnn.experiments.provenance import Row

Floats = NDArray[np.float64]
Call = Callable[[], Any]
GAMMAS = [i / 10 for i in range(11)]
SHIFT = -1e-6  # L_sym itself is singular
TOLERANCE = 1e-8
"""The residual up to which two answers are of equal accuracy."""


@dataclass(frozen=True)
class Part:
    """The largest component of a graph: its nodes, itself, its adjacency and its D^½."""

    nodes: NDArray[np.int64]
    graph: pdgnn.Graph
    adjacency: sp.csr_array
    root: Floats

    @classmethod
    def of(cls, g: pdgnn.Graph) -> Part:
        nodes = np.flatnonzero(g.components == np.bincount(g.components).argmax())
        adjacency = g.adjacency()[nodes][:, nodes]
        graph = g if g.num_components == 1 else pdgnn.Graph.from_scipy(adjacency)
        return cls(nodes, graph, adjacency, np.sqrt(np.asarray(adjacency.sum(axis=1)).ravel()))

    def times_laplacian(self, u: Floats) -> Floats:
        """L_sym u."""
        image: Floats = u - (self.adjacency @ (u / self.root[:, None])) / self.root[:, None]
        return image


def judged(part: Part, u: Floats) -> Row:
    """The worst residual ‖L_sym u − ρ u‖ of the columns, and the Ritz values of what they span.

    The values are those of the span less the trivial vector. They are never below the eigenvalues
    that belong there, and their sum equals the sum of these only if none was missed.
    """
    u = u.astype(np.float64)
    u = u / np.linalg.norm(u, axis=0)
    image = part.times_laplacian(u)
    residual = np.linalg.norm(image - u * np.sum(u * image, axis=0), axis=0).max()
    trivial = part.root / np.linalg.norm(part.root)
    basis = np.linalg.qr(np.column_stack([trivial, u]))[0][:, 1:]
    values = np.linalg.eigvalsh(basis.T @ part.times_laplacian(basis))
    return {
        "residual": float(residual),
        "eigenvalue": float(values[0]),
        "trace": float(values.sum()),
    }


def normalized(adjacency: sp.csr_array) -> sp.csr_array:
    """D^-½ A D^-½."""
    root = sp.diags_array(np.asarray(adjacency.sum(axis=1)).ravel() ** -0.5)
    return (root @ adjacency @ root).tocsr()


def laplacian(adjacency: sp.csr_array) -> sp.csr_array:
    return (sp.eye_array(adjacency.shape[0]) - normalized(adjacency)).tocsr()


def pyg(part: Part, k: int, *, dtype: str = "float32", tol: float = 0.0) -> Call:
    """AddLaplacianEigenvectorPE; weights in double precision make it compute in it."""
    import torch
    from torch_geometric.data import Data
    from torch_geometric.transforms import AddLaplacianEigenvectorPE

    edges = torch.from_numpy(np.stack(part.adjacency.tocoo().coords).astype(np.int64))
    data = Data(edge_index=edges, num_nodes=len(part.root))
    options: dict[str, Any] = {}
    if dtype != "float32":
        data.edge_weight = torch.ones(edges.shape[1], dtype=getattr(torch, dtype))
        options["tol"] = tol
    transform = AddLaplacianEigenvectorPE(k=k, attr_name="pe", is_undirected=True, **options)

    def call() -> Floats:
        return np.asarray(transform(data).pe)

    return call


def arpack(part: Part, k: int, *, tol: float = 0.0) -> Call:
    """The largest eigenvalues of D^-½ A D^-½."""

    def call() -> Floats:
        values, u = eigsh(normalized(part.adjacency), k + 1, which="LA", tol=tol)
        return np.asarray(u[:, np.argsort(-values)[1:]])

    return call


def shift_invert(part: Part, k: int) -> Call:
    """The same of the inverse, near 0; another tolerance hardly changes its time."""

    def call() -> Floats:
        matrix = laplacian(part.adjacency).tocsc()
        values, u = eigsh(matrix, k + 1, sigma=SHIFT, which="LM")
        return np.asarray(u[:, np.argsort(values)[1:]])

    return call


def sklearn(part: Part, k: int, *, solver: str, tol: float | str = "auto") -> Call:
    from sklearn.manifold import spectral_embedding

    matrix = sp.csr_matrix(part.adjacency)
    options = {"eigen_solver": solver, "eigen_tol": tol, "random_state": 0}
    # its vectors are those of the random walk
    return lambda: spectral_embedding(matrix, n_components=k, **options) * part.root[:, None]


def amg_lobpcg(part: Part, k: int, *, tol: float | None = None, steps: int | None = None) -> Call:
    """LOBPCG with a multigrid hierarchy that knows the trivial vector."""
    from pyamg import smoothed_aggregation_solver

    def call() -> Floats:
        matrix = sp.csr_matrix(laplacian(part.adjacency))
        trivial = part.root[:, None]
        shifted = matrix + -SHIFT * sp.eye(matrix.shape[0], format="csr")
        hierarchy = smoothed_aggregation_solver(shifted, B=trivial)
        start = np.random.default_rng(0).normal(size=(matrix.shape[0], k))
        options = {"M": hierarchy.aspreconditioner(), "Y": trivial, "largest": False}
        return np.asarray(lobpcg(matrix, start, tol=tol, maxiter=steps, **options)[1])

    return call


PEERS: dict[str, Callable[[Part, int], Call]] = {
    "pyg": pyg,
    "pyg-1e-8": partial(pyg, dtype="float64", tol=TOLERANCE),
    "eigsh": arpack,
    "eigsh-1e-8": partial(arpack, tol=TOLERANCE),
    "shift-invert": shift_invert,
    "sklearn": partial(sklearn, solver="arpack"),
    "sklearn-amg": partial(sklearn, solver="amg"),
    "sklearn-amg-1e-8": partial(sklearn, solver="amg", tol=TOLERANCE),
    "lobpcg": amg_lobpcg,
    "lobpcg-1e-8": partial(amg_lobpcg, tol=TOLERANCE / 2, steps=1000),  # its own norms are inexact
}
METHODS = {
    "pdgnn": "pdgnn.eigenpairs, γ = 1",
    "whole": "the same of all components",
    "path": "pdgnn.eigenpairs_path, eleven γ",
    "pyg": "PyG AddLaplacianEigenvectorPE, float32",
    "pyg-1e-8": "the same, float64 and tol=1e-8",
    "eigsh": "SciPy eigsh of D^-½ A D^-½, LA",
    "eigsh-1e-8": "the same, tol=1e-8",
    "shift-invert": "SciPy eigsh of L_sym, shift-invert",
    "sklearn": "scikit-learn spectral_embedding, arpack",
    "sklearn-amg": "scikit-learn spectral_embedding, amg",
    "sklearn-amg-1e-8": "the same, eigen_tol=1e-8",
    "lobpcg": "SciPy lobpcg with pyamg",
    "lobpcg-1e-8": "the same, tol=5e-9, up to 1000 steps",
    "cuda": "pdgnn.eigenpairs on the GPU, γ = 1",
}


def own(g: pdgnn.Graph, k: int, method: str) -> Call:
    """A list of Spectrum, γ = 1 last."""
    if method == "path":
        return lambda: pdgnn.eigenpairs_path(g, GAMMAS, k=k, cache=False)
    device = "cuda" if method == "cuda" else "cpu"
    return lambda: [pdgnn.eigenpairs(g, gamma=1.0, k=k, cache=False, device=device)]


def judged_spectra(part: Part, spectra: Sequence[pdgnn.Spectrum]) -> Row:
    """γ = 1 as all are judged; the other γ by the residuals that they carry."""
    scale = max(1.0, float(part.root.max() ** 2))  # at γ = 0 the operator is L, up to 2 d_max
    carried = [s.residuals.max() / (scale if s.gamma == 0 else 1.0) for s in spectra]
    u = spectra[-1].u
    row = judged(part, u if len(u) == len(part.nodes) else u[part.nodes])
    worst = max(row["residual"], *map(float, carried))
    return row | {"residual": worst, "solver": spectra[-1].solver}


def call_of(g: pdgnn.Graph, part: Part, method: str, k: int) -> Call:
    if method in PEERS:
        return PEERS[method](part, k)
    return own(g if method == "whole" else part.graph, k, method)


def warm_up(g: pdgnn.Graph, method: str) -> None:
    """Call it once: imports and the like are not what is compared."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        call_of(g, Part.of(g), method, 1)()


def measure(
    g: pdgnn.Graph, part: Part, method: str, k: int, returned: Callable[[], None] = lambda: None
) -> Row:
    """Seconds of the call, and how good its answer is; `returned` is called after the first."""
    call = call_of(g, part, method, k)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # LOBPCG's about its accuracy, which is judged here
        answer, seconds = timed(call)
        returned()
        every = [seconds]
        while sum(every) < 0.3 and len(every) < 7:
            every.append(timed(call)[1])
    good = judged(part, answer) if method in PEERS else judged_spectra(part, answer)
    seconds = float(f"{median(every):.4g}")  # more digits are noise
    return {"seconds": seconds, "runs": len(every)} | good


def timed(call: Call) -> tuple[Any, float]:
    begun = time.perf_counter()
    answer = call()
    return answer, time.perf_counter() - begun
