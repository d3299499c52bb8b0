"""The command ``pdgnn train``: a grid of settings, each on all splits and seeds."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pdgnn.cli.lists import MOST_NUMBERS, numbers, whole_numbers, words
from pdgnn.cli.options import (
    Device,
    GraphArgument,
    MaxGbOption,
    Metric,
    Precision,
    ReachOption,
    RootOption,
    max_bytes_of,
)
from pdgnn.cli.progress import WorkersOption, trained_with_progress
from pdgnn.cli.terminal import show, tell, working, wrapped_errors

if TYPE_CHECKING:
    from pdgnn.nn.interface import Option, Scalar
    from pdgnn.training import RunResult, RunSpec, Task
    from pdgnn.training.summary import Summary

__all__ = ["train_command"]


def _print_models(wanted: bool) -> None:
    if wanted:
        from pdgnn.models import MODELS
        from pdgnn.report.models import models_text

        show(models_text(MODELS))
        raise typer.Exit


def train_command(
    graph: GraphArgument,
    *,
    list_models: Annotated[
        bool,
        typer.Option(
            "--list",
            callback=_print_models,
            is_eager=True,
            help="Name the models and their options, and exit.",
        ),
    ] = False,
    model: Annotated[
        str, typer.Option("--model", "-m", help="One or several: pd-gat, pd-gcn, gat, gcn, ...")
    ] = "pd-gat",
    option: Annotated[
        list[str] | None,
        typer.Option(
            "--option",
            metavar="NAME=VALUES",
            help="An option of the models' own, one or several values: k=2,4. May be repeated.",
            show_default=False,
        ),
    ] = None,
    alpha: Annotated[str, typer.Option(help="One or several α, such as 0,0.5,1.")] = "1",
    gamma: Annotated[str, typer.Option(help="One or several γ.")] = "1",
    depth: Annotated[str, typer.Option(help="One or several depths, such as 2 or 1-5.")] = "2",
    width: Annotated[str, typer.Option(help="Hidden channels.")] = "512",
    heads: Annotated[str, typer.Option(help="Heads of attention, which split the width.")] = "8",
    splits: Annotated[str, typer.Option(help="Which splits: all, 0,1,2 or 0-4.")] = "all",
    seeds: Annotated[str, typer.Option(help="How many (3 is 0,1,2), or which: 0,7 or 5-9.")] = "1",
    lr: Annotated[str, typer.Option(help="Learning rate, such as 0.01,0.003.")] = "3e-5",
    weight_decay: Annotated[str, typer.Option(help="Weight decay.")] = "0",
    dropout: Annotated[str, typer.Option(help="Dropout rate, in [0, 1).")] = "0.2",
    steps: Annotated[str, typer.Option(help="Steps of a run, each evaluated.")] = "1000",
    patience: Annotated[
        str | None,
        typer.Option(
            help="End a run after so many steps without a better validation score.",
            show_default=False,
        ),
    ] = None,
    rewired: Annotated[
        bool, typer.Option("--rewired", help="Train on the rewired graph of each (α, γ).")
    ] = False,
    reach: Annotated[
        ReachOption, typer.Option(help="Which nodes --rewired joins to the gradient node.")
    ] = ReachOption.all,
    precision: Annotated[
        Precision, typer.Option(help="Arithmetic; tf32 and bfloat16 are for GPUs.")
    ] = Precision.float32,
    metric: Annotated[
        Metric | None,
        typer.Option(
            help="What the best step is chosen by; else ROC AUC (two classes) or accuracy.",
            show_default=False,
        ),
    ] = None,
    balanced: Annotated[
        bool, typer.Option("--balanced", help="Let all classes count the same in the loss.")
    ] = False,
    device: Annotated[Device, typer.Option(help="Where the runs train.")] = Device.cpu,
    recompute: Annotated[
        bool,
        typer.Option("--recompute", help="Compute layers twice: much less memory, more time."),
    ] = False,
    workers: WorkersOption = 1,
    folder: Annotated[
        Path | None,
        typer.Option(
            help="Keep finished runs and the state of the others here; the same command goes on "
            "from there.",
            show_default=False,
        ),
    ] = None,
    curves: Annotated[
        Path | None,
        typer.Option(
            help="Also write loss and scores of every step to this .csv.", show_default=False
        ),
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option(
            help="Also write a page with the table and a picture to this .html.",
            show_default=False,
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object to stdout.")] = False,
    root: RootOption = None,
    max_gb: MaxGbOption = None,
) -> None:
    """Train models on a graph, on all its splits at once.

    Every number may be a list such as 0,0.5,1 or 1-5: lists make a grid, with a line
    of the table for each point of it: mean ± std of the test score over splits and
    seeds, each at its best validation step. The defaults are the protocol of the paper.

    Examples:

    pdgnn train --list
    pdgnn train minesweeper-generated:size=30 --width 64 --lr 3e-3 --steps 200
    pdgnn train minesweeper -m pd-gat,gat --gamma 0.2,0.4 --depth 2,5 --device cuda
    pdgnn train graph.npz --lr 0.01,0.003 --seeds 3 --patience 100 --folder runs
    """
    with wrapped_errors():
        whole = {"depth": depth, "width": width, "heads": heads, "steps": steps}
        real = {"alpha": alpha, "gamma": gamma, "lr": lr}
        real |= {"weight_decay": weight_decay, "dropout": dropout}
        fixed = {"rewired": rewired, "reach": reach.value, "precision": precision.value}
        lists: dict[str, list[Any]] = {n: whole_numbers(_flag(n), t) for n, t in whole.items()}
        lists |= {n: numbers(_flag(n), t) for n, t in real.items()}
        lists |= {} if patience is None else {"patience": whole_numbers("--patience", patience)}
        grid = _grid(graph, words("--model", model), lists, fixed, _options(option or []))
        chosen_seeds = _seeds(seeds)
        chosen_splits = None if splits.strip() == "all" else whole_numbers("--splits", splits)
        _check_places(device.value, folder, curves, report)
        with working(f"reading {graph}"):
            from pdgnn.training.task import Task

            task = Task.open(
                graph,
                root,
                metric=None if metric is None else metric.value,
                class_weights="balanced" if balanced else None,
                max_bytes=max_bytes_of(max_gb),
            )
        every = range(task.num_splits) if chosen_splits is None else chosen_splits
        specs = [
            replace(spec, split=split, seed=seed)
            for spec, split, seed in product(grid, every, chosen_seeds)
        ]
        results = trained_with_progress(
            specs,
            tasks={graph: task},
            device=device.value,
            folder=folder,
            curves=curves is not None,
            recompute=recompute,
            workers=workers,
        )
        from pdgnn.training.summary import summarize

        rows = summarize(results)
        _print_results(task, rows, as_json)
        if curves is not None:
            _write_curves(curves, results)
            tell(f"the curves are in {curves}")
        if report is not None:
            _write_report(report, task, rows)
            tell(f"the report is in {report}")


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _grid(
    graph: str,
    models: list[str],
    lists: dict[str, list[Any]],
    fixed: dict[str, Any],
    options: dict[str, list[str]],
) -> list[RunSpec]:
    """A run for each point of the grid; settings that a model does not use make no points."""
    from pdgnn.errors import InputError
    from pdgnn.models import find_model
    from pdgnn.training.spec import RunSpec, resolved

    found: dict[RunSpec, None] = {}
    known = {name: find_model(name).options for name in models}
    for name in options:
        if not any(name in own for own in known.values()):
            raise InputError(
                f"--option: {', '.join(models)} has no option {name!r}; see pdgnn train --list"
            )
    for model in models:
        own = {
            name: [_value(known[model][name], text) for text in texts]
            for name, texts in options.items()
            if name in known[model]
        }
        for point in product(*lists.values(), *own.values()):
            values = dict(zip([*lists, *own], point, strict=True))
            chosen = {name: values.pop(name) for name in own}
            spec = RunSpec(dataset=graph, model=model, options=chosen, **values, **fixed)
            found[resolved(spec, find_model(model))] = None
    return list(found)


def _options(texts: list[str]) -> dict[str, list[str]]:
    """``["k=2,4", "norm=layer"]`` as names and the texts of values."""
    from pdgnn.errors import InputError

    found: dict[str, list[str]] = {}
    for text in texts:
        name, equals, values = text.partition("=")
        if not equals or not name.strip():
            raise InputError(f"--option takes NAME=VALUES such as k=2,4, not {text!r}")
        found[name.strip()] = words("--option", values)
    return found


def _value(option: Option, text: str) -> Scalar:
    """The text itself where the option is a text; else a flag, a number or none, if it is one."""
    if isinstance(option.default, str):
        return text
    words = {"true": True, "false": False, "none": None}
    if text.lower() in words:
        return words[text.lower()]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _seeds(text: str) -> list[int]:
    """``"3"`` is 0, 1, 2; anything longer is a list."""
    from pdgnn.errors import InputError

    found = whole_numbers("--seeds", text)
    if not text.strip().isdigit():
        return found
    if not 1 <= found[0] <= MOST_NUMBERS:
        raise InputError(f"--seeds takes at least 1 and at most {MOST_NUMBERS}, not {found[0]}")
    return list(range(found[0]))


def _check_places(
    device: str, folder: Path | None, curves: Path | None, report: Path | None
) -> None:
    from pdgnn.devices import check_device
    from pdgnn.errors import InputError
    from pdgnn.io.write import check_output

    check_device(device, what="runs train")
    if folder is not None and folder.exists() and not folder.is_dir():
        raise InputError(f"--folder {folder} is a file; name a folder")
    if curves is not None:
        check_output(curves, [".csv"], force=True)
    if report is not None:
        from pdgnn.report.plots import need_matplotlib

        need_matplotlib()
        check_output(report, [".html"], force=True)


def _print_results(task: Task, rows: Sequence[Summary], as_json: bool) -> None:
    if as_json:
        from pdgnn.training.summary import chosen

        best = chosen(rows)
        found: dict[str, Any] = {
            "name": task.name,
            "metric": task.metric,
            "chosen_by_validation": None if best is None else rows.index(best),
            "rows": [row.to_dict() for row in rows],
        }
        typer.echo(json.dumps(found, indent=2, allow_nan=False))
        return
    from pdgnn.report.training import training_text

    show(training_text(task.name, task.metric, rows))


def _write_report(path: Path, task: Task, rows: Sequence[Summary]) -> None:
    import shlex

    from pdgnn.io.atomic import replacing
    from pdgnn.report.page import training_page

    command = shlex.join(["pdgnn", *sys.argv[1:]])
    page = training_page(task.name, task.metric, rows, command)
    with replacing(path, follow=True) as partial:
        partial.write_text(page, encoding="utf-8")


def _write_curves(path: Path, results: Sequence[RunResult]) -> None:
    """A row for each step of each run, with what differs; empty where a number is not finite."""
    import csv
    import math

    from pdgnn.io.atomic import replacing
    from pdgnn.report.training import differing, value

    names = differing(r.spec for r in results)
    with (
        replacing(path, follow=True) as partial,
        partial.open("x", newline="", encoding="utf-8") as file,
    ):
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(["model", *names, "split", "seed", "step", "loss", "val", "test"])
        for r in results:
            run = [r.spec.model, *(value(r.spec, n) for n in names), r.spec.split, r.spec.seed]
            for step, numbers in enumerate([] if r.curves is None else r.curves.tolist(), 1):
                rows.writerow(
                    [*run, step, *(f"{v:.7g}" if math.isfinite(v) else "" for v in numbers)]
                )
