from __future__ import annotations

import math
from unittest import mock

import numpy as np
import pytest
import scipy.linalg
import torch
from hypothesis import assume, given
from hypothesis import strategies as st

from pdgnn import Graph, distance
from pdgnn.distance import diffusion_distance, order_time, spectral_distance
from pdgnn.errors import InputError
from strategies import graphs

PAIR = Graph.from_edge_index([[0], [1]])
PATH = Graph.from_edge_index([[0, 1], [1, 2]])
TWO_PAIRS = Graph.from_edge_index([[0, 2], [1, 3]], num_nodes=5)  # node 4 is isolated
CYCLE = Graph.from_edge_index([[0, 1, 2, 3, 4, 5], [1, 2, 3, 4, 5, 0]])

GAMMAS = st.sampled_from([0.0, 0.1, 0.5, 1.0])
TIMES = st.sampled_from([0.0, 0.01, 0.7, 3.0, 20.0])


def without_full_spectrum():
    """Every component of two nodes or more takes the way of the large ones."""
    return mock.patch.object(distance, "DENSE_NODES", 1)


def dense(g: Graph, gamma: float) -> tuple[np.ndarray, np.ndarray]:
    """L^(1,γ), or L at γ = 0, and the diagonal of M."""
    a = g.adjacency().toarray()
    d = a.sum(axis=1)
    m = np.where(d > 0, gamma * d + 1 - gamma, 1.0)
    return (gamma or 1.0) * (np.diag(d) - a) / m[:, None], m


def dense_distances(g: Graph, t: float, gamma: float) -> np.ndarray:
    """Σ_l (K_t(i,l) − K_t(j,l))² / M_l of all pairs, from the matrix exponential."""
    lap, m = dense(g, gamma)
    kernel = scipy.linalg.expm(-t * lap)
    return np.sqrt(((kernel[:, None, :] - kernel[None, :, :]) ** 2 / m).sum(axis=2))


def dense_pairs(g: Graph, gamma: float) -> tuple[np.ndarray, np.ndarray]:
    """All non-trivial eigenvalues and φ of α = 1 of a connected graph."""
    lap, m = dense(g, gamma)
    root = np.sqrt(m)
    values, u = np.linalg.eigh(root[:, None] * lap / root[None, :])
    return values[1:], u[:, 1:] / root[:, None]


def all_pairs(n: int) -> tuple[np.ndarray, np.ndarray]:
    i, j = np.meshgrid(np.arange(n), np.arange(n), indexing="ij")
    return i.ravel(), j.ravel()


def random_graph(n: int, mean_degree: float, seed: int) -> Graph:
    """A connected random graph: a tree and random edges."""
    rng = np.random.default_rng(seed)
    child = np.arange(1, n)
    tree = np.stack([child, rng.integers(0, child)])
    return Graph.from_edge_index(
        np.concatenate([tree, rng.integers(0, n, (2, int(n * mean_degree / 2)))], axis=1), n
    )


class TestSpectralDistance:
    def test_path_of_three(self):
        # φ = (1, 0, −1) / √2 for every γ, as M is 1 at both ends.
        for gamma in (0.0, 0.5, 1.0):
            assert spectral_distance(PATH, 0, 2, gamma=gamma) == pytest.approx(math.sqrt(2))
            assert spectral_distance(PATH, 1, 2, gamma=gamma) == pytest.approx(math.sqrt(0.5))

    def test_alpha_scales_by_the_degree(self):
        # Path of four, γ = 1: u = (√3, √3·√2/2·…)/…; φ(α) = M^(1/2−α) u entry by entry.
        g = Graph.from_edge_index([[0, 1, 2], [1, 2, 3]])
        u = np.array([1.0, math.sqrt(0.5), -math.sqrt(0.5), -1.0]) / math.sqrt(3)
        for alpha in (0.0, 0.5, 1.0):
            phi = np.array([1.0, 2.0, 2.0, 1.0]) ** (0.5 - alpha) * u
            expected = abs(phi[0] - phi[2])
            assert spectral_distance(g, 0, 2, alpha=alpha) == pytest.approx(expected)

    def test_a_node_and_itself_and_another_component(self):
        assert spectral_distance(TWO_PAIRS, 3, 3) == 0.0
        assert spectral_distance(TWO_PAIRS, 4, 4) == 0.0
        assert spectral_distance(TWO_PAIRS, 0, 2) == math.inf
        assert spectral_distance(TWO_PAIRS, 0, 4) == math.inf

    def test_types_of_single_nodes_and_arrays(self):
        assert isinstance(spectral_distance(PATH, 0, np.int64(2)), float)
        many = spectral_distance(PATH, np.array([0, 1]), torch.tensor([2, 2]))
        assert many == pytest.approx([math.sqrt(2), math.sqrt(0.5)])
        assert spectral_distance(PATH, range(3), 2) == pytest.approx([2**0.5, 0.5**0.5, 0.0])
        assert spectral_distance(PATH, [1], 2).shape == (1,)
        assert spectral_distance(PATH, [], []).shape == (0,)

    @given(graphs(connected=True), GAMMAS)
    def test_is_the_first_term_of_the_diffusion_distance(self, g, gamma):
        values, phi = dense_pairs(g, gamma)
        assume(len(values) < 2 or values[1] - values[0] > 1e-6)
        i, j = all_pairs(g.num_nodes)
        expected = np.abs(phi[i, 0] - phi[j, 0])
        assert spectral_distance(g, i, j, gamma=gamma) == pytest.approx(expected, abs=1e-7)


