"""A cache of arrays on disk that several processes may use at once.

The folder is ``PDGNN_CACHE`` where that is set (``off`` turns the cache off), and
``~/.cache/pdgnn`` otherwise. A file is written under a temporary name and renamed, so that a reader
sees a whole file or none, also when two processes write at once. It holds plain arrays, no pickle.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pdgnn.errors import InputError
from pdgnn.io.atomic import replacing
from pdgnn.io.npz import plain_arrays

__all__ = ["cache_folder", "read_arrays", "write_arrays"]


def cache_folder() -> Path | None:
    """The folder to use, or None where the cache is turned off."""
    named = os.environ.get("PDGNN_CACHE", "")
    if named.lower() == "off":
        return None
    return Path(named) if named else Path.home() / ".cache" / "pdgnn"


def read_arrays(key: str) -> dict[str, NDArray[Any]] | None:
    """The arrays stored under `key`, or None; a file that is damaged counts as not there."""
    folder = cache_folder()
    if folder is None:
        return None
    try:
        with (folder / f"{key}.npz").open("rb") as file:
            return plain_arrays(file)
    except (OSError, InputError):
        return None


def write_arrays(key: str, arrays: dict[str, NDArray[Any]]) -> None:
    """Store `arrays` under `key`; do nothing where the folder cannot be written."""
    folder = cache_folder()
    if folder is None:
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with replacing(folder / f"{key}.npz") as partial, partial.open("xb") as file:
            np.savez(file, allow_pickle=False, **arrays)
    except (OSError, InputError):
        return
