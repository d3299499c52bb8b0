"""Every dataset by name, with what the paper says of it. This is the one place to add one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

from pdgnn.datasets.board import NAME, NUM_FEATURES, minesweeper, parse_size
from pdgnn.datasets.raw import RawFile
from pdgnn.datasets.real import read_benchmark, read_planetoid
from pdgnn.datasets.synthetic import NAME as SYNTHETIC
from pdgnn.datasets.synthetic import synthetic

if TYPE_CHECKING:
    from torch_geometric.data import Data

__all__ = ["REGISTRY", "DatasetInfo"]

PLANETOID = "https://github.com/kimiyoung/planetoid/raw/master/data"
GEOM_GCN = "https://raw.githubusercontent.com/graphdml-uiuc-jlu/geom-gcn/master/splits"
HETEROPHILOUS = "https://github.com/yandex-research/heterophilous-graphs/raw/main/data"


@dataclass(frozen=True)
class DatasetInfo:
    """A dataset: its published statistics, and how it is loaded.

    A real graph has `files` under the folder `folder` of the data root, and
    ``loader(info, contents)`` reads them. A generated one has none, and ``loader(**options)`` makes
    it; `options` maps each option's name to the function that reads it from text, and the
    statistics are those of the defaults.
    """

    name: str
    nodes: int
    edges: int
    features: int
    classes: int
    metric: Literal["accuracy", "roc_auc"]
    loader: Callable[..., Data]
    folder: str = ""
    files: tuple[RawFile, ...] = ()
    options: Mapping[str, Callable[[str], Any]] = field(default_factory=dict)


def _citation(
    name: str, nodes: int, edges: int, features: int, classes: int, *, pyg_name: str
) -> DatasetInfo:
    kinds = ("x", "tx", "allx", "y", "ty", "ally", "graph", "test.index")
    files = [RawFile(f"ind.{name}.{kind}", PLANETOID) for kind in kinds]
    files += [RawFile(f"{name}_split_0.6_0.2_{i}.npz", GEOM_GCN) for i in range(10)]
    return DatasetInfo(
        *(name, nodes, edges, features, classes, "accuracy", read_planetoid),
        folder=f"{pyg_name}/geom-gcn/raw",
        files=tuple(files),
    )


def _benchmark(name: str, nodes: int, edges: int, features: int, classes: int) -> DatasetInfo:
    stem = name.replace("-", "_")
    return DatasetInfo(
        *(name, nodes, edges, features, classes),
        metric="roc_auc" if classes == 2 else "accuracy",
        loader=read_benchmark,
        folder=f"{stem}/raw",
        files=(RawFile(f"{stem}.npz", HETEROPHILOUS),),
    )


# Statistics: nodes, undirected edges, features, classes.
_ALL = (
    _citation("cora", 2708, 5278, 1433, 7, pyg_name="Cora"),
    _citation("citeseer", 3327, 4552, 3703, 6, pyg_name="CiteSeer"),
    _citation("pubmed", 19717, 44324, 500, 3, pyg_name="PubMed"),
    _benchmark("roman-empire", 22662, 32927, 300, 18),
    _benchmark("amazon-ratings", 24492, 93050, 300, 5),
    _benchmark("minesweeper", 10000, 39402, 7, 2),
    _benchmark("tolokers", 11758, 519000, 10, 2),
    _benchmark("questions", 48921, 153540, 301, 2),
    _benchmark("squirrel-filtered", 2223, 46998, 2089, 5),
    _benchmark("chameleon-filtered", 890, 8854, 2325, 5),
    DatasetInfo(
        *(NAME, 10000, 39402, NUM_FEATURES, 2, "roc_auc", minesweeper),
        options={"size": parse_size, "mine_share": float, "hidden_share": float, "seed": int},
    ),
    DatasetInfo(
        *(SYNTHETIC, 5000, 29_970, 2, 10, "accuracy", synthetic),
        options={
            "num_nodes": int,
            "num_classes": int,
            "homophily": float,
            "edges_per_node": int,
            "feature_std": float,
            "seed": int,
        },
    ),
)

REGISTRY: Mapping[str, DatasetInfo] = MappingProxyType({info.name: info for info in _ALL})
