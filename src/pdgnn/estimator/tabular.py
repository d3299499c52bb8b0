"""The members of the portfolio that are no networks: logistic regression and boosted trees.

Each learns from a table with a row for every node: the features, or what
:func:`pdgnn.diffusion.diffused` makes of them with the graph. Trees on diffused features are called
pd-trees.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray

from pdgnn.diffusion import Matrix
from pdgnn.errors import InputError, check_whole
from pdgnn.estimator.feature_cache import Components, FeatureCache, feature_table
from pdgnn.estimator.linear import LogisticRegression, fit_logistic
from pdgnn.estimator.tabular_spec import TabularSpec, candidates, cost, num_columns
from pdgnn.estimator.trees import BoostedTrees, fit_trees
from pdgnn.graph import Graph

__all__ = ["FeatureCache", "TabularModel", "TabularSpec", "candidates", "cost", "fit_tabular"]

State = tuple[dict[str, Any], dict[str, NDArray[Any]], dict[str, str]]


@dataclass(frozen=True)
class TabularModel:
    """A fitted learner and what its table is made with."""

    spec: TabularSpec
    num_features: int
    num_classes: int
    present: NDArray[np.int64]  # the classes among the training nodes, ascending
    components: Components
    learner: LogisticRegression | BoostedTrees | None  # None where only one class is present

    def predict_proba(
        self,
        graph: Graph,
        x: NDArray[Any],
        *,
        threads: int | None = None,
        cache: FeatureCache | None = None,
    ) -> NDArray[np.float64]:
        """The probability of each class for each node, ``[N, C]``, also of another graph."""
        _check_features(graph, x, self.num_features)
        proba = np.zeros((graph.num_nodes, self.num_classes))
        if self.learner is None:
            proba[:, self.present] = 1.0
        else:
            table = self._table(graph, x, cache)
            proba[:, self.present] = _predicted(self.learner, table, threads)
        return proba

    def _table(self, graph: Graph, x: NDArray[Any], cache: FeatureCache | None) -> Matrix:
        if cache is not None:
            components, table = cache.get(self.spec, graph, x)
            if _equal(components, self.components):  # the singular vectors are of this x
                return table
        return feature_table(self.spec, graph, x, self.components)

    def state(self) -> State:
        """What is to be saved: values for JSON, arrays and texts, by name."""
        told = {
            "spec": asdict(self.spec),
            "num_features": self.num_features,
            "num_classes": self.num_classes,
            "present": self.present.tolist(),
        }
        arrays = {} if self.components is None else {"components": self.components}
        if isinstance(self.learner, LogisticRegression):
            arrays |= {f.name: getattr(self.learner, f.name) for f in fields(self.learner)}
        texts = self.learner.texts if isinstance(self.learner, BoostedTrees) else ()
        return told, arrays, {f"trees-{i}.txt": text for i, text in enumerate(texts)}

    @classmethod
    def from_state(
        cls, told: dict[str, Any], arrays: dict[str, NDArray[Any]], texts: dict[str, str]
    ) -> TabularModel:
        """The model of :meth:`state`; whatever is wrong with it is an error."""
        try:
            spec = TabularSpec(**told["spec"])
            features = check_whole("num_features", told["num_features"])
            classes = check_whole("num_classes", told["num_classes"])
            present = np.array([check_whole("present", c, 0, classes) for c in told["present"]])
        except (KeyError, TypeError) as e:
            raise InputError(f"the tabular model lacks {e} or has more; fit it anew") from e
        if present.size == 0 or (np.diff(present) <= 0).any():
            raise InputError("the classes of the tabular model are not ascending; fit it anew")
        components = (
            _array(arrays, "components", (None, features)) if "components" in arrays else None
        )
        inputs = features if components is None else len(components) + 1
        columns = num_columns(spec, inputs)
        learner: LogisticRegression | BoostedTrees | None = None
        if present.size > 1 and spec.learner == "logistic":
            learner = LogisticRegression(
                coef=_array(arrays, "coef", (present.size, columns)),
                intercept=_array(arrays, "intercept", (present.size,)),
                mean=_array(arrays, "mean", (columns,)),
                scale=_array(arrays, "scale", (columns,), positive=True),
            )
        elif present.size > 1:
            if not texts:
                raise InputError("the boosted trees have no text; fit the model anew")
            learner = BoostedTrees.from_texts(
                [texts[name] for name in sorted(texts)],
                num_features=columns,
                num_classes=present.size,
            )
        return cls(spec, features, classes, present, components, learner)


def _equal(a: Components, b: Components) -> bool:
    return a is b or (a is not None and b is not None and np.array_equal(a, b))


def _predicted(
    learner: LogisticRegression | BoostedTrees, table: Matrix, threads: int | None
) -> NDArray[np.float64]:
    if isinstance(learner, LogisticRegression):
        return learner.predict_proba(table)
    rows = table.toarray() if sp.issparse(table) else table
    return learner.predict_proba(rows, threads=threads or _threads(rows.size))


def _array(
    arrays: dict[str, NDArray[Any]],
    name: str,
    shape: tuple[int | None, ...],
    *,
    positive: bool = False,
) -> NDArray[np.float64]:
    """The array called `name`, if it is there, finite and of this shape."""
    found = arrays.get(name)
    right = (
        found is not None
        and found.dtype == np.float64
        and found.ndim == len(shape)
        and all(want in {None, have} for want, have in zip(shape, found.shape, strict=True))
        and bool(np.isfinite(found).all())
        and not (positive and bool((found <= 0).any()))
    )
    if found is None or not right:
        raise InputError(f"the array {name!r} of the tabular model is not whole; fit it anew")
    return found


def _check_features(graph: Graph, x: NDArray[Any], num_features: int | None = None) -> None:
    columns = x.shape[1] if num_features is None and x.ndim == 2 else num_features
    if x.shape != (graph.num_nodes, columns):
        raise InputError(f"x has shape {x.shape}; the model takes ({graph.num_nodes}, {columns})")


def fit_tabular(
    spec: TabularSpec,
    graph: Graph,
    x: NDArray[np.float32],
    y: NDArray[np.int64],
    train: NDArray[np.bool_],
    *,
    num_classes: int,
    seed: int = 0,
    class_weight: NDArray[np.float64] | None = None,
    threads: int | None = None,
    cache: FeatureCache | None = None,
) -> TabularModel:
    """Fit `spec` to the labels of the training nodes; those of other nodes are not looked at.

    Args:
        spec: What to fit.
        graph: Of N nodes.
        x: Their features ``[N, F]``, encoded and scaled.
        y: Their classes ``[N]``, 0 to `num_classes` − 1, anything where `train` is False.
        train: The training nodes, a mask ``[N]``. A class that none of them has gets probability 0.
        num_classes: C.
        seed: Of the trees' random features and thresholds.
        class_weight: What a node of each class counts ``[C]``; default: all the same.
        threads: Of LightGBM; None is one, or as many as torch has where the table is large.
        cache: Tables computed for other specs on the same graph.
    """
    _check_features(graph, x)
    if not train.any():
        raise InputError("there is no training node; label some")
    present, codes = np.unique(y[train], return_inverse=True)
    if present[0] < 0 or present[-1] >= num_classes:
        raise InputError(f"y has classes outside 0 to {num_classes - 1}; give codes")
    components, table = (cache or FeatureCache()).get(spec, graph, x)
    learner: LogisticRegression | BoostedTrees | None = None
    if present.size > 1:
        weight = None if class_weight is None else class_weight[present][codes]
        rows = table[np.flatnonzero(train)]
        if spec.learner == "logistic":
            learner = fit_logistic(rows, codes, C=spec.C, sample_weight=weight)
        else:
            rows = rows.toarray() if sp.issparse(rows) else rows
            learner = fit_trees(
                rows,
                codes,
                num_classes=present.size,
                sample_weight=weight,
                seed=seed,
                threads=threads or _threads(rows.size),
            )
    return TabularModel(spec, x.shape[1], num_classes, present, components, learner)


def _threads(size: int) -> int:
    """One where there is little to do: LightGBM's threads wait for each other by spinning."""
    return 1 if size < 1_000_000 else torch.get_num_threads()
