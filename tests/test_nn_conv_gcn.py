"""PDGCNConv and PDGATConv against dense matrices and PyG's own layers."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.func import vmap
from torch_geometric.nn import GCNConv, SAGEConv, Sequential
from torch_geometric.utils import to_torch_coo_tensor

from layers import EDGE_INDEX, normal, same
from pdgnn import Graph, InputError, diffusion_matrix, diffusion_weights
from pdgnn.nn import PDGCN, PDGATConv, PDGCNConv, PDNet, conv_gcn
from pdgnn.ops import Edges
from strategies import graphs

X = torch.ones(5, 3)
EDGES = Edges.from_edge_index(EDGE_INDEX, num_nodes=5)
UNIT = st.sampled_from([0.0, 0.5, 1.0]) | st.floats(0.0, 1.0)

SPARSE = pytest.mark.filterwarnings("ignore:Sparse invariant checks")


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(0)


def test_on_paper():
    """A path 0 - 1 - 2 at γ = ½, α = 1: M = (1, 1.5, 1), so row 1 of P is (1/3, 1/3, 1/3)."""
    conv = PDGCNConv(1, 1, gamma=0.5, bias=False)
    nn.init.ones_(conv.lin.weight)
    out = conv(torch.tensor([[3.0], [6.0], [12.0]]), torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]))
    assert torch.allclose(out, torch.tensor([[4.5], [7.0], [9.0]]))


@given(graphs(max_nodes=10), UNIT, UNIT)
def test_it_is_p_x_w_plus_b(g, alpha, gamma):
    conv = PDGCNConv(3, 4, alpha=alpha, gamma=gamma).double()
    conv.bias.data = normal(4, seed=1)
    x = normal(g.num_nodes, 3)
    p = torch.from_numpy(diffusion_matrix(g, alpha=alpha, gamma=gamma).toarray())
    expected = p @ x @ conv.lin.weight.T + conv.bias
    assert same(conv(x, g.edge_index, g.edge_weight), expected)
    edges = Edges.from_edge_index(g.edge_index, num_nodes=g.num_nodes)
    assert same(conv(x, edges, edges.sorted(g.edge_weight)), expected)


@pytest.mark.parametrize("weighted", [False, True])
def test_at_one_half_and_one_it_is_gcn_without_loops(weighted):
    g = Graph.from_edge_index([[0, 1, 2, 1], [1, 2, 0, 3]])
    weight = None
    if weighted:
        g = Graph.from_edge_index([[0, 1, 2, 1], [1, 2, 0, 3]], edge_weight=[0.5, 2.0, 1.0, 3.0])
        weight = g.edge_weight
    peer = GCNConv(3, 4, add_self_loops=False).double()
    nn.init.normal_(peer.bias)
    conv = PDGCNConv(3, 4, alpha=0.5, gamma=1.0).double()
    conv.load_state_dict(peer.state_dict())
    x, twin = (normal(4, 3).requires_grad_() for _ in range(2))
    out, expected = conv(x, g.edge_index, weight), peer(twin, g.edge_index, weight)
    assert same(out, expected)
    (out**2).sum().backward()
    (expected**2).sum().backward()
    assert same(x.grad, twin.grad)
    assert same(conv.lin.weight.grad, peer.lin.weight.grad)
    assert same(conv.bias.grad, peer.bias.grad)


def test_at_one_and_one_it_is_the_mean_of_the_neighbours():
    g = Graph.from_edge_index([[0, 1, 2, 1], [1, 2, 0, 3]])
    peer = SAGEConv(3, 4, aggr="mean", root_weight=False, bias=False).double()
    conv = PDGCNConv(3, 4, bias=False).double()
    conv.lin.weight.data = peer.lin_l.weight.data
    assert same(conv(normal(4, 3), g.edge_index), peer(normal(4, 3), g.edge_index))


def test_self_loops_are_dropped_with_their_weights():
    conv = PDGCNConv(3, 4, gamma=0.3).double()
    looped = torch.cat([torch.tensor([[4, 1], [4, 1]]), EDGE_INDEX], dim=1)
    weight = torch.rand(8, dtype=torch.float64)
    x = normal(5, 3)
    assert torch.equal(conv(x, looped), conv(x, EDGE_INDEX))
    more = torch.cat([torch.full((2,), 7.0), weight])
    assert torch.equal(conv(x, looped, more), conv(x, EDGE_INDEX, weight))


@SPARSE
def test_a_sparse_adjacency_matrix_goes_from_column_to_row():
    conv = PDGCNConv(3, 4, alpha=0.8, gamma=0.6).double()
    weight = torch.arange(1.0, 9.0, dtype=torch.float64)  # not symmetric, to tell the two ways
    adj_t = to_torch_coo_tensor(EDGE_INDEX.flip(0), weight, size=(5, 5))
    assert same(conv(normal(5, 3), adj_t), conv(normal(5, 3), EDGE_INDEX, weight))


@SPARSE
def test_a_sparse_matrix_in_any_order_stays_as_it_was_and_its_entries_are_summed():
    conv = PDGCNConv(3, 4).double()
    weight = torch.arange(1.0, 9.0, dtype=torch.float64)
    order = torch.randperm(8)
    twice = torch.cat([order, order[:3]])
    halved = weight[twice] / torch.bincount(twice)[twice]
    adj_t = torch.sparse_coo_tensor(EDGE_INDEX.flip(0)[:, twice], halved, (5, 5))
    assert same(conv(normal(5, 3), adj_t), conv(normal(5, 3), EDGE_INDEX, weight))
    assert not adj_t.is_coalesced()


def test_a_block_with_the_degrees_of_the_graph_gives_rows_of_the_whole():
    """Targets 1 and 2 of the graph, with all their neighbours, renumbered as PyG's loaders do."""
    conv = PDGCNConv(3, 4, alpha=0.7, gamma=0.6).double()
    x = normal(5, 3)
    nodes = torch.tensor([1, 2, 0, 3])
    block = torch.tensor([[2, 1, 3, 0, 3], [0, 0, 0, 1, 1]])
    degree = torch.tensor([3.0, 2.0, 1.0, 2.0])
    out = conv((x[nodes], x[nodes[:2]]), block, degree=(degree, degree[:2]))
    assert same(out, conv(x, EDGE_INDEX)[[1, 2]])
    counted = conv((x[nodes], x[nodes[:2]]), block)
    by_hand = (torch.tensor([1.0, 1.0, 1.0, 2.0]), torch.tensor([3.0, 2.0]))
    assert same(counted, conv((x[nodes], x[nodes[:2]]), block, degree=by_hand))
    assert not torch.allclose(counted, out)


