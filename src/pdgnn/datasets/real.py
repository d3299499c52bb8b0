"""Readers of the published graphs: from the contents of their raw files to a PyG `Data`.

They work in memory, so the folder of raw files may be read-only, and no processed file is kept or
trusted. `read_benchmark` gives what PyG's `HeterophilousGraphDataset` gives, `read_planetoid` what
``Planetoid(split="geom-gcn")`` gives, each made undirected and simple.
"""

from __future__ import annotations

import warnings
import zipfile
import zlib
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from pdgnn.errors import InputError
from pdgnn.graph import Graph

if TYPE_CHECKING:
    from torch_geometric.data import Data

    from pdgnn.datasets.registry import DatasetInfo

__all__ = ["read_benchmark", "read_planetoid"]

PARTS = ("train", "val", "test")


def read_benchmark(info: DatasetInfo, contents: dict[str, bytes]) -> Data:
    """Read the one ``.npz`` of a heterophilous benchmark graph; pickled arrays are refused.

    Its keys are ``node_features [N, F]``, ``node_labels [N]``, ``edges [E, 2]`` and
    ``train_masks``, ``val_masks``, ``test_masks``, each ``[splits, N]``.
    """
    [(name, content)] = contents.items()
    keys = ("node_features", "node_labels", "edges", *(f"{part}_masks" for part in PARTS))
    arrays = _arrays(name, content, keys)
    features, labels, edges, *masks = (arrays[key] for key in keys)
    n = _checked_features(name, features)
    _checked_labels(name, labels, n, info.classes)
    _checked_edges(name, edges, n)
    _checked_masks(name, masks, n)
    return _as_data(info, features, labels, edges.T, [mask.T for mask in masks])


def read_planetoid(info: DatasetInfo, contents: dict[str, bytes]) -> Data:
    """Read a citation graph and Geom-GCN's ten splits of it.

    The splits called "0.6_0.2" are 48/32/20 in truth, of the nodes they cover: 2,485 of Cora's
    2,708, and in splits 4 and 5 only 2,120 of CiteSeer's 3,327. They are used as they are. The
    official ``ind.*`` files are pickles: pass contents whose checksums have been verified.
    """
    from torch_geometric.io import read_planetoid_data

    graph_files = {name: body for name, body in contents.items() if name.startswith("ind.")}
    with TemporaryDirectory() as scratch, warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # the pickles name old SciPy modules
        for name, content in graph_files.items():
            (Path(scratch) / name).write_bytes(content)
        data = read_planetoid_data(scratch, info.name)
    keys = tuple(f"{part}_mask" for part in PARTS)
    splits = [_arrays(k, body, keys) for k, body in contents.items() if k not in graph_files]
    masks = [np.stack([split[key] for split in splits], axis=1) for key in keys]  # [N, 10]
    return _as_data(info, data.x.numpy(), data.y.numpy(), data.edge_index.numpy(), masks)


def _as_data(
    info: DatasetInfo,
    features: NDArray[Any],
    labels: NDArray[Any],
    edge_index: NDArray[Any],
    masks: list[NDArray[Any]],
) -> Data:
    from torch_geometric.data import Data

    train, val, test = (torch.from_numpy(np.ascontiguousarray(m, dtype=bool)) for m in masks)
    return Data(
        x=torch.from_numpy(np.ascontiguousarray(features, dtype=np.float32)),
        edge_index=Graph.from_edge_index(edge_index, len(features)).edge_index,
        y=torch.from_numpy(np.ascontiguousarray(labels, dtype=np.int64)),
        train_mask=train,
        val_mask=val,
        test_mask=test,
        name=info.name,
        metric=info.metric,
    )


def _arrays(name: str, content: bytes, keys: tuple[str, ...]) -> dict[str, NDArray[Any]]:
    """The arrays under `keys` of an ``.npz`` file, which is never unpickled."""
    try:
        archive = np.load(BytesIO(content), allow_pickle=False)
        if not isinstance(archive, np.lib.npyio.NpzFile):
            raise ValueError("it holds a single array")
        with archive:
            missing = [key for key in keys if key not in archive]
            if missing:
                raise InputError(f"{name} lacks {', '.join(missing)}; fetch the file again")
            return {key: archive[key] for key in keys}
    except InputError:
        raise
    except (
        ValueError,  # pickled arrays too
        OSError,
        EOFError,
        MemoryError,
        RuntimeError,
        zipfile.BadZipFile,
        zlib.error,
    ) as e:
        raise InputError(f"{name} is no .npz file of plain arrays ({e}); fetch it again") from e


def _checked_features(name: str, features: NDArray[Any]) -> int:
    """The number of nodes."""
    if features.ndim != 2 or features.dtype.kind not in "biuf" or not len(features):
        raise InputError(
            f"{name}: node_features is {features.dtype} of shape {features.shape}; "
            "it must hold numbers, [N, F]"
        )
    if not np.isfinite(features).all():
        raise InputError(f"{name}: node_features has NaN or infinite entries; fill them first")
    return len(features)


def _checked_labels(name: str, labels: NDArray[Any], n: int, classes: int) -> None:
    if labels.shape != (n,) or labels.dtype.kind not in "iu":
        raise InputError(
            f"{name}: node_labels is {labels.dtype} of shape {labels.shape}; "
            f"it must hold an integer for each of {n} nodes"
        )
    if labels.min() < 0 or labels.max() >= classes:
        raise InputError(
            f"{name}: node_labels runs from {labels.min()} to {labels.max()}; "
            f"the graph has the classes 0 to {classes - 1}"
        )


def _checked_edges(name: str, edges: NDArray[Any], n: int) -> None:
    if edges.ndim != 2 or edges.shape[1] != 2 or edges.dtype.kind not in "iu":
        raise InputError(
            f"{name}: edges is {edges.dtype} of shape {edges.shape}; it must hold integers, [E, 2]"
        )
    if edges.min(initial=0) < 0 or edges.max(initial=0) >= n:
        raise InputError(f"{name}: edges names nodes outside 0 to {n - 1}; fetch the file again")


def _checked_masks(name: str, masks: list[NDArray[Any]], n: int) -> None:
    for part, mask in zip(PARTS, masks, strict=True):
        if mask.dtype != bool or mask.ndim != 2 or mask.shape != (len(masks[0]), n):
            raise InputError(
                f"{name}: {part}_masks is {mask.dtype} of shape {mask.shape}; "
                f"all masks must be bool, [splits, {n}]"
            )
    if (np.sum(masks, axis=0) > 1).any():
        raise InputError(f"{name}: a split has a node in two of train, val and test; mend it")
