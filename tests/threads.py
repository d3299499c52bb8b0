"""What the tests of the CPU kernels share: ways of cutting their work."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import pytest
import torch

from pdgnn.ops import cpu_numba


@contextmanager
def in_parts(parts: int) -> Iterator[None]:
    """Every kernel does so many parts, the last first."""

    def one_after_the_other(kernel: Callable[..., None], work: int, *args: Any) -> None:
        for part in reversed(range(parts)):
            kernel(part, parts, args)

    with patch.object(cpu_numba, "run", one_after_the_other):
        yield


@contextmanager
def on_threads(count: int) -> Iterator[None]:
    """Every kernel on so many threads, however small its work is."""
    if count > cpu_numba.pool.config.NUMBA_NUM_THREADS:
        pytest.skip("numba has fewer threads here")
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        with patch.object(cpu_numba, "SERIAL_WORK", 0):
            yield
    finally:
        torch.set_num_threads(before)
