"""Options of generated graphs: checked, and written back as the name that loads the same graph."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from pdgnn.errors import InputError

__all__ = ["checked_seed", "checked_share", "checked_whole", "dataset_name", "is_whole"]


def dataset_name(name: str, said: Mapping[str, tuple[object, object]]) -> str:
    """``"name:key=value,..."`` of what is said, each with its default; defaults are left out.

    >>> dataset_name("board", {"size": (5, 100), "seed": (0, 0)})
    'board:size=5'
    """
    options = ",".join(
        f"{key}={value}" for key, (value, usual) in said.items() if str(value) != str(usual)
    )
    return f"{name}:{options}" if options else name


def checked_share(name: str, share: float) -> float:
    """A number in [0, 1]."""
    if isinstance(share, bool) or not isinstance(share, int | float) or not 0.0 <= share <= 1.0:
        raise InputError(f"{name} must be a number in [0, 1], not {share!r}")
    return float(share)


def checked_seed(seed: int) -> int:
    """An integer of 0 or more."""
    if not is_whole(seed) or seed < 0:
        raise InputError(f"seed must be an integer of 0 or more, not {seed!r}")
    return int(seed)


def checked_whole(name: str, value: int, *, least: int) -> int:
    """A whole number of at least `least`."""
    if not is_whole(value) or value < least:
        raise InputError(f"{name} must be a whole number of at least {least}, not {value!r}")
    return int(value)


def is_whole(value: object) -> bool:
    """Whether it is an integer, and no bool."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)