class TestDiffusionDistance:
    @pytest.mark.parametrize("t", [0.0, 0.3, 2.0])
    def test_path_of_three_on_paper(self, t):
        # γ = 1: λ = 1, 2 with φ = (1, 0, −1)/√2, (1, −1, 1)/2.
        end = math.sqrt(2) * math.exp(-t)
        step = math.sqrt(math.exp(-2 * t) / 2 + math.exp(-4 * t))
        assert diffusion_distance(PATH, 0, 2, t=t) == pytest.approx(end)
        assert diffusion_distance(PATH, 0, 1, t=t) == pytest.approx(step)
        # γ = 0: λ = 1, 3 with φ = (1, 0, −1)/√2, (1, −2, 1)/√6.
        step = math.sqrt(math.exp(-2 * t) / 2 + math.exp(-6 * t) * 9 / 6)
        assert diffusion_distance(PATH, 0, 2, t=t, gamma=0.0) == pytest.approx(end)
        assert diffusion_distance(PATH, 0, 1, t=t, gamma=0.0) == pytest.approx(step)

    @pytest.mark.parametrize("t", [0.0, 0.3, 50.0])
    def test_across_components_on_paper(self, t):
        # Each kernel lies in its own pair: 1/2 from its constant vector, exp(−4t)/2 from the other.
        expected = math.sqrt(1.0 + math.exp(-4 * t))
        assert diffusion_distance(TWO_PAIRS, 0, 2, t=t) == pytest.approx(expected)
        # The kernel of an isolated node stays where it is.
        expected = math.sqrt(1.0 + 0.5 + 0.5 * math.exp(-4 * t))
        assert diffusion_distance(TWO_PAIRS, 4, 1, t=t) == pytest.approx(expected)
        with without_full_spectrum():
            assert diffusion_distance(TWO_PAIRS, 4, 1, t=t) == pytest.approx(expected)
        assert diffusion_distance(TWO_PAIRS, 4, 4, t=t) == 0.0

    @given(graphs(max_nodes=12), TIMES, GAMMAS)
    def test_is_the_distance_of_the_kernels(self, g, t, gamma):
        i, j = all_pairs(g.num_nodes)
        expected = dense_distances(g, t, gamma).ravel()
        start = np.sqrt(1.0 / dense(g, gamma)[1]).max()
        assert diffusion_distance(g, i, j, t=t, gamma=gamma) == pytest.approx(
            expected, rel=1e-9, abs=1e-11 * start
        )
        with without_full_spectrum():
            large = diffusion_distance(g, i, j, t=t, gamma=gamma)
        assert large == pytest.approx(expected, rel=1e-9, abs=1e-11 * start)

    @given(graphs(connected=True), TIMES, GAMMAS)
    def test_is_the_sum_over_eigenpairs(self, g, t, gamma):
        values, phi = dense_pairs(g, gamma)
        i, j = all_pairs(g.num_nodes)
        terms = np.exp(-2 * t * values) * (phi[i] - phi[j]) ** 2
        ours = diffusion_distance(g, i, j, t=t, gamma=gamma)
        assert ours == pytest.approx(np.sqrt(terms.sum(axis=1)), rel=1e-7, abs=1e-13)

    @given(graphs(), TIMES, GAMMAS)
    def test_is_a_metric_that_shrinks(self, g, t, gamma):
        n = g.num_nodes
        d = diffusion_distance(g, *all_pairs(n), t=t, gamma=gamma).reshape(n, n)
        assert (np.diag(d) == 0.0).all()
        np.testing.assert_array_equal(d, d.T)
        assert (d[:, None, :] <= d[:, :, None] + d[None, :, :] + 1e-12).all()
        later = diffusion_distance(g, *all_pairs(n), t=t + 0.5, gamma=gamma).reshape(n, n)
        assert (later <= d + 1e-12).all()

    def test_small_distances_keep_their_digits(self):
        # √2 exp(−2t), far below the rounding of 1.
        assert diffusion_distance(PAIR, 0, 1, t=100.0) == pytest.approx(
            math.sqrt(2) * math.exp(-200.0), rel=1e-12, abs=0.0
        )

    def test_a_thread_between_two_cliques(self):
        # λ_1 is far below rounding: heat mixes inside the cliques, and never passes the thread.
        cliques = [(a, b) for block in (range(4), range(4, 8)) for a in block for b in block]
        edges = np.array([e for e in cliques if e[0] < e[1]] + [(3, 4)]).T
        g = Graph.from_edge_index(edges, 8, [1.0] * 12 + [1e-18])
        assert diffusion_distance(g, 0, 7, t=50.0) == pytest.approx(math.sqrt(2 / 12))
        assert diffusion_distance(g, 0, 1, t=50.0) == pytest.approx(0.0, abs=1e-12)

    @pytest.mark.parametrize("gamma", [0.0, 0.3, 1.0])
    def test_large_components_agree_with_the_full_spectrum(self, gamma):
        g = random_graph(600, 4.0, seed=1)
        rng = np.random.default_rng(2)
        i, j = rng.integers(0, 600, (2, 150))
        values, phi = dense_pairs(g, gamma)
        for t in (0.0, 0.4, 6.0, 300.0):
            expected = np.sqrt((np.exp(-2 * t * values) * (phi[i] - phi[j]) ** 2).sum(axis=1))
            ours = diffusion_distance(g, i, j, t=t, gamma=gamma)
            error = np.abs(ours - expected)
            assert error.max() < 1e-12
            # And relative to what is left, however little that is.
            assert (error <= 1e-7 * expected + 1e-11 * math.exp(-t * values[0])).all()

    def test_no_eigenpair_is_needed_unless_the_distance_has_faded(self):
        g = random_graph(450, 6.0, seed=4)
        index = torch.cat([g.edge_index, torch.tensor([[450], [451]])], dim=1)
        g = Graph.from_edge_index(index)
        with mock.patch.object(distance, "eigenpairs", side_effect=RuntimeError):
            assert diffusion_distance(g, 0, 1, t=3.0) > 0
            apart = diffusion_distance(g, 0, 450, t=300.0)
            with pytest.raises(RuntimeError):
                diffusion_distance(g, 0, 1, t=300.0)
        assert apart == pytest.approx(math.sqrt(0.5 + 1 / g.degree[:450].sum()))

    def test_blocks_of_columns_change_nothing(self):
        g = random_graph(60, 3.0, seed=3)
        i, j = all_pairs(60)
        whole = diffusion_distance(g, i, j, t=1.0)
        with mock.patch.object(distance, "BLOCK_ENTRIES", 60 * 7):
            assert diffusion_distance(g, i, j, t=1.0) == pytest.approx(whole, abs=1e-13)

    def test_the_series_stops_where_it_may(self):
        # All that is cut off: the probability that two Poisson variables differ by more.
        for z in (1e-3, 0.5, 10.0, 1e3, 1e5):
            log = math.log(2.0 / distance.HEAT_TOLERANCE)
            degree = math.ceil(math.sqrt(2 * z * log) + 2 * log / 3)
            cut = 2.0 * distance.ive(np.arange(degree + 1, 3 * degree), z)
            assert cut.sum() <= distance.HEAT_TOLERANCE

    def test_a_real_graph(self, data_root):
        raw = np.load(data_root / "tolokers" / "raw" / "tolokers.npz")
        g = Graph.from_edge_index(raw["edges"].T)
        d = diffusion_distance(g, [0, 1, 2], [1, 2, 0], t=1.0)
        assert (d > 0).all()
        assert (d < np.sqrt(1 / g.degree[[0, 1, 2]] + 1 / g.degree[[1, 2, 0]])).all()
        # Semigroup: the same heat in two half steps, from the Laplacian of α = 1 itself.
        from scipy.sparse.linalg import expm_multiply

        from pdgnn import parameterized_laplacian

        start = np.zeros((g.num_nodes, 1))
        start[0], start[1] = 1 / g.degree[0], -1 / g.degree[1]
        lap = -0.5 * parameterized_laplacian(g)
        end = expm_multiply(lap, expm_multiply(lap, start))
        assert d[0] == pytest.approx(float(np.sqrt((end[:, 0] ** 2 * g.degree).sum())), rel=1e-8)


