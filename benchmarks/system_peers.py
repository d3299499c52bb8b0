"""Published systems made of PyG's layers, as one would write them, and their training."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812
from torch_geometric import nn as pyg

from pdgnn.models import MODELS, Size
from pdgnn.training import RunSpec, Task
from peers import Training


class APPNP(nn.Module):
    """An MLP, then PyG's propagation."""

    def __init__(self, size: Size, spec: RunSpec) -> None:
        super().__init__()
        widths = [size.in_channels, *(spec.depth - 1) * [spec.width], size.out_channels]
        self.lins = nn.ModuleList(nn.Linear(*pair) for pair in pairwise(widths))
        hops, teleport = (spec.options[name] for name in ("hops", "teleport"))
        self.propagation: Any = pyg.APPNP(int(hops or 0), float(teleport or 0), cached=True)
        self.rate = spec.dropout

    def forward(self, x: Tensor, edge_index: Tensor, weight: Tensor) -> Any:
        for i, lin in enumerate(self.lins):
            x = lin(F.dropout(x.relu() if i else x, self.rate, self.training))
        return self.propagation(x, edge_index, weight)


class FAGCN(nn.Module):
    """Two Linears and PyG's layers between them."""

    def __init__(self, size: Size, spec: RunSpec) -> None:
        super().__init__()
        self.lin_in = nn.Linear(size.in_channels, spec.width)
        given: Any = {"eps": spec.options["epsilon"], "dropout": spec.dropout}
        given |= {"cached": True, "add_self_loops": False}
        self.convs = nn.ModuleList(pyg.FAConv(spec.width, **given) for _ in range(spec.depth))
        self.lin_out = nn.Linear(spec.width, size.out_channels)
        self.rate = spec.dropout

    def forward(self, x: Tensor, edge_index: Tensor, weight: Tensor) -> Any:
        x = self.lin_in(F.dropout(x, self.rate, self.training)).relu()
        x = first = F.dropout(x, self.rate, self.training)
        for conv in self.convs:
            x = conv(x, first, edge_index)  # it weighs edges itself, all alike
        return self.lin_out(x)


def linkx(size: Size, spec: RunSpec) -> nn.Module:
    """PyG's own model."""
    edge, node = (spec.options[name] for name in ("edge_layers", "node_layers"))
    widths = (size.num_nodes, size.in_channels, spec.width, size.out_channels, spec.depth)
    layers: Any = {"num_edge_layers": edge, "num_node_layers": node}
    net: nn.Module = pyg.LINKX(*widths, **layers, dropout=spec.dropout)
    return net


NETS: dict[str, Callable[[Size, RunSpec], nn.Module]] = {
    "fagcn": FAGCN,
    "linkx": linkx,
    "appnp": APPNP,
}
"""By the name of the system in the registry."""


def training(spec: RunSpec, task: Task, device: str) -> Training:
    """The loop of one split."""
    torch.manual_seed(spec.seed)
    net = NETS[spec.model](task.size, spec)
    edges, weight = task.graph.edge_index.to(device), task.graph.edge_weight.float().to(device)
    made = Training(net, task, spec.split, edges, weight)
    coupled = MODELS[spec.model].optimizer == "adam"
    kind = torch.optim.Adam if coupled else torch.optim.AdamW
    made.optimizer = kind(net.parameters(), lr=spec.lr, weight_decay=spec.weight_decay)
    return made
