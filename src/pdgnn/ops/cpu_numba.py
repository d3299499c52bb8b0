"""How the kernels of the CPU are compiled, by numba, and run on its threads.

A kernel takes (part, parts, args) and does one of `parts` shares of the work; the shares may be
done in any order, by any thread.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from types import FunctionType
from typing import Any, TypeVar, cast

import numba
import numpy as np
import torch
from numba import njit, prange
from numpy.typing import NDArray

Array = NDArray[Any]
Arrays = tuple[Any, ...]
Function = TypeVar("Function", bound=Callable[..., Any])

SERIAL_WORK = 1 << 18
"""Multiplications below which waking other threads costs more than it saves."""
SAFE = {"contract", "reassoc", "nsz", "arcp"}
"""What the compiler may do to sums and products: infinities and NaN keep their meaning."""

pool: Any = numba
"""numba, whose stubs leave out some of what is asked of its threads."""

_lock = threading.Lock()
_on_all_threads: dict[Any, Any] = {}
"""Of each kernel, the form that does all parts."""


def inline(function: Function) -> Function:
    """A step of several kernels, pasted into each."""
    return cast(Function, njit(inline="always", fastmath=SAFE)(function))


def step(function: Function) -> Function:
    """A step with types of its own: integers of 32 bits stay so, where `inline` widens them."""
    return cast(Function, njit(forceinline=True, fastmath=SAFE)(function))


def kernel(function: Function) -> Function:
    """Compiled on the first call with each dtype."""
    one = _compiled(function, fastmath=SAFE, error_model="numpy")
    _on_all_threads[one] = _compiled(_all_parts_of(one, function.__code__), parallel=True)
    return one


def _compiled(function: Function, **options: Any) -> Function:
    """Kept on disk where that can be written.

    numba forgets what it kept when the file of the kernel changes, and only then: who changes
    what kernels import from another file removes their `__pycache__`.
    """
    try:
        return cast(Function, njit(nogil=True, cache=True, **options)(function))
    except RuntimeError:  # neither the package's folder nor the user's can be written
        return cast(Function, njit(nogil=True, **options)(function))


one: Any = None
"""What `_all_parts` calls: each form of it has globals of its own."""


def _all_parts(parts: int, args: Arrays) -> None:
    for part in prange(parts):
        one(np.int64(part), parts, args)


def _all_parts_of(kernel: Any, code: Any) -> Any:
    """The form of a kernel that takes (parts, args) and does them all, on all threads.

    A copy of `_all_parts` with the name and the file of the kernel: a closure would not be kept on
    disk, and this one not be forgotten with the kernel.
    """
    place = {"co_filename": code.co_filename, "co_firstlineno": code.co_firstlineno}
    copy = FunctionType(_all_parts.__code__.replace(**place), {**globals(), "one": kernel})
    copy.__qualname__ = f"{code.co_name}_on_all_threads"
    return copy


def run(kernel: Callable[..., None], work: int, *args: Any) -> None:
    """A kernel on as many threads as torch uses.

    One thread is this one: numba's pool is not touched, so that a forked process whose torch is
    held to one thread, such as a worker of a DataLoader, can do without it; after a fork GNU's
    OpenMP allows no other.
    """
    threads = min(torch.get_num_threads(), pool.config.NUMBA_NUM_THREADS)
    if threads == 1 or work < SERIAL_WORK:
        kernel(0, 1, args)
        return
    with _one_at_a_time():
        before = pool.get_num_threads()  # of this Python thread alone
        pool.set_num_threads(threads)
        try:
            _on_all_threads[kernel](threads, args)
        finally:
            pool.set_num_threads(before)


def _one_at_a_time() -> AbstractContextManager[Any]:
    """A lock, but for the pools that several Python threads may use at once: TBB and OpenMP.

    numba prefers these two where it finds them, and names its choice only after the first use.
    """
    try:
        safe = pool.threading_layer() != "workqueue"
    except ValueError:
        safe = False
    return nullcontext() if safe else _lock
