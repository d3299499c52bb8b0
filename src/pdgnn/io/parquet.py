"""Edge lists as Parquet; only the columns of the edge list are read."""

from __future__ import annotations

from pathlib import Path

from pdgnn.errors import InputError
from pdgnn.io.raw import RawGraph, brief
from pdgnn.io.table import choose_columns, graph_from_table

__all__ = ["read_parquet"]


def read_parquet(path: Path) -> RawGraph:
    """Read an edge list whose columns are chosen as :mod:`pdgnn.io.table` says."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            names = file.schema_arrow.names
            chosen = [names[i] for i in choose_columns(names) if i is not None]
            if len(set(chosen)) < len(chosen):
                raise InputError(f"two columns have the same name ({', '.join(names)})")
            table = file.read(columns=chosen)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as e:
        raise InputError(
            f"not a whole Parquet file; it was cut short or is not Parquet ({brief(e)})"
        ) from e
    return graph_from_table(table.select(chosen), chosen)
