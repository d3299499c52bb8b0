"""A finished run as a row of a table, and back."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from pdgnn.errors import DAMAGE, InputError, check_whole
from pdgnn.training.spec import SETTINGS, VERSION, RunResult, RunSpec

__all__ = ["NUMBERS", "StoredRun", "now", "result_from_row", "row_of"]

NUMBERS = ("val", "test", "step", "steps_run", "seconds", "diverged_at")
_USUAL = RunSpec(dataset="-", model="-")


@dataclass(frozen=True)
class StoredRun:
    """A finished run, and where it comes from."""

    result: RunResult
    data: str  # Task.fingerprint of what it was trained on; empty: not known
    provenance: int | None  # the id of the facts about the training
    finished: str  # ISO time; empty: not known


def now() -> str:
    """The time, in UTC."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def spec_to_json(spec: RunSpec) -> str:
    """A spec without what is at its default, but for the model's own options."""
    said = {n: getattr(spec, n) for n in SETTINGS}
    said = {n: v for n, v in said.items() if n in ("dataset", "model") or v != getattr(_USUAL, n)}
    own = {"options": dict(spec.options), "defaults": list(spec.defaults)}
    return json.dumps({"version": VERSION, **said, **{n: v for n, v in own.items() if v}})


def row_of(result: RunResult, data: str, provenance: int | None, finished: str) -> dict[str, Any]:
    """The values of the columns."""
    spec = result.spec
    scores = {n: None if math.isnan(v := getattr(result, n)) else v for n in NUMBERS[:2]}
    return {
        "data": data,
        "key": spec.key,
        **{n: getattr(spec, n) for n in SETTINGS},
        "options": json.dumps(dict(spec.options)),
        "spec": spec_to_json(spec),
        **scores,
        **{n: getattr(result, n) for n in NUMBERS[2:]},
        "memory": result.memory,
        "provenance": provenance,
        "finished": finished,
    }


def result_from_row(row: Mapping[str, Any], place: str) -> RunResult:
    """The result that a row is of; an error names the `place` that it stands in."""
    try:
        said = json.loads(row["spec"])
        version, numbers = said.pop("version", VERSION), {n: row[n] for n in NUMBERS}
        result = RunResult.from_dict({"version": version, "spec": said, **numbers})
        memory = row["memory"]
        return replace(result, memory=None if memory is None else check_whole("memory", memory, 0))
    except DAMAGE as e:
        raise InputError(
            f"{place} is damaged or of another version ({str(e).partition(chr(10))[0][:160]}); "
            "move it away"
        ) from e
