"""Multinomial logistic regression: softmax(W z + b), with z the features brought to one scale.

Dense features are centred and divided by their standard deviation. Sparse ones, such as words, are
divided by the square root of their root mean square: zeros stay zeros, and a rare word counts for
less than a frequent one, but not by as much as it is rarer.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from pdgnn.diffusion import Matrix

__all__ = ["LogisticRegression", "fit_logistic"]

Floats = NDArray[np.float64]
ITERATIONS = 200


@dataclass(frozen=True)
class LogisticRegression:
    """A fitted model, as plain arrays."""

    coef: Floats  # [C, F]
    intercept: Floats  # [C]
    mean: Floats  # [F], zero for sparse features
    scale: Floats  # [F]

    def predict_proba(self, x: Matrix) -> Floats:
        """softmax(W (x − mean) / scale + b), ``[N, C]``."""
        from scipy.special import softmax

        weight = self.coef / self.scale  # [C, F]
        logits = x @ weight.T + (self.intercept - weight @ self.mean)
        return np.asarray(softmax(logits, axis=1))


def fit_logistic(
    x: Matrix,
    y: NDArray[np.int64],
    *,
    C: float = 1.0,
    sample_weight: Floats | None = None,
) -> LogisticRegression:
    """Fit on the rows of `x`, with y in 0, 1, …, each of which occurs, by L-BFGS.

    The penalty is ‖W‖² / 2C beside the sum of the losses, as in scikit-learn. It stops after 200
    steps: the last digits of the optimum do not change a prediction.
    """
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression as Solver

    mean, scale = _scaling(x)
    if sp.issparse(x):
        scaled = x @ sp.diags_array(1 / scale)
    else:
        scaled = (x - mean.astype(x.dtype)) / scale.astype(x.dtype)  # float32 stays float32
    solver = Solver(C=C, max_iter=ITERATIONS, tol=1e-3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.filterwarnings("ignore", "The number of unique classes")  # many, of few nodes
        solver.fit(scaled, y, sample_weight=sample_weight)
    # [C, F], or [1, F] for two classes; in the order of memory that a saved model has
    coef = np.ascontiguousarray(solver.coef_, dtype=np.float64)
    intercept = np.asarray(solver.intercept_, dtype=np.float64)
    if len(coef) == 1:  # the sigmoid of z is the softmax of (0, z)
        coef, intercept = np.vstack([0 * coef, coef]), np.append(0 * intercept, intercept)
    return LogisticRegression(coef, intercept, mean, scale)


def _scaling(x: Matrix) -> tuple[Floats, Floats]:
    """What is subtracted from each column, and what it is divided by."""
    columns = x.shape[1]
    if sp.issparse(x):
        squares = np.bincount(x.indices, x.data.astype(np.float64) ** 2, columns)
        size = np.sqrt(squares / x.shape[0])  # [F], the root mean square
        typical = np.sqrt(np.mean(size**2))
        return np.zeros(columns), np.where(size > 0, np.sqrt(size * typical), 1.0)
    mean = x.mean(axis=0, dtype=np.float64)
    scale = x.std(axis=0, dtype=np.float64)
    return mean, np.where(scale > 1e-9 * (1.0 + np.abs(mean)), scale, 1.0)
