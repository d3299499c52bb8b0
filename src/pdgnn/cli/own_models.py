"""``--models``: rows of a table by their names, and a user's models as ``FILE.py:NAME``."""

from __future__ import annotations

import runpy
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

from pdgnn.errors import InputError

if TYPE_CHECKING:
    from pdgnn.models import Model

__all__ = ["load_model", "split_models"]


def split_models(text: str, labels: Collection[str]) -> tuple[list[str], dict[str, Model]]:
    """Names of rows, and models of files, out of ``"GCN,GAT + R, tuned,mine.py:net"``.

    A label may have a comma of its own: the longest one that fits counts.
    """
    parts = [part.strip() for part in text.split(",")]
    rows, models = list[str](), dict[str, "Model"]()
    while parts:
        for size in range(len(parts), 0, -1):
            name = ", ".join(parts[:size])
            if name in labels or size == 1:
                break
        parts = parts[size:]
        if not name:
            continue
        if name not in labels and ".py:" in name:
            own, model = load_model(name)
            models[own] = model
        else:
            rows.append(name)
    if not rows and not models:
        raise InputError("--models is empty; give one or several, with commas between them")
    return rows, models


def load_model(place: str) -> tuple[str, Model]:
    """The model that a Python file calls NAME, of ``FILE.py:NAME``. The file is run."""
    from pdgnn.models import Model

    file, _, name = place.rpartition(":")
    path = Path(file)
    if not path.is_file():
        raise InputError(f"there is no file {file}; give a model of yours as FILE.py:NAME")
    try:
        found = runpy.run_path(str(path))
    except Exception as e:
        raise InputError(f"{file} cannot be run: {type(e).__name__}: {e}") from e
    if name not in found:
        raise InputError(f"{file} has no {name!r}; give the name of a Model in it")
    if not isinstance(found[name], Model):
        kind = type(found[name]).__name__
        raise InputError(f"{name} of {file} is no pdgnn.training.Model but of type {kind}")
    return name, found[name]