def test_learned_values_start_inside_and_move():
    conv = PDGCNConv(3, 4, alpha=1.0, gamma=0.5, learn=True)
    assert torch.allclose(conv.alpha, torch.tensor(0.99))
    assert torch.allclose(conv.gamma, torch.tensor(0.5))
    assert {"alpha_logit", "gamma_logit"} <= dict(conv.named_parameters()).keys()
    optimizer = torch.optim.Adam(conv.parameters(), lr=1.0)  # whose first step has length 1
    conv(normal(5, 3).float(), EDGE_INDEX).pow(2).sum().backward()
    optimizer.step()
    moved = torch.tensor([4.5951 - 1.0, 4.5951 + 1.0]).sigmoid()
    assert torch.isclose(conv.alpha, moved, atol=1e-3).any()
    assert torch.isclose(conv.gamma, torch.tensor([-1.0, 1.0]).sigmoid(), atol=1e-3).any()
    conv.reset_parameters()
    assert torch.allclose(conv.gamma, torch.tensor(0.5))
    assert "alpha_logit" not in dict(PDGCNConv(3, 4).named_parameters())


def test_learned_values_give_the_matrix_at_those_values():
    conv = PDGCNConv(3, 4, alpha=0.3, gamma=0.8, learn=True).double()
    fixed = PDGCNConv(3, 4, alpha=conv.alpha.item(), gamma=conv.gamma.item()).double()
    fixed.load_state_dict(conv.state_dict(), strict=False)
    assert same(conv(normal(5, 3), EDGE_INDEX), fixed(normal(5, 3), EDGE_INDEX))


