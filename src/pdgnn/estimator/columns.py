"""Turning feature columns into numbers on one scale, as learnt from the table that was fitted.

- Numbers, and truth values as 0 and 1. A column of which at least half is 0 stays sparse: it is
  divided by its largest absolute value where that is above 1. Any other becomes (v − mean) / std,
  and a constant one 0.
- Categories are one-hot, in the order of their names; one that was not there when the encoder was
  fitted is all zeros, and so is a missing one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from pdgnn.errors import InputError
from pdgnn.graph import Graph
from pdgnn.io.kinds import among_numbers, shown
from pdgnn.spectrum import eigenpairs

__all__ = ["MOST_CATEGORIES", "ColumnEncoder", "structural_features"]

MOST_CATEGORIES = 50
"""A text column with more different values is refused: it is text, not a category."""
SMALLEST_STD = 1e-290
TRUTH = ("false", "true")


@dataclass(frozen=True)
class NumberColumn:
    """A column v that becomes (v − center) / scale, or 0 where scale is 0; `fill` if missing."""

    name: str
    center: float
    scale: float
    fill: float | None = None

    @property
    def names(self) -> list[str]:
        """The names of its columns in the matrix."""
        return [self.name]


@dataclass(frozen=True)
class CategoryColumn:
    """A column that becomes one column of 0 and 1 for each of `categories`."""

    name: str
    categories: tuple[str, ...]

    @property
    def names(self) -> list[str]:
        """The names of its columns in the matrix."""
        return [f"{self.name}={category}" for category in self.categories]


class ColumnEncoder:
    """Turns the features of a :class:`~pdgnn.io.nodes.NodeTable` into a float32 matrix.

    They are a `pyarrow.Table`, whose columns are then found by name, or a matrix ``[N, F]``, whose
    columns are called x0, x1, ... After :meth:`transform`, `unseen_` counts the values of each
    column of categories that were not there when the encoder was fitted.

    >>> import pyarrow as pa
    >>> table = pa.table({"age": [20.0, 30.0, 40.0, 30.0], "team": ["b", "a", None, "a"]})
    >>> encoder = ColumnEncoder().fit(table)
    >>> encoder.names, encoder.transform(table)[:2].astype(float).round(2).tolist()
    (['age', 'team=a', 'team=b'], [[-1.41, 0.0, 1.0], [0.0, 1.0, 0.0]])
    """

    def __init__(self) -> None:
        self.columns: list[NumberColumn | CategoryColumn] = []
        self.is_matrix = False
        self.unseen_: dict[str, int] = {}

    @property
    def names(self) -> list[str]:
        """The names of the columns of the matrix that :meth:`transform` gives."""
        return [name for column in self.columns for name in column.names]

    def fit(self, features: Any, *, impute: str | None = None) -> Self:
        """Learn scales and categories.

        A missing number is an error; with ``impute="median"`` it becomes the column's median, then
        and whenever the encoder is used.
        """
        if impute not in (None, "median"):
            raise InputError(f'impute must be "median" or None, not {impute!r}')
        is_matrix = isinstance(features, np.ndarray)
        given = list(_columns(features))
        categories = {name for name, values in given if _is_category(values)}
        numbers = [(name, values) for name, values in given if name not in categories]
        _check_finite(numbers)
        if impute is None:
            _check_complete(numbers, REMEDY)
        self.columns = [
            _fitted_category(name, values)
            if name in categories
            else _fitted_number(name, _numbers(values, name), impute)
            for name, values in given
        ]
        self.is_matrix, self.unseen_ = is_matrix, {}
        return self

    def transform(self, features: Any) -> NDArray[np.float32]:
        """The matrix ``[N, F]``; a missing or an extra column is an error that names it."""
        given = self._in_order(features)
        rows = len(next(iter(given.values())))
        out = np.zeros((rows, len(self.names)), dtype=np.float32)
        self.unseen_, start = {}, 0
        self._check_numbers(given)
        for column in self.columns:
            values, width = given[column.name], len(column.names)
            block = out[:, start : start + width]
            if isinstance(column, NumberColumn):
                block[:, 0] = _scaled(_numbers(values, column.name), column)
            else:
                self.unseen_[column.name] = _one_hot(values, column, block)
            start += width
        return out

    def _in_order(self, features: Any) -> dict[str, Any]:
        """The columns by name, which must be those that were fitted."""
        if not self.columns:
            raise InputError("this encoder is not fitted; call fit first")
        if isinstance(features, np.ndarray) != self.is_matrix:
            was = f"a matrix of {len(self.columns)} columns" if self.is_matrix else "named columns"
            raise InputError(f"the model was fitted on {was}; give the same kind of features")
        given = dict(_columns(features))
        if self.is_matrix and len(given) != len(self.columns):
            raise InputError(
                f"X has {len(given)} features, but PDClassifier is expecting "
                f"{len(self.columns)} features as input"
            )
        known = [column.name for column in self.columns]
        for names, others, harm in (
            (known, set(given), "missing; the model was fitted with"),
            (given, set(known), "new; the model was fitted without"),
        ):
            wrong = [name for name in names if name not in others]
            if wrong:
                raise InputError(f"column {shown(wrong)} is {harm} it: give the same columns")
        return given

    def _check_numbers(self, given: dict[str, Any]) -> None:
        columns = [c for c in self.columns if isinstance(c, NumberColumn)]
        _check_finite([(c.name, given[c.name]) for c in columns])
        unfilled = [(c.name, given[c.name]) for c in columns if c.fill is None]
        _check_complete(unfilled, f"fill them in, or fit again with {IMPUTE}")

    def to_dict(self) -> dict[str, Any]:
        """The state as plain values for JSON."""
        return {
            "form": "matrix" if self.is_matrix else "table",
            "columns": [
                {"name": c.name, "categories": list(c.categories)}
                if isinstance(c, CategoryColumn)
                else {"name": c.name, "center": c.center, "scale": c.scale, "fill": c.fill}
                for c in self.columns
            ],
        }

    @classmethod
    def from_dict(cls, state: Any) -> Self:
        """The encoder of :meth:`to_dict`; whatever is wrong with `state` is an error."""
        if not isinstance(state, dict) or set(state) != {"form", "columns"}:
            raise _damaged("it needs form and columns")
        if state["form"] not in ("matrix", "table"):
            raise _damaged("its form is unknown")
        if not isinstance(state["columns"], list) or not state["columns"]:
            raise _damaged("it has no columns")
        encoder = cls()
        encoder.columns = [_restored(column) for column in state["columns"]]
        encoder.is_matrix = state["form"] == "matrix"
        names = [column.name for column in encoder.columns]
        if len(set(names)) < len(names):
            raise _damaged("two columns have the same name")
        if encoder.is_matrix and names != [f"x{i}" for i in range(len(names))]:
            raise _damaged("the columns of a matrix are out of order")
        return encoder


IMPUTE = 'impute="median" (--impute median)'
REMEDY = f"{IMPUTE} fills them, or drop the columns"


def _columns(features: Any) -> Iterator[tuple[str, Any]]:
    """The names and values of a table's or a matrix's columns."""
    if features is None:
        raise InputError("there are no features; give the columns that the model was fitted with")
    if isinstance(features, np.ndarray):
        if features.ndim != 2 or 0 in features.shape:
            raise InputError(f"features have shape {features.shape}, expected [N, F]")
        yield from ((f"x{i}", features[:, i]) for i in range(features.shape[1]))
    else:
        yield from zip(features.column_names, features.columns, strict=True)


def _is_category(values: Any) -> bool:
    return not isinstance(values, np.ndarray) and _is_text(values) and not _is_truth(values)


def _is_text(values: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_large_string(values.type) or pa.types.is_string(values.type))


def _is_truth(text: Any) -> bool:
    """Whether a text column holds true and false alone, in upper or lower case."""
    import pyarrow as pa
    import pyarrow.compute as pc

    wanted = pa.array(TRUTH, text.type)
    parts = (text.slice(0, 100).drop_null(), text.slice(100).drop_null())
    return all(pc.all(pc.is_in(pc.utf8_lower(p), wanted), min_count=0).as_py() for p in parts)


def _numbers(values: Any, name: str) -> NDArray[np.float64]:
    """float64 ``[N]``, nan where a value is missing."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if isinstance(values, np.ndarray):
        return values.astype(np.float64)
    if _is_text(values):
        if not _is_truth(values):
            lower = pc.utf8_lower(values)
            odd = values.filter(pc.invert(pc.is_in(lower, pa.array(TRUTH, lower.type))))
            raise InputError(
                f"column {shown([name])} held numbers when the model was fitted, and holds "
                f"{shown(odd.slice(0, 1).to_pylist())} now; give numbers"
            )
        values = pc.equal(pc.utf8_lower(values), "true")
    return np.asarray(pc.fill_null(values.cast(pa.float64()), math.nan).to_numpy())


