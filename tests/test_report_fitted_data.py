"""What the page of a fitted classifier says, against direct computation."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import confusion_matrix, precision_recall_fscore_support

from pdgnn import Graph
from pdgnn.report.fitted_data import (
    calibration,
    class_scores,
    confusion,
    held_out,
    neighbour_lists,
    node_data,
    sample_nodes,
    shortened,
    similar_nodes,
)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=40))
def test_confusion_and_class_scores_are_those_of_scikit_learn(pairs):
    truth, guess = np.array(pairs).T
    matrix = confusion(truth, guess, 4)
    assert np.array_equal(matrix, confusion_matrix(truth, guess, labels=range(4)))
    expected = precision_recall_fscore_support(truth, guess, labels=range(4), zero_division=0)
    found = class_scores(matrix)
    for name, values in zip(("precision", "recall", "f1", "support"), expected, strict=True):
        assert found[name] == pytest.approx(values.tolist())


def test_calibration_bins_by_the_probability_of_the_prediction():
    rng = np.random.default_rng(0)
    proba = rng.dirichlet(np.ones(3), size=500)
    truth = rng.integers(3, size=500)
    found = calibration(proba, truth)
    p, hit = proba.max(axis=1), proba.argmax(axis=1) == truth
    gap = 0.0
    for low, count, right, stated in zip(
        found["low"], found["count"], found["right"], found["stated"], strict=True
    ):
        inside = (p >= low) & (p < low + 0.1)
        assert count == inside.sum()
        assert (right, stated) == pytest.approx((hit[inside].mean(), p[inside].mean()))
        gap += abs(hit[inside].sum() - p[inside].sum())
    assert sum(found["count"]) == 500
    assert found["error"] == pytest.approx(gap / 500)


def test_certain_predictions_fall_in_the_last_bin():
    assert calibration(np.array([[1.0, 0.0]]), np.array([0]))["low"] == [0.9]


def test_held_out_nodes_have_a_label_and_honest_probabilities():
    honest = np.array([[0.5, 0.5], [np.nan, np.nan], [0.1, 0.9]])
    assert held_out(honest, np.array([0, 1, -1])).tolist() == [True, False, False]


def test_a_small_pool_is_taken_whole():
    assert sample_nodes(np.zeros(5, int), np.array([1, 3]), np.array([4])).tolist() == [1, 3, 4]


@given(st.integers(0, 1000), st.integers(200, 500))
def test_a_sample_keeps_classes_in_proportion_and_what_must_be_there(seed, most):
    rng = np.random.default_rng(seed)
    y = np.concatenate([np.full(1500, 0), np.full(450, 1), np.full(45, -1), np.full(5, 2)])
    rng.shuffle(y)
    always = rng.choice(2000, size=3, replace=False)
    found = sample_nodes(y, np.arange(2000), always, most)
    assert found.size == most
    assert np.isin(always, found).all()
    assert (np.diff(found) > 0).all()
    assert (y[found] == 2).sum() == 5  # a rare class is not lost
    assert (y[found] == 0).sum() > (y[found] == 1).sum() > 0


def dense_weights(n: int = 9):
    rng = np.random.default_rng(1)
    dense = rng.random((n, n)) * (rng.random((n, n)) < 0.6)
    dense[0] = 0.0  # a row without anything
    dense[:, 0] = 0.0
    new = (rng.random((n, n)) < 0.3) & (dense > 0)
    np.fill_diagonal(new, False)
    return dense, new


def test_neighbour_lists_hold_the_largest_shares_of_each_row():
    dense, new = dense_weights()
    nodes = np.array([0, 2, 5])
    found = neighbour_lists(sp.csr_array(dense), sp.csr_array(new.astype(float)), nodes, most=3)
    assert found["near"][0] == []
    assert found["over"][0] is None
    for row, i in enumerate(nodes.tolist()):
        total = dense[i].sum() or 1.0
        others = [j for j in np.argsort(-dense[i], kind="stable") if dense[i, j] and j != i]
        named = [-1 - j if new[i, j] else j for j in others[:3]]
        assert found["near"][row][::2] == named
        shares = [10_000 * dense[i, j] / total for j in others[:3]]
        assert found["near"][row][1::2] == pytest.approx(shares, abs=0.51)
        assert found["own"][row] == pytest.approx(10_000 * dense[i, i] / total, abs=0.51)
        if others:
            over = sum(dense[i, j] for j in others if new[i, j]) / (total - dense[i, i])
            assert found["over"][row] == pytest.approx(1000 * over, abs=0.51)


def test_long_ids_of_others_cost_neighbours():
    ids = np.array(["x" * 10] * 60, dtype=object)
    near = [[value for n in range(20, 32) for value in (n, 100)], [-1 - 40, 100, 1, 50]]
    nodes = np.array([0, 1])
    assert shortened(near, ids, nodes, most=130) == near  # twelve and one
    cut = shortened(near, ids, nodes, most=129)
    assert [len(row) for row in cut] == [16, 4]
    assert cut[0] == near[0][:16]
    assert shortened(near, ids, nodes, most=9) == [[], []]


def test_similar_nodes_by_probabilities_and_features():
    rng = np.random.default_rng(2)
    proba, x = rng.dirichlet(np.ones(3), size=12), rng.normal(size=(12, 5))
    labelled = np.array([0, 3, 4, 7, 11])
    z = (x - x.mean(axis=0)) / x.std(axis=0)
    cosine = z @ z.T / np.outer(np.linalg.norm(z, axis=1), np.linalg.norm(z, axis=1))
    alike = 0.5 * np.sqrt(proba) @ np.sqrt(proba).T + 0.5 * np.maximum(cosine, 0)
    for i, near in enumerate(similar_nodes(proba, x, labelled, most=3)):
        others = sorted((j for j in labelled.tolist() if j != i), key=lambda j: -alike[i, j])
        assert near[::2] == others[:3]
        assert near[1::2] == pytest.approx([1000 * alike[i, j] for j in others[:3]], abs=0.51)


def test_many_features_are_projected_and_close_rows_still_found():
    rng = np.random.default_rng(3)
    x = rng.normal(size=(40, 600))
    x[1] = x[0] + 0.01
    near = similar_nodes(np.full((40, 2), 0.5), x, np.arange(40), most=1)
    assert near[0][0] == 1
    assert near[0][1] > 950


def test_nothing_is_similar_where_nothing_is_labelled_or_else_than_itself():
    proba, x = np.full((2, 2), 0.5), np.zeros((2, 0))
    assert similar_nodes(proba, x, np.array([], dtype=int)) == [[], []]
    assert similar_nodes(proba, x, np.array([1])) == [[1, 500], []]


def test_nodes_are_listed_with_the_neighbours_they_name():
    lists = {"near": [[4, 7000, -1 - 2, 3000], []], "own": [0, 10_000], "over": [300, None]}
    lists["count"] = [2, 0]
    proba = np.eye(3)[[0, 1, 2, 0, 1]] * 0.4 + 0.2
    honest = np.full((5, 3), np.nan)
    honest[1] = 0.1, 0.2, 0.7
    data = node_data(
        ids=np.array(["a", "b\n", "c", 3, "e"], dtype=object),
        y=np.array([0, -1, 2, 0, 1]),
        part=np.array([0, -1, 1, 2, 0], dtype=np.int8),
        proba=proba,
        honest=honest,
        lists=lists,
        nodes=np.array([1, 2]),
    )
    assert data["id"] == ["b ", "c", "e"]
    assert data["near"] == [[2, 7000, -1 - 1, 3000], []]
    assert (data["label"], data["guess"]) == ([-1, 2, 1], [1, 2, 1])
    assert data["sure"] == [600, 600, 600]
    assert data["top"][0] == [1, 600, 0, 200, 2, 200]
    assert data["held"] == [[2, 700], []]


def test_graph_of_one_edge_has_lists():
    g = Graph.from_edge_index([[0], [1]])
    empty = sp.csr_array((2, 2))
    found = neighbour_lists(g.adjacency(), empty, np.array([0, 1]))
    assert found["near"] == [[1, 10_000], [0, 10_000]]
