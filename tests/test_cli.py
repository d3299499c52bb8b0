"""The command line as a user has it: output, exit codes, and one line for what goes wrong."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

import pdgnn
from commands import refused, run
from filing import npz
from pdgnn import Graph, rewire
from pdgnn.io import read_graph_file

PATH = "source,target\n0,1\n1,2\n2,3\n3,4\n"
NAMED = "bob,ann\nann,cid\ncid,dan\n"


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """Every test in a folder of its own, with two graphs."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    Path("path.csv").write_text(PATH)
    Path("named.csv").write_text(NAMED)


def files() -> set[str]:
    mine = {"path.csv", "named.csv", "cache"}
    return {path.name for path in Path().iterdir()} - mine


def test_version_and_help():
    assert run("--version").stdout == f"pdgnn {pdgnn.__version__}\n"
    for words in (["--help"], ["-h"]):
        said = run(*words).stdout
        assert "inspect" in said
        assert "rewire" in said
    assert "pdgnn inspect cora --json | jq .homophily.adjusted" in run("inspect", "--help").stdout
    assert "pdgnn rewire friends.csv -o friends-rewired.csv" in run("rewire", "-h").stdout


def test_inspect_shows_the_facts():
    lines = run("inspect", "path.csv").stdout.splitlines()
    assert lines[:6] == [
        "path.csv",
        "  nodes       5",
        "  edges       4 undirected, not weighted",
        "  degree      min 1, median 2, mean 1.6, max 2",
        "  components  1",
        "  changes     4 one-way edges made two-way",
    ]
    assert "  gradient node  0, of degree 1, at α = 1, γ = 1" in lines
    assert "  reach all      would add 3 edges (75.0% more)" in lines
    assert "Homophily" not in lines
    assert not any(line.endswith(" ") for line in lines)


def test_inspect_shows_labels_and_what_is_undefined():
    labels = np.array([0, 0, 0, -1])
    Path("a.npz").write_bytes(npz(edges=np.array([[0, 1], [1, 2]]), node_labels=labels))
    said = run("inspect", "a.npz", "--gammas", "1").stdout
    assert "  classes     1 (0: 3); 1 nodes unlabelled\n" in said
    assert "   node   edge      class  aggregation   adjusted  label informativeness\n" in said
    assert "  1.000  1.000  undefined    undefined  undefined              undefined\n" in said
    assert "  class, aggregation undefined: all labelled nodes are in one class\n" in said
    assert "  adjusted, label informativeness undefined: all edges lie in one class\n" in said
    assert "components  2, the largest of 3 nodes; 1 of one node, without edges\n" in said


def test_inspect_shows_names_weights_and_splits():
    Path("w.tsv").write_text("a\tb\t0.5\nb\tc\t2.25\n")
    said = run("inspect", "w.tsv").stdout
    assert "weighted degree  min 0.5, median 2.25, mean 1.83, max 2.75\n" in said
    assert "gradient node  a (node number 0), of degree 0.5, at" in said
    masks = {
        f"{part}_masks": np.eye(3, dtype=bool)[[i] * 2]
        for i, part in enumerate(("train", "val", "test"))
    }
    masks["val_masks"][1] = False
    Path("a.npz").write_bytes(
        npz(edges=np.array([[0, 1], [1, 2]]), node_features=np.ones((3, 4)), **masks)
    )
    said = run("inspect", "a.npz").stdout
    assert "  features    4\n" in said
    assert "  splits      2 (train 1, val 0 to 1, test 1)\n" in said


@pytest.mark.parametrize("nodes", [1, 3])
def test_inspect_works_without_edges(nodes):
    Path("dots.npz").write_bytes(npz(edges=np.zeros((0, 2), int), num_nodes=nodes))
    said = run("inspect", "dots.npz").stdout
    assert "  edges       0 undirected" in said
    assert said.endswith("  The graph has no edges: there are no neighbours to learn from.\n")
    assert "Spectrum" not in said
    assert json.loads(run("inspect", "dots.npz", "--json").stdout)["gradient_node"] is None


