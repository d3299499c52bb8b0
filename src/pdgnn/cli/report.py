"""The command ``pdgnn report``: finished runs as one page, beside the published tables."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pdgnn.cli.options import RootOption
from pdgnn.cli.terminal import tell, working, wrapped_errors

__all__ = ["report_command"]


def report_command(
    store: Annotated[
        Path,
        typer.Argument(
            metavar="STORE",
            help="A store of runs, a folder of runs, or a .parquet export of one.",
            show_default=False,
        ),
    ],
    *,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="The page, .html.", show_default=False)
    ],
    markdown: Annotated[
        Path | None,
        typer.Option(help="The tables as Markdown, too, to this .md.", show_default=False),
    ] = None,
    latex: Annotated[
        Path | None,
        typer.Option(help="The tables as LaTeX (booktabs), too, to this .tex.", show_default=False),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Replace the files if they exist.")
    ] = False,
    title: Annotated[str, typer.Option(help="Of the page.")] = "Reproduction",
    root: RootOption = None,
) -> None:
    """Make one page of finished runs: the paper's tables, ours beside the published.

    The page needs no network and no other file. Nothing is trained, and the store
    is only read.

    Examples:

    pdgnn report runs.sqlite -o page.html
    pdgnn report runs.parquet -o page.html --markdown tables.md --latex tables.tex
    """
    with wrapped_errors():
        from pdgnn.io.write import check_output

        for path, suffix in ((output, ".html"), (markdown, ".md"), (latex, ".tex")):
            if path is not None:
                check_output(path, [suffix], force=force, sources=[store])
        with working(f"reading {store}") as progress:
            from pdgnn.io.atomic import replacing
            from pdgnn.report.paper import paper_page
            from pdgnn.report.paper_facts import read_paper
            from pdgnn.report.tables import table_latex, table_markdown

            paper = read_paper(store, root=root)
            progress("writing the page")
            compared = paper.comparisons
            written = {output: paper_page(paper, title=title)}
            for path, form in ((markdown, table_markdown), (latex, table_latex)):
                if path is not None:
                    parts = [
                        form(table, comparisons=compared.get(name))
                        for name, table in paper.tables.items()
                    ]
                    written[path] = "\n".join([*parts, *(form(table) for table in paper.facts)])
            for path, content in written.items():
                with replacing(path, follow=True) as partial:
                    partial.write_text(content, encoding="utf-8")
        names = ", ".join(map(str, written))
        tell(f"{len(paper.runs):,} runs are in {names}")
