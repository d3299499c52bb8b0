"""What made a result: the machine, the versions, the command, the device and the date."""

from __future__ import annotations

import os
import platform
import shlex
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

__all__ = ["PACKAGES", "Row", "call", "machine", "this_command", "version_of"]

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
    versions = {name: version_of(name) for name in packages}
    return {"machine": processor, "python": platform.python_version(), "versions": versions}


def _processor_name() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return named[0] if named else platform.machine()


def version_of(name: str) -> str:
    """The version of a package that is installed; of this one, also where it runs from source."""
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


def this_command() -> str:
    """The command line of this process, the program by its name alone."""
    program, *rest = sys.argv or [""]
    return shlex.join([Path(program).name or "python", *rest])
