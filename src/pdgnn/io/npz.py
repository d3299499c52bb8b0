"""Graphs as NumPy archives, in the form of the heterophilous benchmark.

``edges`` ``[E, 2]`` is all that an archive must hold. The others are ``node_features`` ``[N, F]``,
``node_labels`` ``[N]``, ``train_masks``, ``val_masks`` and ``test_masks`` ``[S, N]``,
``edge_weight`` ``[E]``, ``num_nodes``, and ``node_ids`` ``[N]``, the names of the nodes. The ids in
``edges`` are rows of ``node_features``, never names. Pickled arrays are refused, as they could run
code.
"""

from __future__ import annotations

import math
import zipfile
from collections.abc import Iterable
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from pdgnn.errors import InputError
from pdgnn.io.raw import (
    RawGraph,
    brief,
    check_size,
    checked_max_bytes,
    checked_weights,
    largest_id_allowed,
)

__all__ = ["parse_npz", "plain_arrays", "read_npz"]

HEADER_BYTES = 1 << 16  # more than any header of a plain array takes
SPLITS = ("train", "val", "test")
PER_NODE: tuple[str, ...] = ("node_features", "node_labels", "node_ids")
KEYS = ("edges", "num_nodes", "edge_weight", *PER_NODE)


def read_npz(path: Path, max_bytes: int) -> RawGraph:
    """Read the arrays of a benchmark graph, or ``edges`` alone; see the module."""
    with path.open("rb") as file:
        return parse_npz(file, max_bytes)


def parse_npz(file: BinaryIO, max_bytes: int | None = None) -> RawGraph:
    """What :func:`read_npz` reads, of an open file."""
    wanted = (*KEYS, *(f"{split}_masks" for split in SPLITS))
    arrays = plain_arrays(file, wanted, max_bytes=max_bytes)
    if "edges" not in arrays:
        found = [name.removesuffix(".npy") for name in zipfile.ZipFile(file).namelist()]
        said = ", ".join(found[:8]) or "nothing"
        raise InputError(f"there is no array 'edges' of shape [E, 2] in it, only {said}")
    index = _edge_index(arrays)
    features, labels, masks = _features(arrays), _labels(arrays), _masks(arrays)
    weights, names = _weights(arrays, index.shape[1]), _names(arrays)
    n = _num_nodes(arrays, masks, index)
    if (index >= n).any():
        row = int((index >= n).any(axis=0).argmax())
        raise InputError(f"edges[{row}] is {index[:, row].tolist()}, but there are {n} nodes")
    return RawGraph(index, n, weights, names, features, labels, masks)


def plain_arrays(
    file: BinaryIO, wanted: Iterable[str] | None = None, *, max_bytes: int | None = None
) -> dict[str, NDArray[Any]]:
    """The arrays in an archive, or those of them that are `wanted`, none ever unpickled.

    Together they may take `max_bytes`; the default is that of :func:`read_graph_file`. Sizes are
    those of the arrays' own headers, and no more than these say is ever unpacked.
    """
    if file.read(2) != b"PK" or not zipfile.is_zipfile(file):
        raise InputError("not a whole .npz file; it was cut short or is something else")
    try:
        with zipfile.ZipFile(file) as archive:
            members = {name.removesuffix(".npy"): name for name in archive.namelist()}
            keys = [key for key in (members if wanted is None else wanted) if key in members]
            check_size(
                sum(_size(archive, members[key]) for key in keys), checked_max_bytes(max_bytes)
            )
            return {key: _array(archive, members[key]) for key in keys}
    except InputError:
        raise
    except Exception as e:  # zipfile and NumPy raise nearly anything on bytes that make no sense
        raise InputError(f"an array in it is damaged ({brief(e)}); fetch it again") from e


def _array(archive: zipfile.ZipFile, name: str) -> NDArray[Any]:
    with archive.open(name) as member:
        array: NDArray[Any] = np.lib.format.read_array(member, allow_pickle=False)
        return array


def _size(archive: zipfile.ZipFile, name: str) -> int:
    """What an array takes according to its header, an integer counting 8 bytes."""
    formats = np.lib.format
    with archive.open(name) as member:
        header = BytesIO(member.read(HEADER_BYTES))
    read = {(1, 0): formats.read_array_header_1_0, (2, 0): formats.read_array_header_2_0}
    shape, _, dtype = read[formats.read_magic(header)](header)
    if dtype.hasobject:
        raise InputError(
            "an array in it is pickled, which is refused because it can run code; "
            "save it as numbers"
        )
    if any(isinstance(side, bool) or side < 0 for side in shape):
        raise InputError(f"an array in it is damaged (its shape is {shape}); fetch it again")
    return math.prod(shape) * max(dtype.itemsize, 8 if dtype.kind in "iu" else 4)


def _edge_index(arrays: dict[str, NDArray[Any]]) -> NDArray[np.int64]:
    edges = arrays["edges"]
    if edges.ndim != 2 or edges.shape[1] != 2:
        hint = "; transpose it" if edges.ndim == 2 and edges.shape[0] == 2 else ""
        raise InputError(f"edges has shape {edges.shape}, expected [E, 2]{hint}")
    if edges.dtype.kind not in "iu":
        raise InputError(f"edges holds {edges.dtype}; node ids must be integers")
    index = np.ascontiguousarray(edges.T, dtype=np.int64)  # [2, E]
    if (index < 0).any():  # also an unsigned id beyond 63 bits
        row = int((index < 0).any(axis=0).argmax())
        raise InputError(f"edges[{row}] is {edges[row].tolist()}; ids are counted from 0")
    return index


