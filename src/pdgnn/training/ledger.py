"""The results and states of one training: in memory, and on disk where it has a folder or store."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from math import nan
from typing import Any, Protocol

from pdgnn.training.checkpoint import RunFolder
from pdgnn.training.group import Group
from pdgnn.training.inputs import InputCache
from pdgnn.training.loop import Progress
from pdgnn.training.provenance import call, machine, this_command
from pdgnn.training.share import Settings
from pdgnn.training.spec import RunResult, RunSpec
from pdgnn.training.state import Row, RunState

__all__ = ["Ledger", "RunTracker"]

WAIT_SECONDS = 0.3
"""Pause between two looks at whether other processes have finished their runs."""


class RunTracker(Protocol):
    """Called with each finished run; see :mod:`pdgnn.training.trackers`."""

    def run(self, result: RunResult, /) -> None:
        """This run is finished."""


class Ledger:
    """Stores results and states from the engines, and hands out the runs still to train.

    Args:
        wanted: The runs of the training, by key.
        folder: Where they are kept; other processes may train into it at the same time.
        tell: Who is told how it goes.
        tracker: Who is told of each run that is finished here. Its errors are warnings.
        provenance: Facts about this training, kept with the runs that it finishes; default: the
            machine, versions, command, device and date.
    """

    def __init__(
        self,
        wanted: Mapping[str, RunSpec],
        folder: RunFolder | None = None,
        tell: Callable[[Progress], None] | None = None,
        *,
        tracker: RunTracker | None = None,
        provenance: Mapping[str, Any] | None = None,
    ) -> None:
        self.wanted, self.folder, self.tell = wanted, folder, tell
        self.results: dict[str, RunResult] = {}
        self.begun: dict[str, Row] = {}
        self.taken: set[str] = set()  # the keys of those that an engine is at
        self._tracker, self._provenance = tracker, provenance
        self._device = ""
        self._about: int | None = None
        self._kept: dict[str, Any] = {}

    @property
    def total(self) -> int:
        """Runs that are wanted."""
        return len(self.wanted)

    def pending(self) -> list[RunSpec]:
        """The runs that have no result yet, in their order."""
        return [spec for key, spec in self.wanted.items() if key not in self.results]

    def begin(self, inputs: InputCache, settings: Settings) -> dict[str, Row]:
        """Take over what the folder has of these runs; the states of those that are under way.

        :meth:`take` adds to these states what other processes have left since.
        """
        self._device = str(settings.device)
        if self.folder is None:
            return {}
        self._kept = {"curves": settings.curves, "keep": settings.keep}
        names = sorted({spec.dataset for spec in self.wanted.values()})
        self.folder.check_tasks({name: inputs.tasks[name].fingerprint() for name in names})
        self._look(self.pending())
        self.folder.drop_states(self.results)
        missing = self.wanted.keys() - self.results.keys()
        self.begun = self.folder.states(missing, **self._kept)
        return self.begun

    def take(self, share: Sequence[RunSpec]) -> list[RunSpec]:
        """Those of `share` to train now, which are nobody else's until they are finished."""
        left = [spec for spec in share if spec.key not in self.results]
        if self.folder is not None and left:
            left = self._claimed(left, self.folder)
        self.taken |= {spec.key for spec in left}
        return left

    def _claimed(self, left: list[RunSpec], folder: RunFolder) -> list[RunSpec]:
        more = any(self._kept.values())  # a finished run may lack what is to be kept of it
        mine = folder.claim(left, again=more)
        self._look([spec for spec in left if more or spec.key not in mine])
        found = [spec for spec in left if spec.key in self.results]
        if more and found:
            folder.release(found)
        mine -= self.results.keys()
        self.begun.update(folder.states(mine, **self._kept))
        return [spec for spec in left if spec.key in mine]

    def free(self) -> list[RunSpec]:
        """The runs that are not finished, here or elsewhere, and that no other process is at."""
        if self.folder is None:
            return self.pending()
        elsewhere = self.folder.claimed_by_others(self.pending())
        self._look(self.pending())  # what is neither claimed nor finished now is free
        return [spec for spec in self.pending() if spec.key not in elsewhere]

    def wait(self) -> None:
        """Let other processes go on for a moment, and tell how far all is."""
        pending = self.pending()
        if self.tell is not None and pending:
            none = [nan] * len(pending)
            done = len(self.results)
            steps = pending[0].steps
            self.tell(Progress(done, self.total, pending, 0, steps, none, none, 0.0))
        time.sleep(WAIT_SECONDS)

    def _look(self, specs: Sequence[RunSpec]) -> None:
        """Take over which of these runs are finished."""
        if self.folder is not None and specs:
            found = self.folder.results(specs, **self._kept)
            self.results |= {spec.key: found[spec.key] for spec in specs if spec.key in found}

    # --- what train_share calls: see pdgnn.training.share.Keeper ----------------------------------

    def progress(self, group: Group, seconds: float) -> None:
        """Tell of a group that trains in this process."""
        if self.tell is not None:
            self.tell(Progress.of(group, len(self.results), self.total, seconds))

    def save_state(self, specs: Sequence[RunSpec], state: RunState) -> None:
        """Keep the state of these runs, if there is a folder."""
        if self.folder is not None:
            self.folder.save_state(specs, state)

    def add_results(self, results: Sequence[RunResult]) -> None:
        """These runs are finished."""
        if self.folder is not None:
            self.folder.add_results(results, self._provenance_id())
        self.results.update({r.spec.key: r for r in results})
        self.taken -= self.results.keys()
        if self.folder is not None:
            self.folder.drop_states(self.results)
        self._track(results)

    def _provenance_id(self) -> int:
        """Of this training; noted with the first runs that it finishes."""
        if self._about is None:
            assert self.folder is not None
            about = self._provenance
            if about is None:
                about = machine() | call(this_command(), self._device)
            self._about = self.folder.store.provenance_id(about)
        return self._about

    def _track(self, results: Sequence[RunResult]) -> None:
        for result in results:
            if self._tracker is None:
                return
            try:
                self._tracker.run(result)
            except Exception as e:
                said = f"the tracker has failed and is told no more: {type(e).__name__}: {e}"
                warnings.warn(said, stacklevel=2)
                self._tracker = None
