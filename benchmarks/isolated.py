"""Work in processes of their own that start quickly: forked from one that has the imports done."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection
from typing import Any

from pdgnn.experiments.provenance import Row

START_LIMIT = 300.0
"""Seconds to read the graph and to judge an answer."""
IMPORTS = (
    *(
        "pdgnn",
        "pdgnn.experiments.provenance",
        "torch_geometric.data",
        "torch_geometric.transforms",
    ),
    *("scipy.sparse.linalg", "scipy.spatial", "sklearn.manifold", "pyamg"),
)
Work = Callable[[Connection, Any, Sequence[Any]], None]
"""Sends None when it is ready; then, of every case, None when it returned, and a row."""


def measured(work: Work, what: Any, cases: Sequence[Any], limits: Sequence[float]) -> Iterator[Row]:
    """A row for each of `cases` as soon as it is there, each stopped after its own seconds.

    One process does all of them; where one is stopped or breaks it, another does the rest.
    """
    done = 0
    while done < len(cases):
        with child(work, what, cases[done:]) as (connection, code):
            for row in received(connection, code, limits[done:]):
                done += 1
                yield row


def received(
    connection: Connection, code: Callable[[], int | None], limits: Sequence[float]
) -> Iterator[Row]:
    """The rows that the process sends, the last of which may say why there are no more."""
    try:
        awaited(connection, START_LIMIT)
        for limit in limits:
            try:
                row = awaited(connection, limit)
            except TimeoutError:
                yield {"seconds": None, "limit": limit, "note": f"stopped after {limit:.3g} s"}
                return
            yield awaited(connection, START_LIMIT) if row is None else row
    except (EOFError, TimeoutError) as error:
        note = "did not begin or end in time" if isinstance(error, TimeoutError) else None
        yield {"seconds": None, "note": note or f"ended with exit code {code()}"}


def awaited(connection: Connection, limit: float) -> Any:
    if not connection.poll(limit):
        raise TimeoutError
    return connection.recv()


@contextmanager
def child(
    work: Work, what: Any, cases: Sequence[Any]
) -> Iterator[tuple[Connection, Callable[[], int | None]]]:
    """A process that works; it is ended with the block."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(IMPORTS))
    here, there = context.Pipe(duplex=False)
    process = context.Process(target=work, args=(there, what, cases), daemon=True)
    process.start()
    there.close()

    def code() -> int | None:
        process.join(5)
        return process.exitcode

    try:
        yield here, code
    finally:
        process.kill()
        process.join()
        here.close()
