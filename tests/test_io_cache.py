"""The folder of stored answers: read when whole, ignored when not, never in the way."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.util
import os
import pickle
import subprocess
import sys
import zipfile
from pathlib import Path

import networkx as nx
import numpy as np
import pytest

from oracle import by_hand, lobes, vector_error
from pdgnn import Graph, eigenpairs, eigenpairs_path, spectrum
from pdgnn.io.cache import cache_folder, read_arrays, write_arrays

PATH = Graph.from_networkx(nx.path_graph(6))


@pytest.fixture
def folder(monkeypatch) -> Path:
    """The cache of this test, in which every answer is worth a file."""
    monkeypatch.setattr(spectrum, "CACHE_SECONDS", 0.0)
    return Path(os.environ["PDGNN_CACHE"])


@pytest.fixture
def no_solver(folder, monkeypatch):
    """From here on, an answer comes from the cache or not at all."""

    def forbid() -> None:
        def fail(*_: object) -> None:
            raise AssertionError("this should have been read from the cache")

        monkeypatch.setattr(spectrum, "_GraphSolver", fail)

    return forbid


def files(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir()) if folder.exists() else []


def assert_same(a: spectrum.Spectrum, b: spectrum.Spectrum) -> None:
    for name in ("gamma", "gap", "multiplicity", "solver", "seconds"):
        assert getattr(a, name) == getattr(b, name)
        assert type(getattr(a, name)) is type(getattr(b, name))
    for name in ("u", "m", "eigenvalues", "component_eigenvalues", "residuals"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name), strict=True)


# What is stored


def test_what_was_written_is_read():
    arrays = {"a": np.arange(6.0).reshape(2, 3), "b": np.array("text"), "c": np.zeros((0, 2))}
    write_arrays("key", arrays)
    stored = read_arrays("key")
    assert set(stored) == set(arrays)
    for name, values in arrays.items():
        np.testing.assert_array_equal(stored[name], values, strict=True)
    assert read_arrays("other") is None


def test_a_second_write_replaces_the_first(folder):
    write_arrays("key", {"a": np.zeros(3), "b": np.ones(2)})
    write_arrays("key", {"a": np.full(4, 7.0)})
    assert {name: a.tolist() for name, a in read_arrays("key").items()} == {"a": [7.0] * 4}
    assert files(folder) == ["key.npz"]


def test_no_pickle_is_written_or_read(folder):
    with pytest.raises(ValueError, match="allow_pickle=False"):
        write_arrays("key", {"a": np.array([{}], dtype=object)})
    assert files(folder) == []
    np.savez(folder / "key.npz", a=np.array([{}], dtype=object))
    assert read_arrays("key") is None


# Where it is stored


def test_off_reads_and_writes_nothing(folder, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    write_arrays("key", {"a": np.zeros(3)})
    for off in ("off", "OFF"):
        monkeypatch.setenv("PDGNN_CACHE", off)
        assert cache_folder() is None
        assert read_arrays("key") is None
        write_arrays("more", {"a": np.zeros(3)})
        eigenpairs(PATH)
    assert files(folder) == ["key.npz"]
    assert files(tmp_path) == ["cache"]


@pytest.mark.parametrize("value", ["", None])
def test_the_default_is_in_the_home_folder(value, monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("PDGNN_CACHE")
    if value is not None:
        monkeypatch.setenv("PDGNN_CACHE", value)
    assert cache_folder() == tmp_path / ".cache" / "pdgnn"


def test_a_folder_that_cannot_be_made_costs_the_cache_alone(folder, monkeypatch, tmp_path):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("PDGNN_CACHE", str(tmp_path / "file" / "cache"))
    expected = eigenpairs(PATH, cache=False)
    assert (eigenpairs(PATH).u == expected.u).all()
    assert (tmp_path / "file").read_text() == "in the way"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_cannot_be_written_costs_the_cache_alone(folder):
    folder.mkdir(mode=0o500)
    eigenpairs(PATH)
    assert files(folder) == []


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_a_write_that_fails_leaves_nothing(folder, monkeypatch, error):
    def full(file, **_: object) -> None:
        file.write(b"half a file")
        raise error

    monkeypatch.setattr(np, "savez", full)
    if isinstance(error, OSError):
        eigenpairs(PATH)
    else:
        with pytest.raises(KeyboardInterrupt):
            eigenpairs(PATH)
    assert files(folder) == []


# What eigenpairs does with it


def test_the_second_call_reads_the_file(folder, no_solver):
    for g in (PATH, Graph.from_edge_index([[0, 1], [1, 2]], num_nodes=6)):
        for gamma in (1.0, 0.3, 0.0):
            for k in (1, 4):
                eigenpairs(g, gamma=gamma, k=k)
    no_solver()
    assert len(files(folder)) == 12
    again = Graph.from_edge_index(PATH.edge_index.flip(1))  # the same graph, built anew
    s = eigenpairs(again, gamma=0.3, k=4)
    assert_same(s, eigenpairs(PATH, gamma=0.3, k=4))
    assert s.u.shape == (6, 4)


def test_what_is_read_is_what_was_computed(folder, no_solver):
    g = Graph.from_networkx(nx.disjoint_union(nx.path_graph(180), nx.star_graph(3)))
    computed = eigenpairs(g, gamma=0.3, k=4)
    no_solver()
    assert_same(eigenpairs(g, gamma=0.3, k=4), computed)


def test_every_part_of_the_question_is_in_the_key(folder):
    weighted = Graph.from_edge_index(PATH.edge_index, edge_weight=2 * PATH.edge_weight)
    moved = Graph.from_edge_index(5 - PATH.edge_index)
    longer = Graph.from_edge_index(PATH.edge_index, num_nodes=7)
    assert moved == PATH
    count = 0
    for g in (PATH, weighted, longer):
        for gamma in (1.0, 1.0 - 1e-15, 0.5, 0.0):
            for k in (1, 2):
                s = eigenpairs(g, gamma=gamma, k=k)
                assert s.u.shape == (g.num_nodes, k)
                count += 1
                assert len(files(folder)) == count
    eigenpairs(moved)
    eigenpairs(PATH, gamma=1, k=np.int64(1))
    assert len(files(folder)) == count


def test_a_path_computes_only_what_is_missing(folder, monkeypatch):
    asked = []
    solve = spectrum._GraphSolver.__call__

    def spy(self, gamma, **options):
        asked.append(gamma)
        return solve(self, gamma, **options)

    monkeypatch.setattr(spectrum._GraphSolver, "__call__", spy)
    g = Graph.from_networkx(nx.path_graph(200))
    eigenpairs_path(g, [0.5])
    found = eigenpairs_path(g, [0.0, 0.5, 1.0])
    assert asked == [0.5, 1.0, 0.0]
    assert [s.gamma for s in found] == [0.0, 0.5, 1.0]


@pytest.mark.parametrize("interrupted", [False, True])
def test_no_answer_is_stored_before_it_is_known_to_be_right(folder, monkeypatch, interrupted):
    """At γ = 0.01 an eigenspace leads that the vectors of γ = 1 have hardly any part of.

    Whatever is computed twice for that reason is quick the second time.
    """
    g = lobes([*range(25, 37)], paths=3, length=20)
    seen: set[float] = set()
    solve = spectrum._GraphSolver.__call__

    def timed(self, gamma, **options):
        found = solve(self, gamma, **options)
        first = gamma not in seen
        seen.add(gamma)
        return dataclasses.replace(found, seconds=1.0 if first else 0.0)

    def progress(found: spectrum.Spectrum) -> None:
        if interrupted and found.gamma == 0.01:
            raise KeyboardInterrupt

    monkeypatch.setattr(spectrum, "CACHE_SECONDS", 0.5)
    monkeypatch.setattr(spectrum._GraphSolver, "__call__", timed)
    with contextlib.suppress(KeyboardInterrupt):
        eigenpairs_path(g, [1.0, 0.01, 0.0], progress=progress)
    expected = by_hand(g, 0.01)
    s = eigenpairs(g, gamma=0.01)
    assert s.multiplicity == expected.multiplicity == 2
    assert vector_error(s.u, expected.u) < 1e-6


def test_a_named_solver_a_seed_or_no_cache_computes_afresh(folder, no_solver):
    for options in ({"solver": "dense"}, {"seed": 1}, {"cache": False}):
        eigenpairs(PATH, **options)
    assert files(folder) == []
    eigenpairs(PATH)
    no_solver()
    for options in ({"solver": "dense"}, {"seed": 1}, {"cache": False}):
        with pytest.raises(AssertionError, match="from the cache"):
            eigenpairs(PATH, **options)


@pytest.mark.parametrize(("seconds", "stored"), [(0.49, 0), (0.5, 1)])
def test_a_quick_answer_is_not_worth_a_file(monkeypatch, seconds, stored):
    solve = spectrum._GraphSolver.__call__

    def timed(self, gamma, **options):
        return dataclasses.replace(solve(self, gamma, **options), seconds=seconds)

    monkeypatch.setattr(spectrum._GraphSolver, "__call__", timed)
    eigenpairs(PATH)
    assert len(files(Path(os.environ["PDGNN_CACHE"]))) == stored


# Files that are not whole


def stored(folder: Path) -> tuple[spectrum.Spectrum, Path]:
    expected = eigenpairs(PATH, k=2)
    (name,) = files(folder)
    return expected, folder / name


def check_ignored(expected: spectrum.Spectrum) -> None:
    """Recomputed, and stored anew."""
    s = eigenpairs(PATH, k=2)
    assert (s.u == expected.u).all()
    assert (s.eigenvalues == expected.eigenvalues).all()
    assert s.residuals.shape == (2,)
    assert (s.multiplicity, s.solver, s.gap) == (1, "dense", expected.gap)
    again = eigenpairs(PATH, k=2)
    assert again.seconds == s.seconds


def test_a_file_that_was_cut_short(folder):
    expected, path = stored(folder)
    whole = path.read_bytes()
    for size in [*range(0, len(whole), 97), len(whole) - 1]:
        path.write_bytes(whole[:size])
        check_ignored(expected)


def test_a_file_with_a_wrong_byte(folder):
    """In the directory at the end of the file too, where a byte is a flag or a version."""
    expected, path = stored(folder)
    whole = path.read_bytes()
    for at in [*range(0, 1100, 41), *range(1100, len(whole))]:
        for byte in {0, 1, 255} - {whole[at]}:
            path.write_bytes(whole[:at] + bytes([byte]) + whole[at + 1 :])
            s = eigenpairs(PATH, k=2)
            assert (s.u == expected.u).all()
            assert (s.eigenvalues == expected.eigenvalues).all()


def write_foreign(path: Path, kind: str) -> None:
    names = ("u", "component_eigenvalues", "residuals", "numbers", "solver")
    if kind == "text":
        path.write_text("not an archive")
    elif kind == "pickle":
        path.write_bytes(pickle.dumps({"u": [1.0]}))
    elif kind == "one array":
        with path.open("wb") as file:
            np.save(file, np.zeros((6, 2)))
    elif kind == "other arrays":
        np.savez(path, x=np.zeros(3))
    elif kind == "archive of text":
        with zipfile.ZipFile(path, "w") as archive:
            for name in names:
                archive.writestr(name, "abc")
    elif kind == "damaged and compressed":
        np.savez_compressed(path, **{name: np.arange(99.0) for name in names})
        whole = bytearray(path.read_bytes())
        whole[80:90] = b"\xff" * 10
        path.write_bytes(whole)
    elif kind == "folder":
        path.unlink()
        path.mkdir()


@pytest.mark.parametrize(
    "kind",
    ["text", "pickle", "one array", "other arrays", "archive of text", "damaged and compressed"],
)
def test_a_foreign_file(folder, kind):
    expected, path = stored(folder)
    write_foreign(path, kind)
    check_ignored(expected)


def test_a_folder_in_the_place_of_the_file(folder):
    expected, path = stored(folder)
    write_foreign(path, "folder")
    assert (eigenpairs(PATH, k=2).u == expected.u).all()
    assert files(folder) == [path.name]


@pytest.mark.parametrize(
    "changed",
    [
        {"u": np.zeros((5, 2))},
        {"u": np.zeros((6, 1))},
        {"u": np.full((6, 2), "x")},
        {"u": np.zeros((6, 2), dtype=complex)},
        {"component_eigenvalues": np.zeros((2, 2))},
        {"residuals": np.zeros(3)},
        {"numbers": np.zeros(2)},
        {"numbers": np.array([1.0, np.nan, 1.0])},
        {"numbers": np.array([1.0, np.inf, 1.0])},
    ],
    ids=lambda changed: f"{next(iter(changed))}-{next(iter(changed.values())).dtype}",
)
def test_arrays_that_do_not_fit(folder, changed):
    expected, path = stored(folder)
    with np.load(path) as archive:
        whole = dict(archive)
    np.savez(path, **whole | changed)
    check_ignored(expected)


# Several processes

WRITER = """
import importlib.util, sys
import numpy as np
spec = importlib.util.spec_from_file_location("cache", sys.argv[1])
cache = importlib.util.module_from_spec(spec)
spec.loader.exec_module(cache)
mine = float(sys.argv[2])
print("ready", flush=True)
sys.stdin.readline()
for turn in range(60):
    cache.write_arrays("key", {"a": np.full(50_000, mine), "b": np.full(3, mine)})
    found = cache.read_arrays("key")
    assert found is not None, turn
    assert set(found) == {"a", "b"}, found
    assert found["a"].size == 50_000
    assert (found["a"] == found["b"][0]).all(), turn
"""


def test_writers_at_once_leave_one_whole_file(folder):
    source = importlib.util.find_spec("pdgnn.io.cache").origin
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, source, str(number)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in range(3)
    ]
    for writer in writers:
        assert writer.stdout.readline() == "ready\n"
    for writer in writers:
        writer.stdin.write("go\n")
        writer.stdin.flush()
    for writer in writers:
        _, said = writer.communicate(timeout=600)
        assert writer.returncode == 0, said
    assert files(folder) == ["key.npz"]
    found = read_arrays("key")
    assert (found["a"] == found["b"][0]).all()
