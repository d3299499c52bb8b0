"""Graphs that no solver was tuned for: twenty generators at three sizes, drawn by a seed.

    for name, graph in family(seed=3):  # "small-world/10000/seed3", and 59 others
        ...

The name says all: ``drawn(name)`` draws the same graph again. Another seed draws other edges and
other parameters (density, rewiring, number of blocks, …) too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from zlib import crc32

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.csgraph import minimum_spanning_tree
from scipy.spatial import Delaunay, cKDTree

from pdgnn import Graph

SIZES = (1_000, 10_000, 100_000)
Random = np.random.Generator
Nodes = NDArray[np.int64]
Edges = NDArray[np.int64]  # [2, E], each in one direction; doubles and loops are left to Graph


def between(rng: Random, low: float, high: float) -> float:
    """A number between `low` and `high`, its logarithm uniform."""
    return float(np.exp(rng.uniform(np.log(low), np.log(high))))


def joined(*edges: Edges) -> Edges:
    return np.concatenate(edges, axis=1)


def preferential_attachment(rng: Random, n: int) -> Edges:
    """Every new node has `links` edges to ends of earlier edges drawn at random."""
    links = int(rng.integers(2, 9))
    source = np.repeat(np.arange(n), links)
    # An end is 2e, the source of edge e, or 2e + 1, its target: another end, drawn before it.
    end = rng.integers(0, np.maximum(1, 2 * links * source))  # node 0 has loops, which are dropped
    while (unknown := (end % 2 == 1)).any():
        end[unknown] = end[end[unknown] // 2]
    return np.stack([source, source[end // 2]])


def power_law_cluster(rng: Random, n: int) -> Edges:
    """Preferential attachment, in which two neighbours of a node are often neighbours."""
    edges = preferential_attachment(rng, n)
    both = joined(edges, edges[::-1])
    order = np.argsort(both[0], kind="stable")
    row, col = both[:, order]
    start = np.searchsorted(row, np.arange(n))
    degree = np.diff(np.append(start, len(row)))
    near = rng.integers(0, n, int(between(rng, 0.5, 4) * n))  # the node in the middle
    a, b = (col[start[near] + (rng.random(len(near)) * degree[near]).astype(int)] for _ in "ab")
    return joined(edges, np.stack([a, b]))


def small_world(rng: Random, n: int) -> Edges:
    """A ring in which each node is joined to the next few, some of these edges led elsewhere."""
    reach, share = int(rng.integers(2, 7)), between(rng, 1e-3, 0.3)
    node = np.tile(np.arange(n), reach)
    other = (node + np.repeat(np.arange(1, reach + 1), n)) % n
    moved = (rng.random(len(node)) < share) & (np.arange(len(node)) >= n)  # the ring itself stays
    other[moved] = rng.integers(0, n, int(moved.sum()))
    return np.stack([node, other])


def split(rng: Random, n: int, parts: int, least: int = 2) -> tuple[Nodes, Nodes]:
    """n nodes in a row in parts of unequal sizes: the part of each, and where each part starts."""
    share = rng.dirichlet(np.full(parts, 3.0)) * (n - least * parts)
    start = np.concatenate([[0], np.cumsum(share + least)]).round().astype(np.int64)
    return np.repeat(np.arange(parts), np.diff(start)), start


def mates(rng: Random, node: Nodes, part: Nodes, start: Nodes) -> Nodes:
    """For each node one drawn from its own part."""
    size = np.diff(start)[part[node]]
    return np.asarray(start[part[node]] + (rng.random(len(node)) * size).astype(np.int64))


def blocks(rng: Random, n: int) -> Edges:
    """Stochastic blocks: most edges within a block, a share of them between any two nodes."""
    part, start = split(rng, n, int(between(rng, 3, 40)))
    node = rng.integers(0, n, int(between(rng, 4, 12) * n))
    away = rng.random(len(node)) < between(rng, 0.01, 0.4)
    other = np.where(away, rng.integers(0, n, len(node)), mates(rng, node, part, start))
    return np.stack([node, other])


def power_law(rng: Random, count: int, exponent: float, low: float, high: float) -> Nodes:
    """Whole numbers from `low` to `high`, x with a chance of about x^-exponent."""
    power = 1 - exponent
    u = rng.random(count)
    x = (low**power + u * (high**power - low**power)) ** (1 / power)
    return np.asarray(np.floor(x).astype(np.int64))


def paired(rng: Random, ends: Nodes, part: Nodes | None = None) -> Edges:
    """The ends joined two by two at random, within parts where given."""
    keys = (rng.random(len(ends)),) if part is None else (rng.random(len(ends)), part[ends])
    ends = ends[np.lexsort(keys)]
    return ends[: len(ends) // 2 * 2].reshape(-1, 2).T


def communities(rng: Random, n: int) -> Edges:
    """As in LFR: degrees and sizes of communities follow power laws, a share of edges leaves."""
    degree = power_law(rng, n, rng.uniform(2.0, 3.0), rng.uniform(3, 8), n**0.5)
    size = power_law(rng, n // 10, rng.uniform(1.1, 2.0), 20, n / 8)
    part = np.repeat(np.arange(len(size)), size)[:n]
    part = np.append(part, np.full(n - len(part), len(size)))
    leaving = rng.binomial(degree, between(rng, 0.02, 0.4))
    node = np.arange(n)
    inside = paired(rng, np.repeat(node, degree - leaving), part)
    return joined(inside, paired(rng, np.repeat(node, leaving)))


def power_law_degrees(rng: Random, n: int) -> Edges:
    """Chung and Lu: both ends drawn with a chance that falls as a power of the node's rank."""
    exponent = rng.uniform(2.1, 3.0)
    weight = np.arange(1, n + 1) ** (-1 / (exponent - 1))
    ends = np.cumsum(weight / weight.sum())
    count = int(between(rng, 1.5, 8) * n)
    return np.searchsorted(ends[:-1], rng.random((2, count)))


