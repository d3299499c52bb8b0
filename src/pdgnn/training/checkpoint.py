"""Runs on disk: those that are done, and the state of those that are under way.

A folder holds ``results.jsonl``, a line for each finished run; ``curves-*.npy`` of those whose
curves were asked for; ``under-way-*.safetensors``, the state of a group each; and ``tasks.json``,
which tells whether a dataset is still the one that its runs were trained on. Files are replaced
whole, so that a run killed at any moment leaves the last state. The rows of a file are single runs:
it does not matter in which groups they go on.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from pdgnn.errors import InputError
from pdgnn.io.atomic import replacing
from pdgnn.training.spec import RunResult, RunSpec
from pdgnn.training.state import RunState

__all__ = ["RunFolder"]

VERSION = "1"
DAMAGE = (ValueError, TypeError, KeyError, IndexError, AttributeError, EOFError)
Row = dict[str, Tensor]


class RunFolder:
    """Where a training keeps what it has, so that it goes on when it is started again."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as e:
            raise InputError(f"cannot make the folder {path}: {e.strerror or e}") from e
        self._results = {r.spec.key: r for r in self._read_results()}

    @contextmanager
    def held(self) -> Iterator[None]:
        """The folder for this process alone; one that another trains into is an error."""
        with (self.path / ".lock").open("w") as file:
            if not _locked(file.fileno()):
                raise InputError(f"another training is using {self.path}; give each its own folder")
            for partial in self.path.glob(".pdgnn-*"):  # of a process that was killed
                partial.unlink(missing_ok=True)
            self._results = {r.spec.key: r for r in self._read_results()}
            yield

    def check_tasks(self, fingerprints: Mapping[str, str]) -> None:
        """An error if a dataset of that name here had other contents; new ones are noted."""
        file = self.path / "tasks.json"
        known = _read_json(file) if file.exists() else {}
        for name, fingerprint in fingerprints.items():
            if known.get(name, fingerprint) != fingerprint:
                raise InputError(
                    f"{self.path} holds runs of a {name} with other edges, features, labels or "
                    "splits; give another folder"
                )
        if not set(fingerprints) <= set(known):
            with replacing(file) as partial:
                partial.write_text(json.dumps({**known, **fingerprints}, indent=1))

    def results(self, *, curves: bool = False) -> dict[str, RunResult]:
        """The finished runs, by the key of their spec; with `curves` those that have kept them."""
        if not curves:
            return dict(self._results)
        found = {}
        for key, result in self._results.items():
            if self._curves_file(key).exists():
                kept = _read_curves(self._curves_file(key), result.steps_run)
                found[key] = replace(result, curves=kept)
        return found

    def add_results(self, results: Iterable[RunResult]) -> None:
        """Keep these runs as finished."""
        for result in results:
            if result.curves is not None:
                with replacing(self._curves_file(result.spec.key)) as partial:
                    np.save(partial, result.curves)
            self._results[result.spec.key] = replace(result, curves=None)
        lines = [json.dumps(r.to_dict()) for r in self._results.values()]
        with replacing(self._results_file) as partial:
            partial.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")

    def save_state(self, specs: Sequence[RunSpec], state: RunState) -> None:
        """Keep the state of these runs, over what was kept of them before."""
        from safetensors import SafetensorError
        from safetensors.torch import save_file

        tensors = {name: t.detach().cpu().contiguous() for name, t in state.tensors().items()}
        about = {"version": VERSION, "specs": json.dumps([spec.to_json() for spec in specs])}
        try:
            with replacing(self._state_file(specs)) as partial:
                save_file(tensors, str(partial), about)
        except SafetensorError as e:  # how safetensors says that a disk is full
            raise InputError(f"cannot write to the folder {self.path}: {e}") from e

    def drop_states(self, finished: Collection[str]) -> None:
        """Forget the files whose runs are all among those `finished`, given by their keys."""
        for file in self._state_files():
            if all(spec.key in finished for spec in _specs(file)):
                file.unlink(missing_ok=True)

    def states(self, wanted: Collection[str], *, curves: bool = False) -> dict[str, Row]:
        """The tensors of the `wanted` runs that are under way, by key; the furthest step wins.

        With `curves` only of those that have kept them.
        """
        found: dict[str, Row] = {}
        for file in self._state_files():
            keys = [spec.key for spec in _specs(file)]
            if not set(keys) & set(wanted):
                continue
            for key, row in zip(keys, _rows(file), strict=True):
                if key not in wanted or (curves and not len(row["curves"])):
                    continue
                if key not in found or row["step"] > found[key]["step"]:
                    found[key] = row
        return found

    @property
    def _results_file(self) -> Path:
        return self.path / "results.jsonl"

    def _curves_file(self, key: str) -> Path:
        return self.path / f"curves-{key}.npy"

    def _state_files(self) -> list[Path]:
        return sorted(self.path.glob("under-way-*.safetensors"))

    def _state_file(self, specs: Sequence[RunSpec]) -> Path:
        keys = "".join(spec.key for spec in specs)
        name = hashlib.blake2b(keys.encode(), digest_size=12).hexdigest()
        return self.path / f"under-way-{name}.safetensors"

    def _read_results(self) -> list[RunResult]:
        if not self._results_file.exists():
            return []
        with _reading(self._results_file, "move it away"):
            lines = self._results_file.read_text(encoding="utf-8").splitlines()
            return [RunResult.from_dict(json.loads(line)) for line in lines]


