"""PDClassifier: what comes out of fit, and that the same goes in and out."""

from __future__ import annotations

from functools import cache

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from torch_geometric.data import Data

from pdgnn import InputError, PDClassifier, datasets
from pdgnn.estimator import classifier

pytestmark = pytest.mark.usefixtures("no_clock")
SYNTHETIC = "synthetic:num_nodes={n},homophily=0.1,num_classes=3,seed={seed}"


@cache
def graph(n: int = 240, seed: int = 1) -> Data:
    return datasets.load(SYNTHETIC.format(n=n, seed=seed))


def unsplit(data: Data, labelled: int | None = None) -> Data:
    """Without masks, and with labels for the first nodes alone."""
    y = data.y.clone()
    if labelled is not None:
        y[labelled:] = -1
    return Data(x=data.x, edge_index=data.edge_index, y=y)


@cache
def fitted() -> PDClassifier:
    return PDClassifier(minutes=0.05).fit(graph())


def test_fitted_attributes():
    clf, data = fitted(), graph()
    n = data.num_nodes
    assert clf.classes_.tolist() == [0, 1, 2]
    assert clf.proba_.shape == (n, 3)
    np.testing.assert_allclose(clf.proba_.sum(axis=1), 1)
    assert clf.leaderboard_[0]["val"] == max(row["val"] for row in clf.leaderboard_)
    assert {"logistic", "mlp", "pd-trees"} <= {row["model"] for row in clf.leaderboard_}
    assert clf.model_ == clf.leaderboard_[0]["model"]
    assert 0 <= clf.alpha_ <= 1
    assert 0 <= clf.gamma_ <= 1
    assert isinstance(clf.rewired_, bool)
    assert [clf.part_.tolist().count(k) for k in range(3)] == [
        int(m[:, 0].sum()) for m in (data.train_mask, data.val_mask, data.test_mask)
    ]
    assert clf.predict().tolist() == clf.classes_[clf.proba_.argmax(axis=1)].tolist()


def test_the_estimate_is_the_score_on_the_test_part():
    clf, data = fitted(), graph()
    test = data.test_mask[:, 0].numpy()
    right = (clf.predict() == data.y.numpy())[test].mean()
    e = clf.estimate_
    assert e.score == pytest.approx(right)
    assert e.n == test.sum()
    assert e.low <= e.score <= e.high
    assert {"majority class", "logistic regression", "MLP"} <= e.baselines.keys()
    majority = np.bincount(data.y[~test]).argmax()
    assert e.baselines["majority class"][0] == pytest.approx(
        (data.y.numpy()[test] == majority).mean()
    )


def test_labels_of_the_test_part_change_nothing():
    """Neither training nor choosing looks at them."""
    data = graph()
    other = data.clone()
    test = other.test_mask[:, 0]
    other.y[test] = (other.y[test] + 1) % 3
    again = PDClassifier(minutes=0.05).fit(other)
    np.testing.assert_array_equal(again.proba_, fitted().proba_)


def test_the_same_seed_gives_the_same_model():
    again = clone(fitted()).fit(graph())
    np.testing.assert_array_equal(again.proba_, fitted().proba_)
    assert [r["name"] for r in again.leaderboard_] == [r["name"] for r in fitted().leaderboard_]
    other = PDClassifier(model="trees", minutes=0.05, seed=5).fit(graph())
    same = PDClassifier(model="trees", minutes=0.05, seed=5).fit(graph())
    third = PDClassifier(model="trees", minutes=0.05, seed=6).fit(graph())
    np.testing.assert_array_equal(other.proba_, same.proba_)
    assert (other.proba_ != third.proba_).any()


def test_predicting_the_same_graph_anew_gives_the_same():
    np.testing.assert_allclose(fitted().predict_proba(graph()), fitted().proba_, atol=1e-6)


def test_another_graph():
    new = graph(n=120, seed=7)
    proba = fitted().predict_proba(new)
    assert proba.shape == (120, 3)
    assert fitted().score(new) > 0.4  # a third by chance
    with pytest.raises(InputError, match="features"):
        fitted().predict(Data(x=new.x[:, :1], edge_index=new.edge_index))


