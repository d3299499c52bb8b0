from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from pdgnn.estimator.linear import fit_logistic


def words(n: int = 60, f: int = 40, classes: int = 3, seed: int = 0):
    """A table of mostly zeros in which some columns occur more often in one class."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % classes
    chance = np.where(np.arange(f)[None] % classes == y[:, None], 0.3, 0.05)
    return (rng.random((n, f)) < chance).astype(np.float32), y


def table(n: int = 80, classes: int = 3, seed: int = 0):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % classes
    return (rng.standard_normal((n, 4)) + 2 * np.eye(4)[y]) * [1, 10, 0.1, 1] + 5, y


def softmax(z: np.ndarray) -> np.ndarray:
    e = np.exp(z - z.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("classes", [2, 3])
def test_dense_is_scikit_learn_on_standardised_columns(classes):
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    x, y = table(classes=classes)
    found = fit_logistic(x, y, C=0.5).predict_proba(x)
    theirs = make_pipeline(StandardScaler(), LogisticRegression(C=0.5, tol=1e-8)).fit(x, y)
    assert found == pytest.approx(theirs.predict_proba(x), abs=1e-2)
    assert found.sum(axis=1) == pytest.approx(1)


@pytest.mark.parametrize("classes", [2, 3])
def test_the_gradient_vanishes_at_what_is_found(classes):
    x, y = words(classes=classes)
    model = fit_logistic(sp.csr_array(x), y, C=0.1)
    z = x / model.scale
    error = softmax(z @ model.coef.T + model.intercept) - np.eye(classes)[y]
    if classes == 2:  # one row of weights is held at 0
        error, coef = error[:, 1:], model.coef[1:]
    else:
        coef = model.coef
    gradient = error.T @ z + coef / 0.1
    assert np.abs(gradient).max() < 0.05
    assert np.abs(np.eye(classes)[y].T @ z).max() > 5  # what it is small against


def test_sparse_columns_are_divided_by_the_root_of_their_size():
    x = np.array([[2.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 1.0, 0.0], [2.0, 0.0, 0.0]])
    model = fit_logistic(sp.csr_array(x), np.array([0, 1, 1, 0]))
    size = np.sqrt((x**2).mean(axis=0))
    assert (model.mean == 0).all()
    assert model.scale[:2] == pytest.approx(np.sqrt(size[:2] * np.sqrt((size**2).mean())))
    assert model.scale[2] == 1.0  # a column of zeros


def test_a_constant_column_changes_nothing():
    x, y = table()
    more = np.column_stack([x, np.full(len(x), 7.0)])
    a, b = fit_logistic(x, y), fit_logistic(more, y)
    assert b.predict_proba(more) == pytest.approx(a.predict_proba(x), abs=1e-6)


def test_a_sparse_table_predicts_as_its_dense_form_does():
    x, y = words()
    model = fit_logistic(sp.csr_array(x), y)
    assert model.predict_proba(sp.csr_array(x)) == pytest.approx(model.predict_proba(x))
    assert (model.predict_proba(x).argmax(axis=1) == y).mean() > 0.9


def test_weights_count_as_copies():
    x, y = words()
    copies = np.where(y == 0, 3, 1)
    weighted = fit_logistic(sp.csr_array(x), y, C=0.1, sample_weight=copies.astype(float))
    plain = fit_logistic(sp.csr_array(x), y, C=0.1)
    assert weighted.predict_proba(x)[:, 0].mean() > plain.predict_proba(x)[:, 0].mean() + 0.05


def test_a_stronger_penalty_makes_smaller_weights():
    x, y = table()
    sizes = [np.abs(fit_logistic(x, y, C=C).coef).sum() for C in (0.01, 1.0, 100.0)]
    assert sizes == sorted(sizes)
    assert sizes[0] < sizes[2] / 4
