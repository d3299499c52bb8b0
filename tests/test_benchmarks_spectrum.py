"""The benchmark of spectra: every peer finds the same, answers are judged, nothing runs twice."""

from __future__ import annotations

import os
import sys
import time
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"
MODULES = ("spectrum", "spectrum_peers", "spectrum_tables", "isolated", "families")
GRAPH = "neighbours/300/seed1"
K = 5


@pytest.fixture
def bench(monkeypatch):
    """The modules, by their names."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return {name: import_module(name) for name in MODULES}


@pytest.fixture
def peers(bench):
    return bench["spectrum_peers"]


@pytest.fixture
def part(bench, peers):
    return peers.Part.of(bench["families"].drawn(GRAPH))


def dense(part):
    """The eigenvalues of L_sym without 0, and their vectors."""
    adjacency = part.adjacency.toarray()
    root = adjacency.sum(axis=1) ** -0.5
    values, vectors = np.linalg.eigh(np.eye(len(root)) - root[:, None] * adjacency * root)
    return values[1:], vectors[:, 1:]


@pytest.mark.parametrize("k", [1, K])
def test_every_method_finds_what_a_dense_solver_finds(bench, peers, part, k):
    g = bench["families"].drawn(GRAPH)
    wanted = dense(part)[0][:k]
    for method in peers.METHODS:
        if method == "cuda":
            continue
        row = peers.measure(g, part, method, k)
        exact = method not in {"pyg", "lobpcg", "sklearn-amg", "sklearn-amg-1e-8"}  # 20 steps
        assert row["residual"] <= (1e-8 if exact else 1e-3), method
        assert row["eigenvalue"] == pytest.approx(wanted[0], abs=1e-13 if exact else 1e-6), method
        assert row["trace"] == pytest.approx(wanted.sum(), abs=1e-12 if exact else 1e-5), method
        assert row["seconds"] > 0
        assert row["runs"] >= 1


def test_a_residual_is_that_of_the_worst_vector(peers, part):
    vectors = dense(part)[1][:, :K]
    assert peers.judged(part, 3 * vectors)["residual"] < 1e-13
    off = vectors.copy()
    off[:, 2] += 1e-5 * vectors[:, 4]
    values = dense(part)[0]
    found = peers.judged(part, off)["residual"]
    assert found == pytest.approx(1e-5 * (values[4] - values[2]), rel=1e-3)


@pytest.mark.parametrize("columns", [[0, 1, 2, 3, 5], [1, 2, 3, 4, 5], [0, 1, 2, 3, 3]])
def test_a_missed_eigenvalue_is_seen_in_the_sum(peers, part, columns):
    values, vectors = dense(part)
    found = peers.judged(part, vectors[:, columns])
    assert found["trace"] > values[:K].sum() + 1e-6


def test_the_trivial_vector_is_no_answer(peers, part):
    values, vectors = dense(part)
    with_trivial = np.column_stack([part.root, vectors[:, :4]])
    found = peers.judged(part, with_trivial)
    assert found["residual"] < 1e-13
    assert found["trace"] > values[:K].sum() + 1e-6


def row_of(graph, method, k, seconds, *, residual=1e-12, trace=0.5, machine="here", **more):
    answer = {"residual": residual, "eigenvalue": trace / k, "trace": trace}
    size = {"nodes": 1000, "edges": 3000, "peak_mib": 12.0}
    row = {"graph": graph, "method": method, "k": k, "seconds": seconds, "machine": machine}
    return row | (answer if seconds else {}) | size | more


ROWS = [
    row_of("cora", "pdgnn", 1, 0.1),
    row_of("cora", "path", 1, 0.4),
    row_of("cora", "eigsh", 1, 0.05),
    row_of("cora", "pyg", 1, 0.04, residual=1e-6),
    row_of("cora", "lobpcg", 1, 0.01, trace=0.6),
    row_of("cora", "sklearn", 1, None, limit=5.0, note="stopped after 5 s"),
    row_of("cora", "cuda", 1, 0.02, machine="elsewhere"),
    row_of("tree/1000/seed0", "pdgnn", 8, 0.1),
    row_of("tree/1000/seed0", "eigsh", 8, 0.2),
    row_of("tree/1000/seed0", "pyg", 8, None, note="MemoryError"),
    row_of("chain/1000/seed0", "pdgnn", 8, 0.1),
    row_of("chain/1000/seed0", "eigsh", 8, 0.8),
    row_of("chain/1000/seed0", "pyg", 8, 0.05, residual=1e-6),
    row_of("box/1000/seed0", "pdgnn", 8, 0.5),
    row_of("box/1000/seed0", "eigsh", 8, None, limit=5.0, note="stopped after 5 s"),
    row_of("box/1000/seed0", "pyg", 8, 0.7, trace=0.7),
    row_of("lobes/1000/seed0", "pdgnn", 8, 0.01),
    row_of("lobes/1000/seed0", "eigsh", 8, 0.001),  # too short to count
    row_of("lobes/1000/seed0", "pyg", 8, 0.001, residual=1e-6),
]


def test_what_an_answer_is_worth(bench):
    measured = bench["spectrum_tables"].Measured(ROWS)
    found = {r["method"]: measured.state(r) for r in ROWS if r["graph"] == "cora"}
    assert found.pop("pdgnn") == found.pop("path") == found.pop("cuda") == "right"
    assert found == {"eigsh": "right", "pyg": "rough", "lobpcg": "wrong", "sklearn": "stopped"}
    assert measured.state(ROWS[9]) == "failed"
    nothing = row_of("cora", "sklearn-amg", 1, 0.1, residual=float("nan"), trace=float("nan"))
    assert measured.state(nothing) == "wrong"


def test_a_tiny_eigenvalue_is_not_hidden_by_a_residual_of_its_size(bench):
    rows = [row_of("chain", "pdgnn", 1, 1.0, trace=5e-10, residual=1e-16)]
    rows += [row_of("chain", "eigsh", 1, 1.0, trace=6e-10, residual=5e-9)]
    measured = bench["spectrum_tables"].Measured(rows)
    assert [measured.state(row) for row in rows] == ["right", "wrong"]


def test_the_table_of_fixed_rows(bench):
    text = bench["spectrum_tables"].tables(ROWS, ["cora"], "here")
    lines = text.splitlines()
    heads = "| graph | nodes | edges | pdgnn | path | pyg | eigsh | sklearn | lobpcg | cuda |"
    assert lines[0].startswith(heads)
    cells = "| cora | 1,000 | 3,000 | 0.1 | 0.4 | 0.04* | 0.05 | > 5 | (0.01) | 0.02 |"
    assert lines[2] == f"{cells} 0.5 | 4.0 | 1e-12 | 12 |"
    assert "The family of seed0, 4 graphs, best peer / pdgnn:" in lines
    mean = (2 * 8 * 10) ** (1 / 3)
    assert f"| 8 | 3 | 2 | tree/1000/seed0 | eigsh | > {mean:.2f} | 0 | 0 | 1 |" in lines
    assert "| pyg | 0.5, 0.50 | 0 % | 25 % | 25 % | 50 % |" in lines
    assert f"| eigsh | 2, > {mean:.2f} | 25 % | 0 % | 0 % | 0 % |" in lines


def test_answers_of_ours_that_are_not_right_are_counted(bench):
    rows = [*ROWS, row_of("roads/1000/seed0", "pdgnn", 8, 0.1, trace=0.9)]
    rows.append(row_of("roads/1000/seed0", "eigsh", 8, 0.2))
    text = bench["spectrum_tables"].tables(rows, [], "here")
    (line,) = (line for line in text.splitlines() if line.startswith("| 8 | 3 |"))
    assert line.endswith("| 1 | 1 |")


def test_the_picture_is_drawn(bench, tmp_path):
    tables = bench["spectrum_tables"]
    tables.draw(tables.of_seed(ROWS, "seed0"), tmp_path / "spectrum.json")
    assert (tmp_path / "spectrum.png").read_bytes().startswith(b"\x89PNG")
    assert "1,000 nodes" in (tmp_path / "spectrum.svg").read_text()


def run(bench, monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", ["spectrum.py", *map(str, arguments)])
    bench["spectrum"].main()
    return bench["spectrum"].read_rows(Path(arguments[-1]))


@pytest.fixture
def asked(bench, monkeypatch):
    """What is measured, by a clock that tells the next of 0.5, 0.4, 0.3, … s."""
    made = []

    def measured(work, what, cases, limits):
        made.append((*what, list(cases), list(limits)))
        seconds = 0.6 - 0.1 * len(made)
        return [
            {"seconds": seconds, "residual": 1e-12, "eigenvalue": 0.5, "trace": 0.5 * k}
            | {"nodes": 9, "edges": 9, "peak_mib": 1.0}
            for k in cases
        ]

    monkeypatch.setattr(bench["isolated"], "measured", measured)
    return made


def test_what_is_there_is_not_run_twice(bench, monkeypatch, tmp_path, asked, capsys):
    results = tmp_path / "spectrum.json"
    first = ("--graphs", GRAPH, "--methods", "eigsh,pdgnn", "--k", 1, "--results", results)
    rows = run(bench, monkeypatch, *first)
    own, other = (GRAPH, "pdgnn", [1]), (GRAPH, "eigsh", [1])
    assert [case[:3] for case in asked] == [own, other, own, other]  # two rounds, ours first
    assert [case[3] for case in asked] == [[300.0], [3.0], [300.0], [3.0]]
    assert [(r["method"], r["seconds"]) for r in rows] == [
        ("pdgnn", pytest.approx(0.3)),
        ("eigsh", pytest.approx(0.2)),
    ]
    assert rows[1]["command"] == f"python benchmarks/spectrum.py --graphs {GRAPH} --methods eigsh"
    assert rows[1]["versions"]["scipy"]
    asked.clear()
    more = ("--graphs", GRAPH, "--methods", "pdgnn,path", "--k", "1,8", "--rounds", 1)
    run(bench, monkeypatch, *more, "--results", results)
    assert [case[:3] for case in asked] == [(GRAPH, "pdgnn", [8]), (GRAPH, "path", [1])]
    asked.clear()
    kept = run(bench, monkeypatch, *more, "--results", results)
    assert not asked
    assert len(kept) == 4
    run(bench, monkeypatch, "--again", *more, "--results", results)
    assert [case[2] for case in asked] == [[1, 8], [1]]
    capsys.readouterr()


def test_a_family_is_measured_at_the_sizes_asked_for(bench, monkeypatch, tmp_path, asked, capsys):
    options = ("--family", 4, "--sizes", 300, "--methods", "pdgnn", "--rounds", 1)
    rows = run(bench, monkeypatch, *options, "--results", tmp_path / "spectrum.json")
    names = bench["families"].members(4, [300])
    assert [case[0] for case in asked] == names
    assert [(r["graph"], r["k"]) for r in rows] == [(n, k) for n in names for k in (1, 8, 32)]
    assert "The family of seed4, 20 graphs" in capsys.readouterr().out


def test_the_number_of_threads_is_set_and_kept(bench, monkeypatch, tmp_path, asked, capsys):
    names = bench["spectrum"].THREADS
    for name in names:
        monkeypatch.setenv(name, "5")  # put back afterwards
    options = ("--graphs", GRAPH, "--methods", "pdgnn", "--k", 1, "--threads", 1, "--rounds", 1)
    rows = run(bench, monkeypatch, *options, "--results", tmp_path / "spectrum.json")
    assert [row["command"].endswith(" --threads 1") for row in rows] == [True]
    assert {os.environ[name] for name in names} == {"1"}
    capsys.readouterr()


def test_a_peer_is_stopped_when_it_is_surely_slower(bench, monkeypatch, tmp_path, capsys):
    clock = {"pdgnn": 20.0, "pyg": 9.0, "eigsh": 10.0, "lobpcg": 60.0}
    limits = {}

    def measured(work, what, cases, given):
        limits[what[1]] = given[0]
        accuracy = 1e-6 if what[1] == "pyg" else 1e-12
        return [row_of(*what, k, clock[what[1]], residual=accuracy) for k in cases]

    monkeypatch.setattr(bench["isolated"], "measured", measured)
    results = tmp_path / "spectrum.json"
    options = ("--graphs", GRAPH, "--methods", ",".join(clock), "--k", 1, "--results", results)
    run(bench, monkeypatch, *options)
    assert limits == {"pdgnn": 300.0, "pyg": 80.0, "eigsh": 80.0, "lobpcg": 40.0}
    clock["eigsh"] = 1.0
    run(bench, monkeypatch, "--again", "--limit", 25, *options)
    assert limits["lobpcg"] == 25.0
    run(bench, monkeypatch, "--again", *options)
    assert limits["lobpcg"] == 30.0
    capsys.readouterr()


def test_others_begin_with_another_at_every_turn(bench):
    ordered = bench["spectrum"].ordered
    methods = ["pyg", "pdgnn", "eigsh", "lobpcg"]
    assert ordered(methods, 0) == ["pdgnn", "pyg", "eigsh", "lobpcg"]
    assert ordered(methods, 4) == ["pdgnn", "eigsh", "lobpcg", "pyg"]


def test_a_second_round_is_for_ours_and_what_comes_near(bench, monkeypatch, tmp_path, capsys):
    clock = {"pdgnn": 0.3, "eigsh": 0.1, "pyg": 0.5, "shift-invert": 0.7, "lobpcg": 2.0}
    made = []

    def measured(work, what, cases, limits):
        made.append(what[1])
        slower = 0.01 * len(made)
        return [row_of(what[0], what[1], k, clock[what[1]] + slower) for k in cases]

    monkeypatch.setattr(bench["isolated"], "measured", measured)
    results = tmp_path / "spectrum.json"
    options = ("--graphs", GRAPH, "--methods", ",".join(clock), "--k", 1, "--results", results)
    rows = run(bench, monkeypatch, *options)
    assert made == [*clock, "pdgnn", "eigsh", "pyg"]
    assert rows[0]["seconds"] == pytest.approx(0.31)  # the second was slower, and is not kept
    capsys.readouterr()


def slow_or_broken(connection, what, cases):
    """Return at once, sleep, or end without a word."""
    connection.send(None)
    for case in cases:
        if case == "sleep":
            time.sleep(60)
        if case == "end":
            os._exit(3)
        connection.send(None)
        connection.send({"seconds": 1.0, "case": case, "what": what})


def test_a_process_that_is_stopped_or_breaks_is_followed_by_another(bench):
    isolated = bench["isolated"]
    cases = ["a", "sleep", "b", "end", "c"]
    limits = [60.0, 0.2, 60.0, 60.0, 60.0]
    rows = list(isolated.measured(slow_or_broken, "w", cases, limits))
    assert [row.get("case") for row in rows] == ["a", None, "b", None, "c"]
    assert rows[1] == {"seconds": None, "limit": 0.2, "note": "stopped after 0.2 s"}
    assert rows[3] == {"seconds": None, "note": "ended with exit code 3"}


def test_a_graph_is_measured_by_a_process(bench, monkeypatch, tmp_path, capsys):
    options = ("--graphs", GRAPH, "--methods", "pdgnn,eigsh", "--k", "1,400", "--rounds", 1)
    rows = run(bench, monkeypatch, *options, "--results", tmp_path / "spectrum.json")
    found = {(r["method"], r["k"]): r for r in rows}
    assert found["pdgnn", 1]["eigenvalue"] == pytest.approx(found["eigsh", 1]["eigenvalue"])
    assert found["pdgnn", 1]["seconds"] > 0
    assert found["eigsh", 400]["seconds"] is None  # more than there are
    assert "k" in found["eigsh", 400]["note"]
    assert GRAPH in capsys.readouterr().out
