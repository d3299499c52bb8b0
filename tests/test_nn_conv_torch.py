"""PDGCNConv and PDGATConv in torch: gradients, many runs at once, compilation."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap

from layers import EDGE_INDEX, normal, same
from pdgnn.nn import PDGATConv, PDGCNConv
from pdgnn.ops import Edges


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(0)


def layer(kind: str) -> tuple[nn.Module, list[Tensor]]:
    """A small layer, and what it is called with besides x and the edges."""
    if kind == "gcn":
        weight = torch.tensor([0.5, 0.5, 2.0, 2.0, 1.0, 1.0, 0.25, 0.25]).double()
        return PDGCNConv(2, 2, alpha=0.4, gamma=0.7, learn=True).double(), [weight]
    return PDGATConv(2, 2, heads=2).double(), [normal(8, 2, seed=5)]


@pytest.mark.parametrize("kind", ["gcn", "gat"])
def test_gradients_are_the_differences(kind):
    conv, rest = layer(kind)
    names = [name for name, _ in conv.named_parameters()]

    def call(x, values, *parameters):
        return functional_call(
            conv, dict(zip(names, parameters, strict=True)), (x, EDGE_INDEX, values)
        )

    leaves = [normal(5, 2), *rest, *(p.detach().clone() for p in conv.parameters())]
    assert torch.autograd.gradcheck(call, [t.requires_grad_() for t in leaves])


@pytest.mark.parametrize("kind", ["gcn", "gat"])
def test_gradients_of_many_runs_are_the_differences(kind):
    convs, rest = [layer(kind)[0] for _ in range(2)], layer(kind)[1]
    parameters, _ = stack_module_state(convs)
    edges = Edges.from_edge_index(EDGE_INDEX, num_nodes=5)

    def call(x, values, *stacked):
        def one(own, values):
            named = dict(zip(parameters, own, strict=True))
            return functional_call(convs[0], named, (x, edges, values))

        return vmap(one)(stacked, values)

    values = torch.stack([edges.sorted(rest[0]), 2 * edges.sorted(rest[0])])
    leaves = [normal(5, 2), values, *(p.detach().clone() for p in parameters.values())]
    out = call(*leaves)
    for r, conv in enumerate(convs):
        assert same(out[r], conv(leaves[0], edges, values[r]))
    assert torch.autograd.gradcheck(call, [t.requires_grad_() for t in leaves])


# what dynamo does to torch.autograd.Function
@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")
@pytest.mark.parametrize("kind", ["gcn", "gat"])
def test_it_compiles_in_one_piece(kind):
    conv, rest = layer(kind)
    edges = Edges.from_edge_index(EDGE_INDEX, num_nodes=5)
    compiled = torch.compile(conv, backend="aot_eager", fullgraph=True)
    values = edges.sorted(rest[0])
    found = []
    for module in (compiled, conv):
        x = normal(5, 2).requires_grad_()
        out = module(x, edges, values)
        wanted = [x, *conv.parameters()]
        found.append([out, *torch.autograd.grad(out.tanh().sum(), wanted)])
    for one, other in zip(*found, strict=True):
        assert same(one, other)
