"""Readers of the published graphs: from the contents of their raw files to a PyG `Data`.

They work in memory, so the folder of raw files may be read-only, and no processed file is kept or
trusted. `read_benchmark` gives what PyG's `HeterophilousGraphDataset` gives, `read_planetoid` what
``Planetoid(split="geom-gcn")`` gives, each made undirected and simple.
"""

from __future__ import annotations

import warnings
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from pdgnn.errors import InputError
from pdgnn.graph import Graph
from pdgnn.io.npz import SPLITS, parse_npz, plain_arrays
from pdgnn.io.raw import naming

if TYPE_CHECKING:
    from torch_geometric.data import Data

    from pdgnn.datasets.registry import DatasetInfo

__all__ = ["read_benchmark", "read_planetoid"]


def read_benchmark(info: DatasetInfo, contents: dict[str, bytes]) -> Data:
    """Read the one ``.npz`` of a heterophilous benchmark graph; pickled arrays are refused.

    Its keys are ``node_features [N, F]``, ``node_labels [N]``, ``edges [E, 2]`` and
    ``train_masks``, ``val_masks``, ``test_masks``, each ``[splits, N]``.
    """
    [(name, content)] = contents.items()
    with naming(name):
        raw = parse_npz(BytesIO(content))
        if raw.features is None or raw.labels is None or raw.masks is None:
            raise InputError("it lacks node_features, node_labels or masks; fetch it again")
        low, high = raw.labels.min(), raw.labels.max()
        if low < 0 or high >= info.classes:
            raise InputError(
                f"node_labels runs from {low} to {high}; "
                f"the graph has the classes 0 to {info.classes - 1}"
            )
        masks = [raw.masks[part] for part in SPLITS]  # [S, N]
        if (np.sum(masks, axis=0) > 1).any():
            raise InputError("a split has a node in two of train, val and test; mend it")
    return _as_data(info, raw.features, raw.labels, raw.edge_index, [mask.T for mask in masks])


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
    keys = tuple(f"{part}_mask" for part in SPLITS)
    splits = [
        plain_arrays(BytesIO(body), keys) for k, body in contents.items() if k not in graph_files
    ]
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
