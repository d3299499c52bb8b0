"""The residual backbone: its dropout, its state, and many runs at once."""

from __future__ import annotations

import copy
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, stack_module_state, vmap
from torch.nn import functional as F  # noqa: N812

from pdgnn import Graph, InputError
from pdgnn.nn import Backbone
from pdgnn.nn.blocks import (
    AggregateBlock,
    AttendBlock,
    DropoutState,
    added,
    attention,
    edge_scores,
    gelu,
    node_scores,
)
from pdgnn.nn.plain import Plain
from pdgnn.ops import Edges, activate, attend, dropout
from runs import OWN, build, prepare

# a ring of 7 with a chord and a tail, and node 9 alone
GRAPH = Graph.from_edge_index([[0, 1, 2, 3, 4, 5, 6, 0, 3, 7], [1, 2, 3, 4, 5, 6, 0, 3, 7, 8]], 10)
X = torch.randn(10, 5, generator=torch.Generator().manual_seed(0))
WIDTH, CLASSES = 16, 3


def small(name: str, *, seed: int = 0, dropout: float = 0.3, depth: int = 2) -> nn.Module:
    return build(
        name, 5, CLASSES, hidden_channels=WIDTH, depth=depth, heads=4, seed=seed, dropout=dropout
    )


def call(model: nn.Module, inputs: SimpleNamespace) -> Tensor:
    return model(X, inputs.edges, inputs.edge_weight, inputs.edge_attr)


def parameters_of(name: str, d: int, depth: int) -> int:
    """Counted from the architecture: Linear a → b has ab + b, LayerNorm 2d."""
    linear = d * d + d
    network = 2 * linear
    attention = linear + 2 * d
    directions = 2 * d + d
    dots = 4 * linear
    layer = {
        "resnet": network,
        "gcn": network,
        "pd-gcn": network,
        "sage": network + d * d,
        "gat": attention + network,
        "gat-sep": attention + network + d * d,
        "pd-gat": attention + directions + network,
        "pd-gat-sep": attention + directions + network + d * d,
        "gt": dots + network + 2 * d,
        "gt-sep": dots + network + 2 * d + d * d,
    }
    ends = (5 * d + d) + (d * CLASSES + CLASSES)
    if name == "mlp" or name.startswith(
        "plain"
    ):  # no Linear in front: the first layer takes the features
        of_scores = {"plain-gat": 2 * d, "plain-pd-gat": 2 * d + directions}.get(name, 0)
        return ends + (depth - 1) * linear + depth * of_scores
    return ends + 2 * d + depth * (layer[name] + 2 * d)


@pytest.mark.parametrize("name", OWN)
@pytest.mark.parametrize("depth", [1, 3])
def test_shapes_parameters_and_gradients(name, depth):
    model = small(name, depth=depth)
    assert sum(p.numel() for p in model.parameters()) == parameters_of(name, WIDTH, depth)
    out = call(model, prepare(GRAPH, name, gamma=0.5))
    assert out.shape == (10, CLASSES)
    (
        out.tanh() * torch.randn(10, CLASSES, generator=torch.Generator().manual_seed(1))
    ).sum().backward()
    for key, parameter in model.named_parameters():
        assert parameter.grad.isfinite().all(), key
        if not key.endswith("key.bias"):  # shifts all scores of a target alike
            assert (parameter.grad != 0).any(), key


