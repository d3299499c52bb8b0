"""The settings of a row on a dataset: which depths and which (α, γ) are tried."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import product

from pdgnn.baselines.grids import GRIDS
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
    """
    base = replace(base, model=row.model, rewired=row.rewired)
    if row.model in GRIDS:
        return system_settings(base, model)
    if row.tuned is None:
        specs = [resolved(replace(base, depth=depth), model) for depth in DEPTHS]
        return [Setting(spec) for spec in {spec.key: spec for spec in specs}.values()]
    said = paper_scope(paper_name(row), base.dataset)
    scopes = _scopes(row, model, search, said)
    if "gamma" not in model.uses and "alpha" not in model.uses and scopes:
        known = classes(scopes if row.tuned else [UNTUNED, *([said] if said else [])])
        groups = representatives(known, said)
        if not row.tuned:
            groups = [group for group in groups if UNTUNED in group]
    else:
        groups = [(scope,) for scope in scopes]
    found: dict[str, Setting] = {}  # a model may not use the depth
    for depth, group in product(DEPTHS, groups):
        alpha, gamma = group[0]
        spec = resolved(replace(base, depth=depth, alpha=alpha, gamma=gamma), model)
        always = _always(group, said) if row.tuned else ""
        found.setdefault(spec.key, Setting(spec, always, group))
    return list(found.values())


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
