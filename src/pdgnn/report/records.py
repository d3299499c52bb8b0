"""The records beside the published bests: for a terminal and as Markdown."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean

from rich.console import Group, RenderableType
from rich.text import Text

from pdgnn.experiments.outcome import signed
from pdgnn.experiments.records.outcome import RIVALS, Line, RecordTable
from pdgnn.experiments.records.published import PublishedRecord, published_records
from pdgnn.experiments.records.spaces import FRESH_SEEDS, METHODS, space
from pdgnn.experiments.records.winners import winner
from pdgnn.experiments.significance import LEVEL
from pdgnn.models import MODELS
from pdgnn.report.escape import one_line
from pdgnn.report.lines import MARKS
from pdgnn.report.tables import indented, pipes, plain, plain_grid
from pdgnn.report.training import METRIC_NAMES

__all__ = ["records_list", "records_markdown", "records_text", "setting_text"]

HEADS = ("method", "test", "validation", "diff.", "tried", "runs", "p, GCN", "p, PD-GCN")
ABLATION_HEADS = ("PD-Net", "test", "validation", "diff.", "runs", "p")
NOTES = (
    f"Test: mean ± std over all splits with {len(FRESH_SEEDS)} seeds each, in percent, of the "
    "setting that the search chose by its mean validation score; no stage of a search has these "
    "seeds. Validation: the mean of the same runs. Tried: the settings of the search.",
    "Diff.: less the best published score.",
    "p: paired t test over splits, each the mean of its seeds, against the tuned GCN and against "
    "PD-GCN of the paper's protocol, with the correction of Nadeau and Bengio; adjusted by Holm "
    f"over the table. * where p < {LEVEL}.",
)
ABLATION_NOTE = (
    "The recipe that validation chose, with one part changed. Diff. and p, by the same test, are "
    "against the recipe as tuned on the same splits and seeds, also where a variant has fewer."
)
MOST_OTHERS = 3
"""Published scores that are named beside the best."""
SHORT = {"alpha": "α", "gamma": "γ", "weight_decay": "decay"}
USED = ("depth", "width", "alpha", "gamma", "dropout")
"""Fields of which a model may have no use."""
FIELDS = (*USED, "lr", "weight_decay", "steps")


def records_text(table: RecordTable) -> RenderableType:
    """For a terminal of 100 columns: a block for each graph."""
    parts: list[RenderableType] = []
    for dataset in table.datasets:
        head = Text(f"\n{one_line(dataset)}", style="bold")
        parts.append(head.append(f"  {_about(table, dataset)}", style="not bold dim"))
        made = plain_grid(HEADS)
        for method in table.methods:
            line = table.lines[dataset, method.name]
            made.add_row(*map(Text, _cells(line, table.published[dataset])))
        parts += [
            indented(made),
            *(indented(Text(s, style="dim")) for s in _settings(table, dataset)),
        ]
        if dataset in table.ablations:
            made = plain_grid(ABLATION_HEADS)
            for cells in _ablation(table.ablations[dataset]):
                made.add_row(*map(Text, cells))
            parts += [Text(), indented(made)]
    return Group(*parts, Text(), *(indented(Text(n, style="dim")) for n in _notes(table)))


def records_markdown(table: RecordTable) -> str:
    """The same as Markdown; graphs and methods without runs have empty cells."""
    parts = []
    for dataset in table.datasets:
        parts.append(f"### {plain(dataset)}\n\n{plain(_about(table, dataset))}")
        rows = [
            _cells(table.lines[dataset, method.name], table.published[dataset])
            for method in table.methods
        ]
        parts.append(pipes(HEADS, rows))
        if settings := _settings(table, dataset):
            parts.append("\n".join(f"- {plain(s)}" for s in settings))
        if dataset in table.ablations:
            parts.append(pipes(ABLATION_HEADS, _ablation(table.ablations[dataset])))
    notes = "\n".join(f"- {plain(note)}" for note in _notes(table))
    return "\n\n".join([*parts, notes]) + "\n"


def _notes(table: RecordTable) -> list[str]:
    """What a reader must know beside the numbers."""
    shown = [*table.lines.values(), *(line for some in table.ablations.values() for line in some)]
    used = {line.spec.precision for line in shown if line.spec is not None and line.test}
    marks = [f"{mark} trained in {name}." for name, mark in MARKS.items() if name in used]
    return [*NOTES, *([ABLATION_NOTE] if table.ablations else []), *marks]


def _about(table: RecordTable, dataset: str) -> str:
    """``ROC AUC; best published: 85.91 ± 0.74, Polynormer-r (...); also ...``."""
    metric = METRIC_NAMES.get(table.metrics[dataset], table.metrics[dataset])
    first, *others = [_published(record) for record in published_records(dataset)] or [""]
    said = f"{metric}; best published: {first or 'not known'}"
    return f"{said}; also {', '.join(others[:MOST_OTHERS])}" if others else said


def _published(record: PublishedRecord) -> str:
    spread = "" if record.std is None else f" ± {record.std:.2f}"
    note = f" ({record.note})" if record.note else ""
    return f"{record.mean:.2f}{spread}, {record.by}{note}"


def _cells(line: Line, best: PublishedRecord | None) -> list[str]:
    """What stands under :data:`HEADS`."""
    difference = line.mean - best.mean if best is not None else math.nan
    return [
        line.label,
        _score(line),
        _number(line.val_mean),
        _signed(difference),
        f"{line.tried}" if line.tried else "",
        _runs(line),
        *(_p((line.p or {}).get(name, math.nan)) for name in RIVALS),
    ]


def _ablation(lines: Sequence[Line]) -> list[list[str]]:
    """What stands under :data:`ABLATION_HEADS`."""
    first = lines[0]
    return [
        [
            line.label,
            _score(line),
            _number(line.val_mean),
            "" if line is first else _signed(_difference(line, first)),
            _runs(line),
            _p((line.p or {}).get("as tuned", math.nan)),
        ]
        for line in lines
    ]


def _difference(line: Line, other: Line) -> float:
    """Between the means over the splits, of the seeds that both have; nan without any."""
    ours, theirs = line.beside(other)
    return fmean(ours) - fmean(theirs) if ours else math.nan


def _settings(table: RecordTable, dataset: str) -> list[str]:
    """A sentence for each method with a setting."""
    found = []
    for method in table.methods:
        line = table.lines[dataset, method.name]
        if line.weight is not None:
            crossed = line.spec is None or line.spec.options.get("crossed")
            by = "" if crossed else ", by scores of the nodes that chose the network's step"
            found.append(f"{line.label}: the trees weigh {line.weight:g}{by}")
        elif line.spec is not None:
            found.append(f"{line.label}: {setting_text(line)}")
    return found


def setting_text(line: Line) -> str:
    """The fields and options of a setting that matter: ``depth 2, lr 0.01, rounds 20``."""
    spec = line.spec
    if spec is None:
        return ""
    if spec.model in MODELS:
        names = [n for n in FIELDS if n not in USED or spec.uses(n)]
        own = {n: v for n, v in spec.options.items() if n not in spec.defaults}
    else:  # trees: all options, as their defaults stand nowhere else
        names, own = ["lr", "steps"], dict(spec.options)
    said = [f"{SHORT.get(n, n)} {getattr(spec, n):g}" for n in names]
    return ", ".join([*said, *(f"{name} {value}" for name, value in own.items())])


def _score(line: Line) -> str:
    mark = "" if line.spec is None else MARKS.get(line.spec.precision, "")
    spread = f" ± {line.std:.2f}" if math.isfinite(line.std) else ""
    return f"{line.mean:.2f}{spread}{mark}" if math.isfinite(line.mean) else ""


def _runs(line: Line) -> str:
    if not line.wanted:
        return ""
    return f"{len(line.test)}" if line.whole else f"{len(line.test)}/{line.wanted}"


def _number(value: float) -> str:
    return f"{value:.2f}" if math.isfinite(value) else ""


def _signed(value: float) -> str:
    return signed(value) if math.isfinite(value) else ""


def _p(value: float) -> str:
    return f"{value:.3f}{'*' if value < LEVEL else ''}" if math.isfinite(value) else ""


def records_list(datasets: Sequence[str]) -> RenderableType:
    """What can be asked for: the graphs, the settings of each method, and what was measured."""
    made = plain_grid(("graph", "best published", *METHODS))
    for dataset in datasets:
        best = published_records(dataset)
        said = f"{best[0].mean:.2f}, {best[0].by}" if best else ""
        made.add_row(*map(Text, (dataset, said, *(_size(name, dataset) for name in METHODS))))
    return Group(
        made, Text("\nsettings of each search; * measured, --final trains it", style="dim")
    )


def _size(method: str, dataset: str) -> str:
    if not METHODS[method].model:
        return "-"
    settings = len(space(method, dataset))
    return f"{settings}{'*' if winner(dataset, method) else ''}"