@pytest.mark.parametrize("name", OWN)
def test_many_runs_at_once_are_the_runs_one_by_one(name):
    """Values, gradients and steps, where runs differ in seed, dropout rate, step, α and γ."""
    inputs = [
        prepare(GRAPH, name, alpha=a, gamma=c) for a, c in ((1.0, 1.0), (0.5, 0.3), (0.0, 0.7))
    ]
    runs = [
        small(name, seed=seed, dropout=rate) for seed, rate in ((3, 0.0), (2**40, 0.2), (5, 0.7))
    ]
    runs[2].step.fill_(6)
    parameters, buffers = stack_module_state(runs)
    weight, attr = (
        None if values[0] is None else torch.stack(values)
        for values in ([i.edge_weight for i in inputs], [i.edge_attr for i in inputs])
    )
    base = copy.deepcopy(runs[0])

    def one(parameters, buffers, weight, attr):
        return functional_call(base, (parameters, buffers), (X, inputs[0].edges, weight, attr))

    dims = (0, 0, None if weight is None else 0, None if attr is None else 0)
    out = vmap(one, in_dims=dims)(parameters, buffers, weight, attr)  # [R, N, classes]
    assert buffers["step"].tolist() == [1, 1, 7]
    assert base.step.item() == 0
    found = torch.autograd.grad(out.tanh().sum(), list(parameters.values()))
    for r, (run, own) in enumerate(zip(runs, inputs, strict=True)):
        alone = call(run, own)
        assert run.step.item() == buffers["step"][r].item()
        assert torch.allclose(out[r], alone, atol=2e-5)
        expected = torch.autograd.grad(alone.tanh().sum(), list(run.parameters()))
        for (key, _), f, e in zip(run.named_parameters(), found, expected, strict=True):
            assert torch.allclose(f[r], e, atol=2e-4), key


class Mask(nn.Module):
    """The first mask of a model's forward pass, over ones."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self) -> Tensor:
        *values, layer = self.model.dropout_state().draw()
        return dropout(torch.ones(10, WIDTH), *values, layer=layer)


def test_a_run_does_not_depend_on_its_company():
    """The same mask bit by bit, alone and beside others."""
    runs = {seed: Mask(small("gcn", seed=seed, dropout=0.5)) for seed in (1, 2, 3)}

    def masks(*seeds: int) -> Tensor:
        _, buffers = stack_module_state([copy.deepcopy(runs[seed]) for seed in seeds])
        return vmap(lambda own: functional_call(runs[1], own, ()))(buffers)  # [R, N, D]

    together = masks(1, 2, 3)
    assert torch.equal(masks(2)[0], together[1])
    assert torch.equal(masks(3, 2)[1], together[1])
    assert not torch.equal(together[0], together[1])
    assert 0.3 < (together == 0).double().mean() < 0.7


def test_gradients_inside_vmap_advance_the_step_too():
    inputs = prepare(GRAPH, "pd-gat", gamma=0.5)
    runs = [small("pd-gat", seed=seed) for seed in range(2)]
    parameters, buffers = stack_module_state(runs)
    base = copy.deepcopy(runs[0])

    def loss(parameters, buffers):
        arguments = (X, inputs.edges, inputs.edge_weight, inputs.edge_attr)
        return functional_call(base, (parameters, buffers), arguments).tanh().sum()

    found = vmap(grad(loss))(parameters, buffers)
    assert buffers["step"].tolist() == [1, 1]
    for r, run in enumerate(runs):
        expected = torch.autograd.grad(call(run, inputs).tanh().sum(), list(run.parameters()))
        for f, e in zip(found.values(), expected, strict=True):
            assert torch.allclose(f[r], e, atol=1e-4)


@pytest.mark.parametrize("name", OWN)
def test_dropout_is_of_seed_and_step(name):
    inputs, model = prepare(GRAPH, name), small(name)
    first, second = call(model, inputs), call(model, inputs)
    assert model.step.item() == 2
    assert not torch.allclose(first, second)
    model.step.zero_()
    assert torch.equal(call(model, inputs), first)
    model.step.zero_()
    model.seed.fill_(1)
    assert not torch.allclose(call(model, inputs), first)
    model.eval()
    calm = call(model, inputs)
    assert torch.equal(call(model, inputs), calm)
    assert model.step.item() == 1
    model.train()
    model.rate.fill_(0.0)
    assert torch.allclose(call(model, inputs), calm, atol=1e-6)


@pytest.mark.parametrize(("name", "masks"), [("mlp", 2), ("gcn", 5), ("gt", 7)])
def test_every_mask_of_a_pass_is_another(name, masks, monkeypatch):
    """1 after the first Linear, 2 in a feed-forward network, 1 in GT's attention; MLP: 1 each."""
    drawn = []

    def watched(h, bias, *, dropout, **options):
        drawn.append((dropout[3], dropout[2].item()))
        return activate(h, bias, dropout=dropout, **options)

    monkeypatch.setattr("pdgnn.nn.blocks.activate", watched)
    call(small(name), prepare(GRAPH, name))
    assert drawn == [(layer, 1) for layer in range(masks)]


