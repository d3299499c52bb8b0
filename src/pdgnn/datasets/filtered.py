"""The Wikipedia graphs without their duplicated nodes, as a PyG dataset."""

from __future__ import annotations

from collections.abc import Callable
from os import PathLike
from typing import Any

from torch_geometric.data import InMemoryDataset

from pdgnn.datasets.raw import data_root, read_raw
from pdgnn.datasets.registry import REGISTRY
from pdgnn.errors import InputError

__all__ = ["FilteredWikipedia"]

NAMES = ("chameleon-filtered", "squirrel-filtered")


class FilteredWikipedia(InMemoryDataset):  # type: ignore[misc]
    """chameleon-filtered or squirrel-filtered, from ``root/NAME/raw/NAME.npz``.

    The raw file is fetched where it is missing, verified, and read on every construction: there is
    no processed file, and `root` may be read-only. Names are as PyG spells those of its
    `HeterophilousGraphDataset`, in any case, with ``-`` or ``_``.
    """

    def __init__(
        self,
        root: str | PathLike[str],
        name: str,
        transform: Callable[[Any], Any] | None = None,
    ) -> None:
        key = name.lower().replace("_", "-")
        if key not in NAMES:
            raise InputError(f"there is no filtered graph {name!r}; choose {' or '.join(NAMES)}")
        self.info = REGISTRY[key]
        # PyG takes ".." out of `root`, which leads elsewhere where a link comes before it
        self._folder = data_root(root) / self.info.folder
        super().__init__(str(data_root(root)), transform)
        contents = read_raw(self._folder, self.info.files)
        self.data = self.info.loader(self.info, contents)

    @property
    def raw_dir(self) -> str:
        """The folder of the raw file."""
        return str(self._folder)

    @property
    def raw_file_names(self) -> list[str]:
        """The name of the raw file."""
        return [file.name for file in self.info.files]

    def __repr__(self) -> str:
        return f"{type(self).__name__}(name={self.info.name})"
