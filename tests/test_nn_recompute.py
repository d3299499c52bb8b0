"""Layers that are computed again in the backward pass: less is kept, the numbers are the same."""

from __future__ import annotations

from importlib.util import find_spec
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, stack_module_state, vmap

from pdgnn import Graph
from pdgnn.nn.features import SparseFeatures
from pdgnn.ops import activate, use_backend
from runs import OWN, build, prepare

# a ring of 7 with a chord and a tail, and node 9 alone
GRAPH = Graph.from_edge_index([[0, 1, 2, 3, 4, 5, 6, 0, 3, 7], [1, 2, 3, 4, 5, 6, 0, 3, 7, 8]], 10)
X = torch.randn(10, 5, generator=torch.Generator().manual_seed(0))
WIDTH, CLASSES = 16, 3


def small(name: str, *, seed: int = 0, depth: int = 2) -> nn.Module:
    return build(
        name, 5, CLASSES, hidden_channels=WIDTH, depth=depth, heads=4, seed=seed, dropout=0.3
    )


def call(model: nn.Module, inputs: SimpleNamespace) -> Tensor:
    return model(X, inputs.edges, inputs.edge_weight, inputs.edge_attr)


def gradients(model: nn.Module, inputs: SimpleNamespace, *given: Tensor) -> tuple[Tensor, ...]:
    """The output of the first step, and the gradients to all parameters and to what is `given`."""
    model.step.zero_()
    out = call(model, inputs)
    loss = (out.tanh() * torch.arange(30).view(10, CLASSES)).sum()
    return out, *torch.autograd.grad(loss, [*model.parameters(), *given])


def leaves(inputs: SimpleNamespace) -> tuple[SimpleNamespace, list[Tensor]]:
    """The same with values of the edges that have gradients, where there are any, and these."""
    weight, attr = (
        None if t is None else t.clone().requires_grad_()
        for t in (inputs.edge_weight, inputs.edge_attr)
    )
    made = SimpleNamespace(**{**vars(inputs), "edge_weight": weight, "edge_attr": attr})
    return made, [t for t in (weight, attr) if t is not None]


@pytest.mark.parametrize("name", OWN)
def test_layers_computed_again_give_the_same_bits(name):
    (inputs, given), model = leaves(prepare(GRAPH, name, gamma=0.5)), small(name, depth=3)
    expected = gradients(model, inputs, *given)
    model.recompute = True
    found = gradients(model, inputs, *given)
    assert all(torch.equal(f, e) for f, e in zip(found, expected, strict=True))
    assert all(t.isfinite().all() and t.any() for t in found)
    assert model.step.item() == 1


@pytest.mark.parametrize("name", ["mlp", "plain-pd-gat", "plain-gcn"])
def test_layers_on_sparse_features_are_computed_again_too(name):
    inputs, model = prepare(GRAPH, name, gamma=0.5), small(name)
    x = SparseFeatures.from_dense(X * (X > 0.5))
    found = []
    for model.recompute in (False, True):
        model.step.zero_()
        out = model(x, inputs.edges, inputs.edge_weight, inputs.edge_attr)
        found.append((out, *torch.autograd.grad(out.tanh().sum(), list(model.parameters()))))
    assert all(torch.equal(a, b) for a, b in zip(*found, strict=True))


def kept(model: nn.Module, inputs: SimpleNamespace) -> int:
    """Numbers that a forward pass keeps for the backward pass, but for parameters and edges."""
    seen: dict[int, Tensor] = {}
    own = {t.data_ptr() for t in (*model.parameters(), *inputs.edges.tensors(), X)}

    def pack(t: Tensor) -> Tensor:
        seen[t.data_ptr()] = t
        return t

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        out = call(model, inputs)
    assert out.requires_grad
    return sum(t.numel() for at, t in seen.items() if at not in own and t.shape[-1:] == (WIDTH,))


@pytest.mark.parametrize("name", ["resnet", "gcn", "pd-gat-sep", "gt", "mlp"])
def test_of_a_layer_that_is_computed_again_its_input_alone_is_kept(name):
    inputs = prepare(GRAPH, name, gamma=0.5)
    blocks = 2 if name == "gt" else 1
    for recompute in (False, True):
        sizes = []
        for depth in (2, 3, 6):
            model = small(name, depth=depth)
            model.recompute = recompute
            sizes.append(kept(model, inputs))
        more = (sizes[1] - sizes[0], sizes[2] - sizes[1])
        assert (more == (blocks * 10 * WIDTH, 3 * blocks * 10 * WIDTH)) == recompute
        assert more[0] >= blocks * 10 * WIDTH


