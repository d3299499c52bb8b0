"""PD-Net as a module: its formula, dense; its scopes, rounds, norms and what it refuses."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.export import export

from dense_net import Dense
from pdgnn import Graph, InputError, diffusion_matrix
from pdgnn.nn import PDNet
from pdgnn.nn.backbone import SeededModule
from pdgnn.nn.features import SparseFeatures
from pdgnn.nn.scopes import LEAST_GAMMA, bounded, net_inputs, parse_scopes
from pdgnn.ops import Edges
from published import features, random_graph
from strategies import graphs

WIDTH, CLASSES = 8, 3
TWO = ((0.0, 0.9), (1.0, 1.0))


def made(seed: int = 0, **options) -> PDNet:
    """In float64, with parameters that are all random."""
    torch.manual_seed(seed)
    net = PDNet(5, WIDTH, CLASSES, **{"depth": 2, "heads": 2, "seed": seed, **options}).double()
    with torch.no_grad():
        for name, p in net.named_parameters():
            if not name.startswith("scope_"):
                p.add_(0.3 * torch.randn_like(p))
    return net


SETTINGS = {
    "plain": {},
    "one layer in rounds": {"depth": 1, "rounds": 4, "inject": True},
    "rounds without injection": {"rounds": 3},
    "several scopes": {"scopes": (*TWO, (0.5, 0.3)), "inject": True, "rounds": 2},
    "layer norm": {"norm": "layer", "rounds": 2},
    "no norm": {"norm": "none", "inject": True},
    "no path of its own": {"self_path": False, "inject": True},
    "gcn": {"aggregation": "gcn", "inject": True},
    "sage": {"aggregation": "sage"},
    "gat": {"aggregation": "gat", "inject": True, "rounds": 2},
    "gat alone": {"aggregation": "gat", "self_path": False, "inject": True},
    "gat by directions": {"aggregation": "gat", "attention": True, "scopes": ((0.5, 0.7),)},
    "directions": {"attention": True, "scopes": ((0.5, 0.7),), "inject": True, "rounds": 2},
    "directions beside sage": {"attention": True, "aggregation": "sage"},
    "directions and learned": {"attention": True, "learned": True},
    "eigenvectors": {"eigenvectors": 2, "scopes": ((0.3, 0.6),)},
    "learned": {"learned": True, "scopes": (*TWO, (0.5, 0.3)), "inject": True, "rounds": 2},
}
every_setting = pytest.mark.parametrize("options", SETTINGS.values(), ids=SETTINGS)


@every_setting
@pytest.mark.parametrize("seed", range(2))
def test_logits_are_those_of_the_formula(options, seed):
    graph, net = random_graph(seed), made(seed, **options)
    x, inputs = features(graph, seed), net.inputs(graph)
    for training in (False, True):
        net.train(training)
        found = net(x, **inputs)
        torch.testing.assert_close(found, Dense(net, graph)(x), rtol=1e-7, atol=1e-7)
    net.eval()
    found = net(x, **inputs)
    torch.testing.assert_close(net(SparseFeatures.from_dense(x), **inputs), found)
    torch.testing.assert_close(
        net(x, graph.edge_index, graph.edge_weight), found, rtol=1e-9, atol=1e-9
    )


@settings(max_examples=25)
@given(g=graphs(max_nodes=9), alpha=st.floats(0, 1), gamma=st.floats(0.01, 1))
def test_the_formula_holds_on_any_graph(g, alpha, gamma):
    for learned in (False, True):
        net = made(scopes=((alpha, gamma),), learned=learned, inject=True, norm="layer").eval()
        x = torch.linspace(-1, 1, 5 * g.num_nodes, dtype=torch.float64).view(-1, 5).sin()
        torch.testing.assert_close(net(x, **net.inputs(g)), Dense(net, g)(x), rtol=1e-8, atol=1e-8)


@every_setting
def test_nodes_may_come_in_any_order(options):
    graph, net = random_graph(1), made(**options).eval()  # of weights that have no symmetry
    x = features(graph)
    order = torch.randperm(graph.num_nodes, generator=torch.Generator().manual_seed(0))
    index = order.argsort()[graph.edge_index]
    moved = Graph.from_edge_index(index, graph.num_nodes, graph.edge_weight)
    before, after = net(x, **net.inputs(graph)), net(x[order], **net.inputs(moved))
    torch.testing.assert_close(after, before[order], rtol=1e-8, atol=1e-8)


# --- scopes --------------------------------------------------------------------------------------


def test_scopes_that_are_learned_start_as_the_fixed_ones():
    graph, scopes = random_graph(0), ((0.0, 1.0), (1.0, 1.0), (0.5, 0.25))
    fixed, learned = (made(scopes=scopes, inject=True, learned=own) for own in (False, True))
    assert learned.scope_alpha.shape == learned.scope_gamma.shape == (3, WIDTH)
    learned.load_state_dict({**learned.state_dict(), **fixed.state_dict()})
    x = features(graph)
    found, expected = (net.eval()(x, **net.inputs(graph)) for net in (learned, fixed))
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-10)
    one = made(scopes=((0.0, 1.0),), learned=True)
    assert torch.equal(bounded(one.scope_alpha, 0, 1), torch.zeros(1, WIDTH).double())
    assert torch.equal(bounded(one.scope_gamma, 0, 1), torch.ones(1, WIDTH).double())


def test_the_gradients_of_learned_scopes_are_those_of_finite_differences():
    graph = random_graph(3)
    net = made(scopes=((0.3, 0.6), (0.8, 0.5)), learned=True, rounds=2, inject=True).eval()
    x, inputs = features(graph), net.inputs(graph)
    drawn = torch.Generator().manual_seed(0)
    g = torch.randn(graph.num_nodes, CLASSES, dtype=torch.float64, generator=drawn)

    def value() -> Tensor:
        return (net(x, **inputs).tanh() * g).sum()

    for name in ("scope_alpha", "scope_gamma"):
        own = net.get_parameter(name)
        with torch.no_grad():  # each channel its own
            own.add_(0.1 * torch.rand(own.shape, generator=drawn, dtype=own.dtype))
    found = torch.autograd.grad(value(), [net.scope_alpha, net.scope_gamma])
    for own, gradient in zip((net.scope_alpha, net.scope_gamma), found, strict=True):
        assert (gradient != 0).any(dim=1).all()
        for place in ((0, 0), (0, WIDTH - 1), (1, 3)):
            ends = []
            for sign in (1, -1):
                with torch.no_grad():
                    own[place] += sign * 1e-6
                    ends.append(value())
                    own[place] -= sign * 1e-6
            expected = (ends[0] - ends[1]) / 2e-6
            torch.testing.assert_close(gradient[place], expected, rtol=1e-5, atol=1e-7)


@given(st.lists(st.tuples(st.floats(-1, 2), st.floats(-1, 1)), min_size=1, max_size=9))
def test_a_learned_value_stays_inside_and_can_come_back(pairs):
    x, g = torch.tensor(pairs, dtype=torch.float64).unbind(1)
    x = x.clone().requires_grad_()
    y = bounded(x, 0.25, 1.0)
    y.backward(g)
    assert ((y >= 0.25) & (y <= 1)).all()
    inside = (x > 0.25) & (x < 1)
    assert torch.equal(y[inside], x[inside])
    assert torch.equal(x.grad[inside], g[inside])
    # a step against the gradient never leads further out, and inward it is taken as it is
    assert not ((x <= 0.25) & (x.grad > 0)).any()
    assert not ((x >= 1) & (x.grad < 0)).any()
    back = ((x <= 0.25) & (g < 0)) | ((x >= 1) & (g > 0))
    assert torch.equal(x.grad[back], g[back])


def test_scopes_are_read_from_text():
    assert parse_scopes("") == ()
    assert parse_scopes("1,1") == parse_scopes(" 1:1 ") == ((1.0, 1.0),)
    assert parse_scopes("1,1;0.5,0.8") == ((1.0, 1.0), (0.5, 0.8))
    for text in ("1", "1,2", "a,b", "1,1;", "1,1,1", "nan,1", ";"):
        with pytest.raises(InputError, match=r"^scopes are pairs of alpha and gamma in \[0, 1\]"):
            parse_scopes(text)


def test_scopes_share_edges_and_are_weighted_by_their_matrices():
    graph = random_graph(1)
    one, two = (net_inputs(graph, scopes) for scopes in (TWO[:1], TWO))
    assert one["edge_index"] is two["edge_index"]
    edges = two["edge_index"]
    assert one["edge_weight"].shape == (edges.num_edges,)
    assert two["edge_weight"].shape == (edges.num_edges, 2)
    for s, (alpha, gamma) in enumerate(TWO):
        matrix = np.zeros((graph.num_nodes,) * 2)
        matrix[edges.row, edges.col] = two["edge_weight"][:, s]
        expected = diffusion_matrix(graph, alpha=alpha, gamma=gamma).toarray()
        np.testing.assert_allclose(matrix, expected, rtol=1e-12, atol=1e-15)


# --- rounds --------------------------------------------------------------------------------------


def test_rounds_may_be_other_than_those_trained():
    graph, net = random_graph(0), made(rounds=3, inject=True).eval()
    x, inputs = features(graph), net.inputs(graph)
    three = net(x, **inputs)
    seven = net(x, **inputs, rounds=7)
    torch.testing.assert_close(seven, Dense(net, graph)(x, rounds=7))
    assert not torch.allclose(three, seven)
    net.rounds = 7
    assert torch.equal(net(x, **inputs), seven)
    assert torch.equal(net(x, **inputs, rounds=3), three)


def gradients(net: PDNet, x: Tensor, inputs: dict) -> list[Tensor]:
    net.step.zero_()
    out = net(x, **inputs)
    loss = (out.tanh() * torch.arange(out.numel()).view(out.shape)).sum()
    return [out, *torch.autograd.grad(loss, list(net.parameters()))]


@every_setting
def test_rounds_computed_again_give_the_same_gradients(options):
    graph, net = random_graph(1), made(**options, dropout=0.3)
    x, inputs = features(graph), net.inputs(graph)
    expected = gradients(net, x, inputs)
    net.recompute = True
    found = gradients(net, x, inputs)
    assert torch.equal(found[0], expected[0])
    for f, e in zip(found, expected, strict=True):  # sums over rounds may have another order
        torch.testing.assert_close(f, e, rtol=1e-10, atol=1e-10)
    assert all(t.isfinite().all() for t in found)
    assert net.step.item() == 1


@pytest.mark.parametrize("learned", [False, True])
def test_of_a_round_that_is_computed_again_one_state_is_kept(learned):
    graph = random_graph(0, nodes=20)
    x = features(graph)
    sizes = {}
    for again in (False, True):
        for rounds in (2, 3, 20):
            net = made(rounds=rounds, inject=True, learned=learned)
            net.recompute, seen = again, {}
            inputs = net.inputs(graph)

            def pack(t: Tensor, seen=seen) -> Tensor:
                seen[t.data_ptr()] = t.numel() if t.shape[:1] == (20,) or t.ndim == 4 else 0
                return t

            with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
                net(x, **inputs)
            sizes[again, rounds] = sum(seen.values())
    state = 20 * WIDTH
    assert sizes[True, 3] - sizes[True, 2] == state
    assert sizes[True, 20] - sizes[True, 3] == 17 * state
    assert sizes[False, 3] - sizes[False, 2] > 3 * state


# --- running statistics --------------------------------------------------------------------------


def test_running_statistics_are_those_of_torch_for_each_round_and_layer():
    graph, net = random_graph(0), made(depth=2, rounds=2, inject=True, running=True)
    x, inputs = features(graph), net.inputs(graph)
    norms = [torch.nn.BatchNorm1d(WIDTH).double() for _ in range(4)]
    for _ in range(3):
        net.train()(x, **inputs)
        dense = Dense(net, graph)
        dense(x)
        for norm, seen in zip(norms, dense.seen, strict=True):
            norm.train()(seen)
    for place, norm in enumerate(norms):
        torch.testing.assert_close(net.running_mean.flatten(0, 1)[place], norm.running_mean)
        torch.testing.assert_close(net.running_var.flatten(0, 1)[place], norm.running_var)
    before = net.running_mean.clone()
    out = net.eval()(x, **inputs, rounds=3)  # the third round has the statistics of the second
    assert torch.equal(net.running_mean, before)
    torch.testing.assert_close(out, Dense(net, graph)(x, rounds=3))


def test_running_statistics_do_not_depend_on_the_graph_at_hand():
    graph, net = random_graph(0), made(running=True)
    x = features(graph)
    net(x, **net.inputs(graph))
    net.eval()
    twice = Graph.from_edge_index(
        torch.cat([graph.edge_index, graph.edge_index + graph.num_nodes], dim=1),
        2 * graph.num_nodes,
    )
    far = torch.cat([x, 100 + x])
    alone, beside = net(x, **net.inputs(graph)), net(far, **net.inputs(twice))
    torch.testing.assert_close(beside[: len(x)], alone)
    own = made()
    own.eval()
    assert not torch.allclose(own(far, **own.inputs(twice))[: len(x)], own(x, **own.inputs(graph)))


def test_statistics_of_rounds_computed_again_are_taken_once():
    graph = random_graph(0)
    nets = [made(rounds=3, inject=True, running=True) for _ in range(2)]
    nets[1].recompute = True
    for net in nets:
        net(features(graph), **net.inputs(graph)).sum().backward()
    for name in ("running_mean", "running_var"):
        one, other = (net.get_buffer(name) for net in nets)
        assert torch.equal(one, other)
        assert not torch.equal(one, torch.full_like(one, float(name == "running_var")))


# --- what it is ----------------------------------------------------------------------------------


def test_it_is_a_seeded_module_of_its_own_settings():
    net = PDNet(5, 16, 1)
    assert isinstance(net, SeededModule)
    assert (net.rounds, net.scopes, len(net.layers)) == (1, ((0.0, 1.0),), 4)
    assert copy.deepcopy(net).state_dict().keys() == net.state_dict().keys()
    again = PDNet(5, 16, 1)
    again.load_state_dict(net.state_dict())
    assert torch.equal(again.lin_out.weight, net.lin_out.weight)


# what dynamo does to torch.autograd.Function
@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")
def test_it_compiles_in_one_piece():
    graph, net = random_graph(0), made(depth=1, inject=True, learned=True, running=True)
    x, inputs = features(graph), net.inputs(graph)
    expected = gradients(net, x, inputs)
    net.step.zero_()
    out = torch.compile(net, backend="aot_eager", fullgraph=True)(x, **inputs)
    assert net.step.item() == 1
    torch.testing.assert_close(out, expected[0])
    loss = (out.tanh() * torch.arange(out.numel()).view(out.shape)).sum()
    found = torch.autograd.grad(loss, list(net.parameters()))
    torch.testing.assert_close(found, tuple(expected[1:]), rtol=1e-8, atol=1e-8)


def test_it_compiles_around_the_making_of_its_inputs():
    net = made(depth=1, learned=True, attention=True, eigenvectors=1).eval()
    index, x = GRAPH.edge_index, X.double().cumsum(0)
    compiled = torch.compile(net, backend="aot_eager")
    torch.testing.assert_close(compiled(x, index), net(x, index))


class OfOneGraph(nn.Module):
    """As docs/models.md has it."""

    def __init__(self, net: PDNet, graph: Graph) -> None:
        super().__init__()
        self.net, self.given = net, net.inputs(graph)

    def forward(self, x: Tensor) -> Tensor:
        return self.net(x, **self.given)


def test_it_is_exported_for_one_graph_and_says_so_of_others():
    graph, net = random_graph(0), made(rounds=2, inject=True).eval()
    x = features(graph)
    program = export(OfOneGraph(net, graph), (x,), strict=False)
    torch.testing.assert_close(program.module()(2 * x), net(2 * x, graph.edge_index))
    with pytest.raises(InputError, match="edge_index is ragged, sparse or traced; give plain"):
        export(net, (x, graph.edge_index), strict=False)


GRAPH = Graph.from_edge_index([[0, 1, 2, 3], [1, 2, 3, 4]], 6)
X = torch.ones(6, 5)
EDGES = Edges.from_edge_index(GRAPH.edge_index, num_nodes=6)


def small(**options) -> PDNet:
    return PDNet(5, WIDTH, 2, **options)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: small(rounds=0), "rounds must be a whole number of at least 1, not 0"),
        (lambda: small()(X, GRAPH.edge_index, rounds=0), "rounds must be a whole number"),
        (lambda: small(depth=0), "depth must be a whole number of at least 1, not 0"),
        (lambda: small(norm="group"), "norm must be one of batch, layer, none, not 'group'"),
        (lambda: small(aggregation="gin"), "aggregation must be one of pd, gcn, sage, gat"),
        (lambda: small(norm="layer", running=True), "leave running=True out"),
        (lambda: small(scopes=()), r"scopes must be pairs \(alpha, gamma\), at least one"),
        (lambda: small(scopes=(0.0, 1.0)), "scopes must be pairs"),
        (lambda: small(scopes=((0.0, 1.5),)), r"gamma must be a number in \[0, 1\], not 1.5"),
        (lambda: small(scopes=((0, 0),), learned=True), f"starts at {LEAST_GAMMA} or above"),
        (lambda: small(aggregation="gcn", learned=True), "no scopes to learn"),
        (lambda: small(aggregation="sage", scopes=TWO), "side by side; take 'pd'"),
        (lambda: small(attention=True, heads=3), "does not split into heads=3 equal heads"),
        (lambda: small(dropout=1.0), r"dropout must be a number in \[0, 1\)"),
        (lambda: small(eigenvectors=-1), "eigenvectors must be a whole number of at least 0"),
        (
            lambda: small(eigenvectors=5).inputs(GRAPH),
            "eigenvectors=5, but the largest component of the graph has 4 that are not trivial",
        ),
        (lambda: small(eigenvectors=2)(X, EDGES, torch.ones(8)), r"give phi \[6, 2\]"),
        (lambda: small()(X, EDGES), "give edge_weight, see PDNet.inputs"),
        (lambda: small()(X, EDGES, torch.ones(3)), r"edge_weight has shape \[3\]; give \[8\]"),
        (lambda: small(scopes=TWO)(X, EDGES, torch.ones(8)), r"give \[8, 2\]"),
        (lambda: small(learned=True)(X, EDGES, torch.ones(8)), r"give degree \[6\]"),
        (lambda: small(aggregation="gat", attention=True)(X, EDGES), "give edge_attr"),
        (lambda: small()(X[:3], EDGES, torch.ones(8)), "but x has 3 and 3 rows"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(InputError, match=message) as error:
        call()
    assert "\n" not in str(error.value)
