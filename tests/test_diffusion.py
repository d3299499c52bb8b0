from __future__ import annotations

import copy
import re
import subprocess
import sys

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
import torch
import torch_geometric.transforms as T  # noqa: N812
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks
from torch_geometric.data import Batch, Data

from oracle import relabelled
from pdgnn import DiffusionFeatures, Graph, InputError
from pdgnn.diffusion import diffused, label_shares, reduction, singular_directions
from strategies import graphs

SCOPES = ((0.0, 1.0), (1.0, 1.0), (0.3, 0.6))


def dense_p(g: Graph, alpha: float, gamma: float) -> np.ndarray:
    """P^(α,γ) of Definition 3.1, entry by entry."""
    a = g.adjacency().toarray()
    degree = a.sum(axis=1)
    p = np.eye(g.num_nodes)
    m = gamma * degree + (1 - gamma)
    for i in np.flatnonzero(degree):
        p[i] = gamma * a[i] * m[i] ** -alpha * np.where(degree > 0, m, 1.0) ** (alpha - 1)
        p[i, i] = (1 - gamma) / m[i]
    return p


def by_hand(g: Graph, x: np.ndarray, scopes, hops: int) -> np.ndarray:
    powers = [
        np.linalg.matrix_power(dense_p(g, *s), k) @ x for s in scopes for k in range(1, hops + 1)
    ]
    return np.concatenate([x, *powers], axis=1)


