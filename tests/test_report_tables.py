"""Tables for a terminal, as Markdown and as LaTeX."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import replace
from math import nan

import pytest
from rich.console import Console

from outcomes import COMPARISONS, DATASETS, HOSTILE, fact_table, score_table
from pdgnn.experiments.outcome import Published, ScoreTable
from pdgnn.report.latex import latex_text
from pdgnn.report.lines import block_lines, dataset_lines, notes, shortfalls, trained_datasets
from pdgnn.report.tables import table_latex, table_markdown, table_text

EMPTY = ScoreTable("table1", "Table 1", (), ("cora",), {})


def printed(part, width: int = 100) -> str:
    console = Console(width=width, markup=False, highlight=False)
    with console.capture() as captured:
        console.print(part)
    return captured.get()


def test_the_lines_of_a_dataset():
    lines = {n.row.label: n for n in dataset_lines(score_table(), "tolokers", COMPARISONS)}
    gcn, ours = lines["GCN"], lines["PD-GAT-sep (rewired)"]
    assert (gcn.published, gcn.chosen, gcn.difference) == ("40.00 ± 2.00", "42.00 ± 1.05", "+2.00*")
    assert gcn.scope == ("–", "–", "2")
    assert (ours.chosen, ours.best_of) == ("46.50 ± 1.05ᵇ", "32")  # eight of eleven α to the end
    assert ours.scope == ours.best_scope == ("0.3", "0.5", "3")
    assert (ours.difference, ours.missing) == ("−1.50", "120/440")
    assert lines["H2GCN"].published == "OOM"
    assert lines["H2GCN"].chosen == lines["H2GCN"].best == lines["H2GCN"].best_of == ""
    assert lines[HOSTILE].chosen == "35.00"  # one split: its score, and no std
    assert "\x1b" not in lines[HOSTILE].label


def test_a_cell_below_the_paper_says_whether_the_best_test_cell_reaches_it():
    said = shortfalls(score_table(), COMPARISONS)
    assert len(said) == 2
    assert said[0].startswith("PD-GAT-sep (rewired) on chameleon-filtered: 46.50 by validation")
    assert "best test cell of 32 does not reach it either (46.50)" in said[0]


def test_a_shortfall_where_there_is_no_other_best_test_cell():
    table = score_table()
    where = next(
        k for k, c in table.cells.items() if shortfalls(replace(table, cells={k: c}), COMPARISONS)
    )
    cell = table.cells[where]
    cells = {where: replace(cell, tried=(cell.by_validation,))}
    (said,) = shortfalls(replace(table, cells=cells), COMPARISONS)
    assert said.endswith(" published. No other setting was trained to the end.")


def test_a_graph_of_ones_own_has_the_rows_that_were_trained():
    table = score_table()
    cells = {
        (row, "mine"): replace(cell, dataset="mine", published=None)
        for (row, dataset), cell in table.cells.items()
        if dataset == DATASETS[0]
    }
    kept = [row for (row, _), cell in cells.items() if cell.tried or cell.runs_done]
    assert 0 < len(kept) < len(table.rows)
    made = replace(table, datasets=(*table.datasets, "mine"), cells={**table.cells, **cells})
    assert [line.row.label for line in block_lines(made, "mine", {})] == kept
    assert len(block_lines(made, DATASETS[0], {})) == len(table.rows)


def test_a_row_whose_runs_have_all_diverged_is_named():
    table = score_table()
    (label, dataset), cell = next((k, c) for k, c in table.cells.items() if c.by_validation)
    lost = replace(cell.by_validation, val=(nan,) * len(cell.by_validation.val))
    made = replace(table, cells={(label, dataset): replace(cell, tried=(lost,))})
    said = f"No setting without a run that diverged: {label} on {dataset}."
    assert said in notes(made, dataset_lines(made, dataset, {}))
    assert not any("diverged" in s for s in notes(table, dataset_lines(table, dataset, {})))


def test_a_difference_that_rounds_to_nothing_has_no_sign():
    table = score_table()
    (where, cell), *_ = ((k, c) for k, c in table.cells.items() if c.by_validation and c.published)
    equal = Published(cell.by_validation.mean + 0.001, 1.0)
    made = replace(table, cells={where: replace(cell, published=equal)})
    lines = {line.label: line for line in dataset_lines(made, where[1], {})}
    assert lines[where[0]].difference == "0.00"


def test_datasets_without_runs_are_named():
    assert trained_datasets(score_table()) == list(DATASETS[:2])
    for text in (
        printed(table_text(score_table(), comparisons=COMPARISONS)),
        table_markdown(score_table(), comparisons=COMPARISONS),
    ):
        assert "No runs yet: roman-empire." in text
        assert "73.69" not in text


def test_a_terminal_of_100_columns_holds_it():
    text = printed(table_text(score_table(), comparisons=COMPARISONS))
    lines = text.splitlines()
    assert max(map(len, lines)) <= 100
    (whole, _) = [n.split() for n in lines if n.strip().startswith("PD-GAT-sep (rewired)  ")]
    assert " ".join(whole[2:8]) == "48.00 ± 1.00 46.50 ± 1.05ᵇ"
    assert " ".join(whole[8:]) == "0.3 0.5 3 46.50 ± 1.05ᵇ 32 −1.50 120/440"
    assert "Not there yet, published scores only: H2GCN." in text
    assert "ᵇ trained in bfloat16." in text
    assert "Welch" in text
    assert "Holm" in text
    assert "\x1b" not in text


def test_the_test_is_named_where_there_was_one():
    assert "Welch" not in printed(table_text(score_table(), comparisons={}))
    chance = {place: replace(c, adjusted=0.4) for place, c in COMPARISONS.items()}
    text = table_markdown(score_table(), comparisons=chance)
    assert "No difference from a published score has a p &lt; 0.05: Welch" in text
    assert "+2.00\\*" not in text


def test_a_trimmed_grid_is_named():
    table = score_table()
    cells = {
        p: replace(c, grid=16 if p == ("GCN", "tolokers") else 0) for p, c in table.cells.items()
    }
    said = "A part of the grid was tried: GCN 1 of 16 (tolokers)."
    assert said in table_markdown(replace(table, cells=cells))
    assert "part of the grid" not in table_markdown(table)


def test_markdown_has_as_many_columns_in_every_line():
    text = table_markdown(score_table(), comparisons=COMPARISONS)
    bars = [len(re.findall(r"(?<!\\)\|", n)) for n in text.splitlines() if n.startswith("|")]
    assert set(bars) == {11}
    assert "<script" not in text
    assert "\\|\\_\\*" in text
    assert "+2.00\\*" in text


def test_latex_has_both_ways_of_choosing_apart():
    text = table_latex(score_table(), comparisons=COMPARISONS)
    first, second = text.split("\\end{table*}")[:2]
    assert "Settings chosen by mean validation score" in first
    assert "Welch" in first
    assert "highest mean test score" in second
    assert "46.50 $\\pm$ 1.05$^{\\mathrm{b}}$ (32)" in second
    assert "Welch" not in second
    assert "\\input{x}" not in text
    assert "\\textbackslash{}input\\{x\\}" in text
    rows = [n for n in text.splitlines() if n.endswith("\\\\") and "multicolumn" not in n]
    assert {len(re.findall(r"(?<!\\)&", n)) for n in rows} == {4}


def test_every_sign_of_latex_is_escaped():
    special = "\\{}$&#_%~^"
    text = latex_text(special)
    for sign in "{}$&#_%":
        assert text.count(f"\\{sign}") >= 1
    assert latex_text("a\nb") == "a b"


def test_many_datasets_are_set_below_each_other():
    table = score_table()
    many = tuple(f"d{i}" for i in range(5))
    cells = {(r, d): table.cells[r, DATASETS[0]] for r, _ in table.cells for d in many}
    text = table_latex(ScoreTable("t", "T", table.rows, many, {}, cells), comparisons={})
    assert text.count("\\begin{tabular}") == 4
    assert text.count("\\begin{table*}") == 2


@pytest.mark.parametrize("table", [fact_table(), EMPTY], ids=["facts", "empty"])
def test_facts_and_empty_tables(table):
    text = printed(table_text(table, comparisons={}))
    assert "\x1b" not in text
    assert "<script" not in table_markdown(table, comparisons={})
    assert "\\input{x}" not in table_latex(table, comparisons={})


def test_facts_stand_below_the_published():
    lines = table_markdown(fact_table()).splitlines()
    assert "| cora | published | 0.83 | 0.81 |  |" in lines
    assert "|  | here | 0.825 | 0.81 | −0.05 |" in lines


def _has_booktabs() -> bool:
    if shutil.which("pdflatex") is None or shutil.which("kpsewhich") is None:
        return False
    asked = ["kpsewhich", "booktabs.sty"]
    return bool(subprocess.run(asked, capture_output=True, check=False).stdout)


@pytest.mark.skipif(not _has_booktabs(), reason="there is no pdflatex with booktabs here")
def test_it_compiles(tmp_path):
    body = table_latex(score_table(), comparisons=COMPARISONS) + table_latex(fact_table())
    file = tmp_path / "t.tex"
    head = "\\documentclass{article}\\usepackage{booktabs}\\begin{document}\n"
    file.write_text(f"{head}{body}\\end{{document}}\n", encoding="utf-8")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", file.name]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:]
