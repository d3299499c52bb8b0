"""Writing predictions as a table: .csv, .tsv or .parquet."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pdgnn.errors import InputError
from pdgnn.io.atomic import replacing

__all__ = ["PREDICTION_SUFFIXES", "probability_names", "write_predictions"]

PREDICTION_SUFFIXES = (".csv", ".tsv", ".parquet")


def probability_names(classes: Sequence[Any]) -> list[str]:
    """``p_`` and the class. Where two read the same, as 1 and "1" do, later ones get a number.

    >>> probability_names(["a", 1, "1", "1_2"])
    ['p_a', 'p_1', 'p_1_2', 'p_1_2_2']
    """
    names: list[str] = []
    for label in classes:
        name, number = f"p_{label}", 2
        while name in names:
            name, number = f"p_{label}_{number}", number + 1
        names.append(name)
    return names


def write_predictions(
    path: str | PathLike[str],
    ids: NDArray[Any],
    labels: Sequence[Any],
    proba: NDArray[Any],
    classes: Sequence[Any],
) -> None:
    """Write the columns id, prediction and one of :func:`probability_names` for each class.

    `ids` ``[N]`` and the predicted `labels` ``[N]`` are written as they are, the probabilities
    `proba` ``[N, C]`` with 6 digits in text and as float32 in Parquet.
    """
    if proba.shape != (len(ids), len(classes)) or len(labels) != len(ids):
        raise InputError(
            f"there are {len(ids)} ids, {len(labels)} predictions and probabilities of shape "
            f"{proba.shape} for {len(classes)} classes, which do not match"
        )
    path = Path(path)
    suffix = path.suffix.lower()
    if suffix not in PREDICTION_SUFFIXES:
        known = ", ".join(PREDICTION_SUFFIXES)
        raise InputError(f"{path}: files of this kind are not written; use {known}")
    names = ["id", "prediction", *probability_names(classes)]
    values = [np.asarray(labels).tolist(), *np.asarray(proba, dtype=np.float32).T]
    with replacing(path, follow=True) as partial:
        if suffix == ".parquet":
            _write_parquet(partial, names, [ids.tolist(), *values])
        else:
            _write_text(partial, names, [ids.tolist(), *values], "," if suffix == ".csv" else "\t")


def _write_parquet(path: Path, names: list[str], columns: list[Any]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.Table.from_arrays([pa.array(c) for c in columns], names=names), path)


def _write_text(path: Path, names: list[str], columns: list[Any], separator: str) -> None:
    written = [*columns[:2], *([f"{p:.6g}" for p in column.tolist()] for column in columns[2:])]
    with path.open("x", newline="", encoding="utf-8") as file:
        rows = csv.writer(file, delimiter=separator, lineterminator="\n")
        rows.writerow(names)
        rows.writerows(zip(*written, strict=True))
