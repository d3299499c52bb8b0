"""Approximate inverses of the combinatorial Laplacian L of a connected graph.

Each takes a block of right-hand sides ``[n, b]`` and returns an approximation of L⁺ times it, up to
a multiple of the constant vector, which the eigensolver projects out. None depends on γ.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor

from pdgnn.csr import csr_tensor
from pdgnn.solvers.problem import Component, ComponentProblem

__all__ = [
    "Preconditioner",
    "chebyshev",
    "even_degrees",
    "factorization_cost",
    "fills_in",
    "inverse_near",
    "lu",
    "multigrid",
    "without_leaves",
]

Preconditioner = Callable[[Tensor], Tensor]

EVEN_DEGREES = 3.0
"""Largest Σd²/Σd over the mean d (neighbours) at which smoothed coarse grids stay sparse."""
LEAF_ROUNDS = 10
"""Rounds in which leaves are taken off before the cost of a factorization is bounded."""
PIECES = (1000, 4000)
"""Nodes of the two pieces of a graph whose factors are compared."""
MOST_DEGREE = 30
"""Of a polynomial in the place of an inverse."""
CENTRE = 0.625
"""Of the part of the spectrum that smoothing makes small, relative to the bound on it."""
MOST_ROOM = 120.0
"""Entries of the factors for each node of a piece that LU may take."""


def chebyshev(
    component: Component, low: float, *, times: int = 1, dtype: torch.dtype = torch.float64
) -> Preconditioner:
    """A polynomial of D⁻¹L, nearly its inverse where the eigenvalues are `low` to 2, times D⁻¹.

    Chebyshev's iteration for D^(−½) L D^(−½) x = D^(−½) y from x = 0: as many products as the
    square root of 2/low leave a quarter of the error, and cost no orthogonalization in between;
    so many `times` as many leave that much less. Single precision is precise enough for a step of
    an iteration, and moves half the bytes.
    """
    low = min(max(low, 2.0 / MOST_DEGREE**2), 1.0)
    degree = times * max(2, round((2.0 / low) ** 0.5))
    centre, half = (2.0 + low) / 2, (2.0 - low) / 2
    matrix = component.operator(component.degree, -1.0 / centre, dtype)
    root = torch.from_numpy(np.sqrt(component.degree))[:, None].to(matrix.device)

    def solve(y: Tensor) -> Tensor:
        first = (y / (centre * root)).to(dtype)  # of D^(−½) y, over the centre
        x, before = first, torch.zeros_like(first)
        weight = 2.0
        for _ in range(degree - 1):
            weight = 1.0 / (1.0 - 0.25 * weight * (half / centre) ** 2)
            after = torch.addmm(first, matrix, x).add_(x)
            x, before = torch.lerp(before, after, weight), x
        return x.double() / root

    return solve


def _factors(adjacency: sp.csr_array) -> Any:
    """SuperLU's factors of L with the node of largest degree grounded.

    Doubling one diagonal entry grounds its node: a right-hand side that sums to 0 leaves it at 0.
    """
    degree = adjacency.sum(axis=1)
    degree[degree.argmax()] *= 2.0
    return _splu(sp.diags_array(degree) - adjacency)


def _splu(matrix: sp.sparray) -> Any:
    from scipy.sparse.linalg import splu

    return splu(
        sp.csc_array(matrix),
        permc_spec="MMD_AT_PLUS_A",
        diag_pivot_thresh=0.0,
        panel_size=4,
        options={"SymmetricMode": True},
    )


def lu(adjacency: sp.csr_array) -> Preconditioner:
    """The exact inverse of L with one node grounded, by a sparse LU factorization."""
    factors = _factors(adjacency)
    return lambda y: torch.from_numpy(factors.solve(y.numpy()))


def inverse_near(problem: ComponentProblem, value: float) -> tuple[Preconditioner, int]:
    """The inverse of S − value I, up to a factor, and how many eigenvalues S has below the value.

    By Sylvester's law as many pivots are negative; rounding may change one that is next to 0. It
    holds where rows and columns are ordered alike: a RuntimeError says that they cannot be.
    """
    factors, root = _splu(problem.shifted(value)), problem.root_m
    if (factors.perm_r != factors.perm_c).any():  # a pivot of 0 was avoided
        raise RuntimeError("a pivot of 0")
    below = int((factors.U.diagonal() < 0).sum())
    return lambda u: root * torch.from_numpy(factors.solve((root * u).numpy())), below


def factorization_cost(adjacency: sp.csr_array) -> float:
    """An upper bound of the multiplications in a Cholesky factorization of L, in O(E).

    Σ_i (i − first_i)² in reverse Cuthill–McKee order, first_i being the first neighbour of node i.
    """
    order = sp.csgraph.reverse_cuthill_mckee(adjacency, symmetric_mode=True)
    place = np.empty(order.size, dtype=np.int64)
    place[order] = np.arange(order.size)
    first = np.minimum.reduceat(place[adjacency.indices], adjacency.indptr[:-1])  # [n], by node
    width = np.maximum(place - first, 0).astype(np.float64)
    return float((width**2).sum())


def without_leaves(adjacency: sp.csr_array) -> sp.csr_array:
    """A connected graph, no tree, without its leaves, most of those that this makes, and so on.

    To eliminate a leaf takes one multiplication and changes nothing else.
    """
    for _ in range(LEAF_ROUNDS):
        inner = np.diff(adjacency.indptr) > 1
        if inner.all() or 20 * int((~inner).sum()) < adjacency.shape[0]:
            break
        kept = np.flatnonzero(inner)
        adjacency = adjacency[kept][:, kept]
    return adjacency


def fills_in(adjacency: sp.csr_array, most: float) -> bool:
    """Whether factors of a larger piece take more than `most` times as much room for each node.

    Seen by the nodes nearest to one of them: on a plane four times as many take little more for
    each, in space twice as much, on an expander far more.
    """
    near = sp.csgraph.breadth_first_order(
        adjacency, adjacency.shape[0] // 2, return_predecessors=False
    )
    room = []
    for count in PIECES:
        nodes = np.sort(near[:count])
        room.append(_factors(adjacency[nodes][:, nodes]).nnz / nodes.size)
        if room[-1] > MOST_ROOM or room[-1] > most * room[0]:
            return True
    return False


def even_degrees(adjacency: sp.csr_array) -> bool:
    """Whether there are no hubs, so that smoothed aggregation stays sparse and is strong."""
    neighbours = np.diff(adjacency.indptr).astype(np.float64)
    return bool((neighbours**2).mean() <= EVEN_DEGREES * neighbours.mean() ** 2)


def multigrid(adjacency: sp.csr_array, *, dtype: torch.dtype = torch.float64) -> Preconditioner:
    """One W-cycle of algebraic multigrid, for all right-hand sides at once.

    Smoothed aggregation on meshes and other graphs of even degree; plain aggregation where hubs
    would make the smoothed coarse grids dense. The smoother is Chebyshev's iteration of degree 2
    for the upper three quarters of the spectrum of D⁻¹L: products with a block of vectors, in which
    an entry of the matrix is fetched once for all of them.
    """
    scale = float(adjacency.sum()) / adjacency.shape[0]  # single precision has a small range
    fine, last = _levels(adjacency / scale)
    levels = [_Level.made(*each, dtype) for each in fine]
    coarsest = torch.from_numpy(_pseudo_inverse(last.toarray())).to(dtype)

    def cycle(depth: int, b: Tensor) -> Tensor:
        if depth == len(levels):
            return coarsest @ b
        level = levels[depth]
        x = level.smoothed(b, None)
        below = level.restriction @ torch.addmm(b, level.matrix, x, alpha=-1.0)
        correction = cycle(depth + 1, below)
        if 0 < depth + 1 < len(levels):
            rest = torch.addmm(below, levels[depth + 1].matrix, correction, alpha=-1.0)
            correction += cycle(depth + 1, rest)
        return level.smoothed(b, torch.addmm(x, level.prolongation, correction))

    def solve(y: Tensor) -> Tensor:
        size = torch.linalg.vector_norm(y, dim=0).clamp_min(1e-300)
        found: Tensor = cycle(0, (y / size).to(dtype)).double() * (size / scale)
        return found

    return solve


@dataclass
class _Level:
    """A grid: its matrix, the way to the next one and back, and the smoother."""

    matrix: Tensor
    prolongation: Tensor
    restriction: Tensor
    inverse: Tensor  # [n, 1], of the diagonal
    bound: float  # of the eigenvalues of D⁻¹A

    @classmethod
    def made(cls, matrix: sp.csr_array, prolongation: sp.csr_array, dtype: torch.dtype) -> _Level:
        """With Gershgorin's bound."""
        diagonal = matrix.diagonal()
        return cls(
            _torch(matrix, dtype),
            _torch(prolongation, dtype),
            _torch(sp.csr_array(prolongation.T), dtype),
            torch.from_numpy(1.0 / diagonal).to(dtype)[:, None],
            float((abs(matrix).sum(axis=1) / diagonal).max()),
        )

    def smoothed(self, b: Tensor, x: Tensor | None) -> Tensor:
        """x, or 0, after two steps towards A⁻¹b that are small from a quarter of the bound on."""
        centre, weight = self.bound * CENTRE, 1.0 / (2.0 * (CENTRE / (1.0 - CENTRE)) ** 2 - 1.0)
        residual = b if x is None else torch.addmm(b, self.matrix, x, alpha=-1.0)
        step = residual * self.inverse / centre
        x = step if x is None else x + step
        residual = torch.addmm(b, self.matrix, x, alpha=-1.0)
        second = torch.addcmul(weight * step, residual, self.inverse, value=(1.0 + weight) / centre)
        return x + second


