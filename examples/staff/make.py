"""Write nodes.csv and edges.csv beside this file: a made-up company, who works with whom.

Made by the package's own generator (``pdgnn.datasets.load("synthetic:...")``). People mostly work
with people of other roles, so neighbours disagree; a third of the roles is missing.
"""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np

from pdgnn.datasets import load

ROLES = ("design", "engineering", "finance", "sales", "support")
GRAPH = (
    "synthetic:num_nodes=900,num_classes=5,homophily=0.05,edges_per_node=8,feature_std=0.9,seed=11"
)
SITES = ("north", "south", "west")


def main() -> None:
    """Write both files."""
    data = load(GRAPH)
    x, y, rng = data.x.numpy(), data.y.numpy(), np.random.default_rng(11)
    numbers = rng.permutation(9000)[:900] + 1000
    names = [f"P{number}" for number in numbers]
    site = [SITES[i] for i in rng.choice(3, size=900, p=[0.5, 0.3, 0.2])]
    known = rng.random(900) < 2 / 3
    here = Path(__file__).parent
    with (here / "nodes.csv").open("w", newline="") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow(["id", "calls", "meetings", "tenure", "site", "role"])
        for i, name in enumerate(names):
            calls, meetings = 20 + 8 * x[i, 0], 12 + 5 * x[i, 1]
            tenure = round(float(rng.gamma(2.0, 2.5)), 1)
            role = ROLES[y[i]] if known[i] else ""
            out.writerow([name, f"{calls:.1f}", f"{meetings:.1f}", tenure, site[i], role])
    with (here / "edges.csv").open("w", newline="") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow(["source", "target"])
        for i, j in data.edge_index.T.tolist():
            if i < j:
                out.writerow([names[i], names[j]])


if __name__ == "__main__":
    main()
