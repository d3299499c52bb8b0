"""Node tables with something wrong in them, by the hundred, each to be refused in one line.

All are made from one small table that can be fitted, by one harm each; none takes more than a few
MB on disk.
"""

from __future__ import annotations

import gzip
import io
import random
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from filing import HTML, PNG, npz
from malformed_case import (
    ARCHIVE,
    COLUMNS,
    EDGES,
    ENDS,
    FILES,
    GRAPHML,
    MIXED,
    NAMES,
    NODES,
    PARQUET,
    SOURCE,
    Case,
    N,
    archive,
    arrays,
    csv,
    in_parquet,
    parquet,
    tables,
    xml,
)
from malformed_values import (
    wrong_columns,
    wrong_features,
    wrong_ids,
    wrong_labels,
    wrong_splits,
)

ODD = (
    "\x1b[31mred",
    "\x1b]0;title\x07",
    "\r\rback",
    "\x9b2J",
    "\u202ereversed",
    "\x7f\x08",
    "\u2028x",
)
BIG = 200_000_000  # bytes that an expanding file would take
SMALL = ("--max-gb", "0.01")


def truncated(rng: random.Random) -> Iterator[Case]:
    """Files that end early, never at a place where what is left is a table of its own."""
    last = len(NODES) - len(NODES.splitlines()[-1]) - 1
    for cut in rng.sample(range(1, last), 14):
        yield Case(f"nodes.csv to {cut}", tables(NODES[:cut]))
    ends = [i for i in range(4, len(EDGES) - 1) if EDGES[i - 1 : i] != b"\n" != EDGES[i : i + 1]]
    for cut in rng.sample(ends, 14):
        yield Case(f"edges.csv to {cut}", tables(edges=EDGES[:cut]))
    whole: list[tuple[str, bytes, tuple[str, ...], dict[str, bytes | Path]]] = [
        ("nodes.parquet", parquet(COLUMNS), PARQUET, {"edges.parquet": parquet(ENDS)}),
        ("edges.parquet", parquet(ENDS), PARQUET, {"nodes.parquet": parquet(COLUMNS)}),
        ("graph.npz", npz(**arrays()), ARCHIVE, {}),
        ("graph.graphml", xml(), GRAPHML, {}),
        ("nodes.csv.gz", gzip.compress(NODES, mtime=0), GZIP, {"edges.csv": EDGES}),
    ]
    for name, content, words, others in whole:
        for cut in rng.sample(range(len(content)), 12):
            yield Case(f"{name} to {cut}", {name: content[:cut]} | others, words)


GZIP = ("edges.csv", "--nodes", "nodes.csv.gz", "--label", "role")


def encoded(rng: random.Random) -> Iterator[Case]:
    accents = NODES.replace(b"n000", "né00".encode())
    joined = EDGES.replace(b"n000", "né00".encode())
    for encoding in ("utf-16", "utf-16-le", "utf-16-be", "utf-32", "latin-1", "cp1252", "cp437"):
        yield Case(f"nodes in {encoding}", tables(accents.decode().encode(encoding), joined))
        yield Case(f"edges in {encoding}", tables(accents, joined.decode().encode(encoding)))
    mark = b"\xef\xbb\xbf"
    for content in (
        NODES.replace(b"role", mark + b"role"),
        NODES.replace(b"id", b" " + mark + b"id"),
    ):
        yield Case(f"a mark of UTF-8 at {content.find(mark)}", tables(content))
    for _ in range(4):
        place = rng.randrange(len(NODES))
        yield Case(f"NUL at {place}", tables(NODES[:place] + b"\0" + NODES[place:]))
        yield Case(f"not UTF-8 at {place}", tables(NODES[:place] + b"\xff" + NODES[place:]))
    for what, content in (("a page", HTML), ("a picture", PNG), ("noise", rng.randbytes(400))):
        yield Case(f"{what} as nodes", tables(content))
        yield Case(f"{what} as edges", tables(edges=content))
        yield Case(f"{what} as Parquet", {"nodes.parquet": content, "edges.csv": EDGES}, MIXED)
        yield Case(f"{what} as .npz", {"graph.npz": content}, ARCHIVE)
        yield Case(f"{what} as GraphML", {"graph.graphml": content}, GRAPHML)


