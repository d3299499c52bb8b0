"""The text of a LightGBM model, checked before LightGBM sees it, and less than half as long.

LightGBM trusts its model files: a text that was cut or changed ends the process, or makes it read
memory that is not its own. So a text is taken apart here, every tree in it is checked to be one,
and what prediction needs is written anew. A text that was written so comes out the same.
"""

from __future__ import annotations

import math
import re
from typing import NoReturn

from pdgnn.errors import InputError

__all__ = ["checked_text"]

_WHOLE = re.compile(r"-?\d{1,9}")
_REAL = re.compile(r"-?\d{1,20}(\.\d{0,30})?(e[-+]?\d{1,3})?")
_NODES = ("split_feature", "threshold", "decision_type", "left_child", "right_child")
_NUMERICAL = {"0", "2", "4", "6", "8", "10"}
"""Kinds of decisions on numbers, by where a missing one goes; the odd ones are on categories."""


def checked_text(text: str, num_features: int, num_classes: int) -> str:
    """`text`, less what prediction does not need; an error if it is not such a model.

    Args:
        text: Of ``Booster.model_to_string()``, or of this function.
        num_features: Columns of the table.
        num_classes: At least 2, by one tree a round; more by one each.
    """
    outputs = 1 if num_classes == 2 else num_classes
    head, *blocks = re.split(r"^Tree=\d+$", text.partition("\nend of trees")[0], flags=re.MULTILINE)
    told = _fields(head)
    features = f"{_whole(told, 'max_feature_idx') + 1}"
    if (features, told.get("num_class")) != (str(num_features), str(outputs)):
        raise InputError(
            f"the boosted trees are of {features} features and {told.get('num_class')} outputs, "
            f"and the model of {num_features} and {outputs}; fit the model anew"
        )
    if "end of trees" not in text or not blocks or len(blocks) % outputs:
        _refuse("they end too early")
    trees = [_tree(i, _fields(block), num_features) for i, block in enumerate(blocks)]
    return "\n".join([*_head(num_features, outputs, trees), "", *trees, "end of trees\n"])


def _head(num_features: int, outputs: int, trees: list[str]) -> list[str]:
    objective = "binary sigmoid:1" if outputs == 1 else f"multiclass num_class:{outputs}"
    return [
        "tree",
        "version=v4",
        f"num_class={outputs}",
        f"num_tree_per_iteration={outputs}",
        "label_index=0",
        f"max_feature_idx={num_features - 1}",
        f"objective={objective}",
        "feature_names=" + " ".join(f"Column_{i}" for i in range(num_features)),
        "feature_infos=" + " ".join(["[0:1]"] * num_features),
        "tree_sizes=" + " ".join(str(len(tree) + 1) for tree in trees),
    ]


def _tree(place: int, told: dict[str, str], num_features: int) -> str:
    """One tree, checked: every inner node and every leaf is the child of one node before it."""
    leaves = _whole(told, "num_leaves")
    if leaves < 1 or told.get("num_cat") != "0" or told.get("is_linear", "0") != "0":
        _refuse(f"tree {place} is of another kind")
    cells = {name: told.get(name, "").split() for name in (*_NODES, "leaf_value")}
    if any(len(cells[name]) != leaves - 1 for name in _NODES) or len(cells["leaf_value"]) != leaves:
        _refuse(f"tree {place} lacks nodes")
    for name in ("split_feature", "left_child", "right_child"):
        if not all(_WHOLE.fullmatch(cell) for cell in cells[name]):
            _refuse(f"tree {place} has a {name} that is no whole number")
    for name in ("threshold", "leaf_value"):
        if not all(_REAL.fullmatch(cell) and math.isfinite(float(cell)) for cell in cells[name]):
            _refuse(f"tree {place} has a {name} that is no number")
    if not set(cells["decision_type"]) <= _NUMERICAL:
        _refuse(f"tree {place} decides on categories")
    if not all(0 <= int(cell) < num_features for cell in cells["split_feature"]):
        _refuse(f"tree {place} asks for a feature that is not there")
    pairs = list(zip(cells["left_child"], cells["right_child"], strict=True))
    children = [(node, int(cell)) for node, pair in enumerate(pairs) for cell in pair]
    wanted = [*range(-leaves, 0), *range(1, leaves - 1)] if leaves > 1 else []
    if sorted(c for _, c in children) != wanted or any(0 <= c <= node for node, c in children):
        _refuse(f"tree {place} is not a tree")
    lines = [f"{name}={' '.join(found)}" for name, found in cells.items()]
    kept = [f"Tree={place}", f"num_leaves={leaves}", "num_cat=0", *lines, "is_linear=0"]
    return "\n".join([*kept, "shrinkage=1", "", ""])


def _fields(block: str) -> dict[str, str]:
    pairs = (line.partition("=") for line in block.splitlines())
    return {name: value for name, equals, value in pairs if equals}


def _whole(told: dict[str, str], name: str) -> int:
    if not _WHOLE.fullmatch(told.get(name, "")):
        _refuse(f"they lack {name}")
    return int(told[name])


def _refuse(why: str) -> NoReturn:
    raise InputError(f"the boosted trees cannot be read: {why}; fit the model anew")
