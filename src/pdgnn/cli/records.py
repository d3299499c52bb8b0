"""The command ``pdgnn records``: the package's own records, searched, run and shown."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pdgnn.cli.lists import whole_numbers, words
from pdgnn.cli.options import (
    SAVE_SECONDS,
    DatasetsOption,
    Device,
    MinutesOption,
    MostRunsOption,
    PlanOption,
    Precision,
    RootOption,
    SplitsOption,
)
from pdgnn.cli.progress import WorkersOption, worked_with_progress
from pdgnn.cli.terminal import show, tell, working, wrapped_errors

if TYPE_CHECKING:
    from pdgnn.experiments.records.work import Records

__all__ = ["records_command"]

STORE = Path("records.sqlite")


def _print_list(wanted: bool) -> None:
    if wanted:
        from pdgnn.experiments.records.spaces import check_datasets
        from pdgnn.report.records import records_list

        show(records_list(check_datasets(None)))
        raise typer.Exit


def records_command(
    *,
    list_records: Annotated[
        bool,
        typer.Option(
            "--list",
            callback=_print_list,
            is_eager=True,
            help="Name the graphs, the best published scores and the searches, and exit.",
        ),
    ] = False,
    datasets: DatasetsOption = None,
    models: Annotated[
        str | None,
        typer.Option(
            help="Which of pd-net, pd-trees, average, gcn, pd-gcn; else all.", show_default=False
        ),
    ] = None,
    search: Annotated[
        bool, typer.Option("--search", help="Look for the best setting by validation alone.")
    ] = False,
    final: Annotated[
        bool,
        typer.Option(
            "--final",
            help="Train the setting that the search in the store has chosen, or else the "
            "package's, on all splits with three fresh seeds.",
        ),
    ] = False,
    ablation: Annotated[
        bool,
        typer.Option("--ablation", help="Train PD-Net's setting with one part changed at a time."),
    ] = False,
    splits: SplitsOption = None,
    seeds: Annotated[
        int, typer.Option(help="Seeds of each split, 1 to 3, in final runs and ablations.")
    ] = 3,
    minutes: MinutesOption = None,
    device: Annotated[Device, typer.Option(help="Where networks train.")] = Device.cpu,
    precision: Annotated[
        Precision, typer.Option(help="Of networks; tf32 and bfloat16 are for GPUs.")
    ] = Precision.float32,
    workers: WorkersOption = 1,
    most_runs: MostRunsOption = None,
    store: Annotated[
        Path | None,
        typer.Option(
            help=f"The file of finished runs; else {STORE} in this folder. The same command goes "
            "on where it was stopped.",
            show_default=False,
        ),
    ] = None,
    plan: PlanOption = False,
    as_json: Annotated[bool, typer.Option("--json", help="The table as one JSON object.")] = False,
    markdown: Annotated[
        Path | None,
        typer.Option(help="Write the table as Markdown, too, to this .md.", show_default=False),
    ] = None,
    root: RootOption = None,
) -> None:
    """Look for the package's own records, and show them beside the best published.

    A search tries the settings of a model on few splits and steps and trains the best
    of them to the end; only validation scores choose. The final runs have seeds that
    no search has seen. Without --search, --final and --ablation nothing is trained:
    the table of what the store has is shown.

    Examples:

    pdgnn records --list
    pdgnn records --datasets minesweeper --models pd-net --search --final --device cuda
    pdgnn records --datasets chameleon-filtered --models pd-trees --final --workers 2
    pdgnn records --store records.sqlite --json
    """
    with wrapped_errors():
        from pdgnn.errors import InputError
        from pdgnn.experiments.means import Means
        from pdgnn.experiments.records.work import Records, RecordsRequest
        from pdgnn.io.write import check_output

        if markdown is not None and not plan:
            check_output(markdown, [".md"], force=True)
        parts = {"search": search, "final": final, "ablation": ablation}
        request = RecordsRequest(
            datasets=None if datasets is None else words("--datasets", datasets),
            methods=None if models is None else words("--models", models),
            parts=[part for part, asked in parts.items() if asked],
            splits=None if splits is None else whole_numbers("--splits", splits),
            seeds=seeds,
            precision=precision.value,
            root=root,
        )
        means: dict[str, Any] = {
            "device": device.value,
            "workers": workers,
            "minutes": minutes,
            "most_runs": most_runs,
            "save_seconds": SAVE_SECONDS[device],
            "command": shlex.join(["pdgnn", *sys.argv[1:]]),
            "tell": tell,
        }
        work = Records(request, Means(store=store or STORE, **means))
        if plan and (as_json or not request.parts):
            raise InputError(
                "--plan tells in a table what --search, --final or --ablation would do; name one "
                "of them, and leave --json out"
            )
        if store is not None and not request.parts and not store.exists():
            raise InputError(f"there is no results store {store}; check the name")
        if request.parts and not _worked(work, plan_only=plan, quiet=as_json):
            return
        _show(work, as_json=as_json, markdown=markdown)


def _worked(work: Records, *, plan_only: bool, quiet: bool) -> bool:
    """Show the plan and, unless that is all, do the work; whether there is a table to show."""
    from pdgnn.report.plan import plan_text

    with working("opening the graphs"):
        plan = work.plan()
    if not quiet or plan_only:
        show(plan_text(plan))
    if plan_only:
        return False
    if not worked_with_progress(work):
        tell(f"the minutes are over; what is done is in {work.store}; the same command goes on")
    return True


def _show(work: Records, *, as_json: bool, markdown: Path | None) -> None:
    from pdgnn.io.atomic import replacing
    from pdgnn.report.records import records_markdown, records_text

    table = work.table()
    if markdown is not None:
        with replacing(markdown, follow=True) as partial:
            partial.write_text(records_markdown(table), encoding="utf-8")
    if as_json:
        typer.echo(json.dumps(table.to_dict(), indent=1, ensure_ascii=False, allow_nan=False))
    else:
        show(records_text(table))
