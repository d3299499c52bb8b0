"""Models as a user may write them, and runs of them."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812
from torch_geometric.nn import BatchNorm, GATConv, GCNConv

from pdgnn.training import Model, RunSpec
from runs import board, three_classes

TASKS = {"board": board(), "ring": three_classes()}
CPU = torch.device("cpu")


class Net(nn.Module):
    """An ordinary PyG model."""

    def __init__(self, size, spec, dropout=nn.Dropout, **options) -> None:
        super().__init__()
        self.first = GCNConv(size.in_channels, spec.width)
        self.norm = BatchNorm(spec.width)
        self.more = nn.ModuleList(GATConv(spec.width, spec.width) for _ in range(spec.options["k"]))
        self.dropout = dropout(spec.dropout)
        self.last = nn.Linear(spec.width, size.out_channels)

    def forward(self, x, edge_index):
        x = self.dropout(self.norm(self.first(x, edge_index)).relu())
        for conv in self.more:
            x = self.dropout(conv(x, edge_index).relu())
        return self.last(x)


def net(**options) -> Model:
    return Model(build=Net, options={"k": 1}, **options)


def spec(**fields) -> RunSpec:
    small = {"dataset": "board", "model": "mine", "width": 8, "lr": 0.02, "steps": 5}
    return RunSpec(**{**small, **fields})


def gcn_only(size, run) -> nn.Module:
    class Simple(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lin = nn.Linear(size.in_channels, 4)
            self.gate = nn.Linear(4, size.out_channels)

        def forward(self, x, edge_index):
            h = self.lin(x).tanh()
            return {"logits": self.gate(h), "hidden": h}

    return Simple()


def phases(outputs, target, train_mask, step):
    """First the hidden values are made small, then the classes are learned."""
    each = F.cross_entropy(outputs["logits"], target, reduction="none")
    learned = (each * train_mask).sum() / train_mask.sum()
    return torch.where(step <= 2, outputs["hidden"].square().mean(), learned)
