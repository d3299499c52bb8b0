"""The best of many settings in a few seconds, by successive halving.

Run it as it is (``python examples/search.py``), or with another graph and budget:
``python examples/search.py --graph minesweeper --budget 60``.
"""

from __future__ import annotations

import argparse
from dataclasses import replace

import torch

from pdgnn.training import RunSpec, SearchProgress, Task, search


def candidates(graph: str, steps: int) -> list[RunSpec]:
    """Models, depths, learning rates and γ, the most promising ones first; two splits of each."""
    base = RunSpec(dataset=graph, model="pd-gcn", width=32, alpha=0.5, steps=steps)
    found = [
        replace(base, model=model, lr=lr, depth=depth, gamma=gamma)
        for lr in (0.01, 0.003)
        for depth in (1, 2)
        for model, gamma in (("pd-gcn", 0.2), ("pd-gcn", 0.8), ("gcn", 1.0), ("mlp", 1.0))
    ]
    return [replace(spec, split=split) for spec in found for split in (0, 1)]


def tell(p: SearchProgress) -> None:
    """One line: what is being tried, and the best so far."""
    where = f"rung {p.rung + 1} of {p.rungs}" if p.rung < p.rungs else "more seeds"
    trying = f"{where}, {p.settings} settings, now {p.specs[0].model}"
    best = "" if p.best is None else f"; best so far {p.best.model} with {100 * p.val:.1f}"
    print(f"{100 * p.share:3.0f} %: {trying}{best}")


def main() -> None:
    """Search, print the ranking, and average the logits of the winner's seeds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--graph", default="synthetic:num_nodes=300,homophily=0.2")
    parser.add_argument("--budget", type=float, default=10, help="seconds")
    parser.add_argument("--steps", type=int, default=60)
    args = parser.parse_args()
    task = Task.open(args.graph)
    found = search(
        candidates(args.graph, args.steps),
        budget=args.budget,
        tasks={args.graph: task},
        seeds=3,
        keep="logits",
        progress=tell,
    )
    print(f"{found.seconds:.1f} s, planned {found.plan.seconds:.1f} s; stopped: {found.stopped}")
    for standing in found.ranking[:5]:
        spec = standing.spec
        said = f"{spec.model}, depth {spec.depth}, lr {spec.lr:g}, γ {spec.gamma:g}"
        print(f"{100 * standing.val:.2f} after {spec.steps} steps: {said}")
    winner = [r for r in found.ranking[0].summary.results if r.spec.split == 0]
    logits = torch.stack([r.logits for r in winner]).mean(dim=0)
    print(f"{len(winner)} seeds of split 0 averaged: logits of shape {list(logits.shape)}")


if __name__ == "__main__":
    main()
