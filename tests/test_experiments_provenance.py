"""Rows of results: what is written is read again, and said once."""

from __future__ import annotations

import json

import pytest

from pdgnn import InputError
from pdgnn.experiments.provenance import read_rows, write_rows

HERE = {"machine": "2 cores", "python": "3.11.7", "versions": {"numpy": "2.2"}}
THERE = HERE | {"machine": "16 cores"}
ROWS = [
    {"graph": "a", "seconds": 1.0} | HERE,
    {"graph": "b", "seconds": None} | HERE,
    {"graph": "c"} | THERE,
    {"graph": "d"},
    {"graph": "e"},
    {"graph": "f"} | HERE,
]


def test_rows_come_back_whole(tmp_path):
    write_rows(tmp_path / "rows.json", ROWS)
    assert read_rows(tmp_path / "rows.json") == ROWS


def test_what_made_a_row_is_left_out_where_the_row_above_says_it(tmp_path):
    write_rows(tmp_path / "rows.json", ROWS)
    written = json.loads((tmp_path / "rows.json").read_text())
    assert [row.get("made") for row in written] == [None, "as above", None, None, None, None]
    assert "versions" not in written[1]


def test_rows_that_say_it_all_are_read(tmp_path):
    (tmp_path / "rows.json").write_text(json.dumps(ROWS))
    assert read_rows(tmp_path / "rows.json") == ROWS


@pytest.mark.parametrize("text", ["{", '{"a": 1}'])
def test_what_is_no_list_of_rows(tmp_path, text):
    (tmp_path / "rows.json").write_text(text)
    with pytest.raises(InputError, match="move it away to begin a new one"):
        read_rows(tmp_path / "rows.json")
