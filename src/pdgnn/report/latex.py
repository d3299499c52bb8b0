"""Tables of the paper in LaTeX, with booktabs, to paste into a paper."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pdgnn.experiments.outcome import FactTable, ScoreTable
from pdgnn.experiments.significance import LEVEL
from pdgnn.report.escape import one_line
from pdgnn.report.lines import (
    MARKS,
    PROTOCOL,
    TEST_USED,
    Comparisons,
    Line,
    compared,
    dataset_lines,
    plain_value,
    trained_datasets,
)

__all__ = ["latex_text", "table_latex"]

ACROSS = 3
"""Datasets beside each other; more are set below them."""
SIGNS = {
    **{c: f"\\{c}" for c in "{}$&#_%"},
    **{"\\": "\\textbackslash{}", "~": "\\textasciitilde{}", "^": "\\textasciicircum{}"},
    **{"<": "\\textless{}", ">": "\\textgreater{}", "|": "\\textbar{}", '"': "''"},
    **{"±": "$\\pm$", "−": "$-$", "–": "--", "α": "$\\alpha$", "γ": "$\\gamma$", "μ": "$\\mu$"},
    **{"*": "$^{*}$", "ᵗ": "$^{\\mathrm{t}}$", "ᵇ": "$^{\\mathrm{b}}$", "ᵈ": "$^{\\mathrm{d}}$"},
    **{"’": "'", "“": "``", "”": "''", "≥": "$\\geq$"},
}


def latex_text(value: object) -> str:
    r"""Text that LaTeX sets as it is.

    >>> latex_text("50 % of a_b \\input{x}")
    '50 \\% of a\\_b \\textbackslash{}input\\{x\\}'
    """
    return "".join(SIGNS.get(c, c) for c in one_line(value))


def table_latex(table: ScoreTable | FactTable, *, comparisons: Comparisons | None = None) -> str:
    """The table for a document that loads ``booktabs``; whatever users wrote is escaped.

    A table of scores becomes two: what validation chooses, and the best test cells.
    """
    if isinstance(table, FactTable):
        return _facts(table)
    with_published = compared(table) if comparisons is None else comparisons
    lines = {d: dataset_lines(table, d, with_published) for d in trained_datasets(table)}
    if not lines:
        return f"% {one_line(table.title)}: there are no runs yet\n"
    return "\n".join(
        [
            _scores(table, lines, "validation", lambda n: f"{n.chosen}{'*' * n.significant}"),
            _scores(table, lines, "test", lambda n: f"{n.best} ({n.best_of})" if n.best else ""),
        ]
    )


def _scores(
    table: ScoreTable, lines: dict[str, list[Line]], kind: str, own: Callable[[Line], str]
) -> str:
    names = list(lines)
    parts = [
        _tabular({name: lines[name] for name in names[i : i + ACROSS]}, own)
        for i in range(0, len(names), ACROSS)
    ]
    label = "".join(c if c.isascii() and c.isalnum() else "-" for c in table.name)
    return _float(
        "\n\n\\medskip\n".join(parts), _caption(table, lines, kind), f"tab:{label}-{kind}"
    )


def _caption(table: ScoreTable, lines: dict[str, list[Line]], kind: str) -> str:
    said = [f"{one_line(table.title)}.", f"{PROTOCOL[0].upper()}{PROTOCOL[1:]}."]
    shown = [line for of_dataset in lines.values() for line in of_dataset]
    if kind == "validation":
        said.append("Settings chosen by mean validation score.")
        if any(line.significant for line in shown):
            said.append(f"* differs from the published score, p < {LEVEL}: {TEST_USED}.")
    else:
        said.append(
            "Settings with the highest mean test score, of as many as the brackets say; "
            "no validation chose them."
        )
    used = {name for line in shown for name in line.precisions}
    said += [f"{mark} trained in {name}." for name, mark in MARKS.items() if name in used]
    if any(line.missing for line in shown):
        said.append("Some runs are missing.")
    return " ".join(latex_text(s) for s in said)


def _tabular(lines: dict[str, list[Line]], own: Callable[[Line], str]) -> str:
    heads = " & ".join(f"\\multicolumn{{2}}{{c}}{{{latex_text(d)}}}" for d in lines)
    rules = "".join(f"\\cmidrule(lr){{{2 * i + 2}-{2 * i + 3}}}" for i in range(len(lines)))
    below = " & ".join(["published & ours"] * len(lines))
    body = []
    for of_row in zip(*lines.values(), strict=True):
        cells = [c for line in of_row for c in (line.published, own(line))]
        if any(cells):
            body.append(" & ".join(latex_text(c) for c in (of_row[0].label, *cells)) + " \\\\")
    return _booktabs("l" + "rr" * len(lines), [f"& {heads} \\\\", rules, f"& {below} \\\\"], body)


def _facts(table: FactTable) -> str:
    heads = " & ".join(latex_text(c) for c in table.columns)
    body = []
    for row in table.rows:
        for label, source, values in (
            (row.label, "published", row.published),
            ("", "ours", row.own),
        ):
            cells = [label, source, *(plain_value(v) for v in values)]
            body.append(" & ".join(latex_text(c) for c in cells) + " \\\\")
    inner = _booktabs("ll" + "r" * len(table.columns), [f"& & {heads} \\\\"], body)
    label = "".join(c if c.isascii() and c.isalnum() else "-" for c in table.name)
    return _float(inner, f"{latex_text(table.title)}.", f"tab:{label}")


def _booktabs(columns: str, head: Sequence[str], body: Sequence[str]) -> str:
    rows = ["\\toprule", *head, "\\midrule", *body, "\\bottomrule"]
    return "\n".join([f"\\begin{{tabular}}{{{columns}}}", *rows, "\\end{tabular}"])


def _float(inner: str, caption: str, label: str) -> str:
    return "\n".join(
        [
            "\\begin{table*}[t]",
            "\\centering\\small",
            f"\\caption{{{caption}}}",
            f"\\label{{{label}}}",
            inner,
            "\\end{table*}\n",
        ]
    )