def table(n: int, f: int = 3, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((n, f))


def path(n: int, **more) -> Data:
    index = torch.stack([torch.arange(n - 1), torch.arange(1, n)])
    x = torch.arange(2.0 * n).reshape(n, 2)
    return Data(x=x, edge_index=torch.cat([index, index.flip(0)], dim=1)).update(more)


class TestDiffused:
    @given(graphs(), st.integers(0, 4), st.integers(0, 99))
    def test_is_the_dense_computation(self, g, hops, seed):
        x = table(g.num_nodes, 2, seed)
        found = diffused(g, x, scopes=SCOPES, hops=hops)
        assert found.shape == (g.num_nodes, 2 * (1 + 3 * hops))
        assert found == pytest.approx(by_hand(g, x, SCOPES, hops), rel=1e-12, abs=1e-12)

    @given(graphs(), st.integers(0, 99))
    def test_sparse_is_dense(self, g, seed):
        x = table(g.num_nodes, 4, seed) * (table(g.num_nodes, 4, seed + 1) > 0.5)
        found = diffused(g, sp.csr_array(x), scopes=SCOPES, hops=2)
        assert sp.issparse(found)
        assert found.toarray() == pytest.approx(diffused(g, x, scopes=SCOPES, hops=2), abs=1e-12)

    def test_float32_is_rounded_once_at_the_end(self):
        g, x = Graph.from_edge_index([[0, 0, 1], [1, 2, 2]]), table(3).astype(np.float32)
        found = diffused(g, x, scopes=SCOPES, hops=3)
        assert found.dtype == np.float32
        exact = diffused(g, x.astype(np.float64), scopes=SCOPES, hops=3)
        assert (found == exact.astype(np.float32)).all()
        assert diffused(g, [[1], [2], [3]]).dtype == np.float64

    @given(graphs(), st.integers(0, 99))
    def test_nodes_in_another_order(self, g, seed):
        x = table(g.num_nodes, 2, seed)
        order = np.random.default_rng(seed).permutation(g.num_nodes)
        moved = np.empty_like(x)
        moved[order] = x
        found = diffused(relabelled(g, seed), moved, scopes=SCOPES, hops=2)[order]
        assert found == pytest.approx(diffused(g, x, scopes=SCOPES, hops=2), abs=1e-9)

    def test_what_is_refused(self):
        g = Graph.from_edge_index([[0], [1]])
        with pytest.raises(InputError, match=r"x has shape \(3, 2\); give a row for each of 2"):
            diffused(g, np.zeros((3, 2)))
        with pytest.raises(InputError, match="hops must be a whole number"):
            diffused(g, np.zeros((2, 2)), hops=-1)
        for scopes in ((0, 1), (), 3, ((1, 1, 1),)):
            with pytest.raises(InputError, match=r"scopes must be pairs \(alpha, gamma\)"):
                diffused(g, np.zeros((2, 2)), scopes=scopes)
        with pytest.raises(InputError, match=r"gamma must be a number in \[0, 1\]"):
            diffused(g, np.zeros((2, 2)), scopes=((1, 2),))


class TestLabelShares:
    @given(graphs(), st.integers(0, 99))
    def test_is_the_dense_computation_without_its_diagonal(self, g, seed):
        y = np.eye(4)[np.random.default_rng(seed).integers(0, 4, g.num_nodes)][:, :3]
        found = label_shares(g, sp.csr_array(y), scopes=SCOPES)
        matrices = [dense_p(g, *s) for s in SCOPES]
        expected = [(p - np.diag(np.diag(p))) @ y for p in matrices]
        assert found == pytest.approx(np.concatenate(expected, axis=1), abs=1e-12)

    @given(graphs(), st.integers(0, 99))
    def test_no_node_sees_its_own_label(self, g, seed):
        n, rng = g.num_nodes, np.random.default_rng(seed)
        y = np.concatenate([rng.integers(-1, 3, n), [0, 1, 2]])  # three more nodes have all classes
        larger = Graph.from_edge_index(g.edge_index, n + 3, g.edge_weight)
        features = DiffusionFeatures(SCOPES, hops=2, labels=True)
        before = features.fit_transform(table(n + 3), y, graph=larger)
        node = rng.integers(n)
        y[node] = {-1: 0, 0: 1, 1: 2, 2: -1}[y[node]]
        after = features.fit_transform(table(n + 3), y, graph=larger)
        assert (before[node] == after[node]).all()
        assert (
            (before != after).any(axis=1) == (larger.adjacency()[:, [node]] > 0).toarray()[:, 0]
        ).all()

    def test_two_hops_would_leak(self):
        p = dense_p(Graph.from_edge_index([[0, 1], [1, 2]]), 1.0, 1.0)
        assert (np.diag(p) == 0).all()
        assert (np.diag(p @ p) > 0).all()


class TestSingularDirections:
    @pytest.mark.parametrize("shape", [(40, 12), (12, 40), (20, 20)])
    @pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
    @pytest.mark.parametrize("limit", [2048, 0])
    def test_are_those_of_a_dense_svd(self, monkeypatch, shape, form, limit):
        monkeypatch.setattr("pdgnn.diffusion.GRAM_LIMIT", limit)
        x = table(*shape)
        found = singular_directions(form(x), 4)
        expected = np.linalg.svd(x)[2][:4]
        signs = np.sign(expected[np.arange(4), np.abs(expected).argmax(axis=1)])
        assert found == pytest.approx(expected * signs[:, None], abs=1e-8)

    @pytest.mark.parametrize("limit", [2048, 0])
    def test_the_same_bits_again_and_nothing_beyond_the_rank(self, monkeypatch, limit):
        monkeypatch.setattr("pdgnn.diffusion.GRAM_LIMIT", limit)
        x = table(30, 2) @ table(2, 20)  # of rank 2
        found = singular_directions(x, 5)
        assert (found == singular_directions(x.copy(), 5)).all()
        assert np.linalg.norm(found, axis=1) == pytest.approx([1, 1, 0, 0, 0], abs=1e-6)

    def test_fewer_rows_than_asked_for(self):
        assert singular_directions(table(3, 50), 8).shape == (3, 50)
        assert (singular_directions(np.zeros((5, 9)), 2) == 0).all()

    def test_only_wide_features_are_reduced(self):
        assert reduction(table(9, 8), 4) is None
        assert reduction(table(9, 9), 4).shape == (4, 9)
        assert reduction(table(9, 9), None) is None


class TestDiffusionFeatures:
    def test_all_of_it_by_hand(self):
        g = Graph.from_edge_index([[0, 0, 3], [1, 2, 4]], num_nodes=6)
        x = table(6, 9)
        found = DiffusionFeatures(SCOPES, hops=2, reduce=4).fit_transform(x, graph=g)
        components = singular_directions(x, 4)
        z = np.column_stack([x @ components.T, x.sum(axis=1), np.log(1 + g.degree)])
        assert found == pytest.approx(by_hand(g, z, SCOPES, 2), abs=1e-12)

    def test_options(self):
        g, x = Graph.from_edge_index([[0, 0], [1, 2]]), table(3)
        assert (
            DiffusionFeatures(degree=False, hops=0).fit_transform(x, graph=g).tolist() == x.tolist()
        )
        wide = table(3, 100)
        assert DiffusionFeatures(hops=1).fit_transform(wide, graph=g).shape == (3, 3 * (3 + 1 + 1))
        assert DiffusionFeatures(hops=1, reduce=None).fit_transform(wide, graph=g).shape == (3, 303)

    @pytest.mark.parametrize("reduce", [None, 3])
    def test_sparse_is_dense(self, reduce):
        g, x = Graph.from_edge_index([[0, 0, 3], [1, 2, 4]], num_nodes=6), np.eye(6, 12)
        y = np.array([0, 1, -1, 0, 1, 1])
        features = DiffusionFeatures(labels=True, reduce=reduce)
        dense = features.fit_transform(x, y, graph=g)
        for form in (sp.csr_array, sp.csr_matrix, sp.coo_array):
            found = features.fit_transform(form(x), y, graph=g)
            assert sp.issparse(found) == (reduce is None)
            assert (found.toarray() if sp.issparse(found) else found) == pytest.approx(
                dense, abs=1e-9
            )

    def test_graphs_of_all_kinds(self):
        data = path(5)
        g = Graph.from_data(data)
        x = data.x.double().numpy()
        expected = DiffusionFeatures().fit_transform(x, graph=g)
        for form in (data, data.edge_index, data.edge_index.numpy(), g.adjacency()):
            assert (DiffusionFeatures().fit_transform(x, graph=form) == expected).all()

    def test_a_new_graph(self):
        first, second = table(20, 100), table(7, 100, seed=1)
        g, h = (Graph.from_data(path(n)) for n in (20, 7))
        features = DiffusionFeatures(hops=1, labels=True).fit(first, np.arange(20) % 3, graph=g)
        found = features.transform(second, graph=h)
        z = np.column_stack(
            [second @ features.components_.T, second.sum(axis=1), np.log1p(h.degree)]
        )
        assert found[:, :-6] == pytest.approx(diffused(h, z, hops=1), abs=1e-12)
        assert (found[:, -6:] == 0).all()  # no label is known there
        with pytest.raises(
            InputError, match="X has 7 rows and the fitted graph 20 nodes; pass the"
        ):
            features.transform(second)
        assert (features.transform(first) == features.transform(first, graph=path(20))).all()

    def test_without_a_graph_it_says_so(self):
        with pytest.warns(UserWarning, match="no graph was given: every row is a node without"):
            features = DiffusionFeatures(hops=1).fit(table(4))
        found = features.transform(table(2))
        assert found == pytest.approx(np.tile(np.column_stack([table(2), np.zeros(2)]), 3))

    @pytest.mark.parametrize("y", [[0, 1, -1], ["a", "b", None], [0.0, 1.0, float("nan")]])
    def test_labels_that_are_not_known(self, y):
        features = DiffusionFeatures(((1, 1),), hops=1, labels=True)
        index = [[0, 1], [2, 2]]
        found = features.fit_transform(table(3), np.array(y, dtype=object), graph=index)
        assert features.classes_.tolist() == y[:2]
        assert found[:, -2:].tolist() == [[0, 0], [0, 0], [0.5, 0.5]]

    def test_names(self):
        g = Graph.from_edge_index([[0, 0], [1, 2]])
        features = DiffusionFeatures(((0, 0.5),), hops=2, labels=True)
        found = features.fit_transform(table(3, 2), ["a", "b", "a"], graph=g)
        names = features.get_feature_names_out().tolist()
        assert len(names) == found.shape[1]
        assert names[:4] == ["x0", "x1", "log_degree", "P(0,0.5)^1 x0"]
        assert names[-3:] == ["P(0,0.5)^2 log_degree", "P(0,0.5) label=a", "P(0,0.5) label=b"]
        wide = DiffusionFeatures(hops=1, reduce=1).fit(table(3, 3), graph=g)
        assert wide.get_feature_names_out()[:3].tolist() == ["svd0", "sum", "log_degree"]

    def test_pandas_out(self):
        import pandas as pd

        frame = pd.DataFrame(table(3, 2), columns=["age", "sex"], index=["a", "b", "c"])
        features = DiffusionFeatures(((1, 1),), hops=1).set_output(transform="pandas")
        found = features.fit_transform(frame, graph=[[0, 0], [1, 2]])
        assert found.columns[-1] == "P(1,1)^1 log_degree"
        assert found.index.tolist() == ["a", "b", "c"]
        assert found["P(1,1)^1 age"].tolist()[1:] == [frame["age"]["a"]] * 2

    def test_in_a_pipeline(self):
        import sklearn
        from sklearn.linear_model import LogisticRegression
        from sklearn.pipeline import make_pipeline

        g = Graph.from_data(path(20))
        y = np.arange(20) % 2
        with sklearn.config_context(enable_metadata_routing=True):
            features = DiffusionFeatures().set_fit_request(graph=True)
            features.set_transform_request(graph=True)
            model = make_pipeline(features, LogisticRegression()).fit(y[:, None], y, graph=g)
            assert model.score(y[:, None], y, graph=g) == 1.0

    def test_what_is_refused(self):
        g = Graph.from_edge_index([[0, 0], [1, 2]])
        with pytest.raises(InputError, match="the graph has 3 nodes, and there are 4 rows"):
            DiffusionFeatures().fit(table(4), graph=g)
        with pytest.raises(InputError, match="labels=True needs y"):
            DiffusionFeatures(labels=True).fit(table(3), graph=g)
        with pytest.raises(
            InputError, match=r"y has shape \(2,\); give a label for each of 3 rows"
        ):
            DiffusionFeatures(labels=True).fit(table(3), [0, 1], graph=g)
        with pytest.raises(InputError, match="labels of several types"):
            DiffusionFeatures(labels=True).fit(table(3), np.array([0, "a", 1], object), graph=g)
        with pytest.raises(InputError, match="reduce must be a whole number of at least 1, not 0"):
            DiffusionFeatures(reduce=0).fit(table(3), graph=g)
        with pytest.raises(InputError, match="scopes must be pairs"):
            DiffusionFeatures(scopes=(1, 1)).fit(table(3), graph=g)
        for other in (nx.path_graph(3), "edges.csv"):
            with pytest.raises(InputError, match=r"graph is of type (Graph|str); give a pdgnn.Gra"):
                DiffusionFeatures().fit(table(3), graph=other)


class TestAsTransform:
    def test_a_new_data(self):
        data = path(5, y=torch.arange(5))
        before = copy.copy(data)
        found = T.Compose([DiffusionFeatures(hops=1)])(data)
        assert data.x is before.x
        assert found.y is data.y
        expected = DiffusionFeatures(hops=1).fit_transform(data.x.numpy(), graph=data)
        assert found.x.dtype == torch.float32
        assert (found.x.numpy() == expected).all()

    def test_it_stays_as_it_was(self):
        features = DiffusionFeatures(hops=1)
        features(path(5))
        assert vars(features) == vars(clone(features))

    def test_fitted_before(self):
        first, second = (path(n, x=torch.from_numpy(table(n, 100)).float()) for n in (30, 40))
        features = DiffusionFeatures(hops=1).fit(first.x.numpy(), graph=first)
        found = features(second).x.numpy()
        assert (found == features.transform(second.x.numpy(), graph=second)).all()

    def test_a_batch_is_its_graphs(self):
        both = [path(3), path(5)]
        found = DiffusionFeatures(hops=2)(Batch.from_data_list(both)).to_data_list()
        for one, graph in zip(found, both, strict=True):
            assert one.x.equal(DiffusionFeatures(hops=2)(graph).x)

    def test_labels_are_those_of_the_training_nodes(self):
        mask = torch.tensor([True, False, True])
        data = path(3, y=torch.tensor([0, 1, 1]), train_mask=mask)
        found = DiffusionFeatures(((1, 1),), hops=1, labels=True)(data)
        assert found.x[:, -2:].tolist() == [[0, 0], [0.5, 0.5], [0, 0]]
        for lacking in (path(3), path(3, y=data.y), path(3, y=data.y, train_mask=mask[:, None])):
            with pytest.raises(InputError, match=re.escape("data.y and a data.train_mask [N]")):
                DiffusionFeatures(labels=True)(lacking)

    def test_what_is_refused(self):
        for nothing in (Data(edge_index=torch.tensor([[0], [1]])), "graph"):
            with pytest.raises(InputError, match="needs a PyG Data with node features x"):
                DiffusionFeatures()(nothing)


@pytest.mark.filterwarnings("ignore:no graph was given")
@parametrize_with_checks([DiffusionFeatures(), DiffusionFeatures(reduce=1, hops=1)])
def test_the_checks_of_scikit_learn(estimator, check):
    check(estimator)


def test_importing_the_package_does_not_import_scikit_learn():
    code = "import sys, pdgnn; sys.exit('sklearn' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
