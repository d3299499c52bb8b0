"""Files that make no sense, drawn by the hundred: read or refused in one line, never a traceback.

Each is a file of the right outer form with something odd within, which flipped bytes rarely reach.
"""

from __future__ import annotations

import gzip
import io
import random
import zipfile
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pdgnn import InputError
from pdgnn.io.sources import open_file

CASES = 150
LIMIT = 1_000_000
KINDS = (
    "?",
    "i1",
    "u1",
    "i4",
    "i8",
    "u8",
    "f2",
    "f4",
    "f8",
    "f16",
    "c8",
    "M8[s]",
    "S3",
    "U0",
    "V2",
)
KEYS = ("num_nodes", "edge_weight", "node_features", "node_labels", "node_ids", "train_masks")
ENCODINGS = ("utf-8", "utf-8", "latin-1", "utf-16", "utf-7", "klingon", "utf-32", "cp037", "hex")
ODD_NUMBERS = (0, 1, 2, 3, -1, 7, 100_001, 2**31, 2**53 + 1, 2**62, 2**63 - 1, -(2**63))


def flipped(rng: random.Random, content: bytes) -> bytes:
    """`content` with a few bytes changed or its end cut off, or as it is."""
    data = bytearray(content)
    if rng.random() < 0.5:
        for _ in range(rng.randint(1, 4)):
            data[rng.randrange(len(data))] = rng.randrange(256)
    return bytes(data[: rng.randrange(len(data))] if rng.random() < 0.1 else data)


def an_array(rng: random.Random) -> np.ndarray:
    shapes = [(), (0,), (1,), (2,), (3,), (2, 2), (3, 2), (2, 3), (1, 3), (0, 3), (3, 0), (1, 1, 3)]
    kind, shape = rng.choice(KINDS), rng.choice(shapes)
    flat = [rng.choice(ODD_NUMBERS if rng.random() < 0.3 else (0, 1, 2)) for _ in range(9)]
    if kind[0] in "iu":
        return np.array(flat).astype(kind)[: int(np.prod(shape))].reshape(shape)
    if kind[0] in "?fc":
        floats = [rng.choice((0.0, 1.0, 0.5, np.nan, np.inf, -1.0, 1e300)) for _ in range(9)]
        with np.errstate(all="ignore"):
            return np.array(floats).astype(kind)[: int(np.prod(shape))].reshape(shape)
    return np.zeros(shape, dtype=kind)


HEADERS = (
    "{'descr': '<i8', 'fortran_order': False, 'shape': (1, 2), }",
    "{'descr': '<i8', 'fortran_order': False, 'shape': (1, 2), ",
    "{'descr': '<i8', 'fortran_order': False, 'shape': (True, 2), }",
    "{'descr': '<i8', 'fortran_order': False, 'shape': (-1, 2), }",
    "{'descr': '<i8', 'fortran_order': False, 'shape': (1e3, 2), }",
    "{'descr': '<i8', 'fortran_order': False, 'shape': (" + "1" + 30 * "0" + ", 2), }",
    "{'descr': '<i8', 'fortran_order': False, 'shape': (" + 5000 * "1" + ", 2), }",
    "{'descr': '<i8', 'fortran_order': 3, 'shape': (1, 2), }",
    "{'descr': '<i999', 'fortran_order': False, 'shape': (1, 2), }",
    "{'descr': [('a', '<i8')], 'fortran_order': False, 'shape': (1, 2), }",
    "{'descr': '<U0', 'fortran_order': False, 'shape': (1000000000000, 2), }",
    "{'descr': '(1000000000,)i8', 'fortran_order': False, 'shape': (1, 2), }",
    "{'descr': '|O', 'fortran_order': False, 'shape': (1, 2), }",
    "{'shape': (1, 2), }",
    "[" * 200,
    "(" * 5000,
    "lambda: 0",
    "\x00\xff",
    "",
)


def npy(header: str, version: int, length: int | None = None) -> bytes:
    """An array of two zeros behind any header, whose length may be a lie."""
    text = header.encode("latin-1")
    size = len(text) if length is None else length
    return (
        b"\x93NUMPY"
        + bytes([version, 0])
        + size.to_bytes(2 * version, "little")
        + text
        + 16 * b"\0"
    )


