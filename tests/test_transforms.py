from __future__ import annotations

import copy
import math

import numpy as np
import pytest
import torch
import torch_geometric.transforms as T  # noqa: N812
from hypothesis import given
from hypothesis import strategies as st
from torch_geometric.data import Batch, Data, HeteroData
from torch_geometric.loader import DataLoader

from pdgnn import Graph, eigenpairs
from pdgnn.direction import direction_features
from pdgnn.errors import InputError
from pdgnn.rewiring import rewire
from pdgnn.transforms import AddDirectionFeatures, AddSpectralEmbedding, RewireToGradientNode
from strategies import graphs

EACH = [AddSpectralEmbedding(k=2), AddDirectionFeatures(), RewireToGradientNode()]
ROOT = 1 / math.sqrt(2)


def path(n: int = 3, **more) -> Data:
    """A path, both ways of every edge, with all kinds of attributes."""
    one_way = torch.stack([torch.arange(n - 1), torch.arange(1, n)])
    data = Data(
        x=torch.arange(2.0 * n).reshape(n, 2),
        y=torch.arange(n) % 2,
        train_mask=torch.arange(n) < 2,
        edge_index=torch.cat([one_way, one_way.flip(0)], dim=1),
        name="path",
    )
    return data.update(more)


def same(a: Data, b: Data) -> bool:
    """Whether two graphs hold the same attributes with the same values."""
    if set(a.keys()) != set(b.keys()) or type(a) is not type(b):
        return False
    pairs = [(a[key], b[key]) for key in a.keys()]  # noqa: SIM118
    return all(x.equal(y) if isinstance(x, torch.Tensor) else x == y for x, y in pairs)


def as_data(g: Graph) -> Data:
    data = Data(edge_index=g.edge_index, num_nodes=g.num_nodes)
    return data.update({"edge_weight": g.edge_weight}) if g.is_weighted else data


class TestEach:
    @pytest.mark.parametrize("transform", EACH, ids=lambda t: type(t).__name__)
    def test_input_is_left_alone(self, transform):
        data = path(5, edge_attr=torch.arange(8.0), edge_weight=torch.arange(1.0, 5.0).repeat(2))
        before, stores = copy.deepcopy(data), {k: data[k] for k in data.keys()}  # noqa: SIM118
        after = transform(data)
        assert same(data, before)
        assert all(data[k] is v for k, v in stores.items())
        assert not same(after, before)
        batch = Batch.from_data_list(
            [data, path(3, edge_attr=torch.ones(4), edge_weight=torch.ones(4))]
        )
        before = copy.deepcopy(batch)
        transform(batch)
        assert same(batch, before)

    @pytest.mark.parametrize("transform", EACH, ids=lambda t: type(t).__name__)
    def test_what_belongs_to_nodes_and_graph_stays(self, transform):
        data = path(5)
        after = transform(data)
        for key in ("x", "y", "train_mask", "name"):
            assert after[key] is data[key]
        assert after.num_nodes == 5

    @pytest.mark.parametrize("transform", EACH, ids=lambda t: type(t).__name__)
    def test_no_edges(self, transform):
        data = Data(edge_index=torch.empty(2, 0, dtype=torch.long), num_nodes=3)
        after = transform(data)
        assert after.edge_index.shape == (2, 0)
        assert after.num_nodes == 3
        if "spectral_embedding" in after:
            assert after.spectral_embedding.tolist() == [[0.0, 0.0]] * 3
        if "edge_attr" in after:
            assert after.edge_attr.shape == (0, 2)

    @pytest.mark.parametrize("transform", EACH, ids=lambda t: type(t).__name__)
    def test_bad_data(self, transform):
        with pytest.raises(InputError, match="this Data has no edge_index"):
            transform(Data(num_nodes=3))
        with pytest.raises(InputError, match=r"not HeteroData; call to_homogeneous\(\) first"):
            transform(HeteroData())
        with pytest.raises(InputError, match="not str"):
            transform("graph")

    @pytest.mark.parametrize(
        "kind", [AddSpectralEmbedding, AddDirectionFeatures, RewireToGradientNode]
    )
    def test_bad_options_are_told_at_once(self, kind):
        with pytest.raises(InputError, match="alpha must be a number in"):
            kind(alpha=1.5)
        with pytest.raises(InputError, match="gamma must be a number in"):
            kind(gamma=-0.5)
        with pytest.raises(TypeError):
            kind(1.0)

    def test_repr(self):
        assert repr(AddSpectralEmbedding(k=2, gamma=0.5)) == (
            "AddSpectralEmbedding(k=2, alpha=1.0, gamma=0.5, attr_name='spectral_embedding')"
        )
        assert repr(AddDirectionFeatures(cat=False)) == (
            "AddDirectionFeatures(alpha=1.0, gamma=1.0, normalize=True, attr_name='edge_attr', "
            "cat=False)"
        )
        assert repr(RewireToGradientNode(reach="far")) == (
            "RewireToGradientNode(alpha=1.0, gamma=1.0, reach='far')"
        )

    def test_functional_names(self):
        from torch_geometric.data.datapipes import DatasetAdapter

        pipe = DatasetAdapter([path(3)]).pd_rewire().pd_direction_features(gamma=0.5)
        (data,) = list(pipe.pd_spectral_embedding(k=2))
        assert data.edge_index.shape == (2, 6)
        assert data.edge_attr.shape == (6, 2)
        assert data.spectral_embedding.shape == (3, 2)

    def test_composed(self):
        transform = T.Compose(
            [RewireToGradientNode(gamma=0.5), T.AddSelfLoops(), AddDirectionFeatures(gamma=0.5)]
        )
        after = transform(path(4))
        g = rewire(Graph.from_data(path(4)), gamma=0.5)
        phi = eigenpairs(g, gamma=0.5).eigenvectors(1.0)[:, 0]
        assert after.edge_index.shape == (2, 2 * g.num_edges + 4)
        expected = direction_features(g, phi, edge_index=after.edge_index)
        assert after.edge_attr.equal(expected)


