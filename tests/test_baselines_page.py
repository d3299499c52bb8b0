"""The page of the models names every one of them, what it uses, and its options."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

import pytest

from pdgnn.models import MODELS

PAGE = Path(__file__).parent.parent / "docs" / "models.md"
PUBLISHED = (
    *("h2gcn", "cpgnn", "gpr-gnn", "fsgnn", "glognn", "fagcn", "gbk-gnn"),
    *("jacobiconv", "bernnet", "linkx", "appnp", "dgn", "wgcn", "pgso-gcn"),
)
ALL = {
    **MODELS,
    **{n: import_module(f"pdgnn.baselines.{n.replace('-', '_')}").MODEL for n in PUBLISHED},
}
ROW = re.compile(r"^\| `([\w-]+)` \|(.*)\|$", re.MULTILINE)
TEXT = PAGE.read_text(encoding="utf-8")
ROWS = {m[1]: m[2].split("|") for m in ROW.finditer(TEXT.split("\n## ")[0])}


def test_every_model_has_a_row():
    assert set(ROWS) == set(ALL)


@pytest.mark.parametrize("name", ALL)
def test_its_row_names_what_it_uses_and_its_options(name):
    *_, used, options = ROWS[name]
    assert set(used.replace(" ", "").split(",")) == set(ALL[name].uses)
    assert re.findall(r"`(\w+)`", options) == list(ALL[name].options)


def test_options_said_to_mix_are_those_that_do():
    said = set(re.findall(r"`(\w+)`", TEXT.split("train together:")[1].split(".")[0]))
    mixing = {n for m in ALL.values() for n, option in m.options.items() if option.value}
    rates = {n for n in mixing if n.endswith(("_lr", "_decay", "_dropout"))}
    assert said == mixing - rates
