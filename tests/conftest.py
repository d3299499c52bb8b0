"""Fixtures shared by all tests: small graphs known on paper, and the real ones where they are."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest
import torch

hypothesis.settings.register_profile("pdgnn", deadline=None, derandomize=True, max_examples=60)
hypothesis.settings.load_profile("pdgnn")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # in the background of a shell
    signal.signal(signal.SIGINT, signal.default_int_handler)

if not torch.cuda.is_available():  # Triton's kernels then run in its interpreter, where it is there
    os.environ["TRITON_INTERPRET"] = "1"


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test reads or writes the user's own cache."""
    monkeypatch.setenv("PDGNN_CACHE", str(tmp_path / "cache"))


@pytest.fixture(scope="session")
def data_root() -> Path:
    """The folder of real graphs named by PDGNN_DATA; tests that need it skip where it is not."""
    root = os.environ.get("PDGNN_DATA")
    if not root or not Path(root).is_dir():
        pytest.skip("PDGNN_DATA names no folder of real graphs")
    return Path(root)


@pytest.fixture(scope="session")
def no_clock() -> Iterator[None]:
    """A fit does all that it has planned, however busy the machine is."""
    from pdgnn.estimator import classifier

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(classifier, "CLOCK_SHARE", 1e6)
        yield


@pytest.fixture
def without_h2gcn(monkeypatch):
    """Table 2 as it would be if there were no model for one of its rows."""
    from dataclasses import replace

    from pdgnn.experiments.catalog import EXPERIMENTS

    table = EXPERIMENTS["table2"]
    rows = [replace(row, absent=row.absent or row.label == "H2GCN") for row in table.rows]
    monkeypatch.setitem(EXPERIMENTS, "table2", replace(table, rows=tuple(rows)))
