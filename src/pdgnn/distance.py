"""Spectral and diffusion distance between nodes, and when the two agree (Theorem 3.3).

With M = γD + (1−γ)I, the orthonormal eigenvectors u^(k) of the symmetric S = L^(1/2,γ) and
φ^(k) = M^(−1/2) u^(k)::

    d_s(i, j)   = |φ_i^(1) − φ_j^(1)|
    d_t(i, j)^2 = Σ_k exp(−2tλ_k) (φ_i^(k) − φ_j^(k))^2 = Σ_l (K_t(i, l) − K_t(j, l))^2 / M_l

where K_t = exp(−t L^(1,γ)) is the heat kernel. As K_t M^(−1) K_t^T = M^(−1/2) exp(−2tS) M^(−1/2),
the second form is ‖exp(−tS) M^(−1/2) (e_i − e_j)‖^2, which needs no eigenvector at all. At γ = 0
all of this is taken of the combinatorial Laplacian: S = L and M = I.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import overload

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.special import ive
from torch import Tensor

from pdgnn.errors import InputError, check_number
from pdgnn.graph import Graph
from pdgnn.laplacian import check_gamma, normalizer
from pdgnn.solvers.problem import symmetric_matrix
from pdgnn.spectrum import eigenpairs

__all__ = ["diffusion_distance", "order_time", "spectral_distance"]

Nodes = Sequence[int] | range | NDArray[np.integer] | Tensor
Vector = NDArray[np.float64]

# Components up to this many nodes are decomposed whole; larger ones never are.
DENSE_NODES = 400
# Largest truncation error of exp(−tS) on a larger component, in the spectral norm.
HEAT_TOLERANCE = 1e-13
# Below this share of d_0^2, d_t^2 is computed once more, relative to exp(−2tλ_1).
FADED = 1e-10
# Eigenvalues this close are equal: relatively, or over the largest possible one.
SAME_RELATIVE, SAME = 1e-9, 1e-12
# So are spectral distances this close, over max|φ|, where φ comes from an iterative solver.
SAME_DISTANCE = 1e-6
# Entries of the largest dense block of right-hand sides: 32 MiB.
BLOCK_ENTRIES = 2**22
# Beyond this t·λ_max / 2 the Bessel functions of the heat kernel are not computed.
LARGEST_TIME = 1e9


@overload
def spectral_distance(
    g: Graph, i: int, j: int, *, alpha: float = 1.0, gamma: float = 1.0
) -> float: ...
@overload
def spectral_distance(
    g: Graph, i: Nodes, j: Nodes | int, *, alpha: float = 1.0, gamma: float = 1.0
) -> Vector: ...
def spectral_distance(
    g: Graph, i: int | Nodes, j: int | Nodes, *, alpha: float = 1.0, gamma: float = 1.0
) -> float | Vector:
    """d_s(i, j) = |φ_i − φ_j| with φ = φ^(1)(α,γ), the first non-trivial eigenvector.

    `i` and `j` are nodes, or arrays of nodes of one length (one of them may stay a single node);
    arrays give an array. Between different components the distance is infinite: each has a φ of
    its own, and no diffusion ever leads from one to the other.

    >>> path = Graph.from_edge_index([[0, 1], [1, 2]])
    >>> round(spectral_distance(path, 0, 2), 6), round(spectral_distance(path, 0, 1), 6)
    (1.414214, 0.707107)
    >>> spectral_distance(path, [0, 0], [0, 2], gamma=0.0).round(6).tolist()
    [0.0, 1.414214]
    """
    a, b, single = _checked_pairs(g, i, j)
    phi = eigenpairs(g, gamma=gamma).eigenvectors(alpha)[:, 0]  # [N]
    distance = np.where(g.components[a] == g.components[b], np.abs(phi[a] - phi[b]), np.inf)
    return float(distance[0]) if single else distance


@overload
def diffusion_distance(g: Graph, i: int, j: int, *, t: float, gamma: float = 1.0) -> float: ...
@overload
def diffusion_distance(
    g: Graph, i: Nodes, j: Nodes | int, *, t: float, gamma: float = 1.0
) -> Vector: ...
def diffusion_distance(
    g: Graph, i: int | Nodes, j: int | Nodes, *, t: float, gamma: float = 1.0
) -> float | Vector:
    """d_t(i, j), the distance between the heat kernels of i and j at time t (Eq. 4, for L^(1,γ)).

    `i` and `j` are nodes, or arrays of nodes of one length (one of them may stay a single node);
    arrays give an array and share the passes over the edges.

    Between different components the sum over l is kept, so the distance is finite: the kernels do
    not overlap, and the constant eigenvectors, which cancel inside a component, add
    1 / ΣM over each of the two components. It never falls below that, while inside a component d_t
    tends to 0. A node without edges has M = 1 at every γ, as 1 − γ would be 0 at γ = 1.

    A component of up to 400 nodes is decomposed, which is exact up to rounding. On a larger one
    exp(−tS) is a Chebyshev series of about 5.6 √(tλ_max) + 21 products with S, each linear in the
    edges, cut off at 1e-13 of d_0(i, j). A distance that has fallen below 1e-5 of d_0 takes λ_1 and
    a second series, of exp(−t(S − λ_1)), cut off at 1e-13 exp(−tλ_1) of d_0.

    >>> pair = Graph.from_edge_index([[0], [1]])    # λ = 2, φ = (1, −1) / √2
    >>> d = diffusion_distance(pair, 0, 1, t=0.5)
    >>> round(d, 6), round(math.sqrt(2) * math.exp(-0.5 * 2), 6)
    (0.52026, 0.52026)
    """
    t = check_number("t", t)
    a, b, single = _checked_pairs(g, i, j)
    pairs = np.minimum(a, b) * g.num_nodes + np.maximum(a, b)
    pairs, place = np.unique(pairs, return_inverse=True)
    a, b = np.divmod(pairs, g.num_nodes)  # [P], each pair once
    m = normalizer(g, gamma)
    order = np.argsort(g.components, kind="stable")  # components become diagonal blocks
    starts = np.searchsorted(g.components[order], np.arange(g.num_components + 1))
    adjacency = g._adjacency[order][:, order]
    sides = _sides(m, a, b)[order]  # [N, P]
    squared = _across_components(g, m, a, b)  # [P]
    for c in np.unique(g.components[np.concatenate([a, b])]):
        block = slice(starts[c], starts[c + 1])
        part = Graph(adjacency[block, block])
        columns, own = _used_columns(sides[block])
        fades = squared[columns] == 0.0
        squared[columns] += _heat_norms(part, own, fades, t=t, gamma=gamma)
    distance = np.sqrt(squared)[place]
    return float(distance[0]) if single else distance


def order_time(g: Graph, i: int, j: int, m: int, *, gamma: float = 1.0) -> float:
    """The constant C of Theorem 3.3: if d_s(m, j) < d_s(i, j), d_t(m, j) < d_t(i, j) for all t > C.

    With x_k = (φ_m^(k) − φ_j^(k))^2 and y_k = (φ_i^(k) − φ_j^(k))^2, each summed over the
    eigenspace of the k-th *distinct* eigenvalue λ_k::

        C = log( Σ_{k≥2} |x_k − y_k| / (y_1 − x_1) ) / (2 (λ_2 − λ_1)),

    and 0 where this is negative. Where no eigenvalue repeats it is the paper's constant. Where one
    does, it depends on no choice of eigenvectors; and as a repeated λ_1 has no single φ^(1), d_s is
    then meant over its whole eigenspace, d_s(i, j)^2 = y_1. Eigenvalues that agree to a relative
    1e-9, or to 1e-12 of the largest possible one, are equal.

    The sum over k ≥ 2 needs every eigenvector, so it is exact on a component of up to 400 nodes. On
    a larger one it is bounded by Cauchy-Schwarz as ‖v‖ ‖w‖ over k ≥ 2, with v of φ_m − φ_i and w
    of φ_m + φ_i − 2φ_j: U is complete, so both norms have a closed form. This C is larger, and as
    valid as the first few eigenpairs are; spectral distances within 1e-6 · max|φ| are equal there.

    If i lies in another component than j and m, d_s(i, j) is infinite, and C is the time from which
    d_t(m, j)^2 ≤ exp(−2tλ_1) (1/M_m + 1/M_j) is below what d_t(i, j)^2 never falls below.

    >>> path = Graph.from_edge_index([[0, 1, 2], [1, 2, 3]])
    >>> c = order_time(path, 0, 3, 1)
    >>> t = c + 0.1
    >>> diffusion_distance(path, 1, 3, t=t) < diffusion_distance(path, 0, 3, t=t)
    True
    """
    i, j, m = g.node(i), g.node(j), g.node(m)
    here = g.components == g.components[j]
    if not here[m]:
        raise _not_closer(i, j, m, math.inf, spectral_distance(g, i, j, gamma=gamma))
    part = g if here.all() else Graph(g._adjacency[here][:, here])
    if not here[i]:
        return 0.0 if m == j else _order_time_across(g, part, (i, j, m), gamma)
    values, phi, starts = _first_pairs(part, gamma)  # [k], [n, k]
    p = int(starts[1]) if starts.size > 1 else values.size  # multiplicity of λ_1
    nodes = np.cumsum(here)[[i, j, m]] - 1  # in `part`
    y, x = phi[nodes[0]] - phi[nodes[1]], phi[nodes[2]] - phi[nodes[1]]  # [k], signed roots
    far, near = float(np.linalg.norm(y[:p])), float(np.linalg.norm(x[:p]))
    exact = values.size == part.num_nodes - 1
    if far - near <= (SAME if exact else SAME_DISTANCE) * np.abs(phi[:, :p]).max(initial=0.0):
        raise _not_closer(i, j, m, near, far)
    if exact:
        rest = float(np.abs(np.add.reduceat(x**2 - y**2, starts)[1:]).sum())
    else:
        inverse = 1.0 / normalizer(part, gamma)  # [n]
        v = _squared_norm(inverse, nodes, [-1, 0, 1]) - ((x - y)[:p] ** 2).sum()
        w = _squared_norm(inverse, nodes, [1, -2, 1]) - ((x + y)[:p] ** 2).sum()
        rest = math.sqrt(max(v, 0.0) * max(w, 0.0))
    if rest <= far**2 - near**2:
        return 0.0
    return math.log(rest / (far**2 - near**2)) / (2.0 * float(values[p] - values[0]))


def _order_time_across(g: Graph, part: Graph, nodes: tuple[int, int, int], gamma: float) -> float:
    """C where i lies outside `part`, the component of j and m ≠ j."""
    i, j, m = nodes
    weights = normalizer(g, gamma)
    start = 1.0 / weights[m] + 1.0 / weights[j]
    end = _across_components(g, weights, np.array([i]), np.array([j]))[0]
    values, _, _ = _first_pairs(part, gamma)
    return max(0.0, math.log(start / end) / (2.0 * float(values[0])))


def _checked_pairs(
    g: Graph, i: int | Nodes, j: int | Nodes
) -> tuple[NDArray[np.int64], NDArray[np.int64], bool]:
    """The nodes as two arrays of one length, and whether both were given as single nodes."""
    a, b = _checked_nodes(g, i), _checked_nodes(g, j)
    if a.ndim and b.ndim and a.size != b.size:
        raise InputError(f"i has {a.size} nodes and j has {b.size}; give pairs, or one single node")
    single = not (a.ndim or b.ndim)
    a, b = np.broadcast_arrays(np.atleast_1d(a), np.atleast_1d(b))
    return a, b, single


def _checked_nodes(g: Graph, nodes: int | Nodes) -> NDArray[np.int64]:
    try:
        array = nodes.detach().cpu().numpy() if isinstance(nodes, Tensor) else np.asarray(nodes)
    except ValueError as e:
        raise InputError("nodes are ragged; give one node or a flat list of them") from e
    if array.ndim == 0:
        return np.array(g.node(array.item()), dtype=np.int64)
    if array.ndim != 1:
        raise InputError(f"nodes have shape {array.shape}; give one node or a flat list of them")
    if array.size and array.dtype.kind not in "iu":
        raise InputError(f"nodes are integers, not {array.dtype}")
    for extreme in (array.min(initial=0), array.max(initial=0)):
        g.node(int(extreme))
    return array.astype(np.int64)


def _symmetric_laplacian(g: Graph, gamma: float) -> tuple[sp.csr_array, Vector]:
    """S = L^(1/2,γ), or L at γ = 0, and the diagonal of M."""
    scale = check_gamma(gamma) or 1.0
    m = normalizer(g, gamma)
    laplacian = sp.csr_array(sp.diags_array(g.degree) - g._adjacency)
    laplacian.data = symmetric_matrix(laplacian, m, scale)
    return laplacian, m


def _across_components(g: Graph, m: Vector, a: NDArray[np.int64], b: NDArray[np.int64]) -> Vector:
    """What the constant eigenvectors add to d_t^2: nothing inside a component, ``[P]``."""
    share = 1.0 / np.bincount(g.components, weights=m)  # [C]
    a, b = g.components[a], g.components[b]
    return np.asarray(np.where(a == b, 0.0, share[a] + share[b]))


def _used_columns(part: sp.csr_array) -> tuple[NDArray[np.int64], sp.csc_array]:
    """The columns of `part` that are not empty, and `part` without the others."""
    columns, local = np.unique(part.indices, return_inverse=True)
    shape = (part.shape[0], columns.size)
    return columns, sp.csr_array((part.data, local, part.indptr), shape=shape).tocsc()


def _sides(m: Vector, a: NDArray[np.int64], b: NDArray[np.int64]) -> sp.csr_array:
    """M^(−1/2) (e_i − e_j) of each pair as a column, ``[N, P]``."""
    rows, columns = np.concatenate([a, b]), np.tile(np.arange(a.size), 2)
    values = np.concatenate([m[a] ** -0.5, -(m[b] ** -0.5)])
    return sp.coo_array((values, (rows, columns)), shape=(m.size, a.size)).tocsr()


def _heat_norms(
    part: Graph, sides: sp.csc_array, fades: NDArray[np.bool_], *, t: float, gamma: float
) -> Vector:
    """‖exp(−tS) b‖^2 of each column b of `sides`, less its constant part, on one component.

    Where it `fades`, nothing is added to it later, so it must keep its digits when it is tiny.
    """
    s, m = _symmetric_laplacian(part, gamma)
    constant = np.sqrt(m / m.sum())  # the eigenvector of λ = 0
    if part.num_nodes <= max(DENSE_NODES, 1):
        return _column_norms(_dense_heat(s, constant, t), sides)
    squared = _column_norms(_chebyshev_heat(s, constant, t, 0.0), sides)
    faded = np.flatnonzero(fades & (squared < FADED * (sides**2).sum(axis=0)))
    if faded.size:
        first = eigenpairs(part, gamma=gamma)
        low = float(first.eigenvalues[0] - first.residuals[0])
        low = min(max(low, 0.0), _largest_eigenvalue(s) / 2.0)  # keeps [low, λ_max] from closing
        again = _column_norms(_chebyshev_heat(s, constant, t, low), sides[:, faded])
        squared[faded] = np.exp(-2.0 * t * low) * again
    return squared


def _column_norms(heat: Callable[[Vector], Vector], sides: sp.csc_array) -> Vector:
    """‖heat(b)‖^2 of each column b, a block of columns at a time."""
    squared = np.empty(sides.shape[1])
    width = max(1, BLOCK_ENTRIES // sides.shape[0])
    for start in range(0, squared.size, width):
        block = heat(sides[:, start : start + width].toarray())
        squared[start : start + width] = (block**2).sum(axis=0)
    return squared


def _dense_heat(s: sp.csr_array, constant: Vector, t: float) -> Callable[[Vector], Vector]:
    """exp(−tS) in the basis of the non-trivial eigenvectors, from all of them."""
    values, u = _all_pairs(s, constant)
    return lambda b: np.exp(-t * values)[:, None] * (u.T @ b)


def _all_pairs(s: sp.csr_array, constant: Vector) -> tuple[Vector, Vector]:
    """All non-trivial eigenpairs of S on one small component, ``[n−1]`` and ``[n, n−1]``.

    The trivial pair is moved from 0 to the top first, so that a tiny λ_1 never mixes with it.
    """
    top = 2.0 * _largest_eigenvalue(s)
    values, u = scipy.linalg.eigh(s.toarray() + top * np.outer(constant, constant))
    return values[:-1], u[:, :-1]


def _largest_eigenvalue(s: sp.csr_array) -> float:
    """An upper bound of λ_max: x^T L x ≤ 2 x^T D x, so twice the largest entry of the diagonal."""
    return 2.0 * float(s.diagonal().max())


def _chebyshev_heat(
    s: sp.csr_array, constant: Vector, t: float, low: float
) -> Callable[[Vector], Vector]:
    """exp(−t(S − low)) as a Chebyshev series on [low, λ_max], without the constant part.

    With h = (λ_max − low) / 2, z = th and X = (S − low) / h − I it is Σ_k c_k T_k(X), where
    |c_k| = 2 exp(−z) I_k(z) is the probability that two Poisson variables of mean z/2 differ by ±k.
    Bernstein's inequality for that difference bounds what is cut off after `degree` terms.
    """
    half = (_largest_eigenvalue(s) - low) / 2.0
    z = t * half
    if z > LARGEST_TIME:
        raise InputError(
            f"t = {t:g} is beyond reach on a component of {s.shape[0]:,} nodes; take t below "
            f"{LARGEST_TIME / half:.2g}, or compare nodes by spectral_distance"
        )
    log = math.log(2.0 / HEAT_TOLERANCE)
    degree = math.ceil(math.sqrt(2.0 * z * log) + 2.0 * log / 3.0)
    c: Vector = 2.0 * ive(np.arange(degree + 1), z)
    c[0] /= 2.0
    c[1::2] *= -1.0

    def without_constant(b: Vector) -> Vector:
        # At 0, outside [low, λ_max], the series is huge: rounding must not leave anything there.
        return b - np.outer(constant, constant @ b)

    def shifted(b: Vector) -> Vector:
        return np.asarray(s @ b) / half - (low / half + 1.0) * b

    def heat(b: Vector) -> Vector:
        last = without_constant(b)
        now = shifted(last)
        total: Vector = c[0] * last + c[1] * now
        for ck in c[2:]:
            last, now = now, without_constant(2.0 * shifted(now) - last)
            total += ck * now
        return total

    return heat


def _first_pairs(part: Graph, gamma: float) -> tuple[Vector, Vector, NDArray[np.int64]]:
    """Eigenvalues ``[k]``, φ of α = 1 ``[n, k]`` and where each distinct eigenvalue starts.

    All n − 1 pairs on a small component; on a larger one no more than show two distinct values.
    """
    s, m = _symmetric_laplacian(part, gamma)
    same = SAME * _largest_eigenvalue(s)
    if part.num_nodes <= DENSE_NODES:
        values, u = _all_pairs(s, np.sqrt(m / m.sum()))
        return values, u / np.sqrt(m)[:, None], _starts(values, same)
    k = 2
    while True:
        spectrum = eigenpairs(part, gamma=gamma, k=min(k, part.num_nodes - 1))
        starts = _starts(spectrum.eigenvalues, same + 2.0 * float(spectrum.residuals.max()))
        if starts.size > 1 or k >= part.num_nodes - 1:
            return spectrum.eigenvalues, spectrum.eigenvectors(1.0), starts
        k *= 2


def _starts(values: Vector, same: float) -> NDArray[np.int64]:
    """The index of the first copy of each distinct eigenvalue, of ascending `values`."""
    return np.flatnonzero(
        np.diff(values, prepend=-np.inf) > np.maximum(SAME_RELATIVE * values, same)
    )


def _squared_norm(inverse: Vector, nodes: NDArray[np.int64], factors: list[int]) -> float:
    """‖M^(−1/2) Σ_q f_q e_q‖^2 over the nodes, which may coincide; `inverse` is 1 / M."""
    total = np.zeros_like(inverse)
    np.add.at(total, nodes, factors)
    return float((total**2 * inverse).sum())


def _not_closer(i: int, j: int, m: int, near: float, far: float) -> InputError:
    return InputError(
        f"d_s({m}, {j}) = {near:.6g} is not below d_s({i}, {j}) = {far:.6g}, so no time puts {m} "
        f"closer to {j} than {i}; choose a node m that is closer in φ"
    )
