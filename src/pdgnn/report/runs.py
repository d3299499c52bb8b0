"""Stored runs for people and for other programs: a table for a terminal, and flat columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.cells import cell_len
from rich.console import Group, RenderableType
from rich.text import Text

from pdgnn.report.escape import one_line
from pdgnn.report.grid import Grid
from pdgnn.report.training import cells, columns, differing
from pdgnn.training.store import StoredRun
from pdgnn.training.summary import Summary, summarize, to_arrow

__all__ = ["count_line", "flat_runs", "newest_last", "runs_text"]

ABOUT = "scores in percent; test at each run's best validation step"
MANY = 1000
"""Settings above which the table does not adapt to the width of a terminal."""
OWN = ("data", "provenance", "finished")
"""What a store knows of a run besides its settings and numbers."""


def runs_text(
    runs: Sequence[StoredRun], provenances: Mapping[int, Mapping[str, Any]]
) -> RenderableType:
    """A line for each setting, splits and seeds taken together, and a last one that counts."""
    settings = newest_last(runs)
    counted = Text(count_line(runs, provenances, settings=len(settings)))
    if not settings:
        return counted
    rows = [summary for _, summary in settings]
    several = _several_versions(runs)
    table = Grid()
    heads = ["dataset", *(["data"] if several else []), *columns(rows)]
    words = heads.index("model") + 1
    names = differing(row.spec for row in rows)
    lines = []
    for data, row in settings:
        version = [data[:8] if row.spec.dataset in several else ""] if several else []
        lines.append([one_line(row.spec.dataset), *version, *cells(row, names)])
    if len(lines) > MANY:
        return Group(_aligned([heads, *lines], words), Text(ABOUT, style="dim"), counted)
    for i, head in enumerate(heads):
        table.add_column(one_line(head), justify="left" if i < words else "right", no_wrap=True)
    for line in lines:
        table.add_row(*line)
    return Group(table, Text(ABOUT, style="dim"), counted)


def _aligned(lines: Sequence[Sequence[str]], words: int) -> Text:
    """The lines as a table of rich prints them, which takes minutes for tens of thousands."""
    widths = [max(map(cell_len, column)) for column in zip(*lines, strict=True)]

    def padded(i: int, text: str) -> str:
        space = " " * (widths[i] - cell_len(text))
        return text + space if i < words else space + text

    joined = ("  ".join(padded(i, one_line(t)) for i, t in enumerate(line)) for line in lines)
    return Text("\n".join(joined), no_wrap=True, overflow="ignore")


def newest_last(runs: Sequence[StoredRun]) -> list[tuple[str, Summary]]:
    """The settings of `runs`, each with the fingerprint of its data, by when they were last run."""
    place = {(run.data, run.result.spec.key): i for i, run in enumerate(runs)}
    by_data: dict[str, list[StoredRun]] = {}
    for run in runs:
        by_data.setdefault(run.data, []).append(run)
    found = [
        (data, summary)
        for data, of_data in by_data.items()
        for summary in summarize(run.result for run in of_data)
    ]
    return sorted(found, key=lambda x: max(place[x[0], r.spec.key] for r in x[1].results))


def count_line(
    runs: Sequence[StoredRun], provenances: Mapping[int, Mapping[str, Any]], *, settings: int
) -> str:
    """How many runs, settings, datasets and machines, what diverged, and when it was finished."""
    if not runs:
        return "0 runs"
    said = [
        f"{_many(len(runs), 'run')} of {_many(settings, 'setting')}",
        f"on {_many(len({run.result.spec.dataset for run in runs}), 'dataset')}",
    ]
    known = [run.provenance for run in runs if run.provenance in provenances]
    machines = {str(provenances[i].get("machine", "")) for i in known if i is not None} - {""}
    unknown = len(runs) - len(known)
    if machines:
        more = f" ({unknown:,} not known)" if unknown else ""
        said.append(f"by {_many(len(machines), 'machine')}{more}")
    words = " ".join(said)
    diverged = sum(run.result.diverged_at is not None for run in runs)
    words += f", {diverged:,} diverged" if diverged else ""
    days = sorted({run.finished[:10] for run in runs if run.finished})
    if days:
        words += f", finished {days[0]}" + (f" to {days[-1]}" if len(days) > 1 else "")
    return one_line(words)


def flat_runs(runs: Sequence[StoredRun], wanted: Sequence[str] | None = None) -> Any:
    """A `pyarrow.Table` with a row for each run, or the columns `wanted` of it.

    As :func:`pdgnn.training.to_arrow` has it, and also the fingerprint of its data, the id of its
    provenance and the time when it was finished; called ``run.data`` and so on where an option of
    a model has that name.
    """
    import pyarrow as pa

    from pdgnn.errors import InputError

    table = to_arrow(run.result for run in runs)
    for name in OWN:
        kind = pa.int64() if name == "provenance" else pa.string()
        column = pa.array([getattr(run, name) for run in runs], kind)
        taken = name in table.column_names
        table = table.append_column(f"run.{name}" if taken else name, column)
    if wanted is None:
        return table
    unknown = [name for name in wanted if name not in table.column_names]
    if unknown:
        known = ", ".join(table.column_names)
        raise InputError(f"there is no column {unknown[0]!r}; the columns are {known}")
    return table.select(list(dict.fromkeys(wanted)))


def _several_versions(runs: Sequence[StoredRun]) -> set[str]:
    """The datasets that occur with different contents."""
    found: dict[str, set[str]] = {}
    for run in runs:
        found.setdefault(run.result.spec.dataset, set()).add(run.data)
    return {dataset for dataset, data in found.items() if len(data) > 1}


def _many(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
