"""The members of the portfolio that are no networks: logistic regression and boosted trees.

Each learns from a table with a row for every node: the features, or what
:func:`pdgnn.diffusion.diffused` makes of them with the graph. Trees on diffused features are called
pd-trees.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from pdgnn.diffusion import (
    Matrix,
    check_scopes,
    diffused,
    node_inputs,
    reduction,
)
from pdgnn.errors import InputError, check_number, check_whole
from pdgnn.estimator.linear import LogisticRegression, fit_logistic
from pdgnn.estimator.trees import BoostedTrees, fit_trees, rounds_and_rate
from pdgnn.graph import Graph

__all__ = ["FeatureCache", "TabularModel", "TabularSpec", "candidates", "cost", "fit_tabular"]

Components = NDArray[np.float64] | None
SPARSE_SHARE = 0.1
"""Share of non-zero features below which they are held as a sparse matrix."""
State = tuple[dict[str, Any], dict[str, NDArray[Any]], dict[str, str]]


@dataclass(frozen=True)
class TabularSpec:
    """Which learner, on which table.

    Args:
        learner: "logistic" or "trees".
        diffuse: Whether the table holds diffused features; else the graph is not used.
        reduce: How many singular vectors stand for the features where there are more than twice as
            many; None keeps all.
        scopes: The pairs (α, γ) of the diffusion matrices.
        hops: The highest power of each.
        C: Inverse strength of the penalty of logistic regression.

    >>> TabularSpec("trees", diffuse=True).name
    'pd-trees'
    """

    learner: Literal["logistic", "trees"]
    diffuse: bool
    reduce: int | None = 32
    scopes: tuple[tuple[float, float], ...] = ((0.0, 1.0), (1.0, 1.0))
    hops: int = 4
    C: float = 1.0

    def __post_init__(self) -> None:
        if self.learner not in {"logistic", "trees"}:
            raise InputError(f"unknown learner {self.learner!r}; take 'logistic' or 'trees'")
        if not isinstance(self.diffuse, bool):
            raise InputError(f"diffuse must be True or False, not {self.diffuse!r}")
        if self.reduce is not None:
            check_whole("reduce", self.reduce)
        object.__setattr__(self, "scopes", check_scopes(self.scopes))
        check_whole("hops", self.hops)
        check_number("C", self.C)

    @property
    def name(self) -> str:
        """What it is called in tables."""
        if self.learner == "trees":
            return "pd-trees" if self.diffuse else "boosted trees"
        return "logistic regression" + " on diffused features" * self.diffuse

    @property
    def settings(self) -> dict[str, Any]:
        """What else there is to say of it: only what has an effect."""
        said: dict[str, Any] = {"reduce": self.reduce}
        if self.diffuse:
            said |= {"scopes": self.scopes, "hops": self.hops}
        return said | ({"C": self.C} if self.learner == "logistic" else {})

    @property
    def table(self) -> tuple[Any, ...]:
        """What the features depend on, beside graph and x: equal for specs with equal features."""
        return (self.reduce, *((self.scopes, self.hops) if self.diffuse else ()))


class FeatureCache:
    """Tables that were computed before, of the last few (graph, x, settings).

    Graphs and x are compared by identity: change neither in place.
    """

    def __init__(self, limit: int = 2**30) -> None:
        """Keep tables of `limit` bytes in all, and at least the last one."""
        self.limit = limit
        self._held: OrderedDict[Any, tuple[Any, Components, Matrix]] = OrderedDict()

    def get(self, spec: TabularSpec, graph: Graph, x: NDArray[Any]) -> tuple[Components, Matrix]:
        """The singular vectors and the table of `spec`, fitted to these features."""
        key = (id(graph), id(x), spec.table)
        if key not in self._held:
            compact = _compact(x)
            components = reduction(compact, spec.reduce)
            # graph and x are held too: no other object can take their ids
            self._held[key] = ((graph, x), components, _table(spec, graph, compact, components))
        self._held.move_to_end(key)
        while len(self._held) > 1 and sum(_bytes(h[2]) for h in self._held.values()) > self.limit:
            self._held.popitem(last=False)
        return self._held[key][1:]


def _compact(x: NDArray[Any]) -> Matrix:
    """`x` as float32, sparse where most of it is zero."""
    x = np.asarray(x, dtype=np.float32)
    sparse = np.count_nonzero(x) <= SPARSE_SHARE * x.size
    return sp.csr_array(x) if sparse else x


def _bytes(x: Matrix) -> int:
    return int(x.data.nbytes + x.indices.nbytes) if sp.issparse(x) else int(x.nbytes)


def _table(spec: TabularSpec, graph: Graph, x: Matrix, components: Components) -> Matrix:
    """``[N, F']``, float32."""
    z = node_inputs(graph, x, components, degree=spec.diffuse)
    return diffused(graph, z, scopes=spec.scopes, hops=spec.hops) if spec.diffuse else z


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
        self, graph: Graph, x: NDArray[Any], *, cache: FeatureCache | None = None
    ) -> NDArray[np.float64]:
        """The probability of each class for each node, ``[N, C]``, also of another graph."""
        _check_features(graph, x, self.num_features)
        proba = np.zeros((graph.num_nodes, self.num_classes))
        if self.learner is None:
            proba[:, self.present] = 1.0
        else:
            table = _dense_for_trees(self._table(graph, x, cache), self.learner)
            proba[:, self.present] = self.learner.predict_proba(table)
        return proba

    def _table(self, graph: Graph, x: NDArray[Any], cache: FeatureCache | None) -> Matrix:
        if cache is not None:
            components, table = cache.get(self.spec, graph, x)
            if _equal(components, self.components):  # the singular vectors are of this x
                return table
        return _table(self.spec, graph, _compact(x), self.components)

    def state(self) -> State:
        """All of it as JSON, arrays and texts, by name."""
        told = {
            "spec": asdict(self.spec),
            "num_features": self.num_features,
            "num_classes": self.num_classes,
            "present": self.present.tolist(),
        }
        arrays = {} if self.components is None else {"components": self.components}
        if isinstance(self.learner, LogisticRegression):
            arrays |= {f.name: getattr(self.learner, f.name) for f in fields(self.learner)}
        texts = self.learner.texts() if isinstance(self.learner, BoostedTrees) else []
        return told, arrays, {f"trees-{i}.txt": text for i, text in enumerate(texts)}

    @classmethod
    def from_state(
        cls, told: dict[str, Any], arrays: dict[str, NDArray[Any]], texts: dict[str, str]
    ) -> TabularModel:
        """What :meth:`state` gave; anything else is an error."""
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
        columns = _columns(spec, features, components)
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


