"""Hundreds of tables that cannot be fitted: one line, exit code 2, nothing written."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from malformed import FAMILIES, LARGE, cases
from malformed_case import ARCHIVE, GRAPHML, PARQUET, Case, archive, in_parquet, tables, xml
from pdgnn.cli.fit import fit_command
from pdgnn.estimator.classifier import PDClassifier

LEAST = 300
app = typer.Typer()  # without the other commands: it is built again whenever it is called
app.command()(fit_command)
GROWTH = {"expanding": 120_000_000, "distinct": 500_000_000}
"""Bytes by which memory may grow. The former unpack to 200 MB each, and --max-gb says 10; the
latter are 15 MB of text in a million rows."""


class AcceptedError(Exception):
    """A table came as far as training."""


@pytest.fixture(autouse=True)
def no_training(monkeypatch):
    def accept(*_, **__):
        raise AcceptedError

    monkeypatch.setattr(PDClassifier, "_train", accept)
    monkeypatch.delenv("FORCE_COLOR", raising=False)


def contents(folder: Path) -> dict[str, int]:
    return {str(p.relative_to(folder)): p.lstat().st_size for p in folder.rglob("*")}


def fit(case: Case, folder: Path):
    folder.mkdir()
    case.write(folder)
    before = contents(folder)
    here = Path.cwd()
    os.chdir(folder)
    try:
        words = [*case.words, "-o", "model"]
        result = CliRunner(env={"COLUMNS": "80"}).invoke(app, words)
    finally:
        os.chdir(here)
    assert contents(folder) == before, case.name
    return result


def check(case: Case, code: int, out: str, err: str) -> None:
    where = f"{case.name}: {err}"
    assert code == 2, where
    assert out == "", where
    assert err.startswith("error: "), where
    assert err.endswith("\n"), where
    assert err[:-1].isprintable(), where
    assert "Traceback" not in err, where
    assert len(err) < 700, where


def test_there_are_enough_of_them():
    counts = {family: len(cases(family)) for family in FAMILIES}
    assert sum(counts.values()) >= LEAST
    assert len({case.name for f in counts for case in cases(f)}) > LEAST


@pytest.mark.parametrize(
    "case",
    [
        Case("csv", tables()),
        Case("parquet", in_parquet(), PARQUET),
        Case("graphml", {"graph.graphml": xml()}, GRAPHML),
        Case("npz", archive(), ARCHIVE),
        Case("folder", {f"in/{k}": v for k, v in tables().items()}, ("in", "--label", "role")),
    ],
    ids=lambda case: case.name,
)
def test_the_table_that_they_are_made_from_is_accepted(tmp_path, case):
    assert isinstance(fit(case, tmp_path / "a").exception, AcceptedError)


@pytest.mark.parametrize("family", FAMILIES)
def test_malformed_tables_are_refused_in_one_line(tmp_path, family):
    for i, case in enumerate(cases(family)):
        result = fit(case, tmp_path / str(i))
        assert not isinstance(result.exception, AcceptedError), f"accepted: {case.name}"
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise AssertionError(case.name) from result.exception
        check(case, result.exit_code, result.stdout, result.stderr)


CHILD = """
import os, resource, sys
from pathlib import Path
from typer.testing import CliRunner
from pdgnn.cli import app
from pdgnn.estimator.classifier import PDClassifier

def accept(*_, **__):
    raise AssertionError("accepted")

PDClassifier._train = accept
os.chdir(sys.argv[1])
for folder in sorted(Path.cwd().iterdir()):
    os.chdir(folder)
    words = Path("words").read_text().split("\\n")
    result = CliRunner().invoke(app, ["fit", *words, "-o", "model"])
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(result.exit_code, peak, result.stderr, end="")
"""


def test_large_tables_are_refused_with_little_memory(tmp_path):
    """In one process, whose peak is that of empty tables first and then of all the others."""
    made = [("", Case("empty", tables(b"", b"")))]
    made += [(family, case) for family in LARGE for case in cases(family)]
    for i, (_, case) in enumerate(made):
        folder = tmp_path / "cases" / f"{i:02d}"
        folder.mkdir(parents=True)
        case.write(folder)
        (folder / "words").write_text("\n".join(case.words))
    done = subprocess.run(
        [sys.executable, "-c", CHILD, tmp_path / "cases"],
        env=os.environ | {"PYTHONWARNINGS": "ignore", "COLUMNS": "80"},
        capture_output=True,
        text=True,
        check=False,
    )
    lines = done.stdout.splitlines()
    assert len(lines) == len(made), done.stderr
    first = 0
    for (family, case), line in zip(made, lines, strict=True):
        code, peak, said = line.split(" ", 2)
        check(case, int(code), "", f"{said}\n")
        first = first or int(peak)
        assert 1024 * (int(peak) - first) <= GROWTH.get(family, 0), case.name


def test_a_process_of_its_own_says_the_same(tmp_path):
    """Real streams and exit codes, no traceback."""
    for case in (cases("controlling")[2], cases("climbing")[0]):
        folder = tmp_path / case.name
        folder.mkdir()
        case.write(folder)
        words = [sys.executable, "-m", "pdgnn", "fit", *case.words, "-o", "model"]
        done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
        check(case, done.returncode, done.stdout, done.stderr)
        assert not (folder / "model").exists()
