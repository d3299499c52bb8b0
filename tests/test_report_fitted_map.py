"""The embedding along γ: continuous, canonical where it is fixed, bounded in its work."""

from __future__ import annotations

import numpy as np
import pytest

from pdgnn import Graph, eigenpairs, gradient_node, rewire
from pdgnn.datasets.synthetic import synthetic
from pdgnn.errors import ConvergenceError
from pdgnn.report import fitted_map
from pdgnn.report.fitted_map import aligned, by_order, connected_part, embedding_path, map_data


def small(n: int = 120) -> Graph:
    return Graph.from_data(synthetic(num_nodes=n, num_classes=3, homophily=0.3, seed=2))


def two_pieces() -> Graph:
    """A path of five nodes, 3 to 7, one of three, 0 to 2, and node 8 alone."""
    return Graph.from_edge_index([[0, 1, 3, 4, 5, 6], [1, 2, 4, 5, 6, 7]], num_nodes=9)


def test_it_is_the_embedding_at_the_gamma_asked_for():
    g = small()
    path, why = embedding_path(g, alpha=0.5, gamma=0.35)
    assert why == ""
    assert path.gammas == [0, 0.1, 0.2, 0.3, 0.35, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1]
    phi = eigenpairs(g, gamma=0.35, k=2).eigenvectors(0.5)
    assert path.positions[path.chosen] == pytest.approx(phi / np.linalg.norm(phi), abs=1e-6)
    expected = [gradient_node(g, alpha=0.5, gamma=gamma) for gamma in path.gammas]
    assert path.nodes[path.gradient].tolist() == expected


def test_turning_brings_neighbours_as_near_as_turning_can():
    rng = np.random.default_rng(0)
    base = rng.normal(size=(30, 2))
    turns = [[[0.6, -0.8], [0.8, 0.6]], [[1, 0], [0, -1]], [[0, 1], [1, 0]], [[1, 0], [0, 1]]]
    found = aligned(np.stack([base @ np.array(turn) * 3 for turn in turns]), 2)
    fixed = base @ np.array(turns[2])
    for at in found:
        assert at == pytest.approx(fixed / np.linalg.norm(fixed))


def test_points_move_less_than_without_turning():
    g = small()
    path, _ = embedding_path(g, alpha=1.0, gamma=1.0)
    raw = np.stack([eigenpairs(g, gamma=t, k=2).eigenvectors(1.0) for t in path.gammas])
    raw /= np.linalg.norm(raw, axis=(1, 2), keepdims=True)
    steps = np.linalg.norm(np.diff(path.positions, axis=0), axis=(1, 2))
    assert (steps <= np.linalg.norm(np.diff(raw, axis=0), axis=(1, 2)) + 1e-9).all()
    assert steps.max() < 1.0  # of at most 2


def test_coordinates_are_the_order_of_the_values():
    rng = np.random.default_rng(1)
    values = rng.normal(size=(201, 2))
    found = by_order(values)
    for axis in (0, 1):
        in_order = found[np.argsort(values[:, axis]), axis]
        assert in_order.tolist() == list(range(-1000, 1001, 10))


def test_what_differs_by_rounding_shares_a_place():
    found = by_order(np.array([[1e-9, 0.0], [2e-9, 0.0], [0.0, 0.0], [1.0, 0.0]]))
    assert found.tolist() == [[-1000, -1000]] * 3 + [[1000, -1000]]


def test_only_the_largest_piece_is_drawn():
    path, _ = embedding_path(two_pieces(), alpha=1.0, gamma=1.0)
    assert path.nodes.tolist() == [3, 4, 5, 6, 7]
    assert not path.partial
    data = map_data(path, np.array([0, 4, 5, 3, 7, 8]))
    assert data["points"] == [1, 2, 3, 4]
    assert len(data["xy"]) == 11
    assert {len(at) for at in data["xy"]} == {8}
    star = data["gradient"][data["chosen"]]
    assert [0, 4, 5, 3, 7, 8][data["points"][star]] in (3, 7)
    # node 3 has the edge to 4, node 7 that to 6, which is not listed
    assert data["joined"][data["chosen"]] in ([0], [])


def test_too_few_nodes_or_no_convergence_is_a_sentence(monkeypatch):
    path, why = embedding_path(Graph.from_edge_index([[0], [1]], num_nodes=4), alpha=1, gamma=1)
    assert path is None
    assert "nothing to embed" in why

    def fails(*_, **__):
        raise ConvergenceError("λ did not settle")

    monkeypatch.setattr(fitted_map, "eigenpairs_path", fails)
    path, why = embedding_path(small(), alpha=1, gamma=1)
    assert path is None
    assert why == "The spectral embedding is left out: λ did not settle."


def test_a_large_graph_is_solved_at_fewer_gammas_or_in_part(monkeypatch):
    g = small(300)
    monkeypatch.setattr(fitted_map, "WORK", {500: 11, 5_000: 6})
    path, _ = embedding_path(g, alpha=1, gamma=1)
    assert (len(path.gammas), path.partial) == (6, False)
    monkeypatch.setattr(fitted_map, "WORK", {500: 11, 600: 6})
    path, _ = embedding_path(g, alpha=1, gamma=1, hub=17)
    assert path.partial
    assert path.graph.num_components == 1
    assert path.nodes.size + path.graph.num_edges <= 500
    assert path.nodes[path.gradient[path.chosen]] == 17  # not that of the part


def test_a_part_is_joined_at_every_size():
    g = small()
    order = connected_part(g, 5, 40)
    assert order.size == np.unique(order).size == 40
    for n in (1, 7, 25):
        part = order[:n]
        assert Graph(g.adjacency()[part][:, part]).num_components == 1
    assert connected_part(two_pieces(), 1, 10)[0] == 1
    assert set(connected_part(two_pieces(), 1, 10)) == {0, 1, 2}


@pytest.mark.parametrize("reach", ["all", "far"])
def test_edges_are_drawn_where_the_model_added_them(reach):
    g = small()
    rewired = rewire(g, alpha=1.0, gamma=0.5, reach=reach)
    hub, added = int(rewired.gradient_nodes[0]), rewired.added[0].numpy()
    path, _ = embedding_path(g, alpha=1.0, gamma=0.5, hub=hub)
    data = map_data(path, np.arange(g.num_nodes), added)
    chosen = data["chosen"]
    assert data["gradient"][chosen] == hub
    drawn = set(range(g.num_nodes)) - set(data["joined"][chosen]) - {hub}
    assert drawn == set(added.tolist())
