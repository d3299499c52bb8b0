from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pdgnn import Graph, eigenpairs
from pdgnn.direction import average_matrix, checked_phi, derivative_matrix, direction_features
from pdgnn.errors import InputError
from strategies import graphs

PATH = Graph.from_edge_index([[0, 1], [1, 2]])
PHI = [1.0, 2.0, 5.0]
STAR = Graph.from_edge_index([[0, 0, 0, 0], [1, 2, 3, 4]])
# Two legs of three, alike, and a tail of two at node 3; φ^(1) changes sign from leg to leg.
LEGS = Graph.from_edge_index([[0, 1, 2, 3, 4, 5, 3, 7], [1, 2, 3, 4, 5, 6, 7, 8]])
TAIL = [3, 7, 8]


def dense(g: Graph, phi: np.ndarray, normalize: bool) -> tuple[np.ndarray, np.ndarray]:
    """B_av and B_dx, entry by entry."""
    n, a = g.num_nodes, g.adjacency().toarray()
    field = np.zeros((n, n))
    for i in range(n):
        for j in range(n):
            if a[i, j] > 0:
                field[i, j] = phi[j] - phi[i]
    b_av, b_dx = np.abs(field), field - np.diag(field.sum(axis=1))
    if normalize:
        total = np.abs(field).sum(axis=1, keepdims=True)
        total[total == 0] = 1.0
        b_av, b_dx = b_av / total, b_dx / total
    return b_av, b_dx


@st.composite
def graph_and_phi(draw):
    """A graph and values that differ, or are exactly equal."""
    g = draw(graphs())
    values = st.one_of(st.integers(-3, 3), st.floats(-2, 2).map(lambda x: round(x, 6)))
    phi = draw(st.lists(values, min_size=g.num_nodes, max_size=g.num_nodes))
    return g, np.array(phi, dtype=np.float64)


class TestOnPaper:
    def test_columns_belong_to_their_target(self):
        # Row 1 has Δ = −1 to node 0 and 3 to node 2; both messages go *to* node 1.
        f = direction_features(PATH, PHI, edge_index=[[0, 2], [1, 1]])
        assert f.tolist() == [[0.25, -0.25], [0.75, 0.75]]
        # The other way round: nodes 0 and 2 have one neighbour each.
        f = direction_features(PATH, PHI, edge_index=[[1, 1], [0, 2]])
        assert f.tolist() == [[1.0, 1.0], [1.0, -1.0]]

    def test_default_is_every_edge_of_the_graph(self):
        assert PATH.edge_index.tolist() == [[0, 1, 1, 2], [1, 0, 2, 1]]
        f = direction_features(PATH, PHI)
        assert f.tolist() == [[0.25, -0.25], [1.0, 1.0], [1.0, -1.0], [0.75, 0.75]]

    def test_without_norm_it_is_the_papers_formula(self):
        f = direction_features(PATH, PHI, normalize=False)
        assert f.tolist() == [[1.0, -1.0], [1.0, 1.0], [3.0, -3.0], [3.0, 3.0]]
        loops = direction_features(PATH, PHI, edge_index=[[0, 1, 2]] * 2, normalize=False)
        assert loops.tolist() == [[0.0, -1.0], [0.0, -2.0], [0.0, 3.0]]

    def test_self_loops(self):
        f = direction_features(PATH, PHI, edge_index=[[0, 1, 2]] * 2)
        assert f.tolist() == [[0.0, -1.0], [0.0, -0.5], [0.0, 1.0]]

    def test_weights_do_not_count(self):
        heavy = Graph.from_edge_index([[0, 1], [1, 2]], edge_weight=[9.0, 0.1])
        assert direction_features(heavy, PHI).equal(direction_features(PATH, PHI))

    def test_matrices(self):
        assert average_matrix(PATH, PHI, normalize=False).toarray().tolist() == [
            [0, 1, 0],
            [1, 0, 3],
            [0, 3, 0],
        ]
        assert derivative_matrix(PATH, PHI, normalize=False).toarray().tolist() == [
            [-1, 1, 0],
            [-1, -2, 3],
            [0, -3, 3],
        ]

    def test_no_edges(self):
        g = Graph.from_edge_index(np.zeros((2, 0), dtype=int), num_nodes=3)
        assert direction_features(g, PHI).shape == (0, 2)
        assert direction_features(g, PHI, edge_index=[[1], [1]]).tolist() == [[0.0, 0.0]]
        assert derivative_matrix(g, PHI).nnz == 0
        assert direction_features(PATH, PHI, edge_index=torch.empty(2, 0)).shape == (0, 2)


