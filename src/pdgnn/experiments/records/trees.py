"""pd-trees as runs like any others: trees on diffused features, kept in the same results store.

A run says with `options` what its table is made of and which trees are fitted to it, with `steps`
how many rounds they are boosted for, and with `lr` at which rate. Its scores are those of the whole
model: no round is chosen by validation. Its logits are the logarithms of the probabilities.

scikit-learn and LightGBM are imported only when a run is fitted.
"""

from __future__ import annotations

import math
import signal
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from importlib.util import find_spec
from multiprocessing import get_context
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor

from pdgnn.baselines.parts import one_of
from pdgnn.errors import InputError, check_whole
from pdgnn.models import Model, Option
from pdgnn.nn.scopes import parse_scopes
from pdgnn.training.engines import Job
from pdgnn.training.engines.processes import end_with_parent
from pdgnn.training.loop import Progress
from pdgnn.training.metrics import scores
from pdgnn.training.spec import RunResult, RunSpec
from pdgnn.training.task import Task

if TYPE_CHECKING:
    from pdgnn.estimator.feature_cache import FeatureCache

__all__ = ["TREES", "Tables", "TreesEngine", "check_installed", "fit_run", "run_scores"]

KINDS = ("lightgbm", "extra", "both")
FOREST, LEAST_LEAF = 300, 2
"""Extremely randomised trees: so many, with so many nodes in a leaf at least."""
NEEDED = {"lightgbm": "lightgbm", "sklearn": "scikit-learn"}


def _check_scopes(text: Any) -> str:
    if not parse_scopes(str(text)):
        raise InputError("give at least one pair of α and γ, such as 0,1")
    return str(text)


def _check_reduce(count: Any) -> int | None:
    return None if count is None else check_whole("reduce", count)


def _no_module(*_: Any) -> NoReturn:
    raise InputError("pd-trees is no network; `pdgnn records` fits it")


TREES = Model(
    build=_no_module,
    name="pd-trees",
    uses=(),
    options={
        "scopes": Option("0,1;1,1", _check_scopes, help="pairs (α, γ) of the diffusion matrices"),
        "hops": Option(4, help="the highest power of each"),
        "labels": Option(False, help="shares of the neighbours' training labels beside them"),
        "reduce": Option(32, _check_reduce, help="singular vectors for many features; None: all"),
        "trees": Option("lightgbm", one_of(*KINDS), help="lightgbm, extra (ExtraTrees) or both"),
        "leaves": Option(15, help="of a boosted tree"),
    },
)
"""What a run of pd-trees may say; it is fitted by :class:`TreesEngine` alone."""


def check_installed() -> None:
    """An error where what pd-trees needs is not installed."""
    if missing := [package for name, package in NEEDED.items() if find_spec(name) is None]:
        raise InputError(
            f"pd-trees needs {' and '.join(missing)}, which is not installed here; pip install it, "
            "or leave pd-trees and average out of --models"
        )


# --- one run --------------------------------------------------------------------------------------


class Tables:
    """Diffused features of tasks, made once for all runs that share them."""

    def __init__(self) -> None:
        self._of: dict[int, tuple[Task, NDArray[np.float32], FeatureCache]] = {}

    def get(self, task: Task, spec: RunSpec) -> NDArray[np.float32]:
        """The table of a run without labels, ``[N, F']``."""
        from pdgnn.estimator.feature_cache import FeatureCache
        from pdgnn.estimator.tabular_spec import TabularSpec

        # a cache knows features by their identity, so that this array is kept, and the task with it
        _, x, made = self._of.setdefault(id(task), (task, task.x.numpy(), FeatureCache()))
        said: Any = spec.options
        wanted = TabularSpec(
            "trees",
            diffuse=True,
            reduce=said["reduce"],
            scopes=parse_scopes(said["scopes"]),
            hops=said["hops"],
        )
        found = made.get(wanted, task.graph, x)[1]
        return np.asarray(found.toarray() if sp.issparse(found) else found)


def fit_run(task: Task, spec: RunSpec, tables: Tables | None = None) -> RunResult:
    """Fit the trees of a run to the training nodes of its split, and score them.

    Args:
        task: What `spec.dataset` names.
        spec: Of the model :data:`TREES`, resolved.
        tables: Those of other runs.
    """
    from pdgnn.estimator.scores import as_logits

    begun = time.perf_counter()
    train, y = task.masks[spec.split, 0].numpy(), task.y.numpy()
    present, codes = np.unique(y[train], return_inverse=True)
    table = (tables or Tables()).get(task, spec)
    if spec.options["labels"]:
        table = np.concatenate([table, _neighbour_labels(task, train)], axis=1)
    proba = np.zeros((task.graph.num_nodes, task.num_classes))
    proba[:, present] = _fitted(table, codes, train, spec) if len(present) > 1 else 1.0
    logits = torch.from_numpy(as_logits(proba)).float()
    val, test = run_scores(logits, task, spec.split)
    seconds = time.perf_counter() - begun
    return RunResult(spec, val, test, spec.steps, spec.steps, seconds, logits=logits)


