"""Node tables with something wrong in them, by the hundred, each to be refused in one line.

A case is the files of a folder and the words after ``pdgnn fit``. All are made from one small table
that can be fitted, by one harm each; none takes more than a few MB on disk.
"""

from __future__ import annotations

import gzip
import io
import random
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from filing import HTML, PNG, npz

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


MIXED = ("edges.csv", "--nodes", "nodes.parquet", "--label", "role")


def wrong_ids(rng: random.Random) -> Iterator[Case]:
    for count in (1, 2, 5, 12):
        ids = list(NAMES)
        for i in rng.sample(range(1, N), count):
            ids[i] = ids[0]
        yield Case(f"{count} ids that occur twice", changed(id=ids))
        yield Case(f"{count} ids that occur twice in Parquet", in_parquet(id=ids), PARQUET)
    yield Case("an id that is empty", with_value("id", 3, ""))
    yield Case("1 and 1.0 are one", tables(csv(COLUMNS | {"id": [1, "1.0", *range(2, N)]})))
    for what, ids in (
        ("null", [*NAMES[1:], None]),
        ("fractions", [i + 0.5 for i in range(N)]),
        ("truth values", [i % 2 == 0 for i in range(N)]),
        ("dates", pa.array(range(N), pa.date32())),
        ("lists", [[i] for i in range(N)]),
        ("bytes", pa.array([n.encode() for n in NAMES])),
        ("beyond 64 bits", [1e30 + i for i in range(N)]),
        ("not a number", [float("nan")] * N),
    ):
        yield Case(f"ids that are {what}", in_parquet(id=ids), PARQUET)


def wrong_columns(_: random.Random) -> Iterator[Case]:
    def renamed(old: str, new: str) -> dict[str, bytes | Path]:
        return tables(csv({new if k == old else k: v for k, v in COLUMNS.items()}))

    yield Case("no id", renamed("id", "key"))
    yield Case("no label", renamed("role", "roles"))
    yield Case("a label in another case", renamed("role", "Role"))
    yield Case("a column without a name", renamed("age", ""))
    yield Case("two columns of one name", tables(NODES.replace(b"age", b"team")))
    yield Case("two ids", renamed("age", "ID"))
    yield Case("two ids, one named", tables(NODES.replace(b"age", b"id")), (*FILES, "--id", "id"))
    yield Case("an id that is not there", tables(), (*FILES, "--id", "key"))
    yield Case("nothing to drop", tables(), (*FILES, "--drop", "shoe"))
    yield Case("the label dropped", tables(), (*FILES, "--drop", "role"))
    yield Case("the id dropped", tables(), (*FILES, "--drop", "id"))
    yield Case("no label said", tables(), FILES[:3])
    yield Case("no nodes said", tables(), (FILES[0], "--label", "role"))
    yield Case("columns of an archive", archive(), (*ARCHIVE, "--drop", "x0"))
    yield Case("the label of an archive", archive(), (*ARCHIVE, "--label", "role"))
    yield Case("the id of GraphML", {"graph.graphml": xml()}, (*GRAPHML, "--id", "age"))
    for kept in ("id", "role"):
        yield Case(f"{kept} alone", tables(csv({kept: COLUMNS[kept]})))


