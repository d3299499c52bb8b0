from __future__ import annotations

import numpy as np
import pytest

from pdgnn.estimator.trees import BOOSTERS, BoostedTrees, fit_trees, rounds_and_rate


def table(n: int = 120, classes: int = 3, seed: int = 0):
    """Classes by where a point lies on a line, beside columns that say nothing."""
    x = np.random.default_rng(seed).random((n, 4)).astype(np.float32)
    return x, np.minimum((x[:, 0] * classes).astype(np.int64), classes - 1)


def fit(x, y, **options) -> BoostedTrees:
    return fit_trees(x, y, num_classes=int(y.max()) + 1, **options)


@pytest.mark.parametrize("classes", [2, 3])
def test_learns_thresholds(classes):
    x, y = table(400, classes)
    more, truth = table(200, classes, seed=1)
    proba = fit(x, y).predict_proba(more)
    assert proba.shape == (200, classes)
    assert proba.sum(axis=1) == pytest.approx(1)
    assert (proba.argmax(axis=1) == truth).mean() > 0.9


@pytest.mark.parametrize("classes", [2, 3])
def test_the_mean_of_the_boosters(classes):
    x, y = table(classes=classes)
    model = fit(x, y)
    assert len(model.boosters) == BOOSTERS
    each = [BoostedTrees((t,), 4, classes).predict_proba(x) for t in model.texts]
    assert not np.array_equal(each[0], each[1])
    assert model.predict_proba(x) == pytest.approx(np.mean(each, axis=0))


def test_the_same_seed_gives_the_same_bits_whatever_the_threads(monkeypatch):
    monkeypatch.setattr("pdgnn.estimator.trees.ROUNDS", 5)
    x, y = table(300)
    one, again, other = fit(x, y, seed=3), fit(x, y, seed=3, threads=2), fit(x, y, seed=4)
    assert one.texts == again.texts
    assert not set(one.texts) & set(other.texts)
    assert (one.predict_proba(x) == again.predict_proba(x)).all()


@pytest.mark.parametrize("classes", [2, 3])
def test_from_texts(classes):
    x, y = table(classes=classes)
    model = fit(x, y)
    read = BoostedTrees.from_texts(model.texts, num_features=4, num_classes=classes)
    assert read.texts == model.texts
    assert (read.predict_proba(x) == model.predict_proba(x)).all()


@pytest.mark.parametrize("n", [6, 20, 50])
def test_few_nodes(n):
    x, y = table(n, 2)
    y[:2] = 0, 1
    proba = fit(x, y).predict_proba(x)
    assert np.isfinite(proba).all()
    if n == 50:
        assert (proba.argmax(axis=1) == y).mean() > 0.9


def test_weights():
    x, y = table(classes=2)
    noise = np.random.default_rng(0).integers(0, 2, len(y))
    heavy = fit(x[:, 1:], noise, sample_weight=np.where(noise == 1, 20.0, 1.0))
    assert heavy.predict_proba(x[:, 1:])[:, 1].mean() > 0.8


def test_fewer_rounds_where_there_is_much_to_do():
    assert rounds_and_rate(445, 306, 5) == (120, 0.06)
    rounds, rate = rounds_and_rate(150_000, 300, 2)
    assert 40 < rounds < 120
    assert rounds * rate == pytest.approx(120 * 0.06)
    assert rounds_and_rate(10**6, 300, 2) == (40, 0.18)
    x, y = table(classes=2)
    assert 100 < fit(x, y).boosters[0].num_trees() <= 120  # it ends where no split is left
