"""What is said of the data of a fit."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from pdgnn import Graph
from pdgnn.estimator.columns import ColumnEncoder
from pdgnn.estimator.remarks import data_remarks

PAIR = Graph.from_edge_index([[0], [1]])
AGES = ColumnEncoder().fit(pa.table({"age": [1.0, 2.0]}))


def remarks(encoder=AGES, graph=PAIR, classes=("a", "b"), counts=(3, 4), weighted=False):
    return data_remarks(graph, encoder, classes, np.array(counts), weighted=weighted)


def test_there_is_nothing_to_say_of_plain_data():
    assert remarks() == []


def test_what_is_missing_is_said():
    assert "no features" in remarks(encoder=None)[0]
    assert "no edges" in remarks(graph=Graph.from_edge_index([[], []], 2))[0]


@pytest.mark.parametrize(
    ("classes", "odd"),
    [
        (("a", "NA"), "'NA'"),
        (("a", "?"), "'?'"),
        (("None", "b"), "'None'"),
        ((-1, 0, 1), "-1"),
        ((-1, 1), None),
        ((0, 1), None),
        ((True, False), None),
        (("Namibia", "-1"), None),
    ],
)
def test_labels_that_may_mean_none_are_named(classes, odd):
    found = remarks(classes=classes, counts=range(3, 3 + len(classes)))
    assert len(found) == (odd is not None)
    assert all(f"nodes have the label {odd}, which counts as a class" in line for line in found)


def test_columns_of_numbers_and_a_few_words_are_named():
    odd = [str(i) for i in range(12)] * 2 + ["?", "?"]
    grades, codes = ["1", "2", "3", "4+"] * 6 + ["1"] * 2, [f"{i % 11:03}" for i in range(26)]
    encoder = ColumnEncoder().fit(pa.table({"age": odd, "grade": grades, "code": codes}))
    (said,) = remarks(encoder=encoder)
    assert "Column 'age' is taken for categories, as it holds '?' beside numbers" in said


def test_unbalanced_classes_are_named_unless_they_are_weighted():
    assert "12 nodes are b and 1 a" in remarks(counts=(1, 12))[0]
    assert remarks(counts=(1, 12), weighted=True) == []
