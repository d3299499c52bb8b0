"""PDGCNConv and PDGATConv in torch: gradients, many runs at once, compilation."""

from __future__ import annotations

from collections import Counter

import pytest
import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.func import functional_call, stack_module_state, vmap
from torch.utils._python_dispatch import TorchDispatchMode

from layers import EDGE_INDEX, normal, same
from pdgnn import InputError
from pdgnn.nn import PDGATConv, PDGCNConv, conv_gcn
from pdgnn.ops import Edges, attend, score_nodes, use_backend
from pdgnn.ops.functional import attend_nodes


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


@pytest.mark.parametrize("kind", ["gcn", "gat"])
def test_with_a_message_hook_there_are_second_derivatives(kind):
    conv, rest = layer(kind)
    leaves = [t.requires_grad_() for t in (normal(5, 2), *rest)]

    def call(x, values):
        return conv(x, EDGE_INDEX, values)

    conv.register_message_forward_hook(lambda *_: None)
    assert torch.autograd.gradgradcheck(call, leaves)


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


# --- few steps, as on small graphs each takes longer to launch than to run ------------------------


class Dispatched(TorchDispatchMode):
    """Counts the calls that are no views; on a GPU each is a kernel at least."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: Counter[str] = Counter()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if not func.is_view:
            self.calls[str(func)] += 1
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("concat", [True, False])
@pytest.mark.parametrize(("edge_dim", "most"), [(None, 9), (2, 12)])
def test_a_call_takes_few_steps(concat, edge_dim, most):
    """3 products with W, 2 passes each way, 3 products for the features, the bias and its sum."""
    edges = Edges.from_edge_index(EDGE_INDEX, num_nodes=5)
    conv = PDGATConv(4, 3, heads=2, concat=concat, add_self_loops=False, edge_dim=edge_dim)
    x, attr = torch.randn(5, 4).requires_grad_(), None if edge_dim is None else torch.randn(8, 2)
    g = torch.randn(5, 6 if concat else 3)
    with Dispatched() as counted:
        torch.autograd.grad(conv(x, edges, attr), [x, *conv.parameters()], g)
    assert counted.calls["pdgnn.attend.default"] == counted.calls["pdgnn.attend_backward.default"]
    assert counted.calls.total() <= most + 2 * (not concat), counted.calls  # the mean, both ways


@pytest.mark.parametrize("backend", ["reference", "cpu"])
@pytest.mark.parametrize("featured", [True, False])
@pytest.mark.parametrize("masked", [True, False])
def test_attention_with_the_scores_of_its_nodes_is_both_in_one(backend, featured, masked):
    edges = Edges.from_edge_index(EDGE_INDEX, num_nodes=5)
    leaves = [normal(5, 6), normal(1, 2, 3, seed=1), normal(1, 2, 3, seed=2)]
    if featured:
        leaves += [normal(8, 2, seed=3), normal(1, 2, 2, seed=4)]
    mask = 2.0 * (normal(8, 2, seed=5) > 0) if masked else None

    def whole(h, src, dst, attr=None, w=None):
        term = {"edge_attr": attr, "w_edge": w, "mask": mask, "negative_slope": 0.3}
        return attend_nodes(h, src, dst, edges, **term)

    def parts(h, src, dst, attr=None, w=None):
        x, a_src, a_dst = score_nodes(h.view(5, 2, 3), None, src[0], dst[0])
        term = {"edge_attr": attr, "w_edge": None if w is None else w[0], "mask": mask}
        return attend(x, a_src, a_dst, edges, negative_slope=0.3, **term).flatten(1)

    found = []
    with use_backend(backend):
        for form in (whole, parts):
            own = [t.clone().requires_grad_() for t in leaves]
            out = form(*own)
            found.append([out, *torch.autograd.grad(out.tanh().sum(), own)])
        with torch.no_grad():
            found[0].append(whole(*leaves))
            found[1].append(parts(*leaves))
            stacked = [torch.stack([t, -t]) for t in leaves]
            found[0] += vmap(whole)(*stacked)
        found[1] += [parts(*leaves), parts(*(-t for t in leaves))]
    for one, other in zip(*found, strict=True):
        assert same(one, other)


def test_features_of_edges_need_their_weights():
    edges, att = Edges.from_edge_index(EDGE_INDEX, num_nodes=5), torch.ones(1, 2, 3)
    with pytest.raises(InputError, match="edge_attr and w_edge belong together"):
        attend_nodes(torch.ones(5, 6), att, att, edges, edge_attr=torch.ones(8, 2))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("weights", [True, False])
def test_in_half_precision(dtype, weights):
    """All comes out in the type of the layer, and near what double precision gives."""
    conv = PDGATConv(4, 3, heads=2).to(dtype)
    wide = PDGATConv(4, 3, heads=2).double()
    wide.load_state_dict(conv.state_dict())
    x, attr = normal(5, 4).to(dtype), normal(8, 2, seed=1).to(dtype)
    found = []
    for module, kind in ((conv, dtype), (wide, torch.float64)):
        own = x.to(kind).requires_grad_()
        out = module(own, EDGE_INDEX, attr.to(kind), return_attention_weights=weights)
        results = [out[0], out[1][1]] if weights else [out]
        total = sum((t * t.detach().cos()).sum() for t in results)
        results += torch.autograd.grad(total, [own, *module.parameters()])
        assert {t.dtype for t in results} == {kind}
        found.append(results)
    for one, other in zip(*found, strict=True):
        assert torch.allclose(one.double(), other, rtol=0.05, atol=0.05)


def test_under_autocast():
    conv, x, attr = PDGATConv(4, 3, heads=2), torch.randn(5, 4), torch.randn(8, 2)
    grads = []
    for enabled in (True, False):
        own = x.clone().requires_grad_()
        with torch.autocast("cpu", enabled=enabled):
            out = conv(own, EDGE_INDEX, attr)
        grads.append(torch.autograd.grad(out.float().tanh().sum(), [own, *conv.parameters()]))
    for one, other in zip(*grads, strict=True):
        assert one.dtype == torch.float32
        assert torch.allclose(one, other, rtol=0.05, atol=0.05)


# --- nothing waits for the device: fake tensors have no values that a step could look at ----------


@pytest.mark.parametrize("kind", ["gcn", "gat"])
@pytest.mark.parametrize("valued", [True, False])
def test_no_step_looks_at_values_of_edges(kind, valued):
    conv, rest = layer(kind)
    edges = Edges.from_edge_index(EDGE_INDEX, num_nodes=5)
    with FakeTensorMode(allow_non_fake_inputs=True) as fake:
        own = Edges(*(fake.from_tensor(t) for t in edges.tensors()))
        values = fake.from_tensor(rest[0]) if valued else None
        assert conv(fake.from_tensor(normal(5, 2)), own, values).shape[0] == 5


@pytest.mark.filterwarnings("ignore:Synchronization debug mode is a prototype")
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("few", [0, conv_gcn.FEW_NUMBERS])
def test_no_step_of_diffusion_waits_for_the_gpu_on_an_edge_index(few, monkeypatch):
    monkeypatch.setattr(conv_gcn, "FEW_NUMBERS", few)
    conv, index = PDGCNConv(2, 2, alpha=0.4, gamma=0.7).cuda(), EDGE_INDEX.cuda()
    x = normal(5, 2).float().cuda()
    expected = conv(x, index)
    torch.cuda.set_sync_debug_mode("error")
    try:
        out = conv(x, index)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert torch.allclose(out, expected)
