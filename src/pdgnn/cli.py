"""The command ``pdgnn``. A command reads its options, calls the library, and prints."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pdgnn.cli_options import Device, GraphArgument, RootOption, ScopeOption
from pdgnn.cli_reproduce import reproduce_command
from pdgnn.cli_train import train_command
from pdgnn.terminal import one_line, prepare_process, show, tell, working, wrapped_errors

if TYPE_CHECKING:
    from pdgnn.sources import Source

__all__ = ["app", "main"]

app = typer.Typer(
    help="Learning on graphs whose neighbours disagree.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


AlphaOption = Annotated[float, typer.Option(help="α of L^(α,γ), in [0, 1].")]
GammaOption = Annotated[float, typer.Option(help="γ of L^(α,γ), in [0, 1].")]
DeviceOption = Annotated[Device, typer.Option(help="Where eigenvalues are computed.")]


def _print_version(wanted: bool) -> None:
    if wanted:
        from pdgnn import __version__

        typer.echo(f"pdgnn {__version__}")
        raise typer.Exit


@app.callback(
    epilog="Try `pdgnn inspect minesweeper-generated --plot board.png`, "
    "then `pdgnn COMMAND --help` for examples."
)
def _pdgnn(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    """Learning on graphs whose neighbours disagree."""


@app.command("inspect")
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
    gammas: Annotated[str, typer.Option(help="The γ at which λ1 is shown.")] = "0,0.5,1",
    alpha: AlphaOption = 1.0,
    gamma: GammaOption = 1.0,
    root: RootOption = None,
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
        from pdgnn.inspection import inspect_graph
        from pdgnn.laplacian import check_alpha, check_gamma
        from pdgnn.output import check_output
        from pdgnn.sources import open_source

        check_alpha(alpha)
        check_gamma(gamma)
        asked = _parsed_gammas(gammas)
        if plot is not None:
            from pdgnn.report.plots import PLOT_SUFFIXES, need_matplotlib

            need_matplotlib()
            check_output(plot, PLOT_SUFFIXES, force=True)
        with working(f"reading {graph}") as now:
            source = open_source(graph, root)
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


def _parsed_gammas(text: str) -> list[float]:
    """``"0,0.5,1"`` as numbers in [0, 1]."""
    from pdgnn.errors import InputError
    from pdgnn.laplacian import check_gamma

    items = [item for item in text.split(",") if item.strip()]
    if not items:
        raise InputError("--gammas is empty; give numbers in [0, 1] such as 0,0.5,1")
    return [check_gamma(item) for item in items]  # type: ignore[arg-type]


@app.command("rewire")
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
    scope: Annotated[
        ScopeOption,
        typer.Option(help="Join all nodes, or those at least half the range of φ away (far)."),
    ] = ScopeOption.all,
    force: Annotated[bool, typer.Option("--force", help="Replace the file if it exists.")] = False,
    root: RootOption = None,
    device: DeviceOption = Device.cpu,
) -> None:
    """Join nodes to the gradient node of their component, in a new file.

    Every undirected edge is written once, with the ids that the nodes had.
    An .npz keeps the features, labels and splits that the graph came with.

    Examples:

    pdgnn rewire friends.csv -o friends-rewired.csv
    pdgnn rewire minesweeper -o rewired.npz --scope far --gamma 0.5
    """
    with wrapped_errors():
        from dataclasses import replace

        from pdgnn.laplacian import check_alpha, check_gamma
        from pdgnn.output import GRAPH_SUFFIXES, check_output, write_graph
        from pdgnn.rewiring import rewire
        from pdgnn.sources import open_source
        from pdgnn.spectrum import eigenpairs

        check_alpha(alpha)
        check_gamma(gamma)
        check_output(output, GRAPH_SUFFIXES, force=force)
        with working(f"reading {graph}") as now:
            source = open_source(graph, root)
            now(f"first eigenvector at γ = {gamma:g}")
            found = eigenpairs(source.graph, gamma=gamma, device=device.value)
            now("rewiring")
            rewired = rewire(source.graph, scope=scope.value, phi=found.eigenvectors(alpha)[:, 0])
            now(f"writing {output}")
            write_graph(replace(source, graph=rewired), output, force=force)
        typer.echo("\n".join(map(one_line, rewired.why)))
        _tell_what_is_left_out(source, output)


def _tell_what_is_left_out(source: Source, output: Path) -> None:
    held = {"features": source.features, "labels": source.labels, "splits": source.masks}
    lost = [name for name, values in held.items() if values is not None]
    if lost and output.suffix.lower() != ".npz":
        tell(f"{output} holds the edges alone; write an .npz to keep the {' and '.join(lost)}")


app.command("train")(train_command)
app.command("reproduce")(reproduce_command)


def main() -> None:
    """Run the command line."""
    prepare_process()
    app(prog_name="pdgnn")
