"""Every program in examples/ runs as it is."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch_geometric.loader import NeighborLoader, RandomNodeLoader
from torch_geometric.typing import WITH_PYG_LIB, WITH_TORCH_SPARSE
from torch_geometric.utils import degree, k_hop_subgraph

from layers import normal, same
from pdgnn import datasets
from pdgnn.nn import PDGATConv, PDGCNConv
from pdgnn.transforms import AddDirectionFeatures

ROOT = Path(__file__).parent.parent
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_it_runs(path, tmp_path):
    env = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(
        [sys.executable, str(path)],
        cwd=tmp_path,
        env=env,
        capture_output=True,
        text=True,
        check=False,
        timeout=900,  # far beyond what any takes: only so that none hangs
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


def test_a_model_of_ones_own_says_which_graphs_it_compares():
    program = [sys.executable, str(ROOT / "examples" / "own_model.py")]
    env = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(
        [*program, "--graph", "minesweeper-generated:size=8"],
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr.endswith("name a --graph of three classes or more\n")


# --- the recipe of docs/layers.md -----------------------------------------------------------------


@pytest.fixture(scope="module")
def whole():
    data = datasets.load("synthetic:num_nodes=300,num_classes=4,homophily=0.1")
    data.degree = degree(data.edge_index[1], data.num_nodes)
    data = AddDirectionFeatures(gamma=0.3)(data)
    data.x, data.edge_attr = normal(300, 4), data.edge_attr.double()
    data.id = torch.arange(300)
    return data


def test_random_nodes_bring_the_degrees_and_directions_of_the_whole(whole):
    """A part is the matrix of the whole, less the rows and columns of the others."""
    conv = PDGCNConv(4, 3, alpha=0.4, gamma=0.3).double()
    seen = []
    for part in RandomNodeLoader(whole, num_parts=3, shuffle=True):
        here = torch.zeros(300, 1).double()
        here[part.id] = 1.0
        expected = conv(here * whole.x, whole.edge_index)[part.id]
        assert same(conv(part.x, part.edge_index, degree=part.degree), expected)
        seen += part.id.tolist()
    assert sorted(seen) == list(range(300))


def test_all_neighbours_of_some_nodes_give_their_rows_of_the_whole(whole):
    gcn, gat = PDGCNConv(4, 3, alpha=0.4, gamma=0.3).double(), PDGATConv(4, 3, 2).double()
    seeds = torch.tensor([5, 17, 200])
    nodes, edges, place, _ = k_hop_subgraph(seeds, 2, whole.edge_index, relabel_nodes=True)
    part = whole.subgraph(nodes)
    assert torch.equal(part.edge_index, edges)
    assert part.num_nodes < 300
    for of_part, of_whole in (
        (gcn(part.x, edges, degree=part.degree), gcn(whole.x, whole.edge_index)),
        (gat(part.x, edges, part.edge_attr), gat(whole.x, whole.edge_index, whole.edge_attr)),
    ):
        assert same(of_part[place], of_whole[seeds])


@pytest.mark.skipif(
    not (WITH_PYG_LIB or WITH_TORCH_SPARSE), reason="NeighborLoader needs pyg-lib or torch-sparse"
)
def test_sampled_neighbours_give_the_rows_of_the_whole(whole):
    gcn = PDGCNConv(4, 3, alpha=0.4, gamma=0.3).double()
    gat = PDGATConv(4, 3, 2).double()
    for part in NeighborLoader(whole, [-1], batch_size=64):
        seeds = part.id[: part.batch_size]
        out = gcn(part.x, part.edge_index, degree=part.degree)[: part.batch_size]
        assert same(out, gcn(whole.x, whole.edge_index)[seeds])
        out = gat(part.x, part.edge_index, part.edge_attr)[: part.batch_size]
        assert same(out, gat(whole.x, whole.edge_index, whole.edge_attr)[seeds])
