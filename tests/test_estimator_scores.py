"""Scores of probabilities, their intervals, and whether the graph helps."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn import metrics

from pdgnn.estimator import scores
from pdgnn.estimator.scores import estimate, score


def some(n: int, classes: int, skill: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    y = rng.integers(0, classes, size=n)
    logits = rng.normal(size=(n, classes)) + skill * np.eye(classes)[y]
    proba = np.exp(logits)
    return proba / proba.sum(axis=1, keepdims=True), y


@pytest.mark.parametrize("classes", [2, 4])
def test_scores_are_those_of_scikit_learn(classes):
    proba, y = some(200, classes, 1.0, 3)
    guess, ranked = proba.argmax(axis=1), proba[:, 1] if classes == 2 else proba
    auc = metrics.roc_auc_score(y, ranked, multi_class="ovr")
    truth = y if classes == 2 else np.eye(classes)[y]
    wanted = {
        "accuracy": metrics.accuracy_score(y, guess),
        "balanced_accuracy": metrics.balanced_accuracy_score(y, guess),
        "macro_f1": metrics.f1_score(y, guess, average="macro"),
        "roc_auc": auc,
        "average_precision": metrics.average_precision_score(truth, ranked),
    }
    for name, value in wanted.items():
        assert score(proba, y, name) == pytest.approx(value, abs=1e-9), name


def test_certain_probabilities_have_scores_too():
    proba = np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
    assert score(proba, np.array([0, 1, 1]), "roc_auc") == 1.0


@pytest.mark.parametrize("metric", ["accuracy", "roc_auc"])
def test_intervals_cover_the_truth_about_as_often_as_they_say(metric, monkeypatch):
    """Of 95 % intervals, some 95 % hold the score of very many nodes."""
    monkeypatch.setattr(scores, "RESAMPLES", 100)
    truth = score(*some(100_000, 2, 1.0, 0), metric)
    hits = 0
    for seed in range(1, 41):
        proba, y = some(150, 2, 1.0, seed)
        e = estimate(proba, y, metric, {}, majority=0, how="", seed=seed)
        hits += e.low <= truth <= e.high
    assert 33 <= hits <= 40


def test_the_graph_helps_only_if_by_more_than_chance():
    proba, y = some(400, 3, 2.0, 1)
    worse, _ = some(400, 3, 0.0, 2)
    clear = estimate(proba, y, "accuracy", {"MLP": worse}, majority=0, how="h", seed=0)
    assert clear.helps
    assert "helps" in clear.sentence
    assert clear.n == 400
    same = estimate(proba, y, "accuracy", {"MLP": proba}, majority=0, how="h", seed=0)
    assert not same.helps
    assert "does not help" in same.sentence
    assert same.baselines["MLP"][0] == same.score
    assert same.baselines["majority class"][0] == pytest.approx((y == 0).mean())


def test_no_nodes_at_all_is_no_number():
    nothing = np.zeros((0, 2))
    e = estimate(nothing, np.zeros(0, np.int64), "accuracy", {}, majority=0, how="", seed=0)
    assert np.isnan([e.score, e.low, e.high]).all()
    assert not e.helps
    assert "nan" not in e.sentence
    assert "is not known" in e.sentence
