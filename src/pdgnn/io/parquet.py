"""Tables as Parquet; of an edge list only its own columns are read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pdgnn.errors import InputError
from pdgnn.io.raw import RawGraph, brief, check_size
from pdgnn.io.table import choose_columns, graph_from_table, without_index

__all__ = ["edge_rows", "named_rows", "read_parquet"]

# A text that is stored once may stand in every row: text is therefore unpacked in small steps.
ROWS, TEXT_ROWS = 1 << 16, 1 << 8


def read_parquet(path: Path, max_bytes: int) -> RawGraph:
    """Read an edge list whose columns are chosen as :mod:`pdgnn.io.table` says."""
    return graph_from_table(*edge_rows(path, max_bytes))


def edge_rows(path: Path, max_bytes: int) -> tuple[Any, list[str]]:
    """The columns of an edge list as a `pyarrow.Table`, and their names."""
    with _opened(path) as file:
        names = without_index(file.schema_arrow.names)
        chosen = [names[i] for i in choose_columns(names) if i is not None]
        if len(set(chosen)) < len(chosen):
            raise InputError(f"two columns have the same name ({', '.join(names)})")
        return _read(file, chosen, max_bytes), chosen


def named_rows(path: Path, max_bytes: int, choose: Callable[[Any], list[str]]) -> Any:
    """The columns that `choose` takes of the schema, as a `pyarrow.Table`.

    Categories (dictionaries) come as text.
    """
    import pyarrow as pa

    with _opened(path) as file:
        schema = file.schema_arrow
        table = _read(file, choose(schema), max_bytes)
    for i, name in enumerate(table.column_names):
        if pa.types.is_dictionary(schema.field(name).type):
            table = table.set_column(i, name, table.column(i).cast(pa.large_string()))
    return table


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """The `pyarrow.parquet.ParquetFile`, and one line for whatever is wrong with its bytes."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            yield file
    except (pa.ArrowException, OSError, UnicodeDecodeError) as e:
        raise InputError(
            f"not a whole Parquet file; it was cut short or is not Parquet ({brief(e)})"
        ) from e


def _read(file: Any, columns: list[str], max_bytes: int) -> Any:
    """The columns as a `pyarrow.Table` without dictionaries, read no further than the limit."""
    import pyarrow as pa

    check_size(_stated(file.metadata, columns), max_bytes)
    schema = file.schema_arrow
    flat = all(pa.types.is_primitive(schema.field(name).type) for name in columns)
    batches, size = [], 0
    for batch in file.iter_batches(ROWS if flat else TEXT_ROWS, columns=columns):
        arrays = [_decoded(batch.column(name)) for name in columns]
        size += sum(max(array.nbytes, 8 * len(array)) for array in arrays)
        check_size(size, max_bytes)
        batches.append(pa.RecordBatch.from_arrays(arrays, columns))
    return pa.Table.from_batches(batches) if batches else schema.empty_table().select(columns)


def _stated(metadata: Any, columns: list[str]) -> int:
    """What the columns take according to the file, a value counting 8 bytes."""
    groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
    chunks = [group.column(j) for group in groups for j in range(group.num_columns)]
    unpacked = sum(c.total_uncompressed_size for c in chunks if c.path_in_schema in columns)
    return int(max(unpacked, 8 * len(columns) * metadata.num_rows))


def _decoded(array: Any) -> Any:
    import pyarrow as pa

    return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array
