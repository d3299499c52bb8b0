"""Which form of the kernels is used: by the device, or as :func:`use_backend` says."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from pdgnn.errors import InputError

__all__ = ["BACKENDS", "kernels_for", "use_backend"]

BACKENDS = {"reference": None, "cpu": "numba", "gpu": "triton"}
"""The forms, each with the package it needs."""

_forced: list[str] = []


@contextmanager
def use_backend(name: str) -> Iterator[None]:
    """Use this form of the kernels inside the block: ``"reference"``, ``"cpu"`` or ``"gpu"``."""
    if name not in BACKENDS:
        raise InputError(f"unknown backend {name!r}; choose one of {', '.join(BACKENDS)}")
    _forced.append(name)
    try:
        yield
    finally:
        _forced.pop()


def kernels_for(x: Tensor) -> Any:
    """The kernels for a tensor like `x`, by their names in :mod:`pdgnn.ops.reference`."""
    name = _forced[-1] if _forced else {"cuda": "gpu", "cpu": "cpu"}.get(x.device.type, "reference")
    if name == "cpu" and x.dtype not in (torch.float32, torch.float64):
        name = "reference"
    return _kernels(name)


@cache
def _kernels(name: str) -> Any:
    """Those of one form; where it has none of its own, or lacks its package, the reference's."""
    reference, package = import_module("pdgnn.ops.reference"), BACKENDS[name]
    if package is None or find_spec(package) is None:
        return reference
    dense, on_edges = (import_module(f"pdgnn.ops.{module}") for module in (f"{name}_dense", name))
    found = vars(reference) | vars(dense) | vars(on_edges)
    return SimpleNamespace(**{n: value for n, value in found.items() if not n.startswith("_")})
