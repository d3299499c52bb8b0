from __future__ import annotations

import copy
import json

import numpy as np
import pytest

from pdgnn import Graph, datasets
from pdgnn.errors import InputError
from pdgnn.estimator.tabular import FeatureCache, TabularModel, TabularSpec, fit_tabular

SPECS = [
    TabularSpec("logistic", diffuse=False),
    TabularSpec("logistic", diffuse=True, hops=2),
    TabularSpec("trees", diffuse=False),
    TabularSpec("trees", diffuse=True, hops=1, reduce=2),
]


@pytest.fixture(autouse=True)
def few_rounds(monkeypatch):
    monkeypatch.setattr("pdgnn.estimator.trees.ROUNDS", 30)


def task(num_nodes: int = 200, num_classes: int = 3, homophily: float = 0.0, seed: int = 0):
    """A graph, features that say little of the classes, classes, and training nodes."""
    data = datasets.synthetic(
        num_nodes=num_nodes,
        num_classes=num_classes,
        homophily=homophily,
        feature_std=1.0,
        seed=seed,
    )
    noise = np.random.default_rng(seed).standard_normal((num_nodes, 4)).astype(np.float32)
    x = np.concatenate([data.x.numpy(), noise], axis=1)
    return Graph.from_data(data), x, data.y.numpy(), data.train_mask[:, 0].numpy()


def fit(spec, graph, x, y, train, **options) -> TabularModel:
    return fit_tabular(spec, graph, x, y, train, num_classes=3, **options)


each = pytest.mark.parametrize("spec", SPECS, ids=lambda s: s.name)


@each
def test_probabilities(spec):
    graph, x, y, train = task()
    proba = fit(spec, graph, x, y, train).predict_proba(graph, x)
    assert proba.shape == (200, 3)
    assert proba.dtype == np.float64
    assert proba.sum(axis=1) == pytest.approx(1)
    assert (proba.argmax(axis=1) == y)[train].mean() > 0.5


@pytest.mark.parametrize("learner", ["logistic", "trees"])
def test_the_graph_tells_what_the_features_do_not(learner):
    graph, x, y, train = task(600)
    right = []
    for diffuse in (False, True):
        spec = TabularSpec(learner, diffuse)
        proba = fit(spec, graph, x, y, train).predict_proba(graph, x)
        right.append((proba.argmax(axis=1) == y)[~train].mean())
    assert right[1] > right[0] + 0.1


@each
def test_only_labels_of_training_nodes_are_used(spec):
    graph, x, y, train = task()
    one = fit(spec, graph, x, y, train).predict_proba(graph, x)
    two = fit(spec, graph, x, np.where(train, y, -1), train).predict_proba(graph, x)
    assert (one == two).all()
    changed = np.where(train, (y + 1) % 3, y)
    assert (fit(spec, graph, x, changed, train).predict_proba(graph, x) != one).any()


@each
def test_the_same_seed_gives_the_same_bits(spec):
    graph, x, y, train = task()
    proba = [fit(spec, graph, x, y, train, seed=s).predict_proba(graph, x) for s in (1, 1, 2)]
    assert (proba[0] == proba[1]).all()
    assert (proba[0] == proba[2]).all() == (spec.learner == "logistic")


@each
def test_saved_and_read(spec):
    graph, x, y, train = task()
    model = fit(spec, graph, x, y, train)
    told, arrays, texts = model.state()
    read = TabularModel.from_state(json.loads(json.dumps(told)), arrays, texts)
    assert read.spec == model.spec
    assert (read.predict_proba(graph, x) == model.predict_proba(graph, x)).all()
    again = read.state()
    assert again[0] == told
    assert again[2] == texts
    assert all((again[1][name] == value).all() for name, value in arrays.items())


@each
def test_a_new_graph(spec):
    graph, x, y, train = task(400)
    model = fit(spec, graph, x, y, train)
    other, z, truth, _ = task(250, seed=5)
    proba = model.predict_proba(other, z)
    assert (proba.argmax(axis=1) == truth).mean() > (0.65 if spec.diffuse else 0.4)
    cache = FeatureCache()
    assert (model.predict_proba(other, z, cache=cache) == proba).all()
    assert (model.predict_proba(other, z, cache=cache) == proba).all()


@each
def test_a_class_without_training_nodes(spec):
    graph, x, y, train = task()
    model = fit(spec, graph, x, y, train & (y != 1))
    proba = model.predict_proba(graph, x)
    assert (proba[:, 1] == 0).all()
    assert proba.sum(axis=1) == pytest.approx(1)
    assert (TabularModel.from_state(*model.state()).predict_proba(graph, x) == proba).all()


@each
def test_one_class_only(spec):
    graph, x, y, train = task()
    model = fit(spec, graph, x, y, train & (y == 2))
    model = TabularModel.from_state(*model.state())
    assert (model.predict_proba(graph, x) == [0, 0, 1]).all()


@each
def test_class_weights(spec):
    graph, x, y, train = task(400)
    few = train & ((y != 0) | (np.arange(400) % 8 == 0))
    plain = fit(spec, graph, x, y, few).predict_proba(graph, x)
    weight = few.sum() / (3 * np.bincount(y[few]))
    even = fit(spec, graph, x, y, few, class_weight=weight).predict_proba(graph, x)
    assert even[:, 0].mean() > plain[:, 0].mean() + 0.03


