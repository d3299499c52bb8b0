"""The primitives against dense NumPy, in every form there is, with gradients, vmap and compile."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ops_cases import Case, device, every_backend
from pdgnn.errors import InputError
from pdgnn.ops import (
    BACKENDS,
    Edges,
    activate,
    aggregate,
    attend,
    attend_dot,
    dropout,
    layer_norm,
    score_nodes,
    use_backend,
)


@pytest.fixture(autouse=True, scope="module")
def low_hubs():
    """So few edges make a hub that small graphs have some."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pdgnn.ops.edges.HUB", 12)
        yield


shapes = st.fixed_dictionaries(
    {
        "seed": st.integers(0, 2**32 - 1),
        "sources": st.integers(1, 9),
        "targets": st.integers(1, 9),
        "edges": st.integers(0, 40),
        "heads": st.integers(1, 3),
        "channels": st.integers(1, 6),
    }
)


@every_backend
@settings(max_examples=25)
@given(shape=shapes)
def test_aggregate_is_a_sum_over_incoming_edges(backend, shape):
    case, where = Case(**shape), device(backend)
    x, weight = case.tensors("x", "weight", where=where)
    edges = case.edges(where)
    with use_backend(backend):
        per_head = aggregate(x, edges.sorted(weight), edges)
        alike = aggregate(x, edges.sorted(weight[:, :1]), edges)
    one = np.repeat(case.weight[:, :1], x.shape[1], axis=1)
    np.testing.assert_allclose(per_head.cpu(), case.summed(case.weight, case.x), atol=1e-12)
    np.testing.assert_allclose(alike.cpu(), case.summed(one, case.x), atol=1e-12)


@every_backend
@pytest.mark.parametrize("slope", [0.2, 0.0])
@settings(max_examples=25)
@given(shape=shapes)
def test_attend_is_softmax_of_leaky_scores(backend, slope, shape):
    case, where = Case(**shape), device(backend)
    x, a_src, a_dst, attr, w_edge, mask = case.tensors(
        "x", "a_src", "a_dst", "attr", "w_edge", "mask", where=where
    )
    edges = case.edges(where)
    with use_backend(backend):
        plain = attend(x, a_src, a_dst, edges, negative_slope=slope)
        full = attend(
            x,
            a_src,
            a_dst,
            edges,
            edge_attr=edges.sorted(attr),
            w_edge=w_edge,
            mask=edges.sorted(mask),
            negative_slope=slope,
        )
    z = case.logits()
    p = case.softmax(np.where(z > 0, z, slope * z))
    np.testing.assert_allclose(plain.cpu(), case.summed(p, case.x), atol=1e-12)
    z = z + case.attr @ case.w_edge.T
    p = case.softmax(np.where(z > 0, z, slope * z)) * case.mask
    np.testing.assert_allclose(full.cpu(), case.summed(p, case.x), atol=1e-12)


@every_backend
@settings(max_examples=25)
@given(shape=shapes)
def test_attend_dot_is_softmax_of_products(backend, shape):
    case, where = Case(**shape), device(backend)
    q, k, v = case.tensors("q", "k", "x", where=where)
    with use_backend(backend):
        out = attend_dot(q, k, v, case.edges(where), scale=0.3)
    score = 0.3 * (case.q[case.target] * case.k[case.source]).sum(axis=-1)
    np.testing.assert_allclose(out.cpu(), case.summed(case.softmax(score), case.x), atol=1e-12)


