"""What the benchmarks share: the machine's name, rows of measurements, the README's tables."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from pdgnn.atomic import replacing

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "results"

Row = dict[str, Any]


def machine(packages: Sequence[str]) -> Row:
    """The processors, and the versions of Python and of these packages."""
    import torch

    processor = f"{os.cpu_count()} cores, {processor_name()}"
    if torch.cuda.is_available():
        processor += f", {torch.cuda.get_device_name()}"
    versions = {name: package_version(name) for name in packages}
    return {"machine": processor, "python": platform.python_version(), "versions": versions}


def processor_name() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return named[0] if named else platform.machine()


def package_version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        if name == "pdgnn":
            from pdgnn import __version__

            return f"{__version__}, from source"
        return "not installed"


def read_rows(path: Path) -> list[Row]:
    return json.loads(path.read_text()) if path.exists() else []


def write_rows(path: Path, rows: list[Row]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as partial:
        partial.write_text(json.dumps(rows, indent=1, ensure_ascii=False) + "\n")


def in_child(script: str, arguments: Sequence[str], limit: float) -> Row:
    """What `script` prints as JSON, run by a process of its own, stopped after `limit` seconds."""
    command = [sys.executable, "-W", "ignore", script, *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit, check=False)
    except subprocess.TimeoutExpired:
        return {"seconds": None, "limit": limit, "note": f"stopped after {limit:g} s"}
    if done.returncode:
        last = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        return {"seconds": None, "note": last[:160]}
    answer: Row = json.loads(done.stdout.splitlines()[-1])
    return answer


def markdown(heads: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """A table."""
    whole = [heads, ["---"] * len(heads), *lines]
    return "\n".join(f"| {' | '.join(line)} |" for line in whole)


def copy_to_readme(script: str, text: str, readme: Path = ROOT / "README.md") -> None:
    """Put `text` between the two marks that the README has for `script`."""
    begin, end = f"<!-- benchmarks/{script} --table -->", "<!-- end -->"
    head, found, rest = readme.read_text(encoding="utf-8").partition(begin)
    _, closed, tail = rest.partition(end)
    if not found or not closed:
        raise SystemExit(f"{readme} has no place for the table; give it {begin} and {end}")
    readme.write_text(f"{head}{begin}\n{text}\n{end}{tail}", encoding="utf-8")