def test_few_labels_are_each_estimated_once_by_models_without_them():
    clf = PDClassifier(model="pd-logistic", minutes=0.1).fit(unsplit(graph(), labelled=60))
    known = np.isfinite(clf.honest_).all(axis=1)
    assert known.tolist() == [i < 60 for i in range(240)]
    assert clf.estimate_.n == 60
    assert "Fewer than" in clf.estimate_.how


def test_labelled_nodes_that_there_was_no_time_to_hold_out_are_said(monkeypatch):
    real, rounds = classifier.fit_portfolio, []

    def stopped_in_the_second(problem, seconds, clock, **options):
        rounds.append(problem)
        found = real(problem, seconds, clock, **options)
        clock.stopped = len(rounds) == 2  # the model that is kept, and one part held out
        return found

    monkeypatch.setattr(classifier, "fit_portfolio", stopped_in_the_second)
    clf = PDClassifier(model="logistic", minutes=0.1).fit(unsplit(graph(), labelled=60))
    assert clf.estimate_.n == 12
    assert "12 of 60 labelled nodes" in clf.estimate_.how
    assert "There was no time to hold out every labelled node once." in clf.notes_


@pytest.mark.parametrize("labelled", [60, None])
def test_held_out_labels_are_not_even_there(labelled, monkeypatch):
    seen = []
    real = classifier.fit_portfolio
    monkeypatch.setattr(
        classifier, "fit_portfolio", lambda p, *a, **k: seen.append(p) or real(p, *a, **k)
    )
    data = unsplit(graph(n=600), labelled)
    clf = PDClassifier(model="logistic", minutes=0.05).fit(data)
    held = [(clf.y_ >= 0) & (p.y < 0) for p in seen]
    assert np.sum(held, axis=0).tolist() == np.isfinite(clf.honest_).all(axis=1).tolist()
    for p, out in zip(seen, held, strict=True):
        assert not p.masks[:, :, out].any()
        assert not (p.masks[:, 0] & (p.masks[:, 1] | p.masks[:, 2])).any()


def test_many_labels_without_a_split_are_dealt():
    clf = PDClassifier(model="logistic", minutes=0.05).fit(unsplit(graph(n=700, seed=2)))
    counts = [int((clf.part_ == k).sum()) for k in range(3)]
    assert counts == [420, 140, 140]
    assert clf.estimate_.n == 140


def test_strings_and_frames():
    data = graph()
    names = np.array(["red", "green", "blue"])
    ids = [f"n{i}" for i in range(data.num_nodes)]
    nodes = pd.DataFrame(data.x.numpy(), columns=[f"f{i}" for i in range(data.x.shape[1])])
    nodes.insert(0, "id", ids)
    role = pd.Series(names[data.y.numpy()], dtype=object)
    role[:20] = None
    nodes["role"] = role
    ends = data.edge_index.numpy()
    edges = pd.DataFrame({"source": [ids[i] for i in ends[0]], "target": [ids[i] for i in ends[1]]})
    clf = PDClassifier(model="pd-logistic", minutes=0.05)
    clf.fit(nodes=nodes, edges=edges, label="role")
    assert clf.classes_.tolist() == ["blue", "green", "red"]
    assert set(clf.predict()) <= set(names)
    assert clf.ids_.tolist() == ids
    assert (clf.y_[:20] == -1).all()
    again = clf.predict_proba(nodes=nodes.drop(columns="role"), edges=edges)
    np.testing.assert_allclose(again, clf.proba_, atol=1e-6)
    with pytest.raises(InputError, match="f1"):
        clf.predict(nodes=nodes.drop(columns="f1"), edges=edges)


def test_scores_of_tables_and_of_labels_that_are_not_known():
    data = graph()
    nodes = pd.DataFrame(data.x.numpy(), columns=["p", "q"])
    nodes["label"] = np.array(["red", "green", "blue"])[data.y.numpy()]
    edges = data.edge_index
    clf = PDClassifier(model="pd-logistic", minutes=0.05).fit(nodes=nodes, edges=edges)
    found = clf.score(nodes=nodes, edges=edges)
    assert found == pytest.approx((clf.predict() == nodes["label"]).mean())
    some = nodes.assign(label=nodes["label"].where(nodes.index < 40))
    assert clf.score(nodes=some, edges=edges) == pytest.approx(
        (clf.predict() == nodes["label"])[:40].mean()
    )
    new = nodes.assign(label=nodes["label"].replace({"red": "pink"}))
    with pytest.raises(InputError, match="the model has no class 'pink'; empty such labels"):
        clf.score(nodes=new, edges=edges)
    for empty in (nodes.assign(label=None), nodes.drop(columns="label")):
        with pytest.raises(InputError, match="there are no labels to score against"):
            clf.score(nodes=empty, edges=edges)
    with pytest.raises(InputError, match="there is no graph"):
        clf.score()


