"""The labels of nodes, and which of them are for training, validation and test."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pdgnn.errors import InputError, check_whole
from pdgnn.io.kinds import decoded, plain_column, shown
from pdgnn.io.npz import SPLITS
from pdgnn.io.table import TEXT, as_integers, is_integer_text, trimmed

__all__ = [
    "check_labels",
    "labels_of_codes",
    "labels_of_column",
    "split_of_column",
    "split_of_masks",
]

MOST_CLASSES = 1000
PLAIN_CODE = r"^[0-9]+$"


def labels_of_column(column: Any, name: str) -> NDArray[np.object_]:
    """Text, truth values or integers as they are in the column; None where there is none."""
    import pyarrow as pa
    import pyarrow.compute as pc

    column = decoded(column)
    if str(column.type) in TEXT:
        text = trimmed(column)
        text = pc.if_else(pc.equal(text, ""), None, text)
        held = text.drop_null()
        if len(held) and is_integer_text(held) and as_integers(held) is not None:
            return _objects(as_integers(text))
        if pc.all(pc.match_substring_regex(held, PLAIN_CODE)).as_py():
            return _objects(text)
        column = plain_column(text)
    if str(column.type) in TEXT or any(
        test(column.type) for test in (pa.types.is_boolean, pa.types.is_integer)
    ):
        return _objects(column)
    if not (pa.types.is_floating(column.type) or pa.types.is_null(column.type)):
        raise InputError(f"the label column {name!r} holds {column.type}; {LABELS}")
    return _whole(plain_column(column), name)


LABELS = "labels are text, true and false, or whole numbers"


def _whole(numbers: Any, name: str) -> NDArray[np.object_]:
    """Integers of a float64 column, None where it is null."""
    import pyarrow as pa
    import pyarrow.compute as pc

    try:
        return _objects(numbers.cast(pa.int64()))
    except pa.ArrowInvalid as e:
        held = numbers.drop_null()
        wrong = held.filter(
            pc.or_(pc.not_equal(held, pc.floor(held)), pc.greater(pc.abs(held), 1e15))
        )
        raise InputError(
            f"the label column {name!r} holds numbers such as {shown(wrong.to_pylist()[:1])}; "
            f"this is a classifier, and {LABELS}"
        ) from e


def _objects(column: Any) -> NDArray[np.object_]:
    labels = np.empty(len(column), dtype=object)
    labels[:] = column.to_pylist()
    return labels


def labels_of_codes(codes: NDArray[np.int64]) -> NDArray[np.object_]:
    """The labels of integers, of which −1 is none.

    >>> labels_of_codes(np.array([2, -1])).tolist()
    [2, None]
    """
    labels = np.empty(len(codes), dtype=object)
    labels[:] = [None if code == -1 else code for code in codes.tolist()]
    return labels


def split_of_column(column: Any) -> NDArray[np.int8]:
    """0, 1 and 2 for train, val and test, and −1 where there is nothing."""
    import pyarrow as pa
    import pyarrow.compute as pc

    column = decoded(column)
    if str(column.type) not in TEXT and not pa.types.is_null(column.type):
        raise InputError(f"the column 'split' holds {column.type}; {PARTS_ARE}")
    text = trimmed(column)
    part = pc.index_in(text, value_set=pa.array(SPLITS, text.type))
    empty = pc.equal(pc.fill_null(text, ""), "")
    wrong = pc.and_(pc.is_null(part), pc.invert(empty))
    row = int(pc.index(wrong, value=True).as_py())
    if row >= 0:
        raise InputError(f"split is {shown([text[row].as_py()])} in row {row + 1}; {PARTS_ARE}")
    return np.asarray(pc.fill_null(part, -1).to_numpy()).astype(np.int8)


PARTS_ARE = "it may be train, val, test or empty"


def split_of_masks(masks: Mapping[str, NDArray[np.bool_]], split: int) -> NDArray[np.int8]:
    """The same of masks ``[S, N]`` by part, of which number `split` is taken."""
    stored = min(len(mask) for mask in masks.values())
    if check_whole("split", split, 0) >= stored:
        raise InputError(f"there is no split {split}; splits are 0 to {stored - 1}")
    chosen = {part: mask[split] for part, mask in masks.items()}
    both = np.sum(list(chosen.values()), axis=0) > 1  # [N]
    if both.any():
        nodes = np.flatnonzero(both)
        raise InputError(
            f"the parts of split {split} overlap: {nodes.size:,} nodes are in more than one, "
            f"such as {shown(nodes[:3].tolist())}; a node is in train, val or test alone"
        )
    parts = np.full(both.size, -1, dtype=np.int8)
    for code, part in enumerate(SPLITS):
        if part in chosen:
            parts[chosen[part]] = code
    return parts


def check_labels(labels: NDArray[np.object_], split: NDArray[np.int8] | None) -> None:
    """An error if these labels cannot train a classifier.

    Without a split every class needs two nodes, one to learn from and one to validate on.
    """
    known = np.array([label is not None for label in labels], dtype=bool)
    part = "" if split is None else " of the split's train part"
    counts = Counter(labels[known if split is None else known & (split == 0)].tolist())
    if not counts:
        raise InputError(f"no node{part} has a label; give some nodes one to learn from")
    if len(counts) == 1:
        raise InputError(
            f"all labels{part} are of one class, {shown(counts)}; give nodes of at least two"
        )
    if len(counts) > MOST_CLASSES:
        raise InputError(
            f"there are {len(counts):,} different labels; at most {MOST_CLASSES:,} are learnt"
        )
    once = [label for label, count in counts.items() if count == 1]
    if once and split is None:
        many = "1 label occurs" if len(once) == 1 else f"{len(once):,} labels occur"
        raise InputError(
            f"{many} once only: {shown(once)}; each needs two nodes, for training and validation: "
            "label more, leave these out, or give a column 'split'"
        )
