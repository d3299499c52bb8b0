"""The settings that a measured search has chosen, kept in the package: ``winners.json``.

They are what ``pdgnn records --final`` trains in a store without a search of its own. The file is
written from measured runs by ``python benchmarks/records.py --winners``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import Any, Literal

from pdgnn.experiments.records.spaces import OWN_MODELS
from pdgnn.models import find_model
from pdgnn.training.spec import SETTINGS, RunSpec, resolved

__all__ = ["FILE", "Choice", "as_json", "winner", "winners"]

FILE = "winners.json"


@dataclass(frozen=True)
class Choice:
    """A setting that validation has chosen."""

    spec: RunSpec  # of split 0, with all its steps
    settings: int  # that were tried
    val: float  # its mean validation score in the search, in [0, 1]
    source: Literal["search", "package"]


@cache
def winners() -> dict[str, dict[str, Any]]:
    """What the file has, by graph and method; empty where nothing was measured."""
    found: dict[str, dict[str, Any]] = json.loads(
        files(__package__).joinpath(FILE).read_text(encoding="utf-8")
    )
    return found


def winner(dataset: str, method: str, *, precision: str = "float32") -> Choice | None:
    """The setting of a method on a graph, to be trained in this precision; None: not measured."""
    said = winners().get(dataset, {}).get(method)
    if said is None:
        return None
    spec = RunSpec.from_dict({"dataset": dataset, **said["setting"]})
    if spec.model not in OWN_MODELS:
        spec = replace(spec, precision=precision)
    spec = resolved(spec, find_model(spec.model, OWN_MODELS))
    return Choice(spec, int(said["settings"]), float(said["val"]), "package")


def as_json(choices: Mapping[tuple[str, str], Choice]) -> str:
    """The text of the file: what is not at its default of each setting, by graph and method."""
    found: dict[str, dict[str, Any]] = {}
    for (dataset, method), choice in choices.items():
        spec = choice.spec
        usual = RunSpec(dataset=dataset, model=spec.model, precision=spec.precision)
        said: dict[str, Any] = {
            name: getattr(spec, name)
            for name in SETTINGS
            if name == "model" or getattr(spec, name) != getattr(usual, name)
        }
        if own := {n: v for n, v in spec.options.items() if n not in spec.defaults}:
            said["options"] = own
        found.setdefault(dataset, {})[method] = {
            "setting": said,
            "settings": choice.settings,
            "val": choice.val,
        }
    return json.dumps(found, indent=1) + "\n"