def test_a_model_that_there_was_no_time_for_is_said(monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(classifier, "CLOCK_SHARE", 0.0)
        clf = PDClassifier(model="gat", minutes=0.05).fit(graph())
    assert clf.model_ == "logistic"
    assert "There was no time to train gat; this is logistic regression." in clf.notes_
    alone = PDClassifier(model="gat", minutes=0.05).fit(graph().x.numpy(), graph().y.numpy())
    assert alone.model_ == "mlp"
    assert not any("no time to train" in note for note in alone.notes_)


def test_networkx_without_features_uses_the_structure():
    g = nx.planted_partition_graph(3, 30, 0.4, 0.02, seed=4)
    for node, attributes in g.nodes(data=True):
        attributes.clear()
        attributes["part"] = f"p{node // 30}"
    clf = PDClassifier(model="pd-logistic", minutes=0.05).fit(g, label="part")
    assert any("no features" in note for note in clf.notes_)
    assert clf.estimate_.score > 0.8


def test_two_classes_are_scored_by_roc_auc_and_imbalance_is_said():
    data = datasets.load("minesweeper-generated:size=24,seed=2")
    y = data.y.clone()
    y[(y == 1).nonzero()[12:].flatten()] = 0
    clf = PDClassifier(model="trees", minutes=0.05)
    clf.fit(Data(x=data.x, edge_index=data.edge_index, y=y))
    assert clf.metric_ == "roc_auc"
    assert any("unbalanced" in note for note in clf.notes_)
    weighed = PDClassifier(model="trees", minutes=0.05, class_weight="balanced")
    weighed.fit(Data(x=data.x, edge_index=data.edge_index, y=y))
    assert weighed.proba_[:, 1].mean() > clf.proba_[:, 1].mean()


def test_where_the_graph_tells_nothing_it_says_so():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(600, 3)).astype(np.float32)
    y = (x[:, 0] + 0.3 * rng.normal(size=600) > 0).astype(int)
    edges = rng.integers(0, 600, size=(2, 1500))
    clf = PDClassifier(minutes=0.05).fit(x, y, edges=edges)
    assert not clf.estimate_.helps
    assert "does not help" in clf.estimate_.sentence
    assert clf.estimate_.score > 0.9


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"model": "nothing"}, "unknown model"),
        ({"minutes": 0}, "minutes"),
        ({"minutes": -1}, "minutes"),
        ({"device": "tpu"}, "device"),
        ({"metric": "f7"}, "metric"),
        ({"class_weight": "heavy"}, "class_weight"),
        ({"class_weight": {0: -1.0}}, "class_weight"),
        ({"class_weight": {0: 2.0, "1": 3.0}}, "class_weight names '1', and the classes are 0, 1"),
        ({"class_weight": {0: 0, 1: 0, 2: 0}}, "class_weight is 0 for every class"),
        ({"impute": "mean"}, "impute"),
        ({"seed": -1}, "seed"),
    ],
)
def test_parameters_are_checked(changed, said):
    with pytest.raises(InputError, match=said):
        PDClassifier(**changed).fit(graph())


def test_interrupted_keeps_the_best_so_far():
    lines = []

    def stop(line: str) -> None:
        lines.append(line)
        if "pd-trees" in line and "best so far" in line:
            raise KeyboardInterrupt

    clf = PDClassifier(minutes=0.2).fit(graph(), progress=stop)
    assert clf.model_ == "logistic"
    assert any("stopped early" in note for note in clf.notes_)
    assert clf.estimate_.n == int(graph().test_mask[:, 0].sum())

    def at_once(line: str) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        PDClassifier(minutes=0.2).fit(graph(), progress=at_once)
