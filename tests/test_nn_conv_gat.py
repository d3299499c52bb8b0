"""PDGATConv against PyG's GATConv with the same parameters, forward and backward."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch_geometric.nn import GATConv
from torch_geometric.utils import to_torch_coo_tensor

from layers import EDGE_INDEX, normal, same
from pdgnn import Graph, direction_features
from pdgnn.nn import PDGATConv, PDGCNConv
from pdgnn.ops import Edges
from strategies import graphs

GRAPH = Graph.from_edge_index(EDGE_INDEX, 5)
# one-way edges, a duplicate, a self-loop and a node nothing leads to
MESSY = torch.tensor([[0, 1, 1, 2, 3, 3, 3, 2], [1, 2, 2, 0, 3, 0, 1, 4]])

SPARSE = pytest.mark.filterwarnings("ignore:Sparse invariant checks")


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(0)


def pair(in_channels, *, heads: int, concat: bool = True, **options) -> tuple[PDGATConv, GATConv]:
    """Ours and PyG's with the same parameters, by state_dict."""
    options.setdefault("edge_dim", 2)
    peer = GATConv(in_channels, 3, heads=heads, concat=concat, **options).double()
    if peer.bias is not None:
        nn.init.normal_(peer.bias)
    conv = PDGATConv(in_channels, 3, heads=heads, concat=concat, **options).double()
    assert conv.state_dict().keys() == peer.state_dict().keys()
    conv.load_state_dict(peer.state_dict())
    return conv, peer


def assert_alike(conv: nn.Module, peer: nn.Module, inputs: list[Tensor | None], call) -> None:
    """Same outputs, and same gradients to all inputs and parameters."""
    found = []
    for module in (conv, peer):
        own = [None if t is None else t.clone().requires_grad_() for t in inputs]
        out = call(module, *own)
        weight = normal(*out.shape, seed=9)
        wanted = [t for t in own if t is not None] + list(module.parameters())
        grads = torch.autograd.grad((out.tanh() * weight).sum(), wanted, allow_unused=True)
        found.append((out, grads))
    (out, grads), (expected, expected_grads) = found
    assert out.shape == expected.shape
    assert same(out, expected)
    assert len(grads) == len(expected_grads)
    for one, other in zip(grads, expected_grads, strict=True):
        if one is None or other is None:  # not used, so it does not matter
            assert all(gradient is None or (gradient == 0).all() for gradient in (one, other))
        else:
            assert same(one, other)


@pytest.mark.parametrize("heads", [1, 4])
@pytest.mark.parametrize("concat", [True, False])
@pytest.mark.parametrize("loops", [True, False])
@pytest.mark.parametrize("edge_dim", [None, 2])
def test_it_is_gat(heads, concat, loops, edge_dim):
    conv, peer = pair(5, heads=heads, concat=concat, add_self_loops=loops, edge_dim=edge_dim)
    attr = None if edge_dim is None else normal(8, 2, seed=1)
    assert_alike(conv, peer, [normal(5, 5), attr], lambda m, x, f: m(x, MESSY, f))


@pytest.mark.parametrize("concat", [True, False])
def test_residual(concat):
    conv, peer = pair(5, heads=2, concat=concat, residual=True)
    assert "res.weight" in conv.state_dict()
    assert_alike(conv, peer, [normal(5, 5), normal(8, 2)], lambda m, x, f: m(x, MESSY, f))
    inputs = [normal(5, 5), normal(3, 4, seed=1)]
    conv, peer = pair((5, 4), heads=2, concat=concat, residual=True, add_self_loops=False)
    assert_alike(conv, peer, inputs, lambda m, x, y: m((x, y), BIPARTITE))
    assert_alike(conv, peer, inputs[:1], lambda m, x: m((x, None), BIPARTITE, size=(5, 3)))


def test_heads_may_be_the_third_argument():
    conv, peer = PDGATConv(5, 3, 4, edge_dim=None), GATConv(5, 3, 4)
    conv.load_state_dict(peer.state_dict())
    assert torch.allclose(conv(torch.eye(5), MESSY), peer(torch.eye(5), MESSY), atol=1e-6)


def test_features_may_be_left_out():
    conv, peer = pair(5, heads=2)
    assert_alike(conv, peer, [normal(5, 5)], lambda m, x: m(x, MESSY))


@pytest.mark.parametrize("fill_value", ["add", "max", 0.5, torch.tensor([1.0, -2.0])])
def test_features_of_added_loops(fill_value):
    if isinstance(fill_value, Tensor):
        fill_value = fill_value.double()
    conv, peer = pair(5, heads=2, fill_value=fill_value, negative_slope=0.5, bias=False)
    assert_alike(conv, peer, [normal(5, 5), normal(8, 2)], lambda m, x, f: m(x, MESSY, f))


def test_a_single_feature_may_be_a_vector():
    conv, peer = pair(5, heads=2, edge_dim=1)
    assert_alike(conv, peer, [normal(5, 5), normal(8)], lambda m, x, f: m(x, MESSY, f))


BIPARTITE = torch.tensor([[0, 1, 2, 3, 4, 0], [0, 0, 1, 2, 2, 2]])


@pytest.mark.parametrize("loops", [True, False])
def test_two_kinds_of_nodes(loops):
    conv, peer = pair((5, 4), heads=2, add_self_loops=loops)
    inputs = [normal(5, 5), normal(3, 4, seed=1), normal(6, 2, seed=2)]
    assert_alike(conv, peer, inputs, lambda m, x, y, f: m((x, y), BIPARTITE, f))
    assert_alike(conv, peer, inputs, lambda m, x, y, f: m((x, y), BIPARTITE, f, size=(5, 3)))


