"""Boosted trees by LightGBM: an average of usual ones and of ones with random thresholds.

Both kinds see half of the features at each split. A model is the text that LightGBM writes; nothing
is pickled.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pdgnn.errors import InputError

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
    """Fitted boosters, and for how many classes."""

    boosters: Sequence[lgb.Booster]
    num_classes: int
    threads: int = 1

    def predict_proba(self, x: NDArray[np.float32]) -> Floats:
        """The mean over the boosters, ``[N, C]``."""
        found = [b.predict(x, num_threads=self.threads) for b in self.boosters]
        mean = np.mean(found, axis=0)  # [N, C], or [N] for two classes
        return np.stack([1.0 - mean, mean], axis=1) if mean.ndim == 1 else mean

    def texts(self) -> list[str]:
        """The boosters as LightGBM writes them."""
        return [b.model_to_string() for b in self.boosters]

    @classmethod
    def from_texts(
        cls, texts: Sequence[str], *, num_features: int, num_classes: int, threads: int = 1
    ) -> BoostedTrees:
        """Read what :meth:`texts` wrote; a text of other features or classes is an error."""
        return cls([_booster(t, num_features, num_classes) for t in texts], num_classes, threads)


def fit_trees(
    x: NDArray[np.float32],
    y: NDArray[np.int64],
    *,
    num_classes: int,
    sample_weight: Floats | None = None,
    seed: int = 0,
    threads: int = 1,
) -> BoostedTrees:
    """Fit on the rows of `x`, with y in 0, …, C − 1, each of which occurs.

    The number of rounds depends on the size alone, and no node is held out to stop early: on a few
    hundred nodes such a choice is noise, and the validation nodes are for comparing models.
    """
    import lightgbm as lgb

    rounds, rate = rounds_and_rate(x.shape[0], x.shape[1], num_classes)
    shared: dict[str, Any] = {
        "objective": "binary" if num_classes == 2 else "multiclass",
        "num_class": 1 if num_classes == 2 else num_classes,
        "learning_rate": rate,
        "num_leaves": 15,
        "lambda_l2": 1.0,
        "extra_trees": True,
        "feature_fraction": min(1.0, max(0.2, COLUMNS / x.shape[1])),
        "feature_fraction_bynode": 0.5,
        "max_bin": 63,
        "min_child_samples": min(20, max(2, len(x) // 20)),
        "deterministic": True,
        "force_row_wise": True,
        "num_threads": threads,
        "verbosity": -1,
    }
    boosters = []
    for place in range(BOOSTERS):
        params = shared | {"seed": BOOSTERS * seed + place}
        boosters.append(lgb.train(params, lgb.Dataset(x, y, weight=sample_weight), rounds))
    return BoostedTrees(boosters, num_classes, threads)


def rounds_and_rate(num_rows: int, num_features: int, num_classes: int) -> tuple[int, float]:
    """How many rounds of which learning rate: fewer and bolder ones where a round is expensive.

    >>> rounds_and_rate(445, 306, 5), rounds_and_rate(25_000, 300, 10)
    ((120, 0.06), (40, 0.18))
    """
    trees = ROUNDS * (1 if num_classes == 2 else num_classes)
    work = num_rows * min(num_features, COLUMNS) * trees
    rounds = round(ROUNDS * min(1.0, max(1 / 3, LARGE / work)))
    return rounds, RATE * (ROUNDS / rounds)


def _booster(text: str, num_features: int, num_classes: int) -> lgb.Booster:
    import lightgbm as lgb

    try:
        booster = lgb.Booster(model_str=text, params={"verbosity": -1})
        columns, outputs = booster.num_feature(), booster.num_model_per_iteration()
    except Exception as e:
        raise InputError("the text of the boosted trees cannot be read; fit the model anew") from e
    wanted = 1 if num_classes == 2 else num_classes
    if (columns, outputs) != (num_features, wanted):
        raise InputError(
            f"the boosted trees are of {columns} features and {outputs} outputs, and the model of "
            f"{num_features} and {wanted}; fit the model anew"
        )
    return booster
