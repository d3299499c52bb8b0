"""NumPy archives, read and refused."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import numpy as np
import pytest

from filing import HTML, PNG, edges, npz, read, refused
from pdgnn import Graph, InputError


def benchmark(**changes) -> dict[str, np.ndarray]:
    """Three nodes on a path and two splits, in the benchmark's form."""
    arrays = {
        "node_features": np.array([[1, 0], [0, 1], [2, 2]], dtype=np.float32),
        "node_labels": np.array([0, 1, 1]),
        "edges": np.array([[0, 1], [1, 2]]),
        "train_masks": np.array([[1, 0, 0], [0, 1, 0]], dtype=bool),
        "val_masks": np.array([[0, 1, 0], [0, 0, 1]], dtype=bool),
        "test_masks": np.array([[0, 0, 1], [1, 0, 0]], dtype=bool),
    }
    arrays |= changes
    return {key: value for key, value in arrays.items() if value is not None}


def test_a_benchmark_archive(tmp_path):
    raw = read(tmp_path, "a.npz", npz(**benchmark()))
    assert edges(raw) == [(0, 1), (1, 2)]
    assert raw.num_nodes == 3
    assert raw.features.dtype == np.float32
    assert raw.features.tolist() == [[1, 0], [0, 1], [2, 2]]
    assert raw.labels.tolist() == [0, 1, 1]
    assert list(raw.masks) == ["train", "val", "test"]
    assert raw.masks["val"].dtype == np.bool_
    assert raw.masks["val"].tolist() == [[False, True, False], [False, False, True]]


def test_an_archive_of_other_types_comes_out_the_same(tmp_path):
    arrays = benchmark(edges=np.array([[0, 1], [1, 2]], dtype=np.uint8, order="F"))
    arrays["node_features"] = arrays["node_features"].astype(np.int16)
    arrays["node_labels"] = np.array([False, True, True])
    masks = {f"{s}_masks": arrays[f"{s}_masks"][0].astype(np.uint8) for s in ("train", "val")}
    raw = read(tmp_path, "a.npz", npz(**arrays | masks | {"test_masks": arrays["test_masks"][0]}))
    assert raw.edge_index.dtype == np.int64
    assert raw.labels.dtype == np.int64
    assert raw.features.tolist() == [[1, 0], [0, 1], [2, 2]]
    assert raw.masks["train"].tolist() == [[True, False, False]]


def test_an_archive_of_edges_alone(tmp_path):
    raw = read(tmp_path, "a.npz", npz(edges=np.array([[0, 3], [3, 1]], dtype=np.int32)))
    assert edges(raw) == [(0, 3), (3, 1)]
    assert raw.num_nodes == 4
    assert (raw.edge_weight, raw.features, raw.labels, raw.masks) == (None, None, None, None)
    weighted = npz(edges=np.array([[0, 3]]), num_nodes=np.array(9), edge_weight=np.array([[2]]))
    raw = read(tmp_path, "a.npz", weighted)
    assert raw.num_nodes == 9
    assert raw.edge_weight.tolist() == [2.0]
    assert read(tmp_path, "a.npz", npz(edges=np.zeros((0, 2), int), num_nodes=2)).num_nodes == 2