def kronecker(rng: Random, n: int) -> Edges:
    """Each bit of both ends drawn from the same skewed 2 × 2 table, as in R-MAT."""
    skew = rng.uniform(0.45, 0.6)
    table = np.array([skew, 0.19, 0.19, 1 - skew - 0.38])
    count, ends = int(between(rng, 5, 12) * n), np.zeros((2, 0), dtype=np.int64)
    while ends.shape[1] < count:
        drawn_ends = np.zeros((2, count), dtype=np.int64)
        for _ in range(math.ceil(math.log2(n))):
            bits = rng.choice(4, count, p=table)
            drawn_ends = 2 * drawn_ends + np.stack([bits // 2, bits % 2])
        ends = joined(ends, drawn_ends[:, (drawn_ends < n).all(axis=0)])
    return rng.permutation(n)[ends[:, :count]]


def bipartite(rng: Random, n: int) -> Edges:
    """Users and things, some of which are far more popular than others."""
    users = int(n * rng.uniform(0.5, 0.9))
    chance = np.arange(1, n - users + 1) ** -rng.uniform(0.3, 0.9)
    degree = power_law(rng, users, rng.uniform(1.8, 3.0), rng.uniform(2, 5), n**0.5)
    user = np.repeat(np.arange(users), degree)
    thing = np.searchsorted(np.cumsum(chance / chance.sum())[:-1], rng.random(len(user)))
    return np.stack([user, users + thing])


def geometric(rng: Random, n: int) -> Edges:
    """Points of the unit square (or of a strip) nearer than a radius."""
    side = between(rng, 1, 8)
    radius = math.sqrt(rng.uniform(8, 18) / (math.pi * n))
    points = rng.random((n, 2)) * [side, 1 / side]
    pairs: Edges = cKDTree(points).query_pairs(radius, output_type="ndarray").T
    return pairs


def neighbours(rng: Random, n: int) -> Edges:
    """Points of a mixture of Gaussians, each joined to its nearest ones."""
    dimensions, nearest = int(rng.integers(2, 5)), int(rng.integers(4, 11))
    centres = rng.normal(size=(int(between(rng, 2, 30)), dimensions)) * rng.uniform(1, 5)
    points = centres[rng.integers(0, len(centres), n)] + rng.normal(size=(n, dimensions))
    found = cKDTree(points).query(points, nearest + 1)[1][:, 1:]
    return np.stack([np.repeat(np.arange(n), nearest), found.ravel()])


def triangles(points: NDArray[np.float64]) -> Edges:
    """The edges of the Delaunay triangulation."""
    corners = Delaunay(points).simplices.astype(np.int64)
    sides = np.concatenate([corners[:, [0, 1]], corners[:, [1, 2]], corners[:, [2, 0]]])
    return np.unique(np.sort(sides, axis=1), axis=0).T


def triangulated(rng: Random, n: int) -> Edges:
    """A triangulation of random points, denser on one side."""
    points = rng.random((n, 2)) ** [rng.uniform(1, 2.5), 1] * [between(rng, 1, 10), 1]
    return triangles(points)


def roads(rng: Random, n: int) -> Edges:
    """A spanning tree of a triangulation and a few more of its edges: about 2.5 at a node."""
    edges = triangles(rng.random((n, 2)))
    weight = 1 + rng.random(edges.shape[1])
    tree = minimum_spanning_tree(sp.coo_array((weight, edges), shape=(n, n))).tocoo()
    more = rng.random(edges.shape[1]) < between(rng, 0.03, 0.3)
    return joined(np.stack([tree.row, tree.col]).astype(np.int64), edges[:, more])


def lattice(*sides: int) -> Edges:
    """A grid of any number of sides."""
    node = np.arange(math.prod(sides)).reshape(sides)
    ends = []
    for axis in range(len(sides)):
        along = np.moveaxis(node, axis, 0)
        ends.append(np.stack([along[:-1].ravel(), along[1:].ravel()]))
    return joined(*ends)


def holed_grid(rng: Random, n: int) -> Edges:
    """A grid with round holes."""
    share, holes, ratio = rng.uniform(0.05, 0.3), int(between(rng, 2, 40)), between(rng, 1, 10)
    rows = max(4, round(math.sqrt(n / (1 - share) / ratio)))
    cols = round(n / (1 - share) / rows)
    size = np.sqrt(rng.dirichlet(np.full(holes, 3.0)) * share * rows * cols / math.pi)
    centre = rng.random((holes, 2)) * [rows, cols]
    place = np.stack(np.divmod(np.arange(rows * cols), cols), axis=1)
    kept = np.ones(rows * cols, dtype=bool)
    for c, s in zip(centre, size, strict=True):
        kept &= np.sum((place - c) ** 2, axis=1) >= s * s
    edges = lattice(rows, cols)
    return (np.cumsum(kept) - 1)[edges[:, kept[edges].all(axis=0)]]


def box(rng: Random, n: int) -> Edges:
    """A grid of three sides, of which two may be equal."""
    a = max(3, round(n ** (1 / 3) / between(rng, 1, 2)))
    b = a if rng.random() < 0.5 else max(3, round(a * rng.uniform(1, 1.5)))
    return lattice(a, b, max(3, round(n / (a * b))))


def chain(rng: Random, n: int) -> Edges:
    """A path with short chords."""
    reach = int(between(rng, 3, 30))
    start = rng.integers(0, n - reach, int(rng.uniform(0.02, 0.8) * n))
    chords = np.stack([start, start + rng.integers(2, reach + 1, len(start))])
    return joined(lattice(n), chords)


def tree(rng: Random, n: int) -> Edges:
    """Every node has its parent among those shortly before it: deep if shortly, else flat."""
    node = np.arange(1, n)
    reach = np.minimum(node, n ** rng.uniform(0.4, 1.0))
    return np.stack([node, node - 1 - (rng.random(n - 1) * reach).astype(np.int64)])


def balanced_tree(rng: Random, n: int) -> Edges:
    """Every node has as many children, so that eigenvalues repeat."""
    node = np.arange(1, n)
    return np.stack([node, (node - 1) // int(rng.integers(2, 6))])


def cliques(rng: Random, n: int) -> Edges:
    """A ring of cliques of unequal sizes, with a few edges between any of them."""
    size = int(rng.integers(5, 16))
    part, start = split(rng, n, n // size)
    ahead = np.arange(1, int(np.diff(start).max()))
    other = np.arange(n)[:, None] + ahead
    node = np.broadcast_to(np.arange(n)[:, None], other.shape)
    within = other < start[part + 1][:, None]
    ring = np.stack([start[1:] - 1, start[1:] % n])
    few = rng.integers(0, n, (2, int(between(rng, 1e-4, 0.05) * n)))
    return joined(np.stack([node[within], other[within]]), ring, few)


def lobes(rng: Random, n: int) -> Edges:
    """Dense parts that hang together by single edges: as many tiny eigenvalues."""
    parts = int(between(rng, 3, 40))
    part, start = split(rng, n, parts, least=8)
    node = rng.integers(0, n, int(between(rng, 3, 8) * n))
    within = np.stack([node, mates(rng, node, part, start)])
    along = np.stack([np.arange(n - 1), np.arange(1, n)])  # so that each is connected
    bridged = np.arange(1, parts)
    before = (rng.random(parts - 1) * bridged).astype(np.int64)
    ends = [mates(rng, start[p], part, start) for p in (bridged, before)]
    return joined(within, along[:, part[along[0]] == part[along[1]]], np.stack(ends))


def components(rng: Random, n: int) -> Edges:
    """One large component, many small ones and nodes without edges."""
    alone = int(n * rng.uniform(0.01, 0.1))
    size = power_law(rng, n, rng.uniform(1.5, 2.5), 2, n / 20)
    first = int(n * rng.uniform(0.3, 0.6))
    start = np.concatenate([[0], first + np.cumsum(np.append(0, size))])
    start = np.append(start[start < n - alone], n - alone)
    part = np.repeat(np.arange(len(start) - 1), np.diff(start))
    along = np.stack([np.arange(n - alone - 1), np.arange(1, n - alone)])
    node = rng.integers(0, n - alone, int(between(rng, 0.5, 5) * n))
    within = np.stack([node, mates(rng, node, part, start)])
    return joined(along[:, part[along[0]] == part[along[1]]], within)


GENERATORS: dict[str, Callable[[Random, int], Edges]] = {
    "preferential-attachment": preferential_attachment,
    "power-law-cluster": power_law_cluster,
    "power-law-degrees": power_law_degrees,
    "kronecker": kronecker,
    "bipartite": bipartite,
    "blocks": blocks,
    "communities": communities,
    "small-world": small_world,
    "cliques": cliques,
    "lobes": lobes,
    "geometric": geometric,
    "neighbours": neighbours,
    "triangulated": triangulated,
    "roads": roads,
    "holed-grid": holed_grid,
    "box": box,
    "chain": chain,
    "tree": tree,
    "balanced-tree": balanced_tree,
    "components": components,
}
CONNECTED = (
    *("preferential-attachment", "power-law-cluster", "small-world", "cliques", "lobes"),
    *("triangulated", "roads", "box", "chain", "tree", "balanced-tree"),
)
ABOUT = ("holed-grid", "box")
"""Their number of nodes is a product, and so only about what was asked for."""


def members(seed: int, sizes: Sequence[int] = SIZES) -> list[str]:
    """The names of the family's graphs.

    >>> members(3, [1000])[:2]
    ['preferential-attachment/1000/seed3', 'power-law-cluster/1000/seed3']
    """
    return [f"{kind}/{size}/seed{seed}" for size in sizes for kind in GENERATORS]


def drawn(name: str) -> Graph:
    """The graph of a name, the same on every call."""
    kind, size, seed = name.split("/")
    n = int(size)
    rng = np.random.default_rng([int(seed.removeprefix("seed")), n, crc32(kind.encode())])
    return Graph.from_edge_index(GENERATORS[kind](rng, n), num_nodes=None if kind in ABOUT else n)


def family(seed: int, sizes: Sequence[int] = SIZES) -> Iterator[tuple[str, Graph]]:
    """Sixty graphs and their names."""
    for name in members(seed, sizes):
        yield name, drawn(name)
