"""The files of states and of what is kept of best steps: safetensors with the runs as metadata.

What earlier versions have written is read too.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from pdgnn.io.atomic import replacing
from pdgnn.io.tensors import save_tensors
from pdgnn.training.spec import VERSION, RunSpec
from pdgnn.training.state import Row, RunState
from pdgnn.training.stored_runs import reading

__all__ = ["best_tensors", "read_best", "state_rows", "state_runs", "write_tensors"]

WEIGHTS = "weights."


def state_runs(file: Path) -> list[tuple[RunSpec, str]]:
    """The runs of a state file, each with the fingerprint of its data; empty: not known."""
    with _opened(file) as stored:
        specs = _stored_specs(stored)[1]
        data = json.loads((stored.metadata() or {}).get("data", "[]")) or [""] * len(specs)
        return [(spec, str(d)) for spec, d in zip(specs, data, strict=True)]


def read_best(file: Path) -> dict[str, Any]:
    """The logits and the weights in a file of :func:`best_tensors`."""
    with _opened(file, "delete it to train this run anew") as stored:
        tensors = {name: stored.get_tensor(name) for name in stored.keys()}  # noqa: SIM118
    found: dict[str, Any] = {}
    if "logits" in tensors:
        found["logits"] = tensors.pop("logits")
    if tensors:
        found["weights"] = {name.removeprefix(WEIGHTS): t for name, t in tensors.items()}
    return found


def best_tensors(found: dict[str, Any]) -> dict[str, Tensor]:
    """The tensors of a file that keeps logits, weights or both."""
    tensors = {f"{WEIGHTS}{name}": t for name, t in found.get("weights", {}).items()}
    return tensors | ({"logits": found["logits"]} if "logits" in found else {})


def write_tensors(path: Path, tensors: Mapping[str, Tensor], about: dict[str, str]) -> None:
    """Write a file of tensors whole, or not at all."""
    with replacing(path) as partial:
        save_tensors(partial, tensors, about)


def _stored_specs(stored: Any) -> tuple[int, list[RunSpec]]:
    """The version of an open state file, and its runs."""
    about = stored.metadata() or {}
    version = int(about.get("version", 0))
    if not 1 <= version <= VERSION:
        raise ValueError(f"version {about.get('version')}, not {VERSION}")
    return version, [RunSpec.from_json(text, version) for text in json.loads(about["specs"])]


def state_rows(file: Path) -> list[Row]:
    """The tensors of each run of a state file: those of a :class:`RunState`."""
    with _opened(file) as stored:
        version, specs = _stored_specs(stored)
        tensors = {name: stored.get_tensor(name) for name in stored.keys()}  # noqa: SIM118
        if any(t.ndim == 0 or len(t) != len(specs) for t in tensors.values()):
            raise ValueError(f"tensors of other than {len(specs)} runs")
        rows = [{name: t[i] for name, t in tensors.items()} for i in range(len(specs))]
        if version == 1:
            rows = [_upgraded(row, spec) for row, spec in zip(rows, specs, strict=True)]
        if not {name for name in NAMES if "." not in name} <= rows[0].keys():
            raise ValueError("other tensors than those of runs")
        for row, spec in zip(rows, specs, strict=True):
            _check_row(row, spec)
        return rows


NAMES = tuple(RunState.new(torch.zeros(1, 1)).tensors())
"""Of the tensors of a state, but for buffers."""


def _upgraded(row: Row, spec: RunSpec) -> Row:
    """A row of version 1, which knew the package's own models alone, with all that it has now."""
    none = row["parameters"].new_zeros(0)
    rate = torch.tensor(spec.dropout).to(row["parameters"].dtype)
    own = {"rate": rate, "seed": torch.tensor(spec.seed), "step": row["step"]}
    buffers = {f"buffers.{name}": t for name, t in own.items()}
    return {**row, "best_logits": none, "best_parameters": none, **buffers}


def _check_row(row: Row, spec: RunSpec) -> None:
    """An error unless the numbers are such as a run may have come to."""
    step, best, broken = (int(row[name]) for name in ("step", "best_step", "diverged_at"))
    if not (0 <= best <= step <= spec.steps and 0 <= broken <= step):
        raise ValueError(f"step {step}, best step {best}, diverged at {broken}")
    scores = torch.cat([row["best"].double(), row["score"].double()])
    if not (((scores >= 0) & (scores <= 1)) | scores.isnan()).all():
        raise ValueError("a score outside [0, 1]")
    if not float(row["seconds"]) >= 0:
        raise ValueError(f"{float(row['seconds'])} seconds")


@contextmanager
def _opened(file: Path, remedy: str = "delete it to start its runs anew") -> Iterator[Any]:
    from safetensors import SafetensorError, safe_open

    with reading(file, remedy):
        try:
            opened: AbstractContextManager[Any] = safe_open(str(file), framework="pt")
            with opened as stored:
                yield stored
        except (SafetensorError, RuntimeError) as e:  # the second: torch could not open it
            raise ValueError(e) from e
