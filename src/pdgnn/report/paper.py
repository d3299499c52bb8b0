"""A store of runs as one HTML page that needs nothing else: the paper's tables, ours beside theirs.

The text, tables and charts are written here and stand without a script. ``assets/paper.js`` adds
the theme, the choice of score and depth in the heat maps, tooltips, and buttons that copy.

For tests and scripts the page says what it shows in the ``data-`` attributes of its body:
``data-ready``, ``data-theme``, and where there are heat maps ``data-score`` and ``data-depth``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pdgnn.report.fitted_charts import text
from pdgnn.report.heatmap import LEAST_SPAN, SHADES, Heat, heat_data, heat_of
from pdgnn.report.lines import dataset_lines, trained_datasets
from pdgnn.report.paper_facts import Paper, distinct_cells
from pdgnn.report.paper_sections import (
    claims_section,
    curves,
    figure1_section,
    heat_maps,
    origin,
    time_section,
)
from pdgnn.report.paper_tables import copies, fact_tables, score_tables
from pdgnn.report.shell import html_page

__all__ = ["paper_page"]

SECTIONS: dict[str, tuple[str, Callable[[Paper, Sequence[Heat]], str]]] = {
    "tables": ("The tables", lambda paper, _: score_tables(paper)),
    "claims": ("The claims", lambda paper, _: claims_section(paper)),
    "heat": ("Over α and γ", lambda _, heats: heat_maps(heats) if heats else ""),
    "curves": ("Learning curves", lambda paper, _: curves(paper)),
    "figure1": ("Figure 1", lambda paper, _: figure1_section(paper.figure1)),
    "facts": ("Graphs and scopes", lambda paper, _: fact_tables(paper)),
    "time": ("Time and memory", lambda paper, _: time_section(paper)),
    "origin": ("How it was made", lambda paper, _: origin(paper)),
    "copy": ("To paste into a paper", lambda paper, _: copies(paper)),
}


def paper_page(paper: Paper, *, title: str = "Reproduction") -> str:
    """The page; whatever users wrote is escaped. Sections without content are left out."""
    heats = [heat for cell in distinct_cells(paper) if (heat := heat_of(cell)) is not None]
    sections = {}
    for key, (heading, write) in SECTIONS.items() if paper.runs else ():
        if body := write(paper, heats):
            sections[key] = heading, body
    return html_page(
        title=title,
        kind="Flexible diffusion scopes, made anew",
        lead=_lead(paper),
        sections=sections,
        styles=["paper.css"],
        scripts=["paper.js"],
        data={
            "shades": SHADES,
            "span": round(100 * LEAST_SPAN),
            "heats": [heat_data(heat) for heat in heats],
        },
    )


def _lead(paper: Paper) -> str:
    if not paper.runs:
        return (
            "There are no finished runs in this store yet. Make some with "
            "<code>pdgnn reproduce table2 --store FILE</code>, and this page again."
        )
    machines = {str(about.get("machine", "")) for about in paper.provenances.values()} - {""}
    on = f" on {len(machines)} machine{'s' if len(machines) > 1 else ''}" if machines else ""
    counted = f"<b>{len(paper.runs):,}</b> finished runs{on}."
    return " ".join([counted, *(_table_sentence(paper, name) for name in paper.tables)])


def _table_sentence(paper: Paper, name: str) -> str:
    """How many cells of a table have a score, of those whose model is there."""
    table = paper.tables[name]
    if name == "others":
        count = len(trained_datasets(table))
        return f"{count} other graph{'' if count == 1 else 's'}."
    lines = [
        line
        for dataset in table.datasets
        for line in dataset_lines(table, dataset, paper.comparisons.get(name, {}))
        if not line.row.absent and (line.published or line.chosen)
    ]
    done = sum(bool(line.chosen) for line in lines)
    title = text(table.title.partition(":")[0])
    if done == len(lines):
        return f"{title} is complete."
    return f"{title} has {done} of {len(lines)} cells."
