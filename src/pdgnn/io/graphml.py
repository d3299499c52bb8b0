"""Graphs as GraphML: one graph, its nodes, its edges and their attribute ``weight``.

The file is parsed once, and nothing but ids and weights is kept of it. Refused are a document type
declaration (its entities can blow up to any size, and GraphML needs none), a second graph or one
within another (they would have to be merged or dropped), hyperedges and ports.
"""

from __future__ import annotations

from array import array
from pathlib import Path
from typing import Any, BinaryIO
from xml.parsers import expat

import numpy as np
from numpy.typing import NDArray

from pdgnn.errors import InputError
from pdgnn.io.raw import RawGraph, brief, check_size, checked_weights

__all__ = ["read_graphml"]

NAME_BYTES = 200  # about what an id takes while it is looked up


def read_graphml(path: Path, max_bytes: int) -> RawGraph:
    """Read nodes, edges and the edge attribute ``weight``.

    Where only some edges have a weight, that of the others is the attribute's default, or else 1.
    `node_ids` are the ids in the file, in its order; direction is left out.
    """
    reader = _Reader(max_bytes)
    with path.open("rb") as file:
        reader.parse(file)
    if not reader.nodes:
        raise InputError("there are no nodes in it; give at least one")
    names = np.empty(len(reader.nodes), dtype=object)
    names[:] = list(reader.nodes)
    edge_index = np.ascontiguousarray(np.array(reader.ends).reshape(-1, 2).T)  # [2, E]
    return RawGraph(edge_index, names.size, _checked(reader, names, edge_index), names)


def _checked(
    reader: _Reader, names: NDArray[Any], edge_index: NDArray[np.int64]
) -> NDArray[np.float64] | None:
    """The weights ``[E]``, or None where no edge has one."""
    weights = np.full(edge_index.shape[1], reader.default)
    weights[np.array(reader.weighted, dtype=np.int64)] = reader.weights
    if not reader.weighted and reader.default == 1.0:
        return None
    return checked_weights(
        weights, lambda i: "of the edge {} to {}".format(*names[edge_index[:, i]])
    )


class _Reader:
    """What the elements of a file say, gathered as they are met."""

    def __init__(self, max_bytes: int) -> None:
        self.nodes: dict[str, int] = {}  # the number of each id
        self.ends = array("q")  # the numbers of both ends, edge after edge
        self.weights, self.weighted = array("d"), array("q")  # weights, and the edges they are of
        self.default = 1.0
        self._max_bytes = max_bytes
        self._open: list[str] = []  # the elements around this place
        self._graphs = 0
        self._weight_keys: set[str] = set()
        self._text: list[str] | None = None  # of the weight that is being read
        self._parser = parser = expat.ParserCreate(namespace_separator=" ")
        parser.StartDoctypeDeclHandler = _refuse_doctype
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._characters

    def parse(self, file: BinaryIO) -> None:
        try:
            self._parser.ParseFile(file)
        except InputError:
            raise
        except expat.ExpatError as e:
            raise InputError(f"not a whole XML file: {e}; was it cut short?") from e
        except (LookupError, ValueError) as e:
            raise InputError(f"its encoding is not read ({brief(e)}); save it as UTF-8") from e

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        name = name.rpartition(" ")[2]
        around = self._open[-1] if self._open else ""
        if not around and name != "graphml":
            raise InputError(f"this XML is not GraphML; it begins with {brief(name)!r}")
        self._open.append(name)
        if name == "graph":
            self._graphs += 1
            if self._graphs > 1:
                raise self._wrong("a second graph, or one within another; keep one in a file")
        elif name in ("hyperedge", "port"):
            raise self._wrong(f"a {name}, which is not read; use nodes and edges alone")
        elif name == "node":
            self._number(attributes, "id", "a node")
        elif name == "edge":
            self.ends.append(self._number(attributes, "source", "an edge"))
            self.ends.append(self._number(attributes, "target", "an edge"))
        elif name == "key":
            self._key(attributes)
        elif (
            name == "data" and around == "edge" and attributes.get("key") in self._weight_keys
        ) or (name == "default" and around == "weight key"):
            self._text = []

    def _key(self, attributes: dict[str, str]) -> None:
        if attributes.get("attr.name") != "weight" or attributes.get("for") == "node":
            return
        if self._graphs:
            raise self._wrong("the key of the weights below the graph; move it to the top")
        self._open[-1] = "weight key"
        self._weight_keys.add(attributes.get("id", ""))

    def _number(self, attributes: dict[str, str], which: str, element: str) -> int:
        name = attributes.get(which)
        if name is None:
            raise self._wrong(f"{element} without its {which}; give it one")
        if name not in self.nodes:
            check_size(NAME_BYTES * len(self.nodes), self._max_bytes)
        return self.nodes.setdefault(name, len(self.nodes))

    def _characters(self, text: str) -> None:
        if self._text is not None:
            self._text.append(text)

    def _end(self, _: str) -> None:
        name = self._open.pop()
        if self._text is None or name not in ("data", "default"):
            return
        text, self._text = "".join(self._text), None
        try:
            weight = float(text)
        except ValueError as e:
            raise self._wrong(f"a weight that is not a number, {brief(repr(text))}") from e
        if name == "default":
            self.default = weight
        else:
            self.weights.append(weight)
            self.weighted.append(len(self.ends) // 2 - 1)

    def _wrong(self, what: str) -> InputError:
        return InputError(f"line {self._parser.CurrentLineNumber} has {what}")


def _refuse_doctype(*_: Any) -> None:
    raise InputError("it has a document type declaration (DOCTYPE), which GraphML needs not")
