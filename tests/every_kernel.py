"""Every Triton kernel once, forward and backward, on awkward sizes. For compute-sanitizer:

PYTORCH_NO_CUDA_MEMORY_CACHING=1 compute-sanitizer --tool memcheck python tests/every_kernel.py
TRITON_DEFAULT_FP_FUSION=0 compute-sanitizer --tool racecheck python tests/every_kernel.py
"""

from __future__ import annotations

import itertools
import sys

import torch
from torch import Tensor

from pdgnn.ops import (
    Edges,
    activate,
    aggregate,
    attend,
    attend_dot,
    batch_norm,
    dropout,
    layer_norm,
    score_nodes,
)
from pdgnn.ops.backends import kernels_for
from pdgnn.training.group import matmul_precision

SIZES = ((37, 101, 1100, 3, 5), (64, 300, 0, 8, 64), (5, 0, 0, 1, 7))
"""Nodes, edges, more edges into one node and out of another, heads, channels."""


class Values:
    """Random tensors of one type on one device, of which gradients may be asked."""

    def __init__(self, device: str, dtype: torch.dtype) -> None:
        self.device, self.dtype = device, dtype

    def __call__(self, *size: int, wide: bool = False) -> Tensor:
        dtype = torch.float32 if wide else self.dtype
        return torch.randn(size, device=self.device).to(dtype).requires_grad_()


def graph(nodes: int, edges: int, hub: int, device: str) -> Edges:
    """The last node has no edges unless the hubs do."""
    index = torch.randint(nodes - 1, (2, edges))
    into = torch.stack([torch.randint(nodes, (hub,)), torch.full((hub,), 1)])
    out = torch.stack([torch.full((hub,), 2), torch.randint(nodes, (hub,))])
    index = torch.cat([index, into, out], dim=1)
    return Edges.from_edge_index(index.to(device), num_nodes=nodes)


def messages(new: Values, edges: Edges, heads: int, channels: int) -> None:
    """Attention and aggregation, with all that they may be given and without."""
    n, e = edges.num_targets, edges.num_edges
    x, w = new(n, heads, channels), new(heads, 2)
    terms = new(n, heads, wide=True), new(n, heads, wide=True)
    attr, mask = new(e, 2, wide=True), torch.rand(e, heads, device=new.device)
    attend(x, *terms, edges, edge_attr=attr, w_edge=w, mask=mask).sum().backward()
    attend(x, *terms, edges, edge_attr=attr.detach(), w_edge=w).square().sum().backward()
    attend(x, *terms, edges).sum().backward()
    query, key = new(n, heads, channels), new(n, heads, channels)
    attend_dot(query, key, x, edges, scale=0.3).sum().backward()
    for of_heads in (1, heads):
        aggregate(x, new(e, of_heads, wide=True), edges).sum().backward()
    runs = torch.randn(3, n, heads, channels, device=new.device)
    torch.func.vmap(lambda run: aggregate(run, mask[:, :1], edges))(runs)


def rows(new: Values, nodes: int, heads: int, channels: int) -> None:
    """What goes through nodes one by one."""
    width = heads * channels
    rate, seed, step = (torch.tensor(t, device=new.device) for t in (0.3, 2**40 + 5, 3))
    h, bias = new(nodes, width), new(width)
    activate(h, bias, dropout=(rate, seed, step, 4)).sum().backward()
    residual = new(nodes, width, wide=True)
    activate(h, bias, residual=residual, dropout=(rate, seed, step, 4)).sum().backward()
    dropout(h, rate, seed, step, layer=1).sum().backward()
    for parts in ([], [new(nodes, width)], [new(nodes, width), new(nodes, width)]):
        y, *_ = batch_norm(h, bias, new(width), added=parts, dropout=(rate, seed, step, 4))
        y.sum().backward()
    y, same = layer_norm(residual, bias, new(width))
    (y.sum() + same.sum()).backward()
    with matmul_precision("tf32"):
        kernels_for(h).over_nodes(h.detach()[None], h.detach()[None])
    of_heads = (new(heads, channels) for _ in range(3))
    x, a_src, a_dst = score_nodes(new(nodes, heads, channels), *of_heads)
    (x.sum() + a_src.sum() + a_dst.sum()).backward()


def adamw(new: Values) -> None:
    """On some of the columns."""
    state = [torch.rand(2, 777, device=new.device) for _ in range(3)]
    one = torch.ones(2, device=new.device, dtype=torch.float64)
    here = [t[:, 64:] for t in state]
    kernels_for(here[0]).adamw_(*here, new(2, 713).detach(), one, one, one, (0.9, 0.999), 1e-8)


def main(device: str) -> None:
    """All of them in float32 and bfloat16."""
    torch.manual_seed(0)
    for dtype, sizes in itertools.product((torch.float32, torch.bfloat16), SIZES):
        new, (nodes, count, hub, heads, channels) = Values(device, dtype), sizes
        edges = graph(nodes, count, hub, device)
        for layout in (edges, edges.trimmed()):
            messages(new, layout, heads, channels)
        rows(new, nodes, heads, channels)
        adamw(new)
    if device == "cuda":
        torch.cuda.synchronize()
    print("every kernel ran")


if __name__ == "__main__":
    main(*sys.argv[1:] or ["cuda"])