def test_the_backward_pass_of_an_earlier_step_is_still_possible():
    inputs, model = prepare(GRAPH, "gcn"), small("gcn")
    first = torch.autograd.grad(call(model, inputs).sum(), model.lin_in.weight)[0]
    model.step.zero_()
    one, other = call(model, inputs), call(model, inputs)
    assert torch.equal(torch.autograd.grad(one.sum(), model.lin_in.weight)[0], first)
    assert other.shape == one.shape


def test_the_state_has_the_dropout_in_it():
    model, twin = small("gat", seed=3, dropout=0.4), small("gat", seed=9)
    inputs = prepare(GRAPH, "gat")
    call(model, inputs)
    twin.load_state_dict(model.state_dict())
    assert twin.step.item() == 1
    assert torch.equal(call(model, inputs), call(twin, inputs))


def test_a_model_in_double_precision():
    inputs, model = prepare(GRAPH, "pd-gat"), small("pd-gat").double()
    out = model(X.double(), inputs.edges, edge_attr=inputs.edge_attr)
    assert out.dtype == torch.float64
    single = small("pd-gat")
    assert torch.allclose(out.float(), call(single, inputs), atol=1e-4)


def test_an_edge_index_is_brought_to_its_slots():
    torch.manual_seed(0)
    order = torch.randperm(GRAPH.edge_index.shape[1])
    edge_index = GRAPH.edge_index[:, order]
    edges = Edges.from_edge_index(edge_index, num_nodes=10)
    weight, attr = torch.rand(len(order)), torch.rand(len(order), 2)
    for block in (AggregateBlock, lambda d, h: AttendBlock(d, h, edge_dim=2)):
        model = Backbone(5, WIDTH, CLASSES, depth=1, heads=4, blocks=[block]).eval()
        expected = model(X, edges, edges.sorted(weight), edges.sorted(attr))
        unsorted = Edges(*edges.tensors())  # the values are in slots already
        assert torch.equal(model(X, unsorted, edges.sorted(weight), edges.sorted(attr)), expected)
        assert torch.equal(model(X, edge_index, weight, attr), expected)


def test_scores_of_nodes_and_edges():
    torch.manual_seed(0)
    x, att, other = torch.randn(6, 4, 3), torch.randn(4, 3), torch.randn(4, 3)
    one, two = node_scores(x, att, other)
    assert torch.allclose(one, (x * att).sum(-1), atol=1e-6)
    assert torch.allclose(two, (x * other).sum(-1), atol=1e-6)
    weight, f = torch.randn(12, 2), torch.randn(7, 2)
    slow = ((f @ weight.T).view(7, 4, 3) * att).sum(-1)
    assert torch.allclose(f @ edge_scores(weight, att).T, slow, atol=1e-5)


def test_attention_is_what_attend_weighs_with():
    torch.manual_seed(0)
    edges = Edges.from_edge_index(GRAPH.edge_index, num_nodes=10)
    a_src, a_dst, f, w = (
        torch.randn(10, 2),
        torch.randn(10, 2),
        torch.randn(20, 2),
        torch.randn(2, 2),
    )
    index = torch.stack([edges.col, edges.row])
    p = attention(a_src, a_dst, index, edge_attr=f, w_edge=w, negative_slope=0.1)
    x = torch.randn(10, 2, 3)
    summed = torch.zeros(10, 2, 3).index_add(0, edges.row, p[..., None] * x[edges.col])
    out = attend(x, a_src, a_dst, edges, edge_attr=f, w_edge=w, negative_slope=0.1)
    assert torch.allclose(out, summed, atol=1e-6)


