"""Raw data files: their folder, their download, and their checksums.

A file is verified by its SHA-256 where :mod:`pdgnn.datasets.checksums` has it; one that it does not
have is read with a warning that says so, and never unpickled.
"""

from __future__ import annotations

import hashlib
import os
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from http.client import HTTPException
from itertools import groupby
from os import PathLike
from pathlib import Path

from pdgnn.datasets.checksums import SHA256
from pdgnn.errors import InputError
from pdgnn.io.atomic import replacing

__all__ = ["RawFile", "data_root", "read_raw"]

TIMEOUT = 30.0  # seconds without an answer


@dataclass(frozen=True)
class RawFile:
    """A published file: its name, and the address of the folder that holds it."""

    name: str
    source: str

    @property
    def url(self) -> str:
        """The full address."""
        return f"{self.source}/{self.name}"

    @property
    def sha256(self) -> str | None:
        """The checksum of the published file, or None where it is not known."""
        return SHA256.get(self.name)


def data_root(root: str | PathLike[str] | None = None) -> Path:
    """`root`, or else the folder named by PDGNN_DATA, or else ``~/.cache/pdgnn``.

    >>> data_root("somewhere").as_posix()
    'somewhere'
    """
    chosen = root or os.environ.get("PDGNN_DATA") or Path("~/.cache/pdgnn")
    return Path(chosen).expanduser()


def read_raw(folder: Path, files: Sequence[RawFile]) -> dict[str, bytes]:
    """The contents of `files` in `folder` by name; missing ones are fetched into it.

    A file whose checksum is known must have it. Of the others a warning says that they were not
    verified.
    """
    _fetch_missing(folder, files)
    return {file.name: _verified(folder / file.name, file) for file in files}


def _fetch_missing(folder: Path, files: Sequence[RawFile]) -> None:
    missing = [file for file in files if not os.path.lexists(folder / file.name)]
    for i, file in enumerate(missing):
        try:
            content = _download(file.url)
            if not _is_published(content, file):
                raise OSError(f"what {file.url} sent is not the published file")
            _write_whole(folder / file.name, content)
        except (OSError, HTTPException) as e:
            raise InputError(
                f"{folder} lacks files that could not be fetched ({e}); put there by hand "
                f"{_shopping_list(missing[i:])}, or name a folder that has them by PDGNN_DATA"
            ) from e


def _shopping_list(files: Iterable[RawFile]) -> str:
    """Every file with its address, those of one address together."""
    groups = [list(group) for _, group in groupby(files, key=lambda file: file.source)]
    return " and ".join(
        group[0].url
        if len(group) == 1
        else f"{', '.join(file.name for file in group)} (each from {group[0].source}/...)"
        for group in groups
    )


def _download(url: str) -> bytes:
    from urllib.request import urlopen

    with urlopen(url, timeout=TIMEOUT) as response:
        content: bytes = response.read()
    return content


def _write_whole(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as partial:
        partial.write_bytes(content)


def _verified(path: Path, file: RawFile) -> bytes:
    try:
        content = path.read_bytes()
    except OSError as e:
        raise InputError(f"{path} cannot be read ({e.strerror}); check its permissions") from e
    if not _is_published(content, file):
        raise InputError(
            f"{path} is not the published file (its sha256 is not {file.sha256}); "
            f"delete it and load again, or fetch it from {file.url}"
        )
    if file.sha256 is None:
        warnings.warn(
            f"{path} is read as it is: no checksum of {file.name} is known to verify it by",
            stacklevel=2,
        )
    return content


def _is_published(content: bytes, file: RawFile) -> bool:
    return file.sha256 is None or hashlib.sha256(content).hexdigest() == file.sha256
