"""Options of generated graphs, written back as the name that loads the same graph."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["dataset_name"]


def dataset_name(name: str, said: Mapping[str, tuple[object, object]]) -> str:
    """``"name:key=value,..."`` of what is said, each with its default; defaults are left out.

    >>> dataset_name("board", {"size": (5, 100), "seed": (0, 0)})
    'board:size=5'
    """
    options = ",".join(
        f"{key}={value}" for key, (value, usual) in said.items() if str(value) != str(usual)
    )
    return f"{name}:{options}" if options else name