def test_inspect_says_where_a_solver_gave_up():
    rows = "".join(f"0,{i}\n" for i in range(1, 3102))
    Path("star.csv").write_text(rows)
    said = " ".join(run("inspect", "star.csv", "--gammas", "1").stdout.split())
    assert "not solved at every γ: λ = 1 repeats more than 63 times" in said
    refused("rewire", "star.csv", "-o", "out.csv", message="repeats more than 63 times")
    assert files() == {"star.csv"}


def test_json_is_one_object_of_the_options_asked_for():
    words = ("inspect", "named.csv", "--json", "--gammas", "0.25,1", "--gamma", "0.5")
    result = run(*words, "--alpha", "0")
    facts = json.loads(result.stdout)
    assert result.stderr == ""
    assert facts["name"] == "named.csv"
    assert [row["gamma"] for row in facts["spectrum"]] == [0.25, 0.5, 1.0]
    assert facts["gradient_node"]["id"] == "bob"
    assert (facts["gradient_node"]["alpha"], facts["gradient_node"]["gamma"]) == (0.0, 0.5)


def test_a_generated_board_is_drawn_into_a_new_folder():
    words = ("inspect", "minesweeper-generated:size=6,seed=3", "--plot", "demo/board.png")
    result = run(*words)
    assert result.stdout.startswith("minesweeper-generated:size=6,seed=3\n  nodes       36\n")
    assert result.stderr == "the picture is in demo/board.png\n"
    assert Path("demo/board.png").read_bytes().startswith(b"\x89PNG")
    Path("demo/board.png").write_text("old")
    refused(*words, message="demo/board.png: the file exists; name another, or replace it with")
    assert Path("demo/board.png").read_text() == "old"
    again = run(*words, "--json", "--force")
    assert json.loads(again.stdout)["nodes"] == 36
    assert Path("demo/board.png").read_bytes().startswith(b"\x89PNG")
    assert [path.name for path in Path("demo").iterdir()] == ["board.png"]


def test_a_plot_without_edges_is_an_error_after_the_facts():
    Path("dots.npz").write_bytes(npz(edges=np.zeros((0, 2), int), num_nodes=3))
    result = run("inspect", "dots.npz", "--plot", "a.png", code=2)
    assert "  nodes       3\n" in result.stdout
    assert result.stderr == "error: there is no embedding to draw, as the graph has no edges\n"
    assert files() == {"dots.npz"}


def test_without_matplotlib_a_plot_is_refused_at_once(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    refused("inspect", "path.csv", "--plot", "a.png", message="pip install 'pdgnn[plot]'")


@pytest.mark.parametrize("reach", ["all", "far"])
@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".parquet", ".npz", ".graphml"])
def test_rewire_writes_what_the_library_makes(suffix, reach):
    for name in ("path", "named"):
        g = Graph.load(f"{name}.csv")
        output = f"{name}-{reach}{suffix}"
        words = ("rewire", f"{name}.csv", "-o", output, "--reach", reach)
        result = run(*words, "--gamma", "0.5", "--alpha", "0.5")
        expected = rewire(g, alpha=0.5, gamma=0.5, reach=reach)
        back = Graph.load(output)
        assert back == expected
        assert back != g
        assert result.stderr == ""
        assert result.stdout.splitlines()[:2] == expected.why
        if name == "named" and suffix != ".npz":
            assert back.node_ids.tolist() == g.node_ids.tolist()


def test_rewire_names_the_gradient_nodes():
    Path("two.csv").write_text("ann,bob\nbob,cid\nx,y\n")
    assert run("rewire", "two.csv", "-o", "out.csv").stdout.splitlines()[-2:] == [
        "gradient node ann, in a component of 3 nodes: 1 edge",
        "gradient node x, in a component of 2 nodes: 0 edges",
    ]