def calls(case: Case, where: str):
    """Each op as a function of the tensors that it is differentiable in."""
    edges = case.edges(where)
    mask = edges.sorted(case.tensors("mask", where=where)[0]).float()
    state = [t.to(where) for t in (torch.tensor(0.3), torch.tensor(7), torch.tensor(2))]
    return {
        "aggregate": (("x", "weight"), lambda x, w: aggregate(x, w, edges)),
        "one weight": (("x", "attr"), lambda x, w: aggregate(x, w[:, :1], edges)),
        "attend": (("x", "a_src", "a_dst"), lambda x, s, d: attend(x, s, d, edges)),
        "features": (
            ("x", "a_src", "a_dst", "attr", "w_edge"),
            lambda x, s, d, f, w: attend(x, s, d, edges, edge_attr=f, w_edge=w, mask=mask),
        ),
        "attend_dot": (("q", "k", "x"), lambda q, k, v: attend_dot(q, k, v, edges, scale=0.3)),
        "dropout": (("x",), lambda x: dropout(x, *state, layer=3)),
        "activate": (("weight", "w_edge"), lambda h, w: activate(h, w[:, 0], dropout=(*state, 3))),
        "residual": (
            ("weight", "w_edge", "attr"),
            lambda h, w, r: activate(h, w[:, 0], residual=r, dropout=(*state, 3)),
        ),
        "no dropout": (("weight", "w_edge"), lambda h, w: activate(h, w[:, 0])),
        "no dropout, residual": (
            ("weight", "w_edge", "attr"),
            lambda h, w, r: activate(h, w[:, 0], residual=r),
        ),
        "scores": (
            ("x", "bias", "att", "att2"),
            lambda h, b, s, d: torch.cat([t.flatten(1) for t in score_nodes(h, b, s, d)], dim=1),
        ),
        "scores, no bias": (
            ("x", "att", "att2"),
            lambda h, s, d: torch.cat([t.flatten(1) for t in score_nodes(h, None, s, d)], dim=1),
        ),
        "norm": (("weight", "w_edge"), lambda x, w: layer_norm(x, w[:, 0], w[:, 1])[0]),
        "norm and x": (
            ("weight", "w_edge"),
            lambda x, w: torch.cat(layer_norm(x, w[:, 0], w[:, 1], eps=0.1)),
        ),
        "x of norm": (("weight", "w_edge"), lambda x, w: layer_norm(x, *w.T)[1] * w.sum()),
    }


OPS = list(calls(Case(0), "cpu"))


@every_backend
@pytest.mark.parametrize("op", OPS)
def test_gradients(backend, op):
    case = Case(3, sources=4, targets=3, edges=7, heads=2, channels=2)
    names, function = calls(case, device(backend))[op]
    tensors = case.tensors(*names, where=device(backend), grad=True)
    with use_backend(backend):
        assert torch.autograd.gradcheck(function, tensors)


@every_backend
@pytest.mark.parametrize("op", OPS)
def test_vmap_is_one_run_after_another(backend, op):
    where = device(backend)
    names, function = calls(Case(0), where)[op]
    runs = [Case(seed).tensors(*names, where=where) for seed in (1, 2, 3)]
    stacked = [torch.stack(of_run).requires_grad_() for of_run in zip(*runs, strict=True)]
    with use_backend(backend):
        together = torch.vmap(function)(*stacked)
        apart = torch.stack([function(*run) for run in zip(*stacked, strict=True)])
        torch.testing.assert_close(together, apart, atol=1e-13, rtol=0)
        got = torch.autograd.grad(together.sin().sum(), stacked)
        want = torch.autograd.grad(apart.sin().sum(), stacked)
        each = torch.func.vmap(
            torch.func.grad(lambda *t: function(*t).sin().sum(), tuple(range(len(names))))
        )(*(t.detach() for t in stacked))
    torch.testing.assert_close(got, want, atol=1e-13, rtol=0)
    torch.testing.assert_close(each, want, atol=1e-13, rtol=0)