def test_two_sets_of_nodes_of_one_kind():
    conv, peer = pair(5, heads=2, add_self_loops=False)
    inputs = [normal(5, 5), normal(3, 5, seed=1), normal(6, 2, seed=2)]
    assert_alike(conv, peer, inputs, lambda m, x, y, f: m((x, y), BIPARTITE, f))


def test_targets_without_features():
    conv, peer = pair((5, 4), heads=2, add_self_loops=False)
    inputs = [normal(5, 5), normal(6, 2, seed=2)]
    assert_alike(conv, peer, inputs, lambda m, x, f: m((x, None), BIPARTITE, f, size=(5, 3)))
    assert_alike(conv, peer, inputs, lambda m, x, f: m((x, None), BIPARTITE, f))


def test_one_x_for_two_linear_maps():
    conv, peer = pair((5, 5), heads=2)
    assert_alike(conv, peer, [normal(5, 5), normal(8, 2)], lambda m, x, f: m(x, MESSY, f))


@settings(max_examples=25)
@given(graphs(max_nodes=12), st.sampled_from([1, 2, 8]), st.booleans())
def test_it_is_gat_on_any_graph(g, heads, loops):
    conv, peer = pair(4, heads=heads, add_self_loops=loops)
    inputs = [normal(g.num_nodes, 4), normal(g.edge_index.shape[1], 2, seed=1)]
    assert_alike(conv, peer, inputs, lambda m, x, f: m(x, g.edge_index, f))


def test_lazy_channels():
    for in_channels, x in ((-1, normal(5, 7)), ((-1, -1), (normal(5, 7), normal(3, 4)))):
        conv = PDGATConv(in_channels, 3, heads=2).double()
        peer = GATConv(in_channels, 3, heads=2, edge_dim=2).double()
        edge_index = BIPARTITE if isinstance(x, tuple) else MESSY
        attr = normal(edge_index.shape[1], 2)
        conv(x, edge_index, attr), peer(x, edge_index, attr)
        conv.load_state_dict(peer.state_dict())
        assert same(conv(x, edge_index, attr), peer(x, edge_index, attr))
    lazy = PDGCNConv(-1, 3)
    assert lazy(torch.ones(5, 7), EDGE_INDEX).shape == (5, 3)
    assert lazy.lin.weight.shape == (3, 7)


@pytest.mark.parametrize("loops", [True, False])
def test_attention_weights(loops):
    conv, peer = pair(5, heads=2, add_self_loops=loops)
    x, attr = normal(5, 5), normal(8, 2)
    out, (edge_index, p) = conv(x, MESSY, attr, return_attention_weights=True)
    expected, (expected_index, expected_p) = peer(x, MESSY, attr, return_attention_weights=True)
    assert same(out, expected)
    assert torch.equal(edge_index, expected_index)
    assert same(p, expected_p)


def test_attention_weights_of_edges_are_in_their_slots():
    conv, peer = pair(5, heads=2, add_self_loops=False)
    x, attr, edges = normal(5, 5), normal(8, 2), Edges.from_edge_index(MESSY, num_nodes=5)
    _, (_, expected) = peer(x, MESSY, attr, return_attention_weights=True)
    _, (edge_index, p) = conv(x, edges, edges.sorted(attr), return_attention_weights=True)
    assert torch.equal(edge_index, MESSY[:, edges.order])
    assert same(p, expected[edges.order])


def test_dropped_attention_is_zero_and_the_rest_scaled():
    torch.manual_seed(0)
    conv = PDGATConv(4, 3, heads=2, dropout=0.5, bias=False).double()
    g = Graph.from_edge_index(np.argwhere(np.triu(np.ones((12, 12)), 1)).T)
    x, attr = normal(12, 4), normal(g.edge_index.shape[1], 2)
    out, (edge_index, p) = conv(x, g.edge_index, attr, return_attention_weights=True)
    h = (x @ conv.lin.weight.T).view(12, 2, 3)
    by_hand = (
        torch.zeros(12, 2, 3).double().index_add(0, edge_index[1], p[..., None] * h[edge_index[0]])
    )
    assert same(out, by_hand.flatten(1))
    conv.eval()
    _, (_, kept) = conv(x, g.edge_index, attr, return_attention_weights=True)
    dropped = p == 0
    assert 0.4 < dropped.double().mean() < 0.6
    assert same(p[~dropped], 2 * kept[~dropped])


@SPARSE
def test_features_of_a_sparse_adjacency_matrix():
    conv, _ = pair(5, heads=2)
    attr = normal(8, 2)
    adj_t = to_torch_coo_tensor(EDGE_INDEX.flip(0), attr, size=(5, 5))
    order = (EDGE_INDEX[1] * 5 + EDGE_INDEX[0]).argsort()
    assert same(conv(normal(5, 5), adj_t), conv(normal(5, 5), EDGE_INDEX[:, order], attr[order]))


def test_edges_are_taken_as_they_are():
    """No loops are added; those there stay, with their features."""
    phi = [1.0, 2.0, 5.0, 3.0, 0.0]
    looped = torch.cat([EDGE_INDEX, torch.arange(5).expand(2, -1)], dim=1)
    attr = direction_features(GRAPH, phi, edge_index=looped).double()
    edges = Edges.from_edge_index(looped, num_nodes=5)
    conv, peer = pair(5, heads=2)
    peer.add_self_loops = False
    assert same(conv(normal(5, 5), edges, edges.sorted(attr)), peer(normal(5, 5), looped, attr))