def test_rewire_keeps_features_labels_and_splits_in_an_npz():
    board = "minesweeper-generated:size=5"
    result = run("rewire", board, "-o", "board.npz")
    assert result.stderr == ""
    data = pdgnn.datasets.load(board)
    raw = read_graph_file("board.npz")
    assert raw.features.tolist() == data.x.tolist()
    assert raw.labels.tolist() == data.y.tolist()
    assert raw.masks["val"].T.tolist() == data.val_mask.tolist()
    assert Graph.load("board.npz") == rewire(Graph.from_data(data))
    told = run("rewire", board, "-o", "board.csv").stderr
    assert told == (
        "board.csv holds the edges alone; "
        "write an .npz to keep the features and labels and splits\n"
    )


def test_rewire_replaces_a_file_only_by_force():
    Path("out.csv").write_text("old")
    refused("rewire", "path.csv", "-o", "out.csv", message="out.csv: the file exists")
    assert Path("out.csv").read_text() == "old"
    run("rewire", "path.csv", "-o", "out.csv", "--force")
    assert Graph.load("out.csv").num_edges == 7
    run("rewire", "path.csv", "-o", "path.csv", "--force")  # onto itself
    assert Graph.load("path.csv") == Graph.load("out.csv")


def test_bad_graphs_are_one_line():
    Path("empty.csv").write_text("")
    Path("nan.npz").write_bytes(npz(edges=np.array([[0, 1]]), node_features=[[1.0], [np.nan]]))
    Path("range.npz").write_bytes(npz(edges=np.array([[0, 5]]), num_nodes=2))
    Path("folder.csv").mkdir()
    for name, message in (
        ("gone.csv", "gone.csv: there is no such file"),
        ("gone", "'gone' is neither a file nor a dataset; datasets are cora,"),
        ("[red]x[/red]", "'[red]x[/red]' is neither"),
        ("a\nb\x1b[31m", "is neither a file"),
        ("empty.csv", "empty.csv: the file is empty"),
        ("nan.npz", "nan.npz: node 1 has a feature that is not finite"),
        ("range.npz", "range.npz: edges[0] is [0, 5], but there are 2 nodes"),
        ("folder.csv", "this is a folder"),
        ("minesweeper-generated:size=0", "size must be a whole number of at least 1"),
        ("minesweeper-generated:sise=9", "no option 'sise'"),
    ):
        refused("inspect", name, message=message)
        refused("inspect", name, "--json", message=message)
        refused("rewire", name, "-o", "out.csv", message=message)
    assert not Path("out.csv").exists()


def test_malformed_graphs_are_one_line():
    two = np.array([[0, 1]])
    Path("nodes.npz").write_bytes(npz(edges=two, num_nodes=2**62))
    Path("unsigned.npz").write_bytes(npz(edges=two, num_nodes=np.uint64(2**64 - 1)))
    Path("labels.npz").write_bytes(npz(edges=two, node_labels=np.array([0, 2**64 - 1], np.uint64)))
    Path("names.npz").write_bytes(npz(edges=two, node_ids=np.array(7)))
    masks = {f"{part}_masks": np.zeros((0, 2), bool) for part in ("train", "val", "test")}
    Path("masks.npz").write_bytes(npz(edges=two, **masks))
    Path("seven.graphml").write_text("<?xml version='1.0' encoding='utf-7'?><graphml/>")
    Path("two.graphml").write_text("<graphml><graph><node id='a'/></graph><graph/></graphml>")
    for name, message in (
        ("nodes.npz", "nodes.npz: it holds more than "),
        ("unsigned.npz", "unsigned.npz: it holds more than "),
        ("labels.npz", "labels.npz: node_labels holds 18446744073709551615"),
        ("names.npz", "names.npz: node_ids is int64 of shape ()"),
        ("masks.npz", "masks.npz: train_masks has shape (0, 2)"),
        ("seven.graphml", "seven.graphml: its encoding is not read"),
        ("two.graphml", "two.graphml: line 1 has a second graph"),
    ):
        refused("inspect", name, message=message)
        refused("rewire", name, "-o", "out/out.csv", message=message)
        assert list(Path("out").iterdir()) == []


