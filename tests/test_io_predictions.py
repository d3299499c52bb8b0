"""Predictions, written and read back."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdgnn import InputError
from pdgnn.io.predictions import probability_names, write_predictions

IDS = np.array(["007", 'say "a,b"', "é\tz"], dtype=object)
LABELS = ["x", "y,\n", "x"]
PROBA = np.array([[0.75, 0.25], [1e-9, 1.0], [1 / 3, 2 / 3]])


@pytest.mark.parametrize(("name", "separator"), [("a.csv", ","), ("a.TSV", "\t")])
def test_text_comes_back_as_it_was(tmp_path, name, separator):
    path = tmp_path / name
    path.write_text("old")
    write_predictions(path, IDS, LABELS, PROBA, ["x", "y,\n"])
    with path.open(newline="", encoding="utf-8") as file:
        header, *rows = csv.reader(file, delimiter=separator)
    assert header == ["id", "prediction", "p_x", "p_y,\n"]
    assert [row[:2] for row in rows] == [list(pair) for pair in zip(IDS, LABELS, strict=True)]
    assert [row[2:] for row in rows] == [["0.75", "0.25"], ["1e-09", "1"], ["0.333333", "0.666667"]]
    assert [p.name for p in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize(
    ("ids", "labels"),
    [
        (np.array([2**60 + 1, -4, 5]), [True, False, True]),
        (IDS, [3, 4, 3]),
    ],
)
def test_parquet_keeps_the_types(tmp_path, ids, labels):
    write_predictions(tmp_path / "a.parquet", ids, labels, PROBA, sorted(set(labels)))
    table = pq.read_table(tmp_path / "a.parquet")
    assert table.column("id").to_pylist() == ids.tolist()
    assert table.column("prediction").to_pylist() == labels
    np.testing.assert_array_equal(np.stack(table.columns[2:], axis=1), PROBA.astype(np.float32))


@given(st.lists(st.one_of(st.integers(0, 3), st.text("1_2", max_size=4)), max_size=8))
def test_names_of_probabilities_are_unique(classes):
    names = probability_names(classes)
    assert len(set(names)) == len(classes)
    assert all(n.startswith(f"p_{c}") for n, c in zip(names, classes, strict=True))


def test_what_does_not_match_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="do not match"):
        write_predictions("a.csv", IDS, LABELS, PROBA, ["x"])
    with pytest.raises(InputError, match="do not match"):
        write_predictions("a.csv", IDS, LABELS[:2], PROBA, ["x", "y"])
    with pytest.raises(InputError, match=r"a\.txt: files of this kind are not written"):
        write_predictions("a.txt", IDS, LABELS, PROBA, ["x", "y"])
    with pytest.raises(InputError, match="cannot be written"):
        write_predictions("gone/a.csv", IDS, LABELS, PROBA, ["x", "y"])
    assert list(Path().iterdir()) == []
