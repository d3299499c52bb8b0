"""The commands in a process of their own: real streams, real signals, real exit codes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tomllib
from contextlib import suppress
from pathlib import Path

import pytest

from pdgnn.training import RunSpec
from pdgnn.training.checkpoint import RunFolder

ROOT = Path(__file__).parents[1]
BOARD = "minesweeper-generated:size=6,seed=1"
SMALL = ("--width", "8", "--heads", "2", "--depth", "1")
LIMIT = 600
"""Seconds after which a process that should end is taken for one that never does."""


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """Every test in a folder of its own, with a graph."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    Path("path.csv").write_text("source,target\n0,1\n1,2\n2,3\n3,4\n")


def files() -> set[str]:
    return {path.name for path in Path().iterdir()} - {"path.csv", "cache"}


def process(*words: str, **options) -> subprocess.Popen:
    env = {"OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "error::UserWarning:pdgnn", "COLUMNS": "120"}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    command = [sys.executable, *words]
    return subprocess.Popen(command, env=os.environ | env, text=True, **pipes | options)


def watched(*words: str) -> tuple[str, str]:
    """What the command writes to stdout, and what a person sees at a terminal meanwhile."""
    master, terminal = os.openpty()
    running = process("-m", "pdgnn", *words, stderr=terminal)
    os.close(terminal)
    shown = b""
    with suppress(OSError):  # how a pseudo-terminal ends
        while part := os.read(master, 4096):
            shown += part
    out, _ = running.communicate(timeout=LIMIT)
    os.close(master)
    assert running.returncode == 0
    return out, shown.decode()


def test_an_error_leaves_exit_code_2_and_no_traceback():
    running = process("-m", "pdgnn", "inspect", "gone.csv")
    assert running.communicate(timeout=LIMIT) == (
        "",
        "error: gone.csv: there is no such file; check the path\n",
    )
    assert running.returncode == 2


def test_a_reader_that_has_had_enough_is_no_error():
    running = process("-m", "pdgnn", "inspect", "path.csv")
    running.stdout.close()  # before anything is written, as `head -0` does
    err = running.stderr.read()
    running.stderr.close()
    assert (running.wait(timeout=LIMIT), err) == (141, "")


SCRIPTS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]


@pytest.mark.parametrize("words", [("-m", "pdgnn"), ("-c", "from {} import {}; main()")])
def test_ctrl_c_during_the_imports_is_one_line_too(words, monkeypatch):
    """The first large import is in the place of the person's hand."""
    Path("typer.py").write_text("raise KeyboardInterrupt")
    monkeypatch.setenv("PYTHONPATH", f"{Path().resolve()}:{os.environ.get('PYTHONPATH', '')}")
    running = process(*(word.format(*SCRIPTS["pdgnn"].split(":")) for word in words))
    assert running.communicate(timeout=LIMIT) == ("", "stopped\n")
    assert running.returncode == 130


SLOW = """
import sys
import pdgnn.io.write
def slow(source, file):
    file.write(b"source,tar"); file.flush()
    print("writing", flush=True)
    sys.stdin.read()  # until there was a signal
pdgnn.io.write.WRITERS[".csv"] = slow
from pdgnn.cli import main
sys.argv = ["pdgnn", "rewire", "path.csv", "-o", "out.csv", "--force"]
main()
"""


@pytest.mark.parametrize(
    ("number", "code", "said"),
    [(signal.SIGINT, 130, "stopped\n"), (signal.SIGTERM, 143, "")],
)
def test_a_signal_half_way_leaves_nothing_behind(number, code, said):
    Path("out.csv").write_text("old")
    running = process("-c", SLOW, stdin=subprocess.PIPE)
    assert running.stdout.readline() == "writing\n"
    assert len(files()) == 2
    running.send_signal(number)
    _, err = running.communicate(timeout=LIMIT)
    assert (running.returncode, err) == (code, said)
    assert files() == {"out.csv"}
    assert Path("out.csv").read_text() == "old"


def test_a_person_who_watches_sees_what_is_being_done_and_stdout_stays_pure():
    out, shown = watched("inspect", "path.csv", "--json")
    assert json.loads(out)["nodes"] == 5
    # a small graph is done before every step has been shown
    steps = ("reading path.csv", "homophily", "eigenvalues", "rewiring")
    assert any(step in shown for step in steps)


TOLD = """
import math, sys
from pdgnn.cli import progress
from pdgnn.training import loop
progress.LINE_SECONDS = math.inf
look, looks = loop.Watch.look, []
def told(self):
    looks.append(1)
    if len(looks) == 4:
        print("training", flush=True)
        sys.stdin.read()  # until there was a signal
    return look(self)
loop.Watch.look, loop.LOOK_SECONDS = told, 0.0
from pdgnn.cli import main
main()
"""


@pytest.mark.parametrize(
    ("number", "code", "said"),
    [
        (
            signal.SIGINT,
            130,
            "stopped; what is done is in runs; run the same command again to go on\n",
        ),
        (signal.SIGTERM, 143, ""),
    ],
)
def test_a_signal_half_way_leaves_a_state_to_go_on_from(number, code, said):
    words = ("train", BOARD, *SMALL, "--steps", "9", "--splits", "0", "--folder", "runs")
    running = process("-c", TOLD, *words, stdin=subprocess.PIPE)
    assert running.stdout.readline() == "training\n"
    running.send_signal(number)
    out, err = running.communicate(timeout=LIMIT)
    assert (running.returncode, out, err) == (code, "", said)
    shape = {"depth": 1, "width": 8, "heads": 2}
    key = RunSpec(dataset=BOARD, model="pd-gat", **shape, steps=9).key
    assert int(RunFolder("runs").states([key])[key]["step"]) == 4  # looks at 0 to 3, a step more
    assert not list(Path("runs").glob(".pdgnn-*"))


def test_a_person_who_watches_sees_how_far_it_is_and_stdout_stays_pure():
    out, shown = watched("train", BOARD, *SMALL, "--steps", "300", "--splits", "0,1", "--json")
    assert len(json.loads(out)["rows"][0]["runs"]) == 2
    assert "1/2 runs, PD-GAT at step " in shown
    assert "best val " in shown
    assert " left" in shown


def test_help_does_not_wait_for_torch():
    code = (
        "import sys, pdgnn.cli; sys.exit('torch' in sys.modules or 'rich.progress' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
