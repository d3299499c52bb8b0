"""A share of runs, trained in this process: grouped by shape, sized to the memory at hand."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol, TypeVar

import torch

from pdgnn.devices import at_most_threads
from pdgnn.errors import InputError
from pdgnn.models import Model, find_model
from pdgnn.training.group import Group, dtype_of
from pdgnn.training.inputs import InputCache
from pdgnn.training.loop import Watch, out_of_memory, run_steps, runs_that_fit
from pdgnn.training.spec import RunResult, RunSpec
from pdgnn.training.state import Row, RunState

__all__ = ["Keeper", "Settings", "by_shape", "train_share"]

T = TypeVar("T")


@dataclass(frozen=True)
class Settings:
    """How runs are trained; see :func:`pdgnn.training.train`."""

    device: torch.device
    curves: bool = False
    keep: tuple[str, ...] = ()
    save_seconds: float = 60.0
    save_last: bool = False  # the state at the end too, for runs that may go on
    most_runs: int | None = None
    capture: bool = True
    recompute: bool = False
    memory: float = 1.0  # the share of a GPU's free memory that is for this process


class Keeper(Protocol):
    """Receives the progress, the states and the results of runs."""

    def progress(self, group: Group, seconds: float, /) -> None:
        """A group has trained for so long."""

    def save_state(self, specs: Sequence[RunSpec], state: RunState, /) -> None:
        """The state of these runs between two steps."""

    def add_results(self, results: Sequence[RunResult], /) -> None:
        """These runs are finished."""


def train_share(
    specs: Sequence[RunSpec],
    inputs: InputCache,
    settings: Settings,
    keeper: Keeper,
    begun: Mapping[str, Row],
) -> None:
    """Train these runs to their end and hand all that comes of them to `keeper`.

    Args:
        specs: The runs, as :func:`~pdgnn.training.spec.resolved` gives them.
        inputs: Their tasks, models and inputs.
        settings: How to train them.
        keeper: Who keeps results and states.
        begun: The states of those that were begun before, by key.
    """
    for group in by_shape(specs, inputs.models):
        _Share(inputs, settings, keeper, begun).train(group)


def by_shape(specs: Iterable[RunSpec], models: Mapping[str, Model]) -> list[list[RunSpec]]:
    """The runs that may train together, in the order of their first ones.

    Within a group, runs with the same inputs are neighbours.
    """
    groups: dict[tuple[Any, ...], dict[tuple[Any, ...], list[RunSpec]]] = {}
    for spec in specs:
        model = find_model(spec.model, models)
        fixed = [n for n in model.uses if n not in model.values]
        own = [n for n, option in model.options.items() if not option.value]
        shape = (
            *(spec.dataset, spec.model, spec.steps, spec.precision, spec.reach),
            *((n, getattr(spec, n)) for n in fixed),
            *((n, spec.options[n]) for n in own),
        )
        alike = (spec.alpha, spec.gamma, spec.rewired, spec.options)
        groups.setdefault(shape, {}).setdefault(alike, []).append(spec)
    return [[spec for some in group.values() for spec in some] for group in groups.values()]


@dataclass
class _Share:
    """Runs of one shape."""

    inputs: InputCache
    settings: Settings
    keeper: Keeper
    begun: Mapping[str, Row]

    def train(self, specs: list[RunSpec]) -> None:
        """Train them in as few groups as fit the memory.

        What did not fit at first is tried once more: other processes may have left the GPU since.
        """
        once_more = at_once = self._at_once(specs)
        while specs:
            chunk = self._chunk(specs, at_once)
            if _unless_too_large(partial(self._train_chunk, chunk)) is not None:
                done = set(chunk)
                specs = [spec for spec in specs if spec not in done]
                if at_once < once_more:
                    at_once, once_more = once_more, 0
            elif len(chunk) == 1:
                raise _too_large(chunk[0], recompute=self.settings.recompute)
            else:
                at_once = (len(chunk) + 1) // 2

    def _chunk(self, specs: list[RunSpec], at_once: int) -> list[RunSpec]:
        """The first of `specs`, and others whose inputs can be stacked with its own."""
        if at_once == 1:
            return specs[:1]
        dtype = dtype_of(specs[0])
        number, chunk = self.inputs.structure(specs[0], dtype), specs[:1]
        for spec in specs[1:]:
            if len(chunk) == at_once:
                break
            if self.inputs.structure(spec, dtype) == number:
                chunk.append(spec)
            else:
                self.inputs.let_go(spec, dtype)
        return chunk

    def _at_once(self, specs: list[RunSpec]) -> int:
        settings = self.settings
        if settings.most_runs is not None or settings.device.type == "cpu":
            return settings.most_runs or 1
        one = partial(self._group, specs[:1])
        fits = partial(runs_that_fit, one, len(specs), settings.device, share=settings.memory)
        fit = _unless_too_large(fits)
        if fit is None:
            raise _too_large(specs[0], recompute=settings.recompute)
        return fit

    def _group(self, specs: list[RunSpec]) -> Group:
        settings, dtype = self.settings, dtype_of(specs[0])
        self.inputs.keep_only(specs, dtype)
        return Group(
            specs,
            find_model(specs[0].model, self.inputs.models),
            self.inputs.tasks[specs[0].dataset],
            [self.inputs.get(spec, dtype) for spec in specs],
            device=settings.device,
            curves=settings.curves,
            keep=settings.keep,
            begun=[self.begun.get(spec.key) for spec in specs],
            recompute=settings.recompute,
            at_once=False if settings.most_runs == 1 else None,
        )

    def _train_chunk(self, specs: list[RunSpec]) -> list[RunResult]:
        settings, on_gpu = self.settings, self.settings.device.type == "cuda"
        devices = [settings.device] if on_gpu else []
        for device in devices:
            torch.cuda.reset_peak_memory_stats(device)
        with _drawn_apart(devices):
            group = self._group(specs)
            watch = Watch(
                group,
                self.keeper.progress,
                self._save,
                save_seconds=settings.save_seconds,
            )
            try:
                with nullcontext() if on_gpu else at_most_threads(group.threads):
                    run_steps(group, watch, capture=settings.capture and on_gpu)
            except BaseException:
                if group.whole:  # whatever it was that came between two steps
                    self._save(group)
                raise
        if settings.save_last:
            self._save(group)
        results = group.results()
        for device in devices:
            each = torch.cuda.max_memory_allocated(device) // len(results)
            results = [replace(r, memory=each) for r in results]
        self.keeper.add_results(results)
        return results

    def _save(self, group: Group) -> None:
        self.keeper.save_state(group.specs, group.state)


@contextmanager
def _drawn_apart(devices: list[torch.device]) -> Iterator[None]:
    """The generators of these GPUs, from which a module may draw, are after this as before it."""
    before = [torch.cuda.get_rng_state(device) for device in devices]
    try:
        yield
    finally:
        for device, state in zip(devices, before, strict=True):
            torch.cuda.set_rng_state(state, device)


def _unless_too_large(work: Callable[[], T]) -> T | None:
    """What `work` comes to, or None if the memory of the GPU was not enough for it."""
    try:
        return work()
    except RuntimeError as e:
        if not out_of_memory(e):
            raise
    torch.cuda.empty_cache()  # here, where the error no longer holds on to tensors
    return None


def _too_large(spec: RunSpec, *, recompute: bool) -> InputError:
    first = "" if recompute else "let it recompute its layers (--recompute), or "
    return InputError(
        f"a single run of {spec.model} on {spec.dataset} does not fit the memory of the device; "
        f"{first}take a smaller width or depth"
    )
