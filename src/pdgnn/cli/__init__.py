"""The command ``pdgnn``. A command reads its options, calls the library, and prints."""

from __future__ import annotations

from typing import Annotated

import typer

from pdgnn.cli.fit import fit_command
from pdgnn.cli.inspect import inspect_command
from pdgnn.cli.predict import predict_command
from pdgnn.cli.records import records_command
from pdgnn.cli.report import report_command
from pdgnn.cli.reproduce import reproduce_command
from pdgnn.cli.results import results_command
from pdgnn.cli.rewire import rewire_command
from pdgnn.cli.terminal import prepare_process
from pdgnn.cli.train import train_command

__all__ = ["app", "main"]

app = typer.Typer(
    help="Learning on graphs whose neighbours disagree.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


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


app.command("inspect")(inspect_command)
app.command("rewire")(rewire_command)
app.command("fit")(fit_command)
app.command("predict")(predict_command)
app.command("train")(train_command)
app.command("reproduce")(reproduce_command)
app.command("results")(results_command)
app.command("report")(report_command)
app.command("records")(records_command)


def main() -> None:
    """Run the command line."""
    prepare_process()
    app(prog_name="pdgnn")
