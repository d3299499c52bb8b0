"""What PyG's users do with a layer: each test runs on PyG's own layers and on ours."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim, export
from torch.func import functional_call, stack_module_state, vmap
from torch_geometric.explain import AttentionExplainer, Explainer, GNNExplainer
from torch_geometric.explain.algorithm.captum import CaptumModel
from torch_geometric.explain.algorithm.utils import clear_masks, set_masks
from torch_geometric.nn import GATConv, GCNConv, HeteroConv, MessagePassing, to_hetero
from torch_geometric.utils import to_undirected

from layers import EDGE_INDEX, normal, same
from pdgnn.nn import PDGATConv, PDGCNConv, conv_gcn
from pdgnn.ops import Edges

LAYERS = {
    "gcn": GCNConv,
    "pd-gcn": lambda i, o: PDGCNConv(i, o, alpha=0.7, gamma=0.6),
    "gat": lambda i, o: GATConv(i, o, heads=2, concat=False),
    "pd-gat": lambda i, o: PDGATConv(i, o, 2, concat=False, edge_dim=None),
}
ATTENDING = {name: LAYERS[name] for name in ("gat", "pd-gat")}
every_layer = pytest.mark.parametrize("make", LAYERS.values(), ids=LAYERS)
every_attending = pytest.mark.parametrize("make", ATTENDING.values(), ids=ATTENDING)
ours = pytest.mark.parametrize("make", [LAYERS["pd-gcn"], LAYERS["pd-gat"]], ids=["gcn", "gat"])

# two triangles that nothing joins
TWO = to_undirected(torch.tensor([[0, 1, 2, 3, 4, 5], [1, 2, 0, 4, 5, 3]]))


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(0)


class Net(nn.Module):
    def __init__(self, make) -> None:
        super().__init__()
        self.conv1, self.conv2 = make(4, 8), make(8, 3)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.conv2(self.conv1(x, edge_index).relu(), edge_index)


def explainer(model: nn.Module, algorithm, *, node_mask: str | None) -> Explainer:
    return Explainer(
        model,
        algorithm,
        explanation_type="model",
        node_mask_type=node_mask,
        edge_mask_type="object",
        model_config={
            "mode": "multiclass_classification",
            "task_level": "node",
            "return_type": "raw",
        },
    )


# --- explainers ---------------------------------------------------------------------------------


@every_layer
def test_gnn_explainer_learns_a_mask_of_the_edges(make):
    model, x = Net(make).eval(), torch.randn(6, 4)
    before = model(x, TWO)
    explain = explainer(model, GNNExplainer(epochs=20), node_mask="object")
    explanation = explain(x, TWO, index=1)
    assert explanation.edge_mask.shape == (12,)
    assert explanation.node_mask.shape == (6, 1)
    near = (TWO < 3).all(dim=0)  # in the triangle of node 1
    assert (explanation.edge_mask[near] > 0).all()
    assert (explanation.edge_mask[~near] == 0).all()
    assert torch.equal(model(x, TWO), before)  # nothing is left of the masks


@pytest.mark.parametrize("name", ["gcn", "pd-gcn"])
def test_a_mask_of_zero_cuts_an_edge_off(name):
    """Two triangles and an edge between them, which is masked: the other one no longer matters."""
    joined = torch.cat([TWO, torch.tensor([[2, 3], [3, 2]])], dim=1)
    kept = torch.tensor([1.0] * 12 + [0.0] * 2).double()
    model, x = Net(LAYERS[name]).double().eval(), normal(6, 4)
    set_masks(model, kept, joined, apply_sigmoid=False)
    out = model(x, joined)
    x[3:] += 1.0
    changed = (model(x, joined) != out).any(dim=1)
    assert changed.tolist() == [False] * 3 + [True] * 3


@every_layer
def test_a_mask_scales_messages_and_ones_change_nothing(make):
    conv, x = make(4, 3).double(), normal(6, 4)
    plain = conv(x, TWO)
    outs = []
    for value in (0.0, 0.5, 1.0):
        set_masks(conv, torch.full((12,), value).double(), TWO, apply_sigmoid=False)
        outs.append(conv(x, TWO))
    clear_masks(conv)
    assert same(outs[2], plain)
    assert same(outs[1], (outs[0] + outs[2]) / 2)
    assert not same(outs[0], plain)


def test_the_diagonal_of_p_is_no_message():
    conv, x = PDGCNConv(3, 2, gamma=0.4, bias=False).double(), normal(5, 3)
    set_masks(conv, torch.zeros(8).double(), EDGE_INDEX, apply_sigmoid=False)
    degree = torch.tensor([1, 3, 2, 2, 0]).double()
    stays = torch.where(degree == 0, 1.0, 0.6 / (0.4 * degree + 0.6))
    assert same(conv(x, EDGE_INDEX), stays[:, None] * (x @ conv.lin.weight.T))


@every_layer
def test_masks_of_graphs_with_self_loops(make):
    """PyG's layers replace loops by their own, ours drop them; a mask has an entry for each."""
    looped = torch.cat([torch.tensor([[1, 4], [1, 4]]), EDGE_INDEX], dim=1)
    conv, x = make(4, 3).double(), normal(5, 4)
    expected = conv(x, looped)
    set_masks(conv, torch.ones(10).double(), looped, apply_sigmoid=False)
    assert same(conv(x, looped), expected)