# --- one graph, many calls -----------------------------------------------------------------------


@pytest.mark.parametrize("form", ["edge_index", "edges"])
def test_what_is_cached_is_p_of_the_first_call(form):
    conv = PDGCNConv(3, 4, alpha=0.3, gamma=0.7, cached=True).double()
    plain = PDGCNConv(3, 4, alpha=0.3, gamma=0.7).double()
    plain.load_state_dict(conv.state_dict())
    weight, other = torch.rand(8, dtype=torch.float64), EDGE_INDEX[:, :4]
    edges, own = EDGE_INDEX, weight
    if form == "edges":
        edges = Edges.from_edge_index(EDGE_INDEX, num_nodes=5)
        own = edges.sorted(weight)
    for seed in range(2):
        x, twin = (normal(5, 3, seed=seed).requires_grad_() for _ in range(2))
        out = conv(x, edges, own) if seed == 0 else conv(x, other)
        expected = plain(twin, EDGE_INDEX, weight)
        assert same(out, expected)
        found = torch.autograd.grad(out.tanh().sum(), [x, *conv.parameters()])
        wanted = torch.autograd.grad(expected.tanh().sum(), [twin, *plain.parameters()])
        assert all(same(a, b) for a, b in zip(found, wanted, strict=True))
    conv.reset_parameters()
    plain.load_state_dict(conv.state_dict())
    assert same(conv(normal(5, 3), other), plain(normal(5, 3), other))


def test_cached_layers_count_and_sort_their_edges_once(monkeypatch):
    calls = []
    monkeypatch.setattr(
        conv_gcn, "diffusion_weights", lambda *a, **k: calls.append(1) or diffusion_weights(*a, **k)
    )
    conv = PDGCNConv(3, 4, cached=True)
    for _ in range(3):
        conv(torch.ones(5, 3), EDGE_INDEX)
    assert len(calls) == 1
    assert "_kept" not in conv.state_dict()


def test_a_cached_layer_refuses_another_graph():
    conv = PDGCNConv(3, 4, cached=True)
    conv(torch.ones(5, 3), EDGE_INDEX)
    with pytest.raises(InputError, match="keeps P of a graph of 5 nodes, but x has 6 rows"):
        conv(torch.ones(6, 3), EDGE_INDEX)


def test_a_cached_layer_is_explained_on_the_edges_given():
    conv, x = PDGCNConv(3, 4, gamma=0.7, cached=True).double(), normal(5, 3)
    order = torch.randperm(8)
    out = conv(x, EDGE_INDEX)
    seen = []
    conv.register_message_forward_hook(lambda _, inputs, messages: seen.append(messages))
    assert same(conv(x, EDGE_INDEX), out)
    assert same(conv(x, EDGE_INDEX[:, order]), out)
    assert same(seen[1], seen[0][order])


# --- one-way edges -------------------------------------------------------------------------------

ONE_WAY = torch.tensor([[0, 1], [1, 2]])


def test_one_way_edges_get_one_warning():
    conv, x = PDGCNConv(3, 4), torch.ones(5, 3)
    with pytest.warns(UserWarning, match="edge_index has one-way edges") as caught:
        conv(x, ONE_WAY)
    assert caught[0].filename == __file__
    conv(x, ONE_WAY)  # and no second, as warnings are errors here
    ring = torch.tensor([[0, 1, 2], [1, 2, 0]])  # as many edges out as in
    with pytest.warns(UserWarning, match="one-way"):
        PDGCNConv(3, 4)(x, ring)


