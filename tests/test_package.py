from __future__ import annotations

import subprocess
import sys

import pytest

import pdgnn


@pytest.mark.parametrize("name", pdgnn.__all__)
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(pdgnn, name) is not None
    assert name in dir(pdgnn)


def test_what_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'eigenpears'"):
        pdgnn.eigenpears  # noqa: B018


def test_importing_the_package_does_not_import_torch() -> None:
    code = "import sys, pdgnn, pdgnn.cli; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_training_needs_neither_scikit_learn_nor_lightgbm():
    """Machines that only train have not always both."""
    program = """
import sys
sys.modules["sklearn"] = sys.modules["lightgbm"] = None  # as if they were not installed
import pdgnn.cli
from pdgnn.training import RunSpec, search, train
spec = RunSpec(dataset="minesweeper-generated:size=6", model="pd-gat", width=8, steps=3)
assert train([spec])[0].step > 0
assert search([spec]).best == spec
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
