"""The command ``pdgnn reproduce``: the paper's experiments, run and drawn."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from pdgnn.cli.options import Device
from pdgnn.cli.progress import WorkersOption, trained_with_progress
from pdgnn.cli.terminal import tell, wrapped_errors

__all__ = ["reproduce_command"]


class Experiment(StrEnum):
    """What of the paper."""

    figure1 = "figure1"


def reproduce_command(
    experiment: Annotated[Experiment, typer.Argument(help="Which of the paper's experiments.")],
    *,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Folder for runs, numbers and pictures.")
    ] = Path("figure1"),
    quick: Annotated[
        bool, typer.Option("--quick", help="A small version: minutes on a laptop.")
    ] = False,
    device: Annotated[Device, typer.Option(help="Where the runs train.")] = Device.cpu,
    workers: WorkersOption = 1,
) -> None:
    """Run one of the paper's experiments, and write its numbers and pictures.

    Finished runs are kept in the folder: the same command goes on where it was
    stopped. meta.json says which machine and versions made them.

    Examples:

    pdgnn reproduce figure1 --quick
    pdgnn reproduce figure1 --device cuda -o results/figure1
    """
    with wrapped_errors():
        from pdgnn.experiments.figure1 import FULL, QUICK, figure1, figure1_specs
        from pdgnn.experiments.provenance import recorded
        from pdgnn.io.atomic import replacing
        from pdgnn.report.figure1 import draw_figure1
        from pdgnn.report.plots import need_matplotlib
        from pdgnn.training.checkpoint import RunFolder

        need_matplotlib()
        plan = QUICK if quick else FULL
        command = f"pdgnn reproduce {experiment.value}{' --quick' if quick else ''}"
        command += f" --device {device.value} --workers {workers}"

        def done() -> int:
            return len(RunFolder(output).results()) if output.exists() else 0

        with recorded(output / "meta.json", command, device.value, done):
            results = trained_with_progress(
                figure1_specs(plan), device=device.value, folder=output, workers=workers
            )
        figure = figure1(results, plan)
        with replacing(output / "figure1.csv") as partial:
            partial.write_text(figure.to_csv(), encoding="utf-8")
        text = "\n".join(figure.findings())
        with replacing(output / "findings.txt") as partial:
            partial.write_text(text + "\n", encoding="utf-8")
        typer.echo(text)
        pictures = draw_figure1(figure, output)
        names = ", ".join(["figure1.csv", *(p.name for p in pictures)])
        tell(f"numbers and pictures are in {output}: {names}")
