"""The steps of one group: captured as a CUDA graph on a GPU, and looked at now and then."""

from __future__ import annotations

import math
import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from types import FrameType
from typing import Any

import torch

from pdgnn.training.constants import Constants
from pdgnn.training.group import Group
from pdgnn.training.spec import RunSpec

__all__ = ["Progress", "Watch", "captured_step", "out_of_memory", "run_steps", "runs_that_fit"]

WARM_UP = 3
"""Steps taken one by one, so that all kernels are compiled, before a step is captured."""
LOOK_SECONDS = 0.5
"""How often a running group is looked at, to show progress, stop early or keep its state."""
SIGNALS = (signal.SIGINT, signal.SIGTERM)
SHORTEST = 1e-6
"""Seconds that a step takes at least, where the clock is too coarse to tell."""
MEMORY_SHARE = 0.85
"""Share of the free memory that a group may take."""


@dataclass(frozen=True)
class Progress:
    """How far a training is."""

    runs_done: int
    runs: int
    specs: Sequence[RunSpec]  # those under way
    step: int  # of the furthest of them
    steps: int
    val: list[float]  # the best so far
    test: list[float]  # at that step
    seconds: float  # since they began here

    @classmethod
    def of(cls, group: Group, done: int, total: int, seconds: float) -> Progress:
        """What there is to tell of `group`."""
        best = group.state.best.cpu()
        return cls(
            done,
            total,
            group.specs,
            int(group.state.step.max()),
            group.specs[0].steps,
            best[:, 0].tolist(),
            best[:, 1].tolist(),
            seconds,
        )


class Watch:
    """Looks at a group between its steps: tells how it goes, and has its state saved."""

    def __init__(
        self,
        group: Group,
        tell: Callable[[Group, float], None],
        save: Callable[[Group], None],
        *,
        save_seconds: float,
    ) -> None:
        self._group, self._tell, self._save = group, tell, save
        self._save_seconds = save_seconds
        self._begun = self._looked = self._saved = time.perf_counter()

    def look(self) -> int:
        """The most steps that any run still goes on."""
        left = int(self._group.steps_left().max())  # waits for the device
        now = time.perf_counter()
        self._group.state.seconds += (now - self._looked) / len(self._group.specs)
        self._looked = now
        if left and now - self._saved >= self._save_seconds:
            self._save(self._group)
            self._saved = time.perf_counter()
        self._tell(self._group, now - self._begun)
        return left


def run_steps(group: Group, watch: Watch, *, capture: bool) -> None:
    """Train `group` to its end. A signal to stop waits for the end of a step."""
    left, burst = watch.look(), 1
    if not left:
        return
    with signals_between_steps() as between:
        step: Callable[[], Any] = captured_step(group) if capture else group.train_step
        while left:
            begun = time.perf_counter()
            for _ in range(burst):
                step()
                between()
            _wait(group.device)
            each = max((time.perf_counter() - begun) / burst, SHORTEST)
            left = watch.look()
            burst = max(1, min(left, 2 * burst, int(LOOK_SECONDS / each)))


@contextmanager
def signals_between_steps() -> Iterator[Callable[[], None]]:
    """Ctrl-C, and SIGTERM where the program handles it, wait until what this gives is called.

    A second one does not wait. Only the main thread gets signals; elsewhere nothing changes.
    """
    waiting: list[int] = []
    handlers = {int(n): h for n in SIGNALS if callable(h := signal.getsignal(n))}
    if threading.current_thread() is not threading.main_thread():
        handlers = {}

    def wait(number: int, frame: FrameType | None) -> None:
        waiting.append(number)
        if len(waiting) > 1:
            handlers[number](number, frame)

    def between() -> None:
        if waiting:
            handlers[waiting[0]](waiting[0], None)

    try:
        for number in handlers:
            signal.signal(number, wait)
        yield between
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    between()


def captured_step(group: Group) -> Callable[[], Any]:
    """The step as one CUDA graph, after a few steps that are taken (and count) one by one.

    A module whose step cannot be captured is trained without, and a warning says so.
    """
    side = torch.cuda.Stream(group.device)  # type: ignore[no-untyped-call]
    side.wait_stream(torch.cuda.current_stream(group.device))
    constants = Constants()
    with torch.cuda.stream(side):
        for _ in range(WARM_UP):
            with constants.noting():
                group.train_step()
    torch.cuda.current_stream(group.device).wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    try:
        constants.check()
        with constants.used(), torch.cuda.graph(graph):
            group.train_step()
    except Exception as e:  # whatever it is, the same step was taken before
        if out_of_memory(e):
            raise
        torch.cuda.synchronize(group.device)
        group.whole = True  # nothing was computed while the step was captured
        said = str(_origin(e)).strip().partition("\n")[0][:160]
        warnings.warn(
            f"the step of {group.specs[0].model} cannot be captured as a CUDA graph ({said}); it "
            "trains without, more slowly",
            stacklevel=2,
        )
        return group.train_step
    return partial(_replay, graph, group)


def _origin(error: BaseException) -> BaseException:
    """The first of the errors that led to this one: the end of a failed capture raises anew."""
    before = error.__cause__ or error.__context__
    return error if before is None else _origin(before)


def _replay(graph: torch.cuda.CUDAGraph, group: Group) -> None:
    """Take the captured step; `group` is an argument so that its tensors live as long."""
    graph.replay()


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def runs_that_fit(
    make: Callable[[], Group], wanted: int, device: torch.device, *, share: float = 1.0
) -> int:
    """How many runs to train at once, from the memory that a step of one run takes.

    What the runs share is counted for each of them, which leaves some room; `share` is what of the
    free memory is for this process.
    """
    if wanted == 1:
        return 1
    torch.cuda.empty_cache()
    before = torch.cuda.memory_allocated(device)
    group = make()
    group.train_step()  # the first may take more, to compile and to try kernels
    torch.cuda.synchronize(device)
    torch.cuda.reset_peak_memory_stats(device)
    group.train_step()
    each = max(1, torch.cuda.max_memory_allocated(device) - before)
    del group
    torch.cuda.empty_cache()
    free, _ = torch.cuda.mem_get_info(device)
    return even_share(wanted, max(1, int(MEMORY_SHARE * share * free / each)))


def even_share(wanted: int, fit: int) -> int:
    """The size of the groups when `wanted` runs, of which `fit` fit, are spread evenly.

    >>> even_share(10, 7), even_share(10, 20), even_share(10, 3)
    (5, 10, 3)
    """
    return math.ceil(wanted / math.ceil(wanted / fit))


def out_of_memory(error: BaseException | None) -> bool:
    """Whether this, or what it came from, is the GPU's memory; a failed capture raises anew."""
    while error is not None:
        if isinstance(error, torch.OutOfMemoryError):
            return True
        error = error.__cause__ or error.__context__
    return False
