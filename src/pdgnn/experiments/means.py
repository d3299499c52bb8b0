"""With what runs of an experiment are trained, and where they are kept."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from os import PathLike

from pdgnn.errors import check_number, check_whole
from pdgnn.training.engines import Engine, Job, find_engine
from pdgnn.training.loop import Progress
from pdgnn.training.spec import RunSpec
from pdgnn.training.trackers import Tracker, find_tracker, tracker_place

__all__ = ["Means", "TimeUpError", "Until"]


class TimeUpError(Exception):
    """No group begins any more."""


@dataclass(frozen=True, kw_only=True)
class Means:
    """What the runs are trained with, and where they are kept."""

    device: str = "cpu"
    store: str | PathLike[str] | None = None
    engine: str | Engine | None = None
    workers: int = 1
    address: str | None = None
    tracker: str | Tracker | None = None
    minutes: float | None = None
    most_runs: int | None = None
    save_seconds: float = 60.0
    curves: bool = False
    recompute: bool = False
    command: str = ""
    progress: Callable[[Progress], None] | None = None
    tell: Callable[[str], None] | None = None

    def __post_init__(self) -> None:
        """Check what can be checked before anything is opened."""
        if self.minutes is not None:
            check_number("minutes", self.minutes)
        if self.most_runs is not None:
            check_whole("most_runs", self.most_runs)
        if isinstance(self.tracker, str):
            tracker_place(self.tracker)

    def say(self, text: str) -> None:
        """Tell of what goes on, in a line."""
        if self.tell is not None:
            self.tell(text)

    def found_tracker(self) -> Tracker | None:
        """The tracker, by its name or as it is."""
        return find_tracker(self.tracker) if isinstance(self.tracker, str) else self.tracker

    def found_engine(self) -> Engine:
        """The engine, by its name or as it is."""
        if self.engine is None or isinstance(self.engine, str):
            return find_engine(self.engine or "here", workers=self.workers, address=self.address)
        return self.engine


class Until:
    """An engine that begins no share after a moment."""

    def __init__(self, engine: Engine, moment: float) -> None:
        self._engine, self._moment = engine, moment
        self.elsewhere = getattr(engine, "elsewhere", False)

    def train(self, job: Job) -> None:
        """Train shares while there is time."""

        def in_time(share: list[RunSpec]) -> None:
            left = any(spec.key not in job.ledger.results for spec in share)
            if left and time.monotonic() > self._moment:
                raise TimeUpError

        self._engine.train(replace(job, check=in_time))
