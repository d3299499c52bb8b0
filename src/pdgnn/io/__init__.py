"""Reading graphs from files. They are not trusted: all is checked, and nothing is unpickled.

One module for each kind of file; the suffix of the name chooses among them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from os import PathLike
from pathlib import Path

from pdgnn.errors import InputError
from pdgnn.io.graphml import read_graphml
from pdgnn.io.npz import read_npz
from pdgnn.io.parquet import read_parquet
from pdgnn.io.raw import NODE_BYTES, RawGraph, check_size, checked_max_bytes, naming
from pdgnn.io.text import read_text

__all__ = ["RawGraph", "file_suffix", "read_graph_file"]

READERS: dict[str, Callable[[Path, int], RawGraph]] = {
    ".csv": read_text,
    ".csv.gz": read_text,
    ".tsv": read_text,
    ".tsv.gz": read_text,
    ".txt": read_text,
    ".txt.gz": read_text,
    ".edges": read_text,
    ".edgelist": read_text,
    ".parquet": read_parquet,
    ".npz": read_npz,
    ".graphml": read_graphml,
}
TABLES = tuple(s for s, reader in READERS.items() if reader in (read_text, read_parquet))


def read_graph_file(path: str | PathLike[str], *, max_bytes: int | None = None) -> RawGraph:
    """Read an edge list, a benchmark ``.npz`` or a GraphML file, as its suffix says.

    - ``.csv``, ``.tsv``, ``.txt`` (each also ``.gz``), ``.edges``, ``.edgelist``, ``.parquet``:
      edge lists of two columns (source, target) or three (weight); see :mod:`pdgnn.io.table`.
    - ``.npz``: the arrays of the heterophilous benchmark, or ``edges`` alone; see
      :mod:`pdgnn.io.npz`.
    - ``.graphml``: nodes, edges and their attribute ``weight``; see :mod:`pdgnn.io.graphml`.

    A small file can unpack to any size. One that holds more than `max_bytes` is refused before it
    is in memory, whatever sizes it states; the default is that of
    :func:`~pdgnn.io.raw.checked_max_bytes`. Counted are text with its columns, arrays (an integer
    as 8 bytes), and 16 bytes for each node. Whatever is wrong with the file is one
    :class:`~pdgnn.errors.InputError` that names it.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "friends.csv")
    ...     _ = path.write_text("source,target\\nann,bob\\nbob,cid\\n")
    ...     raw = read_graph_file(path)
    >>> raw.edge_index.tolist(), raw.node_ids.tolist()
    ([[0, 1], [1, 2]], ['ann', 'bob', 'cid'])
    """
    path, limit = Path(path), checked_max_bytes(max_bytes)
    with naming(path):
        raw = READERS[file_suffix(path, READERS)](path, limit)
        check_size(NODE_BYTES * raw.num_nodes, limit)
        return raw


def file_suffix(path: Path, known: Iterable[str]) -> str:
    """Which of the suffixes `known` a file has; an error if there is no such file, or none in it.

    >>> file_suffix(Path("friends.docx"), [".csv"])
    Traceback (most recent call last):
    pdgnn.errors.InputError: there is no such file; check the path
    """
    if not path.exists():
        raise InputError("there is no such file; check the path")
    if path.is_dir():
        raise InputError("this is a folder; name one file in it")
    if not path.is_file():
        raise InputError("this is not a regular file; copy its contents to one")
    name, known = path.name.lower(), list(known)
    suffix = max((s for s in known if name.endswith(s)), key=len, default=None)
    if suffix is None:
        raise InputError(f"files of this kind are not read; use one of {', '.join(known)}")
    if path.stat().st_size == 0:
        raise InputError("the file is empty; was it written to the end?")
    return suffix