def test_one_way_edges_that_are_right():
    x = torch.ones(5, 3)
    PDGCNConv(3, 4)((x, x[:3]), ONE_WAY)
    PDGCNConv(3, 4)(x, ONE_WAY, degree=torch.ones(5))
    PDGCNConv(3, 4)(x, Edges.from_edge_index(ONE_WAY, num_nodes=5))
    looped = torch.cat([EDGE_INDEX, torch.tensor([[2], [2]])], dim=1)
    PDGCNConv(3, 4)(x, looped)


def test_no_edges_at_all():
    conv = PDGCNConv(3, 4, gamma=0.5, bias=False).double()
    x = normal(2, 3)
    assert same(conv(x, torch.empty(2, 0, dtype=torch.int64)), x @ conv.lin.weight.T)


def test_a_kept_p_has_the_precision_of_the_layer():
    conv, x = PDGCNConv(3, 4, gamma=0.7, cached=True), normal(5, 3)
    conv(x.float(), EDGE_INDEX)
    fresh = PDGCNConv(3, 4, gamma=0.7).double()
    fresh.load_state_dict(conv.state_dict())
    torch.testing.assert_close(
        conv.double()(x, EDGE_INDEX), fresh(x, EDGE_INDEX), rtol=1e-12, atol=1e-12
    )


def test_degrees_are_counted_in_single_precision_at_least():
    """A star of 3,000 leaves; bfloat16 cannot count beyond 256. At α = 0 a leaf gets 1 / 3000."""
    leaves = torch.arange(1, 3001)
    star = torch.stack([torch.cat([leaves, 0 * leaves]), torch.cat([0 * leaves, leaves])])
    conv = PDGCNConv(1, 1, alpha=0.0, bias=False).bfloat16()
    nn.init.ones_(conv.lin.weight)
    out = conv(torch.ones(3001, 1, dtype=torch.bfloat16), star)
    assert out.dtype == torch.bfloat16
    assert torch.allclose(3000 * out[1:].float(), torch.ones(3000, 1), atol=0.01)


# --- both layers ---------------------------------------------------------------------------------


def test_inside_a_sequential():
    model = Sequential(
        "x, edge_index, edge_attr",
        [
            (PDGATConv(5, 4, heads=2), "x, edge_index, edge_attr -> x"),
            nn.ReLU(),
            (PDGCNConv(8, 3, gamma=0.5), "x, edge_index -> x"),
        ],
    )
    x, attr = torch.randn(5, 5), torch.randn(8, 2)
    first, _, second = model
    expected = second(first(x, EDGE_INDEX, attr).relu(), EDGE_INDEX)
    assert torch.equal(model(x, EDGE_INDEX, attr), expected)


def test_how_they_look():
    assert repr(PDGATConv(16, 8, heads=8)) == "PDGATConv(16, 8, heads=8)"
    assert repr(PDGCNConv(16, 8, gamma=0.25)) == "PDGCNConv(16, 8, alpha=1, gamma=0.25)"
    assert repr(PDGCNConv(16, 8, cached=True)) == "PDGCNConv(16, 8, alpha=1, gamma=1, cached=True)"
    learned = PDGCNConv(16, 8, alpha=0.5, learn=True)
    assert repr(learned) == "PDGCNConv(16, 8, alpha=0.5, gamma=0.99, learn=True)"


# --- bad input -----------------------------------------------------------------------------------


