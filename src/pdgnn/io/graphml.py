"""Graphs as GraphML: one graph, its nodes, its edges and their attribute ``weight``.

The file is parsed once. Ids and weights are kept of it, and the attributes of nodes where they are
asked for. Refused are a document type declaration (its entities can blow up to any size, and
GraphML needs none), a second graph or one within another (they would have to be merged or dropped),
hyperedges and ports.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO
from xml.parsers import expat

import numpy as np
from numpy.typing import NDArray

from pdgnn.errors import InputError
from pdgnn.io.raw import RawGraph, brief, check_size, checked_weights

__all__ = ["read_graphml", "read_graphml_nodes"]

NAME_BYTES = 200  # about what an id takes while it is looked up
VALUE_BYTES = 100  # and an attribute's value besides its text


def read_graphml(path: Path, max_bytes: int) -> RawGraph:
    """Read nodes, edges and the edge attribute ``weight``.

    Where only some edges have a weight, that of the others is the attribute's default, or else 1.
    `node_ids` are the ids in the file, in its order; direction is left out.
    """
    return _graph(_read(path, max_bytes, attributes=False))


def read_graphml_nodes(path: Path, max_bytes: int) -> tuple[RawGraph, dict[str, list[str | None]]]:
    """The same, and the attributes of the nodes by name: a text for each node, None without one."""
    reader = _read(path, max_bytes, attributes=True)
    raw = _graph(reader)
    names = list(reader.attributes)
    check_size(8 * len(names) * raw.num_nodes, max_bytes)
    columns: dict[str, list[str | None]] = {}
    for attribute in reader.attributes.values():
        if attribute.name in columns:
            raise InputError(f"two attributes of nodes are called {brief(attribute.name)!r}")
        column: list[str | None] = [attribute.default] * raw.num_nodes
        for node, text in attribute.values.items():
            column[node] = text
        columns[attribute.name] = column
    return raw, columns


def _read(path: Path, max_bytes: int, *, attributes: bool) -> _Reader:
    reader = _Reader(max_bytes, attributes)
    with path.open("rb") as file:
        reader.parse(file)
    if not reader.nodes:
        raise InputError("there are no nodes in it; give at least one")
    return reader


def _graph(reader: _Reader) -> RawGraph:
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


@dataclass
class _Attribute:
    """An attribute of nodes: its name, the values by node, and that of nodes without one."""

    name: str
    values: dict[int, str] = field(default_factory=dict)
    default: str | None = None


class _Reader:
    """What the elements of a file say, gathered as they are met."""

    def __init__(self, max_bytes: int, attributes: bool) -> None:
        self.attributes: dict[str, _Attribute] = {}  # by key
        self.nodes: dict[str, int] = {}  # the number of each id
        self.ends = array("q")  # the numbers of both ends, edge after edge
        self.weights, self.weighted = array("d"), array("q")  # weights, and the edges they are of
        self.default = 1.0
        self._max_bytes, self._size = max_bytes, 0
        self._wanted = attributes
        self._open: list[str] = []  # the elements around this place
        self._graphs = 0
        self._weight_keys: set[str] = set()
        self._text: list[str] | None = None  # of the value that is being read
        self._take: Callable[[str], None] = self._take_weight  # what to do with it
        self._node = 0  # the node around this place
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
            self._node = self._number(attributes, "id", "a node")
        elif name == "edge":
            self.ends.append(self._number(attributes, "source", "an edge"))
            self.ends.append(self._number(attributes, "target", "an edge"))
        elif name == "key":
            self._key(attributes)
        elif name == "data":
            self._data(around, attributes.get("key", ""))
        elif name == "default" and around == "weight key":
            self._expect(self._take_default_weight)
        elif name == "default" and around == "node key":
            self._expect(self._take_default)

    def _key(self, attributes: dict[str, str]) -> None:
        name, domain = attributes.get("attr.name"), attributes.get("for", "all")
        is_weight = name == "weight" and domain != "node"
        if not is_weight and not (self._wanted and domain in ("node", "all")):
            return
        if self._graphs:
            what = "the key of the weights" if is_weight else "a key of nodes"
            raise self._wrong(f"{what} below the graph; move it to the top")
        self._open[-1] = "weight key" if is_weight else "node key"
        key = attributes.get("id", "")
        if is_weight:
            self._weight_keys.add(key)
        else:
            self.attributes[key] = _Attribute(name or key)

    def _data(self, around: str, key: str) -> None:
        if around == "edge" and key in self._weight_keys:
            self._expect(self._take_weight)
        elif around == "node" and self._wanted and key not in self._weight_keys:
            if key not in self.attributes:
                raise self._wrong(f"a value whose key {brief(repr(key))} is not declared; add it")
            self._expect(lambda text: self._take_value(self.attributes[key], text))

    def _expect(self, take: Callable[[str], None]) -> None:
        self._text, self._take = [], take

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
        if self._text is not None and name in ("data", "default"):
            text, self._text = "".join(self._text), None
            self._take(text)

    def _weight(self, text: str) -> float:
        try:
            return float(text)
        except ValueError as e:
            raise self._wrong(f"a weight that is not a number, {brief(repr(text))}") from e

    def _take_default_weight(self, text: str) -> None:
        self.default = self._weight(text)

    def _take_weight(self, text: str) -> None:
        self.weights.append(self._weight(text))
        self.weighted.append(len(self.ends) // 2 - 1)

    def _take_default(self, text: str) -> None:
        list(self.attributes.values())[-1].default = text

    def _take_value(self, attribute: _Attribute, text: str) -> None:
        if self._node in attribute.values:
            raise self._wrong(f"a second value of {brief(attribute.name)!r} of one node; keep one")
        self._size += VALUE_BYTES + len(text)
        check_size(self._size + NAME_BYTES * len(self.nodes), self._max_bytes)
        attribute.values[self._node] = text

    def _wrong(self, what: str) -> InputError:
        return InputError(f"line {self._parser.CurrentLineNumber} has {what}")


def _refuse_doctype(*_: Any) -> None:
    raise InputError("it has a document type declaration (DOCTYPE), which GraphML needs not")
