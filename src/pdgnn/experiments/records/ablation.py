"""What each part of a PD-Net recipe is worth: the recipe with one part changed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pdgnn.models import MODELS
from pdgnn.training.spec import RunSpec, resolved

__all__ = ["variants"]

AGGREGATIONS = {
    "gcn": "GCN's normalised adjacency for P",
    "sage": "the neighbours' mean (SAGE) for P",
    "gat": "attention (GAT) for P",
}


def variants(recipe: RunSpec) -> dict[str, RunSpec]:
    """The recipe and its variants by what is changed; the tuned one first.

    - P^(α,γ) replaced by GCN's adjacency, SAGE's mean, GAT's attention;
    - rounds: the same layers with weights of their own for each round, and one round alone; of a
      recipe with one round, two;
    - the embedded features seen in every round, or only in the first;
    - one scope in the place of several, or a second one beside it;
    - without the path from a node to itself;
    - LayerNorm, no norm, and the other kind of statistics in evaluation.
    """
    said: dict[str, Any] = dict(recipe.options)
    rounds, inject, norm = int(said["rounds"]), bool(said["inject"]), str(said["norm"])
    found = {"as tuned": recipe}
    for aggregation, label in AGGREGATIONS.items():
        found[label] = _with(recipe, aggregation=aggregation, scopes="")
    if rounds > 1:
        unrolled = replace(recipe, depth=recipe.depth * rounds)
        found["own weights for each round"] = _with(unrolled, rounds=1)
        found["one round"] = _with(recipe, rounds=1)
    else:
        found["two rounds"] = _with(recipe, rounds=2)
    found["features in the first round only" if inject else "features in every round"] = _with(
        recipe, inject=not inject
    )
    if said["scopes"]:
        found["one scope"] = _with(recipe, scopes="")
    else:
        other = "0,1" if (recipe.alpha, recipe.gamma) == (1.0, 1.0) else "1,1"
        found[f"the scope ({other.replace(',', ', ')}) beside it"] = _with(recipe, scopes=other)
    found["no path to itself"] = _with(recipe, self_path=False)
    for other in ("batch", "layer", "none"):
        if other != norm:
            label = {"batch": "BatchNorm", "layer": "LayerNorm", "none": "no norm"}[other]
            found[label] = _with(recipe, norm=other, running=False)
    if norm == "batch":
        label = "the graph's statistics" if said["running"] else "running statistics"
        found[f"{label} in evaluation"] = _with(recipe, running=not said["running"])
    return found


def _with(recipe: RunSpec, **options: Any) -> RunSpec:
    changed = replace(recipe, options={**recipe.options, **options})
    return resolved(changed, MODELS[recipe.model])
