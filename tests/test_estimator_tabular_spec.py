from __future__ import annotations

import pytest

from pdgnn.errors import InputError
from pdgnn.estimator.tabular_spec import TabularSpec, candidates, cost, num_columns

SIZE = {
    "num_nodes": 10_000,
    "num_train": 5_000,
    "num_features": 40,
    "num_edges": 50_000,
    "num_classes": 3,
}


def test_names():
    names = {(s.learner, s.diffuse): s.name for s in candidates(100)}
    assert names == {
        ("logistic", False): "logistic regression",
        ("logistic", True): "logistic regression on diffused features",
        ("trees", False): "boosted trees",
        ("trees", True): "pd-trees",
    }


@pytest.mark.parametrize("features", [1, 10, 100, 1000, 10_000])
def test_candidates(features):
    found = candidates(features)
    assert len(set(found)) == len(found)
    assert [s.name for s in found[:2]] == ["logistic regression", "pd-trees"]
    assert found[1] == TabularSpec("trees", True)
    assert {s.name for s in found[:4]} == {s.name for s in found}
    assert candidates(features, graph=False) == [s for s in found if not s.diffuse]
    reductions = {s.reduce for s in found if s.learner == "trees"}
    every = {None} if 64 < features <= 1000 else set()
    assert reductions == ({32} if features <= 64 else {32, 128} | every)


def test_large_tables_are_reduced():
    words = candidates(4000, 50_000)
    assert words[0].reduce is None  # as they are
    assert {s.reduce for s in words if s.diffuse and s.learner == "logistic"} == {128}
    assert {s.reduce for s in candidates(4000, 100_000) if s.learner == "logistic"} == {128}
    assert {s.reduce for s in candidates(500, 20_000) if s.learner == "logistic"} == {None}


def test_settings_name_what_has_an_effect():
    assert TabularSpec("trees", False).settings == {"reduce": 32}
    assert TabularSpec("logistic", True, None, C=2.0).settings == {
        "reduce": None,
        "scopes": ((0.0, 1.0), (1.0, 1.0)),
        "hops": 4,
        "C": 2.0,
    }


def test_columns():
    assert num_columns(TabularSpec("trees", False), 10) == 10
    assert num_columns(TabularSpec("trees", True), 10) == 99


@pytest.mark.parametrize("spec", candidates(100), ids=str)
def test_more_of_anything_costs_more(spec):
    base = cost(spec, **SIZE)
    assert 0 < base < 60
    for name, value in SIZE.items():
        if name == "num_edges" and not spec.diffuse:
            continue
        assert cost(spec, **SIZE | {name: 2 * value}) >= base
    assert cost(spec, **SIZE, density=0.01) <= base


def test_fifty_thousand_nodes_stay_within_seconds():
    large = {"num_nodes": 50_000, "num_train": 30_000, "num_features": 100, "num_edges": 500_000}
    for classes in (2, 5, 10):
        assert cost(TabularSpec("trees", True), **large, num_classes=classes) < 20


def test_what_is_refused():
    for options, words in (
        ({"learner": "svm"}, "unknown learner 'svm'; take 'logistic' or 'trees'"),
        ({"diffuse": 1}, "diffuse must be True or False"),
        ({"reduce": 0}, "reduce must be a whole number of at least 1"),
        ({"hops": 0}, "hops must be a whole number of at least 1"),
        ({"C": -1.0}, "C must be a number of at least 0"),
        ({"C": 0.0}, "C must be above 0"),
        ({"scopes": ((1, 3),)}, "gamma must be a number"),
    ):
        with pytest.raises(InputError, match=words):
            TabularSpec(**{"learner": "trees", "diffuse": True} | options)