@pytest.mark.parametrize("share", [0.02, 0.4])
def test_words_are_reduced_or_not(share):
    graph, _, y, train = task(150)
    rng = np.random.default_rng(0)
    x = (rng.random((150, 90)) < share + 0.2 * (np.arange(90) % 3 == y[:, None])).astype(np.float32)
    for learner in ("logistic", "trees"):
        for reduce, inputs in ((None, 90), (16, 17), (64, 90)):
            model = fit(TabularSpec(learner, True, reduce, hops=1), graph, x, y, train)
            assert (model.components is None) == (inputs == 90)
            if learner == "logistic":
                assert model.learner.coef.shape == (3, (inputs + 1) * 3)
            read = TabularModel.from_state(*model.state())
            assert (read.predict_proba(graph, x) == model.predict_proba(graph, x)).all()


class TestCache:
    def test_specs_of_equal_tables_share_one(self, monkeypatch):
        graph, x, y, train = task()
        calls = []
        from pdgnn.estimator import feature_cache

        whole = feature_cache.diffused
        monkeypatch.setattr(
            feature_cache, "diffused", lambda *a, **k: calls.append(0) or whole(*a, **k)
        )
        cache = FeatureCache()
        for C in (0.1, 1.0):
            spec = TabularSpec("logistic", True, C=C)
            model = fit(spec, graph, x, y, train, cache=cache)
            proba = model.predict_proba(graph, x, cache=cache)
            assert (proba == model.predict_proba(graph, x)).all()
        assert len(calls) == 3  # once for the cache, and once for each call without
        fit(TabularSpec("trees", True), graph, x, y, train, cache=cache)
        assert len(calls) == 3
        fit(TabularSpec("trees", True, hops=2), graph, x, y, train, cache=cache)
        assert len(calls) == 4

    def test_the_oldest_goes_first(self):
        graph, x, *_ = task()
        cache = FeatureCache(limit=2 * 7 * 5 * 200 * 4)  # two tables of 7 columns and 5 blocks
        specs = [TabularSpec("trees", True, hops=2, scopes=((a, 1), (1, 1))) for a in (0, 0.5, 1)]
        tables = [cache.get(s, graph, x)[1] for s in specs]
        assert cache.get(specs[2], graph, x)[1] is tables[2]
        assert cache.get(specs[1], graph, x)[1] is tables[1]
        assert cache.get(specs[0], graph, x)[1] is not tables[0]


TAMPERED = {
    "a key is missing": lambda told, arrays, texts: told.pop("present"),
    "a key of the spec too many": lambda told, arrays, texts: told["spec"].update(depth=3),
    "no spec": lambda told, arrays, texts: told.update(spec=None),
    "an unknown learner": lambda told, arrays, texts: told["spec"].update(learner="svm"),
    "no hops": lambda told, arrays, texts: told["spec"].update(hops=0),
    "more hops": lambda told, arrays, texts: told["spec"].update(hops=3),
    "other scopes": lambda told, arrays, texts: told["spec"].update(scopes=[[1, 1]]),
    "a scope outside": lambda told, arrays, texts: told["spec"].update(scopes=[[1, 2], [0, 1]]),
    "a class too many": lambda told, arrays, texts: told.update(present=[0, 1, 3]),
    "classes twice": lambda told, arrays, texts: told.update(present=[0, 1, 1]),
    "no classes": lambda told, arrays, texts: told.update(present=[]),
    "classes that are no list": lambda told, arrays, texts: told.update(present=3),
    "fewer classes": lambda told, arrays, texts: told.update(present=[0, 1]),
    "features as text": lambda told, arrays, texts: told.update(num_features="six"),
    "other features": lambda told, arrays, texts: told.update(num_features=5),
    "components cut": lambda told, arrays, texts: arrays.update(
        components=arrays["components"][:1]
    ),
    "components of nan": lambda told, arrays, texts: arrays.update(
        components=np.nan * arrays["components"]
    ),
    "components of float32": lambda told, arrays, texts: arrays.update(
        components=arrays["components"].astype(np.float32)
    ),
    "components lost": lambda told, arrays, texts: arrays.pop("components"),
}


@pytest.mark.parametrize("how", [*TAMPERED, "no arrays or texts", "an array of zeros"])
@pytest.mark.parametrize("learner", ["logistic", "trees"])
def test_a_state_that_was_changed_is_an_error(learner, how):
    graph, x, y, train = task(80)
    model = fit(TabularSpec(learner, True, reduce=2, hops=1), graph, x, y, train)
    told, arrays, texts = copy.deepcopy(model.state())
    if how in TAMPERED:
        TAMPERED[how](told, arrays, texts)
    elif how == "no arrays or texts":
        arrays, texts = {"components": arrays["components"]}, {}
    elif learner == "logistic":
        arrays["scale"] *= 0
    else:
        texts["trees-0.txt"] = "0"
    with pytest.raises(InputError) as caught:
        TabularModel.from_state(told, arrays, texts)
    assert "\n" not in str(caught.value)


def test_what_is_refused():
    graph, x, y, train = task(80)
    with pytest.raises(InputError, match=r"x has shape \(79, 6\); the model takes \(80, 6\)"):
        fit(SPECS[0], graph, x[1:], y, train)
    with pytest.raises(InputError, match="there is no training node"):
        fit(SPECS[0], graph, x, y, train & False)
    with pytest.raises(InputError, match="y has classes outside 0 to 2"):
        fit(SPECS[0], graph, x, y + 1, train)
    model = fit(SPECS[0], graph, x, y, train)
    with pytest.raises(InputError, match=r"x has shape \(80, 5\); the model takes \(80, 6\)"):
        model.predict_proba(graph, x[:, 1:])