class TestBatch:
    @pytest.mark.parametrize("transform", EACH, ids=lambda t: type(t).__name__)
    def test_is_its_graphs(self, transform):
        alone = [path(3), path(6), path(4)]
        after = transform(Batch.from_data_list(alone))
        assert isinstance(after, Batch)
        assert after.num_graphs == 3
        for ours, data in zip(after.to_data_list(), alone, strict=True):
            assert same(ours, transform(data))
        assert after.batch.tolist() == [0] * 3 + [1] * 6 + [2] * 4

    @given(st.lists(graphs(max_nodes=8, weighted=False), min_size=1, max_size=4))
    def test_is_one_disconnected_graph(self, several):
        batch = Batch.from_data_list([as_data(g) for g in several])
        whole = Data(edge_index=batch.edge_index, num_nodes=batch.num_nodes)
        for transform in EACH[1:]:
            ours, flat = transform(batch), transform(whole)
            assert ours.edge_index.tolist() == flat.edge_index.tolist()
            if "edge_attr" in flat:
                assert ours.edge_attr.numpy() == pytest.approx(flat.edge_attr.numpy(), abs=1e-5)

    def test_what_the_loader_added_stays(self):
        loader = DataLoader([path(3), path(4)], batch_size=2, follow_batch=["y"])
        (batch,) = list(loader)
        after = RewireToGradientNode()(batch)
        assert after.y_batch.tolist() == [0] * 3 + [1] * 4
        assert after.name == ["path", "path"]

    def test_made_by_hand(self):
        batch = Batch(edge_index=path(3).edge_index, batch=torch.zeros(3, dtype=torch.long))
        assert AddDirectionFeatures()(batch).edge_attr.shape == (4, 2)


