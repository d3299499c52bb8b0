"""Feature columns as numbers: by hand, against NumPy, and back from JSON."""

from __future__ import annotations

import copy
import json
import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from pdgnn import Graph, InputError
from pdgnn.estimator.columns import ColumnEncoder, structural_features
from pdgnn.laplacian import parameterized_laplacian

TABLE = pa.table(
    {
        "age": pa.array([20.0, 30.0, 40.0, 30.0, 55.0, 1.0]),
        "rare": pa.array([0.0, 0.0, 0.0, 4.0, 0.0, -8.0]),
        "team": pa.array(["b", "a", None, "a", "b", "b"], pa.large_string()),
        "flag": pa.array([True, True, False, True, True, True]),
        "word": pa.array(["True", "false", "TRUE", "true", "true", "true"], pa.large_string()),
        "same": pa.array([7.0] * 6),
        "small": pa.array([0.0, 0.5, 0.0, 0.0, -0.25, 0.0]),
    }
)


def changed(**columns) -> pa.Table:
    table = TABLE
    for name, values in columns.items():
        i = table.column_names.index(name)
        table = table.set_column(i, name, [values])
    return table


def standardised(values: list[float]) -> np.ndarray:
    v = np.array(values, dtype=np.float64)
    return (v - v.mean()) / v.std()


def test_each_kind_of_column_by_hand():
    encoder = ColumnEncoder().fit(TABLE)
    x = encoder.transform(TABLE)
    assert encoder.names == ["age", "rare", "team=a", "team=b", "flag", "word", "same", "small"]
    assert x.dtype == np.float32
    expected = {
        "age": standardised([20, 30, 40, 30, 55, 1]),
        "rare": [0, 0, 0, 0.5, 0, -1],  # by the largest absolute value
        "team=a": [0, 1, 0, 1, 0, 0],
        "team=b": [1, 0, 0, 0, 1, 1],
        "flag": standardised([1, 1, 0, 1, 1, 1]),
        "word": standardised([1, 0, 1, 1, 1, 1]),
        "same": [0] * 6,
        "small": [0, 0.5, 0, 0, -0.25, 0],  # as it is
    }
    np.testing.assert_allclose(x, np.stack(list(expected.values()), axis=1), rtol=1e-6, atol=1e-7)
    assert encoder.unseen_ == {"team": 0}


def test_new_tables_are_scaled_by_what_was_fitted():
    encoder = ColumnEncoder().fit(TABLE)
    new = changed(team=pa.array(["z", "a", None, "y", "b", "z"]), same=pa.array([1.0] * 6))
    new = new.select(["small", *new.column_names[:-1]]).slice(0, 4)  # another order, fewer rows
    old = encoder.transform(TABLE)[:4]
    x = encoder.transform(new)
    np.testing.assert_array_equal(x[:, :2], old[:, :2])
    assert x[:, 2:4].tolist() == [[0, 0], [1, 0], [0, 0], [0, 0]]
    assert x[:, 6].tolist() == [0] * 4
    assert encoder.unseen_ == {"team": 2}


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (TABLE.drop_columns(["age"]), "column 'age' is missing; the model was fitted with it"),
        (TABLE.append_column("new", [[1.0] * 6]), "column 'new' is new; the model was fitted with"),
        (TABLE.drop_columns(TABLE.column_names[:4]), "'age', 'rare', 'team' and 1 more is missing"),
        (changed(age=pa.array(["x"] * 6)), "'age' held numbers when .*, and holds 'x' now"),
        (changed(age=pa.array([1.0, None] * 3)), "missing .NaN.: 3 in column 'age'; fill them in"),
        (changed(age=pa.array([1.0, math.inf] * 3)), "'age' holds 3 infinite values .inf."),
        (np.zeros((6, 7), np.float32), "fitted on named columns; give the same kind"),
        (None, "was fitted on named|there are no features"),
    ],
)
def test_what_does_not_match_the_fitted_table_is_named(table, message):
    encoder = ColumnEncoder().fit(TABLE)
    with pytest.raises(InputError, match=message) as caught:
        encoder.transform(table)
    assert "\n" not in str(caught.value)


def test_categories_that_look_like_numbers_are_read_as_they_were_fitted():
    codes = pa.table({"code": pa.array(["1", "2", "x", "1", "2.5", "x", "1", "2"])})
    encoder = ColumnEncoder().fit(codes)
    assert encoder.names == ["code=1", "code=2", "code=2.5", "code=x"]
    x = encoder.transform(pa.table({"code": pa.array([2.0, 2.5, None, 9.0])}))
    assert x.argmax(axis=1).tolist() == [1, 2, 0, 0]
    assert x.sum(axis=1).tolist() == [1, 1, 0, 0]
    assert encoder.unseen_ == {"code": 1}


