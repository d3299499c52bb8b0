"""The folder of a model: what goes in comes out, and what was changed is refused."""

from __future__ import annotations

import json
import math
import shutil
from copy import copy as copy_of
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pdgnn import InputError, PDClassifier, datasets
from pdgnn.estimator.card import model_card

pytestmark = pytest.mark.usefixtures("no_clock")
GRAPH = "synthetic:num_nodes=200,homophily=0.1,num_classes=3,seed=1"


@pytest.fixture(scope="module")
def data():
    return datasets.load(GRAPH)


@pytest.fixture(scope="module")
def clf(data):
    """One whose average has networks and trees, whatever validation thinks of them."""
    found = PDClassifier(minutes=0.1).fit(data)
    assert found.members_
    return found


@pytest.fixture(scope="module")
def folder(clf, tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("saved") / "model"
    clf.save(path)
    return path


@pytest.fixture
def copy(folder, tmp_path) -> Path:
    return Path(shutil.copytree(folder, tmp_path / "model"))


@pytest.mark.parametrize(
    "model",
    ["logistic", "pd-logistic", "pd-trees", "trees", "pd-gat-sep", "pd-net", "gcn", "linkx"],
)
def test_every_kind_of_member_comes_back(model, data, tmp_path):
    clf = PDClassifier(model=model, minutes=0.05).fit(data)
    clf.save(tmp_path / "model")
    back = PDClassifier.load(tmp_path / "model")
    np.testing.assert_array_equal(back.proba_, clf.proba_)
    np.testing.assert_array_equal(back.predict_proba(data), clf.predict_proba(data))
    np.testing.assert_allclose(back.predict_proba(data), clf.proba_, atol=1e-6)
    assert back.predict().tolist() == clf.predict().tolist()
    assert back.model_ == clf.model_ == model


def test_all_else_comes_back(clf, folder):
    back = PDClassifier.load(folder)
    assert back.get_params() == clf.get_params()
    for name in ("model_", "alpha_", "gamma_", "depth_", "rewired_", "metric_", "notes_"):
        assert getattr(back, name) == getattr(clf, name)
    for name in ("classes_", "ids_", "y_", "part_", "honest_"):
        np.testing.assert_array_equal(getattr(back, name), getattr(clf, name))
    assert back.estimate_ == clf.estimate_
    assert [r["name"] for r in back.leaderboard_] == [r["name"] for r in clf.leaderboard_]


def test_a_loaded_model_says_that_it_has_no_graph_to_attend_to(folder):
    back = PDClassifier.load(folder)
    with pytest.raises(AttributeError, match="attention_ is of the fitted graph, which a saved"):
        _ = back.attention_


def test_strings_stay_strings(data, tmp_path):
    labels = np.array(["a", "b", "c"], dtype=object)[data.y]
    clf = PDClassifier(model="logistic", minutes=0.02).fit(
        data.x.numpy(), labels, edges=data.edge_index
    )
    clf.save(tmp_path / "model")
    back = PDClassifier.load(tmp_path / "model")
    assert back.classes_.tolist() == ["a", "b", "c"]
    assert back.predict().tolist() == clf.predict().tolist()
    back.save(tmp_path / "again")
    assert PDClassifier.load(tmp_path / "again").predict().tolist() == clf.predict().tolist()


def test_nothing_in_it_is_pickled_and_the_card_speaks(folder):
    suffixes = {f.suffix for f in folder.iterdir()}
    assert suffixes <= {".json", ".safetensors", ".parquet", ".txt", ".md", ".html"}
    assert not any(f.read_bytes().startswith(b"\x80") for f in folder.iterdir())
    card = (folder / "README.md").read_text()
    assert "majority class" in card
    assert "labelled" in card


def test_a_card_without_an_estimate_has_no_nan(clf):
    none = replace(clf.estimate_, score=math.nan, low=math.nan, high=math.nan)
    other = copy_of(clf)
    other.estimate_ = replace(none, baselines={"MLP": (0.5, math.nan, math.nan)})
    card = model_card(other)
    assert "| **not known** |" in card
    assert "| MLP | 50.00 |" in card
    assert "nan" not in card


def test_all_files_may_be_read_by_the_same_people(folder):
    assert len({file.stat().st_mode for file in folder.iterdir()}) == 1


def test_a_folder_is_not_overwritten_by_accident(clf, copy, tmp_path):
    with pytest.raises(InputError, match="force"):
        clf.save(copy)
    clf.save(copy, force=True)
    PDClassifier.load(copy)
    other = tmp_path / "other"
    other.mkdir()
    (other / "thesis.txt").write_text("precious")
    with pytest.raises(InputError, match="other files"):
        clf.save(other, force=True)
    assert (other / "thesis.txt").read_text() == "precious"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["model", "other"]


def test_what_fails_leaves_nothing(clf, tmp_path, monkeypatch):
    from pdgnn.estimator import saved

    monkeypatch.setattr(saved, "model_card", lambda _: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        clf.save(tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


def changed_config(folder: Path, change) -> None:
    file = folder / "config.json"
    config = json.loads(file.read_text())
    change(config)
    file.write_text(json.dumps(config))


@pytest.mark.parametrize("name", ["model.safetensors", "predictions.parquet", "metrics.json"])
def test_a_changed_truncated_or_missing_file_is_refused(copy, name):
    file = copy / name
    whole = file.read_bytes()
    file.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.raises(InputError, match=f"{name} is not the file"):
        PDClassifier.load(copy)
    file.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match=f"{name} is not the file"):
        PDClassifier.load(copy)
    file.unlink()
    with pytest.raises(InputError, match=f"{name} is missing"):
        PDClassifier.load(copy)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda c: c.update(format=99), "newer"),
        (lambda c: c.update(format="x"), "not that of a model"),
        (lambda c: c.pop("classes"), "damaged"),
        (lambda c: c.update(classes=7), "damaged"),
        (lambda c: c["files"].pop("model.safetensors"), "does not name all files"),
        (lambda c: c["files"].update({"../up": "0"}), "outside"),
        (lambda c: c.update(members=[{"a": 1}]), "damaged"),
        (lambda c: c["params"].update(cheese=1), "damaged"),
        (lambda c: c.update(encoder={"a": 1}), "fit"),
        (lambda c: c["members"][0]["models"][0].update(kind="oracle"), "damaged"),
        (lambda c: c["members"][0]["models"][0].update(files={"a": "../up"}), "not the model's"),
    ],
)
def test_a_changed_config_is_refused(copy, change, said):
    changed_config(copy, change)
    with pytest.raises(InputError, match=said) as e:
        PDClassifier.load(copy)
    assert len(str(e.value).splitlines()) == 1
    assert str(copy) in str(e.value)


def test_files_that_are_no_model_are_refused(tmp_path):
    with pytest.raises(InputError, match=r"no config\.json"):
        PDClassifier.load(tmp_path)
    with pytest.raises(InputError, match=r"nowhere: there is no such folder"):
        PDClassifier.load(tmp_path / "nowhere")
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(InputError, match="damaged"):
        PDClassifier.load(tmp_path)
    (tmp_path / "config.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="damaged"):
        PDClassifier.load(tmp_path)
