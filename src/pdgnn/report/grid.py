"""Tables for a terminal: columns without lines between them, and no number cut short."""

from __future__ import annotations

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions
from rich.measure import Measurement
from rich.table import Table

__all__ = ["Grid"]


class Grid(Table):
    """A table without lines, `gap` spaces between its columns.

    The least width that it asks for holds all that must not wrap, and the longest word of the other
    columns. Where it is given less, rich cuts cells short, and 62.47 ± 8.68 becomes 62.47 ± 8.6.
    """

    def __init__(self, *, gap: int = 2) -> None:
        super().__init__(box=None, padding=(0, gap, 0, 0), header_style="dim")

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        """The least width, and the one at which nothing wraps."""
        whole = super().__rich_measure__(console, options).maximum
        spare = 0
        for column in self.columns:
            if not column.no_wrap:
                texts = [str(text) for text in (column.header, *column.cells)]
                words = [word for text in texts for word in text.split()]
                spare += max(map(cell_len, texts)) - max(map(cell_len, words), default=0)
        return Measurement(whole - spare, whole)