def test_missing_numbers_are_counted_or_filled_with_medians():
    table = pa.table(
        {
            "a": pa.array([1.0, None, 3.0, 8.0]),
            "b": pa.array([None, None, 5.0, 6.0]),
            "c": pa.array([True, None, None, True]),
            "d": pa.array([None, 1.0, 2.0, 3.0]),
            "e": pa.array([1.0, 2.0, 3.0, 4.0]),
        }
    )
    said = (
        r"\(NaN\): 1 in column 'a', 2 in column 'b', 2 in column 'c' and more in 1 others; impute="
    )
    with pytest.raises(InputError, match=said) as caught:
        ColumnEncoder().fit(table)
    assert '"median" (--impute median) fills them' in str(caught.value)
    encoder = ColumnEncoder().fit(table, impute="median")
    x = encoder.transform(table)
    for i, filled in enumerate(([1, 3, 3, 8], [5.5, 5.5, 5, 6])):
        np.testing.assert_allclose(x[:, i], standardised(filled), rtol=1e-6)
    assert x[:, 2].tolist() == [0] * 4  # true is all that is left, a constant
    again = encoder.transform(table.slice(1, 1))
    np.testing.assert_array_equal(again, x[1:2])
    with pytest.raises(InputError, match="column 'n' is empty; drop it"):
        ColumnEncoder().fit(pa.table({"n": pa.nulls(3, pa.float64())}), impute="median")
    with pytest.raises(InputError, match='impute must be "median" or None'):
        ColumnEncoder().fit(table, impute="mean")


def test_text_is_refused_by_name():
    names = [f"person {i}" for i in range(200)]
    for values, count in ((names, "200"), ([n[:9] for n in names] * 2, "100"), (names[:3], "3")):
        with pytest.raises(InputError, match=f"'name' is text with {count} different values"):
            ColumnEncoder().fit(pa.table({"name": values}))
    mixed = [*map(str, range(70)), "unknown", "?"]
    with pytest.raises(InputError, match="'name' holds numbers and text such as 'unknown' and 1 m"):
        ColumnEncoder().fit(pa.table({"name": mixed}))
    with pytest.raises(InputError, match="'name' is text with 70 different"):  # codes
        ColumnEncoder().fit(pa.table({"name": [f"{i:03}" for i in range(70)]}))
    ColumnEncoder().fit(pa.table({"name": names[:50] * 2}))
    ColumnEncoder().fit(pa.table({"name": ["a", "b"]}))


def test_a_matrix_and_its_wrong_forms():
    x = np.array([[0, 5, 1], [0, 7, 2], [3, 9, 3]], dtype=np.float32)
    encoder = ColumnEncoder().fit(x)
    assert encoder.names == ["x0", "x1", "x2"]
    expected = np.stack([[0, 0, 1], standardised([5, 7, 9]), standardised([1, 2, 3])], axis=1)
    np.testing.assert_allclose(encoder.transform(x), expected, rtol=1e-6)
    with pytest.raises(InputError, match="X has 2 features, but PDClassifier is expecting 3 feat"):
        encoder.transform(x[:, :2])
    with pytest.raises(InputError, match="fitted on a matrix of 3 columns"):
        encoder.transform(TABLE)
    with pytest.raises(InputError, match="not fitted"):
        ColumnEncoder().transform(x)
    for wrong in (np.zeros(3), np.zeros((3, 0)), np.zeros((0, 3))):
        with pytest.raises(InputError, match=r"expected \[N, F\]"):
            ColumnEncoder().fit(wrong)
    with pytest.raises(InputError, match="1 in column 'x1'"):
        ColumnEncoder().fit(np.array([[0, np.nan], [1, 2]]))


@given(
    arrays(
        np.float64,
        st.tuples(st.integers(2, 9), st.integers(1, 3)),
        elements=st.floats(-1.7e308, 1.7e308) | st.sampled_from([0.0, 1.0, 5e-324, 1e308]),
    )
)
def test_any_finite_numbers_become_finite_ones_on_one_scale(x):
    encoder = ColumnEncoder().fit(x)
    out = encoder.transform(x)
    assert np.isfinite(out).all()
    zeros = x == 0
    sparse = 2 * (~zeros).sum(axis=0) <= len(x)
    assert (np.abs(out[:, sparse]) <= 1).all()
    assert (out[:, sparse] == 0)[zeros[:, sparse]].all()
    assert (np.abs(out) <= 1.01 * np.sqrt(len(x))).all()  # no value is further off than that
    back = ColumnEncoder.from_dict(json.loads(json.dumps(encoder.to_dict())))
    np.testing.assert_array_equal(back.transform(x), out)


