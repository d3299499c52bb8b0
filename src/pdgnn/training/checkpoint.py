"""Runs on disk: those that are done, and the state of those that are under way.

A folder holds ``results.jsonl``, a line for each finished run; ``curves-*.npy`` and
``best-*.safetensors`` of those whose curves, logits or weights were asked for;
``under-way-*.safetensors``, the state of a group each; and ``tasks.json``, which tells whether a
dataset is still the one that its runs were trained on. Files are replaced whole, so that a run
killed at any moment leaves the last state. The rows of a file are single runs: it does not matter
in which groups they go on. What earlier versions have written is read too.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pdgnn.errors import DAMAGE, InputError
from pdgnn.io.atomic import open_lock, replacing
from pdgnn.training.spec import VERSION, RunResult, RunSpec
from pdgnn.training.state import Row, RunState

__all__ = ["RunFolder", "read_results"]

WEIGHTS = "weights."


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
        busy = f"another training is using {self.path}; give each its own folder"
        with open_lock(self.path / ".lock", busy=busy):
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
                    f"{self.path} holds runs of a {name} with other edges, features, labels, "
                    "splits, metric or class weights; give another folder"
                )
        if not set(fingerprints) <= set(known):
            with replacing(file) as partial:
                partial.write_text(json.dumps({**known, **fingerprints}, indent=1))

    def results(
        self,
        wanted: Collection[str] | None = None,
        *,
        curves: bool = False,
        keep: Sequence[str] = (),
    ) -> dict[str, RunResult]:
        """The finished runs, or those `wanted`, by the key of their spec.

        With `curves` and with ``keep=("logits", "weights")`` only those that have kept them.
        """
        keys = self._results.keys() if wanted is None else self._results.keys() & set(wanted)
        found = {key: self._results[key] for key in self._results if key in keys}
        for key, result in list(found.items()):
            if curves:
                file = self._curves_file(result)
                if not file.exists():
                    del found[key]
                    continue
                found[key] = replace(result, curves=_read_curves(file, result.steps_run))
            if keep:
                best = self._read_best(result)
                if result.step and not set(keep) <= best.keys():
                    del found[key]
                    continue
                asked: dict[str, Any] = {name: best.get(name) for name in keep}
                found[key] = replace(found[key], **asked)
        return found

    def add_results(self, results: Iterable[RunResult]) -> None:
        """Keep these runs as finished."""
        for result in results:
            if result.curves is not None:
                with replacing(self.path / f"curves-{result.spec.key}.npy") as partial:
                    np.save(partial, result.curves)
            if result.logits is not None or result.weights is not None:
                self._write_best(result)
            slim = replace(result, curves=None, logits=None, weights=None)
            self._results[result.spec.key] = slim
        lines = [json.dumps(r.to_dict()) for r in self._results.values()]
        with replacing(self._results_file) as partial:
            partial.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")

    def save_state(self, specs: Sequence[RunSpec], state: RunState) -> None:
        """Keep the state of these runs, over what was kept of them before."""
        about = {"version": str(VERSION), "specs": json.dumps([s.to_json() for s in specs])}
        self._write_tensors(self._state_file(specs), state.tensors(), about)

    def drop_states(self, finished: Collection[str]) -> None:
        """Forget the files whose runs are all among those `finished`, given by their keys."""
        for file in self._state_files():
            if all(spec.key in finished for spec in _specs(file)):
                file.unlink(missing_ok=True)

    def states(
        self, wanted: Collection[str], *, curves: bool = False, keep: Sequence[str] = ()
    ) -> dict[str, Row]:
        """The tensors of the `wanted` runs that are under way, by key; the furthest step wins.

        With `curves` and `keep` only of those that have kept them.
        """
        needed = [name for name, asked in _NEEDED.items() if asked in (*keep, curves and "curves")]
        found: dict[str, Row] = {}
        for file in self._state_files():
            keys = [spec.key for spec in _specs(file)]
            if not set(keys) & set(wanted):
                continue
            for key, row in zip(keys, _rows(file), strict=True):
                if key not in wanted or not all(row[name].numel() for name in needed):
                    continue
                if key not in found or row["step"] > found[key]["step"]:
                    found[key] = row
        return found

    @property
    def _results_file(self) -> Path:
        return self.path / "results.jsonl"

    def _curves_file(self, result: RunResult) -> Path:
        file = self.path / f"curves-{result.spec.key}.npy"
        return file if file.exists() else self.path / f"curves-{_first_key(result.spec)}.npy"

    def _best_file(self, result: RunResult) -> Path:
        return self.path / f"best-{result.spec.key}.safetensors"

    def _read_best(self, result: RunResult) -> dict[str, Any]:
        """The logits and the weights that were kept of a run."""
        file = self._best_file(result)
        if not file.exists():
            return {}
        with _opened(file, "delete it to train this run anew") as stored:
            tensors = {name: stored.get_tensor(name) for name in stored.keys()}  # noqa: SIM118
        found: dict[str, Any] = {}
        if "logits" in tensors:
            found["logits"] = tensors.pop("logits")
        if tensors:
            found["weights"] = {name.removeprefix(WEIGHTS): t for name, t in tensors.items()}
        return found

    def _write_best(self, result: RunResult) -> None:
        found = self._read_best(result) if self._best_file(result).exists() else {}
        given = {"logits": result.logits, "weights": result.weights}
        found |= {name: value for name, value in given.items() if value is not None}
        tensors = {f"{WEIGHTS}{name}": t for name, t in found.get("weights", {}).items()}
        if "logits" in found:
            tensors["logits"] = found["logits"]
        about = {"version": str(VERSION), "spec": result.spec.to_json()}
        self._write_tensors(self._best_file(result), tensors, about)

    def _write_tensors(
        self, path: Path, tensors: Mapping[str, Tensor], about: dict[str, str]
    ) -> None:
        from safetensors import SafetensorError
        from safetensors.torch import save_file

        plain = {name: t.detach().cpu().contiguous() for name, t in tensors.items()}
        try:
            with replacing(path) as partial:
                save_file(plain, str(partial), about)
        except SafetensorError as e:  # how safetensors says that a disk is full
            raise InputError(f"cannot write to the folder {self.path}: {e}") from e

    def _state_files(self) -> list[Path]:
        return sorted(self.path.glob("under-way-*.safetensors"))

    def _state_file(self, specs: Sequence[RunSpec]) -> Path:
        keys = "".join(spec.key for spec in specs)
        name = hashlib.blake2b(keys.encode(), digest_size=12).hexdigest()
        return self.path / f"under-way-{name}.safetensors"

    def _read_results(self) -> list[RunResult]:
        return read_results(self._results_file) if self._results_file.exists() else []


_NEEDED = {"curves": "curves", "best_logits": "logits", "best_parameters": "weights"}
"""Tensors of a state that are there only if these were asked for."""


def read_results(file: Path) -> list[RunResult]:
    """The finished runs in a ``results.jsonl``; an error names the line that is none."""
    found = []
    with _reading(file, "move it away"):
        lines = file.read_text(encoding="utf-8").splitlines()
    for number, line in enumerate(lines, 1):
        with _reading(file, "move it away", place=f", line {number},"):
            found.append(RunResult.from_dict(json.loads(line)))
    return found


def _first_key(spec: RunSpec) -> str:
    """The key that version 1 gave to this run."""
    said = spec.to_dict()
    del said["options"], said["defaults"]
    said["scope"] = said.pop("reach")
    text = json.dumps(said, sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=12).hexdigest()


@contextmanager
def _reading(file: Path, remedy: str, *, place: str = "") -> Iterator[None]:
    """What is wrong with a file, in one line."""
    try:
        yield
    except OSError as e:
        raise InputError(f"cannot read {file}: {e.strerror or e}") from e
    except DAMAGE as e:
        said = str(e).partition("\n")[0][:160]
        raise InputError(
            f"{file}{place} is damaged or of another version ({said}); {remedy}"
        ) from e


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
        return _stored_specs(stored)[1]


def _stored_specs(stored: Any) -> tuple[int, list[RunSpec]]:
    """The version of an open state file, and its runs."""
    about = stored.metadata() or {}
    version = int(about.get("version", 0))
    if not 1 <= version <= VERSION:
        raise ValueError(f"version {about.get('version')}, not {VERSION}")
    return version, [RunSpec.from_json(text, version) for text in json.loads(about["specs"])]


def _rows(file: Path) -> list[Row]:
    """The tensors of each of them: those of a :class:`RunState`."""
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

    with _reading(file, remedy):
        try:
            opened: AbstractContextManager[Any] = safe_open(str(file), framework="pt")
            with opened as stored:
                yield stored
        except SafetensorError as e:
            raise ValueError(e) from e
