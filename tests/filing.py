"""Small files of every kind, written and read back; for the tests of reading."""

from __future__ import annotations

import io
from pathlib import Path

import networkx as nx
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pdgnn import InputError
from pdgnn.io import RawGraph, read_graph_file
from pdgnn.io.nodes import read_nodes

PNG = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR"
HTML = b"<!DOCTYPE html>\n<html><body>404, not found</body></html>\n"


def read(folder: Path, name: str, content: str | bytes) -> RawGraph:
    """Write `content` under `name` and read it as a graph."""
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return read_graph_file(path)


def refused(folder: Path, name: str, content: str | bytes, message: str) -> None:
    """Reading must fail with one line that names the file and has `message`."""
    with pytest.raises(InputError, match=message) as caught:
        read(folder, name, content)
    assert str(folder / name) in str(caught.value)
    assert "\n" not in str(caught.value)


def edges(raw: RawGraph) -> list[tuple[int, int]]:
    return [tuple(pair) for pair in raw.edge_index.T.tolist()]


def named_edges(raw: RawGraph) -> list[tuple[str, str]]:
    return [tuple(pair) for pair in raw.node_ids[raw.edge_index.T].tolist()]


def parquet(**columns) -> bytes:
    buffer = io.BytesIO()
    pq.write_table(pa.table(columns), buffer)
    return buffer.getvalue()


def npz(**arrays) -> bytes:
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    return buffer.getvalue()


def graphml(graph: nx.Graph) -> bytes:
    return "\n".join(nx.generate_graphml(graph)).encode()


def write(**files: str | bytes) -> None:
    """Write files whose names have an underscore in place of the dot."""
    for name, content in files.items():
        data = content.encode() if isinstance(content, str) else content
        Path(name.replace("__", ".")).write_bytes(data)


def refused_nodes(message: str, *words, **options) -> None:
    """Reading the nodes of these files is an error of one line."""
    with pytest.raises(InputError, match=message) as caught:
        read_nodes(*words, **options)
    assert "\n" not in str(caught.value)
