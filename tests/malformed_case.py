"""A small node table that can be fitted, in every form of file, for harms to be done to it.

A case is the files of a folder and the words after ``pdgnn fit``.
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from filing import npz

N = 24
NAMES = [f"n{i:03d}" for i in range(N)]
ROLES = ["lead", "staff", "guest"]
COLUMNS = {
    "id": NAMES,
    "age": [20 + i % 7 for i in range(N)],
    "team": ["ab"[i % 2] for i in range(N)],
    "role": [ROLES[i % 3] for i in range(N)],
}
SOURCE, TARGET = NAMES, NAMES[1:] + NAMES[:1]  # a ring: every node has an edge
FILES = ("edges.csv", "--nodes", "nodes.csv", "--label", "role")


@dataclass(frozen=True)
class Case:
    """Files by name (a Path is a link to it), and the words of the command."""

    name: str
    files: dict[str, bytes | Path]
    words: tuple[str, ...] = FILES

    def write(self, folder: Path) -> None:
        for name, content in self.files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if isinstance(content, Path):
                path.symlink_to(content)
            else:
                path.write_bytes(content)


def csv(columns: dict[str, list], separator: str = ",") -> bytes:
    """The table as text, every value as it is written."""
    rows = [list(columns), *zip(*columns.values(), strict=True)]
    return "".join(separator.join(map(str, row)) + "\n" for row in rows).encode()


def parquet(columns: dict[str, list | pa.Array], **options) -> bytes:
    buffer = io.BytesIO()
    pq.write_table(pa.table(columns), buffer, **options)
    return buffer.getvalue()


EDGES = csv({"source": SOURCE, "target": TARGET})
NODES = csv(COLUMNS)
ENDS = {"source": SOURCE, "target": TARGET}


def tables(nodes: bytes = NODES, edges: bytes = EDGES) -> dict[str, bytes | Path]:
    return {"nodes.csv": nodes, "edges.csv": edges}


def changed(**columns: list) -> dict[str, bytes | Path]:
    """The files with some columns replaced or added."""
    return tables(csv(COLUMNS | columns))


def with_value(name: str, row: int, value: object) -> dict[str, bytes | Path]:
    column = list(COLUMNS[name])
    column[row] = value
    return changed(**{name: column})


def in_parquet(**columns: list | pa.Array) -> dict[str, bytes | Path]:
    return {"nodes.parquet": parquet(COLUMNS | columns), "edges.parquet": parquet(ENDS)}


MIXED = ("edges.csv", "--nodes", "nodes.parquet", "--label", "role")
PARQUET = ("edges.parquet", "--nodes", "nodes.parquet", "--label", "role")


def arrays(**changes: np.ndarray | None) -> dict[str, np.ndarray]:
    part = np.arange(N) % 4
    kept = {
        "edges": np.stack([np.arange(N), (np.arange(N) + 1) % N], axis=1),
        "node_features": np.arange(3.0 * N).reshape(N, 3),
        "node_labels": np.arange(N) % 3,
        "train_masks": (part < 2)[None],
        "val_masks": (part == 2)[None],
        "test_masks": (part == 3)[None],
    }
    return {k: v for k, v in (kept | changes).items() if v is not None}


def archive(**changes: np.ndarray | None) -> dict[str, bytes | Path]:
    return {"graph.npz": npz(**arrays(**changes))}


ARCHIVE = ("graph.npz",)
KEYS = "".join(f'<key id="{k}" for="node" attr.name="{k}"/>' for k in ("age", "team", "role"))


def xml(nodes: str | None = None, edges: str | None = None, keys: str = KEYS) -> bytes:
    values = zip(*COLUMNS.values(), strict=True)
    if nodes is None:
        nodes = "".join(
            f'<node id="{i}"><data key="age">{a}</data><data key="team">{t}</data>'
            f'<data key="role">{r}</data></node>'
            for i, a, t, r in values
        )
    if edges is None:
        pairs = zip(SOURCE, TARGET, strict=True)
        edges = "".join(f'<edge source="{i}" target="{j}"/>' for i, j in pairs)
    return f"<graphml>{keys}<graph>{nodes}{edges}</graph></graphml>".encode()


GRAPHML = ("graph.graphml", "--label", "role")
