"""The average of a network and of trees: class probabilities, (1 − w) of one and w of the other.

Few weights w are tried. Each is a row of the store for every split and seed, under the model
``average``, with the settings that it is an average of; validation chooses the weight.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from pdgnn.experiments.records.trees import run_scores
from pdgnn.training.spec import RunResult, RunSpec
from pdgnn.training.summary import Summary, chosen, summarize
from pdgnn.training.task import Task

__all__ = ["MODEL", "WEIGHTS", "average_specs", "averaged", "best_average"]

MODEL = "average"
WEIGHTS = (0.0, 0.25, 0.5, 0.75, 1.0)
"""Of the trees."""


def average_specs(
    network: RunSpec, trees: RunSpec, places: Iterable[tuple[int, int]]
) -> list[RunSpec]:
    """The rows of two settings on these splits and seeds, for every weight."""
    said = {"network": _setting(network), "trees": _setting(trees)}
    base = RunSpec(dataset=network.dataset, model=MODEL, steps=1, precision=network.precision)
    return [
        replace(base, split=split, seed=seed, options={**said, "weight": weight})
        for weight in WEIGHTS
        for split, seed in places
    ]


def averaged(
    specs: Sequence[RunSpec],
    networks: Sequence[RunResult],
    trees: Sequence[RunResult],
    task: Task,
) -> list[RunResult]:
    """What the rows `specs` come to, of results of both kinds that carry their logits."""
    from pdgnn.estimator.networks import probabilities
    from pdgnn.estimator.scores import as_logits

    of_network, of_trees = (
        {(r.spec.split, r.spec.seed): r for r in some} for some in (networks, trees)
    )
    found = []
    for spec in specs:
        place, weight = (spec.split, spec.seed), float(spec.options["weight"] or 0)
        first, second = (probabilities(_kept(of[place])) for of in (of_network, of_trees))
        mixed = as_logits((1 - weight) * first + weight * second)
        val, test = run_scores(torch.from_numpy(mixed), task, spec.split)
        found.append(RunResult(spec, val, test, 1, 1, 0.0))
    return found


def best_average(specs: Sequence[RunSpec], results: Mapping[str, RunResult]) -> Summary | None:
    """The rows of the weight with the highest mean validation score; None where one is missing.

    Of equals the first, and so the smallest weight of the trees.
    """
    if not specs or any(spec.key not in results for spec in specs):
        return None
    return chosen(summarize(results[spec.key] for spec in specs))


def _setting(spec: RunSpec) -> str:
    """What a setting is known by, whatever its split and seed."""
    return replace(spec, split=0, seed=0).key


def _kept(result: RunResult) -> Tensor:
    if result.logits is None:
        raise ValueError(f"the run {result.spec.key} has kept no logits")
    return result.logits