class TestOrderTime:
    def test_path_of_three_on_paper(self):
        # γ = 0, i = 0, j = m = 1: x = 0, y = (1/2, 3/2), λ = 1, 3.
        assert order_time(PATH, 0, 1, 1, gamma=0.0) == pytest.approx(math.log(3) / 4)
        # i = 0, j = 2, m = 1: y − x = 3/2 and −3/2, so the order holds from the start.
        assert order_time(PATH, 0, 2, 1, gamma=0.0) == pytest.approx(0.0, abs=1e-12)

    def test_repeated_first_eigenvalue(self):
        # The cycle has λ_1 = λ_2, and distances around it in their eigenspace.
        c = order_time(CYCLE, 3, 0, 1)
        assert 0.0 <= c < math.inf
        for t in (c + 1e-6, c + 1, c + 10):
            assert diffusion_distance(CYCLE, 1, 0, t=t) < diffusion_distance(CYCLE, 3, 0, t=t)
        with pytest.raises(InputError, match=r"d_s\(5, 0\) = .* is not below d_s\(1, 0\)"):
            order_time(CYCLE, 1, 0, 5)  # equally far on both sides

    def test_one_eigenvalue_only(self):
        complete = Graph.from_edge_index([[0, 0, 0, 1, 1, 2], [1, 2, 3, 2, 3, 3]])
        assert order_time(complete, 0, 1, 1) == 0.0
        assert order_time(PAIR, 0, 1, 1) == 0.0

    def test_from_another_component(self):
        g = Graph.from_edge_index([[0, 1, 2, 4], [1, 2, 3, 5]], num_nodes=7)
        for i, gamma in ((4, 1.0), (6, 1.0), (4, 0.0), (6, 0.3)):
            c = order_time(g, i, 0, 3, gamma=gamma)
            assert order_time(g, i, 0, 0, gamma=gamma) == 0.0
            for t in (c + 1e-6, c + 1, c + 10):
                near = diffusion_distance(g, 3, 0, t=t, gamma=gamma)
                assert near < diffusion_distance(g, i, 0, t=t, gamma=gamma)
        # γ = 1: log((1 + 1) / (1/6 + 1/2)) / 2λ_1 with λ_1 = 1/2.
        assert order_time(g, 4, 0, 3) == pytest.approx(math.log(3.0))

    @given(graphs(connected=True, max_nodes=12), GAMMAS, st.data())
    def test_the_order_holds_after_it(self, g, gamma, data):
        values, phi = dense_pairs(g, gamma)
        assume(len(values) < 2 or values[1] - values[0] > 1e-3)
        i, j, m = (data.draw(st.integers(0, g.num_nodes - 1)) for _ in range(3))
        near, far = abs(phi[m, 0] - phi[j, 0]), abs(phi[i, 0] - phi[j, 0])
        assume(abs(far - near) > 1e-6)
        if near > far:
            i, m = m, i
        x, y = (phi[m] - phi[j]) ** 2, (phi[i] - phi[j]) ** 2
        c = order_time(g, i, j, m, gamma=gamma)
        if len(values) > 1 and np.diff(values).min() > 1e-6:
            rest = np.abs(x - y)[1:].sum()
            paper = np.log((y[0] - x[0]) / rest) / (2 * (values[0] - values[1]))
            assert c == pytest.approx(max(0.0, paper), rel=1e-6, abs=1e-9)
        with without_full_spectrum():
            bound = order_time(g, i, j, m, gamma=gamma)
        assert bound >= c - 1e-9
        for t in (c + 1e-3, c + 1.0, bound + 1e-3, 2 * bound + 1.0):
            # The common factor exp(−2tλ_1) is taken out, as it may underflow.
            heat = np.exp(-2 * t * (values - values[0]))
            assert (heat * x).sum() < (heat * y).sum()
            if t * values[0] < 100:
                assert diffusion_distance(g, m, j, t=t, gamma=gamma) < diffusion_distance(
                    g, i, j, t=t, gamma=gamma
                )

    @given(graphs(max_nodes=10), GAMMAS, st.data())
    def test_any_graph_gives_a_time_or_says_why_not(self, g, gamma, data):
        i, j, m = (data.draw(st.integers(0, g.num_nodes - 1)) for _ in range(3))
        for patch in (mock.patch.object(distance, "DENSE_NODES", 400), without_full_spectrum()):
            with patch:
                try:
                    c = order_time(g, i, j, m, gamma=gamma)
                except InputError as e:
                    message = str(e)
                    c = 0.0
                else:
                    message = "is not below"
                assert 0.0 <= c < math.inf
                assert "is not below" in message

    def test_large_component(self):
        g = random_graph(500, 4.0, seed=5)
        phi = dense_pairs(g, 0.5)[1][:, 0]
        i, j = int(phi.argmax()), int(phi.argmin())
        m = int(np.argsort(phi)[250])
        c = order_time(g, i, j, m, gamma=0.5)
        with mock.patch.object(distance, "DENSE_NODES", 500):
            assert order_time(g, i, j, m, gamma=0.5) <= c
        near = diffusion_distance(g, m, j, t=c + 1e-3, gamma=0.5)
        assert near < diffusion_distance(g, i, j, t=c + 1e-3, gamma=0.5)


