"""Trees and logistic regression with and without diffused features, on the ten splits of a graph.

    python benchmarks/trees.py --datasets chameleon-filtered,tolokers
    python benchmarks/trees.py --table

One setting for all graphs. Beside pd-trees: one of its boosters alone, scikit-learn's extremely
randomised trees on the same table, and the average of these with pd-trees.
"""

from __future__ import annotations

import argparse
import shlex
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from common import add_results_options, alike, markdown, measure_missing, names, report
from pdgnn import Graph, datasets
from pdgnn.estimator.tabular import FeatureCache, TabularModel, TabularSpec, candidates, fit_tabular
from pdgnn.estimator.trees import BoostedTrees
from pdgnn.experiments.provenance import Row, call, read_rows
from pdgnn.training.metrics import METRICS

GRAPHS = (
    *("chameleon-filtered", "squirrel-filtered", "tolokers", "minesweeper", "cora", "pubmed"),
    "citeseer",
)
PACKAGES = ("pdgnn", "lightgbm", "scikit-learn", "numpy", "scipy")
PD_TREES = TabularSpec("trees", diffuse=True)
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Case:
    """A learner on the ten splits of a graph."""

    dataset: str
    learner: str
    threads: int


@dataclass(frozen=True)
class Task:
    """What every learner is given."""

    graph: Graph
    x: NDArray[np.float32]
    y: NDArray[np.int64]
    classes: int
    threads: int
    cache: FeatureCache

    def fitted(self, spec: TabularSpec, train: NDArray[np.bool_], seed: int) -> TabularModel:
        return fit_tabular(
            spec,
            self.graph,
            self.x,
            self.y,
            train,
            num_classes=self.classes,
            seed=seed,
            threads=self.threads,
            cache=self.cache,
        )

    def proba(self, model: TabularModel) -> Floats:
        return model.predict_proba(self.graph, self.x, threads=self.threads, cache=self.cache)


Learner = Callable[[Task, NDArray[np.bool_], int], Floats]


def of_spec(spec: TabularSpec, task: Task, train: NDArray[np.bool_], seed: int) -> Floats:
    return task.proba(task.fitted(spec, train, seed))


def of_candidate(place: int, task: Task, train: NDArray[np.bool_], seed: int) -> Floats:
    return of_spec(candidates(task.x.shape[1])[place], task, train, seed)


def one_booster(task: Task, train: NDArray[np.bool_], seed: int) -> Floats:
    learner = task.fitted(PD_TREES, train, seed).learner
    assert isinstance(learner, BoostedTrees)
    one = BoostedTrees(learner.texts[:1], learner.num_features, learner.num_classes)
    return one.predict_proba(task.cache.get(PD_TREES, task.graph, task.x)[1])


def extra_trees(task: Task, train: NDArray[np.bool_], seed: int) -> Floats:
    from sklearn.ensemble import ExtraTreesClassifier

    table = task.cache.get(PD_TREES, task.graph, task.x)[1]
    forest = ExtraTreesClassifier(
        300, min_samples_leaf=2, n_jobs=task.threads, random_state=seed
    ).fit(table[train], task.y[train])
    found: Floats = forest.predict_proba(table)
    return found


def averaged(task: Task, train: NDArray[np.bool_], seed: int) -> Floats:
    return (of_spec(PD_TREES, task, train, seed) + extra_trees(task, train, seed)) / 2


LEARNERS: dict[str, Learner] = {
    "logistic regression": partial(of_candidate, 0),
    "logistic regression on diffused features": partial(of_candidate, 2),
    "boosted trees": partial(of_spec, TabularSpec("trees", diffuse=False)),
    "boosted trees on all features": partial(of_spec, TabularSpec("trees", False, reduce=None)),
    "pd-trees": partial(of_spec, PD_TREES),
    "pd-trees of one booster": one_booster,
    "ExtraTrees": extra_trees,
    "pd-trees and ExtraTrees": averaged,
}


def measure(case: Case) -> Row:
    """Scores of validation and test nodes on each split, and the seconds of all."""
    data = datasets.load(case.dataset)
    x, y = data.x.numpy(), data.y.numpy()
    graph = Graph.from_data(data)
    task = Task(graph, x, y, int(y.max()) + 1, case.threads, FeatureCache())
    begun, found = time.perf_counter(), []
    for split in range(data.train_mask.shape[1]):
        proba = LEARNERS[case.learner](task, data.train_mask[:, split].numpy(), split)
        masks = torch.stack([data.val_mask[:, split], data.test_mask[:, split]])
        found.append(scored(proba, data.y, masks, data.metric))
    seconds = time.perf_counter() - begun
    val, test = (100 * np.array(found)).T.round(3).tolist()
    return {"val": val, "test": test, "metric": data.metric, "seconds": round(seconds, 1)} | call(
        shlex.join(["python", *sys.argv]), "cpu"
    )


def scored(proba: Floats, y: Any, masks: Any, metric: str) -> list[float]:
    """The score on each mask; two classes have one logit."""
    log = np.log(proba.clip(min=1e-300))
    logits = log[:, 1:] - log[:, :1] if proba.shape[1] == 2 else log
    scores: list[float] = METRICS[metric](torch.from_numpy(logits)[None], y, masks[None])[
        0
    ].tolist()
    return scores


def table(rows: list[Row]) -> str:
    """Mean of the test scores ± their standard deviation (mean of validation), seconds a split."""
    graphs = [g for g in GRAPHS if alike(rows, {"dataset": g})]
    lines = []
    for learner in LEARNERS:
        cells = [cell(alike(rows, {"dataset": g, "learner": learner})) for g in graphs]
        lines.append([learner, *cells])
    return markdown(["", *graphs], lines)


def cell(rows: list[Row]) -> str:
    if not rows:
        return "-"
    val, test = rows[-1]["val"], rows[-1]["test"]
    each = rows[-1]["seconds"] / len(test)
    return f"{np.mean(test):.2f} ± {np.std(test, ddof=1):.2f} ({np.mean(val):.2f}), {each:.2g} s"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--datasets", type=names(GRAPHS), default=list(GRAPHS))
    parser.add_argument("--learners", type=names(tuple(LEARNERS)), default=list(LEARNERS))
    parser.add_argument("--threads", type=int, default=1)
    add_results_options(parser, "trees.json")
    options = parser.parse_args()
    cases = [Case(g, n, options.threads) for g in options.datasets for n in options.learners]
    if options.table:
        rows = read_rows(options.results)
    else:
        rows = measure_missing(
            options,
            cases,
            PACKAGES,
            measure,
            lambda case, row: f"{case.dataset}, {case.learner}: {cell([row])}",
        )
    report(options, "trees.py", table(rows))


if __name__ == "__main__":
    main()
