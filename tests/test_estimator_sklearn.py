"""scikit-learn's own checks of an estimator."""

from __future__ import annotations

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from pdgnn import PDClassifier
from pdgnn.estimator import splits


@pytest.fixture
def two_folds(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tables of the checks have few labels; five folds of five would take minutes."""
    monkeypatch.setattr(splits, "FOLDS", 2)


@pytest.mark.usefixtures("no_clock", "two_folds")
@pytest.mark.filterwarnings("ignore")  # as scikit-learn runs them: the checks provoke warnings
@parametrize_with_checks([PDClassifier(model="logistic", minutes=0.01)])  # all apply, and pass
def test_scikit_learn_checks(estimator, check):
    check(estimator)
