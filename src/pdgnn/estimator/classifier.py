"""PDClassifier: from a graph with some labels to predictions, an estimate and a reason."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from os import PathLike
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from pdgnn.errors import InputError, check_number, check_whole
from pdgnn.estimator.class_weights import class_weights
from pdgnn.estimator.columns import ColumnEncoder, structural_features
from pdgnn.estimator.honest import honest_estimate
from pdgnn.estimator.members import Clock, Member, Problem, best_first, mean_proba
from pdgnn.estimator.networks import NetworkModel
from pdgnn.estimator.portfolio import Portfolio, check_choice, fit_portfolio, without_edges
from pdgnn.estimator.remarks import data_remarks
from pdgnn.estimator.scores import score
from pdgnn.estimator.splits import Round, rounds
from pdgnn.estimator.tables import as_node_table
from pdgnn.estimator.tabular import FeatureCache
from pdgnn.io.kinds import shown
from pdgnn.io.nodes import NodeTable
from pdgnn.training.metrics import check_metric
from pdgnn.training.task import RANKED, usual_metric

__all__ = ["PDClassifier"]

FINAL_SHARE = 0.4
"""Of the time, what the model that is kept gets where labels are few; the estimate has the rest."""
CLOCK_SHARE = 0.9
"""Of the time, after which training ends; the rest is for what comes after it."""


class PDClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Classify the nodes of a graph: a portfolio of models, chosen and estimated honestly.

    It tries logistic regression, boosted trees and networks, without the graph, on diffused
    features and with messages over edges, for `minutes`, and keeps the best by validation, or an
    average of the best. The estimate of its score is from nodes that took no part in that.

    Args:
        model: ``"auto"``, or the one kind to use: ``"logistic"``, ``"pd-logistic"``, ``"trees"``,
            ``"pd-trees"``, or a network such as ``"pd-gcn"``.
        minutes: How long `fit` may take.
        device: ``"auto"`` (a GPU if there is one), ``"cpu"`` or ``"cuda"``.
        seed: The same seed gives the same model on a CPU, unless the time ends the search early.
        metric: What to choose by, one of :data:`~pdgnn.training.metrics.METRICS`; default ROC AUC
            for two classes, else accuracy.
        class_weight: What a node counts in training, by its class, a dict; ``"balanced"`` makes all
            classes count the same.
        impute: ``"median"`` fills missing numbers; by default they are an error.

    Attributes:
        classes_: The classes ``[C]``, sorted.
        model_: The kind that was chosen, or ``"average"``.
        alpha_, gamma_: The scope of the best network in it; else what the dial found best.
        depth_: The layers of that network, or the hops of the diffused features; 0 without a graph.
        rewired_: Whether that network is on the rewired graph.
        leaderboard_: A dict for each model that was trained to the end, best first.
        estimate_: An :class:`~pdgnn.estimator.scores.Estimate`.
        notes_: Sentences on the data that a user should read.
        proba_: Probabilities ``[N, C]`` of all nodes that it was fitted on.

    >>> from pdgnn.datasets import load
    >>> data = load("synthetic:num_nodes=200,homophily=0.1,num_classes=3,seed=1")
    >>> clf = PDClassifier(model="pd-logistic", minutes=0.02).fit(data)
    >>> clf.predict().shape, clf.predict_proba(data).shape, clf.model_
    ((200,), (200, 3), 'pd-logistic')
    """

    def __init__(
        self,
        model: str = "auto",
        minutes: float = 2,
        device: str = "auto",
        seed: int = 0,
        metric: str | None = None,
        class_weight: Mapping[Any, float] | Literal["balanced"] | None = None,
        impute: str | None = None,
    ) -> None:
        self.model = model
        self.minutes = minutes
        self.device = device
        self.seed = seed
        self.metric = metric
        self.class_weight = class_weight
        self.impute = impute

    def fit(
        self,
        data: Any = None,
        y: Any = None,
        *,
        nodes: Any = None,
        edges: Any = None,
        label: str | None = None,
        id: str | None = None,
        drop: Sequence[str] = (),
        split: int = 0,
        progress: Callable[[str], None] | None = None,
    ) -> Self:
        """Train on the labelled nodes of a graph; the unlabelled ones are what is to be predicted.

        `data` and the others are those of :func:`~pdgnn.estimator.tables.as_node_table`: a PyG
        `Data`, a NetworkX graph, `nodes` and `edges` as tables, files, or arrays. Ctrl-C ends the
        search and keeps the best so far. `progress` is told in a line what is being tried.
        """
        self._check()
        seconds = 60.0 * self.minutes
        clock = Clock.of(CLOCK_SHARE * seconds, progress)
        table = as_node_table(
            data, y, nodes=nodes, edges=edges, label=label, id=id, drop=drop, split=split
        )
        self._take(table)
        plan = rounds(self.y_, table.split, self.seed)
        self._train(plan, seconds, clock)
        return self

    def predict(self, data: Any = None, **given: Any) -> NDArray[Any]:
        """The most probable class of each node: of the fitted graph, or of `data`, as for `fit`."""
        proba = self.predict_proba(data, **given)
        found: NDArray[Any] = self.classes_[proba.argmax(axis=1)]
        return found

    def predict_proba(self, data: Any = None, **given: Any) -> NDArray[np.float64]:
        """The probability of each class, ``[N, C]``, in the order of ``classes_``.

        For another graph its spectrum and diffused features are computed anew. It must have the
        columns that the model was fitted on.
        """
        check_is_fitted(self)
        if data is None and not given:
            return self.proba_.copy()
        return self._proba_of(self._table_like_fitted(data, **given))

    def score(self, data: Any = None, y: Any = None, **given: Any) -> float:
        """The metric on the labelled nodes of another graph, given as for `fit`.

        A label that no node of the fitted graph had is an error, as nothing can predict it.
        """
        check_is_fitted(self)
        table = self._table_like_fitted(data, y, **given)
        labels = np.array([]) if table.labels is None else table.labels
        known = {label for label in labels if label is not None}
        if not known:
            raise InputError("there are no labels to score against; give y, or label=")
        if new := known - set(self.classes_.tolist()):
            raise InputError(
                f"the model has no class {shown(sorted(new, key=str))}; "
                "empty such labels to score the other nodes"
            )
        codes = self._codes(labels)
        scored = codes >= 0
        return score(self._proba_of(table)[scored], codes[scored], self.metric_)

    def _table_like_fitted(self, data: Any, y: Any = None, **given: Any) -> NodeTable:
        """Another graph, in which columns are called and dropped as they were in `fit`."""
        usual = {"id": self.id_name_, "label": self.label_name_, "drop": self.dropped_}
        return as_node_table(data, y, fitted=True, **usual | given)

    def save(self, folder: str | PathLike[str], *, force: bool = False) -> None:
        """Keep the model in a folder of its own, with a page that says why: ``report.html``.

        It holds JSON, safetensors, Parquet and text, and nothing to unpickle. A folder that is
        there is an error, unless it is a model's and `force` is given. One that was loaded is saved
        without the page, for which the graph is needed.
        """
        from pdgnn.estimator.saved import save_classifier
        from pdgnn.report.fitted import fitted_page  # below this room, for this method alone

        check_is_fitted(self)
        page = fitted_page(self) if hasattr(self, "table_") else None
        save_classifier(self, folder, force=force, page=page)

    @classmethod
    def load(cls, folder: str | PathLike[str]) -> PDClassifier:
        """The classifier that :meth:`save` kept; a GPU is not needed."""
        from pdgnn.estimator.saved import load_classifier

        return load_classifier(folder)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _check(self) -> None:
        check_choice(self.model)
        if check_number("minutes", self.minutes) == 0:
            raise InputError("minutes must be more than 0; 2 is a good start")
        check_whole("seed", self.seed, 0, 2**31)
        if self.device not in ("auto", "cpu", "cuda"):
            raise InputError(f"device is 'auto', 'cpu' or 'cuda', not {self.device!r}")
        if self.metric is not None:
            check_metric(self.metric)
        if self.impute not in (None, "median"):
            raise InputError(f"impute is None or 'median', not {self.impute!r}")

    def _take(self, table: NodeTable) -> None:
        """Classes, features and what there is to remark of them."""
        assert table.labels is not None  # as_node_table has checked
        known = [label for label in table.labels if label is not None]
        self.classes_ = _sorted_classes(known)
        self.y_ = self._codes(table.labels)
        self.table_ = table
        self.ids_, self.dropped_ = table.ids, table.dropped
        self.id_name_, self.label_name_ = table.id_name, table.label_name
        self.encoder_: ColumnEncoder | None = None
        if table.features is None:
            self.x_ = structural_features(table.graph)
        else:
            self.encoder_ = ColumnEncoder().fit(table.features, impute=self.impute)
            self.x_ = self.encoder_.transform(table.features)
        self.n_features_in_ = self.x_.shape[1]
        self.notes_ = data_remarks(
            table.graph,
            self.encoder_,
            self.classes_.tolist(),
            np.bincount(self.y_[self.y_ >= 0], minlength=len(self.classes_)),
            weighted=self.class_weight is not None,
        )
        self.metric_ = self.metric or usual_metric(len(self.classes_))

    def _codes(self, labels: NDArray[np.object_]) -> NDArray[np.int64]:
        """The number of each label among the classes, −1 where there is none or it is unknown."""
        place = {label: i for i, label in enumerate(self.classes_.tolist())}
        return np.array([place.get(label, -1) for label in labels], dtype=np.int64)

    def _train(self, plan: list[Round], seconds: float, clock: Clock) -> None:
        """The model that is kept first, so that a person may stop at any time after it."""
        cache, last = FeatureCache(), plan[-1]
        folds = len(plan) - 1
        shares = [FINAL_SHARE, *[(1 - FINAL_SHARE) / folds] * folds] if folds else [1.0]
        found: list[tuple[Round, Portfolio]] = []
        for share, one in zip(shares, [last, *plan[:-1]], strict=True):
            if found and clock.over():
                break
            found.append((one, self._choose(one, share * seconds, clock, cache)))
        self._keep(found[0][1], last)
        if len(found) < len(plan):
            self.notes_.append("There was no time to hold out every labelled node once.")
        self.honest_, self.estimate_ = honest_estimate(
            found,
            self.y_,
            self.metric_,
            given=self.table_.split is not None,
            nested=folds > 0,
            seed=self.seed,
        )

    def _choose(self, one: Round, seconds: float, clock: Clock, cache: FeatureCache) -> Portfolio:
        metric = self.metric_ if _all_classes(self.y_, one.masks, self.metric_) else "accuracy"
        train = self.y_[one.masks[:, 0].any(axis=0)]
        problem = Problem(
            self.table_.graph,
            self.x_,
            np.where(one.held_out, -1, self.y_),
            len(self.classes_),
            metric,
            one.masks,
            class_weights(self.class_weight, self.classes_.tolist(), train),
        )
        return fit_portfolio(
            problem,
            seconds,
            clock,
            model=self._asked_for(),
            seed=self.seed,
            device=_device(self.device),
            cache=cache,
        )

    def _asked_for(self) -> str:
        """`model`, or what takes its place on a graph without edges."""
        return self.model if self.table_.graph.num_edges else without_edges(self.model)

    def _keep(self, found: Portfolio, one: Round) -> None:
        best = found.best
        self.members_ = [self._frozen(member) for member in best.parts or [best]]
        self.model_ = best.model
        self.proba_ = mean_proba(self.members_)
        self.leaderboard_ = [m.row() for m in found.members]
        dial = found.dial
        self.dial_ = (
            {"gamma": dial.gamma, "alpha": dial.alpha} if dial else {"gamma": [], "alpha": []}
        )
        self._describe(dial.best if dial else (1.0, 1.0))
        train, val = one.masks[:, 0].any(axis=0), one.masks[:, 1:].any(axis=(0, 1))
        self.part_ = np.full(len(self.y_), -1, dtype=np.int8)
        for part, mask in ((0, train), (1, val & ~one.masks[0, 0]), (2, one.held_out)):
            self.part_[mask] = part
        if self._asked_for() not in ("auto", best.model):
            self.notes_.append(f"There was no time to train {self.model}; this is {best.name}.")
        if found.stopped == "budget":
            self.notes_.append("The time was over before all that was planned had been tried.")
        if found.stopped == "interrupted":
            self.notes_.append("The search was stopped early; this is the best it had found.")

    def _frozen(self, member: Member) -> Member:
        """The member with networks that predict another graph by the statistics of this one."""
        models = [
            model.frozen(self.table_.graph, self.x_) if isinstance(model, NetworkModel) else model
            for model in member.models
        ]
        return replace(member, models=models)

    def _describe(self, scope: tuple[float, float]) -> None:
        """alpha_, gamma_, depth_ and rewired_ from the best member that has them."""
        scoped = self._scoped_member()
        found = {"alpha": scope[0], "gamma": scope[1]} if scoped is None else scoped.settings
        self.alpha_, self.gamma_ = found["alpha"], found["gamma"]
        with_graph = [m.settings for m in best_first(self.members_) if m.graph]
        first = with_graph[0] if with_graph else {}
        self.depth_ = int(first.get("depth", first.get("hops", 0)))
        self.rewired_ = any(bool(m.settings.get("rewired")) for m in self.members_)

    def _scoped_member(self) -> Member | None:
        """The best network in it that has a scope."""
        members = best_first(self.members_)
        return next((m for m in members if m.graph and "gamma" in m.settings), None)

    @property
    def has_scope_(self) -> bool:
        """Whether `alpha_` and `gamma_` are the scope of a network in it."""
        return self._scoped_member() is not None

    @property
    def attention_(self) -> tuple[NDArray[np.int64], NDArray[np.float64]] | None:
        """Edges ``[2, E]`` and their attention ``[E]`` in the best network that has any."""
        if not hasattr(self, "table_"):
            raise AttributeError("attention_ is of the fitted graph, which a saved model has not")
        for member in best_first(self.members_):
            model = member.models[0]
            if isinstance(model, NetworkModel):
                found = model.attention(self.table_.graph, self.x_)
                if found is not None:
                    return found
        return None

    def _proba_of(self, table: NodeTable) -> NDArray[np.float64]:
        """The average over members of the average over their models."""
        if self.encoder_ is None:
            x = structural_features(table.graph)
        elif table.features is None:
            raise InputError(
                "this graph has no features, and the model was fitted on "
                f"{len(self.encoder_.names)}; give the same columns"
            )
        else:
            x = self.encoder_.transform(table.features)
        each = [
            np.mean([model.predict_proba(table.graph, x) for model in member.models], axis=0)
            for member in self.members_
        ]
        return np.asarray(np.mean(each, axis=0))


def _sorted_classes(labels: list[Any]) -> NDArray[Any]:
    """The distinct labels, sorted; numbers stay numbers."""
    found = set(labels)
    kinds = {type(label) for label in found}
    if len(found) < 2:
        raise InputError(
            f"Classifier can't train when only one class is present: {[str(v) for v in found]}; "
            "label nodes of at least two classes"
        )
    if len(kinds) > 1:
        raise InputError("labels mix numbers and text; make them all text or all numbers")
    return np.array(sorted(found))


def _all_classes(y: NDArray[np.int64], masks: NDArray[np.bool_], metric: str) -> bool:
    """Whether a ranked metric can be computed wherever it is needed."""
    if metric not in RANKED:
        return True
    classes = len(np.unique(y[y >= 0]))
    return all(len(np.unique(y[m])) == classes for _, *rest in masks for m in rest)


def _device(device: str) -> str:
    import torch

    if device != "auto":
        return device
    return "cuda" if torch.cuda.is_available() else "cpu"
