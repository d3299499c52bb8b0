"""The results store: what is kept reads back, others share it, and no other file is touched."""

from __future__ import annotations

import os
import resource
import signal
import sqlite3
import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from children import Child
from keeping import RUNS
from pdgnn import InputError
from pdgnn.training import RunResult, to_arrow
from pdgnn.training import database as files
from pdgnn.training.store import Store, StoredRun, read_runs
from runs import spec
from stores import CURVES, DATA, RESULTS, made_store, refused, result, same


@pytest.fixture
def file(tmp_path) -> Path:
    return made_store(tmp_path)


def test_runs_read_back_whole_in_the_order_they_were_finished(file):
    with Store(file) as store:
        keys = [(DATA[r.spec.dataset], r.spec.key) for r in RESULTS]
        assert list(store.results()) == keys
        for one, other in zip(store.results().values(), RESULTS, strict=True):
            same(one, other)
        assert list(store.results(reversed(keys[1:3]))) == keys[1:3]
        assert store.missing([("2f", RUNS[0].key), *keys, ("1f", "x")]) == [
            ("2f", RUNS[0].key),
            ("1f", "x"),
        ]
        (curved,) = store.results(curves=True).values()
        assert np.array_equal(curved.curves, CURVES)
        assert store.count() == 5
        stored = store.runs()
        assert [run.result for run in stored] == RESULTS
        assert [run.result.memory for run in stored] == [r.memory for r in RESULTS]
        assert {run.provenance for run in stored} == {1}
        assert all(run.finished.endswith("+00:00") for run in stored)
        assert store.provenances() == {1: {"machine": "ours", "versions": {"a": "1"}}}
        assert store.provenance_id({"versions": {"a": "1"}, "machine": "ours"}) == 1
        assert store.provenance_id({"machine": "theirs"}) == 2
    assert [p.name for p in file.parent.iterdir()] == [file.name]


def test_a_run_finished_again_takes_the_place_of_the_first_and_keeps_its_curves(file):
    with Store(file) as store:
        store.add([result(RUNS[0], seconds=9.0)], DATA)
        (again,) = store.results(curves=True).values()
        assert (again.seconds, again.curves.shape) == (9.0, (6, 3))
        store.add([result(RUNS[0], test=0.75)], DATA)  # whose curves these are not
        assert store.results(curves=True) == {}
        assert len(store.results()) == 5
        assert store.runs()[0].result.test == 0.75


def test_of_what_is_added_all_is_kept_or_none(file):
    class Broken(RunResult):
        """One that cannot be written."""

    broken = Broken(RUNS[1], 0.5, 0.5, object(), 6, 1.0)
    with Store(file) as store:
        with pytest.raises(sqlite3.ProgrammingError):
            store.add([result(replace(RUNS[0], seed=9)), broken], DATA)
        assert len(store.results()) == 5


@pytest.mark.parametrize(
    ("where", "count"),
    [
        ("model = 'mine'", 2),
        ("depth = 1 AND alpha < 0.5", 1),
        ("val IS NULL", 1),
        ("options LIKE '%\"k\": 3%'", 2),
        ("test >= (SELECT avg(test) FROM runs)", 4),
        ("provenance = 1 -- all of them", 5),
        ("0", 0),
    ],
)
def test_runs_are_chosen_by_conditions(file, where, count):
    with Store(file) as store:
        assert len(store.runs(where)) == count
    assert len(read_runs(file, where=where)[0]) == count


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("1=1; DROP TABLE runs", "syntax error"),
        ("1=1); DROP TABLE runs; --", "syntax error"),
        ("deep = 3", "no such column: deep"),
        ("1) UNION SELECT 1 FROM runs WHERE (1", "syntax error"),
        ("1) --", "syntax error"),
        ("(SELECT 1 FROM claims)", "not authorized"),
        ("(SELECT 1 FROM sqlite_master)", "not authorized"),
        ("load_extension('x')", "not authorized"),
        ("", "syntax error"),
        ("a\0b", "null character"),
        ("val > ?", "binding"),
        ("1 /*", "incomplete input"),
    ],
)
def test_what_is_no_condition_is_one_line_that_names_the_columns(file, where, message):
    with Store(file) as store:
        with pytest.raises(InputError) as caught:
            store.runs(where)
        assert len(store.results()) == 5
        store.add([result(replace(RUNS[0], seed=7))], DATA)  # it may still be written to
    assert str(caught.value).startswith("this is no condition on runs: ")
    assert "the columns are data, key, dataset, model, depth," in str(caught.value)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


# --- files that are no store ----------------------------------------------------------------------


def as_text(path: Path) -> None:
    path.write_text("SQLite is a database, and this is a letter about it.\n" * 40)


