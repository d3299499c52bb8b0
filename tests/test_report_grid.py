from __future__ import annotations

from rich.console import Console
from rich.measure import Measurement

from pdgnn.report.grid import Grid


def test_the_least_width_holds_what_must_not_wrap_and_the_longest_word():
    grid = Grid(gap=1)
    grid.add_column("model")
    grid.add_column("test", no_wrap=True)
    grid.add_row("PD-GAT (rewired)", "62.47 ± 8.68")
    console = Console(width=100)
    measured = Measurement.get(console, console.options, grid)
    assert measured == (len("(rewired) 62.47 ± 8.68 "), len("PD-GAT (rewired) 62.47 ± 8.68 "))
    narrow = Console(width=measured.minimum)
    with narrow.capture() as captured:
        narrow.print(grid)
    lines = [line.rstrip() for line in captured.get().splitlines()]
    assert lines == ["model     test", "PD-GAT    62.47 ± 8.68", "(rewired)"]


def test_a_grid_without_words_is_measured_too():
    console = Console(width=100)
    empty = Grid()
    empty.add_column("")
    assert Measurement.get(console, console.options, empty) == (2, 2)