def run_scores(logits: Tensor, task: Task, split: int) -> tuple[float, float]:
    """On the validation and on the test nodes of a split; nan where there are none."""
    found = scores(logits[None], task.y, task.masks[None, split, 1:], task.metric)[0]
    val, test = found.tolist()
    return val, test


def _neighbour_labels(task: Task, train: NDArray[np.bool_]) -> NDArray[np.float32]:
    """The shares of the classes among a node's neighbours of the training part; not its own."""
    from pdgnn.diffusion import label_shares

    known = np.flatnonzero(train)
    where = known, task.y.numpy()[known]
    shape = task.graph.num_nodes, task.num_classes
    return label_shares(task.graph, sp.csr_array((np.ones(len(known)), where), shape=shape)).astype(
        np.float32
    )


def _fitted(
    table: NDArray[np.float32], codes: NDArray[np.int64], train: NDArray[np.bool_], spec: RunSpec
) -> NDArray[np.float64]:
    """Probabilities ``[N, C]`` of the classes that are present: of a kind of trees, or the mean."""
    kind, rows, found = spec.options["trees"], table[train], []
    if kind != "extra":
        from pdgnn.estimator.trees import fit_trees

        boosted = fit_trees(
            rows,
            codes,
            num_classes=int(codes.max()) + 1,
            seed=spec.seed,
            rounds=spec.steps,
            rate=spec.lr,
            leaves=check_whole("leaves", spec.options["leaves"], 2),
        )
        found.append(boosted.predict_proba(table))
    if kind != "lightgbm":
        from sklearn.ensemble import ExtraTreesClassifier

        forest = ExtraTreesClassifier(FOREST, min_samples_leaf=LEAST_LEAF, random_state=spec.seed)
        found.append(forest.fit(rows, codes).predict_proba(table))
    return np.asarray(np.mean(found, axis=0))


# --- many runs ------------------------------------------------------------------------------------


class TreesEngine:
    """Fits runs of :data:`TREES` for :func:`pdgnn.training.train`, in so many processes."""

    def __init__(self, workers: int = 1) -> None:
        self.workers = check_whole("workers", workers)

    def train(self, job: Job) -> None:
        """Fit every run; those under way when a check of the job ends it are kept."""
        check_installed()
        if self.workers > 1:
            try:
                self._train(job, min(self.workers, max(1, len(job.shares))))
            except BrokenProcessPool as e:
                raise InputError(
                    "a worker process was killed while it fitted pd-trees; if there was not enough "
                    "memory, take fewer workers"
                ) from e
            return
        tables = Tables()
        for spec in _taken(job):
            _keep(job, fit_run(job.inputs.tasks[spec.dataset], spec, tables))

    def _train(self, job: Job, workers: int) -> None:
        under_way: set[Future[RunResult]] = set()
        context = get_context("spawn")
        with ProcessPoolExecutor(workers, context, _begin, (dict(job.inputs.tasks),)) as pool:
            try:
                for spec in _taken(job):
                    under_way.add(pool.submit(_fit_here, spec))
                    if len(under_way) == workers:
                        done, under_way = wait(under_way, return_when=FIRST_COMPLETED)
                        _keep(job, *(one.result() for one in done))
            finally:
                _keep(job, *(one.result() for one in under_way))


def _taken(job: Job) -> Iterator[RunSpec]:
    """The runs that are this process's to fit, one after the other."""
    for share in job.shares:
        for spec in job.take(share):
            if job.ledger.tell is not None:
                done, none = len(job.ledger.results), [math.nan]
                job.ledger.tell(
                    Progress(done, job.ledger.total, [spec], 0, spec.steps, none, none, 0.0)
                )
            yield spec


def _keep(job: Job, *results: RunResult) -> None:
    if results:
        kept = "logits" in job.settings.keep
        job.ledger.add_results(results if kept else [replace(r, logits=None) for r in results])


_HERE: list[tuple[Mapping[str, Task], Tables]] = []
"""What a worker process fits on."""


def _begin(tasks: Mapping[str, Task]) -> None:
    """A worker begins: Ctrl-C is for its parent, without which it ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=end_with_parent, daemon=True).start()
    torch.set_num_threads(1)
    _HERE[:] = [(tasks, Tables())]


def _fit_here(spec: RunSpec) -> RunResult:
    tasks, tables = _HERE[0]
    return fit_run(tasks[spec.dataset], spec, tables)
