from __future__ import annotations

import lightgbm as lgb
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdgnn.errors import InputError
from pdgnn.estimator.tree_text import checked_text

X = np.random.default_rng(0).standard_normal((90, 4)).astype(np.float32)


def booster(classes: int, rows: int = 90) -> lgb.Booster:
    y = np.argsort(np.argsort(X[:rows, 0] + X[:rows, 1])) * classes // rows
    params = {"objective": "binary" if classes == 2 else "multiclass", "min_child_samples": 5}
    params |= {"num_class": 1 if classes == 2 else classes, "verbosity": -1, "num_threads": 1}
    return lgb.train(params, lgb.Dataset(X[:rows], y), 4)


TEXT = booster(3).model_to_string()
SHORT = checked_text(TEXT, 4, 3)


@pytest.mark.parametrize(("classes", "rows"), [(2, 90), (3, 90), (2, 4)])
def test_predicts_the_same_to_the_last_bit(classes, rows):
    b = booster(classes, rows)
    text = checked_text(b.model_to_string(), 4, classes)
    read = lgb.Booster(model_str=text)
    assert (read.predict(X) == b.predict(X)).all()
    assert read.num_trees() == b.num_trees()
    assert len(text) < 0.6 * len(b.model_to_string())


def test_twice_is_once():
    assert checked_text(SHORT, 4, 3) == SHORT


def first_of(name: str, value: str) -> str:
    """The text with `value` as the first entry of the first line called `name`."""
    before, line, rest = SHORT.partition(f"\n{name}=")
    return before + line + value + rest[rest.index(" ") :]


TAMPERED = {
    "nothing": "",
    "something else": '{"a": 1}',
    "no trees": SHORT[: SHORT.index("Tree=0")] + "\nend of trees\n",
    "no end": SHORT.replace("end of trees", ""),
    "cut": SHORT[: len(SHORT) // 2],
    "a round cut": SHORT[: SHORT.index("Tree=10")] + "\nend of trees\n",
    "a word": first_of("left_child", "x"),
    "an underscore": first_of("right_child", "1_0"),
    "a feature too many": first_of("split_feature", "4"),
    "a negative feature": first_of("split_feature", "-1"),
    "a leaf too far": first_of("left_child", "-99"),
    "a node too far": first_of("left_child", "77"),
    "a circle": first_of("left_child", "0"),
    "nan": first_of("threshold", "nan"),
    "inf": first_of("leaf_value", "1e999"),
    "a category": first_of("decision_type", "1"),
    "categories": SHORT.replace("num_cat=0", "num_cat=1", 1),
    "a linear tree": SHORT.replace("is_linear=0", "is_linear=1", 1),
    "more leaves": SHORT.replace("num_leaves=", "num_leaves=1", 1),
    "no leaves": SHORT.replace("num_leaves=", "num_leaves=-", 1),
}


@pytest.mark.parametrize("how", list(TAMPERED))
def test_a_text_that_was_changed_is_an_error(how):
    assert TAMPERED[how] != SHORT
    with pytest.raises(InputError, match="fit the model anew") as caught:
        checked_text(TAMPERED[how], 4, 3)
    assert "\n" not in str(caught.value)


def test_another_model_is_an_error():
    with pytest.raises(InputError, match="of 4 features and 3 outputs, and the model of 5 and 3"):
        checked_text(TEXT, 5, 3)
    with pytest.raises(InputError, match="of 4 features and 3 outputs, and the model of 4 and 1"):
        checked_text(TEXT, 4, 2)


@given(st.integers(0, len(SHORT) - 1), st.characters(max_codepoint=300))
def test_one_character_at_random_is_an_error_or_harmless(place, character):
    changed = SHORT[:place] + character + SHORT[place + 1 :]
    try:
        text = checked_text(changed, 4, 3)
    except InputError:
        return
    read = lgb.Booster(model_str=text)
    assert np.isfinite(read.predict(X)).all()
