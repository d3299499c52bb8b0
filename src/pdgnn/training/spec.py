"""What one training run is, and what comes of it."""

from __future__ import annotations

import hashlib
import json
import math
import operator
from dataclasses import asdict, dataclass, field, fields
from functools import cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from pdgnn.errors import InputError
from pdgnn.nn.models import MODELS
from pdgnn.rewiring import Reach, check_reach

__all__ = ["PRECISIONS", "RunResult", "RunSpec"]

PRECISIONS = ("float32", "tf32", "bfloat16", "float64")
"""Of the arithmetic; TF32 and bfloat16 touch matrix products (or more), not the optimizer."""


@dataclass(frozen=True, kw_only=True)
class RunSpec:
    """One run: a model, its data and its hyperparameters. The defaults are the paper's protocol.

    `dataset` is whatever :func:`pdgnn.io.sources.open_source` opens, or a key of the tasks given to
    :func:`~pdgnn.training.train`. α and γ count where the model or the rewiring uses them.

    >>> spec = RunSpec(dataset="minesweeper", model="pd-gat", depth=5, gamma=0.4, alpha=0.2)
    >>> RunSpec.from_json(spec.to_json()) == spec
    True
    """

    dataset: str
    model: str
    depth: int = 2
    width: int = 512
    heads: int = 8
    split: int = 0
    seed: int = 0
    alpha: float = 1.0
    gamma: float = 1.0
    rewired: bool = False
    reach: Reach = "all"
    lr: float = 3e-5
    weight_decay: float = 0.0
    dropout: float = 0.2
    steps: int = 1000
    patience: int | None = None
    precision: str = "float32"

    def __post_init__(self) -> None:
        """Check every field, and bring numbers to one form: equal runs have equal keys."""
        if not isinstance(self.dataset, str) or not self.dataset:
            raise InputError(f"dataset must be a name or a file, not {self.dataset!r}")
        _check_choice("model", self.model, tuple(MODELS))
        check_reach(self.reach)
        _check_choice("precision", self.precision, PRECISIONS)
        for name in ("depth", "width", "heads", "steps"):
            self._set(name, _whole(name, getattr(self, name), 1))
        for name in ("split", "seed"):
            self._set(name, _whole(name, getattr(self, name), 0))
        if self.patience is not None:
            self._set("patience", _whole("patience", self.patience, 1))
        if self.seed >= 2**63:
            raise InputError(f"seed must be below 2^63, not {self.seed}")
        if not isinstance(self.rewired, bool):
            raise InputError(f"rewired must be True or False, not {self.rewired!r}")
        for name, upper, end in (
            ("alpha", 1.0, True),
            ("gamma", 1.0, True),
            ("lr", math.inf, False),
            ("weight_decay", math.inf, False),
            ("dropout", 1.0, False),
        ):
            self._set(name, _number(name, getattr(self, name), upper, end_included=end))
        _check_heads(self.model, self.width, self.heads)

    def _set(self, name: str, value: float) -> None:
        object.__setattr__(self, name, value)

    @property
    def scoped(self) -> bool:
        """Whether α and γ matter to this run: to its model, or to its rewiring."""
        return self.rewired or MODELS[self.model].scoped

    def to_json(self) -> str:
        """One line, the fields in their order."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> RunSpec:
        """From :meth:`to_json`; an unknown or missing field is an error."""
        try:
            values = json.loads(text)
        except (ValueError, TypeError) as e:
            raise InputError(f"this is not a run: {str(text)[:60]!r}") from e
        return cls.from_dict(values)

    @classmethod
    def from_dict(cls, values: Any) -> RunSpec:
        """From a dict of its fields."""
        known = {f.name for f in fields(cls)}
        if not isinstance(values, dict) or not {"dataset", "model"} <= set(values) <= known:
            raise InputError(
                f"a run needs dataset and model, and knows {', '.join(sorted(known))}; "
                f"not {str(values)[:80]}"
            )
        return cls(**values)

    @property
    def key(self) -> str:
        """A short name of this run: the same fields, the same key."""
        text = json.dumps(asdict(self), sort_keys=True)
        return hashlib.blake2b(text.encode(), digest_size=12).hexdigest()


@dataclass(frozen=True)
class RunResult:
    """What a run came to: its best validation score, and the test score at that step.

    Scores lie in [0, 1]; nan where no step had one. `step` counts from 1, and is 0 then. Results
    are compared without the time they took and without their curves.
    """

    spec: RunSpec
    val: float
    test: float
    step: int
    steps_run: int
    seconds: float = field(compare=False)  # this run's share of the time of those trained with it
    diverged_at: int | None = None  # the first step whose loss was not finite; it ends the run
    curves: NDArray[np.float32] | None = field(default=None, compare=False, repr=False)
    """``[steps_run, 3]``: loss, validation and test score after each step, if asked for."""

    def to_dict(self) -> dict[str, Any]:
        """Plain values, None for nan, the curves left out."""
        scores = {n: _none_for_nan(getattr(self, n)) for n in ("val", "test")}
        rest = {n: getattr(self, n) for n in ("step", "steps_run", "seconds", "diverged_at")}
        return {"spec": asdict(self.spec), **scores, **rest}

    @classmethod
    def from_dict(cls, values: Any) -> RunResult:
        """From :meth:`to_dict`; an unknown or missing field is an error."""
        names = {f.name for f in fields(cls)} - {"curves"}
        if not isinstance(values, dict) or set(values) != names:
            raise InputError(f"a result has {', '.join(sorted(names))}; not {str(values)[:80]}")
        val, test = (math.nan if values[n] is None else values[n] for n in ("val", "test"))
        for name, value in (("val", val), ("test", test), ("seconds", values["seconds"])):
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise InputError(f"{name} of a result must be a number, not {value!r}")
        ended = values["diverged_at"]
        return cls(
            RunSpec.from_dict(values["spec"]),
            val=float(val),
            test=float(test),
            step=_whole("step", values["step"], 0),
            steps_run=_whole("steps_run", values["steps_run"], 0),
            seconds=float(values["seconds"]),
            diverged_at=None if ended is None else _whole("diverged_at", ended, 1),
        )


def _none_for_nan(value: float) -> float | None:
    return None if math.isnan(value) else value


def _check_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise InputError(f"unknown {name} {value!r}; choose one of {', '.join(choices)}")


def _whole(name: str, value: Any, least: int) -> int:
    try:
        number = -1 if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = -1
    if number < least:
        raise InputError(f"{name} must be a whole number of at least {least}, not {value!r}")
    return number


def _number(name: str, value: Any, upper: float, *, end_included: bool) -> float:
    """`value` as a float in [0, upper], or in [0, upper)."""
    try:
        number = math.nan if isinstance(value, bool | str) else float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not (0.0 <= number < upper or (end_included and number == upper)):
        limit = f"in [0, {upper:g}{']' if end_included else ')'}"
        if upper == math.inf:
            limit = "of at least 0, and finite"
        raise InputError(f"{name} must be a number {limit}, not {repr(value)[:40]}")
    return number + 0.0  # no -0.0, which is equal to 0.0 and prints otherwise


@cache
def _check_heads(model: str, width: int, heads: int) -> None:
    """An error if the blocks of the model cannot be made so wide with so many heads."""
    try:
        with torch.device("meta"):
            for block in MODELS[model].blocks:
                block(width, heads)
    except InputError as e:
        raise InputError(
            f"width {width} does not split into {heads} equal heads, which {model} needs; choose a "
            "multiple"
        ) from e
