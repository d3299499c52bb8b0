"""The page of the records, and the settings in the package, are what results/ come to."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from pdgnn.experiments.records.winners import winners

ROOT = Path(__file__).parent.parent


@pytest.fixture
def records(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import records

    yield records
    sys.modules.pop("records")


def test_the_page_has_what_was_measured(records):
    page = (ROOT / "docs" / "records.md").read_text(encoding="utf-8")
    assert records.filled(page) == page


def test_the_package_has_the_settings_that_were_measured(records):
    assert json.loads(records.measured()) == winners()


def test_a_page_without_marks_is_said(records):
    with pytest.raises(SystemExit, match="no marks for the table"):
        records.filled("nothing")
