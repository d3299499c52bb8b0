"""The settings of a row on a dataset: which depths and which (α, γ) are tried."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import product

from pdgnn.baselines.grids import APPENDIX_E, GRIDS, HOMOPHILIC
from pdgnn.baselines.grids import grid as system_grid
from pdgnn.errors import InputError
from pdgnn.experiments.catalog import paper_name
from pdgnn.experiments.outcome import Row
from pdgnn.experiments.paper import scope as paper_scope
from pdgnn.experiments.scopes import FULL, Classes, Scope
from pdgnn.models import Model
from pdgnn.training.spec import RunSpec, resolved
from pdgnn.training.stages import Candidate

__all__ = [
    "COARSE",
    "DEPTHS",
    "UNTUNED",
    "Search",
    "Setting",
    "check_search",
    "drawn",
    "in_appendix",
    "representatives",
    "row_settings",
    "system_settings",
    "system_steps",
]

DEPTHS = (1, 2, 3, 4, 5)
PROTOCOL_STEPS = RunSpec.steps
UNTUNED: Scope = (1.0, 1.0)
COARSE: tuple[Scope, ...] = tuple(
    (a, g) for a in (0.0, 0.2, 0.5, 0.8, 1.0) for g in (0.0, 0.2, 0.5, 0.8, 1.0)
)
"""A part of the grid: both ends, the middle, and a point between, of α and of γ."""
APPENDIX_DRAWN = 600
"""So many settings of Appendix E are drawn for a row; one with (α, γ) has thousands."""


class Search(StrEnum):
    """Which (α, γ) of a model that has them are tried."""

    published = "published"  # the paper's
    coarse = "coarse"  # COARSE and the paper's
    full = "full"  # {0, 0.1, ..., 1}²


@dataclass(frozen=True)
class Setting(Candidate):
    """A depth and, where they are used, α and γ."""

    scopes: tuple[Scope, ...] = ()
    """All (α, γ) that it stands for, its own first: those with the same rewired graph."""


def row_settings(
    row: Row,
    base: RunSpec,
    model: Model,
    search: Search,
    *,
    classes: Callable[[Sequence[Scope]], Classes],
) -> list[Setting]:
    """The settings of a row on a dataset, the shallowest first.

    `base` has what they share: dataset, width, steps, precision. `classes` says which of some
    scopes have the same rewired graph, and is asked only for a model that needs α and γ for that
    alone. The search has none for a row whose (α, γ) the paper does not say, if it is asked for the
    published ones; a user's own model then has α = γ = 1.

    α = γ = 1 and the published (α, γ) are trained to the end in any search, at their best depth:
    the ablation, and the comparison with what was published, need them. Not at all five depths, as
    those that fall behind early would cost four times as much as the best.

    On Cora, CiteSeer and PubMed a coarse or full search has settings of the paper's Appendix E
    beside those of the protocol.
    """
    base = replace(base, model=row.model, rewired=row.rewired)
    if row.model in GRIDS:
        return system_settings(base, model)
    said = paper_scope(paper_name(row), base.dataset)
    groups = [()] if row.tuned is None else _groups(row, model, search, said, classes)
    found = [
        _setting(
            replace(base, depth=depth), model, group, _always(group, said) if row.tuned else ""
        )
        for depth, group in product(DEPTHS, groups)
    ]
    if base.dataset in HOMOPHILIC and search is not Search.published and model.name is not None:
        found += drawn(_appendix(base, model, groups), APPENDIX_DRAWN)
    once: dict[str, Setting] = {}  # a model may not use the depth
    for setting in found:
        once.setdefault(setting.spec.key, setting)
    return list(once.values())


def _groups(
    row: Row,
    model: Model,
    search: Search,
    said: Scope | None,
    classes: Callable[[Sequence[Scope]], Classes],
) -> list[tuple[Scope, ...]]:
    """The scopes of a row, those that are one setting together."""
    scopes = _scopes(row, model, search, said)
    if "gamma" in model.uses or "alpha" in model.uses or not scopes:
        return [(scope,) for scope in scopes]
    known = classes(scopes if row.tuned else [UNTUNED, *([said] if said else [])])
    groups = representatives(known, said)
    return groups if row.tuned else [group for group in groups if UNTUNED in group]


def _setting(base: RunSpec, model: Model, group: tuple[Scope, ...], always: str = "") -> Setting:
    alpha, gamma = group[0] if group else UNTUNED
    return Setting(resolved(replace(base, alpha=alpha, gamma=gamma), model), always, group)


def _appendix(base: RunSpec, model: Model, groups: Sequence[tuple[Scope, ...]]) -> list[Setting]:
    """Those of Appendix E, at every depth and scope."""
    return [
        _setting(replace(base, depth=depth, **fields), model, group)
        for depth, group, fields in product(DEPTHS, groups, APPENDIX_E.combinations())
    ]


def in_appendix(spec: RunSpec) -> bool:
    """Whether the learning rate, decay, dropout and width of a run are those of Appendix E."""
    return (
        spec.dataset in HOMOPHILIC
        and all(getattr(spec, name) == value for name, value in APPENDIX_E.fixed.items())
        and all(getattr(spec, name) in values for name, values in APPENDIX_E.searched.items())
    )


def drawn(settings: Sequence[Setting], most: int | None) -> list[Setting]:
    """At most so many of them, drawn by a fixed seed; those that are always trained stay."""
    if most is None or len(settings) <= most:
        return list(settings)
    chosen = set(random.Random(0).sample(range(len(settings)), most))
    return [setting for i, setting in enumerate(settings) if i in chosen or setting.always]


def system_settings(base: RunSpec, model: Model) -> list[Setting]:
    """Those of one of the other published systems: its own grid, widths and steps.

    Of the `base` only the dataset, the precision and the share of the protocol's steps count.
    """
    found = []
    for fields in system_grid(base.model, base.dataset):
        steps = system_steps(base.model, base.steps)
        found.append(Setting(resolved(replace(base, **{**fields, "steps": steps}), model)))
    return found


def system_steps(name: str, steps: int) -> int:
    """Of a run of a system where a run of the protocol, which has 1000, has so many."""
    own = int(GRIDS[name].fixed.get("steps", PROTOCOL_STEPS))
    return max(1, round(own * steps / PROTOCOL_STEPS))


def representatives(classes: Classes, said: Scope | None) -> list[tuple[Scope, ...]]:
    """The scopes of each rewired graph, the one that is trained first.

    It is the published one, else α = γ = 1, else the first of the grid.
    """
    groups: dict[int, list[Scope]] = {}
    for scope, number in classes.items():
        groups.setdefault(number, []).append(scope)

    def rank(scope: Scope) -> tuple[bool, bool]:
        return scope != said, scope != UNTUNED

    return [tuple(sorted(group, key=rank)) for group in groups.values()]


def _scopes(row: Row, model: Model, search: Search, said: Scope | None) -> list[Scope]:
    if row.tuned is False:
        return [UNTUNED]
    if search is Search.published:
        if said is None:
            return [UNTUNED] if model.name is None else []
        return [said]
    grid: Iterable[Scope] = FULL if search is Search.full else COARSE
    return list(dict.fromkeys([*grid, UNTUNED, *([said] if said else [])]))


def _always(group: Sequence[Scope], said: Scope | None) -> str:
    if said in group:
        return "published"
    return "untuned" if UNTUNED in group else ""


def check_search(search: str) -> Search:
    """`search` if there is such a one."""
    if search not in list(Search):
        raise InputError(f"search must be one of {', '.join(Search)}, not {search!r}")
    return Search(search)
