"""What is tried on each graph: the settings of every method, as data, and the stages they go in.

A grid has lists of values by the name of a field of :class:`~pdgnn.training.RunSpec` or of an
option of the model; names with a space between them change together. A space is the union of a few
grids.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from pdgnn.errors import InputError
from pdgnn.experiments.grid import DEPTHS
from pdgnn.experiments.paper import scope as paper_scope
from pdgnn.experiments.records.trees import TREES
from pdgnn.models import Model, find_model
from pdgnn.training.spec import SETTINGS, RunSpec, resolved
from pdgnn.training.stages import FEW, Stage, usual_stages

__all__ = [
    "FRESH_SEEDS",
    "GCNS",
    "METHODS",
    "NETWORKS",
    "OWN_MODELS",
    "SPLITS",
    "Method",
    "check_datasets",
    "check_methods",
    "space",
    "stages_of",
]

Grid = Mapping[str, Sequence[Any]]
SPLITS = tuple(range(10))
FRESH_SEEDS = (101, 102, 103)
"""Of the final runs. In a search the seed of a run is the number of its split."""
OWN_MODELS: dict[str, Model] = {"pd-trees": TREES}
"""Beside those of the registry."""


@dataclass(frozen=True)
class Method:
    """A row of the table: what it is called, and the model that it trains; none is an average."""

    name: str
    label: str
    model: str = ""


METHODS = {
    method.name: method
    for method in (
        Method("pd-net", "PD-Net", "pd-net"),
        Method("pd-trees", "pd-trees", "pd-trees"),
        Method("average", "PD-Net and pd-trees, averaged"),
        Method("gcn", "GCN, tuned", "pd-net"),
        Method("pd-gcn", "PD-GCN, the paper's protocol", "pd-gcn"),
    )
}
"""By name, in the order of the work and of the table."""

# --- PD-Net ---------------------------------------------------------------------------------------

_ADAM: dict[str, Any] = {"optimizer": ["adam"], "weight_decay": [5e-4]}
_NORMS = [("batch", True), ("none", False)]
_CITATION: Grid = {
    "depth": [1, 2, 3, 4],
    "alpha": [0.0, 0.5, 1.0],
    "gamma": [0.5, 0.8, 1.0],
    "dropout": [0.5, 0.8],
    "norm running": _NORMS,
    **_ADAM,
    **{"width": [256], "lr": [0.01], "steps": [300]},
}

NETWORKS: dict[str, tuple[Grid, ...]] = {
    "minesweeper": (
        {
            "depth rounds": [(1, 30), (2, 10), (2, 20), (2, 30), (3, 16)],
            "alpha gamma": [(0.0, 1.0), (0.5, 1.0), (1.0, 1.0)],
            "dropout": [0.1, 0.2],
            "lr": [3e-3, 0.01],
            **{"inject": [True], "width": [64], "steps": [1000]},
        },
    ),
    "tolokers": (
        {
            "depth rounds inject": [(4, 1, False), (5, 1, False), (2, 3, True)],
            "gamma": [0.2, 0.5, 0.8, 1.0],
            "dropout": [0.5, 0.6, 0.7],
            "lr": [1e-3, 3e-3],
            **{"alpha": [0.0], "width": [128], "steps": [800]},
        },
    ),
    "squirrel-filtered": (
        {
            "depth": [2, 3, 4, 5],
            "gamma": [0.9, 1.0],
            "dropout": [0.7, 0.8, 0.85],
            "lr": [0.03, 0.05],
            **_ADAM,
            **{"alpha": [0.0], "running": [True], "width": [256], "steps": [80]},
        },
    ),
    "chameleon-filtered": (
        {
            "depth": [1, 2, 3],
            "width": [256, 512],
            "gamma": [0.9, 1.0],
            "scopes": ["", "1,1"],
            "lr": [3e-4, 1e-3],
            "dropout": [0.7, 0.8],
            **{"alpha": [0.0], "steps": [600]},
        },
        {
            "depth": [2, 3],
            "gamma": [0.9, 1.0],
            "scopes": ["", "1,1"],
            "dropout": [0.7, 0.8],
            **_ADAM,
            **{"alpha": [0.0], "running": [True], "width": [256], "lr": [1e-3], "steps": [600]},
        },
    ),
    "cora": (_CITATION,),
    "citeseer": (_CITATION,),
    "pubmed": (_CITATION,),
}

# --- a tuned GCN: the same layer with GCN's normalised adjacency, no rounds, one sight of x -------

_GCN: Grid = {"aggregation": ["gcn"]}
_GCN_CITATION: Grid = {
    **{"depth": [1, 2, 3, 4], "dropout": [0.5, 0.8], "norm running": _NORMS},
    **_ADAM,
    **_GCN,
    **{"width": [256], "lr": [0.01], "steps": [300]},
}
GCNS: dict[str, tuple[Grid, ...]] = {
    "minesweeper": (
        {
            **{"depth": [8, 12, 16], "dropout": [0.2, 0.3], "lr": [3e-3, 0.01]},
            **_GCN,
            **{"width": [64], "steps": [1000]},
        },
    ),
    "tolokers": (
        {
            **{"depth": [3, 4, 5], "dropout": [0.5, 0.7], "lr": [1e-3, 3e-3]},
            **_GCN,
            **{"width": [128], "steps": [800]},
        },
    ),
    "squirrel-filtered": (
        {
            **{"depth": [2, 3, 4, 5], "dropout": [0.7, 0.8], "lr": [0.03, 0.05]},
            **_ADAM,
            **_GCN,
            **{"running": [True], "width": [256], "steps": [80]},
        },
    ),
    "chameleon-filtered": (
        {
            **{"depth": [1, 2, 3, 5], "width": [256, 512], "lr": [3e-4, 1e-3]},
            **_GCN,
            **{"dropout": [0.7, 0.8], "steps": [600]},
        },
    ),
    "cora": (_GCN_CITATION,),
    "citeseer": (_GCN_CITATION,),
    "pubmed": (_GCN_CITATION,),
}

# --- trees on diffused features -------------------------------------------------------------------

_TWO = "0,1;1,1"
_BOOSTED: Grid = {"steps": [120], "lr": [0.06]}
TREE_GRIDS: tuple[Grid, ...] = (
    {
        "scopes": ["1,1", _TWO, "0,0.5;1,1", "0,1;0.5,1;1,1"],
        "hops": [1, 2, 3, 4, 6],
        "labels": [False, True],
        **_BOOSTED,
    },
    {
        "scopes": [_TWO, "0,1;0.5,1;1,1"],
        "hops": [2, 4],
        "labels": [False, True],
        **{"trees": ["both"], **_BOOSTED},
    },
    {"scopes": [_TWO], "hops": [2, 4], "trees": ["extra"], **_BOOSTED},
    {"scopes": [_TWO], "hops": [2, 4], "leaves": [7, 31], **_BOOSTED},
    {"scopes": [_TWO], "hops": [2, 4], "steps": [240], "lr": [0.03]},
)
WIDE_GRIDS: tuple[Grid, ...] = (
    {"scopes": [_TWO], "hops": [1, 2, 4], "reduce": [128], **_BOOSTED},
    {"scopes": [_TWO], "hops": [2, 4], "reduce": [16], **_BOOSTED},
)
"""Of graphs with hundreds of features."""
NARROW = ("minesweeper", "tolokers")

# --- PD-GCN where the paper does not say its (α, γ) -----------------------------------------------

UNPUBLISHED = tuple((alpha, gamma) for alpha in (0.0, 0.5, 1.0) for gamma in (0.2, 0.5, 1.0))

# --- what they make -------------------------------------------------------------------------------


def space(
    method: str,
    dataset: str,
    *,
    precision: str = "float32",
    models: Mapping[str, Model] | None = None,
) -> list[RunSpec]:
    """The settings of a method on a graph, each a run of split 0 with all its steps.

    >>> len(space("pd-trees", "tolokers")), len(space("pd-gcn", "minesweeper"))
    (56, 5)
    """
    model = METHODS[method].model
    base = RunSpec(dataset=dataset, model=model, precision=precision)
    if method == "pd-trees":
        base = replace(base, precision="float32")
    known = find_model(model, {**OWN_MODELS, **(models or {})})
    made = (resolved(run, known) for grid in _grids(method, dataset) for run in _runs(grid, base))
    return list({run.key: run for run in made}.values())


def stages_of(method: str, count: int) -> tuple[Stage, ...]:
    """The stages of so many settings.

    Networks: all on 2 splits for a fifth of the steps, a sixth of them (at least 12) on 5 splits
    for half, 4 on all splits to the end; up to 12 settings as in
    :func:`~pdgnn.training.stages.usual_stages`. A network of many rounds learns late, so that a
    shorter first stage would keep the shallow ones. Trees take seconds, and so are fitted whole:
    all on 3 splits, a sixth (at least 12) on all.

    >>> [(s.keep, s.splits) for s in stages_of("pd-net", 168)]
    [(None, 2), (28, 5), (4, None)]
    """
    most = max(FEW, math.ceil(count / 6))
    if method == "pd-trees":
        return (Stage(None, 3), Stage(most)) if count > FEW else (Stage(),)
    if count <= FEW:
        return usual_stages(count)
    return (Stage(None, 2, 1 / 5), Stage(most, 5, 1 / 2), Stage(4))


def check_datasets(names: Sequence[str] | None) -> tuple[str, ...]:
    """`names` if there is a space for each; all for None."""
    if names is None:
        return tuple(NETWORKS)
    if wrong := [name for name in names if name not in NETWORKS]:
        raise InputError(
            f"there are no records of {wrong[0]!r}; choose among {', '.join(NETWORKS)}"
        )
    return tuple(dict.fromkeys(names))


def check_methods(names: Sequence[str] | None) -> tuple[Method, ...]:
    """The methods of these names, in the order of the table; all for None."""
    if names is None:
        return tuple(METHODS.values())
    if wrong := [name for name in names if name not in METHODS]:
        raise InputError(f"unknown model {wrong[0]!r}; choose among {', '.join(METHODS)}")
    return tuple(method for name, method in METHODS.items() if name in names)


def _grids(method: str, dataset: str) -> tuple[Grid, ...]:
    check_datasets([dataset])
    if method == "pd-net":
        return NETWORKS[dataset]
    if method == "gcn":
        return GCNS[dataset]
    if method == "pd-trees":
        return TREE_GRIDS if dataset in NARROW else (*TREE_GRIDS, *WIDE_GRIDS)
    said = paper_scope("PD-GCN", dataset)
    return ({"alpha gamma": [said] if said else UNPUBLISHED, "depth": DEPTHS},)


def _runs(grid: Grid, base: RunSpec) -> list[RunSpec]:
    """A run for each combination of the values."""
    found = []
    for values in product(*grid.values()):
        chosen: dict[str, Any] = {}
        for names, value in zip(grid, values, strict=True):
            together = names.split()
            chosen |= (
                {names: value} if len(together) == 1 else dict(zip(together, value, strict=True))
            )
        fields = {name: value for name, value in chosen.items() if name in SETTINGS}
        options = {name: value for name, value in chosen.items() if name not in SETTINGS}
        found.append(replace(base, **fields, options=options))
    return found
