"""Node tables whose values are wrong: ids, columns, features, labels, splits."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from malformed_case import (
    ARCHIVE,
    COLUMNS,
    FILES,
    GRAPHML,
    NAMES,
    NODES,
    PARQUET,
    Case,
    N,
    archive,
    arrays,
    changed,
    csv,
    in_parquet,
    tables,
    with_value,
    xml,
)


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