def test_a_file_may_unpack_to_as_much_as_is_said():
    Path("zeros.npz").write_bytes(npz(edges=np.zeros((100_000, 2), int), num_nodes=2))
    message = "zeros.npz: it holds more than 0.001 GB when unpacked"
    refused("inspect", "zeros.npz", "--max-gb", "0.001", message=message)
    refused("rewire", "zeros.npz", "-o", "a.csv", "--max-gb", "0.001", message=message)
    for wrong in ("nan", "-1", "inf"):
        refused("inspect", "gone.csv", "--max-gb", wrong, message="--max-gb must be a number")
    assert files() == {"zeros.npz"}
    assert "  nodes       2\n" in run("inspect", "zeros.npz", "--max-gb", "0.01").stdout


def test_bad_options_are_one_line_before_anything_is_read():
    for words, message in (
        (["--alpha", "2"], "alpha must be a number in [0, 1], not 2.0"),
        (["--gamma", "nan"], "gamma must be a number in [0, 1], not nan"),
        (["--gammas", "0,x"], "--gammas takes numbers such as 0,0.5,1, not '0,x'"),
        (["--gammas", "0,1.5"], "gamma must be a number in [0, 1], not 1.5"),
        (["--gammas", ", "], "--gammas is empty"),
        (["--plot", "a.bmp"], "a.bmp: files of this kind are not written; use .png, .svg, .pdf"),
        (["--plot", "path.csv/a.png"], "path.csv is a file, not a folder"),
    ):
        refused("inspect", "gone.csv", *words, message=message)
    for words, message in (
        (["-o", "a.xyz"], "a.xyz: files of this kind are not written; use .csv, .tsv"),
        (["-o", "path.csv/a.csv"], "path.csv is a file, not a folder"),
        (["-o", "a.csv", "--gamma", "-1"], "gamma must be a number in [0, 1], not -1.0"),
    ):
        refused("rewire", "gone.csv", *words, message=message)
    assert files() == set()


def test_a_missing_gpu_is_one_line(monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    message = "needs a CUDA GPU and there is none"
    refused("inspect", "path.csv", "--device", "cuda", message=message)
    refused("rewire", "path.csv", "-o", "a.csv", "--device", "cuda", message=message)


def test_wrong_usage_exits_with_2():
    for words in (
        ["inspect"],
        ["inspect", "path.csv", "--nonsense"],
        ["inspect", "path.csv", "--alpha", "much"],
        ["inspect", "path.csv", "--device", "tpu"],
        ["rewire", "path.csv"],
        ["rewire", "path.csv", "-o", "a.csv", "--reach", "near"],
        ["nonsense"],
    ):
        result = run(*words, code=2)
        assert "Usage: " in result.stderr
        assert result.stdout == ""


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (KeyboardInterrupt(), 130, "stopped\n"),
        (MemoryError(), 2, "error: there is not enough memory for this graph; try a smaller one\n"),
        (OSError(5, "Input/output error"), 2, "error: [Errno 5] Input/output error\n"),
    ],
)
def test_what_stops_the_work_is_one_line(monkeypatch, error, code, line):
    def fail(*_, **__):
        raise error

    monkeypatch.setattr("pdgnn.spectrum.eigenpairs", fail)
    result = run("rewire", "path.csv", "-o", "a.csv", code=code)
    assert (result.stdout, result.stderr) == ("", line)
    assert files() == set()


def test_a_bug_is_not_hidden(monkeypatch):
    def fail(*_, **__):
        raise ZeroDivisionError

    monkeypatch.setattr("pdgnn.spectrum.eigenpairs", fail)
    with pytest.raises(ZeroDivisionError):
        run("rewire", "path.csv", "-o", "a.csv", code=1)