@every_attending
def test_attention_explainer_reads_the_attention(make):
    model, x = Net(make).double().eval(), normal(6, 4)
    explanation = explainer(model, AttentionExplainer(), node_mask=None)(x, TWO, index=1)
    _, (_, first) = model.conv1(x, TWO, return_attention_weights=True)
    _, (_, second) = model.conv2(model.conv1(x, TWO).relu(), TWO, return_attention_weights=True)
    largest = torch.stack([first[:12].amax(dim=1), second[:12].amax(dim=1)]).amax(dim=0)
    near = (TWO < 3).all(dim=0)
    assert same(explanation.edge_mask, torch.where(near, largest, 0.0))


def test_attention_explainer_says_the_same_of_both():
    peer = Net(ATTENDING["gat"]).double().eval()
    model = Net(ATTENDING["pd-gat"]).double().eval()
    model.load_state_dict(peer.state_dict())
    masks = [
        explainer(m, AttentionExplainer(), node_mask=None)(normal(6, 4), TWO, index=4).edge_mask
        for m in (peer, model)
    ]
    assert same(*masks)


@every_layer
def test_the_model_that_captum_sees(make):
    """The gradient to a mask of ones is that to the messages, and it ends with the triangle."""
    model, x = Net(make).double().eval(), normal(6, 4)
    mask = torch.ones(1, 12).double().requires_grad_()
    out = CaptumModel(model, "edge", output_idx=1)(mask, x, TWO)
    assert same(out, model(x, TWO)[[1]])
    (saliency,) = torch.autograd.grad(out.sum(), mask)
    near = (TWO < 3).all(dim=0)
    assert (saliency[0, ~near] == 0).all()
    assert (saliency[0, near] != 0).any()


@pytest.mark.filterwarnings("ignore:Input Tensor .* did not already require gradients")  # captum
@every_layer
@pytest.mark.parametrize("method", ["Saliency", "IntegratedGradients"])
def test_captum_explainer(make, method):
    pytest.importorskip("captum", reason="captum is not installed")
    from torch_geometric.explain import CaptumExplainer

    model, x = Net(make).eval(), torch.randn(6, 4)
    explain = explainer(model, CaptumExplainer(method), node_mask="attributes")
    explanation = explain(x, TWO, index=1)
    near = (TWO < 3).all(dim=0)
    assert (explanation.edge_mask[~near] == 0).all()
    assert explanation.edge_mask[near].abs().sum() > 0


# --- hooks, subclasses, copies ------------------------------------------------------------------


@every_layer
def test_hooks_see_the_messages_and_may_change_them(make):
    conv, x, seen = make(4, 3).double(), normal(5, 4), []
    conv.bias.data.fill_(1.0)
    before = conv(x, EDGE_INDEX)
    handles = [
        conv.register_message_forward_hook(lambda _, inputs, out: seen.append(out)),
        conv.register_propagate_forward_hook(lambda _, inputs, out: 2 * out),
    ]
    out = conv(x, EDGE_INDEX)
    assert len(seen) == 1
    assert seen[0].shape[0] in {8, 8 + 5}  # with PyG's loops
    assert not same(out, before)
    for handle in handles:
        handle.remove()
    assert torch.equal(conv(x, EDGE_INDEX), before)