class TestAddSpectralEmbedding:
    def test_path(self):
        data = AddSpectralEmbedding(k=2, gamma=0.0)(path(3))
        assert data.spectral_embedding.dtype == torch.float32
        assert data.spectral_embedding[:, 0].tolist() == pytest.approx([ROOT, 0, -ROOT], abs=1e-6)
        second = np.array([1.0, -2.0, 1.0]) / math.sqrt(6)
        assert data.spectral_embedding[:, 1].abs().tolist() == pytest.approx(abs(second))

    def test_isolated_nodes_and_small_components(self):
        data = Data(edge_index=torch.tensor([[0, 2, 3], [1, 3, 4]]), num_nodes=6)
        phi = AddSpectralEmbedding(k=2)(data).spectral_embedding
        assert phi[5].tolist() == [0.0, 0.0]
        assert phi[[0, 1], 0].abs().tolist() == pytest.approx([ROOT, ROOT])
        assert phi[[0, 1], 1].tolist() == [0.0, 0.0]
        assert phi[[2, 4], 0].abs().tolist() == pytest.approx([ROOT, ROOT])

    def test_names(self):
        assert AddSpectralEmbedding(attr_name="phi")(path(4)).phi.shape == (4, 1)
        joined = AddSpectralEmbedding(k=2, attr_name=None)(path(4))
        assert joined.x.shape == (4, 4)
        assert joined.x[:, :2].equal(path(4).x)
        bare = Data(edge_index=path(4).edge_index, num_nodes=4)
        assert AddSpectralEmbedding(k=2, attr_name=None)(bare).x.shape == (4, 2)

    @given(graphs(), st.sampled_from([0.0, 0.5, 1.0]), st.sampled_from([0.0, 0.3, 1.0]))
    def test_is_the_function(self, g, alpha, gamma):
        transform = AddSpectralEmbedding(k=3, alpha=alpha, gamma=gamma)
        expected = eigenpairs(g, gamma=gamma, k=3).eigenvectors(alpha)
        assert transform(as_data(g)).spectral_embedding.numpy() == pytest.approx(expected, abs=1e-6)

    @pytest.mark.parametrize("k", [0, -1, 1.5, "2"])
    def test_bad_k(self, k):
        with pytest.raises(InputError, match="k must be a whole number of at least 1"):
            AddSpectralEmbedding(k=k)


class TestAddDirectionFeatures:
    def test_edges_stay_as_they_are_given(self):
        # One way only, unsorted, doubled, with a self-loop.
        data = Data(edge_index=torch.tensor([[2, 0, 0, 1], [1, 1, 1, 1]]), num_nodes=3)
        after = AddDirectionFeatures()(data)
        assert after.edge_index is data.edge_index
        f = after.edge_attr
        assert f.dtype == torch.float32
        expected = [[0.5, -0.5], [0.5, 0.5], [0.5, 0.5], [0.0, 0.0]]  # φ = (1, 0, −1) / √2
        assert f.numpy() == pytest.approx(np.array(expected), abs=1e-6)

    def test_cat(self):
        data = path(3, edge_attr=torch.arange(4))
        joined = AddDirectionFeatures()(data).edge_attr
        alone = AddDirectionFeatures(cat=False)(data).edge_attr
        assert joined.shape == (4, 3)
        assert joined.dtype == torch.float32  # whole numbers give way
        assert joined[:, 0].tolist() == [0.0, 1.0, 2.0, 3.0]
        assert joined[:, 1:].equal(alone)
        wide = path(3, edge_attr=torch.ones(4, 2, dtype=torch.float64))
        assert AddDirectionFeatures()(wide).edge_attr.dtype == torch.float64
        assert AddDirectionFeatures()(wide).edge_attr.shape == (4, 4)

    def test_another_name(self):
        after = AddDirectionFeatures(attr_name="direction")(path(3, edge_attr=torch.ones(4)))
        assert after.direction.shape == (4, 2)
        assert after.edge_attr.tolist() == [1.0] * 4

    @given(graphs(), st.sampled_from([0.0, 0.5, 1.0]), st.sampled_from([0.0, 0.3, 1.0]))
    def test_is_the_function(self, g, alpha, gamma):
        for normalize in (True, False):
            transform = AddDirectionFeatures(alpha=alpha, gamma=gamma, normalize=normalize)
            phi = eigenpairs(g, gamma=gamma).eigenvectors(alpha)[:, 0]
            expected = direction_features(g, phi, normalize=normalize)
            assert transform(as_data(g)).edge_attr.equal(expected)

    def test_an_edge_of_weight_zero(self):
        data = path(3, edge_weight=torch.tensor([1.0, 0.0, 1.0, 0.0]))
        with pytest.raises(InputError, match=r"\(1, 2\) is not an edge .*weight zero is none"):
            AddDirectionFeatures()(data)