def _dense_for_trees(table: Matrix, learner: Any) -> Matrix:
    dense = isinstance(learner, BoostedTrees) and sp.issparse(table)
    return table.toarray() if dense else table


def _columns(spec: TabularSpec, num_features: int, components: Components) -> int:
    """The number of columns of the table."""
    z = num_features if components is None else len(components) + 1
    return (z + 1) * (1 + len(spec.scopes) * spec.hops) if spec.diffuse else z


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
    class_weight: Literal["balanced"] | None = None,
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
        class_weight: "balanced" gives every class the same weight in all.
        threads: Of LightGBM; None is as many as it needs.
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
        weight = _balanced(codes) if class_weight == "balanced" else None
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


def _balanced(codes: NDArray[np.int64]) -> NDArray[np.float64]:
    """n / (C · n_c) for each node of class c."""
    counts = np.bincount(codes)
    return np.asarray(codes.size / (counts.size * counts[codes]))


def _threads(size: int) -> int:
    """One where there is little to do: LightGBM's threads wait for each other by spinning."""
    import os

    return 1 if size < 1_000_000 else len(os.sched_getaffinity(0))


def candidates(num_features: int, *, graph: bool = True) -> list[TabularSpec]:
    """The tabular members of the portfolio, in the order in which to try them.

    First one of each kind, the cheapest before the others; then other penalties, other reductions
    of wide features and other scopes. Without `graph`, those that do not use it.
    """
    wide = num_features > 64
    few = [TabularSpec("logistic", False, None), TabularSpec("trees", True)]
    words = ((1.0, 1.0),)
    if wide:
        few += [TabularSpec("logistic", True, None, words, 2)]
    else:
        few += [TabularSpec("logistic", True, None)]
    few += [TabularSpec("trees", False)]
    more = [TabularSpec("logistic", False, None, C=c) for c in (0.1, 0.01, 10.0)]
    more += [replace(few[2], C=c) for c in (0.1, 0.01, 10.0)]
    if wide:
        more += [TabularSpec("trees", True, 128), TabularSpec("trees", False, 128)]
    more += [
        TabularSpec("trees", True, scopes=((0.0, 1.0), (1.0, 1.0), (0.5, 0.5))),
        TabularSpec("trees", True, hops=2),
        TabularSpec("trees", True, hops=8),
    ]
    return [spec for spec in few + more if graph or not spec.diffuse]


def cost(
    spec: TabularSpec,
    *,
    num_nodes: int,
    num_train: int,
    num_features: int,
    num_edges: int,
    num_classes: int,
) -> float:
    """Seconds that fitting and predicting take on two cores, roughly; no clock is asked."""
    z = num_features
    seconds = 0.05
    if spec.reduce is not None and num_features > 2 * spec.reduce:
        seconds += 2e-9 * num_nodes * num_features * spec.reduce + 0.1
        z = spec.reduce + 1
    columns = _columns(spec, z, None)
    if spec.diffuse:
        seconds += 4e-9 * (2 * num_edges + num_nodes) * columns
    outputs = 1 if num_classes == 2 else num_classes
    if spec.learner == "logistic":
        return seconds + 4e-9 * num_train * columns * outputs * 100
    rounds, _ = rounds_and_rate(num_train, columns, num_classes)
    trees = 2 * rounds * outputs
    return seconds + trees * (1e-3 + 5e-9 * num_train * columns + 1e-7 * num_nodes)
