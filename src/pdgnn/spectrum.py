"""The smallest non-trivial eigenpairs of L^(1/2,γ): per component, canonical and certified.

One solve for each γ serves every α: with M = γD + (1−γ)I and S = L^(1/2,γ) u = λ u, the
eigenvectors of L^(α,γ) are φ(α,γ) = M^(½−α) u (Theorem 3.2). At γ = 0 they are those of the
combinatorial L, the limit of L^(α,γ) / γ.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray

from pdgnn import __version__
from pdgnn.devices import check_device, one_blas_thread
from pdgnn.errors import InputError, check_number, check_whole
from pdgnn.graph import Graph
from pdgnn.io.cache import read_arrays, write_arrays
from pdgnn.laplacian import check_alpha, check_gamma, normalizer
from pdgnn.solvers.component import (
    DENSE_NODES,
    LOOSEST,
    SOLVERS,
    TIGHTEST,
    ComponentPairs,
    ComponentSolver,
    dense_pairs,
)
from pdgnn.solvers.order import renumbered

__all__ = ["Spectrum", "eigenpairs", "eigenpairs_path", "first_eigenvector"]

CACHE_SECONDS = 0.5
"""Answers that took less than this are not worth a file."""
BATCH_ENTRIES = 4_000_000
"""Entries of the dense matrices of small components held at a time."""
_remembered: WeakKeyDictionary[Graph, dict[float, Spectrum]] = WeakKeyDictionary()


@dataclass(frozen=True, eq=False)
class Spectrum:
    """The k smallest non-trivial eigenpairs at one γ, of every connected component.

    A component has eigenvalues and eigenvectors of its own: 0 has one copy for each component, so
    that "the second eigenvector" of a disconnected graph says nothing. `eigenvalues` are those of
    the largest component, `component_eigenvalues` those of all; where a component has fewer than
    k + 1 nodes the rest is nan, and its vectors are 0.
    """

    gamma: float
    eigenvalues: NDArray[np.float64]  # [k]
    component_eigenvalues: NDArray[np.float64] = field(repr=False)  # [components, k]
    residuals: NDArray[np.float64]  # [k], the largest over the components
    gap: float  # from λ1 to the next distinct eigenvalue of the largest component, from above
    multiplicity: int  # of λ1, in the largest component
    solver: str  # that of the largest component
    seconds: float
    u: NDArray[np.float64] = field(repr=False)  # [N, k], orthonormal in each component
    m: NDArray[np.float64] = field(repr=False)  # [N], the diagonal of M

    def eigenvectors(self, alpha: float = 1.0) -> NDArray[np.float64]:
        """φ^(k)(α,γ) = M^(½−α) u^(k), ``[N, k]``, not rescaled."""
        return self.u * (self.m ** (0.5 - check_alpha(alpha)))[:, None]


def eigenpairs(
    g: Graph,
    *,
    gamma: float = 1.0,
    k: int = 1,
    solver: str = "auto",
    device: str | torch.device = "cpu",
    seed: int = 0,
    tol: float | None = None,
    cache: bool = True,
) -> Spectrum:
    """The k smallest non-trivial eigenpairs of L^(1/2,γ), in every connected component.

    The vectors are canonical: they depend on neither solver, seed, device nor thread count (see
    :func:`~pdgnn.solvers.canonical.canonical_basis`). `solver` is ``"auto"``, ``"dense"``,
    ``"lanczos"``, ``"lu"`` or ``"amg"``. On a GPU (``device="cuda"``) Lanczos runs there; a graph
    that factorizes cheaply, such as a long chain, is left to LU on the CPU, which is faster than
    any number of products on a GPU. `tol` is the largest residual that is returned, relative to
    half a bound on the operator's norm (1e-8 unless told). Answers that took long are kept on disk
    (see :mod:`pdgnn.io.cache`); naming a solver, a seed or a `tol`, or ``cache=False``, computes
    afresh.

    >>> path = Graph.from_edge_index([[0, 1], [1, 2]])
    >>> s = eigenpairs(path, gamma=1.0)
    >>> s.eigenvalues.round(6).tolist(), s.eigenvectors(alpha=0.5).round(4).ravel().tolist()
    ([1.0], [0.7071, 0.0, -0.7071])
    """
    return eigenpairs_path(
        g, [gamma], k=k, solver=solver, device=device, seed=seed, tol=tol, cache=cache
    )[0]


def first_eigenvector(g: Graph, *, alpha: float = 1.0, gamma: float = 1.0) -> NDArray[np.float64]:
    """φ^(1)(α,γ), ``[N]``; γ is solved for once and remembered as long as `g` is there.

    >>> path = Graph.from_edge_index([[0, 1], [1, 2]])
    >>> first_eigenvector(path, gamma=0.5).round(3).tolist()
    [0.707, 0.0, -0.707]
    """
    known = _remembered.setdefault(g, {})
    if gamma not in known:
        known[gamma] = eigenpairs(g, gamma=gamma)
    phi: NDArray[np.float64] = known[gamma].eigenvectors(alpha)[:, 0]
    return phi


def eigenpairs_path(
    g: Graph,
    gammas: Iterable[float],
    *,
    k: int = 1,
    solver: str = "auto",
    device: str | torch.device = "cpu",
    seed: int = 0,
    tol: float | None = None,
    cache: bool = True,
    progress: Callable[[Spectrum], None] | None = None,
) -> list[Spectrum]:
    """:func:`eigenpairs` at each of `gammas`, in their order, at a fraction of their cost.

    The factorization or multigrid hierarchy is made once. The largest γ is solved alone; for up to
    3 pairs the others share a basis that starts from its vectors and from random ones, which look
    for an eigenvalue that comes down past them as γ changes. `progress` is called with each
    Spectrum as it is done, and `seconds` of the second are those of all that share the basis.

    >>> path = Graph.from_edge_index([[0, 1], [1, 2]])
    >>> [round(float(s.eigenvalues[0]), 6) for s in eigenpairs_path(path, [0.0, 0.5, 1.0])]
    [1.0, 0.5, 1.0]
    """
    if not isinstance(gammas, Iterable):
        raise InputError(f"gammas must be a list of numbers in [0, 1], not {gammas!r}")
    wanted = [check_gamma(gamma) for gamma in gammas]
    _check_options(k, solver, seed, tol)
    target = check_device(device, what="eigenpairs are solved")
    plain = cache and solver == "auto" and seed == 0 and tol is None
    order = _ends_first(sorted(set(wanted), reverse=True))
    cached = {gamma: _from_cache(g, gamma, k) for gamma in order} if plain else {}
    missing = tuple(gamma for gamma in order if cached.get(gamma) is None)
    options = _Options(k, solver, target, seed, tol, missing)
    solve: _GraphSolver | None = None
    done: dict[float, Spectrum] = {}
    solved, seconds = 0, 0.0
    for gamma in order:
        found = cached.get(gamma)
        if found is None:
            solve = solve or _GraphSolver(g, options)
            found = solve(gamma)
            solved, seconds = solved + 1, seconds + found.seconds
            if plain and seconds >= solved * CACHE_SECONDS:  # what others share counts for each
                write_arrays(_cache_key(g, gamma, k), _to_arrays(found))
        done[gamma] = found
        if progress is not None:
            progress(found)
    return [done[gamma] for gamma in wanted]


def _ends_first(gammas: list[float]) -> list[float]:
    """The first, the last, then the middle of each part: most are solved between two others.

    >>> _ends_first([1.0, 0.75, 0.5, 0.25, 0.0])
    [1.0, 0.0, 0.5, 0.75, 0.25]
    """
    order = [*gammas[:1], *gammas[1:][-1:]]
    parts = [(0, len(gammas) - 1)]
    for first, last in parts:  # grows as it goes
        middle = (first + last) // 2
        if middle > first:
            order.append(gammas[middle])
            parts += [(first, middle), (middle, last)]
    return order


def _check_options(k: int, solver: str, seed: int, tol: float | None) -> None:
    check_whole("k", k)
    check_whole("seed", seed, 0)
    if tol is not None:
        check_number("tol", tol, TIGHTEST, LOOSEST)
    if solver not in SOLVERS:
        raise InputError(f"unknown solver {solver!r}; choose one of {', '.join(SOLVERS)}")


@dataclass(frozen=True)
class _Options:
    """How every component is solved."""

    k: int
    solver: str
    device: torch.device
    seed: int
    tol: float | None
    gammas: tuple[float, ...]


class _GraphSolver:
    """The solvers of all components of a graph, kept from one γ to the next."""

    def __init__(self, g: Graph, options: _Options) -> None:
        self._begun = time.perf_counter()
        self._g, self._k = g, options.k
        labels = g.components
        self._sizes = np.bincount(labels)
        self._largest = int(self._sizes.argmax())
        self._order = np.argsort(labels, kind="stable")
        self._starts = np.cumsum(self._sizes) - self._sizes
        self._place = np.empty_like(self._order)  # of each node in its component
        self._place[self._order] = np.arange(labels.size) - np.repeat(self._starts, self._sizes)
        # a solver that was named is used wherever there is something to iterate on
        dense_nodes = DENSE_NODES if options.solver in ("auto", "dense") else 16
        self._small = self._sizes <= dense_nodes
        entries = int((self._sizes[self._small] ** 2).sum())
        # at all γ at once where that takes little room
        several = len(options.gammas) * entries <= BATCH_ENTRIES
        self._small_done = self._dense(options.gammas) if several else None
        self._large = {
            int(c): ComponentSolver(self._adjacency_of(int(c)), **vars(options))
            for c in np.flatnonzero(~self._small)
        }

    def __call__(self, gamma: float) -> Spectrum:
        n, k, count = self._g.num_nodes, self._k, self._sizes.size
        u, values = np.zeros((n, k)), np.full((count, k), np.nan)
        residuals = np.zeros(k)
        largest: tuple[float, int, str] = (float("nan"), 0, "none")
        for components, pairs in self._solved(gamma):
            width = pairs.values.shape[1]
            nodes, inside = self._nodes(components, pairs.vectors.shape[1])
            u[nodes[inside], :width] = pairs.vectors[inside]
            values[components, :width] = pairs.values
            residuals[:width] = np.maximum(residuals[:width], pairs.residuals.max(axis=0))
            for row in np.flatnonzero(components == self._largest):
                largest = (float(pairs.gap[row]), int(pairs.multiplicity[row]), pairs.solver)
        now = time.perf_counter()
        seconds, self._begun = now - self._begun, now
        m = normalizer(self._g, gamma)
        return Spectrum(gamma, values[self._largest], values, residuals, *largest, seconds, u, m)

    def _solved(self, gamma: float) -> Iterator[tuple[NDArray[np.int64], ComponentPairs]]:
        """Component numbers ``[B]`` and their eigenpairs."""
        yield from (self._small_done or self._dense([gamma]))[gamma]
        for c, solver in self._large.items():
            yield np.array([c]), solver.solve(gamma)

    def _dense(
        self, gammas: Sequence[float]
    ) -> dict[float, list[tuple[NDArray[np.int64], ComponentPairs]]]:
        """The small components at each γ."""
        done: dict[float, list[tuple[NDArray[np.int64], ComponentPairs]]] = {g: [] for g in gammas}
        for batch in self._small_batches():
            count, size = len(gammas), batch.sizes.size
            with one_blas_thread():  # a second one gains nothing on matrices as small as these
                every = dense_pairs(
                    np.tile(batch.adjacency, (count, 1, 1)),
                    np.repeat(gammas, size),
                    k=self._k,
                    sizes=np.tile(batch.sizes, count),
                )
            for i, gamma in enumerate(gammas):
                part = every.part(slice(i * size, (i + 1) * size))
                done[gamma].append((batch.components, part))
        return done

    def _nodes(
        self, components: NDArray[np.int64], width: int
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """The nodes ``[B, width]`` of the components, and which of these are there."""
        place = np.arange(width)
        inside = place < self._sizes[components][:, None]
        at = np.where(inside, self._starts[components][:, None] + place, 0)
        return self._order[at], inside

    def _adjacency_of(self, component: int) -> sp.csr_array:
        if self._sizes.size == 1:
            return self._g._adjacency
        first = self._starts[component]
        nodes = self._order[first : first + self._sizes[component]]
        return renumbered(self._g._adjacency, nodes, self._place)

    def _small_batches(self) -> Iterator[_Batch]:
        """The small components, those of about one size together."""
        small = np.flatnonzero(self._small & (self._sizes > 1))
        if small.size == 0:
            return
        edges = self._g._adjacency.tocoo()
        row, col = edges.coords
        component = self._g.components[row]
        width = np.zeros(self._sizes.size, dtype=np.int64)
        width[small] = _padded(self._sizes[small])
        of_width = width[component]
        for size in np.unique(width[small]):
            mine = np.flatnonzero(of_width == size)
            members = np.flatnonzero(width == size)
            rank = np.searchsorted(members, component[mine])
            per_batch = max(1, BATCH_ENTRIES // int(size) ** 2)
            for first in range(0, members.size, per_batch):
                part = members[first : first + per_batch]
                at = (rank >= first) & (rank < first + per_batch)
                dense = np.zeros((part.size, size, size))
                i, j = row[mine[at]], col[mine[at]]
                dense[rank[at] - first, self._place[i], self._place[j]] = edges.data[mine[at]]
                yield _Batch(part, self._sizes[part], dense)


@dataclass
class _Batch:
    """Small components and their dense adjacency matrices, filled up with rows of 0."""

    components: NDArray[np.int64]  # [B]
    sizes: NDArray[np.int64]  # [B], each at most n
    adjacency: NDArray[np.float64]  # [B, n, n]


def _padded(sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """The next power of two up to 16: one batch of slightly larger matrices beats several."""
    power = 2 ** np.ceil(np.log2(sizes)).astype(np.int64)
    return np.where(sizes <= 16, power, sizes)


def _cache_key(g: Graph, gamma: float, k: int) -> str:
    text = f"spectrum {__version__} {g.fingerprint} {gamma!r} {k}"
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def _to_arrays(s: Spectrum) -> dict[str, NDArray[Any]]:
    return {
        "u": s.u,
        "component_eigenvalues": s.component_eigenvalues,
        "residuals": s.residuals,
        "numbers": np.array([s.gap, s.multiplicity, s.seconds]),
        "solver": np.array(s.solver),
    }


def _from_cache(g: Graph, gamma: float, k: int) -> Spectrum | None:
    expected = {
        "u": ("f", (g.num_nodes, k)),
        "component_eigenvalues": ("f", (g.num_components, k)),
        "residuals": ("f", (k,)),
        "numbers": ("f", (3,)),
        "solver": ("U", ()),
    }
    stored = read_arrays(_cache_key(g, gamma, k)) or {}
    if {name: (a.dtype.kind, a.shape) for name, a in stored.items()} != expected:
        return None
    u, values, residuals = stored["u"], stored["component_eigenvalues"], stored["residuals"]
    gap, multiplicity, seconds = (float(number) for number in stored["numbers"])
    if not (np.isfinite(u).all() and np.isfinite(residuals).all() and np.isfinite(multiplicity)):
        return None
    largest, m = int(np.bincount(g.components).argmax()), normalizer(g, gamma)
    solver = str(stored["solver"])
    return Spectrum(
        gamma, values[largest], values, residuals, gap, int(multiplicity), solver, seconds, u, m
    )
