"""The command ``pdgnn fit``: a classifier for the nodes of a graph of one's own."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from pdgnn.cli.options import AnyDevice, MaxGbOption, Metric, RootOption, max_bytes_of
from pdgnn.cli.progress import now_and_then
from pdgnn.cli.terminal import show, tell, working, wrapped_errors

__all__ = ["IdOption", "NodesOption", "fit_command"]


class Impute(StrEnum):
    """What missing numbers become."""

    median = "median"


NodesOption = Annotated[
    Path | None,
    typer.Option(
        help="The node table, .csv, .tsv or .parquet: a row with id, label, features for each.",
        show_default=False,
    ),
]
IdOption = Annotated[
    str | None, typer.Option("--id", help='The column of ids; else "id".', show_default=False)
]


def fit_command(
    edges: Annotated[
        str,
        typer.Argument(
            metavar="EDGES",
            help="An edge list, a folder with nodes.* and edges.*, a .graphml or .npz file, or "
            "the name of a dataset.",
            show_default=False,
        ),
    ],
    *,
    output: Annotated[
        Path,
        typer.Option("--output", "-o", help="The folder of the model.", show_default=False),
    ],
    nodes: NodesOption = None,
    label: Annotated[
        str | None,
        typer.Option(help='The column to learn; else "label".', show_default=False),
    ] = None,
    id_column: IdOption = None,
    drop: Annotated[
        list[str] | None,
        typer.Option(help="A column to leave out. May be repeated.", show_default=False),
    ] = None,
    impute: Annotated[
        Impute | None,
        typer.Option(help="Fill missing numbers; else they are an error.", show_default=False),
    ] = None,
    minutes: Annotated[float, typer.Option(help="How long to search.")] = 2.0,
    model: Annotated[
        str, typer.Option("--model", "-m", help="auto tries many; or one: pd-gat, pd-trees, ...")
    ] = "auto",
    metric: Annotated[
        Metric | None,
        typer.Option(
            help="What models are chosen by; else ROC AUC (two classes) or accuracy.",
            show_default=False,
        ),
    ] = None,
    balanced: Annotated[
        bool, typer.Option("--balanced", help="Let all classes count the same.")
    ] = False,
    device: Annotated[AnyDevice, typer.Option(help="Where models train.")] = AnyDevice.auto,
    seed: Annotated[int, typer.Option(help="Of all that is random.")] = 0,
    split: Annotated[int, typer.Option(help="Which of the splits that an .npz stores.")] = 0,
    force: Annotated[
        bool, typer.Option("--force", help="Replace the model folder if it exists.")
    ] = False,
    root: RootOption = None,
    max_gb: MaxGbOption = None,
) -> None:
    """Find a classifier for the nodes of a graph, and say how good it is.

    Nodes without a label are those to be predicted. A column called split (train,
    val, test) is kept to; else the labelled nodes are split by the seed. Ctrl-C
    ends the search early and keeps the best so far.

    Examples:

    pdgnn fit edges.csv --nodes nodes.csv --label role -o model
    pdgnn fit folder --label role --drop name --impute median -o model
    pdgnn fit graph.graphml --label role --minutes 10 -o model
    pdgnn fit minesweeper --split 3 -o model
    """
    with wrapped_errors():
        from pdgnn.io.atomic import claimed_folder
        from pdgnn.io.nodes import read_nodes
        from pdgnn.io.write import check_model_folder

        limit = max_bytes_of(max_gb)
        check_model_folder(output, force=force)
        reading = f"reading {nodes or edges}"
        watched = sys.stderr.isatty()
        busy = f"{output}: another pdgnn fit is to write there; wait for it, or name another folder"
        with (
            claimed_folder(output, busy=busy),
            working(reading) if watched else nullcontext(now_and_then()) as progress,
        ):
            table = read_nodes(
                edges,
                nodes,
                id=id_column,
                label=label,
                drop=drop or (),
                split=split,
                root=root,
                max_bytes=limit,
            )
            # after the table, since these take seconds to import
            from pdgnn.estimator.classifier import PDClassifier
            from pdgnn.report.fitted_text import fitted_text

            classifier = PDClassifier(
                model=model,
                minutes=minutes,
                device=device.value,
                seed=seed,
                metric=None if metric is None else metric.value,
                class_weight="balanced" if balanced else None,
                impute=None if impute is None else impute.value,
            )
            classifier.fit(table, progress=progress)
            progress("writing the model and its page")
            classifier.save(output, force=force)
        show(fitted_text(classifier))
        tell(f"the model is in {output}, and the page that says why is {output / 'report.html'}")
