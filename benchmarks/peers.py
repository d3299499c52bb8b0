"""The networks of PD-GCN and PD-GAT made of PyG's layers, and their training written plainly.

The backbone is the one of :class:`pdgnn.nn.Backbone`. `GCNConv` takes P^(α,γ) as the weights of its
edges and normalizes nothing, which is what ``cached=True`` comes to after the first step; its own
Linear stands for the first one of the feed-forward network, as P (x W) = (P x) W.
"""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812
from torch_geometric.nn import GATConv, GCNConv

from pdgnn.models import MODELS
from pdgnn.training import RunSpec, Task
from pdgnn.training.metrics import scores

LR, DROPOUT, HEADS = 3e-5, 0.2, 8


class Block(nn.Module):
    """x + feed-forward(conv(LayerNorm(x)))."""

    def __init__(self, model: str, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.conv: Any
        self.lin1: nn.Module
        if model == "pd-gcn":
            self.conv, self.lin1 = GCNConv(width, width, normalize=False), nn.Identity()
        else:
            self.conv = GATConv(
                width, width // HEADS, heads=HEADS, edge_dim=2, add_self_loops=False
            )
            self.lin1 = nn.Linear(width, width)
        self.lin2 = nn.Linear(width, width)

    def forward(self, x: Tensor, edges: Tensor, on_edges: Tensor | None) -> Tensor:
        h = self.lin1(self.conv(self.norm(x), edges, on_edges))
        h = F.gelu(F.dropout(h, DROPOUT, self.training))
        return x + F.dropout(self.lin2(h), DROPOUT, self.training)


class Net(nn.Module):
    def __init__(self, model: str, sizes: tuple[int, int, int], depth: int) -> None:
        """`sizes`: features, width, outputs."""
        super().__init__()
        features, width, outputs = sizes
        self.lin_in = nn.Linear(features, width)
        self.blocks = nn.ModuleList(Block(model, width) for _ in range(depth))
        self.norm_out = nn.LayerNorm(width)
        self.lin_out = nn.Linear(width, outputs)

    def forward(self, x: Tensor, edges: Tensor, on_edges: Tensor | None) -> Tensor:
        x = F.gelu(F.dropout(self.lin_in(x), DROPOUT, self.training))
        for block in self.blocks:
            x = block(x, edges, on_edges)
        return cast(Tensor, self.lin_out(self.norm_out(x)))


def net_inputs(
    inputs: dict[str, Any], device: str, *, sparse: bool = False
) -> tuple[Tensor, Tensor | None]:
    """edge_index and the weights or features of edges; `sparse`: P as a torch.sparse matrix."""
    given = {name: value.to(device) for name, value in inputs.items()}
    edges, weight = given["edges"], given.get("edge_weight")
    if sparse and weight is not None:
        size = (edges.num_targets, edges.num_sources)
        rowptr, col = edges.rowptr.long(), edges.col.long()
        return torch.sparse_csr_tensor(rowptr, col, weight, size), None
    on_edges = given.get("edge_attr") if weight is None else weight
    return torch.stack([edges.col, edges.row]).long(), on_edges


class Training:
    """One split, as a user would write it: a step of AdamW, then an evaluation."""

    def __init__(
        self, net: nn.Module, task: Task, split: int, edges: Tensor, on_edges: Tensor | None
    ) -> None:
        device = edges.device
        self.net, self.x, self.y = net.to(device), task.x.to(device), task.y.to(device)
        self.graph = (edges, on_edges)
        masks = task.masks[split].to(device)  # [3, N]
        self.train, self.held_out = masks[0].nonzero()[:, 0], masks[None, 1:]
        self.optimizer: torch.optim.Optimizer
        self.optimizer = torch.optim.AdamW(net.parameters(), lr=LR, weight_decay=0.0)
        self.best = (0.0, 0.0)

    def step(self) -> None:
        self.net.train()
        loss = self.loss(self.net(self.x, *self.graph)[self.train], self.y[self.train])
        self.optimizer.zero_grad()
        torch.autograd.backward([loss])
        self.optimizer.step()
        self.net.eval()
        with torch.no_grad():
            logits = self.net(self.x, *self.graph).float()
        val, test = scores(logits[None], self.y, self.held_out)[0].tolist()
        if val > self.best[0]:
            self.best = (val, test)

    def loss(self, logits: Tensor, target: Tensor) -> Tensor:
        if logits.shape[1] == 1:
            return F.binary_cross_entropy_with_logits(logits[:, 0], target.float())
        return F.cross_entropy(logits, target)


@torch.no_grad()
def copy_weights(net: Net, ours: Any) -> None:
    """The parameters of a pdgnn model, put where they belong in `net`.

    GATConv adds its bias after the attention, pdgnn before it, so that it enters the scores: the
    two agree where it is zero, which it is made here in both.
    """
    for name in ("lin_in", "norm_out", "lin_out"):
        getattr(net, name).load_state_dict(getattr(ours, name).state_dict())
    for block, layer in zip(net.blocks, ours.layers, strict=True):
        theirs, own = cast(Block, block), layer.block
        theirs.norm.load_state_dict(layer.norm.state_dict())
        theirs.lin2.load_state_dict(own.feed_forward.lin2.state_dict())
        first = own.feed_forward.lin1
        if isinstance(theirs.lin1, nn.Linear):
            theirs.lin1.load_state_dict(first.state_dict())
            own.lin.bias.zero_()
            first = own.lin
            theirs.conv.lin_edge.weight.copy_(own.attention.lin_edge.weight)
            for att in ("att_src", "att_dst", "att_edge"):
                getattr(theirs.conv, att).copy_(getattr(own.attention, att)[None])
        theirs.conv.lin.weight.copy_(first.weight)
        theirs.conv.bias.copy_(first.bias)


def check(case: Any, task: Task, inputs: dict[str, Any]) -> bool:
    """Whether the logits of both sides agree, with the same weights, without dropout."""
    sizes: dict[str, Any] = {"width": case.width, "depth": case.depth, "heads": HEADS}
    spec = RunSpec(dataset=case.graph, model=case.model, **sizes)
    ours: Any = MODELS[case.model].make(task.size, spec)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():  # norms too are of no special values
        for p in ours.parameters():
            p.add_(torch.randn(p.shape, generator=generator), alpha=0.05)
    net = Net(case.model, (task.x.shape[1], case.width, task.out_channels), case.depth)
    copy_weights(net, ours)
    x = task.x.to(case.device)
    with torch.no_grad():
        own = {name: value.to(case.device) for name, value in inputs.items()}
        a = ours.eval().to(case.device)(x, **own)
        sparse = case.side == "pyg-sparse"
        b = net.eval().to(case.device)(x, *net_inputs(inputs, case.device, sparse=sparse))
    off = float((a - b).abs().max() / a.abs().max().clamp(min=1.0))
    counts = [sum(p.numel() for p in module.parameters()) for module in (ours, net)]
    good = off <= 1e-4 and counts[0] == counts[1]
    print(
        f"{case.graph:20} {case.model:7} {case.side:11} width {case.width}: logits differ by "
        f"{off:.1e}, parameters {counts[0]:,} and {counts[1]:,}{'' if good else '  NOT THE SAME'}",
        flush=True,
    )
    return good