def _check_finite(columns: Sequence[tuple[str, Any]]) -> None:
    for name, values in columns:
        if count := int(np.isinf(_numbers(values, name)).sum()):
            raise InputError(
                f"column {shown([name])} holds {count:,} infinite values (inf); "
                "mend them, or drop the column"
            )


def _check_complete(columns: Sequence[tuple[str, Any]], remedy: str) -> None:
    missing = {name: int(np.isnan(_numbers(v, name)).sum()) for name, v in columns}
    found = [f"{count:,} in column {shown([name])}" for name, count in missing.items() if count]
    if found:
        more = f" and more in {len(found) - 3:,} others" if len(found) > 3 else ""
        raise InputError(f"values are missing (NaN): {', '.join(found[:3])}{more}; {remedy}")


def _fitted_number(name: str, values: NDArray[np.float64], impute: str | None) -> NumberColumn:
    fill = None
    if impute is not None:
        held = values[~np.isnan(values)]
        if not held.size:
            raise InputError(f"column {shown([name])} is empty; drop it")
        fill = float(np.median(held / 2)) * 2  # halves, so that no sum overflows
        values = np.where(np.isnan(values), fill, values)
    largest = float(np.abs(values).max())
    if 2 * np.count_nonzero(values) <= values.size:
        return NumberColumn(name, 0.0, max(1.0, largest), fill)
    if values.min() == values.max():
        return NumberColumn(name, float(values[0]), 0.0, fill)
    part = values / largest  # squares of the values themselves may overflow
    std = float(part.std()) * largest
    return NumberColumn(
        name, float(part.mean()) * largest, std if std > SMALLEST_STD else 0.0, fill
    )