# what dynamo does to torch.autograd.Function
@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")
@pytest.mark.parametrize("name", ["pd-gcn", "pd-gat-sep", "gt"])
def test_it_compiles_in_one_piece(name):
    inputs, model = prepare(GRAPH, name, gamma=0.5), small(name, depth=1)
    expected = call(model, inputs)
    model.step.zero_()
    out = call(torch.compile(model, backend="aot_eager", fullgraph=True), inputs)
    assert model.step.item() == 1
    assert torch.allclose(out, expected, atol=1e-6)
    (found,) = torch.autograd.grad(out.sum(), model.lin_in.weight)
    (wanted,) = torch.autograd.grad(expected.sum(), model.lin_in.weight)
    assert torch.allclose(found, wanted, atol=1e-5)


EDGES = Edges.from_edge_index(GRAPH.edge_index, num_nodes=10)


def backbone(**options) -> Backbone:
    return Backbone(5, WIDTH, CLASSES, **{"depth": 1, **options})


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: Backbone(5, 30, 3, depth=1, heads=4, blocks=[AttendBlock]),
            "hidden_channels=30 does not split into heads=4 equal heads",
        ),
        (lambda: backbone(depth=0), "depth must be a whole number of at least 1, not 0"),
        (lambda: backbone(dropout=1.0), r"dropout must be a number in \[0, 1\), not 1.0"),
        (lambda: backbone(dropout=float("nan")), r"dropout must be a number in \[0, 1\), not nan"),
        (lambda: backbone(seed=-1), "seed must be a whole number"),
        (lambda: backbone(seed=2**63), r"and below 9223372036854775808, not 9223372036854775808"),
        (
            lambda: Plain(5, 0, 3, depth=1),
            "hidden_channels must be a whole number",
        ),
        (
            lambda: backbone(blocks=[AggregateBlock])(X, EDGES),
            "give edge_weight, see nn.graph_inputs",
        ),
        (
            lambda: backbone(blocks=[lambda d, h: AttendBlock(d, h, edge_dim=2)])(X, EDGES),
            r"attends to edge features; give edge_attr",
        ),
        (
            lambda: backbone()(X, EDGES, torch.ones(3)),
            r"edge_weight has shape \[3\]; give one number for each of 20 edges",
        ),
        (
            lambda: backbone()(X, EDGES, edge_attr=torch.ones(3, 2)),
            r"edge_attr has shape \[3, 2\]; give \[20, 2\]",
        ),
        (lambda: backbone()(X[:4], EDGES), "lead from 10 to 10 nodes, but x has 4 and 4 rows"),
        (lambda: backbone()(X[:4], GRAPH.edge_index), "edge_index has source 8, but there are 4"),
    ],
)
def test_bad_input(make, message):
    with pytest.raises(InputError, match=message):
        make()


def test_what_follows_a_linear_map():
    torch.manual_seed(0)
    lin, x, residual = nn.Linear(6, 8), torch.randn(5, 6), torch.randn(5, 8)
    values = torch.tensor(0.5), torch.tensor(7), torch.tensor(2)
    calm, noise = DropoutState(*values, active=False), DropoutState(*values, active=True)
    assert torch.allclose(gelu(lin, x, calm), F.gelu(lin(x)), atol=1e-6)
    assert torch.allclose(added(lin, x, residual, calm), residual + lin(x), atol=1e-6)
    masked = F.gelu(dropout(lin(x), *values, layer=0))
    assert torch.allclose(gelu(lin, x, noise), masked, atol=1e-6)
    masked = residual + dropout(lin(x), *values, layer=1)
    assert torch.allclose(added(lin, x, residual, noise), masked, atol=1e-6)
    assert (noise.drawn, calm.drawn) == (2, 0)
