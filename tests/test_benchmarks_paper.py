"""The page of the reproduction has the tables and claims that results/ come to."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.fixture
def paper(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import paper

    yield paper
    sys.modules.pop("paper")


def test_the_page_has_what_was_measured(paper):
    page = (ROOT / "docs" / "reproduction.md").read_text(encoding="utf-8")
    assert paper.filled(page) == page


def test_a_page_without_marks_is_said(paper):
    with pytest.raises(SystemExit, match="no marks for homophilic"):
        paper.filled("nothing")