class SilentGCN(PDGCNConv):
    def message(self, x_j: Tensor) -> Tensor:
        return 0 * x_j


class SilentGAT(PDGATConv):
    def message(self, x_j: Tensor) -> Tensor:
        return 0 * x_j


@pytest.mark.parametrize("layer", [SilentGCN, SilentGAT])
def test_a_subclass_may_have_messages_of_its_own(layer):
    conv, edges = layer(4, 3, bias=False).double(), Edges.from_edge_index(EDGE_INDEX, num_nodes=5)
    for structure in (EDGE_INDEX, edges):
        assert (conv(normal(5, 4), structure)[:4] == 0).all()


@ours
def test_copies_and_pickles(make):
    conv, x = make(4, 3).double(), normal(5, 4)
    assert isinstance(conv, MessagePassing)
    for twin in (copy.deepcopy(conv), pickle.loads(pickle.dumps(conv))):
        assert torch.equal(twin(x, EDGE_INDEX), conv(x, EDGE_INDEX))


# --- by messages and without ----------------------------------------------------------------------

BLOCK = torch.tensor([[0, 1, 2, 3, 4, 0], [0, 0, 1, 2, 2, 2]])
LOOPED = torch.cat([EDGE_INDEX, torch.tensor([[2, 3], [2, 3]])], dim=1)


def as_given(structure: Tensor, nodes: int, targets: int, form: str) -> Tensor | Edges:
    if form == "edge_index":
        return structure
    return Edges.from_edge_index(structure, num_nodes=nodes, num_targets=targets)


@pytest.mark.parametrize("form", ["edge_index", "edges"])
@pytest.mark.parametrize("kind", ["gcn", "gat"])
@pytest.mark.parametrize("block", [False, True])
def test_messages_give_what_the_kernels_give(form, kind, block, monkeypatch):
    monkeypatch.setattr(conv_gcn, "FEW_NUMBERS", 0)
    index, targets = (BLOCK, 3) if block else (LOOPED, 5)
    structure, x = as_given(index, 5, targets, form), normal(5, 4)
    if kind == "gcn":
        conv = PDGCNConv(4, 3, alpha=0.3, gamma=0.8, learn=True).double()
        values = normal(index.shape[1], seed=1).exp()
    else:
        conv = PDGATConv(4, 3, 2, residual=True).double()
        values = normal(index.shape[1], 2, seed=1)
    found = []
    for by_messages in (False, True):
        own, attr = (t.clone().requires_grad_() for t in (x, values))
        handle = conv.register_message_forward_hook(lambda *_: None) if by_messages else None
        out = conv((own, own[:3]) if block else own, structure, attr)
        wanted = [own, attr, *conv.parameters()]
        found.append([out, *torch.autograd.grad(out.tanh().sum(), wanted)])
        if handle is not None:
            handle.remove()
    for one, other in zip(*found, strict=True):
        assert same(one, other)


def test_an_edge_index_of_any_size_gives_the_same(monkeypatch):
    conv, x = PDGCNConv(4, 3, gamma=0.5).double(), normal(5, 4)
    few = conv(x, LOOPED)
    monkeypatch.setattr(conv_gcn, "FEW_NUMBERS", 0)
    assert same(conv(x, LOOPED), few)


def test_messages_are_summed_in_single_precision_at_least():
    leaves = torch.arange(1, 3001)
    star = torch.stack([torch.cat([leaves, 0 * leaves]), torch.cat([0 * leaves, leaves])])
    conv = PDGCNConv(1, 1, alpha=0.0, bias=False).bfloat16()
    nn.init.ones_(conv.lin.weight)
    out = conv(torch.ones(3001, 1, dtype=torch.bfloat16), star)
    assert out.dtype == torch.bfloat16
    assert out[0] == 3008  # 3000, in the eight bits that it has


