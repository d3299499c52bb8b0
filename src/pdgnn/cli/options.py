"""Options that several commands share."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

__all__ = [
    "SAVE_SECONDS",
    "AlphaOption",
    "AnyDevice",
    "DatasetsOption",
    "Device",
    "DeviceOption",
    "GammaOption",
    "GraphArgument",
    "MaxGbOption",
    "Metric",
    "MinutesOption",
    "MostRunsOption",
    "PlanOption",
    "Precision",
    "ReachOption",
    "RootOption",
    "SplitsOption",
    "max_bytes_of",
]


class Device(StrEnum):
    """Where the work is done."""

    cpu = "cpu"
    cuda = "cuda"


SAVE_SECONDS = {Device.cpu: 60.0, Device.cuda: 600.0}
"""How often the state of running groups is kept; that of a GPU's is gigabytes."""


class AnyDevice(StrEnum):
    """Where the work is done; a GPU if there is one."""

    auto = "auto"
    cpu = "cpu"
    cuda = "cuda"


class Metric(StrEnum):
    """By what runs are scored."""

    accuracy = "accuracy"
    balanced_accuracy = "balanced_accuracy"
    macro_f1 = "macro_f1"
    roc_auc = "roc_auc"
    average_precision = "average_precision"


class Precision(StrEnum):
    """Of the arithmetic."""

    float32 = "float32"
    tf32 = "tf32"
    bfloat16 = "bfloat16"
    float64 = "float64"


class ReachOption(StrEnum):
    """Which nodes are joined to the gradient node."""

    all = "all"
    far = "far"


GraphArgument = Annotated[
    str,
    typer.Argument(
        metavar="GRAPH",
        help="A file (.csv, .tsv, .txt, .parquet, .npz, .graphml), the name of a dataset, or a "
        "generated board such as minesweeper-generated:size=50,seed=3.",
        show_default=False,
    ),
]
RootOption = Annotated[
    Path | None,
    typer.Option(
        help="Folder of the datasets; else PDGNN_DATA, else ~/.cache/pdgnn.", show_default=False
    ),
]
MaxGbOption = Annotated[
    float | None,
    typer.Option(
        help="The most GB that a file may unpack to; else 8, or an eighth of the memory.",
        show_default=False,
    ),
]
DatasetsOption = Annotated[
    str | None,
    typer.Option(help="Which graphs, with commas between them; else all.", show_default=False),
]
SplitsOption = Annotated[
    str | None,
    typer.Option(help="Which splits: 0,1,2 or 0-4; else the first ten.", show_default=False),
]
MinutesOption = Annotated[
    float | None,
    typer.Option(
        help="Begin no group of runs after so many; what is done is kept.", show_default=False
    ),
]
MostRunsOption = Annotated[
    int | None,
    typer.Option(
        help="The most runs to train at once; else as many as fit a GPU, 1 on a CPU.",
        show_default=False,
    ),
]
PlanOption = Annotated[
    bool, typer.Option("--plan", "--dry-run", help="Say what there is to do, and stop.")
]
AlphaOption = Annotated[float, typer.Option(help="α of L^(α,γ), in [0, 1].")]
GammaOption = Annotated[float, typer.Option(help="γ of L^(α,γ), in [0, 1].")]
DeviceOption = Annotated[Device, typer.Option(help="Where eigenvalues are computed.")]


def max_bytes_of(max_gb: float | None) -> int | None:
    """`--max-gb` as the `max_bytes` of :func:`pdgnn.io.sources.open_source`."""
    from pdgnn.errors import check_number

    return None if max_gb is None else max(1, int(1e9 * check_number("--max-gb", max_gb)))