def an_npz(rng: random.Random) -> bytes:
    method = rng.choice([0, 8, 8, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        plain = io.BytesIO()
        np.save(plain, np.array([[0, 1], [1, 2]]))
        archive.writestr("edges.npy", plain.getvalue())
        for key in rng.sample(KEYS, rng.randint(0, 3)):
            held = io.BytesIO()
            np.save(held, an_array(rng))
            for name in ("train_masks", "val_masks", "test_masks") if key == KEYS[-1] else (key,):
                archive.writestr(f"{name}.npy", held.getvalue())
    if rng.random() < 0.3:
        with zipfile.ZipFile(buffer := io.BytesIO(), "w", method) as archive:
            length = rng.choice([None, None, 0, 60_000])
            archive.writestr("edges.npy", npy(rng.choice(HEADERS), rng.choice([1, 2]), length))
    return flipped(rng, buffer.getvalue())


def a_text(rng: random.Random) -> bytes:
    words = [*map(str, ODD_NUMBERS), "a", "1.0", "1.5", "3.000e+00", "9.1e+18", "1e999", "nan", ""]
    words += [
        "-0",
        "007",
        '"',
        '"x,y"',
        "#",
        " ",
        "é",
        "\ufeff",
        "\x00",
        "٣",
        "1_0",
        "source",
        "to",
    ]
    separator = rng.choice([",", "\t", " ", ";", ", "])
    width = rng.choice([1, 2, 2, 2, 3, 3, 4])
    rows = [
        separator.join(rng.choice(words if rng.random() < 0.4 else "0123") for _ in range(width))
        for _ in range(rng.randint(1, 5))
    ]
    return rng.choice(["\n", "\r\n", "\r"]).join(rows).encode()


def a_gzip(rng: random.Random) -> bytes:
    return flipped(rng, gzip.compress(a_text(rng), mtime=0))


def a_graphml(rng: random.Random) -> bytes:
    ids = ["a", "b", "", "1", "é", "&lt;", " "]
    parts = [
        lambda: f'<node id="{rng.choice(ids)}"/>',
        lambda: f'<edge source="{rng.choice(ids)}" target="{rng.choice(ids)}"/>',
        lambda: (
            '<edge source="a" target="b"><data key="w">'
            f"{rng.choice(['1', 'x', '', 'nan', '1e999'])}</data></edge>"
        ),
        lambda: "<edge/>",
        lambda: "<node/>",
        lambda: "<hyperedge/>",
        lambda: '<node id="a"><graph/></node>',
        lambda: '<data key="w">3</data>',
        lambda: "<default>",
        lambda: '<key id="w" attr.name="weight"/>',
    ]
    weights = [0.9] * 3 + [0.1] * 7
    inside = "".join(part() for part in rng.choices(parts, weights, k=rng.randint(0, 6)))
    keys = rng.choice(
        [
            '<key id="w" for="edge" attr.name="weight" attr.type="double"/>',
            '<key id="w" for="edge" attr.name="weight"><default>x</default></key>',
            '<key attr.name="weight"><default>2</default></key>',
            "<default>1</default>",
            "",
        ]
    )
    graphs = rng.choice([1, 1, 1, 1, 0, 2]) * f"<graph>{inside}</graph>"
    encoding = rng.choice(ENCODINGS)
    text = f"<?xml version='1.0' encoding='{encoding}'?><graphml>{keys}{graphs}</graphml>"
    encode = encoding if encoding not in ("klingon", "hex", "cp037") else "utf-8"
    return flipped(rng, text.encode(encode, errors="replace"))


def a_parquet(rng: random.Random) -> bytes:
    def column(rows: int) -> pa.Array:
        numbers = [
            rng.choice(ODD_NUMBERS if rng.random() < 0.2 else (0, 1, 2)) for _ in range(rows)
        ]
        texts = [rng.choice(["a", "1.0", "1", "", None, "é", "3.0e+00"]) for _ in range(rows)]
        small = [abs(n) % 100 for n in numbers]
        makers = [
            lambda: pa.array(numbers, pa.int64()),
            lambda: pa.array(small, pa.uint8()),
            lambda: pa.array([abs(n) for n in numbers], pa.uint64()),
            lambda: pa.array(np.array(small, np.float16)),
            lambda: pa.array([float(n) for n in numbers], pa.float32()),
            lambda: pa.array([rng.choice([0.0, 1.5, np.nan, np.inf, None]) for _ in numbers]),
            lambda: pa.array(texts, rng.choice([pa.string(), pa.large_string(), pa.binary()])),
            lambda: pa.array([text or "" for text in texts]).dictionary_encode(),
            lambda: pa.array(small).dictionary_encode(),
            lambda: pa.nulls(rows),
            lambda: pa.array([n % 2 == 0 for n in numbers]),
            lambda: pa.array([[n] for n in numbers]),
            lambda: pa.array([{"x": n} for n in numbers]),
            lambda: pa.array(small, pa.decimal128(10, 2)),
            lambda: pa.array(small, pa.timestamp("s")),
        ]
        return rng.choice(makers)()

    rows = rng.choice([0, 1, 2, 5])
    names = rng.choice(["ab", ["src", "dst"], ["u", "v", "w"], ["from", "to", "kind", "weight"]])
    buffer = io.BytesIO()
    columns = [column(rows) for _ in names]
    pq.write_table(
        pa.Table.from_arrays(columns, names=list(names)),
        buffer,
        compression=rng.choice(["none", "snappy", "gzip", "zstd"]),
        use_dictionary=rng.random() < 0.5,
    )
    return flipped(rng, buffer.getvalue())


MAKERS: dict[str, Callable[[random.Random], bytes]] = {
    "a.npz": an_npz,
    "a.csv": a_text,
    "a.txt": a_text,
    "a.csv.gz": a_gzip,
    "a.graphml": a_graphml,
    "a.parquet": a_parquet,
}


@pytest.mark.parametrize("name", MAKERS)
def test_files_that_make_no_sense_are_read_or_refused_in_one_line(tmp_path, name):
    path, read, said = tmp_path / name, 0, []
    for case in range(CASES):
        path.write_bytes(MAKERS[name](random.Random(f"{name} {case}")))
        try:
            source = open_file(path, max_bytes=LIMIT)
        except InputError as e:
            said.append(str(e))
        except BaseException as e:
            raise AssertionError(f"case {case} of {name}") from e
        else:
            read += 1
            assert 1 <= source.graph.num_nodes < LIMIT
            assert source.labels is None or len(source.labels) == source.graph.num_nodes
    assert 0 < read < CASES  # some of both
    assert not any("\n" in line for line in said)
