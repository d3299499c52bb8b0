"""The family of graphs: the same by name, others by seed, and of the kind that was asked for."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"
SEEDS = range(4)


@pytest.fixture
def families(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return import_module("families")


def same(a, b):
    return a.num_nodes == b.num_nodes and (a.adjacency() != b.adjacency()).nnz == 0


def test_a_family_is_sixty_graphs_by_name(families):
    names = families.members(7)
    assert len(names) == len(set(names)) == 60
    assert "small-world/10000/seed7" in names
    small = dict(families.family(7, [200]))
    assert list(small) == families.members(7, [200])
    assert all(same(graph, families.drawn(name)) for name, graph in small.items())


def test_another_seed_draws_other_graphs(families):
    for kind in families.GENERATORS:
        drawn = [families.drawn(f"{kind}/1000/seed{seed}") for seed in SEEDS]
        # the children of a balanced tree are one of four numbers, and the sides of a box are few
        others = sum(not same(drawn[0], other) for other in drawn[1:])
        assert others == 3 or (kind in {"balanced-tree", "box"} and others > 0), kind


def test_another_seed_draws_other_parameters(families):
    for kind in ("preferential-attachment", "blocks", "small-world", "chain", "bipartite"):
        edges = [families.drawn(f"{kind}/1000/seed{seed}").num_edges for seed in range(6)]
        assert max(edges) > 1.15 * min(edges), kind


@pytest.mark.parametrize("size", [300, 2_000])
def test_sizes_are_about_what_was_asked_for(families, size):
    for seed in SEEDS:
        for name, graph in families.family(seed, [size]):
            kind = name.split("/")[0]
            slack = 0.2 if kind in families.ABOUT else 0
            assert abs(graph.num_nodes - size) <= slack * size, name
            assert 0.5 <= graph.num_edges / size <= 20, name
            largest = np.bincount(graph.components).max()
            assert largest >= (0.9 if kind in families.CONNECTED else 0.15) * size, name


def test_graphs_are_undirected_and_simple(families):
    for name, graph in families.family(1, [300]):
        adjacency = graph.adjacency()
        assert (adjacency != adjacency.T).nnz == 0, name
        assert not adjacency.diagonal().any(), name
        assert (adjacency.data == 1).all(), name


def test_those_said_to_be_connected_are(families):
    for seed in SEEDS:
        for kind in families.CONNECTED:
            graph = families.drawn(f"{kind}/500/seed{seed}")
            assert graph.components.max() == 0, (kind, seed)


def test_trees_have_no_cycle_and_bipartite_graphs_no_odd_one(families):
    for kind in ("tree", "balanced-tree"):
        assert families.drawn(f"{kind}/500/seed2").num_edges == 499
    dense = families.drawn("bipartite/500/seed2").adjacency().toarray()
    for odd in (3, 5, 7):
        assert np.trace(np.linalg.matrix_power(dense, odd)) == 0


def test_old_nodes_of_preferential_attachment_are_hubs(families):
    degree = families.drawn("preferential-attachment/2000/seed0").degree
    assert degree[:20].mean() > 5 * degree[1000:].mean()
    assert degree.min() >= 1


def test_blocks_and_lobes_are_denser_within(families):
    for kind in ("blocks", "lobes", "cliques"):
        graph = families.drawn(f"{kind}/1000/seed0")
        row, col = graph.adjacency().tocoo().coords
        near = np.abs(row - col) < 500
        assert near.mean() > 0.8, kind


def test_lobes_have_as_many_tiny_eigenvalues(families):
    graph = families.drawn("lobes/400/seed1")
    adjacency = graph.adjacency().toarray()
    root = adjacency.sum(axis=1) ** -0.5
    values = np.linalg.eigvalsh(np.eye(400) - root[:, None] * adjacency * root)
    few = int((values < 0.05).sum())
    assert 3 <= few <= 40
    assert values[few] > 2 * values[few - 1]
