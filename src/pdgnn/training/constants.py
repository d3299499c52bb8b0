"""What a step reads back from the device, where it is the same at every step.

A CUDA graph cannot be captured while the host waits for the device, as it does for the shape of
``x[mask]`` or for ``int(t)``. Layers of PyG do so to drop and add self-loops: always with the same
result, as the graph stays. So the results are noted while a few steps are taken one by one; if they
were the same each time, the captured step uses what was noted.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

__all__ = ["Constants"]

aten: Any = torch.ops.aten
READS = {aten.nonzero.default, aten._local_scalar_dense.default}
"""Operations whose result the host waits for."""
BY_MASK = {aten.index.Tensor, aten.index_put.default, aten.index_put_.default}
"""Operations that may take masks, and then look for their positions."""
FLAGS = (torch.bool, torch.uint8)


class Constants:
    """What the steps of a group read back, in their order."""

    def __init__(self) -> None:
        self._steps: list[list[Any]] = []

    @contextmanager
    def noting(self) -> Iterator[None]:
        """Note what the step in this block reads."""
        self._steps.append([])
        with _Mode(noted=self._steps[-1]):
            yield

    @contextmanager
    def used(self) -> Iterator[None]:
        """Give the step in this block what was read by the last one, without reading."""
        with _Mode(given=iter(self._steps[-1])):
            yield

    def check(self) -> None:
        """An error unless the last two steps read the same."""
        one, other = self._steps[-2:]
        if len(one) != len(other) or not all(map(_equal, one, other)):
            raise RuntimeError("it reads values from the device that differ from step to step")


class _Mode(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Notes the results of operations that wait for the device, or takes them from `given`."""

    def __init__(self, noted: list[Any] | None = None, given: Iterator[Any] | None = None) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._noted, self._given = noted, given

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        if func in READS:
            return self._read(func, *args)
        if func in BY_MASK and any(_is_mask(i) for i in args[1]):
            args = (args[0], self._positions(args[1]), *args[2:])
        return func(*args, **(kwargs or {}))

    def _read(self, func: Any, *args: Any) -> Any:
        if self._given is not None:
            found = next(self._given, None)
            if found is None:
                raise RuntimeError("it reads more from the device than the steps before")
            return found
        found = func(*args)
        if self._noted is not None:
            self._noted.append(found)
        return found

    def _positions(self, indices: list[Tensor | None]) -> list[Tensor | None]:
        """The indices with masks replaced by where they are set."""
        found: list[Tensor | None] = []
        for index in indices:
            if _is_mask(index):
                where = self._read(aten.nonzero.default, index)  # [count, dims]
                found += list(where.unbind(1))
            else:
                found.append(index)
        return found


def _is_mask(index: Tensor | None) -> bool:
    return index is not None and index.dtype in FLAGS


def _equal(one: Any, other: Any) -> bool:
    if isinstance(one, Tensor) and isinstance(other, Tensor):
        return torch.equal(one, other)
    return type(one) is type(other) and bool(one == other)