def _num_nodes(
    arrays: dict[str, NDArray[Any]],
    masks: dict[str, NDArray[np.bool_]] | None,
    index: NDArray[np.int64],
) -> int:
    """N, on which all arrays must agree; without any of them, the largest id plus one."""
    told = {f"{split}_masks": mask.shape[1] for split, mask in (masks or {}).items()}
    told |= {key: len(arrays[key]) for key in PER_NODE if key in arrays}
    if "num_nodes" in arrays:
        told["num_nodes"] = _scalar(arrays["num_nodes"])
    largest, num_edges = int(index.max(initial=-1)), index.shape[1]
    if len(set(told.values())) > 1:
        said = ", ".join(f"{key} {n}" for key, n in told.items())
        raise InputError(f"the arrays do not agree on the number of nodes: {said}")
    n = next(iter(told.values()), largest + 1)
    if n < 1:
        raise InputError("there are no nodes in it; give at least one edge, or num_nodes")
    if not told and largest > largest_id_allowed(num_edges):
        raise InputError(
            f"the largest id is {largest}, far beyond the {num_edges} edges given; "
            "renumber the nodes from 0, or add num_nodes to the file if this is meant"
        )
    return n


def _scalar(value: NDArray[Any]) -> int:
    if value.size != 1 or value.dtype.kind not in "iu" or value.item() < 1:
        raise InputError("num_nodes must be one positive integer")
    return int(value.item())


def _features(arrays: dict[str, NDArray[Any]]) -> NDArray[np.float32] | None:
    if "node_features" not in arrays:
        return None
    given = arrays["node_features"]
    if given.ndim != 2:
        raise InputError(f"node_features has shape {given.shape}, expected [N, F]")
    if given.dtype.kind not in "biuf":
        raise InputError(f"node_features holds {given.dtype}; features must be real numbers")
    with np.errstate(over="ignore"):
        features = given.astype(np.float32, copy=False)
    wrong = ~np.isfinite(features).all(axis=1)
    if wrong.any():
        node = int(wrong.argmax())
        raise InputError(f"node {node} has a feature that is not finite; fill it in first")
    return features


def _names(arrays: dict[str, NDArray[Any]]) -> NDArray[Any] | None:
    if "node_ids" not in arrays:
        return None
    names = arrays["node_ids"]
    if names.ndim != 1 or names.dtype.kind not in "iuU":
        raise InputError(f"node_ids is {names.dtype} of shape {names.shape}; give a name a node")
    return names


def _labels(arrays: dict[str, NDArray[Any]]) -> NDArray[np.int64] | None:
    if "node_labels" not in arrays:
        return None
    labels = arrays["node_labels"]
    if labels.ndim != 1:
        raise InputError(f"node_labels has shape {labels.shape}, expected [N]")
    if labels.dtype.kind not in "biu":
        raise InputError(f"node_labels holds {labels.dtype}; labels must be integers")
    if labels.max(initial=0) > np.iinfo(np.int64).max:
        raise InputError(f"node_labels holds {labels.max()}, beyond 64-bit signed integers")
    return labels.astype(np.int64)


def _masks(arrays: dict[str, NDArray[Any]]) -> dict[str, NDArray[np.bool_]] | None:
    held = {s: arrays[f"{s}_masks"] for s in SPLITS if f"{s}_masks" in arrays}
    if not held:
        return None
    if len(held) < len(SPLITS):
        missing = next(s for s in SPLITS if s not in held)
        raise InputError(f"{missing}_masks is missing; give train, val and test, or none of them")
    masks = {split: _mask(split, mask) for split, mask in held.items()}
    if len({len(m) for m in masks.values()}) > 1:
        counts = ", ".join(f"{s} {len(m)}" for s, m in masks.items())
        raise InputError(f"the masks do not agree on the number of splits: {counts}")
    return masks


def _mask(split: str, mask: NDArray[Any]) -> NDArray[np.bool_]:
    """``[S, N]`` from ``[S, N]`` or ``[N]``, of truth values or of 0 and 1."""
    if mask.ndim not in (1, 2) or len(mask) == 0:
        raise InputError(f"{split}_masks has shape {mask.shape}, expected [S, N] with S >= 1")
    if mask.dtype.kind not in "biu" or ((mask != 0) & (mask != 1)).any():
        raise InputError(f"{split}_masks holds more than true and false; give one flag a node")
    return np.atleast_2d(mask.astype(bool))  # [S, N]


def _weights(arrays: dict[str, NDArray[Any]], num_edges: int) -> NDArray[np.float64] | None:
    if "edge_weight" not in arrays:
        return None
    weight = arrays["edge_weight"]
    if weight.shape not in ((num_edges,), (num_edges, 1)):
        raise InputError(f"edge_weight has shape {weight.shape}, expected [{num_edges}]")
    if weight.dtype.kind not in "biuf":
        raise InputError(f"edge_weight holds {weight.dtype}; weights must be real numbers")
    return checked_weights(weight.reshape(-1).astype(np.float64))