class TestBadInput:
    @pytest.mark.parametrize(
        ("i", "message"),
        [
            (3, "node 3 does not exist; nodes are 0 to 2"),
            (-1, "node -1 does not exist"),
            (0.0, "a node is an integer, not 0.0"),
            (True, "a node is an integer, not True"),
            ("a", "a node is an integer, not 'a'"),
            ([0, 3], "node 3 does not exist"),
            ([-2, 0], "node -2 does not exist"),
            ([0.5, 1.0], "nodes are integers, not float64"),
            ([True, False], "nodes are integers, not bool"),
            ([[0, 1]], "give one node or a flat list"),
            ([[0], [0, 1]], "nodes are ragged; give one node or a flat list"),
        ],
    )
    def test_nodes(self, i, message):
        with pytest.raises(InputError, match=message):
            spectral_distance(PATH, i, 0)
        with pytest.raises(InputError, match=message):
            diffusion_distance(PATH, 0, i, t=1.0)

    def test_lengths(self):
        with pytest.raises(InputError, match="i has 2 nodes and j has 3"):
            diffusion_distance(PATH, [0, 1], [0, 1, 2], t=1.0)

    @pytest.mark.parametrize("t", [-1.0, math.nan, math.inf, "soon", "1", True, None, [1, 2]])
    def test_time(self, t):
        with pytest.raises(InputError, match="t must be"):
            diffusion_distance(PATH, 0, 1, t=t)

    def test_time_out_of_reach(self):
        assert diffusion_distance(PATH, 0, 1, t=1e12) == 0.0
        with (
            without_full_spectrum(),
            pytest.raises(InputError, match=r"t = 1e\+12 is beyond reach .* take t below 1e\+09"),
        ):
            diffusion_distance(PATH, 0, 1, t=1e12)

    @pytest.mark.parametrize("gamma", [-0.1, 1.1, math.nan])
    def test_gamma(self, gamma):
        with pytest.raises(InputError, match="gamma must be a number in"):
            diffusion_distance(PATH, 0, 1, t=1.0, gamma=gamma)

    def test_not_closer(self):
        with pytest.raises(InputError, match=r"d_s\(0, 2\) = 1.41421 is not below d_s\(1, 2\)"):
            order_time(PATH, 1, 2, 0)
        with pytest.raises(InputError, match=r"d_s\(2, 0\) = inf is not below d_s\(1, 0\)"):
            order_time(TWO_PAIRS, 1, 0, 2)
        with pytest.raises(InputError, match="is not below"):
            order_time(TWO_PAIRS, 4, 4, 4)
