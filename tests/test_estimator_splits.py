"""Who trains, who stops, who judges, and who is held out."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdgnn import InputError
from pdgnn.estimator.splits import FEW, MANY, dealt, rounds


def labels(n: int, classes: int, unlabelled: float, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    y = rng.integers(0, classes, size=n)
    y[rng.random(n) < unlabelled] = -1
    y[: 2 * classes] = np.repeat(np.arange(classes), 2)  # at least two of each
    return y


@given(st.integers(20, 1500), st.integers(2, 6), st.floats(0, 0.8), st.integers(0, 5))
def test_every_round_keeps_its_parts_apart(n, classes, unlabelled, seed):
    y = labels(n, classes, unlabelled, seed)
    found = rounds(y, None, seed)
    for one in found:
        train, stop, judge = one.masks.transpose(1, 0, 2)
        assert not (train & (stop | judge)).any()
        assert not (one.masks.any(axis=(0, 1)) & one.held_out).any()
        assert (y[one.masks.any(axis=(0, 1)) | one.held_out] >= 0).all()
        assert one.masks.any(axis=2).all()
        used = one.masks.any(axis=(0, 1)) | one.held_out
        assert used.tolist() == (y >= 0).tolist()
    held = np.sum([one.held_out for one in found], axis=0)
    if (y >= 0).sum() < FEW:
        assert held.tolist() == (y >= 0).astype(int).tolist()
        assert not found[-1].held_out.any()
        judged = found[-1].masks[:, 2].sum(axis=0)
        assert judged.tolist() == (y >= 0).astype(int).tolist()
    else:
        assert len(found) == 1
        assert abs(held.sum() - 0.2 * (y >= 0).sum()) <= 1


def test_the_same_seed_deals_the_same():
    y = labels(300, 3, 0.2, 0)
    for a, b in zip(rounds(y, None, 4), rounds(y, None, 4), strict=True):
        np.testing.assert_array_equal(a.masks, b.masks)
    assert (rounds(y, None, 4)[0].held_out != rounds(y, None, 5)[0].held_out).any()


def test_classes_are_dealt_evenly():
    y = np.repeat([0, 1, 2], [100, 50, 10])
    part = dealt(y, y >= 0, 5, seed=1)
    for c, size in ((0, 20), (1, 10), (2, 2)):
        assert np.bincount(part[y == c]).tolist() == [size] * 5


def given_split(n: int, train: int, val: int, test: int) -> np.ndarray:
    return np.repeat(np.array([0, 1, 2, -1], np.int8), [train, val, test, n - train - val - test])


def test_a_given_split_is_kept_to():
    y = labels(100, 3, 0.0, 1)
    split = given_split(100, 50, 20, 20)
    (one,) = rounds(y, split, 0)
    assert one.held_out.tolist() == (split == 2).tolist()
    assert (one.masks[:, 0] == (split == 0)).all()
    assert (one.masks[:, 1] | one.masks[:, 2] == (split == 1)).all()
    assert not (one.masks[:, 1] & one.masks[:, 2]).any()  # few: halves take turns
    assert (one.masks[0, 1] == one.masks[1, 2]).all()


def test_many_validation_nodes_both_stop_and_judge():
    y = labels(3 * MANY, 3, 0.0, 1)
    (one,) = rounds(y, given_split(3 * MANY, MANY, MANY, MANY), 0)
    assert one.masks.shape[0] == 1
    assert (one.masks[0, 1] == one.masks[0, 2]).all()


@pytest.mark.parametrize("parts", [(60, 0, 20), (60, 20, 0), (60, 0, 0)])
def test_what_a_split_lacks_is_dealt_from_its_training_nodes(parts):
    y = labels(100, 3, 0.0, 1)
    split = given_split(100, *parts)
    (one,) = rounds(y, split, 0)
    train, stop, judge = one.masks.any(axis=0)
    for mask in (train, stop, judge, one.held_out):
        assert mask.any()
        assert not (mask & (split == -1)).any()


def test_what_cannot_be_split_is_refused():
    y = labels(100, 3, 0.0, 1)
    with pytest.raises(InputError, match="training"):
        rounds(y, given_split(100, 0, 50, 50), 0)
    alone = np.array([0] * 20 + [1])
    with pytest.raises(InputError, match="single labelled node"):
        rounds(alone, None, 0)
    with pytest.raises(InputError, match="4 labelled nodes are too few"):
        rounds(np.array([0, 0, 1, 1, -1]), None, 0)
