"""The rooms of the package: each imports only from those above it."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import pdgnn

ROOT = Path(pdgnn.__file__).parent
ROOMS = [
    *("errors", "devices", "csr", "io", "graph", "laplacian", "solvers", "spectrum", "distance"),
    *("direction", "rewiring", "homophily", "diffusion", "transforms", "datasets", "io.sources"),
    *("io.write", "io.node_table", "io.nodes", "io.predictions"),
    *("ops", "nn", "baselines", "models", "training", "experiments", "estimator", "report", "cli"),
]
"""From the top down. Of io/, what opens datasets and writes graphs comes after both."""


def room(module: str) -> int:
    """The place of a module such as "nn.conv": that of the longest name that it begins with."""
    found = [r for r in ROOMS if module == r or module.startswith(f"{r}.")]
    assert found, f"{module} is in no room"
    return ROOMS.index(max(found, key=len))


def imported(tree: ast.Module) -> list[str]:
    """The modules of the package that are imported when this one is."""
    found = []
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("pdgnn."):
            found.append(node.module.removeprefix("pdgnn."))
        if isinstance(node, ast.Import):
            found += [n.name.removeprefix("pdgnn.") for n in node.names if "pdgnn." in n.name]
    return found


FILES = [f for f in sorted(ROOT.rglob("*.py")) if f.parent != ROOT or not f.name.startswith("__")]


@pytest.mark.parametrize("file", FILES, ids=lambda f: str(f.relative_to(ROOT)))
def test_a_file_imports_only_from_above(file):
    name = ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    below = [m for m in imported(ast.parse(file.read_text())) if room(m) > room(name)]
    assert below == []


@pytest.mark.parametrize("file", FILES, ids=lambda f: str(f.relative_to(ROOT)))
def test_no_file_is_longer_than_a_person_likes_to_read(file):
    assert len(file.read_text().splitlines()) <= 400
