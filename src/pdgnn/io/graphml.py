"""Graphs as GraphML, read by NetworkX after a first pass that refuses what is not plain.

A document type declaration is refused before anything is expanded: its entities can blow up to any
size, and GraphML needs none.
"""

from __future__ import annotations

import warnings
from io import BytesIO
from pathlib import Path
from typing import Any
from xml.parsers import expat

import numpy as np
from numpy.typing import NDArray

from pdgnn.errors import InputError
from pdgnn.io.raw import RawGraph, brief, checked_weights

__all__ = ["read_graphml"]


def read_graphml(path: Path) -> RawGraph:
    """Read nodes, edges and the edge attribute ``weight``, 1 where only some edges have it.

    `node_ids` are the ids in the file, in its order; direction is left out.
    """
    data = path.read_bytes()
    _check_xml(data)
    graph = _parsed(data)
    names = np.empty(len(graph), dtype=object)
    names[:] = list(graph)
    if names.size == 0:
        raise InputError("there are no nodes in it; give at least one")
    place = {name: i for i, name in enumerate(names)}
    edges = list(graph.edges(data="weight"))
    index = np.array([[place[u], place[v]] for u, v, _ in edges], dtype=np.int64).reshape(-1, 2)
    return RawGraph(np.ascontiguousarray(index.T), len(names), _as_weights(edges), names)


def _check_xml(data: bytes) -> None:
    """One pass that builds nothing: well-formed, without declarations, edges with two ends."""
    parser = expat.ParserCreate(namespace_separator=" ")

    def refuse(*_: Any) -> None:
        raise InputError("it has a document type declaration (DOCTYPE), which GraphML needs not")

    def check_ends(name: str, attributes: dict[str, str]) -> None:
        if name.rpartition(" ")[2] == "edge" and not {"source", "target"} <= attributes.keys():
            line = parser.CurrentLineNumber
            raise InputError(f"the edge in line {line} lacks its source or its target")

    parser.StartDoctypeDeclHandler = refuse
    parser.StartElementHandler = check_ends
    try:
        parser.Parse(data, True)
    except expat.ExpatError as e:
        raise InputError(f"not a whole XML file: {e}; was it cut short?") from e


def _parsed(data: bytes) -> Any:
    import networkx as nx

    wrong = (nx.NetworkXException, LookupError, TypeError, ValueError, AttributeError, SyntaxError)
    try:
        with warnings.catch_warnings():
            # An attribute without a type is read as text, which is all that weights need.
            warnings.simplefilter("ignore")
            return nx.read_graphml(BytesIO(data))
    except wrong as e:
        raise InputError(f"this XML is not GraphML that can be read ({brief(e)})") from e


def _as_weights(edges: list[tuple[str, str, Any]]) -> NDArray[np.float64] | None:
    if all(value is None for _, _, value in edges):
        return None
    try:
        weights = np.array([1.0 if value is None else float(value) for _, _, value in edges])
    except (TypeError, ValueError) as e:
        raise InputError(f"an edge has a weight that is not a number ({e})") from e
    return checked_weights(weights, lambda i: f"of the edge {edges[i][0]} to {edges[i][1]}")