def wrong_features(_: random.Random) -> Iterator[Case]:
    for value in ("", "nan", "NA", "inf", "-inf", "1e999", "Infinity"):
        yield Case(f"age {value!r}", with_value("age", 5, value))
        both = {"age": [value, *COLUMNS["age"][1:]], "size": [1.5, value] * (N // 2)}
        yield Case(f"age and size {value!r}", changed(**both))
    for value in (None, float("inf"), float("nan")):
        yield Case(
            f"age {value} in Parquet", in_parquet(age=[value, *map(float, range(1, N))]), PARQUET
        )
        if value is not None:
            numbers = np.arange(3.0 * N).reshape(N, 3)
            numbers[4, 1] = value
            yield Case(f"{value} in an archive", archive(node_features=numbers), ARCHIVE)
    yield Case("an empty column", changed(empty=[""] * N))
    yield Case("an empty column to fill", changed(empty=[""] * N), (*FILES, "--impute", "median"))
    yield Case("text", changed(note=[f"a note on {name}" for name in NAMES]))
    yield Case("codes", changed(zip=[f"0{i:04d}" for i in range(N)]))
    for what, column in (
        ("dates", pa.array(range(N), pa.date32())),
        ("times", pa.array(range(N), pa.timestamp("us"))),
        ("durations", pa.array(range(N), pa.duration("s"))),
        ("bytes", pa.array([n.encode() for n in NAMES])),
        ("lists", [[i] for i in range(N)]),
        ("records", [{"a": i} for i in range(N)]),
        ("maps", pa.array([[("a", i)] for i in range(N)], pa.map_(pa.string(), pa.int64()))),
        ("words", NAMES),
        ("many categories", pa.array(NAMES).dictionary_encode()),
    ):
        yield Case(f"a column of {what}", in_parquet(more=column), PARQUET)
    for what, shape in (("no rows", (0, 3)), ("too many rows", (N + 1, 3)), ("one axis", (N,))):
        yield Case(f"features with {what}", archive(node_features=np.ones(shape)), ARCHIVE)
    for kind in ("U3", "M8[s]", "c8"):
        values = np.zeros((N, 2), dtype=kind)
        yield Case(f"features of {kind}", archive(node_features=values), ARCHIVE)


def wrong_labels(_: random.Random) -> Iterator[Case]:
    columns: dict[str, list] = {
        "one that occurs once": [*COLUMNS["role"][1:], "boss"],
        "two that occur once": [*COLUMNS["role"][2:], "boss", "chief"],
        "none": [""] * N,
        "one class": ["staff"] * N,
        "one class and none": ["staff", ""] * (N // 2),
        "each its own": NAMES,
        "fractions": [i % 3 + 0.5 for i in range(N)],
        "one fraction": [0.5, *(i % 3 for i in range(N - 1))],
        "beyond all numbers": ["1e300", "2e300"] * (N // 2),
        "not finite": ["inf", "1"] * (N // 2),
    }
    for what, labels in columns.items():
        yield Case(f"labels: {what}", changed(role=labels))
        held = [None if v == "" else v for v in labels]
        yield Case(f"labels in Parquet: {what}", in_parquet(role=pa.array(held)), PARQUET)
    for what, column in (
        ("dates", pa.array(range(N), pa.date32())),
        ("lists", [[i % 2] for i in range(N)]),
        ("decimals", pa.array(range(N), pa.decimal128(9, 2))),
        ("bytes", pa.array([b"a", b"b"] * (N // 2))),
        ("not finite", pa.array([float("inf"), 1.0] * (N // 2))),
    ):
        yield Case(f"labels that are {what}", in_parquet(role=column), PARQUET)
    rows = range(2 * 1001)
    many = csv({"id": rows, "role": [i // 2 for i in rows]})
    yield Case("a thousand and one classes", tables(many, b"0,1\n"))
    for what, values in (
        ("of one class", np.zeros(N, int)),
        ("none", np.full(N, -1)),
        ("fractions", np.full(N, 0.5)),
        ("text", np.array(COLUMNS["role"])),
        ("too few", np.arange(N - 1) % 3),
        ("beyond 64 bits", np.full(N, 2**64 - 1, dtype=np.uint64)),
    ):
        yield Case(f"labels of an archive: {what}", archive(node_labels=values), ARCHIVE)
    yield Case("an archive without labels", archive(node_labels=None), ARCHIVE)
    for old, new in ((b">lead<", b">boss 1<"), (b">staff<", b"><")):
        content = xml().replace(old, new, 1) if new != b"><" else xml().replace(b">lead<", new)
        content = content.replace(b">guest<", b">staff<") if new == b"><" else content
        content = content.replace(b">staff<", b"><") if new == b"><" else content
        yield Case(f"labels of GraphML: {new.decode()}", {"graph.graphml": content}, GRAPHML)


def wrong_splits(rng: random.Random) -> Iterator[Case]:
    parts = [("train", "train", "val", "test")[i % 4] for i in range(N)]
    for word in (
        "trian",
        "Train",
        "TEST",
        "validation",
        "valid",
        "0",
        "true",
        "train,val",
        "tr ain",
    ):
        where = rng.randrange(N)
        column = [f'"{word}"' if i == where else p for i, p in enumerate(parts)]
        yield Case(f"split {word!r}", changed(split=column))
        plain = [word if i == where else p for i, p in enumerate(parts)]
        yield Case(f"split {word!r} in Parquet", in_parquet(split=plain), PARQUET)
    yield Case("a split without train", changed(split=["val", "test"] * (N // 2)))
    yield Case("an empty split", changed(split=[""] * N))
    yield Case(
        "one class to train on",
        changed(split=["train" if r == "lead" else "test" for r in COLUMNS["role"]]),
    )
    yield Case(
        "no label to train on",
        changed(
            split=["train" if r == "lead" else "test" for r in COLUMNS["role"]],
            role=["" if r == "lead" else r for r in COLUMNS["role"]],
        ),
    )
    yield Case("split numbers", in_parquet(split=[i % 3 for i in range(N)]), PARQUET)
    masks = arrays()
    for one, other in (("train", "val"), ("train", "test"), ("val", "test")):
        both = masks[f"{one}_masks"] | masks[f"{other}_masks"]
        yield Case(f"{one} and {other} overlap", archive(**{f"{one}_masks": both}), ARCHIVE)
    yield Case("a part is missing", archive(val_masks=None), ARCHIVE)
    yield Case("masks of two and one", archive(val_masks=np.zeros((2, N), bool)), ARCHIVE)
    yield Case("masks of fewer nodes", archive(val_masks=np.zeros((1, N - 1), bool)), ARCHIVE)
    yield Case("masks of fractions", archive(val_masks=np.full((1, N), 0.5)), ARCHIVE)
    yield Case("masks that are empty", archive(val_masks=np.zeros((0, N), bool)), ARCHIVE)
    yield Case("no such split", archive(), (*ARCHIVE, "--split", "1"))
    yield Case("a negative split", archive(), (*ARCHIVE, "--split", "-1"))


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
        MIXED,
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