def expanding(_: random.Random) -> Iterator[Case]:
    """Small files that unpack to hundreds of MB."""

    def packed(first: bytes, again: bytes) -> bytes:
        block = gzip.compress(again * (1_000_000 // len(again)), mtime=0)
        return gzip.compress(first, mtime=0) + block * (BIG // 1_000_000)  # one after the other

    rows = packed(b"id,age,team,role\n", b"x,1,a,lead\n")
    yield Case("rows without end", {"nodes.csv.gz": rows, "edges.csv": EDGES}, (*GZIP, *SMALL))
    line = packed(b"id", b"0")
    yield Case("a line without end", {"nodes.csv.gz": line, "edges.csv": EDGES}, (*GZIP, *SMALL))
    edges = {"nodes.csv": NODES, "edges.csv.gz": packed(b"", b"n000,n001\n")}
    yield Case("edges without end", edges, ("edges.csv.gz", *FILES[1:], *SMALL))
    long = pa.array(["x" * (BIG // N)] * N)
    yield Case("one long text", in_parquet(more=long), (*PARQUET, *SMALL))
    same = parquet({"id": pa.array(np.zeros(BIG // 8, np.int64))}, compression="zstd")
    files = {"nodes.parquet": same, "edges.parquet": parquet(ENDS)}
    yield Case("one number many times", files, (*PARQUET, *SMALL))
    zeros = np.zeros((N, BIG // N // 4), np.float32)
    yield Case("zeros", archive(node_features=zeros), (*ARCHIVE, *SMALL))
    yield Case("an array that says it is large", {"graph.npz": _lying()}, (*ARCHIVE, *SMALL))
    laughs = b'<!DOCTYPE graphml [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;">]>' + xml()
    yield Case("entities", {"graph.graphml": laughs}, (*GRAPHML, *SMALL))
    nodes = "".join(f'<node id="{i}"/>' for i in range(60_000))
    yield Case("many nodes", {"graph.graphml": xml(nodes)}, (*GRAPHML, *SMALL))


def distinct(_: random.Random) -> Iterator[Case]:
    """Columns of a million categories."""
    lines = "".join(f"{i},w{i},{'ab'[i % 2]}\n" for i in range(1_000_000))
    yield Case("a million categories", tables(b"id,word,role\n" + lines.encode(), b"0,1\n"))
    lines = "".join(f"{i},w{i}\n" for i in range(1_000_000))
    yield Case("a million labels", tables(b"id,role\n" + lines.encode(), b"0,1\n"))
    words = pa.array([f"w{i}" for i in range(100_000)]).dictionary_encode()
    held = {"id": list(range(100_000)), "word": words, "role": ["a", "b"] * 50_000}
    files = {"nodes.parquet": parquet(held), "edges.csv": b"0,1\n"}
    yield Case("many categories in Parquet", files, MIXED)


def _lying() -> bytes:
    header = (
        b"{'descr': '<i8', 'fortran_order': False, 'shape': (100000000000, 2), }".ljust(117) + b"\n"
    )
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr(
            "edges.npy", b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header
        )
    return buffer.getvalue()


def climbing(_: random.Random) -> Iterator[Case]:
    """Folders whose files are elsewhere, or are none."""
    folder = ("in", "--label", "role")

    def inside(nodes: bytes | Path | None, edges: bytes | Path | None = EDGES, **more: bytes):
        files = {
            "in/nodes.csv": nodes,
            "in/edges.csv": edges,
            "nodes.csv": NODES,
            "edges.csv": EDGES,
        }
        return {k: v for k, v in (files | more).items() if v is not None}

    yield Case("a link upwards", inside(Path("../nodes.csv")), folder)
    yield Case("a link to edges upwards", inside(NODES, Path("../edges.csv")), folder)
    yield Case("a link to the root", inside(Path("/etc/passwd")), folder)
    yield Case("a link that climbs far", inside(Path("../" * 30 + "etc/passwd")), folder)
    yield Case("a link to a device", inside(Path("/dev/zero")), folder)
    yield Case("a link to nothing", inside(Path("gone.csv")), folder)
    yield Case("a link to itself", inside(Path("nodes.csv")), folder)
    yield Case("a link to the folder", inside(Path()), folder)
    yield Case("no nodes", inside(None), folder)
    yield Case("no edges", inside(NODES, None), folder)
    yield Case("two kinds of nodes", inside(NODES, **{"in/nodes.tsv": NODES}), folder)
    yield Case("a folder as nodes", {"edges.csv": EDGES, "nodes.csv/a": b""})
    yield Case("a folder as edges", {"nodes.csv": NODES, "edges.csv/a": b""})
    yield Case("a device", tables(), ("edges.csv", "--nodes", "/dev/zero", "--label", "role"))
    yield Case("files that are gone", {"other.csv": NODES})
    climbing_names = npz(**{f"../{k}": v for k, v in arrays().items()})
    yield Case("names that climb", {"graph.npz": climbing_names}, ARCHIVE)
    yield Case("an unknown kind", tables() | {"n.docx": NODES}, ("edges.csv", "--nodes", "n.docx"))
    yield Case("a pickle", {"graph.npz": _pickled()}, ARCHIVE)


def _pickled() -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, **arrays(node_labels=np.array(COLUMNS["role"], dtype=object)))
    return buffer.getvalue()


def ragged(rng: random.Random) -> Iterator[Case]:
    lines = NODES.splitlines(keepends=True)
    for _ in range(8):
        row = rng.randrange(1, len(lines))
        for harm in (b"%b,1\n", b"%b,,,,\n"):
            more = [*lines[:row], harm % lines[row][:-1], *lines[row + 1 :]]
            yield Case(f"row {row} is longer", tables(b"".join(more)))
        fewer = [*lines[:row], lines[row].rpartition(b",")[0] + b"\n", *lines[row + 1 :]]
        yield Case(f"row {row} is shorter", tables(b"".join(fewer)))
    for what, content in (
        ("nothing", b""),
        ("a blank", b" "),
        ("blank lines", b"\n\n\n"),
        ("comments", b"# a\n% b\n"),
        ("a mark of UTF-8", b"\xef\xbb\xbf"),
        ("a header", lines[0]),
        ("a quote", b'"'),
        ("an open quote", b'id,role\n"a,x\nb,y\n'),
        ("a word", b"hello\n"),
    ):
        yield Case(f"nodes are {what}", tables(content))
        yield Case(
            f"edges are {what}", tables(edges=content if what != "a header" else b"source,target\n")
        )
    yield Case(
        "no rows in Parquet",
        {
            "nodes.parquet": parquet({k: pa.array([], pa.string()) for k in COLUMNS}),
            "edges.csv": EDGES,
        },
    )
    yield Case(
        "no edges in Parquet",
        in_parquet() | {"edges.parquet": parquet({k: pa.array([], pa.string()) for k in ENDS})},
        PARQUET,
    )
    yield Case("no edges in GraphML", {"graph.graphml": xml(edges="")}, GRAPHML)
    yield Case("no nodes in GraphML", {"graph.graphml": xml("", "")}, GRAPHML)
    yield Case("no edges in an archive", archive(edges=np.zeros((0, 2), int)), ARCHIVE)


def wrong_edges(rng: random.Random) -> Iterator[Case]:
    for count in (1, 2, 3, 4, 1000):
        more = "".join(f"new{i},n{rng.randrange(N):03d}\n" for i in range(count))
        yield Case(f"{count} edges to unknown nodes", tables(edges=EDGES + more.encode()))
    yield Case(
        "a header that is not known", tables(edges=EDGES.replace(b"source,target", b"mon,ami"))
    )
    for weight in ("-1", "nan", "inf", "heavy", "", "1e999", "1e200"):
        weights = [weight, *["1"] * (N - 1)]
        yield Case(f"weight {weight!r}", tables(edges=csv(ENDS | {"weight": weights})))
    yield Case("one column", tables(edges=csv({"source": SOURCE})))
    yield Case("four columns", tables(edges=csv(dict.fromkeys("abcd", SOURCE))))
    yield Case("two sources", tables(edges=csv(ENDS | {"from": SOURCE})))
    for number in (2**63, 2**64, 10**40, -(2**63) - 1):
        ids = list(range(N))
        ring = csv({"source": [*ids, number], "target": [*ids[1:], 0, 1]})
        yield Case(f"an end {number}", tables(csv(COLUMNS | {"id": ids}), ring))
    for dtype, value in ((np.uint64, 2**64 - 1), (np.int64, -1), (np.int64, N), (float, 0.5)):
        pairs = np.array([[0, 1], [1, value]], dtype=dtype)
        yield Case(f"ends of {value}", archive(edges=pairs), ARCHIVE)
    yield Case("ends in GraphML", {"graph.graphml": xml(edges='<edge source="n000"/>')}, GRAPHML)
    unknown = xml().replace(b"</graph>", b'<edge source="n000" target="new"/></graph>')
    yield Case("a node in GraphML without attributes", {"graph.graphml": unknown}, (*GRAPHML,))


def controlling(_: random.Random) -> Iterator[Case]:
    """Names that would give the terminal orders if they were printed as they are."""
    for odd in ODD:
        shown = ascii(odd)
        safe = odd.replace("\r", "").replace("\u2028x", "x")
        yield Case(f"an unknown node {shown}", tables(edges=EDGES + f'"{safe}",n000\n'.encode()))
        yield Case(f"an id twice {shown}", in_parquet(id=[odd, odd, *NAMES[2:]]), PARQUET)
        yield Case(f"a label once {shown}", in_parquet(role=[odd, *COLUMNS["role"][1:]]), PARQUET)
        yield Case(f"a split {shown}", in_parquet(split=[odd, *["train"] * (N - 1)]), PARQUET)
        yield Case(f"a column of text {shown}", in_parquet(**{odd: NAMES}), PARQUET)
        yield Case(
            f"a column of dates {shown}",
            in_parquet(**{odd: pa.array(range(N), pa.date32())}),
            PARQUET,
        )
        yield Case(f"a label not there {shown}", tables(), (*FILES[:3], "--label", odd))
        yield Case(f"a file {shown}", tables(), (f"gone{safe}.csv", *FILES[1:]))


FAMILIES: dict[str, Callable[[random.Random], Iterator[Case]]] = {
    "truncated": truncated,
    "encoded": encoded,
    "ids": wrong_ids,
    "columns": wrong_columns,
    "features": wrong_features,
    "labels": wrong_labels,
    "splits": wrong_splits,
    "climbing": climbing,
    "ragged": ragged,
    "edges": wrong_edges,
    "controlling": controlling,
}
LARGE = {"expanding": expanding, "distinct": distinct}


def cases(family: str) -> list[Case]:
    """The cases of one family, always the same."""
    return list((FAMILIES | LARGE)[family](random.Random(family)))
