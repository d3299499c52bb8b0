"""Where torch computes: the CPU, on how many threads, or a CUDA GPU that is there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from typing import Any

import torch

from pdgnn.errors import InputError

__all__ = ["at_most_threads", "check_device", "one_blas_thread"]


def check_device(device: str | torch.device, *, what: str, elsewhere: bool = False) -> torch.device:
    """`device` if it is the CPU or a GPU that is there; `what` says who asks, for the error.

    With `elsewhere` it is that of other machines, and the GPUs of this one do not matter.

    >>> check_device("cpu", what="runs train")
    device(type='cpu')
    """
    try:
        target = torch.device(device)
    except (RuntimeError, TypeError) as e:
        raise InputError(f"unknown device {device!r}; use 'cpu' or 'cuda'") from e
    if target.type not in ("cpu", "cuda"):
        raise InputError(
            f"{what} on 'cpu' or 'cuda', not on {str(target)!r}; name one of them as device"
        )
    if target.type == "cuda" and not elsewhere:
        if not torch.cuda.is_available():
            raise InputError("device='cuda' needs a CUDA GPU and there is none; use device='cpu'")
        if (target.index or 0) >= torch.cuda.device_count():
            raise InputError(f"there are {torch.cuda.device_count()} GPUs, and no {target}")
    return target


@contextmanager
def at_most_threads(count: int) -> Iterator[None]:
    """No more of torch's threads than `count`, and as before afterwards.

    Threads wait for each other by spinning: where there is little to do they keep busy what another
    process could use.

    >>> with at_most_threads(1):
    ...     torch.get_num_threads()
    1
    """
    before = torch.get_num_threads()
    if before > count:
        torch.set_num_threads(max(1, count))
    try:
        yield
    finally:
        if before > count:
            torch.set_num_threads(before)


def one_blas_thread() -> AbstractContextManager[object]:
    """NumPy's and SciPy's linear algebra on one thread, where torch's threads work beside it.

    The two kinds take turns, and the waiting ones spin on the cores that the others need.
    """
    limited: AbstractContextManager[object] = _blas().limit(limits=1, user_api="blas")
    return limited


@cache
def _blas() -> Any:
    """The thread pools of this process, which take milliseconds to find."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
