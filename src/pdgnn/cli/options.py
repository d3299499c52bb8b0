"""Options that several commands share."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

__all__ = [
    "AlphaOption",
    "AnyDevice",
    "Device",
    "DeviceOption",
    "GammaOption",
    "GraphArgument",
    "MaxGbOption",
    "Metric",
    "Precision",
    "ReachOption",
    "RootOption",
    "max_bytes_of",
]


class Device(StrEnum):
    """Where the work is done."""

    cpu = "cpu"
    cuda = "cuda"


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
AlphaOption = Annotated[float, typer.Option(help="α of L^(α,γ), in [0, 1].")]
GammaOption = Annotated[float, typer.Option(help="γ of L^(α,γ), in [0, 1].")]
DeviceOption = Annotated[Device, typer.Option(help="Where eigenvalues are computed.")]


def max_bytes_of(max_gb: float | None) -> int | None:
    """`--max-gb` as the `max_bytes` of :func:`pdgnn.io.sources.open_source`."""
    from pdgnn.errors import check_number

    return None if max_gb is None else max(1, int(1e9 * check_number("--max-gb", max_gb)))