def as_foreign(path: Path) -> None:
    path.unlink()
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE runs (data, key)")
    db.close()


def as_newer(path: Path) -> None:
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA user_version = 2")
    db.close()


def as_cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-4096])


def as_header_alone(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:60])


def as_scrambled(path: Path) -> None:
    whole = path.read_bytes()
    path.write_bytes(whole[:100] + b"\xa5" * (len(whole) - 100))


NO_STORES = [
    (as_text, "is not a results store; it was left as it is"),
    (as_foreign, "is a database of another program"),
    (as_newer, "is a results store of version 2, this pdgnn knows 1; update pdgnn"),
    (as_cut, "is damaged: it was cut short"),
    (as_header_alone, "is damaged: it was cut short"),
    (as_scrambled, "is damaged"),
]


@pytest.mark.parametrize(("make", "message"), NO_STORES)
def test_a_file_that_is_no_store_is_one_line_and_stays_as_it_is(file, make, message):
    make(file)
    refused(lambda: Store(file), file, message)
    refused(lambda: Store(file, create=False), file, message)
    refused(lambda: read_runs(file), file, message)


def test_a_name_that_is_no_file_is_one_line(tmp_path):
    refused(lambda: Store(tmp_path), tmp_path, "is a folder, not a results store")
    missing = tmp_path / "missing.sqlite"
    for call in (lambda: Store(missing, create=False), lambda: read_runs(missing)):
        refused(call, missing, "there is no results store")
    os.mkfifo(tmp_path / "pipe")
    refused(lambda: Store(tmp_path / "pipe"), tmp_path / "pipe", "is not a regular file")
    (tmp_path / "file").write_text("")
    below = tmp_path / "file" / "a.sqlite"
    refused(lambda: Store(below), below, "cannot open the results store")
    with pytest.raises(InputError, match="name too long"):
        Store(tmp_path / ("a" * 300))
    with pytest.raises(InputError, match="no file can have the name"):
        Store(tmp_path / "a\0b")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["file", "pipe"]


def test_an_empty_file_is_a_new_store(tmp_path):
    """As a process leaves it that is killed before it has written anything."""
    (tmp_path / "a.sqlite").touch()
    refused(lambda: read_runs(tmp_path / "a.sqlite"), tmp_path / "a.sqlite", "is empty")
    with Store(tmp_path / "a.sqlite") as store:
        store.add(RESULTS, DATA)
    assert len(read_runs(tmp_path / "a.sqlite")[0]) == 5


def test_names_that_mean_something_in_an_address_are_files(tmp_path):
    for name in ("a b?mode=ro#c%20.sqlite", "ä'\".sqlite"):
        with Store(tmp_path / name) as store:
            store.add(RESULTS, DATA)
        assert len(read_runs(tmp_path / name)[0]) == 5
        assert (tmp_path / name).is_file()


def test_a_damaged_row_is_named(file):
    with sqlite3.connect(file) as db:
        db.execute("UPDATE runs SET spec = '{' WHERE seed = 1")
        db.execute("UPDATE curves SET curves = x'00'")
    db.close()
    refused(lambda: read_runs(file), file, f"run {RUNS[1].key}, is damaged or of another version")
    with Store(file) as store, pytest.raises(InputError, match=r"the curves of .* are damaged"):
        store.results([("1f", RUNS[0].key)], curves=True)


def test_a_store_that_cannot_be_written_to_is_read(file, monkeypatch):
    access = os.access
    read_only = {str(file), str(file.parent)}
    monkeypatch.setattr(
        os, "access", lambda p, mode: str(p) not in read_only and access(p, mode)
    )  # as root may write everywhere
    assert len(read_runs(file)[0]) == 5
    with Store(file) as store:
        assert len(store.results()) == 5
        with pytest.raises(InputError, match="is read-only; name another file"):
            store.add([result(RUNS[0], test=0.75)], DATA)


# --- several at once ------------------------------------------------------------------------------


