"""What one training run is, and what comes of it."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cached_property
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from pdgnn.errors import InputError, check_number, check_whole
from pdgnn.models import MODELS, USABLE, Model, Scalar
from pdgnn.rewiring import Reach, check_reach

__all__ = ["PRECISIONS", "SETTINGS", "VERSION", "Options", "RunResult", "RunSpec", "resolved"]

VERSION = 2
"""Of what is written down of runs. 1 had ``scope`` for ``reach``, and no ``options``."""
PRECISIONS = ("float32", "tf32", "bfloat16", "float64")
"""Of the arithmetic; TF32 and bfloat16 touch matrix products (or more), not the optimizer."""
LIMITS = {"depth": 1001, "width": 2**17, "heads": 2**17, "steps": 10**9, "split": 10**6}
"""What these stay below: beyond lies nothing that a machine could train."""


class Options(dict[str, Scalar]):
    """The options of a run: a dict that never changes, and so may be part of a key."""

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(tuple(sorted(self.items(), key=str)))

    def __reduce__(self) -> tuple[Any, ...]:
        return Options, (dict(self),)

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise TypeError("the options of a run do not change; make another with dataclasses.replace")

    __setitem__ = __delitem__ = _refuse
    clear = pop = popitem = setdefault = update = __ior__ = _refuse


@dataclass(frozen=True, kw_only=True)
class RunSpec:
    """One run: a model, its data and its hyperparameters. The defaults are the paper's protocol.

    `dataset` is whatever :func:`pdgnn.io.sources.open_source` opens, or a key of the tasks given to
    :func:`~pdgnn.training.train`; `model` is one of :data:`pdgnn.models.MODELS`, or a key of the
    models given to it. `options` are the model's own settings. Fields that a model does not use do
    not count: :func:`resolved` sets them to their default.

    >>> spec = RunSpec(dataset="minesweeper", model="pd-gat", depth=5, gamma=0.4, alpha=0.2)
    >>> RunSpec.from_json(spec.to_json()) == spec
    True
    >>> gcn = RunSpec(dataset="cora", model="gcn")
    >>> replace(gcn, gamma=0.4).key == gcn.key
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
    options: Mapping[str, Scalar] = field(default_factory=Options)
    defaults: tuple[str, ...] = field(default=(), compare=False, repr=False)
    """Which options are at the model's default; :func:`resolved` knows. They are not in the key."""

    def __post_init__(self) -> None:
        """Check every field, and bring numbers to one form: equal runs have equal keys."""
        for name in ("dataset", "model"):
            if not isinstance(getattr(self, name), str) or not getattr(self, name):
                raise InputError(f"{name} must be a name, not {getattr(self, name)!r}")
        check_reach(self.reach)
        if self.precision not in PRECISIONS:
            raise InputError(
                f"unknown precision {self.precision!r}; choose one of {', '.join(PRECISIONS)}"
            )
        for name in ("depth", "width", "heads", "steps"):
            self._set(name, check_whole(name, getattr(self, name), 1, LIMITS[name]))
        self._set("split", check_whole("split", self.split, 0, LIMITS["split"]))
        self._set("seed", check_whole("seed", self.seed, 0, 2**63))
        if self.patience is not None:
            self._set("patience", check_whole("patience", self.patience))
        if not isinstance(self.rewired, bool):
            raise InputError(f"rewired must be True or False, not {self.rewired!r}")
        for name in ("alpha", "gamma"):
            self._set(name, check_number(name, getattr(self, name), 0, 1))
        for name in ("lr", "weight_decay"):
            self._set(name, check_number(name, getattr(self, name)))
        self._set("dropout", check_number("dropout", self.dropout, 0, 1, end=False))
        self._set("options", _checked_options(self.options))
        self._set("defaults", tuple(sorted(set(self.defaults) & set(self.options))))

    def _set(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, the fields in their order."""
        return asdict(self)

    def to_json(self) -> str:
        """One line, the fields in their order."""
        return json.dumps(self.to_dict())

    @classmethod
    def from_json(cls, text: str, version: int = VERSION) -> RunSpec:
        """From :meth:`to_json` of this or an earlier version."""
        try:
            values = json.loads(text)
        except (ValueError, TypeError, RecursionError) as e:
            raise InputError(f"this is not a run: {str(text)[:60]!r}") from e
        return cls.from_dict(values, version)

    @classmethod
    def from_dict(cls, values: Any, version: int = VERSION) -> RunSpec:
        """From :meth:`to_dict` of this or an earlier version; unknown fields are an error."""
        known = {f.name for f in fields(cls)}
        if version == 1 and isinstance(values, dict) and "scope" in values:
            values = {**values, "reach": values["scope"]}
            del values["scope"]
        if not isinstance(values, dict) or not {"dataset", "model"} <= set(values) <= known:
            raise InputError(
                f"a run needs dataset and model, and knows {', '.join(sorted(known))}; "
                f"not {str(values)[:80]}"
            )
        return cls(**{**values, "defaults": tuple(values.get("defaults", ()))})

    def uses(self, field: str) -> bool:
        """Whether a field such as ``"gamma"`` matters to this run; of a user's model all may."""
        return self.model not in MODELS or field in MODELS[self.model].used(self)

    @cached_property
    def key(self) -> str:
        """A short name of this run: what it does is the same, so is the key.

        What is at its default takes no part in it, so that it outlasts new fields and new options.
        """
        spec = resolved(self, MODELS[self.model]) if self.model in MODELS else self
        usual = RunSpec(dataset=self.dataset, model=self.model)
        said = {f.name: getattr(spec, f.name) for f in fields(spec)}
        own = {name: v for name, v in spec.options.items() if name not in spec.defaults}
        del said["options"], said["defaults"]
        said = {name: v for name, v in said.items() if v != getattr(usual, name)}
        text = json.dumps(
            {
                "dataset": self.dataset,
                "model": self.model,
                **said,
                **({"options": own} if own else {}),
            },
            sort_keys=True,
        )
        return hashlib.blake2b(text.encode(), digest_size=12).hexdigest()


SETTINGS = tuple(f.name for f in fields(RunSpec) if f.name not in ("options", "defaults"))
"""The fields of a run that every model has."""


def _checked_options(options: Any) -> Options:
    if not isinstance(options, Mapping):
        raise InputError(f"options must be a dict of names and values, not {options!r}")
    plain = {name: v.item() if isinstance(v, np.generic) else v for name, v in options.items()}
    for name, value in plain.items():
        if not isinstance(name, str) or not isinstance(value, bool | int | float | str | None):
            raise InputError(
                f"options has {name!r}: {value!r}; give numbers, flags or texts, by name"
            )
        if isinstance(value, float) and not math.isfinite(value):
            raise InputError(f"options has {name!r}: {value!r}; give a finite number")
    return Options(plain)


def resolved(spec: RunSpec, model: Model) -> RunSpec:
    """`spec` as `model` takes it: all its options, and the fields that it does not use at default.

    Two specs that mean the same run are equal after this.

    >>> resolved(RunSpec(dataset="cora", model="gcn", alpha=0.3, heads=4), MODELS["gcn"])
    RunSpec(dataset='cora', model='gcn', depth=2, width=512, heads=8, ...
    """
    unknown = [name for name in spec.options if name not in model.options]
    if unknown:
        known = ", ".join(model.options) or "none"
        raise InputError(f"{spec.model} has no option {unknown[0]!r}; it has {known}")
    options = {
        name: option.checked(name, spec.options.get(name, option.default))
        for name, option in model.options.items()
    }
    usual, used = RunSpec(dataset=spec.dataset, model=spec.model), model.used(spec)
    unused = {n: getattr(usual, n) for n in (*USABLE, "reach") if n not in used}
    found = replace(
        spec,
        **unused,
        options=options,
        defaults=tuple(n for n, v in options.items() if v == model.options[n].default),
    )
    if model.check is not None:
        model.check(found)
    return found


@dataclass(frozen=True)
class RunResult:
    """What a run came to: its best validation score, and the test score at that step.

    Scores lie in [0, 1]; nan where there is none: no step had one, or the split has no test part.
    `step` counts from 1, and is 0 where no step had a validation score. Results are compared
    without the time they took, their curves and what was kept of them.
    """

    spec: RunSpec
    val: float
    test: float
    step: int
    steps_run: int
    seconds: float = field(compare=False)  # this run's share of the time of those trained with it
    diverged_at: int | None = None  # the first step whose loss was not finite; it ends the run
    memory: int | None = field(default=None, compare=False)
    """Bytes of a GPU: this run's share of the most that those trained with it took there."""
    curves: NDArray[np.float32] | None = field(default=None, compare=False, repr=False)
    """``[steps_run, 3]``: loss, validation and test score after each step, if asked for."""
    logits: Tensor | None = field(default=None, compare=False, repr=False)
    """``[N, out_channels]`` at the best validation step, on the CPU, if asked for."""
    weights: dict[str, Tensor] | None = field(default=None, compare=False, repr=False)
    """The module's state_dict at the best validation step, on the CPU, if asked for."""

    def to_dict(self) -> dict[str, Any]:
        """Plain values, None for nan; without memory, curves, logits and weights."""
        scores = {n: _none_for_nan(getattr(self, n)) for n in ("val", "test")}
        rest = {n: getattr(self, n) for n in ("step", "steps_run", "seconds", "diverged_at")}
        return {"version": VERSION, "spec": self.spec.to_dict(), **scores, **rest}

    @classmethod
    def from_dict(cls, values: Any) -> RunResult:
        """From :meth:`to_dict` of this or an earlier version."""
        names = {"spec", "val", "test", "step", "steps_run", "seconds", "diverged_at"}
        version = values.get("version", 1) if isinstance(values, dict) else None
        if version not in (1, VERSION) or set(values) - {"version"} != names:
            if isinstance(version, int) and version > VERSION:
                raise InputError(f"this result is of version {version}; update pdgnn to read it")
            raise InputError(f"a result has {', '.join(sorted(names))}; not {str(values)[:80]}")
        spec, ended = RunSpec.from_dict(values["spec"], version), values["diverged_at"]
        steps_run = check_whole("steps_run", values["steps_run"], 0, LIMITS["steps"])
        return cls(
            spec,
            val=_score("val", values["val"]),
            test=_score("test", values["test"]),
            step=check_whole("step", values["step"], 0, steps_run + 1),
            steps_run=steps_run,
            seconds=check_number("seconds", values["seconds"]),
            diverged_at=None if ended is None else check_whole("diverged_at", ended),
        )


def _none_for_nan(value: float) -> float | None:
    return None if math.isnan(value) else value


def _score(name: str, value: Any) -> float:
    return math.nan if value is None else check_number(name, value, 0, 1)