def _torch(matrix: sp.csr_array, dtype: torch.dtype) -> Tensor:
    pointers, columns = (
        torch.from_numpy(a.astype(np.int32)) for a in (matrix.indptr, matrix.indices)
    )
    return csr_tensor(pointers, columns, torch.from_numpy(matrix.data).to(dtype), matrix.shape)


def _pseudo_inverse(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    """Of the coarsest grid, whose matrix takes one vector to 0, as L does the constant."""
    values, vectors = np.linalg.eigh(matrix)
    return np.asarray((vectors[:, 1:] / values[1:]) @ vectors[:, 1:].T)


def _levels(
    adjacency: sp.csr_array,
) -> tuple[list[tuple[sp.csr_array, sp.csr_array]], sp.csr_array]:
    """The matrix of each grid with the prolongation from the next, and that of the coarsest."""
    import pyamg

    laplacian = sp.diags_array(adjacency.sum(axis=1)) - adjacency
    # pyamg draws from NumPy's global generator; here that neither varies nor leaves a trace
    state = np.random.get_state()  # noqa: NPY002
    np.random.seed(0)  # noqa: NPY002
    try:
        levels = pyamg.smoothed_aggregation_solver(
            sp.csr_matrix(laplacian),
            smooth="jacobi" if even_degrees(adjacency) else None,
            improve_candidates=None,
            max_coarse=400,
        ).levels
    finally:
        np.random.set_state(state)  # noqa: NPY002
    fine = [(sp.csr_array(level.A), sp.csr_array(level.P)) for level in levels[:-1]]
    return fine, sp.csr_array(levels[-1].A)