class TestAgainstDense:
    @given(graph_and_phi(), st.booleans())
    def test_matrices(self, drawn, normalize):
        g, phi = drawn
        b_av, b_dx = dense(g, phi, normalize)
        ours = average_matrix(g, phi, normalize=normalize)
        assert ours.toarray() == pytest.approx(b_av, abs=1e-12)
        ours = derivative_matrix(g, phi, normalize=normalize)
        assert ours.toarray() == pytest.approx(b_dx, abs=1e-12)

    @given(graph_and_phi(), st.booleans(), st.randoms(use_true_random=False))
    def test_features_of_any_edges_in_any_order(self, drawn, normalize, random):
        g, phi = drawn
        b_av, b_dx = dense(g, phi, normalize)
        loops = torch.arange(g.num_nodes).expand(2, -1)
        columns = torch.cat([g.edge_index, loops, g.edge_index[:, ::3]], dim=1).T.tolist()
        random.shuffle(columns)
        edges = np.array(columns[: len(columns) // 2 + 1]).T
        f = direction_features(g, torch.tensor(phi), edge_index=edges, normalize=normalize)
        source, target = edges
        expected = np.stack([b_av[target, source], b_dx[target, source]], axis=1)
        assert f.dtype == torch.float64
        assert f.numpy() == pytest.approx(expected, abs=1e-12)

    @given(graph_and_phi())
    def test_rows(self, drawn):
        g, phi = drawn
        av, dx = average_matrix(g, phi), derivative_matrix(g, phi)
        rows = np.asarray(av.sum(axis=1)).ravel()
        flat = np.array(
            [(phi[a > 0] == p).all() for a, p in zip(g.adjacency().toarray(), phi, strict=True)]
        )
        assert rows == pytest.approx(np.where(flat, 0.0, 1.0))
        assert np.asarray(dx.sum(axis=1)).ravel() == pytest.approx(0.0, abs=1e-12)
        # The scale and the offset of φ do not matter, its sign turns B_dx round.
        assert average_matrix(g, -3.0 * phi).toarray() == pytest.approx(av.toarray(), abs=1e-12)
        assert derivative_matrix(g, -3.0 * phi).toarray() == pytest.approx(-dx.toarray(), abs=1e-12)


class TestRounding:
    def test_noise_is_no_direction(self):
        rng = np.random.default_rng(0)
        phi = 0.3 + 1e-16 * rng.integers(-2, 3, 5)
        assert np.ptp(phi) > 0
        assert direction_features(STAR, phi).abs().max() == 0.0
        assert average_matrix(STAR, phi).nnz == 0
        assert derivative_matrix(STAR, phi).nnz == 0

    def test_noise_beside_a_direction_is_nothing_either(self):
        phi = np.array([0.3, 0.3 + 1e-16, 0.3 - 1e-16, 0.3, 0.5])
        assert phi[1] > phi[0] > phi[2]
        f = direction_features(STAR, phi, edge_index=[[1, 2, 3, 4, 0, 0], [0, 0, 0, 0, 1, 4]])
        assert f.tolist() == [[0, 0], [0, 0], [0, 0], [1, 1], [0, 0], [1, -1]]

    def test_small_differences_are_kept(self):
        phi = np.array([0.3, 0.3 + 1e-11, 0.3, 0.3, 0.3])
        f = direction_features(STAR, phi, edge_index=[[1, 0], [0, 1]])
        assert f.tolist() == [[1.0, 1.0], [1.0, -1.0]]

    def test_the_scale_is_that_of_the_component(self):
        g = Graph.from_edge_index([[0, 2], [1, 3]])
        f = direction_features(g, [1e15, -1e15, 1e-15, 2e-15])
        assert f[:, 0].tolist() == [1.0, 1.0, 1.0, 1.0]

    @pytest.mark.parametrize("gamma", [0.0, 0.2, 0.7, 1.0])
    @pytest.mark.parametrize("alpha", [0.0, 0.5, 1.0])
    def test_a_node_where_the_eigenvector_vanishes(self, alpha, gamma):
        phi = eigenpairs(LEGS, gamma=gamma).eigenvectors(alpha)[:, 0]
        assert phi[[0, 1, 2]] == pytest.approx(-phi[[6, 5, 4]])
        av, dx = average_matrix(LEGS, phi).toarray(), derivative_matrix(LEGS, phi).toarray()
        assert (av[[7, 8]] == 0.0).all()
        assert (dx[[7, 8]] == 0.0).all()
        assert av[3, [2, 4, 7]] == pytest.approx([0.5, 0.5, 0.0])
        assert av[3, 7] == 0.0

    def test_a_large_graph_where_the_eigenvector_vanishes(self):
        # Legs of 300 nodes and a tail of 100 at node 300: too large for a dense solver.
        chain, tail = np.arange(600), np.arange(601, 700)
        source = np.concatenate([chain, [300], tail])
        g = Graph.from_edge_index([source, np.concatenate([chain + 1, [601], tail + 1])])
        phi = eigenpairs(g, cache=False).eigenvectors()[:, 0]
        rows = np.asarray(average_matrix(g, phi).sum(axis=1)).ravel()
        assert (rows[601:] == 0.0).all()
        assert rows[:601] == pytest.approx(1.0)

    def test_precision_of_the_input(self):
        # 1 + 1e-7 is one step of float32 above 1.
        phi = torch.tensor([1.0, 1.0 + 1.2e-7, 1.0, 1.0, 1.0])
        assert phi[1] > phi[0]
        assert direction_features(STAR, phi).abs().max() == 0.0
        assert direction_features(STAR, phi.double()).abs().max() == 1.0
        assert average_matrix(STAR, phi.numpy()).nnz == 0


class TestTypes:
    @pytest.mark.parametrize(
        ("phi", "dtype"),
        [
            (PHI, torch.float32),
            (np.array(PHI), torch.float32),
            (np.array(PHI, dtype=np.float32), torch.float32),
            (np.array([1, 2, 5]), torch.float32),
            (torch.tensor(PHI), torch.float32),
            (torch.tensor(PHI).half(), torch.float32),
            (torch.tensor([1, 2, 5]), torch.float32),
            (torch.tensor(PHI).double(), torch.float64),
            (torch.tensor(PHI)[:, None], torch.float32),
        ],
    )
    def test_dtype(self, phi, dtype):
        f = direction_features(PATH, phi)
        assert f.dtype == dtype
        assert f.tolist() == direction_features(PATH, PHI).tolist()

    def test_read_only_and_strided_arrays(self):
        phi = np.array([5.0, 2.0, 1.0])[::-1]
        phi.flags.writeable = False
        edges = np.array([[2, 0], [1, 1]], dtype=np.uint32)[:, ::-1]
        f = direction_features(PATH, phi, edge_index=edges)
        assert f.tolist() == [[0.25, -0.25], [0.75, 0.75]]

    def test_input_is_left_alone(self):
        phi, edges = torch.tensor(PHI).double(), torch.tensor([[2, 0], [1, 1]])
        before = phi.clone(), edges.clone()
        direction_features(PATH, phi, edge_index=edges)
        assert phi.equal(before[0])
        assert edges.equal(before[1])

    def test_gradients_reach_phi(self):
        phi = torch.tensor(PHI, dtype=torch.float64, requires_grad=True)
        f = direction_features(PATH, phi, edge_index=[[0], [1]])
        f[0, 0].backward()  # f = (φ_1 − φ_0) / (φ_2 − φ_0)
        assert phi.grad.tolist() == pytest.approx([-3 / 16, 1 / 4, -1 / 16])


class TestBadInput:
    @pytest.mark.parametrize(
        ("phi", "message"),
        [
            ([1.0, 2.0], r"phi has shape \[2\]; give one value for each of 3 nodes"),
            (np.zeros((3, 2)), r"phi has shape \[3, 2\]"),
            (1.0, r"phi has shape \[\]"),
            ([1.0, math.nan, 2.0], r"phi\[1\] is nan"),
            (torch.tensor([1.0, 2.0, math.inf]), r"phi\[2\] is inf"),
            (np.array([1j, 0, 0]), "phi is complex"),
            (["a", "b", "c"], "phi holds <U1"),
            ([[1.0], [2.0, 3.0]], "phi is ragged"),
            (None, "phi holds object"),
        ],
    )
    def test_phi(self, phi, message):
        for function in (direction_features, average_matrix, derivative_matrix, checked_phi):
            with pytest.raises(InputError, match=message):
                function(PATH, phi)

    @pytest.mark.parametrize(
        ("edge_index", "message"),
        [
            ([[0, 1], [2, 0]], r"\(0, 2\) is not an edge of the graph"),
            ([[2], [0]], r"\(2, 0\) is not an edge of the graph"),
            ([[0], [3]], "node 3 does not exist"),
            ([[3], [3]], "node 3 does not exist"),
            ([[-1], [0]], "node -1 does not exist"),
            ([[0, 1, 1]], r"edge_index has shape \[1, 3\]"),
            ([0, 1], r"edge_index has shape \[2\]"),
            ([[0.0], [1.0]], "edge_index holds torch.float64"),
            ([[True], [False]], "edge_index holds torch.bool"),
            ([["a"], ["b"]], "edge_index holds <U1"),
            ([[0], [1, 2]], "edge_index is ragged"),
        ],
    )
    def test_edge_index(self, edge_index, message):
        with pytest.raises(InputError, match=message):
            direction_features(PATH, PHI, edge_index=edge_index)

    @given(graphs(), st.data())
    def test_only_edges_of_the_graph_pass(self, g, data):
        i, j = (data.draw(st.integers(0, g.num_nodes - 1)) for _ in range(2))
        phi = np.arange(g.num_nodes)
        if i == j or g.has_edge(i, j):
            assert direction_features(g, phi, edge_index=[[i], [j]]).shape == (1, 2)
        else:
            with pytest.raises(InputError, match="is not an edge"):
                direction_features(g, phi, edge_index=[[i], [j]])


def test_a_real_graph(data_root):
    raw = np.load(data_root / "minesweeper" / "raw" / "minesweeper.npz")
    g = Graph.from_edge_index(raw["edges"].T)
    phi = np.random.default_rng(0).normal(size=g.num_nodes)
    f = direction_features(g, phi)
    assert f.shape == (2 * g.num_edges, 2)
    assert f[:, 0].equal(f[:, 1].abs())
    sums = torch.zeros(g.num_nodes).index_add(0, g.edge_index[1], f[:, 0])
    assert sums.numpy() == pytest.approx(1.0, abs=1e-5)
