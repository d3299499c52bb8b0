"""``pdgnn fit`` and ``pdgnn predict`` as a user has them."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

import commands
from commands import run
from pdgnn.estimator.classifier import PDClassifier
from pdgnn.io.atomic import claimed_folder

N = 60
IDS = [f"0{i:02d}" for i in range(N)]
QUICK = ("--minutes", "0.05", "-m", "pd-logistic")
FIT = ("fit", "edges.csv", "--nodes", "nodes.csv", "--label", "role", "--drop", "note")


def table(path: str, ids: list[str], *, roles: bool = True, note: bool = True) -> None:
    """Nodes of two roles that `size` tells apart; every fifth has none."""
    rows = [["id", "size", "kind", *(["note"] * note), *(["split", "role"] * roles)]]
    for i, name in enumerate(ids):
        role = ["" if i % 5 == 4 else ("hub", "leaf")[i % 2]]
        part = ["train" if i < N // 2 else ("val", "test")[i // 2 % 2]]  # one split is quick to fit
        row = [name, f"{i % 2 + i / 200:.3f}", "uvw"[i % 3]]
        rows.append([*row, *([f"about {name}"] * note), *((part + role) * roles)])
    with Path(path).open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows(rows)


def ring(path: str, ids: list[str]) -> None:
    pairs = zip(ids, ids[2:] + ids[:2], strict=True)
    Path(path).write_text("source,target\n" + "".join(f"{i},{j}\n" for i, j in pairs))


def refused(*words: str, message: str) -> None:
    """The command must fail as it should, and leave all files as they are."""
    before = sorted(map(str, Path().rglob("*")))
    commands.refused(*words, message=message)
    assert sorted(map(str, Path().rglob("*"))) == before


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    """A folder with tables and a model, and what the command said."""
    folder = tmp_path_factory.mktemp("fitted")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.delenv("FORCE_COLOR", raising=False)
        table("nodes.csv", IDS)
        ring("edges.csv", IDS)
        result = run(*FIT, *QUICK, "-o", "model")
    return folder, result


@pytest.fixture(autouse=True)
def here(fitted, monkeypatch):
    monkeypatch.chdir(fitted[0])
    monkeypatch.delenv("FORCE_COLOR", raising=False)


def read(path: str) -> list[dict[str, str]]:
    with Path(path).open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("force", [(), ("--force",)])
def test_a_folder_that_another_fit_is_to_write_is_refused_before_the_work(force):
    pytest.importorskip("fcntl")
    folder = "model" if force else "new"
    with claimed_folder(folder, busy="not mine"):
        refused(*FIT, *QUICK, "-o", folder, *force, message=f"{folder}: another pdgnn fit is to")
    assert not Path("new").exists()


def test_fit_shows_what_it_found_and_where_it_is(fitted):
    _, result = fitted
    lines = result.stdout.splitlines()
    assert lines[0] == "edges.csv: pd-logistic"
    for word in ("validation ROC AUC", "95% interval", "this model", "majority class", "The graph"):
        assert word in result.stdout
    assert result.stderr.endswith(
        "the model is in model, and the page that says why is model/report.html\n"
    )
    held = {p.name for p in Path("model").iterdir()}
    assert {"config.json", "model.safetensors", "README.md", "report.html"} <= held
    assert not [p for p in Path().iterdir() if p.name.startswith(".pdgnn")]


def test_predict_writes_the_nodes_without_a_label(tmp_path):
    result = run("predict", "model", "-o", f"{tmp_path}/p.csv")
    assert result.stderr == f"12 predictions are in {tmp_path}/p.csv\n"
    rows = read(f"{tmp_path}/p.csv")
    assert [row["id"] for row in rows] == IDS[4::5]
    assert list(rows[0]) == ["id", "prediction", "p_hub", "p_leaf"]
    for i, row in zip(range(4, N, 5), rows, strict=True):
        assert row["prediction"] == ("hub", "leaf")[i % 2]
        assert float(row["p_hub"]) + float(row["p_leaf"]) == pytest.approx(1, abs=1e-5)
    run("predict", "model", "-o", f"{tmp_path}/all.tsv", "--all")
    text = Path(tmp_path, "all.tsv").read_text().splitlines()
    assert text[0].split("\t") == ["id", "prediction", "p_hub", "p_leaf"]
    assert [line.split("\t")[0] for line in text[1:]] == IDS


def test_predict_takes_a_new_graph_with_the_same_columns(tmp_path):
    new = [f"new {i}" for i in range(20)]
    names = {n: str(tmp_path / n) for n in ("nodes.csv", "edges.csv", "p.parquet", "q.parquet")}
    ring(names["edges.csv"], new)
    words = ("predict", "model", "--edges", names["edges.csv"], "--nodes", names["nodes.csv"])
    for i, options in enumerate(({}, {"roles": False, "note": False})):
        table(names["nodes.csv"], new, **options)
        out = names["pq"[i] + ".parquet"]
        run(*words, "-o", out)
        found = pq.read_table(out)
        assert found.column("id").to_pylist() == new
        assert found.column("prediction").to_pylist() == ["hub", "leaf"] * 10
    same = [pq.read_table(names[f"{n}.parquet"]).column("p_hub").to_numpy() for n in "pq"]
    np.testing.assert_array_equal(*same)
    run("predict", "model", "--edges", str(tmp_path), "-o", f"{tmp_path}/folder.csv")
    assert len(read(f"{tmp_path}/folder.csv")) == 20
    text = Path(names["nodes.csv"]).read_text()
    Path(names["nodes.csv"]).write_text(text.replace(",u\n", ",U\n"))
    said = run(*words, "-o", f"{tmp_path}/other.csv").stderr
    assert "column 'kind': 7 nodes have a category unknown to the model" in said
    assert "unknown" not in run(*words[:2], "-o", f"{tmp_path}/fitted.csv").stderr
    Path(names["nodes.csv"]).write_text(text.replace("size", "length"))
    refused(*words, "-o", "new.csv", message="column 'size' is missing")
    Path(names["nodes.csv"]).write_text(text.replace("kind", "sort"))
    refused(*words, "-o", "new.csv", message="column 'kind' is missing")


def test_a_model_that_is_there_is_replaced_with_force_alone(tmp_path):
    target = str(tmp_path / "m" / "model")
    run(*FIT, *QUICK, "-o", target)
    first = json.loads(Path(target, "config.json").read_text())
    refused(*FIT, *QUICK, "-o", target, message="holds a model already; use --force")
    run(*FIT, *QUICK, "-o", target, "--force", "--seed", "3", "--metric", "accuracy")
    again = json.loads(Path(target, "config.json").read_text())
    assert (first["params"]["seed"], again["params"]["seed"]) == (0, 3)
    assert [p.name for p in Path(target).parent.iterdir()] == ["model"]


def test_bad_places_are_refused_before_anything_is_read(tmp_path):
    Path(tmp_path, "mine").mkdir()
    Path(tmp_path, "mine", "thesis.txt").write_text("x")
    gone = ("fit", "gone.csv", "-o")
    refused(*gone, f"{tmp_path}/mine", message="holds other files")
    refused(*gone, f"{tmp_path}/mine", "--force", message="holds other files")
    refused(*gone, "nodes.csv", message="is a file or a link")
    refused(*gone, "nodes.csv/model", message="cannot be written")
    refused(*gone, "m", "--max-gb", "nan", message="--max-gb must be a number")
    refused("predict", "model", "-o", "nodes.csv", message="the file exists")
    refused("predict", "model", "-o", "a.docx", message="files of this kind are not written")
    assert Path(tmp_path, "mine", "thesis.txt").exists()


def test_bad_options_are_one_line():
    for words, message in (
        (("--model", "nope"), "nope"),
        (("--minutes", "0"), "minutes"),
        (("--minutes", "nan"), "minutes"),
        (("--seed", "-1"), "seed"),
        (("--label", "size"), "this is a classifier"),
        (("--drop", "shoe"), "there is no column 'shoe' to drop"),
    ):
        refused(*FIT, *QUICK, "-o", "other", *words, message=message)
    for words in (("--impute", "mean"), ("--metric", "r2"), ("--device", "tpu"), ("--split", "x")):
        assert "Usage: " in run(*FIT, "-o", "other", *words, code=2).stderr
    refused("predict", "model", "-o", "a.csv", "--nodes", "nodes.csv", message="needs --edges")
    refused("predict", "model", "-o", "a.csv", "--edges", "x", "--all", message="--all is for")
    refused("predict", "gone", "-o", "a.csv", message="gone: ")
    refused("predict", "model", "-o", "a.csv", "--edges", "gone.csv", message="gone.csv: ")


def test_text_columns_and_missing_values_are_named():
    words = [w for w in FIT if w not in ("--drop", "note")]
    refused(*words, "-o", "other", message="column 'note' is text with 60 different values")


def test_options_reach_the_classifier_and_missing_numbers_are_filled(tmp_path, monkeypatch):
    seen = {}

    def record(self, table, **options):
        seen.update(self.get_params(), table=table, progress=options["progress"])
        raise KeyboardInterrupt

    monkeypatch.setattr(PDClassifier, "fit", record)
    result = run(
        *("fit", "edges.csv", "--nodes", "nodes.csv", "--label", "kind", "--id", "id"),
        *("--drop", "note", "--drop", "role", "--impute", "median", "--minutes", "7"),
        *("--model", "pd-gat", "--metric", "macro_f1", "--balanced", "--device", "cpu"),
        *("--seed", "5", "-o", str(tmp_path / "model")),
        code=130,
    )
    assert result.stderr == "stopped\n"
    assert seen["table"].dropped == ("note", "role")
    assert seen["table"].label_name == "kind"
    assert {k: seen[k] for k in ("model", "minutes", "device", "seed", "metric")} == {
        **{"model": "pd-gat", "minutes": 7, "device": "cpu", "seed": 5, "metric": "macro_f1"},
    }
    assert (seen["class_weight"], seen["impute"]) == ("balanced", "median")
    seen["progress"]("nobody is watching, and this is not worth a line yet")
    assert list(tmp_path.iterdir()) == []


def test_every_node_has_a_label(tmp_path):
    table("nodes.csv", IDS)
    full = Path("nodes.csv").read_text().replace(",\n", ",hub\n")
    Path(tmp_path, "nodes.csv").write_text(full)
    ring(f"{tmp_path}/edges.csv", IDS)
    run("fit", str(tmp_path), "--label", "role", "--drop", "note", *QUICK, "-o", f"{tmp_path}/m")
    refused("predict", f"{tmp_path}/m", "-o", "a.csv", message="every node of the fitted graph has")


def test_help_has_examples():
    assert "pdgnn fit edges.csv --nodes nodes.csv --label role -o model" in run("fit", "-h").stdout
    assert "pdgnn predict model -o predictions.csv" in run("predict", "--help").stdout
