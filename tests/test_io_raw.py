"""How much a file may unpack to: no more is held than asked for, whatever sizes it states."""

from __future__ import annotations

import gzip
import io
import os
import tracemalloc
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from filing import npz
from pdgnn import Graph, InputError
from pdgnn.io import read_graph_file
from pdgnn.io.raw import checked_max_bytes
from pdgnn.io.sources import open_file, open_source

MB = 1_000_000
TOO_MUCH = (
    r"it holds more than 0\.001 GB when unpacked, and was not read; .* max_bytes \(--max-gb\)"
)


@contextmanager
def at_most(size: int) -> Iterator[None]:
    """No more than `size` bytes are held at once by Python, NumPy and Arrow."""
    before = pa.default_memory_pool()
    pool = pa.proxy_memory_pool(before)
    pa.set_memory_pool(pool)
    tracemalloc.start()
    try:
        yield
        peak = tracemalloc.get_traced_memory()[1] + (pool.max_memory() or 0)
    finally:
        tracemalloc.stop()
        pa.set_memory_pool(before)
    assert peak < size


def zeros(rows: int) -> bytes:
    return npz(edges=np.zeros((rows, 2), dtype=np.int64))


def with_size(content: bytes, size: int) -> bytes:
    """The archive, its directory stating another size of its member."""
    at = content.rindex(b"PK\x01\x02") + 24
    return content[:at] + size.to_bytes(4, "little") + content[at + 4 :]


def more_than_its_header_says() -> bytes:
    """An array of one edge, and after it 30 MB."""
    one = io.BytesIO()
    np.save(one, np.array([[0, 1]]))
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("edges.npy", one.getvalue() + bytes(30 * MB))
    return buffer.getvalue()


def a_long_header() -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        size = (30 * MB).to_bytes(4, "little")
        archive.writestr("edges.npy", b"\x93NUMPY\x02\x00" + size + b" " * (30 * MB))
    return buffer.getvalue()


def parquet(table: pa.Table, **options) -> bytes:
    buffer = io.BytesIO()
    pq.write_table(table, buffer, **options)
    return buffer.getvalue()


def long_names(rows: int) -> bytes:
    """A name of 20 kB that is stored once and stands in every row."""
    names = pa.DictionaryArray.from_arrays(np.zeros(rows, np.int32), [20_000 * "x"])
    return parquet(pa.table({"a": names, "b": names}))


FILES = {
    "plain.csv": b"0,1\n" * 300_000,
    "edges.npz": zeros(2 * MB),
    "small-size.npz": with_size(zeros(2 * MB), 100_000),
    "isolated.npz": npz(edges=np.array([[0, 1]]), num_nodes=MB),
    "bytes.npz": npz(edges=np.zeros((100_000, 2), dtype=np.uint8)),  # ids take 8 bytes each
    "text.txt.gz": gzip.compress(b"0 1\n" * (8 * MB), 1, mtime=0),
    "blank.csv.gz": gzip.compress(b"\n" * (30 * MB), 1, mtime=0),
    "rows.parquet": parquet(pa.table({"a": np.zeros(2 * MB, int), "b": np.zeros(2 * MB, int)})),
    "names.parquet": long_names(2_000),
    "nodes.graphml": b"<graphml><graph>%s</graph></graphml>"
    % b"".join(b'<node id="%d"/>' % i for i in range(20_000)),
}


@pytest.mark.parametrize("name", FILES)
def test_what_unpacks_to_more_than_allowed_is_refused_before_it_is_held(tmp_path, name):
    path = tmp_path / name
    path.write_bytes(FILES[name])
    room = 8 * MB + 512 * 20_000 * (name == "names.parquet")  # text comes 256 rows at a time
    with at_most(room), pytest.raises(InputError, match=TOO_MUCH):
        read_graph_file(path, max_bytes=MB)
    for read in (Graph.load, open_file):
        with pytest.raises(InputError, match=name.replace(".", r"\.")):
            read(path, max_bytes=MB)
    with pytest.raises(InputError, match=TOO_MUCH):
        open_source(str(path), max_bytes=MB)


def test_no_more_is_unpacked_than_an_array_says_it_has(tmp_path):
    path = tmp_path / "a.npz"
    path.write_bytes(more_than_its_header_says())
    with at_most(MB):
        assert Graph.load(path, max_bytes=MB).num_edges == 1
    path.write_bytes(a_long_header())
    with at_most(MB), pytest.raises(InputError, match="damaged"):
        Graph.load(path, max_bytes=MB)
    path.write_bytes(with_size(zeros(1000), 2**31))  # less than the directory says
    with at_most(MB):
        assert Graph.load(path, max_bytes=MB).num_nodes == 1
    path.write_bytes(with_size(zeros(1000), 200))  # more than it says
    with at_most(MB), pytest.raises(InputError, match="damaged"):
        Graph.load(path, max_bytes=MB)


def test_a_limit_that_is_raised_lets_a_file_through(tmp_path):
    path = tmp_path / "a.npz"
    path.write_bytes(zeros(100_000))
    with pytest.raises(InputError, match=TOO_MUCH):
        Graph.load(path, max_bytes=MB)
    assert Graph.load(path, max_bytes=2 * MB).num_nodes == 1
    assert Graph.load(path).num_nodes == 1


@pytest.mark.parametrize("value", [0, -1, 1.5, "8GB", True])
def test_a_limit_is_a_whole_number(tmp_path, value):
    with pytest.raises(InputError, match="max_bytes must be a whole number of at least 1"):
        read_graph_file(tmp_path / "a.csv", max_bytes=value)


@pytest.mark.parametrize(
    ("pages", "expected"), [(1_000_000, 512_000_000), (100_000_000, 8 * 10**9), (None, 8 * 10**9)]
)
def test_the_limit_is_an_eighth_of_the_memory_and_8_gb_at_most(monkeypatch, pages, expected):
    def sysconf(name: str) -> int:
        if pages is None:
            raise ValueError("unrecognized configuration name")
        return 4096 if name == "SC_PAGE_SIZE" else pages

    monkeypatch.setattr(os, "sysconf", sysconf)
    assert checked_max_bytes(None) == expected
    assert checked_max_bytes(5) == 5