class TestRewireToGradientNode:
    def test_path(self):
        after = RewireToGradientNode()(path(4))
        assert after.is_undirected()
        expected = [[0, 0, 0, 1, 1, 2, 2, 2, 3, 3], [1, 2, 3, 0, 2, 0, 1, 3, 0, 2]]
        assert after.edge_index.tolist() == expected
        assert "edge_weight" not in after
        assert "edge_attr" not in after

    def test_one_way_edges_loops_and_duplicates(self):
        data = Data(edge_index=torch.tensor([[1, 2, 1, 1], [0, 1, 1, 0]]), num_nodes=3)
        after = RewireToGradientNode()(data)
        assert after.edge_index.tolist() == [[0, 0, 1, 1, 2, 2], [1, 2, 0, 2, 0, 1]]

    def test_edge_attributes_follow_their_edges(self):
        data = Data(
            edge_index=torch.tensor([[1, 0, 2, 1], [0, 1, 1, 1]]),
            edge_attr=torch.tensor([[10.0, 1.0], [1.0, 1.0], [21.0, 1.0], [11.0, 1.0]]),
            edge_type=torch.tensor([3, 4, 5, 6]),
            edge_label_index=torch.tensor([[0, 0, 1, 2], [1, 2, 2, 0]]),
            num_nodes=3,
        )
        after = RewireToGradientNode()(data)
        assert after.edge_index.tolist() == [[0, 0, 1, 1, 2, 2], [1, 2, 0, 2, 0, 1]]
        assert after.edge_attr[:, 0].tolist() == [1.0, 0.0, 10.0, 21.0, 0.0, 21.0]
        assert after.edge_attr[:, 1].tolist() == [1.0, 0.0, 1.0, 1.0, 0.0, 1.0]
        assert after.edge_type.tolist() == [4, 0, 3, 5, 0, 5]
        assert after.edge_label_index is data.edge_label_index

    def test_edge_weight(self):
        weight = torch.tensor([2.0, 3.0, 2.0, 3.0], dtype=torch.float64)
        after = RewireToGradientNode()(path(3, edge_weight=weight))
        assert after.edge_index.tolist() == [[0, 0, 1, 1, 2, 2], [1, 2, 0, 2, 0, 1]]
        assert after.edge_weight.tolist() == [2.0, 1.0, 2.0, 3.0, 1.0, 3.0]
        assert after.edge_weight.dtype == torch.float64
        column = RewireToGradientNode()(path(3, edge_weight=weight.float()[:, None]))
        assert column.edge_weight.shape == (6, 1)
        assert column.edge_weight.dtype == torch.float32

    @given(graphs(), st.sampled_from(["all", "far"]), st.sampled_from([0.0, 0.3, 1.0]))
    def test_is_the_function(self, g, reach, gamma):
        data = as_data(g)
        data.edge_attr = torch.arange(1.0, data.num_edges + 1)
        after = RewireToGradientNode(alpha=0.3, gamma=gamma, reach=reach)(data)
        expected = rewire(g, alpha=0.3, gamma=gamma, reach=reach)
        assert after.edge_index.equal(expected.edge_index)
        if g.is_weighted:
            assert after.edge_weight.equal(expected.edge_weight)
        # What is not new keeps its attribute, in the order in which it stood.
        assert after.edge_attr[after.edge_attr > 0].equal(data.edge_attr)
        assert int((after.edge_attr == 0).sum()) == 2 * expected.added.shape[1]

    def test_an_attribute_that_cannot_follow(self):
        with pytest.raises(InputError, match="edge attribute 'names' is a list"):
            RewireToGradientNode()(path(3, names=["a", "b", "c", "d"]))

    def test_bad_reach(self):
        with pytest.raises(InputError, match="reach must be 'all' or 'far', not 'wide'"):
            RewireToGradientNode(reach="wide")
