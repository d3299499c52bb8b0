"""The graphs of the paper, and boards like its minesweeper, as PyG `Data`.

>>> data = load("minesweeper-generated:size=20,seed=3")
>>> data.x.shape, data.train_mask.shape, data.metric
(torch.Size([400, 7]), torch.Size([400, 10]), 'roc_auc')
"""

from __future__ import annotations

from os import PathLike
from typing import TYPE_CHECKING, Any

from pdgnn.datasets.board import minesweeper
from pdgnn.datasets.raw import data_root, read_raw
from pdgnn.datasets.registry import REGISTRY, DatasetInfo
from pdgnn.datasets.synthetic import synthetic
from pdgnn.errors import InputError

if TYPE_CHECKING:
    from torch_geometric.data import Data

    from pdgnn.datasets.filtered import FilteredWikipedia

__all__ = [
    "REGISTRY",
    "DatasetInfo",
    "FilteredWikipedia",
    "data_root",
    "load",
    "minesweeper",
    "synthetic",
]


def load(name: str, root: str | PathLike[str] | None = None) -> Data:
    """The dataset called `name`, a key of :data:`REGISTRY`.

    A real graph is read from `root`, or else from the folder named by PDGNN_DATA, or else from
    ``~/.cache/pdgnn``; its raw files lie there as PyG lays them out, and are fetched from their
    official addresses where they are missing. The folder may be read-only. A generated graph takes
    options after a colon: ``"minesweeper-generated:size=40x60,mine_share=0.1,seed=3"``.

    The result has ``x`` float32 ``[N, F]``, ``edge_index`` (every edge both ways, no self-loops),
    ``y`` int64 ``[N]``, ``train_mask``, ``val_mask`` and ``test_mask`` bool ``[N, 10]``, ``name``,
    and ``metric``, which is ``"accuracy"`` or ``"roc_auc"``.
    """
    if not isinstance(name, str):
        raise InputError(f"a dataset is named by a string, not {name!r}")
    base, _, said = name.partition(":")
    info = REGISTRY.get(base.strip().lower().replace("_", "-"))
    if info is None:
        raise InputError(f"there is no dataset {base!r}; choose one of {', '.join(REGISTRY)}")
    options = _parsed_options(info, said)
    if not info.files:
        return info.loader(**options)
    return info.loader(info, read_raw(data_root(root) / info.folder, info.files))


def _parsed_options(info: DatasetInfo, said: str) -> dict[str, Any]:
    """``"size=50,seed=3"`` as a dict, each value read by the function that the dataset names."""
    options: dict[str, Any] = {}
    for item in filter(None, said.split(",")):
        key, _, text = (part.strip() for part in item.partition("="))
        if key not in info.options:
            known = f"it takes {', '.join(info.options)}" if info.options else "it takes none"
            raise InputError(f"{info.name} has no option {key!r}; {known}")
        if key in options:
            raise InputError(f"{info.name} is given {key} twice; say it once")
        try:
            options[key] = info.options[key](text)
        except ValueError as e:
            raise InputError(f"{info.name} cannot read {key}={text!r}; give a number") from e
    return options


def __getattr__(name: str) -> Any:
    # PyG takes seconds to import, and only this class needs it at once.
    if name == "FilteredWikipedia":
        from pdgnn.datasets.filtered import FilteredWikipedia

        return FilteredWikipedia
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
