"""How the commands talk: results to stdout, all else to stderr, errors in one line."""

from __future__ import annotations

import os
import signal
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

import typer

from pdgnn.errors import PdgnnError
from pdgnn.report.escape import one_line

if TYPE_CHECKING:
    from rich.console import RenderableType

__all__ = ["prepare_process", "show", "tell", "working", "wrapped_errors"]

BROKEN_PIPE = 128 + 13  # as shells report it
PLAIN_WIDTH, WIDE = 100, 10_000


def show(*parts: RenderableType, wide: bool = False) -> None:
    """Print results to stdout, coloured only on a terminal.

    What is `wide` is as wide as it needs to be in a file or a pipe. A terminal that is too narrow
    for a table wraps its lines; no number is cut short.
    """
    from rich.console import Console, Group
    from rich.measure import Measurement

    # a file or a pipe has no width of its own to keep to
    width = None if sys.stdout.isatty() or "COLUMNS" in os.environ else PLAIN_WIDTH
    width = WIDE if width is not None and wide else width
    console = Console(markup=False, highlight=False, width=width)
    width, free = console.width, console.options.update(width=WIDE)
    with console.capture() as captured:
        for part in _single(parts):
            console.width = max(width, Measurement.get(console, free, part).minimum)
            console.print(Group(part), crop=False)  # rich joins bare texts, which then may wrap
    text = captured.get()
    if not console.is_terminal:  # tables are padded to the width of the screen
        text = "".join(f"{line.rstrip()}\n" for line in text.splitlines())
    sys.stdout.write(text)


def _single(parts: Iterable[RenderableType]) -> Iterator[RenderableType]:
    """The parts of groups, each of which may have a width of its own."""
    from rich.console import Group

    for part in parts:
        if isinstance(part, Group):
            yield from _single(part.renderables)
        else:
            yield part


def tell(text: str, *, error: bool = False) -> None:
    """Say one line on stderr."""
    from rich.console import Console
    from rich.text import Text

    prefix = Text("error: ", style="bold red") if error else Text()
    Console(stderr=True).print(prefix + Text(one_line(text), style="not bold"), soft_wrap=True)


@contextmanager
def working(text: str) -> Iterator[Callable[[str], None]]:
    """A spinner on stderr with `text`, if a person is watching; call what it gives to change it."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.text import Text

    with Console(stderr=True).status(Text(one_line(text))) as status:
        yield lambda now: status.update(Text(one_line(now)))


@contextmanager
def wrapped_errors() -> Iterator[None]:
    """Turn what a user can cause into one line and an exit code: 2, or 130 for Ctrl-C."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError as e:  # whoever read this, such as `head`, has had enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(BROKEN_PIPE) from e
    except (PdgnnError, OSError) as e:
        tell(str(e), error=True)
        raise typer.Exit(2) from e
    except MemoryError as e:
        tell("there is not enough memory for this graph; try a smaller one", error=True)
        raise typer.Exit(2) from e
    except KeyboardInterrupt as e:
        tell("stopped")
        raise typer.Exit(130) from e


def prepare_process() -> None:
    """Clean up when asked to end; warn in one line; take streams as they are.

    A stream may be closed, or not of Unicode.
    """
    signal.signal(signal.SIGTERM, _end)
    warnings.formatwarning = lambda message, *_, **__: f"warning: {one_line(str(message))}\n"
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open("w"))  # noqa: SIM115 (until the end)
        getattr(sys, name).reconfigure(errors="replace")


def _end(number: int, _: FrameType | None) -> None:
    raise SystemExit(128 + number)
