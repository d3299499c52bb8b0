"""``--models``: rows of a table by their names, and a user's models as ``FILE.py:NAME``."""

from __future__ import annotations

import sys
from collections.abc import Collection
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
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
    rows, models, files = list[str](), dict[str, "Model"](), dict[str, Path]()
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
            if own in models:
                raise InputError(f"--models has two models called {own}; rename one of them")
            file = Path(name.rpartition(":")[0])
            if files.setdefault(file.stem, file.resolve()) != file.resolve():
                raise InputError(
                    f"{file} has the name of another module, {file.stem}; rename the file"
                )
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
    found = getattr(_imported(path), name, None)
    if found is None:
        raise InputError(f"{file} has no {name!r}; give the name of a Model in it")
    if not isinstance(found, Model):
        kind = type(found).__name__
        raise InputError(f"{name} of {file} is no pdgnn.training.Model but of type {kind}")
    return name, found


def _imported(path: Path) -> ModuleType:
    """The file as a module of its name, which worker processes can import too.

    A file that was run before and has not changed since is not run again.
    """
    name, folder = path.stem, str(path.resolve().parent)
    mark = path.resolve(), path.stat().st_mtime_ns
    known = sys.modules.get(name)
    ours = getattr(known, "__pdgnn_models__", None)
    if known is not None and ours == mark:
        return known
    if (known is not None and ours is None) or (known is None and _exists(name, path)):
        raise InputError(f"{path} has the name of another module, {name}; rename the file")
    spec = spec_from_file_location(name, path)
    if not name.isidentifier() or spec is None or spec.loader is None:
        raise InputError(f"{path} cannot be imported; call it like a variable, such as mine.py")
    module = module_from_spec(spec)
    module.__dict__["__pdgnn_models__"] = mark
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as e:
        del sys.modules[name]
        raise InputError(f"{path} cannot be run: {type(e).__name__}: {e}") from e
    if folder not in sys.path:
        sys.path.append(folder)
    return module


def _exists(name: str, path: Path) -> bool:
    """Whether another file would be imported by this name."""
    try:
        found = find_spec(name)
    except (ImportError, ValueError):
        return False
    return found is not None and Path(found.origin or "").resolve() != path.resolve()
