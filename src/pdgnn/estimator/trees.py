"""Boosted trees by LightGBM whose thresholds are drawn at random, an average over two seeds.

At a split, half of a tree's features are looked at, with one random threshold each, as in extremely
randomised trees; that takes less time than to look for the best one. Averaging them with
scikit-learn's ExtraTrees did not raise validation scores (``results/trees.json``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pdgnn.estimator.tree_text import checked_text

if TYPE_CHECKING:
    import lightgbm as lgb

__all__ = ["BoostedTrees", "fit_trees", "rounds_and_rate"]

Floats = NDArray[np.float64]
ROUNDS, RATE = 120, 0.06
BOOSTERS = 2
"""Of different seeds, averaged."""
COLUMNS = 100
"""About so many features are offered to a tree, and half of these to each of its splits."""
LARGE = 1e9
"""Rows × features × trees beyond which there are fewer rounds, at a higher rate."""


@dataclass(frozen=True)
class BoostedTrees:
    """Fitted boosters as texts of LightGBM, see :func:`pdgnn.estimator.tree_text.checked_text`."""

    texts: tuple[str, ...]
    num_features: int
    num_classes: int

    @classmethod
    def from_texts(
        cls, texts: Sequence[str], *, num_features: int, num_classes: int
    ) -> BoostedTrees:
        """From texts of a file; damage, or other features or classes, is an error."""
        checked = tuple(checked_text(text, num_features, num_classes) for text in texts)
        return cls(checked, num_features, num_classes)

    @cached_property
    def boosters(self) -> list[lgb.Booster]:
        """The models that LightGBM reads from the texts."""
        import lightgbm as lgb

        return [lgb.Booster(model_str=text) for text in self.texts]

    def predict_proba(self, x: NDArray[np.float32], *, threads: int = 1) -> Floats:
        """The mean over the boosters, ``[N, C]``."""
        mean = np.mean([b.predict(x, num_threads=threads) for b in self.boosters], axis=0)
        return np.stack([1.0 - mean, mean], axis=1) if mean.ndim == 1 else np.asarray(mean)


def fit_trees(
    x: NDArray[np.float32],
    y: NDArray[np.int64],
    *,
    num_classes: int,
    sample_weight: Floats | None = None,
    seed: int = 0,
    threads: int = 1,
    rounds: int | None = None,
    rate: float | None = None,
    leaves: int = 15,
) -> BoostedTrees:
    """Fit on the rows of `x`, with y in 0, …, C − 1, each of which occurs.

    Unless they are given, the number of rounds and the learning rate depend on the size alone. No
    node is held out to stop early: on a few hundred nodes such a choice is noise, and the
    validation nodes are for comparing models.
    """
    import lightgbm as lgb

    usual = rounds_and_rate(x.shape[0], x.shape[1], num_classes)
    rounds, rate = rounds or usual[0], rate or usual[1]
    shared: dict[str, Any] = {
        "objective": "binary" if num_classes == 2 else "multiclass",
        "num_class": 1 if num_classes == 2 else num_classes,
        "learning_rate": rate,
        "num_leaves": leaves,
        "lambda_l2": 1.0,
        "extra_trees": True,
        "feature_fraction": min(1.0, COLUMNS / x.shape[1]),
        "feature_fraction_bynode": 0.5,
        "max_bin": 63,
        "min_child_samples": min(20, max(2, len(x) // 20)),
        "deterministic": True,
        "force_col_wise": True,
        "num_threads": threads,
        "verbosity": -1,
    }
    texts = []
    for place in range(BOOSTERS):
        params = shared | {"seed": BOOSTERS * seed + place}
        booster = lgb.train(params, lgb.Dataset(x, y, weight=sample_weight), rounds)
        texts.append(booster.model_to_string())
    return BoostedTrees.from_texts(texts, num_features=x.shape[1], num_classes=num_classes)


def rounds_and_rate(num_rows: int, num_features: int, num_classes: int) -> tuple[int, float]:
    """How many rounds of which learning rate: fewer and bolder ones where a round is expensive.

    >>> rounds_and_rate(445, 306, 5), rounds_and_rate(25_000, 300, 10)
    ((120, 0.06), (40, 0.18))
    """
    trees = ROUNDS * (1 if num_classes == 2 else num_classes)
    work = num_rows * min(num_features, COLUMNS) * trees
    rounds = round(ROUNDS * min(1.0, max(1 / 3, LARGE / work)))
    return rounds, RATE * (ROUNDS / rounds)
