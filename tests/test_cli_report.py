"""The command ``pdgnn report``."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from outcomes import HOSTILE
from papers import ABOUT, small_runs
from pdgnn.cli import app
from pdgnn.training.store import Store, export_parquet


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    path = tmp_path_factory.mktemp("store") / "runs.sqlite"
    with Store(path) as found:
        found.merge(small_runs(), {1: ABOUT})
    return path


def call(*words, root):
    return CliRunner().invoke(app, ["report", *map(str, words), "--root", str(root)])


def test_the_page_and_both_texts(store, tmp_path):
    names = ("page.html", "tables.md", "tables.tex")
    page, markdown, latex = (tmp_path / name for name in names)
    done = call(
        *(store, "-o", page, "--markdown", markdown, "--latex", latex, "--title", HOSTILE),
        root=tmp_path,
    )
    assert done.exit_code == 0, done.output
    assert sorted(f.name for f in tmp_path.iterdir()) == sorted(names)
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert "### Table 2" in markdown.read_text(encoding="utf-8")
    assert "\\begin{table*}" in latex.read_text(encoding="utf-8")
    assert f"{len(small_runs())} runs are in" in done.output.replace("\n", " ")


def test_an_export_gives_the_same_tables(store, tmp_path):
    export_parquet(tmp_path / "runs.parquet", small_runs(), {1: ABOUT})
    texts = []
    for source in (store, tmp_path / "runs.parquet"):
        out = tmp_path / "page.html"
        words = (source, "-o", out, "--markdown", tmp_path / "t.md", "--force")
        done = call(*words, root=tmp_path)
        assert done.exit_code == 0, done.output
        texts.append((tmp_path / "t.md").read_text(encoding="utf-8"))
    assert texts[0] == texts[1]


def test_what_cannot_be_read_leaves_the_old_page(tmp_path):
    page = tmp_path / "page.html"
    page.write_text("old")
    (tmp_path / "foreign.sqlite").write_bytes(b"this is no database" * 100)
    for name in ("foreign.sqlite", "nowhere.sqlite"):
        done = call(tmp_path / name, "-o", page, "--force", root=tmp_path)
        assert done.exit_code == 2
        assert done.output.startswith("error: ")
        assert page.read_text() == "old"
    assert not (tmp_path / "nowhere.sqlite").exists()


def test_what_cannot_be_written_is_said_first(store, tmp_path):
    page, old = tmp_path / "page.html", tmp_path / "old.tex"
    old.write_text("old")
    (tmp_path / "folder.html").mkdir()
    for words, said in (
        ((store, "-o", tmp_path / "folder.html"), "is a folder"),
        ((store, "-o", old / "page.html"), "is a file, not a folder"),
        ((store, "-o", store, "--force"), "files of this kind are not written; use .html"),
        ((store, "-o", page, "--latex", page), "files of this kind are not written; use .tex"),
        ((store, "-o", page, "--latex", old), "the file exists; name another, or replace it with"),
    ):
        before = store.read_bytes()
        done = call(*words, root=tmp_path)
        assert done.exit_code == 2
        assert said in done.output.replace("\n", " ")
        assert store.read_bytes() == before
    assert not page.exists()
    assert old.read_text() == "old"


def test_the_store_is_not_replaced_whatever_its_name(store, tmp_path):
    named = tmp_path / "runs.html"
    named.write_bytes(store.read_bytes())
    before = named.read_bytes()
    done = call(named, "-o", named, "--force", root=tmp_path)
    assert done.exit_code == 2
    assert "the runs are read from this file" in done.output.replace("\n", " ")
    assert named.read_bytes() == before


def test_the_folder_of_the_page_is_made_and_an_old_page_is_replaced_by_force(store, tmp_path):
    page = tmp_path / "new" / "page.html"
    for force in ((), ("--force",)):
        done = call(store, "-o", page, *force, root=tmp_path)
        assert done.exit_code == 0, done.output
        assert page.read_text(encoding="utf-8").startswith("<!doctype html>")
        page.write_text("old")
