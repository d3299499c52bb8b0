"""Which part of a table to reproduce, checked once for Python and the command line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike

from pdgnn.errors import InputError, check_whole
from pdgnn.experiments.catalog import (
    PAPER_DATASETS,
    Experiment,
    find_experiment,
    own_row,
    paper_name,
)
from pdgnn.experiments.grid import Search
from pdgnn.experiments.outcome import Row
from pdgnn.models import Model, check_models
from pdgnn.training.spec import RunSpec
from pdgnn.training.task import Task

__all__ = ["Request", "chosen_rows", "known_labels"]

SPLITS = 10
"""Of the protocol."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """A table of scores: which part of it, and the runs it shall be made of."""

    name: str
    models: Mapping[str, Model] = field(default_factory=dict)  # the user's own
    rows: Sequence[str] | None = None  # labels; empty: only the user's own are trained
    datasets: Sequence[str] | None = None
    splits: Sequence[int] | None = None
    steps: int = 1000
    search: Search = Search.published
    exhaustive: bool = False
    most_settings: int | None = None  # of a row on a dataset; others are not tried
    width: int = 512
    precision: str = "float32"
    root: str | PathLike[str] | None = None

    def __post_init__(self) -> None:
        """Check what can be checked without the data."""
        check_models(self.models)
        labels = {row.label for row in _named(self.experiment)}
        if taken := [name for name in self.models if name in labels]:
            raise InputError(f"{self.name} has a row {taken[0]!r}; choose another name")
        self.base("any")
        if self.most_settings is not None:
            check_whole("most_settings", self.most_settings)
        for what, names in (("rows", self.rows), ("datasets", self.datasets)):
            if isinstance(names, str):
                raise InputError(f"{what} must be a list such as [{names!r}], not {names!r}")
        for what, given in (("splits", self.splits), ("datasets", self.datasets)):
            if given is not None and not len(given):
                raise InputError(f"{what} is empty; leave it out for all")
        for split in self.splits or ():
            check_whole("split", split, 0)
        chosen_rows(self.experiment, self.rows)

    @property
    def experiment(self) -> Experiment:
        """What the catalog has of it."""
        return find_experiment(self.name)

    @property
    def trained_rows(self) -> list[Row]:
        """The rows whose runs are trained."""
        able = [row for row in chosen_rows(self.experiment, self.rows) if not row.absent]
        return [*able, *self.own_rows]

    def shown_rows(self, beyond: Sequence[Row] = ()) -> list[Row]:
        """The rows of the table; where none were asked for by name, those `beyond` it too."""
        if self.rows:
            beyond = ()
        return [*chosen_rows(self.experiment, self.rows or None), *beyond, *self.own_rows]

    @property
    def own_rows(self) -> list[Row]:
        """Those of the user's models."""
        return [own_row(name, model) for name, model in self.models.items()]

    @property
    def all_datasets(self) -> tuple[str, ...]:
        """Names of the paper's, and whatever else training can open."""
        if self.datasets is None:
            return self.experiment.datasets
        given = tuple(dict.fromkeys(self.datasets))
        other = [d for d in given if d in PAPER_DATASETS and d not in self.experiment.datasets]
        if other:
            raise InputError(
                f"{self.name} has no {other[0]}; it has {', '.join(self.experiment.datasets)}"
            )
        return given

    def base(self, dataset: str) -> RunSpec:
        """What all runs on a dataset share."""
        return RunSpec(
            dataset=dataset,
            model="gcn",
            width=self.width,
            steps=self.steps,
            precision=self.precision,
        )

    def splits_of(self, task: Task) -> tuple[int, ...]:
        """Those that were asked for, or the first ten."""
        if self.splits is not None:
            if max(self.splits) >= task.num_splits:
                raise InputError(
                    f"{task.name} has splits 0 to {task.num_splits - 1}; there is no "
                    f"{max(self.splits)}"
                )
            return tuple(dict.fromkeys(self.splits))
        return tuple(range(min(SPLITS, task.num_splits)))


def known_labels(experiment: Experiment) -> set[str]:
    """What a row may be called: its label, its model, or the name of both in the paper."""
    rows = [row for row in _named(experiment) if not row.absent]
    return {
        *(row.label for row in _named(experiment)),
        *(row.model for row in rows),
        *(paper_name(row) for row in rows),
    }


def _named(experiment: Experiment) -> tuple[Row, ...]:
    """The rows that may be asked for."""
    return (*experiment.rows, *experiment.beyond)


def chosen_rows(experiment: Experiment, names: Sequence[str] | None) -> list[Row]:
    """The rows of these names, in the order of the table; for None all that the paper has.

    A name is a label, else a model ("pd-gat": all its rows), else what the table of (α, γ) calls it
    ("PD-GAT (rewired)"). The rows that the paper's table lacks are those of names that it lacks.
    """
    if names is None:
        return list(experiment.rows)
    every = _named(experiment)
    chosen: set[str] = set()
    for name in names:
        found = _called(experiment.rows, name) or _called(experiment.beyond, name)
        if not found:
            known = ", ".join(repr(row.label) for row in every)
            raise InputError(f"{experiment.name} has no row {name!r}; it has {known}")
        if absent := [row.label for row in found if row.absent]:
            raise InputError(f"there is no model for {absent[0]} yet; leave it out")
        chosen |= {row.label for row in found}
    return [row for row in every if row.label in chosen]


def _called(rows: Sequence[Row], name: str) -> list[Row]:
    return (
        [row for row in rows if row.label == name]
        or [row for row in rows if row.model == name]
        or [row for row in rows if not row.absent and paper_name(row) == name]
    )
