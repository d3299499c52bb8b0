"""The command ``pdgnn rewire``: a graph with its nodes joined to their gradient node."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pdgnn.cli.options import (
    AlphaOption,
    Device,
    DeviceOption,
    GammaOption,
    GraphArgument,
    MaxGbOption,
    ReachOption,
    RootOption,
    max_bytes_of,
)
from pdgnn.cli.terminal import tell, working, wrapped_errors
from pdgnn.report.escape import one_line

if TYPE_CHECKING:
    from pdgnn.io.sources import Source

__all__ = ["rewire_command"]


def rewire_command(
    graph: GraphArgument,
    *,
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            help="The file to write: .csv, .tsv, .parquet, .npz or .graphml.",
            show_default=False,
        ),
    ],
    alpha: AlphaOption = 1.0,
    gamma: GammaOption = 1.0,
    reach: Annotated[
        ReachOption,
        typer.Option(help="Join all nodes, or those at least half the range of φ away (far)."),
    ] = ReachOption.all,
    force: Annotated[bool, typer.Option("--force", help="Replace the file if it exists.")] = False,
    root: RootOption = None,
    max_gb: MaxGbOption = None,
    device: DeviceOption = Device.cpu,
) -> None:
    """Join nodes to the gradient node of their component, in a new file.

    Every undirected edge is written once, with the ids that the nodes had.
    An .npz keeps the features, labels and splits that the graph came with.

    Examples:

    pdgnn rewire friends.csv -o friends-rewired.csv
    pdgnn rewire minesweeper -o rewired.npz --reach far --gamma 0.5
    """
    with wrapped_errors():
        from dataclasses import replace

        from pdgnn.io.sources import open_source
        from pdgnn.io.write import GRAPH_SUFFIXES, check_output, write_graph
        from pdgnn.laplacian import check_alpha, check_gamma
        from pdgnn.rewiring import rewire
        from pdgnn.spectrum import eigenpairs

        check_alpha(alpha)
        check_gamma(gamma)
        limit = max_bytes_of(max_gb)
        check_output(output, GRAPH_SUFFIXES, force=force)
        with working(f"reading {graph}") as now:
            source = open_source(graph, root, max_bytes=limit)
            now(f"first eigenvector at γ = {gamma:g}")
            found = eigenpairs(source.graph, gamma=gamma, device=device.value)
            now("rewiring")
            rewired = rewire(source.graph, reach=reach.value, phi=found.eigenvectors(alpha)[:, 0])
            now(f"writing {output}")
            write_graph(replace(source, graph=rewired), output, force=force)
        typer.echo("\n".join(map(one_line, rewired.why)))
        _tell_what_is_left_out(source, output)


def _tell_what_is_left_out(source: Source, output: Path) -> None:
    held = {"features": source.features, "labels": source.labels, "splits": source.masks}
    lost = [name for name, values in held.items() if values is not None]
    if lost and output.suffix.lower() != ".npz":
        tell(f"{output} holds the edges alone; write an .npz to keep the {' and '.join(lost)}")
