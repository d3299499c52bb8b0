"""The command ``pdgnn predict``: the labels that a fitted model gives to nodes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pdgnn.cli.fit import NodesOption
from pdgnn.cli.options import MaxGbOption, RootOption, max_bytes_of
from pdgnn.cli.terminal import tell, working, wrapped_errors

__all__ = ["predict_command"]


def predict_command(
    model: Annotated[
        Path, typer.Argument(help="The folder that pdgnn fit wrote.", show_default=False)
    ],
    *,
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", help="The file to write: .csv, .tsv or .parquet.", show_default=False
        ),
    ],
    edges: Annotated[
        str | None,
        typer.Option(
            help="A new graph, of any kind that pdgnn fit takes; its nodes are predicted.",
            show_default=False,
        ),
    ] = None,
    nodes: NodesOption = None,
    everyone: Annotated[
        bool, typer.Option("--all", help="Predict the labelled nodes of the fitted graph too.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace the file if it exists.")] = False,
    root: RootOption = None,
    max_gb: MaxGbOption = None,
) -> None:
    """Predict the nodes without a label of the graph that was fitted, or a new graph.

    The columns are id, prediction, and the probability p_CLASS of each class; where two
    classes read the same, the later one is p_CLASS_2. A new graph needs the feature
    columns that the model was fitted with, and no others but those that were dropped.

    Examples:

    pdgnn predict model -o predictions.csv
    pdgnn predict model --edges new-edges.csv --nodes new-nodes.csv -o predictions.parquet
    """
    with wrapped_errors():
        from pdgnn.errors import InputError
        from pdgnn.io.predictions import PREDICTION_SUFFIXES, write_predictions
        from pdgnn.io.write import check_output

        limit = max_bytes_of(max_gb)
        if nodes is not None and edges is None:
            raise InputError("--nodes needs --edges: a new graph is both")
        if edges is not None and everyone:
            raise InputError("--all is for the fitted graph; of a new one all nodes are predicted")
        check_output(output, PREDICTION_SUFFIXES, force=force)
        from pdgnn.estimator.classifier import PDClassifier
        from pdgnn.estimator.prediction import predicted_nodes
        from pdgnn.io.nodes import read_nodes

        with working(f"loading {model}") as now:
            classifier = PDClassifier.load(model)
            table = None
            if edges is not None:
                now(f"reading {nodes or edges}")
                table = read_nodes(
                    edges,
                    nodes,
                    id=classifier.id_name_,
                    label=classifier.label_name_,
                    drop=classifier.dropped_,
                    root=root,
                    max_bytes=limit,
                    fitted=True,
                )
            now("predicting")
            found = predicted_nodes(classifier, table, everyone=everyone)
            write_predictions(output, *found)
        unseen = {} if classifier.encoder_ is None else classifier.encoder_.unseen_
        for name, count in unseen.items():
            if count:
                tell(f"column {name!r}: {count:,} nodes have a category unknown to the model")
        tell(f"{len(found[0]):,} predictions are in {output}")