def test_the_state_survives_json():
    encoder = ColumnEncoder().fit(
        changed(age=pa.array([1.0, None, 3.0, 4.0, 9.0, 2.0])), impute="median"
    )
    back = ColumnEncoder.from_dict(json.loads(json.dumps(encoder.to_dict(), allow_nan=False)))
    assert back.names == encoder.names
    new = changed(age=pa.array([None, 1.0, 2.0, 3.0, None, 5.0]))
    np.testing.assert_array_equal(back.transform(new), encoder.transform(new))


@pytest.mark.parametrize(
    "harm",
    [
        lambda s: [],
        lambda s: None,
        lambda s: s.pop("form") and s,
        lambda s: s | {"more": 1},
        lambda s: s | {"form": "cube"},
        lambda s: s | {"form": "matrix"},
        lambda s: s | {"columns": []},
        lambda s: s | {"columns": {"a": 1}},
        lambda s: s | {"columns": [3]},
        lambda s: s | {"columns": [{"name": 3, "categories": []}]},
        lambda s: s | {"columns": [{"name": "a", "categories": [1]}]},
        lambda s: s | {"columns": [{"name": "a", "categories": "ab"}]},
        lambda s: s | {"columns": [{"name": "a", "categories": ["b", "b"]}]},
        lambda s: s | {"columns": [{"name": "a", "categories": [str(i) for i in range(10**4)]}]},
        lambda s: s | {"columns": [*s["columns"], s["columns"][0]]},
        *(
            lambda s, key=key, value=value: s | {"columns": [s["columns"][0] | {key: value}]}
            for key, value in (
                *(("center", v) for v in (None, "1", math.nan, math.inf, True, [1])),
                *(("scale", v) for v in (None, -1.0, math.nan, math.inf)),
                *(("fill", v) for v in ("x", math.nan, True)),
                ("odd", 1),
            )
        ),
    ],
)
def test_a_damaged_state_is_one_line(harm):
    state = harm(copy.deepcopy(ColumnEncoder().fit(TABLE).to_dict()))
    with pytest.raises(InputError, match="the preprocessing of the model is damaged") as caught:
        ColumnEncoder.from_dict(state)
    assert "\n" not in str(caught.value)


def test_structural_features_against_a_dense_computation():
    rng = np.random.default_rng(0)
    a = np.triu(rng.random((9, 9)) < 0.5, 1)
    ends = np.stack(np.nonzero(a))
    ends = np.concatenate([ends, [[9, 10, 11], [10, 11, 12]]], axis=1)  # a path beside it
    g = Graph.from_edge_index(ends, 14)  # and a node without edges
    assert g.num_components == 3
    x = structural_features(g, k=2)
    assert x.shape == (14, 3)
    np.testing.assert_allclose(x[:, 0], np.log1p(g.degree), rtol=1e-6)
    for nodes in (np.arange(9), np.arange(9, 13)):
        lap = parameterized_laplacian(g).toarray()[np.ix_(nodes, nodes)]
        values, vectors = np.linalg.eig(lap)
        for j, i in enumerate(np.argsort(values.real)[1:3]):
            phi = vectors[:, i].real
            phi /= np.sqrt((phi**2).mean())
            found = x[nodes, 1 + j]
            np.testing.assert_allclose(found * np.sign(found @ phi), phi, atol=1e-4)
    assert x[13].tolist() == [0, 0, 0]


def test_structural_features_do_not_depend_on_the_order_of_edges_and_need_none():
    ends = np.array([[0, 1, 2, 3, 4], [1, 2, 3, 4, 5]])
    one, other = (Graph.from_edge_index(e, 6) for e in (ends, ends[::-1, ::-1].copy()))
    np.testing.assert_array_equal(structural_features(one, k=3), structural_features(other, k=3))
    assert (
        structural_features(Graph.from_edge_index(np.zeros((2, 0), int), 3)).tolist()
        == [[0] * 9] * 3
    )
    assert structural_features(Graph.from_edge_index([[0], [1]])).shape == (2, 9)
