"""The training settings of the published systems and the grids that they were searched in.

:data:`GRIDS` has for each system what is fixed, what is searched over, and what is otherwise on a
dataset; :func:`grid` makes the runs of it. Sources:

- The eight systems from H2GCN to JacobiConv: the settings behind the rows of Platonov et al., "A
  critical look at the evaluation of GNNs under heterophily", ICLR 2023, which the paper quotes. The
  decays of four of them, the dropout of CPGNN, GPR-GNN and GBK-GNN, and the exceptions of GloGNN
  and JacobiConv on chameleon are those of the scripts that were published with these rows. On Cora,
  CiteSeer and PubMed, of which there are no such rows, GloGNN has the options, depth and dropout of
  its authors' own scripts: with those of the others it would not read the features.
- The six others: Appendix D of the paper; on Cora, CiteSeer and PubMed Appendix E, which has the
  same grid for all of them, DGN too, and a width of 64.

What neither says is that of the package's protocol: 1000 steps, the best validation step of all,
depth 2. The published runs of the eight stopped after 100 or 200 steps without a better validation
score; here ``patience`` is None.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from pdgnn.errors import InputError

__all__ = ["APPENDIX_E", "GRIDS", "HOMOPHILIC", "Grid", "grid"]

CHAMELEON = "chameleon-filtered"
HOMOPHILIC = ("cora", "citeseer", "pubmed")
TWO_CLASSES = ("minesweeper", "tolokers", "questions")


@dataclass(frozen=True)
class Grid:
    """What is fixed and what is searched over, by fields of a :class:`~pdgnn.training.RunSpec`.

    Attributes:
        fixed: One value for each field; ``"options"`` is a dict.
        searched: A list of values for each field; ``"options"`` is a list of dicts, each of which
            is joined to the options that are fixed.
        exceptions: For a dataset the fields, fixed or searched, that take the place of the usual.
    """

    fixed: Mapping[str, Any]
    searched: Mapping[str, Sequence[Any]]
    exceptions: Mapping[str, Grid] = field(default_factory=dict)

    def on(self, dataset: str) -> Grid:
        """That of a dataset: its exceptions in their place; options that are fixed are joined."""
        own = self.exceptions.get(dataset)
        if own is None:
            return self
        options = {**self.fixed.get("options", {}), **own.fixed.get("options", {})}
        fixed = {**self.fixed, **own.fixed, "options": options}
        return Grid(fixed, {**self.searched, **own.searched})

    def combinations(self) -> list[dict[str, Any]]:
        """The fields of a run, ``"options"`` among them, for each combination."""
        return [
            _joined(self.fixed, dict(zip(self.searched, values, strict=True)))
            for values in product(*self.searched.values())
        ]


def grid(name: str, dataset: str) -> list[dict[str, Any]]:
    """The fields of a run, ``"options"`` among them, for each combination of a system's grid.

    >>> runs = grid("fagcn", "chameleon-filtered")
    >>> len(runs), runs[0]["lr"], runs[0]["weight_decay"], runs[0]["options"]
    (16, 0.003, 0.0, {'epsilon': 0.4})
    >>> grid("fagcn", "cora")[0]["options"]
    {'epsilon': 0.3}
    """
    if name not in GRIDS:
        raise InputError(f"there is no grid for {name!r}; choose one of {', '.join(GRIDS)}")
    return GRIDS[name].on(dataset).combinations()


def _joined(fixed: Mapping[str, Any], chosen: Mapping[str, Any]) -> dict[str, Any]:
    options = {**fixed.get("options", {}), **chosen.get("options", {})}
    return {**fixed, **chosen, "options": options}


def _each(name: str, *values: Any) -> list[dict[str, Any]]:
    """A list of options to search over."""
    return [{name: value} for value in values]


def _glognn(depth: int, dropout: float, **options: float) -> Grid:
    return Grid({"depth": depth, "dropout": dropout, "options": {"residual": 0.8, **options}}, {})


_H2GCN = {"lr": [1e-3, 3e-3, 1e-2, 3e-2], "weight_decay": [0.0, 1e-6, 1e-5, 1e-4]}
_APPENDIX = {
    "lr": [0.01, 0.05, 0.1],
    "weight_decay": [0.0, 5e-7, 5e-6, 1e-5, 5e-5, 1e-4, 5e-4, 1e-3, 5e-3, 1e-2],
    "dropout": [0.0, 0.1, 0.3, 0.5, 0.7],
}
_WIDE: dict[str, Any] = {"width": 64, "depth": 2, "steps": 1000}
APPENDIX_E = Grid({"width": 64}, _APPENDIX)
"""Of all rows of the paper's table of homophilic graphs, its own models among them."""

