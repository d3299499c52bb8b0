"""scikit-learn's own checks of an estimator."""

from __future__ import annotations

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from pdgnn import PDClassifier

EXPECTED: dict[str, str] = {}
"""Checks that do not apply, and why."""


@pytest.mark.usefixtures("no_clock")
@pytest.mark.filterwarnings("ignore")  # as scikit-learn runs them: the checks provoke warnings
@parametrize_with_checks(
    [PDClassifier(model="logistic", minutes=0.01), PDClassifier(model="pd-trees", minutes=0.01)],
    expected_failed_checks=lambda _: EXPECTED,
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)
