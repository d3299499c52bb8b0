"""What has come of the runs of one training: in memory, and on disk where there is a place."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from pdgnn.training.checkpoint import RunFolder
from pdgnn.training.group import Group
from pdgnn.training.inputs import InputCache
from pdgnn.training.loop import Progress
from pdgnn.training.share import Settings
from pdgnn.training.spec import RunResult, RunSpec
from pdgnn.training.state import Row, RunState

__all__ = ["Ledger"]


class Ledger:
    """Keeps what engines hand it, and deals out what is still to train."""

    def __init__(
        self,
        wanted: Mapping[str, RunSpec],
        folder: RunFolder | None = None,
        tell: Callable[[Progress], None] | None = None,
    ) -> None:
        self.wanted, self.folder, self.tell = wanted, folder, tell
        self.results: dict[str, RunResult] = {}

    @property
    def total(self) -> int:
        """Runs that are wanted."""
        return len(self.wanted)

    def pending(self) -> list[RunSpec]:
        """The runs that have no result yet, in their order."""
        return [spec for key, spec in self.wanted.items() if key not in self.results]

    def begin(self, inputs: InputCache, settings: Settings) -> dict[str, Row]:
        """Take over what the folder has of these runs; the states of those that are under way."""
        if self.folder is None:
            return {}
        names = sorted({spec.dataset for spec in self.wanted.values()})
        self.folder.check_tasks({name: inputs.tasks[name].fingerprint() for name in names})
        done = self.folder.results(self.wanted, curves=settings.curves, keep=settings.keep)
        self.results = {key: done[key] for key in self.wanted if key in done}
        self.folder.drop_states(self.results)
        missing = self.wanted.keys() - self.results.keys()
        return self.folder.states(missing, curves=settings.curves, keep=settings.keep)

    def take(self, share: Sequence[RunSpec]) -> list[RunSpec]:
        """Those of `share` to train now, which are nobody else's until they are finished."""
        return [spec for spec in share if spec.key not in self.results]

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
        self.results.update({r.spec.key: r for r in results})
        if self.folder is not None:
            self.folder.add_results(results)
            self.folder.drop_states(self.results)