class Bomb:
    """Unpickling this writes a file; nothing may ever unpickle it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return (open, (str(self.path), "w"))


def test_pickled_arrays_are_refused_and_never_run(tmp_path):
    proof = tmp_path / "ran"
    content = npz(**benchmark(edges=np.array([[Bomb(proof), 1]], dtype=object)))
    refused(tmp_path, "a.npz", content, "pickled, which is refused because it can run code")
    assert not proof.exists()


def zipped(name: str, content: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(name, content)
    return buffer.getvalue()


def damaged() -> bytes:
    """A whole archive with one byte of its data flipped."""
    plain = io.BytesIO()
    np.savez(plain, edges=np.zeros((50, 2), dtype=np.int64))
    content = bytearray(plain.getvalue())
    content[400] ^= 255
    return bytes(content)


def lzma_with_a_wrong_byte() -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("edges.npy", NPY.getvalue())
    content = bytearray(buffer.getvalue())
    content[60] ^= 255
    return bytes(content)


def headed(header: str) -> bytes:
    """An archive whose edges have this header, and 16 bytes of data."""
    text = header.encode()
    return zipped(
        "edges.npy", b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + b"\0" * 16
    )


def shaped(shape: str) -> bytes:
    return headed(f"{{'descr': '<i8', 'fortran_order': False, 'shape': {shape}, }}")


TOO_MUCH = "it holds more than .* GB when unpacked, and was not read; .* raise max_bytes"
PAIR = np.array([[0, 1]])
NPY = io.BytesIO()
np.save(NPY, np.arange(50).reshape(-1, 2))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (npz(**benchmark())[:-30], "not a whole .npz file"),
        (HTML, "not a whole .npz file"),
        (PNG, "not a whole .npz file"),
        (NPY.getvalue(), "not a whole .npz file"),
        (damaged(), "damaged"),
        (zipped("edges.npy", NPY.getvalue()[:200]), "damaged"),
        (b"x" + npz(edges=np.zeros((1, 2), int)), "not a whole .npz file"),
        (zipped("edges.npy", b"0,1\n"), "damaged"),
        (npz(x=np.zeros(2), y=np.zeros(2)), "no array 'edges' .* only x, y"),
        (npz(), "no array 'edges' .* only nothing"),
        (npz(edges=np.zeros((2, 5), int)), r"edges has shape \(2, 5\).*transpose"),
        (npz(edges=np.zeros(4, int)), r"edges has shape \(4,\), expected \[E, 2\]"),
        (npz(edges=np.zeros((3, 2))), "edges holds float64; node ids must be integers"),
        (npz(edges=np.array([[0, 1], [-3, 1]])), r"edges\[1\] is \[-3, 1\]; ids are counted"),
        (npz(edges=np.array([[2**64 - 1, 1]], dtype=np.uint64)), r"edges\[0\] is \[18446"),
        (npz(edges=np.array([[0, 100_001]])), "largest id is 100001, far beyond the 1 edges"),
        (npz(edges=np.zeros((0, 2), int)), "no nodes in it"),
        (npz(edges=np.array([[0, 1]]), num_nodes=1), r"edges\[0\] is \[0, 1\], but there are 1"),
        (npz(edges=np.array([[0, 1]]), num_nodes=1.5), "num_nodes must be one positive integer"),
        (npz(edges=np.array([[0, 1]]), num_nodes=[2, 2]), "num_nodes must be one positive"),
        (npz(edges=np.array([[0, 1]]), num_nodes=0), "num_nodes must be one positive"),
        (npz(edges=np.array([[0, 1]]), edge_weight=[1, 2]), r"edge_weight has shape \(2,\)"),
        (npz(edges=np.array([[0, 1]]), edge_weight=["a"]), "edge_weight holds <U1"),
        (npz(edges=np.array([[0, 1]]), edge_weight=[np.nan]), "weight in row 1 is nan"),
        (npz(edges=np.array([[0, 1]]), edge_weight=[-1]), "weight in row 1 is -1.0"),
        (npz(**benchmark(edges=np.array([[0, 1], [3, 1]]))), r"edges\[1\] is \[3, 1\], but .* 3 n"),
        (npz(**benchmark(node_features=np.ones(3))), r"node_features has shape \(3,\)"),
        (npz(**benchmark(node_features=np.full((3, 1), "a"))), "node_features holds <U1"),
        (npz(**benchmark(node_features=np.ones((4, 1)))), "do not agree .* node_features 4"),
        (npz(**benchmark(node_labels=np.zeros(2, int))), "do not agree .* node_labels 2"),
        (npz(**benchmark(node_labels=np.zeros((3, 1), int))), r"node_labels has shape \(3, 1\)"),
        (npz(**benchmark(node_labels=np.zeros(3))), "node_labels holds float64"),
        (npz(**benchmark(num_nodes=7)), "do not agree on the number of nodes: .* num_nodes 7"),
        (npz(**benchmark(val_masks=None)), "val_masks is missing; give train, val and test"),
        (npz(**benchmark(val_masks=np.zeros((2, 4), bool))), "do not agree .* val_masks 4"),
        (npz(**benchmark(val_masks=np.zeros((1, 3), bool))), "number of splits: .* val 1"),
        (npz(**benchmark(val_masks=np.zeros((1, 1, 3), bool))), "val_masks has shape"),
        (npz(**benchmark(val_masks=np.array([[0, 1, 2]]))), "val_masks holds more than true"),
        (npz(**benchmark(val_masks=np.zeros((2, 3)))), "val_masks holds more than true"),
        (npz(**benchmark(val_masks=np.zeros((0, 3), bool))), r"val_masks has shape \(0, 3\), exp"),
        (npz(edges=PAIR, num_nodes=2**62), TOO_MUCH),
        (npz(edges=PAIR, num_nodes=np.uint64(2**64 - 1)), TOO_MUCH),
        (
            npz(edges=np.array([[0, 2**64 - 1]], dtype=np.uint64), num_nodes=9),
            r"edges\[0\] is \[0, 18",
        ),
        (npz(edges=PAIR, node_ids=np.array(5)), r"node_ids is int64 of shape \(\); give a name"),
        (
            npz(edges=PAIR, node_labels=np.array([0, 2**64 - 1], np.uint64)),
            "node_labels holds 18446744",
        ),
        (shaped("(True, 2)"), r"damaged \(its shape is \(True, 2\)\)"),
        (shaped("(-1, 2)"), r"damaged \(its shape is \(-1, 2\)\)"),
        (shaped(f"({10**30}, 2)"), TOO_MUCH),
        (shaped(f"({2**62}, 2)"), TOO_MUCH),
        (shaped("(1, 2").replace(b", }", b"   "), "damaged"),
        (headed("{'descr': '<i8', 'shape': (1, 2), "), "damaged"),
        (headed("{'descr': '<U0', 'fortran_order': False, 'shape': (10000000000, 2), }"), TOO_MUCH),
        (lzma_with_a_wrong_byte(), "damaged"),
    ],
)
def test_bad_archives_are_refused(tmp_path, content, message):
    refused(tmp_path, "a.npz", content, message)


def test_numbers_at_the_end_of_their_range_are_read(tmp_path):
    labels = np.array([0, 2**63 - 1, -1])
    raw = read(tmp_path, "a.npz", npz(**benchmark(node_labels=labels)))
    assert raw.labels.tolist() == labels.tolist()
    names = np.array([2**64 - 1, 0, 1], dtype=np.uint64)
    assert read(tmp_path, "a.npz", npz(**benchmark(node_ids=names))).node_ids[0] == 2**64 - 1


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e300])
def test_features_that_are_not_finite_name_their_node(tmp_path, value):
    features = np.array([[1, 0], [0, value], [2, 2]], dtype=np.float64)
    content = npz(**benchmark(node_features=features))
    refused(tmp_path, "a.npz", content, "node 1 has a feature that is not finite; fill it in")


def test_names_of_nodes_are_kept(tmp_path):
    path = tmp_path / "named.npz"
    np.savez(path, edges=np.array([[0, 1], [1, 2]]), node_ids=np.array(["ann", "bob", "cid"]))
    assert Graph.load(path).node_ids.tolist() == ["ann", "bob", "cid"]


def test_names_must_be_one_for_each_node(tmp_path):
    path = tmp_path / "named.npz"
    np.savez(path, edges=np.array([[0, 1]]), node_ids=np.array([0.5, 1.5]))
    with pytest.raises(InputError, match="give a name a node"):
        Graph.load(path)
