"""LINKX against its formula, PyG's model and GCN."""

from __future__ import annotations

import pytest
import torch
from torch_geometric import nn as pyg

from pdgnn import InputError
from pdgnn.baselines.linkx import LINKX, MODEL
from published import (
    CLASSES,
    FEATURES,
    adjacency,
    beats_gcn,
    check_equivariance,
    check_fits,
    check_many_are_single,
    features,
    hubs,
    inputs,
    logits,
    made,
    random_graph,
    run,
)


@pytest.mark.parametrize("seed", range(4))
def test_logits_are_those_of_the_formula(seed):
    graph = random_graph(seed)
    x, module = features(graph, seed), made(MODEL, graph, seed=seed, depth=1)
    of_edges = adjacency(graph) @ module.weight + module.bias
    of_nodes = module.lin_nodes(x)
    both = module.mix(torch.cat([of_edges, of_nodes], dim=1))
    expected = module.lin_final((both + of_edges + of_nodes).relu())
    torch.testing.assert_close(logits(MODEL, module, graph, x), expected.detach())


def like_pyg(module: LINKX, depth: int, edge_layers: int, node_layers: int) -> pyg.LINKX:
    """PyG's with the same weights."""
    nodes, width = module.weight.shape
    layers = {"num_edge_layers": edge_layers, "num_node_layers": node_layers}
    theirs = pyg.LINKX(nodes, FEATURES, width, CLASSES, depth, **layers).double()
    mixed = {"cat_lin1.weight": module.mix.weight[:, :width], "cat_lin1.bias": module.mix.bias}
    mixed |= {"cat_lin2.weight": module.mix.weight[:, width:], "cat_lin2.bias": torch.zeros(width)}
    state = {"edge_lin.weight": module.weight, "edge_lin.bias": module.bias, **mixed}
    parts = {"edge_mlp": module.more_edges, "node_mlp": module.more_nodes}
    firsts = {"node_mlp": module.lin_nodes, "final_mlp": module.lin_final}
    for name, more in {**parts, "final_mlp": module.more_final}.items():
        lins = [firsts[name], *more.lins] if name in firsts else more.lins
        norms = list(more.norms)
        if name == "edge_mlp" and norms:
            state |= {f"edge_norm.{n}": t for n, t in norms.pop(0).state_dict().items()}
        for i, lin in enumerate(lins):
            state |= {f"{name}.lins.{i}.{n}": t for n, t in lin.state_dict().items()}
        for i, norm in enumerate(norms):
            state |= {f"{name}.norms.{i}.module.{n}": t for n, t in norm.state_dict().items()}
    theirs.load_state_dict({name: t.detach() for name, t in state.items()})
    return theirs


@pytest.mark.parametrize(("depth", "edge_layers", "node_layers"), [(1, 1, 1), (3, 2, 1), (2, 2, 3)])
@pytest.mark.parametrize("training", [False, True])
def test_it_is_that_of_pyg(depth, edge_layers, node_layers, training):
    graph = random_graph(1)
    fields = {"depth": depth, "dropout": 0.0}
    fields["options"] = {"edge_layers": edge_layers, "node_layers": node_layers}
    x, module = features(graph), made(MODEL, graph, **fields).train(training)
    theirs = like_pyg(module, depth, edge_layers, node_layers).train(training)
    expected = theirs(x, graph.edge_index, graph.edge_weight)
    torch.testing.assert_close(module(x, **inputs(MODEL, graph, **fields)), expected)


def test_nodes_may_come_in_any_order_with_their_rows():
    fields = {"options": {"edge_layers": 2, "node_layers": 2}}
    check_equivariance(MODEL, permute="weight", **fields)


def test_many_runs_are_as_many_single_ones():
    layers = {"edge_layers": 2, "node_layers": 1}
    check_many_are_single(MODEL, layers, layers, layers)
    check_many_are_single(MODEL, {}, {}, {}, width=160)  # W_A is large: a view of all parameters


def test_it_learns_a_small_graph_by_heart():
    check_fits(MODEL)


def test_it_knows_neighbours_by_name_where_gcn_sees_none():
    beats_gcn(MODEL, hubs(), gcn="gcn")


@pytest.mark.parametrize("name", ["edge_layers", "node_layers"])
def test_options_that_cannot_be_are_an_error(name):
    with pytest.raises(InputError, match=f"option {name}: it must be a whole number"):
        run(MODEL, options={name: 0})
