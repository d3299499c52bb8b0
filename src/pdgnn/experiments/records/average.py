"""The average of a network and of trees: class probabilities, (1 − w) of one and w of the other.

Few weights w are tried. Each is a row of the store for every split and seed, under the model
``average``, with the settings that it is an average of; validation chooses the weight.

The validation nodes have chosen the network's step, so that its score on them is too high, while
trees have no step to choose. So the weights are compared by scores on nodes that have chosen
nothing: the network is trained again with either half of the validation nodes, and scored on the
other one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from statistics import fmean

import torch
from torch import Tensor

from pdgnn.experiments.records.trees import run_scores
from pdgnn.training.spec import RunResult, RunSpec
from pdgnn.training.summary import Summary, chosen, summarize
from pdgnn.training.task import Task

__all__ = ["MODEL", "WEIGHTS", "average_specs", "averaged", "best_average", "halves"]

MODEL = "average"
WEIGHTS = (0.0, 0.25, 0.5, 0.75, 1.0)
"""Of the trees."""


def halves(task: Task) -> tuple[Task, Task]:
    """The task with one half of each split's validation nodes, of every class, and the other."""
    generator = torch.Generator().manual_seed(0)
    first = task.masks.clone()
    for mask in first[:, 1]:
        nodes = mask.nonzero().ravel()
        nodes = nodes[torch.randperm(len(nodes), generator=generator)]
        nodes = nodes[task.y[nodes].argsort(stable=True)]
        mask[nodes[1::2]] = False
    second = task.masks.clone()
    second[:, 1] &= ~first[:, 1]
    return (
        replace(task, name=f"{task.name}, half 1", masks=first),
        replace(task, name=f"{task.name}, half 2", masks=second),
    )


def average_specs(
    network: RunSpec, trees: RunSpec, places: Iterable[tuple[int, int]], *, crossed: bool = True
) -> list[RunSpec]:
    """The rows of two settings on these splits and seeds, for every weight.

    Not `crossed` are rows whose validation score is that of all validation nodes.
    """
    said: dict[str, str | bool] = {"network": _setting(network), "trees": _setting(trees)}
    if crossed:
        said["crossed"] = True
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
    crossed: Sequence[Sequence[RunResult]],
) -> list[RunResult]:
    """What the rows `specs` come to, of results that carry their logits.

    `crossed` are those of the network trained on either of the :func:`halves` of the task. They
    give the validation score, each on the other half; `networks` the test score.
    """
    whole, tabular = _by_place(networks), _by_place(trees)
    others = list(zip(map(_by_place, crossed), reversed(halves(task)), strict=True))
    found = []
    for spec in specs:
        place, weight = (spec.split, spec.seed), float(spec.options["weight"] or 0)
        val = fmean(
            run_scores(_mixed(half[place], tabular[place], weight), other, spec.split)[0]
            for half, other in others
        )
        test = run_scores(_mixed(whole[place], tabular[place], weight), task, spec.split)[1]
        found.append(RunResult(spec, val, test, 1, 1, 0.0))
    return found


def _by_place(results: Iterable[RunResult]) -> dict[tuple[int, int], RunResult]:
    return {(r.spec.split, r.spec.seed): r for r in results}


def _mixed(network: RunResult, trees: RunResult, weight: float) -> Tensor:
    """The logits of the averaged probabilities."""
    from pdgnn.estimator.networks import probabilities
    from pdgnn.estimator.scores import as_logits

    first, second = (probabilities(_kept(result)) for result in (network, trees))
    return torch.from_numpy(as_logits((1 - weight) * first + weight * second))


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
