"""pd-trees as runs of the store."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import pytest
import torch

from pdgnn import InputError
from pdgnn.diffusion import diffused, node_inputs
from pdgnn.experiments.records import trees as trees_module
from pdgnn.experiments.records.trees import TREES, TreesEngine, fit_run
from pdgnn.training import RunSpec, Task, train
from pdgnn.training.spec import resolved
from recording import small_graph, work


@pytest.fixture
def small(tmp_path, monkeypatch) -> str:
    return small_graph(tmp_path, monkeypatch)


def tree_spec(graph: str, **changed) -> RunSpec:
    fields = {
        name: changed.pop(name) for name in ("split", "seed", "steps", "lr") if name in changed
    }
    spec = RunSpec(dataset=graph, model="pd-trees", **{"steps": 3, "lr": 0.1, **fields})
    return resolved(replace(spec, options={"leaves": 3, **changed}), TREES)


def test_trees_are_those_of_the_diffused_features(small):
    from sklearn.ensemble import ExtraTreesClassifier

    task = Task.open(small)
    spec = tree_spec(small, trees="extra", scopes="0,0.5;1,1", hops=2, seed=7, split=1)
    z = node_inputs(task.graph, task.x.numpy(), None)
    table = diffused(task.graph, z, scopes=((0, 0.5), (1, 1)), hops=2)
    train_nodes = task.masks[1, 0].numpy()
    forest = ExtraTreesClassifier(300, min_samples_leaf=2, random_state=7)
    proba = forest.fit(table[train_nodes], task.y[train_nodes]).predict_proba(table)
    result = fit_run(task, spec)
    assert result.logits is not None
    assert result.logits.shape == (48, 1)
    assert result.logits[:, 0].sigmoid().numpy() == pytest.approx(proba[:, 1], abs=1e-6)


def test_both_is_the_mean(small):
    task = Task.open(small)
    shares = {
        kind: fit_run(task, tree_spec(small, trees=kind)).logits[:, 0].double().sigmoid()
        for kind in ("lightgbm", "extra", "both")
    }
    mean = (shares["lightgbm"] + shares["extra"]) / 2
    assert shares["both"].numpy() == pytest.approx(mean.numpy(), abs=1e-6)


@pytest.mark.parametrize("labels", [False, True])
def test_trees_do_not_see_the_labels_of_validation_and_test_nodes(small, labels):
    task = Task.open(small)
    train_nodes = task.masks[0, 0]
    other = Task.from_arrays(
        task.graph, task.x, torch.where(train_nodes, task.y, 1 - task.y), task.masks
    )
    spec = tree_spec(small, labels=labels, scopes="1,1", hops=1)
    one, two = fit_run(task, spec), fit_run(other, spec)
    assert torch.equal(one.logits, two.logits)
    assert (one.val, one.test) != (two.val, two.test)


def test_labels_of_neighbours_are_columns_of_their_own(small):
    task = Task.open(small)
    plain, known = (fit_run(task, tree_spec(small, labels=b, trees="extra")) for b in (False, True))
    assert not torch.equal(plain.logits, known.logits)


def test_several_processes_fit_what_one_does(small):
    specs = [tree_spec(small, split=s, seed=s, hops=h) for s in (0, 1) for h in (1, 2)]
    options = {"models": {"pd-trees": TREES}, "keep": ("logits",)}
    one = train(specs, engine=TreesEngine(), **options)
    two = train(specs, engine=TreesEngine(2), **options)
    assert one == two
    assert all(torch.equal(a.logits, b.logits) for a, b in zip(one, two, strict=True))


def test_trees_are_no_network(small):
    with pytest.raises(InputError, match="pd-trees is no network"):
        train([tree_spec(small)], models={"pd-trees": TREES})


def test_lightgbm_that_is_not_there_is_said_at_once(small, tmp_path, monkeypatch):
    found = trees_module.find_spec
    monkeypatch.setattr(trees_module, "find_spec", lambda n: None if n == "lightgbm" else found(n))
    made = work(small, tmp_path, "search", methods=("pd-net", "pd-trees"))
    with pytest.raises(InputError, match="pd-trees needs lightgbm, which is not installed here"):
        made.run()
    assert not (tmp_path / "s.sqlite").exists()
    assert work(small, tmp_path, "search").run()


def test_networks_need_neither_scikit_learn_nor_lightgbm():
    """Machines that only train have not always both."""
    program = """
import sys
sys.modules["sklearn"] = sys.modules["lightgbm"] = None  # as if they were not installed
import pdgnn.cli.records, pdgnn.report.records
from pdgnn.errors import InputError
from pdgnn.experiments.means import Means
from pdgnn.experiments.records import Records, RecordsRequest, gather_records
gather_records([], datasets=["tolokers"])
request = RecordsRequest(datasets=["tolokers"], methods=["pd-trees"], parts=["search"])
try:
    Records(request, Means(store="s.sqlite")).run()
except InputError as e:
    assert "needs lightgbm and scikit-learn" in str(e), e
else:
    raise SystemExit("it ran")
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("text", ["", "1", "a,b", "1,2", "0,1;", None])
def test_scopes_that_are_none(text):
    with pytest.raises(InputError, match=r"pairs? of (α|alpha)"):
        resolved(RunSpec(dataset="cora", model="pd-trees", options={"scopes": text}), TREES)
