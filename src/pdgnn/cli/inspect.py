"""The command ``pdgnn inspect``: what there is to know of a graph before training on it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from pdgnn.cli.options import (
    AlphaOption,
    Device,
    DeviceOption,
    GammaOption,
    GraphArgument,
    MaxGbOption,
    RootOption,
    max_bytes_of,
)
from pdgnn.cli.terminal import show, tell, working, wrapped_errors

__all__ = ["inspect_command"]


def inspect_command(
    graph: GraphArgument,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object to stdout.")] = False,
    plot: Annotated[
        Path | None,
        typer.Option(
            help="Also draw the spectral embedding to this .png, .svg or .pdf.",
            show_default=False,
        ),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Replace the picture if it exists.")
    ] = False,
    gammas: Annotated[str, typer.Option(help="The γ at which λ1 is shown.")] = "0,0.5,1",
    alpha: AlphaOption = 1.0,
    gamma: GammaOption = 1.0,
    root: RootOption = None,
    max_gb: MaxGbOption = None,
    device: DeviceOption = Device.cpu,
) -> None:
    """Show what there is to know of a graph before training on it.

    Its size and parts, how far neighbours share labels, the first eigenvalue
    at a few γ, the gradient node at (α, γ), and what rewiring would add.

    Examples:

    pdgnn inspect friends.csv
    pdgnn inspect minesweeper --gammas 0,0.1,1 --alpha 0.5
    pdgnn inspect cora --json | jq .homophily.adjusted
    pdgnn inspect minesweeper-generated:size=30 --plot board.png
    """
    with wrapped_errors():
        from pdgnn.cli.lists import numbers
        from pdgnn.io.sources import open_source
        from pdgnn.io.write import check_output
        from pdgnn.laplacian import check_alpha, check_gamma
        from pdgnn.report.inspection import inspect_graph

        check_alpha(alpha)
        check_gamma(gamma)
        limit = max_bytes_of(max_gb)
        asked = [check_gamma(number) for number in numbers("--gammas", gammas)]
        if plot is not None:
            from pdgnn.report.plots import PLOT_SUFFIXES, need_matplotlib

            need_matplotlib()
            check_output(plot, PLOT_SUFFIXES, force=force)
        with working(f"reading {graph}") as now:
            source = open_source(graph, root, max_bytes=limit)
            facts = inspect_graph(
                source,
                gammas=asked,
                alpha=alpha,
                gamma=gamma,
                k=1 if plot is None else 2,
                device=device.value,
                progress=now,
            )
        if as_json:
            typer.echo(json.dumps(facts.as_dict(), indent=2, allow_nan=False))
        else:
            from pdgnn.report.text import inspection_text

            show(inspection_text(facts))
        if plot is not None:
            from pdgnn.report.plots import draw_embedding

            with working(f"drawing {plot}"):
                draw_embedding(source, facts, plot)
            tell(f"the picture is in {plot}")
