"""Every model against a dense re-implementation; building by name; PDGCN and PDGAT."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from pdgnn import Graph, InputError, direction_features
from pdgnn.models import MODELS, find_model
from pdgnn.nn import PDGAT, PDGCN
from runs import OWN, build, prepare
from strategies import graphs

WIDTH, HEADS, DEPTH = 12, 3, 2
SEP = ("sage", "gat-sep", "gt-sep", "pd-gat-sep")


# --- the models, dense and in plain NumPy and torch ----------------------------------------------


def dense_operator(name: str, a: np.ndarray, alpha: float, gamma: float) -> np.ndarray:
    """The N × N matrix that weighs the messages of GCN, SAGE and PD-GCN."""
    degree, n = a.sum(axis=1), len(a)
    if name in ("gcn", "plain-gcn"):
        root = np.diag((degree + 1) ** -0.5)
        return root @ (a + np.eye(n)) @ root
    if name == "sage":
        return a / np.where(degree > 0, degree, 1)[:, None]
    m = np.where(degree > 0, gamma * degree + 1 - gamma, 1)
    p = np.diag(m**-alpha) @ (gamma * a + (1 - gamma) * np.eye(n)) @ np.diag(m ** (alpha - 1))
    p[degree == 0, degree == 0] = 1
    return p


def dense_features(a: np.ndarray, phi: np.ndarray) -> np.ndarray:
    """[|Δ_ij|, Δ_ij] / Σ_j |Δ_ij|, and on the diagonal [0, −Σ_j Δ_ij / Σ_j |Δ_ij|]."""
    delta = (a > 0) * (phi[None, :] - phi[:, None])
    total = np.abs(delta).sum(axis=1, keepdims=True)
    delta = delta / np.where(total > 0, total, 1)
    return np.stack([np.abs(delta), delta - np.diag(delta.sum(axis=1))], axis=-1)  # [N, N, 2]


def dense_softmax(scores: Tensor, joined: Tensor) -> Tensor:
    """Over the second dimension of [N, N, H], where joined; a row without any is 0."""
    scores = scores.masked_fill(~joined[..., None], -math.inf)
    return scores.softmax(dim=1).nan_to_num(0.0)


class Dense:
    """The forward pass without dropout, from a state_dict alone."""

    def __init__(self, name: str, state: dict[str, Tensor], g: Graph, *, alpha, gamma, phi) -> None:
        self.name, self.state = name, state
        a = g.adjacency().toarray()
        if name in ("gcn", "sage", "pd-gcn", "plain-gcn", "plain-pd-gcn"):
            self.operator = torch.from_numpy(dense_operator(name, a, alpha, gamma))
        self.joined = torch.from_numpy(a > 0)
        if name not in SEP:
            self.joined = self.joined | torch.eye(len(a), dtype=torch.bool)
        self.features = torch.from_numpy(dense_features(a, phi))

    def linear(self, key: str, x: Tensor) -> Tensor:
        bias = self.state.get(f"{key}.bias")
        out = x @ self.state[f"{key}.weight"].T
        return out if bias is None else out + bias

    def norm(self, key: str, x: Tensor) -> Tensor:
        centred = x - x.mean(dim=1, keepdim=True)
        scale = (centred.pow(2).mean(dim=1, keepdim=True) + 1e-5).sqrt()
        return centred / scale * self.state[f"{key}.weight"] + self.state[f"{key}.bias"]

    def network(self, key: str, x: Tensor) -> Tensor:
        return self.linear(f"{key}.lin2", F.gelu(self.linear(f"{key}.lin1", x)))

    def attention(self, key: str, x: Tensor) -> Tensor:
        h = self.linear(f"{key}.lin", x)
        message = self.attended(key, h)
        seen = torch.cat([h, message], dim=1) if self.name in SEP else message
        return self.network(f"{key}.feed_forward", seen)

    def attended(self, key: str, h: Tensor) -> Tensor:
        heads = h.view(len(h), HEADS, -1)
        by_source = (heads * self.state[f"{key}.attention.att_src"]).sum(-1)
        by_target = (heads * self.state[f"{key}.attention.att_dst"]).sum(-1)
        scores = by_target[:, None] + by_source[None]  # [i, j, H]
        if f"{key}.attention.att_edge" in self.state:
            f = self.linear(f"{key}.attention.lin_edge", self.features).unflatten(2, (HEADS, -1))
            scores = scores + (f * self.state[f"{key}.attention.att_edge"]).sum(-1)
        p = dense_softmax(F.leaky_relu(scores, 0.2), self.joined)
        return torch.einsum("ijh,jhc->ihc", p, heads).flatten(1)

    def plain(self, key: str, x: Tensor) -> Tensor:
        h = x @ self.state[f"{key}.lin.weight"].T
        if "gat" in self.name:
            h = self.attended(key, h)
        elif hasattr(self, "operator"):
            h = self.operator @ h
        return F.gelu(h + self.state[f"{key}.lin.bias"])

    def transformer(self, key: str, x: Tensor) -> Tensor:
        q, k, v = (
            self.linear(f"{key}.{part}", x).view(len(x), HEADS, -1)
            for part in ("query", "key", "value")
        )
        scores = torch.einsum("ihc,jhc->ijh", q, k) / math.sqrt(q.shape[2])
        message = torch.einsum("ijh,jhc->ihc", dense_softmax(scores, self.joined), v).flatten(1)
        seen = torch.cat([x, message], dim=1) if self.name in SEP else message
        return self.linear(f"{key}.lin", seen)

    def block(self, key: str, x: Tensor) -> Tensor:
        if f"{key}.query.weight" in self.state:
            return self.transformer(key, x)
        if "gat" in self.name:
            return self.attention(key, x)
        seen = x
        if hasattr(self, "operator"):
            message = self.operator @ x
            seen = torch.cat([x, message], dim=1) if self.name in SEP else message
        return self.network(f"{key}.feed_forward", seen)

    def __call__(self, x: Tensor) -> Tensor:
        layers = 1 + max(int(key.split(".")[1]) for key in self.state if key.startswith("layers"))
        if self.name == "mlp" or self.name.startswith("plain"):
            for i in range(layers):
                x = self.plain(f"layers.{i}", x)
            return self.linear("lin_out", x)
        x = F.gelu(self.linear("lin_in", x))
        for i in range(layers):
            x = x + self.block(f"layers.{i}.block", self.norm(f"layers.{i}.norm", x))
        return self.linear("lin_out", self.norm("norm_out", x))


def model_of(name: str, seed: int = 0) -> nn.Module:
    options = {"hidden_channels": WIDTH, "heads": HEADS, "depth": DEPTH, "seed": seed}
    return build(name, 4, 2, **options).double().eval()


@pytest.mark.parametrize("name", OWN)
@settings(max_examples=12)
@given(g=graphs(max_nodes=9), seed=st.integers(0, 99), alpha=st.floats(0, 1), gamma=st.floats(0, 1))
def test_the_dense_model(name, g, seed, alpha, gamma):
    rng = np.random.default_rng(seed)
    phi, x = rng.normal(size=g.num_nodes), torch.from_numpy(rng.normal(size=(g.num_nodes, 4)))
    model = model_of(name, seed)
    inputs = prepare(g, name, alpha=alpha, gamma=gamma, phi=phi, dtype=torch.float64)
    dense = Dense(name, model.state_dict(), g, alpha=alpha, gamma=gamma, phi=phi)
    out = model(x, inputs.edges, inputs.edge_weight, inputs.edge_attr)
    assert torch.allclose(out, dense(x), rtol=1e-9, atol=1e-10)


def test_the_dense_model_tells_the_models_apart():
    """What the tests above compare with does depend on graph, α, γ and φ."""
    g = Graph.from_edge_index([[0, 1, 2, 3, 0], [1, 2, 3, 4, 2]])
    x, phi = torch.arange(20.0).view(5, 4).double().sin(), np.array([3.0, 1.0, 4.0, 1.5, 9.0])
    path = Graph.from_edge_index([[0, 1, 2, 3], [1, 2, 3, 4]])
    one = {"g": g, "alpha": 0.5, "gamma": 0.5, "phi": phi}
    for name in ("gcn", "sage", "gat", "gat-sep", "gt", "gt-sep", "pd-gcn", "pd-gat"):
        state = model_of(name).state_dict()

        def changed(state=state, name=name, **change) -> bool:
            outs = [Dense(name, state, **{**one, **c})(x) for c in ({}, change)]
            return not torch.allclose(*outs)

        assert changed(g=path), name
        assert changed(phi=phi[::-1].copy()) == (name == "pd-gat")
        assert changed(alpha=0.1, gamma=1.0) == (name == "pd-gcn")


# --- by name -------------------------------------------------------------------------------------


def test_the_registry():
    assert list(OWN) == [
        "mlp", "resnet", "gcn", "sage", "gat", "gat-sep", "gt", "gt-sep", "pd-gcn", "pd-gat",
        "pd-gat-sep", "plain-gcn", "plain-gat", "plain-pd-gcn", "plain-pd-gat",
    ]  # fmt: skip
    names = [model.name for model in MODELS.values()]
    assert names[8:11] == ["PD-GCN", "PD-GAT", "PD-GAT-sep"]
    assert len(set(names)) == len(names)
    scoped = ["pd-gcn", "pd-gat", "pd-gat-sep", "plain-pd-gcn", "plain-pd-gat"]
    for field in ("alpha", "gamma"):
        assert [key for key, model in OWN.items() if field in model.uses] == scoped
    with_heads = [key for key, model in OWN.items() if "heads" in model.uses]
    assert with_heads == [key for key in OWN if "gat" in key or "gt" in key]
    without_graph = [key for key, model in OWN.items() if "rewired" not in model.uses]
    assert without_graph == ["mlp", "resnet"]


def test_parameters_are_of_the_seed_alone():
    torch.manual_seed(7)
    before = torch.random.get_rng_state()
    one = build("pd-gat", 4, 2, hidden_channels=16, seed=5)
    assert torch.equal(torch.random.get_rng_state(), before)
    torch.manual_seed(8)
    two, other = (build("pd-gat", 4, 2, hidden_channels=16, seed=s) for s in (5, 6))
    for key, value in one.state_dict().items():
        assert torch.equal(two.state_dict()[key], value), key
    assert not torch.equal(other.lin_in.weight, one.lin_in.weight)
    assert (one.seed.item(), other.seed.item(), one.step.item()) == (5, 6, 0)
    torch.manual_seed(5)
    assert torch.equal(nn.Linear(4, 16).weight, one.lin_in.weight)


def test_a_model_is_built_on_the_cpu_whatever_the_default():
    with torch.device("meta"):
        model = build("gcn", 4, 2, hidden_channels=16)
    assert model.lin_in.weight.device.type == "cpu"
    assert torch.equal(model.lin_in.weight, build("gcn", 4, 2, hidden_channels=16).lin_in.weight)


def test_defaults_are_those_of_the_paper():
    model = build("gat", 4, 2)
    assert model.lin_in.weight.shape == (512, 4)
    assert len(model.layers) == 2
    assert model.layers[0].block.attention.heads == 8
    assert model.rate.item() == pytest.approx(0.2)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: find_model("gnn"), "unknown model 'gnn'; choose one of mlp, resnet, gcn, sage"),
        (lambda: find_model("PD-GAT"), "unknown model 'PD-GAT'"),
        (lambda: build("gat", 4, 2, hidden_channels=20), "hidden_channels=20 does not split"),
        (lambda: build("gcn", 0, 2), "in_channels must be a whole number of at least 1, not 0"),
        (
            lambda: build("gcn", 4, 2, seed="a"),
            "seed must be a whole number",
        ),
        (
            lambda: build("gcn", 4, 2, dropout=-0.1),
            r"dropout must be a number in \[0, 1\)",
        ),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(InputError, match=message):
        call()


# --- PDGCN and PDGAT -----------------------------------------------------------------------------

GRAPH = Graph.from_edge_index([[0, 1, 2, 3, 0], [1, 2, 3, 4, 2]], 6)
X = torch.randn(6, 4, generator=torch.Generator().manual_seed(0))
PHI = [3.0, 1.0, 4.0, 1.5, 9.0, 0.0]


def shuffled(edge_index: Tensor) -> tuple[Tensor, Tensor]:
    """The edges in another order with loops among them, and where each edge came from."""
    loops = torch.tensor([[2, 5], [2, 5]])
    order = torch.randperm(edge_index.shape[1] + 2, generator=torch.Generator().manual_seed(1))
    return torch.cat([edge_index, loops], dim=1)[:, order], order


@pytest.mark.parametrize("weighted", [False, True])
def test_pdgcn_is_the_model_of_that_name(weighted):
    g = GRAPH
    if weighted:
        g = Graph.from_edge_index([[0, 1, 2, 3, 0], [1, 2, 3, 4, 2]], 6, [0.5, 2.0, 1.0, 3.0, 0.1])
    model = PDGCN(4, WIDTH, 2, alpha=0.4, gamma=0.7).eval()
    twin = build("pd-gcn", 4, 2, hidden_channels=WIDTH).eval()
    twin.load_state_dict(model.state_dict())
    inputs = prepare(g, "pd-gcn", alpha=0.4, gamma=0.7)
    expected = twin(X, inputs.edges, inputs.edge_weight)
    edge_index, order = shuffled(g.edge_index)
    weight = torch.cat([g.edge_weight.float(), torch.full((2,), 9.0)])[order] if weighted else None
    assert torch.allclose(model(X, edge_index, weight), expected, atol=1e-5)
    assert torch.equal(model(X, inputs.edges, inputs.edge_weight), expected)


@pytest.mark.parametrize("sep", [False, True])
def test_pdgat_is_the_model_of_that_name(sep):
    """Loops and their features come from those of the edges."""
    name = "pd-gat-sep" if sep else "pd-gat"
    model = PDGAT(4, WIDTH, 2, heads=HEADS, sep=sep).eval()
    twin = build(name, 4, 2, hidden_channels=WIDTH, heads=HEADS).eval()
    twin.load_state_dict(model.state_dict())
    inputs = prepare(GRAPH, name, phi=PHI)
    expected = twin(X, inputs.edges, edge_attr=inputs.edge_attr)
    edge_index, _ = shuffled(GRAPH.edge_index)
    attr = direction_features(GRAPH, PHI, edge_index=edge_index)
    assert torch.allclose(model(X, edge_index, attr), expected, atol=1e-5)
    assert torch.equal(model(X, inputs.edges, inputs.edge_attr), expected)


def test_they_train():
    for model, rest in (
        (PDGCN(4, WIDTH, 2, gamma=0.5), ()),
        (PDGAT(4, WIDTH, 2, heads=HEADS), (direction_features(GRAPH, PHI),)),
    ):
        y = torch.tensor([0, 1, 0, 1, 0, 1])
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        first = F.cross_entropy(model.eval()(X, GRAPH.edge_index, *rest), y).item()
        model.train()
        for _ in range(60):
            loss = F.cross_entropy(model(X, GRAPH.edge_index, *rest), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        model.eval()
        out = model(X, GRAPH.edge_index, *rest)
        assert F.cross_entropy(out, y) < 0.1 * first
        assert torch.equal(out.argmax(dim=1), y)
        assert model.step.item() == 60


def test_pdgcn_warns_of_one_way_edges_once():
    model, x = PDGCN(4, 8, 2), torch.ones(3, 4)
    with pytest.warns(UserWarning, match="edge_index has one-way edges") as caught:
        model(x, torch.tensor([[0, 1], [1, 2]]))
    assert caught[0].filename == __file__
    model(x, torch.tensor([[0, 1], [1, 2]]))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: PDGAT(4, 8, 2)(X, GRAPH.edge_index),
            r"PDGAT attends to directions; give edge_attr",
        ),
        (
            lambda: PDGAT(4, 8, 2)(X, GRAPH.edge_index, torch.ones(10, 3)),
            r"edge_attr has shape \[10, 3\]; give \[10, 2\]",
        ),
        (lambda: PDGCN(4, 8, 2, gamma=-1), r"gamma must be a number in \[0, 1\], not -1"),
        (
            lambda: PDGCN(4, 8, 2)(X, GRAPH.edge_index, torch.ones(3)),
            r"edge_weight has shape \[3\]; give one number for each of 10 edges",
        ),
        (lambda: PDGCN(4, 8, 2)(X, torch.tensor([[0], [6]])), "edge_index has target 6, but"),
        (lambda: PDGCN(4, 8, 2)(X, prepare(GRAPH, "pd-gcn").edges), "give edge_weight, see"),
    ],
)
def test_bad_input_to_the_classes(call, message):
    with pytest.raises(InputError, match=message):
        call()