@ours
def test_many_runs_at_once_on_an_edge_index(make):
    convs, x = [make(4, 3).double() for _ in range(3)], normal(5, 4)
    parameters, _ = stack_module_state(convs)
    out = vmap(lambda own: functional_call(convs[0], own, (x, EDGE_INDEX)))(parameters)
    for r, conv in enumerate(convs):
        assert same(out[r], conv(x, EDGE_INDEX))


# --- graphs of many kinds -------------------------------------------------------------------------

CITES, LIKES = ("paper", "cites", "paper"), ("paper", "likes", "paper")
WRITES, READS = ("author", "writes", "paper"), ("paper", "reaches", "author")


@every_layer
def test_to_hetero(make):
    model = to_hetero(Net(make), (["paper"], [CITES, LIKES]), aggr="sum").double()
    x, edges = normal(6, 4), {CITES: TWO, LIKES: EDGE_INDEX}
    out = model({"paper": x}, edges)["paper"]
    first, second = (
        [getattr(model, name)["__".join(kind)] for kind in edges] for name in ("conv1", "conv2")
    )
    h = sum(conv(x, e) for conv, e in zip(first, edges.values(), strict=True)).relu()
    assert same(out, sum(conv(h, e) for conv, e in zip(second, edges.values(), strict=True)))


@every_layer
def test_hetero_conv(make):
    conv = HeteroConv({CITES: make(4, 3), LIKES: make(4, 3)}, aggr="sum").double()
    x = normal(6, 4)
    out = conv({"paper": x}, {CITES: TWO, LIKES: EDGE_INDEX})["paper"]
    assert same(out, conv.convs[CITES](x, TWO) + conv.convs[LIKES](x, EDGE_INDEX))


@pytest.mark.parametrize("layer", [GATConv, PDGATConv])
def test_attention_between_two_kinds(layer):
    class One(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = layer((-1, -1), 3, 2, add_self_loops=False)

        def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
            return self.conv(x, edge_index)

    model = to_hetero(One(), (["paper", "author"], [WRITES, READS])).double()
    x = {"paper": normal(3, 4), "author": normal(5, 7, seed=1)}
    out = model(x, {WRITES: BLOCK, READS: BLOCK.flip(0)})
    assert {kind: values.shape for kind, values in out.items()} == {
        "paper": (3, 6),
        "author": (5, 6),
    }
    own = model.conv["__".join(WRITES)]
    assert same(out["paper"], own((x["author"], x["paper"]), BLOCK))


# --- traced ---------------------------------------------------------------------------------------


@every_layer
@pytest.mark.parametrize("strict", [True, False])
def test_export_with_any_number_of_nodes_and_edges(make, strict):
    model, x = Net(make).eval(), torch.randn(5, 4)
    shapes = ({0: Dim("nodes", min=2)}, {1: Dim("edges", min=2)})
    program = export(model, (x, EDGE_INDEX), dynamic_shapes=shapes, strict=strict)
    named = [str(node.target) for node in program.graph.nodes]
    assert not any("pdgnn" in name or "autograd" in name for name in named)
    for nodes, edges in ((6, TWO), (5, LOOPED), (9, torch.randint(9, (2, 40)))):
        x = torch.randn(nodes, 4)
        assert torch.allclose(program.module()(x, edges), _quietly(model, x, edges), atol=1e-6)


def _quietly(model: nn.Module, x: Tensor, edge_index: Tensor) -> Tensor:
    """Without a word on one-way edges."""
    for conv in (model.conv1, model.conv2):
        conv._checked = True
    return model(x, edge_index)


@every_layer
def test_it_compiles_in_one_piece_on_an_edge_index(make):
    conv = make(4, 3).double()
    compiled = torch.compile(conv, backend="aot_eager", fullgraph=True)
    for nodes, edges in ((5, LOOPED), (6, TWO)):
        found = []
        for module in (compiled, conv):
            x = normal(nodes, 4).requires_grad_()
            out = module(x, edges)
            found.append([out, *torch.autograd.grad(out.tanh().sum(), [x, *conv.parameters()])])
        for one, other in zip(*found, strict=True):
            assert same(one, other)