@pytest.mark.parametrize("conv", [PDGCNConv(3, 4), PDGATConv(3, 4)])
@pytest.mark.parametrize(
    ("edge_index", "message"),
    [
        (torch.tensor([[0], [5]]), "edge_index has target 5, but there are 5 target nodes"),
        (torch.tensor([[-1], [0]]), "edge_index has source -1, but there are 5 source nodes"),
        (EDGE_INDEX.T, r"edge_index must be integers of shape \[2, E\], not torch.int64"),
        (EDGE_INDEX.float(), r"edge_index must be integers of shape \[2, E\], not torch.float32"),
        ([[0], [1]], r"edge_index must be a tensor \[2, E\] or Edges, not list"),
        (Edges.from_edge_index(EDGE_INDEX, num_nodes=6), "lead from 6 to 6 nodes, but x has 5"),
    ],
)
def test_bad_edges(conv, edge_index, message):
    with pytest.raises(InputError, match=message):
        conv(X, edge_index)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: PDGCNConv(3, 4)(X, EDGE_INDEX, torch.ones(7)), "edge_weight has shape .7.; give"),
        (
            lambda: PDGCNConv(3, 4)(X, EDGE_INDEX, degree=torch.ones(4)),
            "degree has shape .4. for 5",
        ),
        (lambda: PDGCNConv(3, 4, learn=True, cached=True), "leave cached=True out"),
        (lambda: PDGCNConv(3, 4, alpha=1.5), r"alpha must be a number in \[0, 1\], not 1.5"),
        (lambda: PDGCNConv(3, 0), "out_channels must be a whole number of at least 1, not 0"),
        (lambda: PDGATConv(3, 4)(X, EDGE_INDEX, torch.ones(8, 3)), r"give \[8, 2\], a row of 2"),
        (lambda: PDGATConv(3, 4)(X, EDGE_INDEX, torch.ones(9, 2)), r"edge_attr has shape \[9, 2\]"),
        (
            lambda: PDGATConv(3, 4, edge_dim=None)(X, EDGE_INDEX, torch.ones(8, 2)),
            "made without edge features; leave edge_attr out",
        ),
        (lambda: PDGCNConv(3, 4)(X[None], EDGE_INDEX), r"x has shape \[1, 5, 3\]"),
        (lambda: PDGCNConv(3, 4)((X, X[0]), EDGE_INDEX), r"x has shape \[3\]; give \[N, in_ch"),
        (lambda: PDGCNConv(0, 4), "in_channels must be a whole number of at least 1, not 0"),
        (lambda: PDGATConv((3, -2), 4), "in_channels must be a whole number of at least 1, not -2"),
        (lambda: PDGATConv((3,), 4), "in_channels is .*; give a number, or a pair of them"),
        (lambda: PDGATConv(3, 4)(X[None], EDGE_INDEX), r"x has shape \[1, 5, 3\]"),
        (lambda: PDGATConv(3, 4)(X, EDGE_INDEX, size=(5, 4)), r"size=\(5, 4\) does not fit x"),
        (lambda: PDGATConv(3, 4, heads=0), "heads must be a whole number of at least 1, not 0"),
        (lambda: PDGATConv(3, 4, heads=2.0), "heads must be a whole number of at least 1, not 2.0"),
        (lambda: PDGATConv(3, 4, dropout=1.0), r"dropout must be a number in \[0, 1\), not 1.0"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(InputError, match=message):
        call()


@pytest.mark.parametrize("bad", [-1.0, math.nan, math.inf])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(
    ("make", "of"),
    [
        (lambda: PDGCNConv(3, 4), lambda weight: (EDGE_INDEX, weight)),
        (lambda: PDGCNConv(3, 4), lambda weight: (EDGES, weight)),
        (lambda: PDGCNConv(3, 4), lambda weight: (to_torch_coo_tensor(EDGE_INDEX, weight),)),
        (lambda: PDGCN(3, 4, 2), lambda weight: (EDGE_INDEX, weight)),
        (lambda: PDNet(3, 4, 2), lambda weight: (EDGE_INDEX, weight)),
    ],
)
def test_weights_that_no_graph_has(make, of, dtype, bad):
    weight = torch.ones(8, dtype=dtype, requires_grad=True)
    with torch.no_grad():
        weight[3] = bad
    message = rf"the weight edge_weight\[\d\] is {bad}; weights must be finite and not negative"
    with pytest.raises(InputError, match=message):
        make()(X, *of(weight))


def test_weights_may_differ_under_vmap():
    conv, weight = PDGCNConv(3, 4, gamma=0.5), torch.rand(2, 8)
    together = vmap(lambda own: conv(X, EDGE_INDEX, own))(weight)
    assert same(together, torch.stack([conv(X, EDGE_INDEX, own) for own in weight]))
