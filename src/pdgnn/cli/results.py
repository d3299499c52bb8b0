"""The command ``pdgnn results``: finished runs, listed, exported and brought together."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pdgnn.cli.terminal import show, tell, working, wrapped_errors

if TYPE_CHECKING:
    from pdgnn.training.store import StoredRun

__all__ = ["results_command"]


class Form(StrEnum):
    """What single runs are written as."""

    csv = "csv"
    json = "json"
    parquet = "parquet"


def results_command(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="A results store, a folder of pdgnn train --folder, or an exported .parquet.",
            show_default=False,
        ),
    ],
    *,
    where: Annotated[
        str | None,
        typer.Option(
            help="Only the runs for which this is true: an SQL condition over the columns.",
            show_default=False,
        ),
    ] = None,
    as_csv: Annotated[bool, typer.Option("--csv", help="Single runs as CSV.")] = False,
    as_json: Annotated[
        bool,
        typer.Option("--json", help="Single runs, and what made them, as one JSON object."),
    ] = False,
    as_parquet: Annotated[
        bool,
        typer.Option("--parquet", help="Single runs as Parquet, which this command also reads."),
    ] = False,
    columns: Annotated[
        str | None,
        typer.Option(
            help="Only these columns of --csv or --json, such as model,gamma,split,test.",
            show_default=False,
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="Write to this .csv, .json or .parquet instead of stdout.",
            show_default=False,
        ),
    ] = None,
    add: Annotated[
        list[Path] | None,
        typer.Option(
            "--add",
            metavar="OTHER",
            help="First add the finished runs of another store, folder or export to FILE, which is "
            "made if it is not there. May be repeated.",
            show_default=False,
        ),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Replace the output file if it exists.")
    ] = False,
) -> None:
    """Show the finished runs of a store: a line for each setting, the newest last.

    Splits and seeds are taken together: mean ± std of the test score, each at its best
    validation step. --csv, --json and --parquet have a row for each run instead. The
    columns of --where are those of the run (dataset, model, depth, alpha, gamma, split,
    steps, ...) and of its result (val, test, seconds, finished, ...).

    Examples:

    pdgnn results runs.sqlite
    pdgnn results runs.sqlite --where "model = 'pd-gat' and depth > 2"
    pdgnn results runs.sqlite --csv --columns model,alpha,gamma,split,val,test
    pdgnn results runs.sqlite -o runs.parquet
    pdgnn results all.sqlite --add laptop.sqlite --add server.parquet
    """
    with wrapped_errors():
        form = _form({Form.csv: as_csv, Form.json: as_json, Form.parquet: as_parquet}, output)
        wanted = _columns(columns, form)
        if output is not None and form is not None:
            from pdgnn.io.write import check_output

            sources = [file, *(add or [])]
            check_output(output, [f".{form.value}"], force=force, sources=sources)
        with working(f"reading {file}") as now:
            from pdgnn.training.store import read_runs

            for other, count in _added(file, add or [], now):
                tell(f"{count:,} runs of {other} were added to {file}")
            runs, about = read_runs(file, where=where)
        if form is None:
            from pdgnn.report.runs import runs_text

            show(runs_text(runs, about), wide=True)
        elif form is Form.parquet:
            _write_parquet(output, runs, about)
        else:
            text = _csv(runs, wanted) if form is Form.csv else _json(runs, about, wanted)
            _write_text(output, text)
        if output is not None:
            tell(f"{len(runs):,} runs are in {output}")


def _form(asked: Mapping[Form, bool], output: Path | None) -> Form | None:
    """The form that was asked for, or that of the output's name; None: a table."""
    from pdgnn.errors import InputError

    found = [form for form, said in asked.items() if said]
    if len(found) > 1:
        raise InputError(f"choose one of {' and '.join(f'--{form.value}' for form in found)}")
    if found:
        if found[0] is Form.parquet and output is None and sys.stdout.isatty():
            raise InputError("--parquet is nothing to read on a terminal; name a file with -o")
        return found[0]
    if output is None:
        return None
    suffix = output.suffix.lower().removeprefix(".")
    if suffix not in Form.__members__:
        raise InputError(
            f"{output}: files of this kind are not written; use .csv, .json or .parquet"
        )
    return Form(suffix)


def _columns(text: str | None, form: Form | None) -> list[str] | None:
    from pdgnn.errors import InputError

    if text is None:
        return None
    if form not in (Form.csv, Form.json):
        raise InputError("--columns is for --csv and --json")
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise InputError("--columns is empty; give names with commas between them")
    return names


def _added(file: Path, others: Sequence[Path], now: Any) -> list[tuple[Path, int]]:
    """Add the runs of the others to `file`; all of them are read before anything is written."""
    from pdgnn.errors import InputError
    from pdgnn.training.store import Store, read_runs

    if not others:
        return []
    target = file / "runs.sqlite" if file.is_dir() else file
    if file.is_dir() and not target.exists():
        raise InputError(
            f"{file} is a folder of an earlier version, to which nothing is added; name a store"
        )
    if file.suffix == ".parquet":
        raise InputError(f"{file} is an export, to which nothing is added; name a store")
    found = []
    for other in others:
        now(f"reading {other}")
        found.append((other, *read_runs(other, curves=True)))
    with Store(target) as store:
        return [(other, store.merge(runs, about)) for other, runs, about in found]


def _csv(runs: Sequence[StoredRun], wanted: Sequence[str] | None) -> str:
    import csv
    import io

    from pdgnn.report.runs import flat_runs

    table = flat_runs(runs, wanted)
    out = io.StringIO()
    rows = csv.writer(out, lineterminator="\n")
    rows.writerow(table.column_names)
    rows.writerows(zip(*(column.to_pylist() for column in table.columns), strict=True))
    return out.getvalue()


def _json(
    runs: Sequence[StoredRun],
    about: Mapping[int, Mapping[str, Any]],
    wanted: Sequence[str] | None,
) -> str:
    from pdgnn.report.runs import flat_runs

    found = {"runs": flat_runs(runs, wanted).to_pylist(), "provenances": about}
    return json.dumps(found, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def _write_text(output: Path | None, text: str) -> None:
    from pdgnn.io.atomic import replacing

    if output is None:
        sys.stdout.write(text)
        return
    with replacing(output, follow=True) as partial:
        partial.write_text(text, encoding="utf-8")


def _write_parquet(
    output: Path | None, runs: Sequence[StoredRun], about: Mapping[int, Mapping[str, Any]]
) -> None:
    from tempfile import TemporaryDirectory

    from pdgnn.training.store import export_parquet

    if output is not None:
        export_parquet(output, runs, about)
        return
    with TemporaryDirectory() as scratch:  # Parquet needs a file that can be sought in
        made = Path(scratch, "runs.parquet")
        export_parquet(made, runs, about)
        sys.stdout.buffer.write(made.read_bytes())