def test_a_layer_computed_again_draws_the_same_masks(monkeypatch):
    drawn = []

    def watched(h, bias, *, dropout, **options):
        drawn.append((dropout[3], dropout[2].item()))
        return activate(h, bias, dropout=dropout, **options)

    monkeypatch.setattr("pdgnn.nn.blocks.activate", watched)
    model = small("gcn")
    model.recompute = True
    inputs = prepare(GRAPH, "gcn")
    first, second = call(model, inputs), call(model, inputs)
    assert drawn == [(layer, step) for step in (1, 2) for layer in range(5)]
    drawn.clear()
    first.sum().backward()  # though another step has begun
    assert drawn == [(layer, 1) for layer in (3, 4, 1, 2)]  # the last layer first
    drawn.clear()
    second.sum().backward()
    assert drawn == [(layer, 2) for layer in (3, 4, 1, 2)]


def test_a_layer_is_computed_again_with_the_parameters_it_had():
    inputs, model, other = prepare(GRAPH, "pd-gat"), small("pd-gat"), small("pd-gat")
    mine = {n: (p + 0.1).detach().requires_grad_() for n, p in other.named_parameters()}
    found = []
    for model.recompute in (False, True):
        model.step.zero_()
        arguments = (X, inputs.edges, inputs.edge_weight, inputs.edge_attr)
        out = functional_call(model, mine, arguments)
        found.append(torch.autograd.grad(out.tanh().sum(), list(mine.values())))
    assert all(torch.equal(a, b) for a, b in zip(*found, strict=True))


@pytest.mark.parametrize("name", ["pd-gat", "gt-sep", "pd-gcn", "plain-gat"])
def test_layers_are_computed_again_under_vmap(name):
    inputs, base = prepare(GRAPH, name, gamma=0.5), small(name)
    parameters, buffers = stack_module_state([small(name, seed=seed) for seed in range(3)])

    def loss(parameters, buffers):
        arguments = (X, inputs.edges, inputs.edge_weight, inputs.edge_attr)
        return functional_call(base, (parameters, buffers), arguments).tanh().sum()

    found = []
    for base.recompute in (False, True):
        start = {n: t.clone() for n, t in buffers.items()}
        outside = vmap(loss)(parameters, start).sum()
        inside = vmap(grad(loss))(parameters, {n: t.clone() for n, t in buffers.items()})
        assert start["step"].tolist() == [1, 1, 1]
        found.append([*torch.autograd.grad(outside, list(parameters.values())), *inside.values()])
    for a, b in zip(*found, strict=True):
        torch.testing.assert_close(a, b, atol=1e-5, rtol=1e-4)


@pytest.fixture
def unwritten():
    """Memory that nobody has written to is nan."""
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


@pytest.mark.skipif(find_spec("triton") is None, reason="triton is not installed")
@pytest.mark.skipif(torch.cuda.is_available(), reason="the interpreter is for where no GPU is")
@pytest.mark.parametrize("name", ["gat", "pd-gat-sep", "gt"])
def test_the_kernels_of_a_gpu_read_nothing_unwritten_when_layers_are_computed_again(
    name, unwritten
):
    inputs, model = prepare(GRAPH, name, gamma=0.5), small(name, depth=1)
    right = gradients(model, inputs)
    parameters = {n: p.detach()[None].requires_grad_() for n, p in model.named_parameters()}
    buffers = {n: b[None].clone() for n, b in model.named_buffers()}

    def one(parameters, buffers):
        arguments = (X, inputs.edges, inputs.edge_weight, inputs.edge_attr)
        return functional_call(model, (parameters, buffers), arguments)

    buffers["step"].zero_()
    model.recompute = True
    with use_backend("gpu"):
        out = vmap(one)(parameters, buffers)  # as a single run is trained on a GPU
        loss = (out.tanh() * torch.arange(30).view(10, CLASSES)).sum()
        found = (out, *torch.autograd.grad(loss, list(parameters.values())))
    for f, r in zip(found, right, strict=True):
        torch.testing.assert_close(f.squeeze(0), r, atol=1e-5, rtol=1e-4)


def test_nothing_is_computed_again_where_nothing_is_trained(monkeypatch):
    monkeypatch.setattr("pdgnn.nn.backbone.recomputed", None)
    inputs, model = prepare(GRAPH, "gcn"), small("gcn")
    model.recompute = True
    model.eval()
    calm = call(model, inputs)
    model.train()
    with torch.no_grad():
        assert not torch.allclose(call(model, inputs), calm)
