"""The command ``pdgnn reproduce``: the paper's tables and figures, run and shown."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from enum import StrEnum
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
from pdgnn.cli.progress import WorkersOption, trained_with_progress, worked_with_progress
from pdgnn.cli.terminal import show, tell, working, wrapped_errors

if TYPE_CHECKING:
    from pdgnn.experiments.request import Request
    from pdgnn.models import Model
    from pdgnn.training import RunSpec
    from pdgnn.training.engines import Engine

__all__ = ["reproduce_command"]

STORE = Path("paper.sqlite")
TAKES = {
    "facts": {"datasets", "store", "root"},
    "figure": {"output", "quick", "device", "store", "engine", "workers", "address", "plan"},
}
"""The options of experiments that have settings of their own; a table of scores takes all others
than --output and --quick."""


class SearchOption(StrEnum):
    """Which (α, γ) are tried."""

    published = "published"
    coarse = "coarse"
    full = "full"


class EngineOption(StrEnum):
    """Who trains the runs."""

    here = "here"
    processes = "processes"
    ray = "ray"


def _print_experiments(wanted: bool) -> None:
    if wanted:
        from pdgnn.experiments.catalog import EXPERIMENTS
        from pdgnn.report.plan import experiments_text

        show(experiments_text(EXPERIMENTS))
        raise typer.Exit


def reproduce_command(
    context: typer.Context,
    experiment: Annotated[
        str, typer.Argument(metavar="NAME", help="table1, table2, homophilic, ...; see --list.")
    ],
    *,
    list_experiments: Annotated[
        bool,
        typer.Option(
            "--list",
            callback=_print_experiments,
            is_eager=True,
            help="Name the experiments, and exit.",
        ),
    ] = False,
    datasets: DatasetsOption = None,
    models: Annotated[
        str | None,
        typer.Option(
            help="Which rows, such as 'GCN,PD-GAT (rewired)', and models of your own as "
            "FILE.py:NAME; else all rows.",
            show_default=False,
        ),
    ] = None,
    splits: SplitsOption = None,
    steps: Annotated[int, typer.Option(help="Steps of a run that is trained to the end.")] = 1000,
    search: Annotated[
        SearchOption,
        typer.Option(help="Which (α, γ): the paper's, 25 of the grid and the paper's, all 121."),
    ] = SearchOption.published,
    exhaustive: Annotated[
        bool, typer.Option("--exhaustive", help="Train every setting to the end; prune none.")
    ] = False,
    most_settings: Annotated[
        int | None,
        typer.Option(
            help="Where a row has more settings, draw so many by a fixed seed; else all.",
            show_default=False,
        ),
    ] = None,
    width: Annotated[int, typer.Option(help="Hidden channels; 512 in the paper.")] = 512,
    device: Annotated[Device, typer.Option(help="Where the runs train.")] = Device.cpu,
    precision: Annotated[
        Precision, typer.Option(help="Arithmetic; tf32 and bfloat16 are for GPUs.")
    ] = Precision.float32,
    store: Annotated[
        Path | None,
        typer.Option(
            help=f"The file of finished runs, shared by all experiments; else {STORE} in this "
            "folder. The same command goes on where it was stopped.",
            show_default=False,
        ),
    ] = None,
    engine: Annotated[EngineOption, typer.Option(help="Who trains the runs.")] = EngineOption.here,
    workers: WorkersOption = 1,
    address: Annotated[
        str | None, typer.Option(help="Of the Ray cluster.", show_default=False)
    ] = None,
    tracker: Annotated[
        str | None,
        typer.Option(
            help="Also tell tensorboard:FOLDER or mlflow:URI of finished runs.", show_default=False
        ),
    ] = None,
    minutes: MinutesOption = None,
    most_runs: MostRunsOption = None,
    curves: Annotated[
        bool,
        typer.Option(
            "--curves",
            help="Keep the learning curves of runs that are trained to the end; those that were "
            "finished without are trained again.",
        ),
    ] = False,
    recompute: Annotated[
        bool,
        typer.Option("--recompute", help="Compute layers twice: much less memory, more time."),
    ] = False,
    plan: PlanOption = False,
    measure: Annotated[
        bool, typer.Option(help="Time a few steps first, to say how long it will take.")
    ] = True,
    table: Annotated[
        bool, typer.Option("--table", help="Only show the table of what the store has.")
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="Of figure1: the folder for numbers and pictures.",
            show_default=False,
        ),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="A small version of figure1: minutes on a laptop.")
    ] = False,
    root: RootOption = None,
) -> None:
    """Make a table or a figure of the paper anew, with the published numbers beside.

    Depth and (α, γ) are searched for: all settings on few splits and steps, the best
    of them on all splits and to the end. The table has what validation chooses and,
    apart, the best test score of the settings that were trained to the end.

    Examples:

    pdgnn reproduce --list
    pdgnn reproduce table2 --datasets minesweeper --models GCN,PD-GAT --plan
    pdgnn reproduce homophilic --search full --device cuda --precision tf32
    pdgnn reproduce table2 --models mine.py:net --store paper.sqlite
    pdgnn reproduce table1 --table --store paper.sqlite
    pdgnn reproduce figure1 --quick
    """
    with wrapped_errors():
        from pdgnn.errors import InputError
        from pdgnn.experiments.catalog import find_experiment

        kind = find_experiment(experiment).kind
        _check_options(experiment, kind, _given(context))
        if plan and table:
            raise InputError("choose one of --plan and --table")
        names = None if datasets is None else dataset_names(datasets)
        if kind == "facts":
            _facts(experiment, names, store, root)
            return
        if kind == "figure":
            from pdgnn.training.engines import find_engine

            found = find_engine(engine.value, workers=workers, address=address)
            output = output or Path("figure1")
            command = f"pdgnn reproduce figure1{' --quick' if quick else ''}"
            command += f" --device {device.value} --workers {workers}"
            _figure1(
                output, store or STORE, command, found, quick=quick, device=device, plan_only=plan
            )
            return
        from pdgnn.experiments.grid import Search
        from pdgnn.experiments.request import Request

        rows, own = _chosen_models(experiment, models)
        request = Request(
            name=experiment,
            models=own,
            rows=rows,
            datasets=names,
            splits=None if splits is None else whole_numbers("--splits", splits),
            steps=steps,
            search=Search(search.value),
            exhaustive=exhaustive,
            most_settings=most_settings,
            width=width,
            precision=precision.value,
            root=root,
        )
        from pdgnn.experiments.means import Means

        file = store or STORE
        means: dict[str, Any] = {
            "device": device.value,
            "engine": engine.value,
            "workers": workers,
            "address": address,
            "tracker": tracker,
            "minutes": minutes,
            "most_runs": most_runs,
            "curves": curves,
            "recompute": recompute,
            "save_seconds": SAVE_SECONDS[device],
            "command": shlex.join(["pdgnn", *sys.argv[1:]]),
            "tell": tell,
        }
        if table and not file.exists():
            raise InputError(f"there is no file {file}; name a store with --store")
        _scores(request, Means(store=file, **means), only=table, plan_only=plan, measure=measure)


def _given(context: typer.Context) -> dict[str, str]:
    """The options that were typed, as they are spelled, by the name of their parameter."""
    found = {}
    for parameter in context.command.params:
        name = str(parameter.name)
        source = context.get_parameter_source(name)
        if parameter.param_type_name == "option" and source and source.name == "COMMANDLINE":
            found[name] = max(parameter.opts, key=len)
    return found


def _check_options(experiment: str, kind: str, given: dict[str, str]) -> None:
    """Refuse options that an experiment would not heed."""
    from pdgnn.errors import InputError

    allowed = TAKES.get(kind, set(given) - {"output", "quick"})
    wrong = [option for name, option in given.items() if name not in allowed]
    if wrong and kind == "scores":
        raise InputError(f"--quick and --output are for figure1, not for {experiment}")
    if wrong:
        said = "has settings of its own" if kind == "figure" else "trains nothing"
        known = ", ".join(f"--{name}" for name in sorted(allowed))
        raise InputError(f"{experiment} {said} and does not take {wrong[0]}, but {known}")


def _chosen_models(
    experiment: str, models: str | None
) -> tuple[list[str] | None, dict[str, Model]]:
    """The rows that ``--models`` names, None for all, and models of files."""
    from pdgnn.cli.own_models import split_models
    from pdgnn.experiments.catalog import find_experiment
    from pdgnn.experiments.request import known_labels

    if models is None:
        return None, {}
    return split_models(models, known_labels(find_experiment(experiment)))


def dataset_names(text: str) -> list[str]:
    """``"cora,minesweeper-generated:size=6,seed=1"``: options of a name stay with it.

    >>> dataset_names("cora,minesweeper-generated:size=6,seed=1,pubmed")
    ['cora', 'minesweeper-generated:size=6,seed=1', 'pubmed']
    """
    found: list[str] = []
    for word in words("--datasets", text):
        if found and ":" in found[-1] and "=" in word and ":" not in word:
            found[-1] += f",{word}"
        else:
            found.append(word)
    return found


def _scores(request: Request, means: Any, *, only: bool, plan_only: bool, measure: bool) -> None:
    from pdgnn.devices import check_device
    from pdgnn.experiments.estimate import make_plan
    from pdgnn.experiments.reproduction import Reproduction
    from pdgnn.report.plan import plan_text
    from pdgnn.report.tables import table_text

    work = Reproduction(request, means)
    if not only:
        if not plan_only:
            check_device(means.device, what="runs train", elsewhere=means.engine == "ray")
        with working("opening the graphs"):
            plan = make_plan(work, measure=False)
        if measure and plan.run_steps and means.engine != "ray":  # this machine says nothing of it
            with working("timing a few steps"):
                plan = make_plan(work)
        show(plan_text(plan), wide=True)
        if plan_only:
            return
        if not worked_with_progress(work):
            tell(f"the minutes are over; what is done is in {means.store}")
    show(table_text(work.table()))


def _facts(name: str, datasets: list[str] | None, store: Path | None, root: Path | None) -> None:
    from pdgnn.experiments.facts import fact_table
    from pdgnn.report.tables import table_text
    from pdgnn.training.store import is_begun, read_runs

    file = store or STORE
    runs = read_runs(file)[0] if store is not None or is_begun(file) else []
    show(table_text(fact_table(name, root=root, runs=runs, datasets=datasets)))


def _figure1(
    output: Path,
    store: Path,
    command: str,
    engine: Engine,
    *,
    quick: bool,
    device: Device,
    plan_only: bool,
) -> None:
    from pdgnn.experiments.figure1 import FULL, QUICK, figure1, figure1_specs
    from pdgnn.experiments.provenance import recorded
    from pdgnn.io.atomic import replacing
    from pdgnn.report.figure1 import draw_figure1
    from pdgnn.report.plots import need_matplotlib

    plan = QUICK if quick else FULL
    specs = figure1_specs(plan)
    if plan_only:
        left = len(specs) - _done(specs, store)
        typer.echo(f"{left:,} of {len(specs):,} runs are left, of {plan.steps:,} steps each")
        return
    need_matplotlib()
    with recorded(output / "meta.json", command, device.value, lambda: _done(specs, store)):
        results = trained_with_progress(specs, device=device.value, store=store, engine=engine)
    figure = figure1(results, plan)
    output.mkdir(parents=True, exist_ok=True)
    with replacing(output / "figure1.csv") as partial:
        partial.write_text(figure.to_csv(), encoding="utf-8")
    text = "\n".join(figure.findings())
    with replacing(output / "findings.txt") as partial:
        partial.write_text(text + "\n", encoding="utf-8")
    typer.echo(text)
    pictures = draw_figure1(figure, output)
    names = ", ".join(["figure1.csv", *(p.name for p in pictures)])
    tell(f"numbers and pictures are in {output}: {names}")


def _done(specs: Sequence[RunSpec], store: Path) -> int:
    """Those of the runs that are finished in the store, which may not be there yet."""
    from pdgnn.models import find_model
    from pdgnn.training.spec import resolved
    from pdgnn.training.store import is_begun, read_runs

    if not is_begun(store):
        return 0
    done = {run.result.spec.key for run in read_runs(store)[0]}
    return sum(resolved(spec, find_model(spec.model)).key in done for spec in specs)
