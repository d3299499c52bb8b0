"""DGN against its formula, edge by edge, and GCN."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from pdgnn import InputError
from pdgnn.baselines.dgn import AGGREGATORS, AVERAGE, DERIVATIVE, MEAN, MODEL
from pdgnn.direction import average_matrix, derivative_matrix
from pdgnn.rewiring import rewire
from pdgnn.spectrum import first_eigenvector
from published import (
    adjacency,
    beats_gcn,
    check_equivariance,
    check_fits,
    check_many_are_single,
    features,
    inputs,
    logits,
    made,
    random_graph,
    run,
    slope,
)


def direction(graph, phi) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A / d, |Δ| and Δ, the last two with rows divided by Σ|Δ|."""
    a, n = adjacency(graph).numpy(), graph.num_nodes
    delta = np.where(a > 0, phi[None] - phi[:, None], 0.0)
    delta[np.abs(delta) < 1e-12] = 0.0
    rows = np.abs(delta).sum(1, keepdims=True)
    delta = delta / np.where(rows > 0, rows, 1.0)
    degree = a.sum(1, keepdims=True)
    assert delta.shape == (n, n)
    return a / np.where(degree > 0, degree, 1.0), np.abs(delta), delta


def one_by_one(layer, h: torch.Tensor, weights) -> list[torch.Tensor]:
    """The aggregates of the formula, from a message for every pair of nodes."""
    n, source = len(h), h
    messages = source[None].expand(n, -1, -1)  # [i, j, C]
    found = []
    if layer.net == "complex":
        messages = messages @ layer.lin_source.weight.T
        messages = messages + (h @ layer.lin_target.weight.T + layer.lin_target.bias)[:, None]
        found.append(h)
    for row in layer.rows:
        w = torch.from_numpy(weights[row])
        summed = torch.einsum("ij,ijc->ic", w, messages)
        if row == DERIVATIVE:
            summed = (summed - w.sum(1, keepdim=True) * h).abs()
        found.append(summed)
    return found


@pytest.mark.parametrize("net", ["simple", "complex"])
@pytest.mark.parametrize("aggregators", AGGREGATORS)
@pytest.mark.parametrize("seed", range(2))
def test_logits_are_those_of_the_formula(seed, aggregators, net):
    graph, fields = random_graph(seed), {"options": {"aggregators": aggregators, "net": net}}
    x, module = features(graph, seed), made(MODEL, graph, seed=seed, **fields)
    weights = direction(graph, first_eigenvector(graph))
    h = module.lin_in(x)
    for layer in module.layers:
        seen = torch.cat(one_by_one(layer, h, weights), dim=1)
        h = h + layer.norm(layer.lin(seen)).relu()
    found = logits(MODEL, module, graph, x, **fields)
    torch.testing.assert_close(found, module.readout(h).detach(), rtol=1e-8, atol=1e-8)


def test_the_weights_are_the_matrices_of_the_package():
    graph = random_graph(0)
    phi, n = first_eigenvector(graph), graph.num_nodes
    given = inputs(MODEL, graph)
    row, col = given["edges"].row.long(), given["edges"].col.long()
    dense = torch.zeros(3, n, n, dtype=torch.float64)
    dense[:, row, col] = given["weights"]
    dx = dense[DERIVATIVE] - torch.diag(given["totals"][DERIVATIVE])
    np.testing.assert_allclose(dense[AVERAGE], average_matrix(graph, phi).toarray(), atol=1e-12)
    np.testing.assert_allclose(dx, derivative_matrix(graph, phi).toarray(), atol=1e-12)
    torch.testing.assert_close(given["totals"], dense.sum(2))
    assert set(given["totals"][MEAN].round(decimals=9).tolist()) == {0.0, 1.0}  # node 0 is alone


def test_phi_is_that_of_the_laplacian_asked_for_and_of_the_graph_before_rewiring():
    graph = random_graph(2)
    options = {"laplacian": "combinatorial"}
    found = inputs(MODEL, graph, options=options)["totals"][DERIVATIVE]
    expected = direction(graph, first_eigenvector(graph, gamma=0.0))[2].sum(1)
    np.testing.assert_allclose(found, expected, atol=1e-9)
    fields = {"rewired": True, "alpha": 0.5, "gamma": 0.5}
    phi = first_eigenvector(graph, alpha=0.5, gamma=0.5)
    expected = direction(rewire(graph, phi=phi), phi)[2].sum(1)
    np.testing.assert_allclose(inputs(MODEL, graph, **fields)["totals"][2], expected, atol=1e-9)


@pytest.mark.parametrize("net", ["simple", "complex"])
def test_nodes_may_come_in_any_order(net):
    check_equivariance(MODEL, options={"net": net})


@pytest.mark.parametrize("net", ["simple", "complex"])
def test_many_runs_are_as_many_single_ones(net):
    check_many_are_single(
        MODEL, {"net": net}, {"net": net, "laplacian": "combinatorial"}, {"net": net}
    )


@pytest.mark.parametrize("net", ["simple", "complex"])
def test_it_learns_a_small_graph_by_heart(net):
    check_fits(MODEL, options={"net": net})


@pytest.mark.parametrize("net", ["simple", "complex"])
def test_it_sees_a_slope_where_gcn_cannot(net):
    beats_gcn(MODEL, slope(), gcn="gcn", depth=1, width=32, least=0.93, options={"net": net})


@pytest.mark.parametrize("name", ["aggregators", "net", "laplacian"])
def test_options_that_cannot_be_are_an_error(name):
    with pytest.raises(InputError, match=f"option {name}: choose one of "):
        run(MODEL, options={name: "max"})
