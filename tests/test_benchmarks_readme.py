"""The README's tables are those of results/."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_the_readme_has_what_was_measured(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import readme

    page = (ROOT / "README.md").read_text(encoding="utf-8")
    assert readme.filled(page) == page
    for name in readme.TABLES:
        assert f"<!-- benchmarks/readme.py {name} -->\n| " in page
    sys.modules.pop("readme")
