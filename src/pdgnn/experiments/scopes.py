"""Which (α, γ) give the same rewired graph: those with the same gradient nodes.

Rewiring joins every node to the gradient node of its component, so that a model that uses α and γ
for nothing else sees no more graphs than there are such nodes. One solve serves all α of a γ.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files
from typing import Any
from weakref import WeakKeyDictionary

from pdgnn.graph import Graph
from pdgnn.rewiring import gradient_nodes
from pdgnn.spectrum import first_eigenvector
from pdgnn.training.task import Task

__all__ = ["FULL", "Classes", "Scope", "known_classes", "rewired_classes"]

Scope = tuple[float, float]  # (α, γ)
Classes = Mapping[Scope, int]
"""Scopes with the same number have the same rewired graph."""
FULL: tuple[Scope, ...] = tuple((a / 10, g / 10) for a in range(11) for g in range(11))
"""The whole grid, in its order."""
LETTERS = "abcdefghijklmnopqrstuvwxyz"

_nodes: WeakKeyDictionary[Graph, dict[Scope, bytes]] = WeakKeyDictionary()


def rewired_classes(task: Task, scopes: Iterable[Scope] = FULL) -> dict[Scope, int]:
    """The class of each of `scopes`, numbered in their order.

    Of the paper's graphs it is known; of others it costs an eigenvector for each γ, which training
    on the rewired graph needs anyway.
    """
    wanted = list(scopes)
    known = known_classes(task.fingerprint())
    if known is not None and all(scope in known for scope in wanted):
        return _numbered({scope: known[scope] for scope in wanted})
    return computed_classes(task.graph, wanted)


def computed_classes(graph: Graph, scopes: Iterable[Scope] = FULL) -> dict[Scope, int]:
    """The same from the graph alone: the gradient nodes of all its components."""
    found = _nodes.setdefault(graph, {})
    wanted = list(scopes)
    for alpha, gamma in wanted:
        if (alpha, gamma) not in found:
            phi = first_eigenvector(graph, alpha=alpha, gamma=gamma)
            found[alpha, gamma] = gradient_nodes(graph, phi=phi).tobytes()
    return _numbered({scope: found[scope] for scope in wanted})


def known_classes(fingerprint: str) -> Classes | None:
    """Those of a dataset of the paper, by :meth:`Task.fingerprint`, over :data:`FULL`."""
    said = _known().get(fingerprint)
    if said is None:
        return None
    return {scope: LETTERS.index(letter) for scope, letter in zip(FULL, said, strict=True)}


@cache
def _known() -> dict[str, str]:
    """A letter for each scope of the grid, by fingerprint."""
    text = files(__package__).joinpath("paper", "rewired_graphs.json").read_text(encoding="utf-8")
    return {row["data"]: row["classes"] for row in json.loads(text)}


def _numbered(keys: Mapping[Scope, Any]) -> dict[Scope, int]:
    numbers: dict[Any, int] = {}
    return {scope: numbers.setdefault(key, len(numbers)) for scope, key in keys.items()}