@every_backend
def test_what_runs_share_is_given_once(backend):
    """Weights and features without a mapped dimension, with their gradients summed over runs."""
    where = device(backend)
    case = Case(5)
    edges = case.edges(where)
    weight, attr = case.tensors("weight", "attr", where=where, grad=True)
    x = torch.stack([Case(s).tensors("x", where=where)[0] for s in (1, 2)])
    a_src, a_dst, w_edge = case.tensors("a_src", "a_dst", "w_edge", where=where)

    def both(x, weight, attr):
        out = attend(x, a_src, a_dst, edges, edge_attr=attr, w_edge=w_edge)
        return aggregate(x, weight, edges) + out

    with use_backend(backend):
        together = torch.vmap(both, in_dims=(0, None, None))(x, weight, attr)
        apart = torch.stack([both(one, weight, attr) for one in x])
        got = torch.autograd.grad(together.sin().sum(), (weight, attr))
        want = torch.autograd.grad(apart.sin().sum(), (weight, attr))
    torch.testing.assert_close(together, apart, atol=1e-13, rtol=0)
    torch.testing.assert_close(got, want, atol=1e-13, rtol=0)


@pytest.mark.parametrize("op", OPS)
def test_compiles_whole(op):
    names, function = calls(Case(4), "cpu")[op]
    tensors = Case(4).tensors(*names, grad=True)
    compiled = torch.compile(function, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(compiled(*tensors), function(*tensors), atol=0, rtol=0)
    got = torch.autograd.grad(compiled(*tensors).sin().sum(), tensors)
    want = torch.autograd.grad(function(*tensors).sin().sum(), tensors)
    torch.testing.assert_close(got, want, atol=1e-13, rtol=0)


@every_backend
@pytest.mark.parametrize("op", OPS)
def test_single_precision_is_close_to_double(backend, op):
    where = device(backend)
    case = Case(6, sources=20, targets=9, edges=70, heads=2, channels=17)
    names, function = calls(case, where)[op]
    exact = case.tensors(*names, where=where, grad=True)
    rough = [t.detach().float().requires_grad_() for t in exact]
    with use_backend(backend):
        got, want = function(*rough), function(*exact)
        grads = torch.autograd.grad(got.sin().sum(), rough)
        true = torch.autograd.grad(want.sin().sum(), exact)
    assert got.dtype == torch.float32
    torch.testing.assert_close(got.double(), want, atol=2e-5, rtol=2e-5)
    for a, b in zip(grads, true, strict=True):
        torch.testing.assert_close(a.double(), b, atol=2e-4, rtol=2e-4)


@every_backend
def test_large_scores_do_not_overflow(backend):
    where = device(backend)
    edges = Edges.from_edge_index(torch.tensor([[1, 2], [0, 0]]), num_nodes=3).to(where)
    x = torch.tensor([1.0, 2.0, 4.0], device=where)[:, None, None]
    a = torch.tensor([0.0, 1e4, 1e4 + 1], device=where)[:, None]
    with use_backend(backend):
        out = attend(x, a, torch.zeros_like(a), edges)
    share = 1 / (1 + np.e)
    assert out[0].item() == pytest.approx(2 * share + 4 * (1 - share), rel=1e-3)


@every_backend
def test_nan_stays_in_its_run(backend):
    where = device(backend)
    case = Case(2)
    edges = case.edges(where)
    x, a_src, a_dst = case.tensors("x", "a_src", "a_dst", where=where)
    broken = torch.stack([x, torch.full_like(x, torch.nan), x])
    with use_backend(backend):
        out = torch.vmap(lambda x: attend(x, a_src, a_dst, edges))(broken)
        alone = attend(x, a_src, a_dst, edges)
    assert out[1].isnan().any()
    torch.testing.assert_close(out[0], alone, atol=0, rtol=0)
    torch.testing.assert_close(out[2], alone, atol=0, rtol=0)


@every_backend
def test_a_hub_is_dealt_out_and_put_together_again(backend):
    """Node 0 has more edges than one program takes; the graph is larger than any tile."""
    where, rng = device(backend), np.random.default_rng(0)
    case = Case(0, sources=60, targets=60, edges=2000, heads=2, channels=5)
    case.target[:1300] = 0
    case.source[1300:1900] = 7
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pdgnn.ops.edges.HUB", 512)
        for names, function in calls(case, where).values():
            tensors = case.tensors(*names, where=where, grad=True)
            with use_backend(backend):
                out = function(*tensors)
                g = torch.tensor(rng.normal(size=out.shape), device=where)
                found = out, *torch.autograd.grad((out * g).sum(), tensors)
            with use_backend("reference"):
                out = function(*tensors)
                expected = out, *torch.autograd.grad((out * g).sum(), tensors)
            torch.testing.assert_close(found, expected, atol=1e-10, rtol=1e-10)


@every_backend
def test_indices_of_64_bits_give_the_same_bits(backend, monkeypatch):
    where = device(backend)
    case = Case(0, sources=9, targets=9, edges=90, heads=2, channels=5)
    narrow = calls(case, where)
    made = Edges.from_edge_index

    def wide_edges(*args, **options):
        edges = made(*args, **options)
        return Edges(*(t.long() for t in edges.tensors()), order=edges.order)

    monkeypatch.setattr(Edges, "from_edge_index", wide_edges)
    wide = calls(case, where)
    assert case.edges().col.dtype == torch.int64
    for name in ("aggregate", "features", "attend_dot"):
        names, function = narrow[name]
        tensors = case.tensors(*names, where=where, grad=True)
        with use_backend(backend):
            found, expected = wide[name][1](*tensors), function(*tensors)
            grads = [torch.autograd.grad(t.sin().sum(), tensors) for t in (found, expected)]
        assert torch.equal(found, expected)
        assert all(torch.equal(a, b) for a, b in zip(*grads, strict=True))


@every_backend
def test_the_same_input_gives_the_same_bits(backend):
    where = device(backend)
    case = Case(0, sources=9, targets=9, edges=90, heads=2, channels=5)
    for names, function in calls(case, where).values():
        tensors = [t.float().requires_grad_() for t in case.tensors(*names, where=where)]
        with use_backend(backend):
            runs = [function(*tensors) for _ in range(2)]
            grads = [torch.autograd.grad(out.sin().sum(), tensors) for out in runs]
        assert torch.equal(*runs)
        assert all(torch.equal(a, b) for a, b in zip(*grads, strict=True))


def test_edges_keep_both_layouts():
    index = torch.tensor([[3, 0, 0, 2, 3], [1, 2, 1, 1, 1]])
    edges = Edges.from_edge_index(index, num_nodes=4, num_targets=3)
    assert (edges.num_edges, edges.num_sources, edges.num_targets) == (5, 4, 3)
    pairs = sorted(zip(edges.col.tolist(), edges.row.tolist(), strict=True))
    assert pairs == sorted(zip(*index.tolist(), strict=True))
    for j in range(4):
        span = slice(int(edges.t_rowptr[j]), int(edges.t_rowptr[j + 1]))
        assert (edges.col[edges.t_slot[span].long()] == j).all()
        assert torch.equal(edges.row[edges.t_slot[span].long()], edges.t_row[span])
    assert torch.equal(edges.sorted(torch.arange(5)), edges.order)
    assert torch.equal(index[1][edges.order].int(), edges.row)


@pytest.mark.parametrize("bad", [torch.zeros(3, 4, dtype=torch.long), torch.zeros(2, 4)])
def test_bad_edge_index(bad):
    with pytest.raises(InputError, match=r"edge_index must be integers of shape \[2, E\]"):
        Edges.from_edge_index(bad, num_nodes=5)


def test_bad_backend_and_half_of_the_features():
    with pytest.raises(InputError, match=f"choose one of {', '.join(BACKENDS)}"):
        use_backend("cuda").__enter__()
    case = Case(0)
    x, a_src, a_dst, attr = case.tensors("x", "a_src", "a_dst", "attr")
    with pytest.raises(InputError, match="give both or neither"):
        attend(x, a_src, a_dst, case.edges(), edge_attr=attr)