def _fitted_category(name: str, values: Any) -> CategoryColumn:
    categories = values.unique().drop_null()
    if len(categories) > MOST_CATEGORIES or len(categories) > max(2, len(values) // 2):
        if odd := among_numbers(categories.to_pylist()):
            raise InputError(
                f"column {shown([name])} holds numbers and text such as {shown(odd, 1)}; "
                "empty what is no number, or drop the column (drop=, --drop)"
            )
        raise InputError(
            f"column {shown([name])} is text with {len(categories):,} different values, too many "
            f"for a category (at most {MOST_CATEGORIES}, and half of the rows); "
            "turn it into numbers, or drop it (drop=, --drop)"
        )
    return CategoryColumn(name, tuple(sorted(categories.to_pylist())))


def _scaled(values: NDArray[np.float64], column: NumberColumn) -> NDArray[np.float64]:
    if column.scale == 0:
        return np.zeros_like(values)
    if column.fill is not None:
        values = np.where(np.isnan(values), column.fill, values)
    with np.errstate(over="ignore"):
        scaled = (values / 2 - column.center / 2) / (column.scale / 2)
    return np.clip(scaled, -1e30, 1e30)  # a number of float32 that can still be squared or so


def _one_hot(values: Any, column: CategoryColumn, out: NDArray[np.float32]) -> int:
    """Set the ones of `out` ``[N, C]``; how many values are none of the categories."""
    import pyarrow as pa
    import pyarrow.compute as pc

    text = _as_text(values)
    codes = pc.index_in(text, value_set=pa.array(column.categories, pa.large_string()))
    known = np.asarray(pc.is_valid(codes))
    out[known, np.asarray(codes.drop_null())] = 1.0
    return int(len(text) - text.null_count - known.sum())


def _as_text(values: Any) -> Any:
    """Values as they are written, for a table whose categories all happen to look like numbers."""
    import pyarrow as pa

    if pa.types.is_floating(values.type):
        numbers = values.to_pylist()
        written = [
            None if v is None else f"{v:.0f}" if v.is_integer() else repr(v) for v in numbers
        ]
        return pa.chunked_array([pa.array(written, pa.large_string())])
    return values.cast(pa.large_string())


def _restored(column: Any) -> NumberColumn | CategoryColumn:
    if not isinstance(column, dict) or not isinstance(column.get("name"), str):
        raise _damaged("a column has no name")
    if set(column) == {"name", "categories"}:
        categories = column["categories"]
        if not isinstance(categories, list) or not all(isinstance(c, str) for c in categories):
            raise _damaged(f"column {shown([column['name']])} has no categories")
        if len(set(categories)) < len(categories) or len(categories) > MOST_CATEGORIES:
            raise _damaged(f"column {shown([column['name']])} has wrong categories")
        return CategoryColumn(column["name"], tuple(categories))
    if set(column) != {"name", "center", "scale", "fill"}:
        raise _damaged(f"column {shown([column['name']])} is of no known kind")
    numbers = [column["center"], column["scale"], column["fill"]]
    numbers[2] = 0.0 if numbers[2] is None else numbers[2]
    if not all(_is_number(number) for number in numbers) or column["scale"] < 0:
        raise _damaged(f"column {shown([column['name']])} has no finite scale")
    fill = None if column["fill"] is None else float(column["fill"])
    return NumberColumn(column["name"], float(column["center"]), float(column["scale"]), fill)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _damaged(harm: str) -> InputError:
    return InputError(f"the preprocessing of the model is damaged ({harm}); fit it again")


def structural_features(graph: Graph, *, k: int = 8) -> NDArray[np.float32]:
    """log(1 + degree) and a spectral embedding, ``[N, 1 + k]``, for a graph without features.

    The embedding is φ^(1)..φ^(k) at (α, γ) = (1, 1) of each connected component, times the factor
    that makes its mean square over the component 1. It is 0 where a component has no k-th one.

    >>> path = Graph.from_edge_index([[0, 1], [1, 2]], num_nodes=4)
    >>> structural_features(path, k=2).astype(float).round(2).tolist()
    [[0.69, 1.22, -1.0], [1.1, 0.0, 1.0], [0.69, -1.22, -1.0], [0.0, 0.0, 0.0]]
    """
    degree = np.log1p(graph.degree)[:, None]  # [N, 1]
    if graph.num_edges == 0:
        return np.hstack([degree, np.zeros((graph.num_nodes, k))]).astype(np.float32)
    phi = eigenpairs(graph, gamma=1.0, k=k).eigenvectors(alpha=1.0)  # [N, k]
    component = graph.components
    sizes = np.bincount(component)
    for j in range(k):
        mean = np.bincount(component, phi[:, j] ** 2) / sizes  # [components]
        factor = np.divide(1, np.sqrt(mean), out=np.zeros_like(mean), where=mean > 0)
        phi[:, j] *= factor[component]
    return np.hstack([degree, phi]).astype(np.float32)
