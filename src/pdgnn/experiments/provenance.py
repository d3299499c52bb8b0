"""What made a result: the machine, the versions, the command, the date and the seconds."""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from pdgnn.errors import InputError
from pdgnn.io.atomic import replacing

__all__ = ["PACKAGES", "Row", "call", "machine", "read_rows", "recorded", "write_rows"]

Row = dict[str, Any]
PACKAGES = ("pdgnn", "torch", "torch-geometric", "triton", "numba", "numpy", "scipy")
"""Those that training depends on."""


def machine(packages: Sequence[str] = PACKAGES) -> Row:
    """The processors, and the versions of Python and of these packages.

    >>> sorted(machine(["numpy"]))
    ['machine', 'python', 'versions']
    """
    import torch

    processor = f"{os.cpu_count()} cores, {_processor_name()}"
    if torch.cuda.is_available():
        processor += f", {torch.cuda.get_device_name()}"
    versions = {name: _version(name) for name in packages}
    return {"machine": processor, "python": platform.python_version(), "versions": versions}


def _processor_name() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return named[0] if named else platform.machine()


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        if name == "pdgnn":
            from pdgnn import __version__

            return f"{__version__}, from source"
        return "not installed"


def call(command: str, device: str) -> Row:
    """What is called, when, and where it computes.

    >>> sorted(call("pdgnn train cora", "cpu"))
    ['command', 'date', 'device']
    """
    date = datetime.now(UTC).isoformat(timespec="seconds")
    return {"command": command, "date": date, "device": device}


def read_rows(path: Path) -> list[Row]:
    """What write_rows has written, or nothing where there is no file."""
    if not path.exists():
        return []
    try:
        rows = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as e:
        raise InputError(f"{path}: cannot be read ({e}); move it away to begin a new one") from e
    if not isinstance(rows, list):
        raise InputError(f"{path}: this is no list of rows; move it away to begin a new one")
    return rows


def write_rows(path: Path, rows: Sequence[Row]) -> None:
    """Write the rows as JSON, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as partial:
        partial.write_text(json.dumps(rows, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


@contextmanager
def recorded(path: Path, command: str, device: str, count: Callable[[], int]) -> Iterator[None]:
    """Add a row to the file `path`: what was called here and made so many more by `count`.

    Also if the work is stopped; not if it made none.
    """
    rows, begun, before = read_rows(path), time.perf_counter(), count()
    called = call(command, device)
    try:
        yield
    finally:
        made = count() - before
        if made > 0:
            seconds = round(time.perf_counter() - begun, 1)
            write_rows(path, [*rows, machine() | called | {"runs": made, "seconds": seconds}])
