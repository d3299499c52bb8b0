"""What a reproduction is going to do, as text for a terminal, and the list of experiments."""

from __future__ import annotations

from collections.abc import Mapping

from rich.console import Group, RenderableType
from rich.text import Text

from pdgnn.experiments.catalog import Experiment
from pdgnn.experiments.estimate import ReproductionPlan
from pdgnn.report.escape import one_line
from pdgnn.report.grid import Grid

__all__ = ["experiments_text", "plain_time", "plan_text"]


def experiments_text(experiments: Mapping[str, Experiment]) -> RenderableType:
    """A line for each: its name, what it is, its rows and datasets, and what is not there yet."""
    table = Grid()
    for column in ("name", "what", "rows", "graphs"):
        table.add_column(column, justify="right" if column in ("rows", "graphs") else "left")
    for e in experiments.values():
        rows, graphs = len(e.rows), len(e.datasets)
        table.add_row(e.name, f"{e.title}: {e.about}", str(rows or "-"), str(graphs or "-"))
    absent = dict.fromkeys(r.label for e in experiments.values() for r in e.rows if r.absent)
    if not absent:
        return table
    return Group(table, Text(f"\nno model yet for the rows {', '.join(absent)}", style="dim"))


def plan_text(plan: ReproductionPlan) -> RenderableType:
    """A line for each row and dataset, and the sum."""
    table = Grid()
    for column in ("graph", "row", "settings", "runs x steps of each stage", "done", "time left"):
        left = column in ("graph", "row")
        table.add_column(
            column, justify="left" if left else "right", no_wrap=not left, overflow="fold"
        )
    for cell in plan.cells:
        table.add_row(
            one_line(cell.dataset),
            one_line(cell.label),
            str(cell.settings),
            ", ".join(f"{runs:,} x {steps:,}" for runs, steps in cell.stages),
            f"{cell.done:,}",
            "" if cell.seconds is None else plain_time(cell.seconds),
        )
    if not plan.runs:
        return Group(table, Text("nothing is left to train"))
    total = f"at most {plan.runs:,} runs are left, of {plan.run_steps:,} steps together"
    if plan.seconds is not None:
        total += f", about {plain_time(plan.seconds)} by a short measurement"
    return Group(table, Text(total))


def plain_time(seconds: float) -> str:
    """A rough time in words.

    >>> plain_time(0.4), plain_time(75), plain_time(7400), plain_time(300_000)
    ('1 s', '75 s', '2.1 h', '3.5 days')
    """
    if seconds < 120:
        return f"{max(1, round(seconds))} s"
    if seconds < 7200:
        return f"{round(seconds / 60)} min"
    return f"{seconds / 3600:.1f} h" if seconds < 172_800 else f"{seconds / 86_400:.1f} days"