@contextmanager
def _reading(file: Path, remedy: str) -> Iterator[None]:
    """What is wrong with a file, in one line."""
    try:
        yield
    except OSError as e:
        raise InputError(f"cannot read {file}: {e.strerror or e}") from e
    except DAMAGE as e:
        raise InputError(f"{file} is damaged or of another version ({e}); {remedy}") from e


def _read_json(file: Path) -> dict[str, Any]:
    with _reading(file, "move it away"):
        return dict(json.loads(file.read_text(encoding="utf-8")))


def _read_curves(file: Path, steps: int) -> Any:
    with _reading(file, "delete it to train this run anew"), file.open("rb") as stored:
        kept = np.lib.format.read_array(stored, allow_pickle=False)
        if kept.shape != (steps, 3) or kept.dtype != np.float32:
            raise ValueError(f"{kept.dtype} of shape {list(kept.shape)}")
        return kept


def _specs(file: Path) -> list[RunSpec]:
    """The runs of a state file."""
    with _opened(file) as stored:
        about = stored.metadata() or {}
        if about.get("version") != VERSION:
            raise ValueError(f"version {about.get('version')}, not {VERSION}")
        return [RunSpec.from_json(text) for text in json.loads(about["specs"])]


def _rows(file: Path) -> list[Row]:
    """The tensors of each of them: those of a :class:`RunState`."""
    runs = len(_specs(file))
    with _opened(file) as stored:
        tensors = {name: stored.get_tensor(name) for name in stored.keys()}  # noqa: SIM118
        if set(tensors) != {f.name for f in fields(RunState)}:
            raise ValueError("other tensors than those of runs")
        if any(t.ndim == 0 or len(t) != runs for t in tensors.values()):
            raise ValueError(f"tensors of other than {runs} runs")
        return [{name: t[i] for name, t in tensors.items()} for i in range(runs)]


@contextmanager
def _opened(file: Path) -> Iterator[Any]:
    from safetensors import SafetensorError, safe_open

    with _reading(file, "delete it to start its runs anew"):
        try:
            with safe_open(str(file), framework="pt") as stored:
                yield stored
        except SafetensorError as e:
            raise ValueError(e) from e


def _locked(descriptor: int) -> bool:
    """Whether nobody else has the lock, as far as the system knows locks."""
    try:
        import fcntl
    except ImportError:
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks
        return True
    return True