GRIDS: dict[str, Grid] = {
    "h2gcn": Grid({**_WIDE, "dropout": 0.5}, _H2GCN),
    "cpgnn": Grid({**_WIDE, "dropout": 0.0, "options": {"pretraining": 400}}, _H2GCN),
    "gpr-gnn": Grid(
        {
            "width": 64,
            "steps": 1000,
            "dropout": 0.5,
            "options": {"hops": 10, "teleport": 0.1, "prop_dropout": 0.7},
        },
        {"lr": [0.005, 0.01, 0.05, 0.1], "weight_decay": [0.0, 1e-5, 1e-4, 1e-3]},
        {name: Grid({"options": {"two_scores": True}}, {}) for name in TWO_CLASSES},
    ),
    "fsgnn": Grid(
        {"width": 64, "steps": 1000, "dropout": 0.7, "options": {"hops": 3}},
        {
            "lr": [0.001, 0.003, 0.01, 0.02, 0.04],
            "weight_decay": [0.0, 1e-5, 3e-5, 1e-4, 3e-4],
        },
        {CHAMELEON: Grid({"dropout": 0.5}, {})},
    ),
    "glognn": Grid(
        {
            **_WIDE,
            "dropout": 0.8,
            "options": {"beta1": 1.0, "beta2": 1.0, "residual": 0.0, "delta": 0.0, "orders": 1},
        },
        {"lr": [3e-4, 1e-3, 3e-3, 1e-2, 3e-2], "weight_decay": [0.0, 1e-5, 5e-5, 1e-4, 1e-3]},
        {
            CHAMELEON: Grid(
                {"dropout": 0.0, "options": {"beta1": 0.0}},
                {"lr": [1e-3, 3e-3, 1e-2, 3e-2, 1e-1]},
            ),
            "cora": _glognn(2, 0.8, beta1=77.0, beta2=1000.0, delta=0.9, orders=6),
            "citeseer": _glognn(3, 0.9, beta1=0.0, beta2=1000.0, delta=1.0, orders=2),
            "pubmed": _glognn(1, 0.5, beta1=0.0, beta2=2000.0, delta=1.0, orders=4),
        },
    ),
    "fagcn": Grid(
        {"width": 32, "depth": 2, "steps": 1000, "dropout": 0.5, "options": {"epsilon": 0.3}},
        {"lr": [0.003, 0.01, 0.03, 0.1], "weight_decay": [0.0, 1e-5, 1e-4, 1e-3]},
        {CHAMELEON: Grid({"options": {"epsilon": 0.4}}, {})},
    ),
    "gbk-gnn": Grid(
        {
            "width": 16,
            "depth": 2,
            "steps": 500,
            "dropout": 0.5,
            "options": {"gate": True, "gate_weight": 30.0},
        },
        {"lr": [1e-3, 3e-3, 1e-2, 3e-2, 1e-1], "weight_decay": [0.0, 1e-5, 1e-4, 1e-3]},
    ),
    "jacobiconv": Grid(
        {
            "steps": 1000,
            "dropout": 0.4,
            "options": {"hops": 10, "a": 0.5, "b": 0.25, "bound": 2.0, "filter_dropout": 0.1},
        },
        {"lr": [0.01, 0.03, 0.05, 0.1], "weight_decay": [0.0, 1e-6, 1e-5, 1e-4]},
        {
            CHAMELEON: Grid(
                {"dropout": 0.6, "options": {"a": 0.0, "b": 0.0, "filter_dropout": 0.5}},
                {"weight_decay": [0.0, 1e-5, 1e-4, 5e-4]},
            )
        },
    ),
    "bernnet": Grid({**_WIDE, "options": {"hops": 10}}, _APPENDIX),
    "linkx": Grid(
        _WIDE,
        {**_APPENDIX, "options": [{"edge_layers": n, "node_layers": n} for n in (1, 2)]},
    ),
    "appnp": Grid(
        {**_WIDE, "options": {"hops": 10}},
        {**_APPENDIX, "options": _each("teleport", 0.1, 0.2, 0.5, 0.9)},
    ),
    "dgn": Grid(
        _WIDE,
        {
            "lr": [1e-5, 1e-4],
            "weight_decay": [1e-6, 1e-5],
            "dropout": [0.3, 0.5],
            "options": [
                {"aggregators": aggregators, "net": net}
                for aggregators in ("mean-dir1-av", "mean-dir1-dx", "mean-dir1-av-dir1-dx")
                for net in ("complex", "simple")
            ],
        },
        {name: Grid({}, _APPENDIX) for name in HOMOPHILIC},
    ),
    "wgcn": Grid(_WIDE, _APPENDIX),
    "pgso-gcn": Grid(
        _WIDE,
        {
            **_APPENDIX,
            "options": _each(
                "start", "GCN", "all zeros", "SymLaplacian", "RWLaplacian", "Adjacency"
            ),
        },
    ),
}
"""By the name of the system in the registry."""
