"""A PyG model of one's own in the trainer: ten splits and two options at once, logits kept.

Run it as it is (``python examples/own_model.py``), or with ``--device cuda``; with ``--compare`` it
also trains the same runs by a plain PyTorch loop, one after another, and prints how long both took.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812
from torch_geometric.nn import BatchNorm, GCNConv

from pdgnn.training import Model, RunSpec, Size, Task, chosen, summarize, train


class Net(nn.Module):
    """`k` layers of GCNConv, written for one run as any PyG model."""

    def __init__(self, in_channels: int, width: int, out_channels: int, k: int) -> None:
        super().__init__()
        self.lin = nn.Linear(in_channels, width)
        self.convs = nn.ModuleList(GCNConv(width, width) for _ in range(k))
        self.norms = nn.ModuleList(BatchNorm(width) for _ in range(k))
        self.dropout = nn.Dropout(0.2)
        self.out = nn.Linear(width, out_channels)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """``[N, in_channels]`` to ``[N, out_channels]``."""
        h = self.lin(x).relu()
        for conv, norm in zip(self.convs, self.norms, strict=True):
            h = h + self.dropout(norm(conv(h, edge_index)).relu())
        return self.out(h)


def build(size: Size, spec: RunSpec) -> Net:
    """The module of one run."""
    return Net(size.in_channels, spec.width, size.out_channels, **spec.options)


MINE = Model(build=build, options={"k": 2}, uses=("width",))


def runs(graph: str, width: int, steps: int) -> list[RunSpec]:
    """Two options, ten splits each."""
    base = RunSpec(dataset=graph, model="mine", width=width, lr=0.01, steps=steps)
    return [replace(base, split=s, options={"k": k}) for k in (2, 4) for s in range(10)]


def by_hand(task: Task, spec: RunSpec, device: str) -> float:
    """The same run by a plain loop: the test score at the best validation step."""
    torch.manual_seed(spec.seed)
    net = build(task.size, spec).to(device)
    x, edges, y = (t.to(device) for t in (task.x, task.graph.edge_index, task.y))
    train_mask, val, test = task.masks[spec.split].to(device)
    optimizer = torch.optim.AdamW(net.parameters(), lr=spec.lr, weight_decay=spec.weight_decay)
    best, score = -1.0, 0.0
    for _ in range(spec.steps):
        net.train()
        optimizer.zero_grad()
        F.cross_entropy(net(x, edges)[train_mask], y[train_mask]).backward()
        optimizer.step()
        net.eval()
        with torch.no_grad():
            right = net(x, edges).argmax(dim=1) == y
        found = [right[part].double().mean().item() for part in (val, test)]
        if found[0] > best:
            best, score = found
    return score


def main() -> None:
    """Train, check the scores against the logits, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--graph", default="synthetic:num_nodes=500,homophily=0.2", help="of three classes or more"
    )
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--width", type=int, default=32)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--compare", action="store_true")
    args = parser.parse_args()
    task = Task.open(args.graph)
    if task.num_classes < 3:
        parser.error("this program compares accuracies; name a --graph of three classes or more")
    specs = runs(args.graph, args.width, args.steps)
    begun = time.perf_counter()
    results = train(
        specs,
        models={"mine": MINE},
        tasks={args.graph: task},
        keep=("logits", "weights"),
        device=args.device,
    )
    seconds = time.perf_counter() - begun
    for result in results:
        test = task.masks[result.spec.split, 2]
        right = result.logits.argmax(dim=1) == task.y
        assert right[test].double().mean() == result.test
    rows = summarize(results)
    for row in rows:
        k = row.spec.options["k"]
        print(f"k = {k}: test accuracy {100 * row.test_mean:.2f} ± {100 * row.test_std:.2f}")
    best = chosen(rows)
    print(f"validation chooses k = {best.spec.options['k']}")
    print(f"{len(specs)} runs of {args.steps} steps: {seconds:.1f} s")
    if args.compare:
        if args.device == "cpu":
            torch.set_num_threads(1)  # as few as train takes for so small a graph
        begun = time.perf_counter()
        scores = [by_hand(task, spec, args.device) for spec in specs]
        loop = time.perf_counter() - begun
        print(
            f"a plain loop: {loop:.1f} s, mean test accuracy {100 * sum(scores) / len(scores):.2f}"
        )
        print(f"train is {loop / seconds:.1f} times as fast")


if __name__ == "__main__":
    main()
