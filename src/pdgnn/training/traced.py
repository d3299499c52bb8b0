"""Which settings of a run a function reads: runs that agree in these share what it made."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pdgnn.training.spec import SETTINGS, Options, RunSpec

__all__ = ["traced", "value_of"]


class _TracedOptions(Options):
    """Options that note which of them are read, in `seen`."""

    seen: set[str]

    def __getitem__(self, name: str) -> Any:
        self.seen.add(f"options.{name}")
        return super().__getitem__(name)

    def get(self, name: str, default: Any = None) -> Any:
        """The option of this name."""
        return self[name] if name in self else default  # noqa: SIM401

    def __iter__(self) -> Iterator[str]:
        self.seen.update(f"options.{name}" for name in super().keys())  # noqa: SIM118
        return super().__iter__()

    def keys(self) -> Any:
        """All names."""
        return list(self)

    def items(self) -> Any:
        """All names and values."""
        return [(name, self[name]) for name in self]

    def values(self) -> Any:
        """All values."""
        return [self[name] for name in self]


class _TracedSpec(RunSpec):
    """A spec that notes which of its fields are read, in `seen`."""

    def __getattribute__(self, name: str) -> Any:
        seen = object.__getattribute__(self, "__dict__").get("seen")
        if seen is not None and name in FIELDS:
            seen.add(name)
        elif seen is not None and name in ("key", "__dict__"):
            seen.update(FIELDS, (f"options.{option}" for option in self.options))
        return object.__getattribute__(self, name)


FIELDS = set(SETTINGS) - {"dataset", "model"}


def traced(spec: RunSpec) -> tuple[RunSpec, set[str]]:
    """`spec` as one that notes what is read of it, and the set that it notes them in.

    >>> noted, seen = traced(RunSpec(dataset="cora", model="gcn"))
    >>> noted.depth, seen
    (2, {'depth'})
    """
    seen: set[str] = set()
    options = _TracedOptions(spec.options)
    options.seen = seen
    noted = object.__new__(_TracedSpec)
    object.__getattribute__(noted, "__dict__").update(spec.__dict__, options=options, seen=seen)
    return noted, seen


def value_of(spec: RunSpec, name: str) -> Any:
    """What a spec has of a name that :func:`traced` noted."""
    if not name.startswith("options."):
        return getattr(spec, name)
    return spec.options.get(name.removeprefix("options."))
