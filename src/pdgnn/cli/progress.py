"""Training for the commands: how far it is, for whoever watches, and what is kept if stopped."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pdgnn.cli.terminal import tell

if TYPE_CHECKING:
    from pdgnn.training import Progress, RunResult, RunSpec, Task
    from pdgnn.training.engines import Engine

__all__ = [
    "WorkersOption",
    "now_and_then",
    "trained_with_progress",
    "watching",
    "worked_with_progress",
]

LINE_SECONDS = 30.0
"""How often a line says how far it is, where there is no terminal to show it on."""
WorkersOption = Annotated[
    int,
    typer.Option(
        help="Processes that share the runs out: one by one on a CPU, where as many as there are "
        "cores is fastest, by groups on a GPU."
    ),
]


def trained_with_progress(
    specs: list[RunSpec],
    *,
    tasks: dict[str, Task] | None = None,
    device: str,
    folder: Path | None = None,
    store: Path | None = None,
    curves: bool = False,
    recompute: bool = False,
    workers: int = 1,
    engine: Engine | None = None,
) -> list[RunResult]:
    """Train, show how it goes, and say what is kept if it is stopped."""
    from pdgnn.training.trainer import train

    try:
        with watching(specs) as progress:
            return train(
                specs,
                tasks=tasks,
                device=device,
                folder=folder,
                store=store,
                curves=curves,
                recompute=recompute,
                workers=workers,
                engine=engine,
                progress=progress,
            )
    except KeyboardInterrupt as e:
        kept = "nothing is kept, as there was no --folder"
        if folder is not None or store is not None:
            kept = f"what is done is in {folder or store}; run the same command again to go on"
        tell(f"stopped; {kept}")
        raise typer.Exit(130) from e


def worked_with_progress(work: Any) -> bool:
    """Do the work of a table, show how it goes, and say what is kept if it is stopped.

    `work` has ``means`` with a store, and ``run()``, which says whether it came to its end.
    """
    means = work.means
    try:
        with watching() as progress:
            work.means = replace(means, progress=progress)
            ended: bool = work.run()
    except KeyboardInterrupt as e:
        tell(f"stopped; what is done is in {means.store}; run the same command again to go on")
        raise typer.Exit(130) from e
    return ended


@contextmanager
def watching(specs: Sequence[RunSpec] = ()) -> Iterator[Callable[[Progress], None]]:
    """What to call with the progress: a bar if a person is watching, else a line now and then.

    Of `specs`, where they are known, it names what they differ in.
    """
    pace = _Pace(specs)
    if not sys.stderr.isatty():
        yield pace.say_now_and_then
        return
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn
    from rich.progress import Progress as Bar

    columns = (BarColumn(bar_width=20), TextColumn("{task.description}", markup=False))
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        shown = bar.add_task("preparing the graph", total=1.0)
        yield lambda p: bar.update(shown, completed=_share(p), description=pace.line(p))


def now_and_then() -> Callable[[str], None]:
    """Says a line on stderr, unless the last one, or the beginning, is only a short time ago."""
    said = time.monotonic()

    def say(line: str) -> None:
        nonlocal said
        if time.monotonic() - said >= LINE_SECONDS:
            said = time.monotonic()
            tell(line)

    return say


class _Pace:
    """How far a training is, and how long it may still take, in a line."""

    def __init__(self, specs: Sequence[RunSpec]) -> None:
        from pdgnn.report.training import differing

        self._names = differing(specs)
        self._first: tuple[float, float] | None = None
        self._say = now_and_then()

    def line(self, p: Progress) -> str:
        """A line on stderr."""
        return f"{p.runs_done}/{p.runs} runs, {_under_way(p, self._names)}{self._left(_share(p))}"

    def say_now_and_then(self, p: Progress) -> None:
        """The line, if the last one is some time ago."""
        self._say(self.line(p))

    def _left(self, share: float) -> str:
        now = time.monotonic()
        self._first = self._first or (share, now)
        begun, since = self._first
        if share <= begun:  # at the beginning, or of another training
            self._first = share, now
            return ""
        seconds = int((now - since) * (1 - share) / (share - begun))
        return f", {seconds // 60}:{seconds % 60:02d} left"


def _share(p: Progress) -> float:
    return (p.runs_done + len(p.specs) * p.step / p.steps) / p.runs


def _under_way(p: Progress, names: list[str]) -> str:
    """``PD-GAT, depth 5 at step 40/1000, best val 91.20 and test 90.85 so far``.

    `names` are the settings in which the runs differ.
    """
    import math

    from pdgnn.report.training import setting

    found = [(v, t) for v, t in zip(p.val, p.test, strict=True) if not math.isnan(v)]
    scores = ""
    if found:
        val, test = (100 * sum(column) / len(found) for column in zip(*found, strict=True))
        said = "" if math.isnan(test) else f" and test {test:.2f}"
        scores = f", best val {val:.2f}{said} so far"
    many = f"{len(p.specs)} of " if len(p.specs) > 1 else ""
    return f"{many}{setting(p.specs[0], names)} at step {p.step}/{p.steps}{scores}"