def test_threads_and_connections_share_a_store(tmp_path):
    """Also while it is made."""
    runs = [result(spec(seed=i)) for i in range(60)]

    def add(part: int) -> None:
        with Store(tmp_path / "a.sqlite") as store:
            for r in runs[part::6]:
                store.add([r], DATA)

    threads = [threading.Thread(target=add, args=(part,)) for part in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    found = [run.result for run in read_runs(tmp_path / "a.sqlite")[0]]
    assert sorted(r.spec.seed for r in found) == list(range(60))
    assert [p.name for p in tmp_path.iterdir()] == ["a.sqlite"]


def test_a_reader_sees_all_or_nothing_of_what_is_being_added(file):
    with Store(file) as one, Store(file) as other:
        with one.transaction() as db:
            one.insert_missing(db, [StoredRun(result(spec(seed=50)), "1f", None, "")], {})
            assert other.count() == 5
            assert len(read_runs(file)[0]) == 5
        assert other.count() == 6


def test_a_claim_is_one_owners_until_the_run_is_finished(file):
    keys = [("1f", spec(seed=i).key) for i in range(10, 13)]
    everyone = {"a", "b"}
    with Store(file) as one, Store(file) as other:
        assert one.claim(keys[:2], "a", everyone.__contains__) == set(keys[:2])
        assert other.claim(keys, "b", everyone.__contains__) == {keys[2]}
        assert other.claims(keys) == {keys[0]: "a", keys[1]: "a", keys[2]: "b"}
        one.add([result(spec(seed=10))], DATA)
        assert other.claims(keys).keys() == set(keys[1:])
        assert other.claim(keys, "b", {"b"}.__contains__) == set(keys[1:])
        other.release("b", keys[1:2])
        assert one.claims(keys) == {keys[2]: "b"}
        other.release("b")
        assert one.claims(keys) == {}


def leave(file: Path) -> None:
    """Add a run, and be killed within a transaction."""
    store = Store(file)
    store.add([result(spec(seed=99))], DATA)
    store._db.execute("BEGIN IMMEDIATE")
    store._db.execute("DELETE FROM runs")
    os.kill(os.getpid(), signal.SIGKILL)


def test_what_a_killed_process_had_added_is_there_and_no_more(file):
    assert os.waitpid(Child(lambda: leave(file)).pid, 0)[1] == signal.SIGKILL
    assert file.with_name(f"{file.name}-wal").exists()
    assert len(read_runs(file)[0]) == 6
    with Store(file) as store:
        assert store.count() == 6
    assert [p.name for p in file.parent.iterdir()] == [file.name]


# --- a disk that is full --------------------------------------------------------------------------


def test_a_full_disk_is_one_line_and_nothing_is_lost(file):
    with Store(file) as store:
        pages = store.question("PRAGMA page_count")[0][0]
        store.question(f"PRAGMA max_page_count = {pages}")
        many = [result(spec(seed=i), curves=CURVES) for i in range(100, 400)]
        with pytest.raises(InputError, match="the disk is full; free some space and go on") as e:
            store.add(many, DATA)
        assert "\n" not in str(e.value)
        assert store.count() == 5
        store.question(f"PRAGMA max_page_count = {pages + 1000}")
        store.add(many, DATA)
        assert store.count() == 305


def add_until_it_fails(file: Path, said: Path) -> None:
    """In a process whose files may not grow over some size."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (150_000, 150_000))
    store, added = Store(file), 0
    try:
        for seed in range(1000, 3000):
            store.add([result(spec(seed=seed))], DATA)
            added += 1
    except InputError as e:
        said.write_text(f"{added}\n{e}")


def test_a_file_that_may_not_grow_is_one_line_and_nothing_is_lost(file, tmp_path):
    Child(lambda: add_until_it_fails(file, tmp_path / "said")).end()
    added, said = (tmp_path / "said").read_text().splitlines()
    assert int(added) > 5
    assert said.startswith(f"{file}: cannot be written")
    assert len(read_runs(file)[0]) == 5 + int(added)
    with Store(file) as store:
        store.add([result(spec(seed=77_777))], DATA)
        assert store.count() == 6 + int(added)


def test_stores_are_merged(file, tmp_path):
    extra = result(spec(seed=40), curves=CURVES)
    with Store(tmp_path / "b.sqlite") as other, Store(file) as store:
        other.provenance_id({"machine": "first of theirs"})
        number = other.provenance_id({"machine": "theirs"})
        other.add([result(RUNS[0], test=0.75), extra], DATA, number)
        assert store.merge(other) == 1
        assert store.merge(other) == 0
        assert store.runs()[0].result.test == 0.25
        last = store.runs(curves=True)[-1]
        assert np.array_equal(last.result.curves, CURVES)
        assert store.provenances()[last.provenance] == {"machine": "theirs"}
        assert store.merge(*read_runs(tmp_path / "b.sqlite")) == 0
        assert store.merge([StoredRun(result(spec(seed=41)), "3f", 5, "")]) == 1
        assert store.runs()[-1].provenance is None


def test_a_store_is_a_flat_table(file):
    table = to_arrow(file)
    assert table.num_rows == 5
    assert {"alpha", "option.k", "k"} & set(table.column_names) == {"alpha", "k"}


def test_a_file_system_without_wal_will_do(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "_use_wal", lambda db: db.execute("PRAGMA journal_mode = DELETE"))
    with Store(tmp_path / "a.sqlite") as store:
        store.add(RESULTS, DATA)
        assert store.question("PRAGMA journal_mode")[0][0] == "delete"
    assert len(read_runs(tmp_path / "a.sqlite")[0]) == 5
