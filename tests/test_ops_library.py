"""What an op is declared with: results as they are announced, and what runs may share."""

from __future__ import annotations

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only

from ops_cases import Case, every_backend
from pdgnn import InputError
from pdgnn.ops import (
    Edges,
    activate,
    aggregate,
    attend,
    attend_dot,
    attend_nodes,
    batch_norm,
    dropout,
    layer_norm,
    library,
    linear,
    score_nodes,
    use_backend,
)

OPS = {name for name in dir(library) if isinstance(getattr(library, name), torch._ops.OpOverload)}


class Calls(TorchDispatchMode):
    """Every call of an op of ours, with its results."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        out = function(*args, **(kwargs or {}))
        if function.namespace == "pdgnn":
            self.seen.append(
                (function, tree_map_only(torch.Tensor, torch.Tensor.detach, args), out)
            )
        return out


def run_all(dtype: torch.dtype) -> None:
    """Every op and its gradient; the residual and the features of edges are float32 at least."""
    case, wide = Case(0), torch.promote_types(dtype, torch.float32)
    edges = case.edges()

    def new(*names, dtype=dtype):
        return [t.to(dtype).requires_grad_() for t in case.tensors(*names)]

    (x, q, k), (a_src, a_dst, attr, weight) = new("x", "q", "k"), new(
        "a_src", "a_dst", "attr", "weight", dtype=wide
    )  # fmt: skip
    state = (torch.tensor(0.3), torch.tensor(7), torch.tensor(2))
    w_edge, h, bias, src, dst = new("w_edge", "weight", "bias", "att", "att2")
    results = [
        aggregate(x, weight, edges),
        aggregate(x.detach(), weight, edges),
        attend(x, a_src, a_dst, edges),
        attend(x, a_src, a_dst, edges, edge_attr=attr, w_edge=w_edge),
        attend(x, a_src, a_dst, edges, edge_attr=attr.detach(), w_edge=w_edge),
        attend_dot(q, k, x, edges, scale=0.5),
        dropout(x, *state, layer=1),
        activate(h, bias[0, :2], dropout=(*state, 1)),
        activate(h, bias[0, :2], residual=weight, dropout=(*state, 1)),
        *batch_norm(h, bias[0, :2], bias[1, :2]),
        *batch_norm(h, bias[0, :2], bias[1, :2], added=[h], dropout=(*state, 1)),
        *layer_norm(weight, bias[0, :2], bias[0, :2]),
        *score_nodes(x, bias, src, dst),
        *score_nodes(x, None, src, dst),
        library.over_nodes(h.detach()[None], h.detach()[None, :, :1]),
    ]
    sum(t.float().sum() for t in results).backward()


@every_backend
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_results_are_those_that_are_announced(backend, dtype):
    with use_backend(backend), Calls() as calls:
        run_all(dtype)
    assert {function._opname for function, *_ in calls.seen} == OPS
    mode = FakeTensorMode()
    for function, args, out in calls.seen:
        given = tree_map_only(torch.Tensor, mode.from_tensor, args)
        with use_backend(backend), mode:
            fake = function(*given)
        one = isinstance(out, torch.Tensor)
        for said, found in zip([fake] if one else fake, [out] if one else out, strict=True):
            assert (said.shape, said.dtype) == (found.shape, found.dtype), function
            assert said.stride() == found.stride(), function


@pytest.mark.parametrize("asked", [True, False])
def test_what_all_runs_share_is_expanded_only_for_gradients_of_each(asked):
    case = Case(0)
    edges, (x, weight) = case.edges(), case.tensors("x", "weight")
    runs = torch.stack([x, 2 * x, 3 * x])
    with Calls() as calls:
        args = (weight[None], edges.tensors(), True, asked)
        torch.vmap(lambda x: library.aggregate_backward(x[None, :5], x[None], *args))(runs)
    ((_, (g, batch, shared, *_), (dx, dw)),) = calls.seen
    assert (len(g), len(batch), len(dx)) == (3, 3, 3)
    assert len(shared) == (3 if asked else 1)
    assert dw.shape == ((3, *weight.shape) if asked else (0,))


STATE = (torch.tensor(0.3), torch.tensor(7), torch.tensor(2))
KERNELS = {
    "aggregate": lambda x, edges, att: aggregate(x, edges.sorted(x.new_ones(18, 2)), edges),
    "attend": lambda x, edges, att: attend(x, x[..., 0], x[:5, :, 0], edges),
    "attend_nodes": lambda x, edges, att: attend_nodes(x.flatten(1), att, att, edges),
    "attend_dot": lambda x, edges, att: attend_dot(x[:5], x, x, edges, scale=0.5),
    "dropout": lambda x, edges, att: dropout(x, *STATE, layer=1),
    "activate": lambda x, edges, att: activate(x[:, 0], att[0, 0]),
    "layer_norm": lambda x, edges, att: layer_norm(x[:, 0], att[0, 0], att[0, 0])[0],
    "batch_norm": lambda x, edges, att: batch_norm(x[:, 0], att[0, 0], att[0, 0])[0],
    "linear": lambda x, edges, att: linear(x[:, 0], att[0]),
    "score_nodes": lambda x, edges, att: score_nodes(x, None, *att.expand(2, -1, -1))[1],
}


@every_backend
@pytest.mark.parametrize("name", KERNELS)
def test_a_second_derivative_is_an_error_and_not_a_wrong_number(name, backend):
    case = Case(0, targets=7 if name == "attend_nodes" else 5)
    x, bias = case.tensors("x", "bias", grad=True)
    with use_backend(backend):
        out = KERNELS[name](x, case.edges(), bias[None])
        (first,) = torch.autograd.grad(out.square().sum(), x, create_graph=True)
        (plain,) = torch.autograd.grad(KERNELS[name](x, case.edges(), bias[None]).square().sum(), x)
        assert torch.equal(first, plain)
        with pytest.raises(InputError, match="no second derivatives; leave create_graph=True out"):
            torch.autograd.grad(first.square().sum(), x)


WRONG = {
    "x": lambda c, e: aggregate(c["x"][:-1], c["weight"], e),
    "weight": lambda c, e: aggregate(c["x"], c["weight"][:-1], e),
    "a_src": lambda c, e: attend(c["x"], c["a_src"][:-1], c["a_dst"], e),
    "a_dst": lambda c, e: attend(c["x"], c["a_src"], c["a_dst"][:-1], e),
    "mask": lambda c, e: attend(c["x"], c["a_src"], c["a_dst"], e, mask=c["mask"][:-1]),
    "edge_attr": lambda c, e: attend(
        c["x"], c["a_src"], c["a_dst"], e, edge_attr=c["attr"][:-1], w_edge=c["w_edge"]
    ),
    "w_edge": lambda c, e: attend(
        c["x"], c["a_src"], c["a_dst"], e, edge_attr=c["attr"], w_edge=c["w_edge"][:, :1]
    ),
    "h": lambda c, e: attend_nodes(c["x"][:-1].flatten(1), c["bias"][None], c["bias"][None], e),
    "q": lambda c, e: attend_dot(c["q"][:-1], c["k"], c["x"], e, scale=1.0),
    "v": lambda c, e: attend_dot(c["q"], c["k"], c["x"][:-1], e, scale=1.0),
}


@pytest.mark.parametrize("name", WRONG)
def test_no_kernel_reads_beyond_the_end(name):
    case = Case(0, targets=7)
    names = ("x", "weight", "a_src", "a_dst", "mask", "attr", "w_edge", "bias", "q", "k")
    given = dict(zip(names, case.tensors(*names), strict=True))
    with pytest.raises(InputError, match=rf"^{name} has shape .*; with these edges give \["):
        WRONG[name](given, case.edges())


def test_edges_between_two_sets_of_nodes_have_no_scores_of_one():
    att = torch.zeros(1, 2, 3)
    with pytest.raises(InputError, match="two sets of nodes; use attend"):
        attend_nodes(torch.zeros(7, 6), att, att, Case(0).edges())


def test_a_batch_norm_adds_two_tensors_at_most():
    x = torch.ones(4, 2)
    with pytest.raises(InputError, match="3 tensors are added to x; give at most two"):
        batch_norm(x, x[0], x[0], added=[x, x, x])


@pytest.mark.parametrize(
    ("index", "said"), [([[0], [3]], "target 3"), ([[3], [0]], "source 3"), ([[-1], [0]], "source")]
)
def test_edges_name_nodes_that_are_there(index, said):
    with pytest.raises(InputError, match=rf"edge_index has {said}.*there are 3"):
        Edges.from_edge_index(torch.tensor(index), num_nodes=3)
