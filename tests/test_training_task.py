"""What there is to learn: opened from names, files, Data and arrays, and every bad input."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.utils.class_weight import compute_class_weight
from torch.nn import functional as F  # noqa: N812
from torch_geometric.data import Data

from filing import npz
from pdgnn import Graph, InputError
from pdgnn.models import MODELS, Size
from pdgnn.training import Task, train
from pdgnn.training.group import Group
from pdgnn.training.inputs import InputCache
from pdgnn.training.metrics import METRICS, scores
from pdgnn.training.spec import resolved
from runs import TASKS, spec, three_classes

EDGES = [[0, 1, 2, 3, 4, 5, 6], [1, 2, 3, 4, 5, 6, 7]]
N = 8


def arrays() -> dict[str, np.ndarray]:
    """Features, labels and two splits of a path of 8 nodes."""
    one = np.array([[1, 1, 0, 0, 0, 0, 0, 0], [0, 0, 1, 1, 0, 0, 0, 0], [0, 0, 0, 0, 1, 1, 0, 0]])
    masks = np.stack([one, one[[1, 2, 0]]]).astype(bool)  # [2, 3, N]
    y = np.array([0, 1, 0, 1, 0, 1, 0, -1])
    return {"x": np.arange(2.0 * N).reshape(N, 2), "y": y, "masks": masks}


def task(**changes) -> Task:
    return Task.from_arrays(Graph.from_edge_index(EDGES), **{**arrays(), **changes}, name="path")


def test_two_classes_have_one_logit_and_more_have_one_each():
    two = task()
    assert (two.num_classes, two.out_channels, two.metric, two.num_splits) == (2, 1, "roc_auc", 2)
    assert (two.x.dtype, two.y.dtype, two.masks.dtype) == (torch.float32, torch.int64, torch.bool)
    three = three_classes()
    assert (three.num_classes, three.out_channels, three.metric) == (3, 3, "accuracy")


def test_labels_and_masks_may_be_of_other_types_with_the_same_values():
    first = task()
    column = arrays()["y"].astype(float)[:, None]
    other = task(y=column, masks=arrays()["masks"].astype(int), x=arrays()["x"].astype("f4"))
    assert torch.equal(other.y, first.y)
    assert torch.equal(other.masks, first.masks)
    assert other.fingerprint() == first.fingerprint()


def test_what_is_given_is_copied_and_may_be_read_only():
    x = arrays()["x"]
    x.flags.writeable = False
    assert task(x=x).x[1].tolist() == [2.0, 3.0]
    y = arrays()["y"]
    made = task(y=y)
    y[:] = 7
    assert made.y.tolist() == arrays()["y"].tolist()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"x": np.ones((N - 1, 2))}, "features have shape [7, 2]; 8 nodes need [8, F]"),
        ({"x": np.ones(N)}, "features have shape [8]; 8 nodes need [8, F]"),
        ({"x": np.ones((N, 0))}, "features have shape [8, 0]; 8 nodes need [8, F]"),
        ({"x": np.full((N, 2), "a")}, "features must be numbers"),
        ({"x": np.ones((N, 2), complex)}, "features must be real numbers, not torch.complex128"),
        ({"x": np.diag(np.r_[0, 0, np.nan, np.zeros(5)])}, "node 2 has a feature that is not fin"),
        ({"x": np.diag(np.r_[0, np.inf, np.zeros(6)])}, "node 1 has a feature that is not finite"),
        ({"x": np.full((N, 2), 1e300)}, "node 0 has a feature that is not finite"),
        ({"y": np.zeros(N - 1, int)}, "7 labels for 8 nodes; give one for each"),
        ({"y": np.eye(N, 2, dtype=int)}, "16 labels for 8 nodes"),
        ({"y": np.arange(N) % 2 + 0.5}, "labels must be whole numbers"),
        ({"y": np.r_[np.nan, np.arange(N - 1) % 2]}, "labels must be whole numbers"),
        ({"y": np.r_[-2, np.arange(N - 1) % 2]}, "label -2 is out of range; number the classes"),
        ({"y": np.r_[10**12, np.arange(N - 1) % 2]}, "label 1000000000000 is out of range"),
        ({"y": np.zeros(N, int)}, "path has a single class; there is nothing to tell apart"),
        ({"y": np.ones(N, int)}, "path has a single class; there is nothing to tell apart"),
        ({"y": np.full(N, -1)}, "path has no label at all; there is nothing to tell apart"),
        ({"y": np.arange(N) % 2 + 1}, "no node is of class 0; number the classes without a gap"),
        ({"y": np.arange(N) % 2 * 2}, "no node is of class 1; number the classes without a gap"),
        ({"masks": arrays()["masks"][0]}, "masks have shape [3, 8]; give [splits, 3, 8]"),
        ({"masks": arrays()["masks"][:, :1]}, "masks have shape [2, 1, 8]; give [splits, 3, 8]"),
        ({"masks": arrays()["masks"][:0]}, "masks have shape [0, 3, 8]; give [splits, 3, 8]"),
        ({"masks": arrays()["masks"][..., 1:]}, "masks have shape [2, 3, 7]"),
        ({"masks": arrays()["masks"] * 2}, "masks must be true or false"),
    ],
)
def test_bad_arrays_are_one_line(changes, message):
    with pytest.raises(InputError) as caught:
        task(**changes)
    assert message in str(caught.value)
    assert "path" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ((1, 0, slice(None), False), "split 1 has no train nodes"),
        ((0, 1, slice(None), False), "split 0 has no val nodes"),
        ((0, 0, 2, True), "split 0 has a node in two of its parts"),
        ((1, 1, 1, True), "split 1 has a node in two of its parts"),
        ((0, 0, 7, True), "node 7 is in the train part of split 0 and has no label"),
        ((0, 1, 3, False), "the val part of split 0 has one class only; ROC AUC needs two"),
        ((1, 2, 0, False), "the test part of split 1 has one class only; ROC AUC needs two"),
    ],
)
def test_bad_splits_are_one_line(change, message):
    split, part, node, value = change
    masks = arrays()["masks"]
    masks[split, part, node] = value
    with pytest.raises(InputError) as caught:
        task(masks=masks)
    assert str(caught.value) == f"path: {message}"


# --- no test part ---------------------------------------------------------------------------------


def test_the_test_part_may_be_missing():
    masks = arrays()["masks"]
    short = task(masks=masks[:, :2])
    assert short.masks.shape == (2, 3, N)
    assert torch.equal(short.masks[:, :2], task().masks[:, :2])
    assert not short.masks[:, 2].any()
    masks[:, 2] = False
    empty = task(masks=masks)
    assert torch.equal(empty.masks, short.masks)
    assert empty.fingerprint() == short.fingerprint() != task().fingerprint()
    masks[0, 2] = arrays()["masks"][0, 2]  # of one split of two
    assert task(masks=masks).masks[:, 2].sum(dim=1).tolist() == [2, 0]


@pytest.mark.parametrize("metric", METRICS)
def test_without_a_test_part_a_run_has_a_validation_score_alone(metric):
    made = task(masks=arrays()["masks"][:, :2], metric=metric)
    (result,) = train([spec(split=1)], tasks={"board": made}, curves=True)
    (whole,) = train([spec(split=1)], tasks={"board": task(metric=metric)}, curves=True)
    assert (result.val, result.step) == (whole.val, whole.step)
    assert math.isnan(result.test)
    assert np.isnan(result.curves[:, 2]).all()
    assert np.array_equal(result.curves[:, :2], whole.curves[:, :2])


# --- metrics --------------------------------------------------------------------------------------


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("dataset", ["board", "ring"])
def test_a_run_is_scored_by_the_metric_of_its_task(metric, dataset):
    usual = TASKS[dataset]
    made = Task.from_arrays(usual.graph, usual.x, usual.y, usual.masks, metric=metric)
    assert made.metric == metric
    assert (made.fingerprint() == usual.fingerprint()) == (metric == usual.metric)
    run = spec(dataset=dataset, steps=8)
    (found,) = train([run], tasks={dataset: made}, keep=("logits",), curves=True)
    val, test = scores(found.logits[None], made.y, made.masks[:1, 1:], metric)[0].tolist()
    assert (found.val, found.test) == (val, test)
    assert found.step == int(found.curves[:, 1].argmax()) + 1  # the best is by it


@pytest.mark.parametrize("metric", ["roc_auc", "average_precision"])
def test_ranks_need_nodes_of_every_class(metric):
    label = {"roc_auc": "ROC AUC", "average_precision": "average precision"}[metric]
    masks = arrays()["masks"]
    masks[0, 1, 3] = False  # of class 1, in the val part
    said = f"path: the val part of split 0 has one class only; {label} needs two"
    with pytest.raises(InputError, match=said):
        task(masks=masks, metric=metric)
    for other in set(METRICS) - {"roc_auc", "average_precision"}:
        assert task(masks=masks, metric=other).metric == other
    y = np.array([0, 1, 2, 1, 0, 1, 2, -1])
    said = f"the val part of split 0 has 2 of 3 classes only; {label} needs all"
    with pytest.raises(InputError, match=said):
        task(y=y, metric=metric)


def test_unknown_metrics_are_refused():
    with pytest.raises(InputError, match="unknown metric 'auc'; choose one of accuracy"):
        task(metric="auc")


# --- classes and their weights --------------------------------------------------------------------


def test_classes_that_no_node_has_are_counted_where_their_number_is_given():
    y = np.array([0, 2, 0, 2, 0, 2, 0, -1])
    made = task(y=y, num_classes=4)
    assert (made.num_classes, made.out_channels, made.metric) == (4, 4, "accuracy")
    assert made.size == Size(2, 4, N, 4)
    (result,) = train([spec(steps=2)], tasks={"board": made}, keep=("logits",))
    assert result.logits.shape == (N, 4)
    prints = {task(y=y, num_classes=n).fingerprint() for n in (3, 4, 5)}
    assert len(prints) == 3
    assert task(num_classes=2).fingerprint() == task().fingerprint()


@pytest.mark.parametrize(
    ("number", "message"),
    [
        (2, "path: label 2 is out of range; number the classes from 0"),
        (1, "num_classes must be a whole number of at least 2, not 1"),
        (3.0, "num_classes must be a whole number of at least 2, not 3.0"),
    ],
)
def test_bad_numbers_of_classes_are_one_line(number, message):
    with pytest.raises(InputError) as caught:
        task(y=np.array([0, 2, 0, 2, 0, 2, 0, -1]), num_classes=number)
    assert str(caught.value).startswith(message)


def test_balanced_weights_make_all_classes_count_the_same():
    y, masks = np.array([0, 1, 0, 1, 0, 1, 0, 2]), arrays()["masks"]
    masks[0, 0, [0, 1, 6]] = True  # of classes 0, 1, 0; none of class 2
    made = task(y=y, masks=masks, class_weights="balanced")
    weights = made.weights(0)
    assert weights.tolist() == pytest.approx([3 / (3 * 2), 3 / (3 * 1), 0.0])
    present = compute_class_weight("balanced", classes=np.array([0, 1]), y=y[masks[0, 0]])
    assert weights[:2].tolist() == pytest.approx((present * 2 / 3).tolist())  # over 3 classes
    assert weights.dtype == torch.float32
    assert made.weights(1).tolist() == pytest.approx([2 / 3, 2 / 3, 0.0])
    assert task().weights(0) is None


@pytest.mark.parametrize("form", [list, tuple, np.array, torch.tensor])
def test_weights_may_be_numbers(form):
    made = task(class_weights=form([0.5, 2.0]))
    assert made.weights(0).tolist() == made.weights(1).tolist() == [0.5, 2.0]
    assert made.weights(0).dtype == torch.float32


@pytest.mark.parametrize("dataset", ["board", "ring"])
@pytest.mark.parametrize("weights", ["balanced", "numbers"])
def test_the_loss_is_weighted_as_in_torch(dataset, weights):
    usual = TASKS[dataset]
    y, masks = usual.y, usual.masks.clone()
    masks[0, 0] &= (y > 0) | (torch.arange(len(y)) % 3 > 0)  # classes of several sizes
    given = weights if weights == "balanced" else [0.25, 3.0, 1.5][: usual.num_classes]
    made = Task.from_arrays(usual.graph, usual.x, y, masks, class_weights=given)
    run = resolved(spec(dataset=dataset, precision="float64", dropout=0.0), MODELS["gcn"])
    inputs = InputCache({dataset: made}, {}).get(run, torch.float64)
    group = Group([run], MODELS["gcn"], made, [inputs], device=torch.device("cpu"))
    logits, train, w = group.evaluate()[0], masks[0, 0], made.weights(0).double()
    group.train_step()
    if dataset == "board":
        each = F.binary_cross_entropy_with_logits(
            logits[train, 0], y[train].double(), reduction="none"
        )
        expected = (w[y[train]] * each).sum() / w[y[train]].sum()
    else:
        expected = F.cross_entropy(logits[train], y[train], w)
    torch.testing.assert_close(group.state.loss[0], expected)
    plain = Task.from_arrays(usual.graph, usual.x, y, masks)
    other = Group([run], MODELS["gcn"], plain, [inputs], device=torch.device("cpu"))
    other.train_step()
    assert not torch.isclose(other.state.loss, group.state.loss)
    assert made.fingerprint() != plain.fingerprint()


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ("equal", "path: class_weights are 'balanced' or numbers, not 'equal'"),
        ([1.0], "path: class_weights must be 2 finite numbers of at least 0, one for each class"),
        ([[1.0, 1.0]], "path: class_weights must be 2 finite numbers of at least 0, one for each"),
        ([1.0, -1.0], "path: class_weights must be 2 finite numbers of at least 0, one for each"),
        ([1.0, np.nan], "path: class_weights must be 2 finite numbers of at least 0, one for each"),
        ([1.0, np.inf], "path: class_weights must be 2 finite numbers of at least 0, one for each"),
        (["a", "b"], "path: class_weights must be numbers"),
        ([0.0, 0.0], "path: no training node of split 0 has a class weight above 0"),
    ],
)
def test_bad_class_weights_are_one_line(weights, message):
    with pytest.raises(InputError) as caught:
        task(class_weights=weights)
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


# --- where tasks come from ------------------------------------------------------------------------


def test_training_nodes_may_be_of_one_class():
    masks = arrays()["masks"]
    masks[0, 0, 1] = False
    assert task(masks=masks).num_splits == 2


def test_from_data_takes_one_split_or_many():
    made = arrays()
    data = Data(x=torch.tensor(made["x"]), y=torch.tensor(made["y"]), num_nodes=N)
    data.edge_index = torch.tensor(EDGES)
    with pytest.raises(InputError, match="has no train_mask, val_mask; training needs them"):
        Task.from_data(data)
    for i, part in enumerate(("train", "val", "test")):
        data[f"{part}_mask"] = torch.tensor(made["masks"][:, i].T)
    assert torch.equal(Task.from_data(data).masks, torch.tensor(made["masks"]))
    data.val_mask = data.val_mask[:, 0]
    with pytest.raises(InputError, match="differ in their number of splits"):
        Task.from_data(data)
    for part in ("train", "test"):
        data[f"{part}_mask"] = data[f"{part}_mask"][:, 0]
    assert torch.equal(Task.from_data(data).masks, torch.tensor(made["masks"][:1]))
    weighted = Task.from_data(data, name="mine", metric="macro_f1", class_weights="balanced")
    assert (weighted.name, weighted.metric, weighted.class_weights) == (
        "mine",
        "macro_f1",
        "balanced",
    )
    test = data.test_mask
    del data.test_mask
    assert torch.equal(Task.from_data(data).masks[:, :2], torch.tensor(made["masks"][:1, :2]))
    assert not Task.from_data(data).masks[:, 2].any()
    data.test_mask = test
    data.val_mask = data.val_mask[1:]
    with pytest.raises(InputError, match=r"val_mask has shape \[7\]; 8 nodes need \[8\] or"):
        Task.from_data(data)


def test_a_file_opens_as_its_arrays(tmp_path: Path):
    made = arrays()
    masks = {
        f"{part}_masks": made["masks"][:, i] for i, part in enumerate(("train", "val", "test"))
    }
    given = {"edges": np.array(EDGES).T, "node_features": made["x"], "node_labels": made["y"]}
    path = tmp_path / "path.npz"
    path.write_bytes(npz(**given, **masks))
    opened = Task.open(str(path))
    assert opened.name == "path.npz"
    assert opened.fingerprint() == task().fingerprint()
    for lacking, message in (
        (("node_features",), "path.npz has no node features, so there is nothing to train on; "),
        (("node_labels",), "path.npz has no labels, so there is nothing to train on; "),
        (tuple(masks), "path.npz has no splits, so there is nothing to train on; "),
        (("node_labels", *masks), "path.npz has no labels and no splits, so there is nothing"),
    ):
        path.write_bytes(npz(**{k: v for k, v in {**given, **masks}.items() if k not in lacking}))
        with pytest.raises(InputError) as caught:
            Task.open(str(path))
        assert str(caught.value).startswith(message)


def test_fingerprints_tell_any_change():
    first, made = task(), arrays()
    y, masks = made["y"].copy(), made["masks"].copy()
    y[6], masks[0, 0, 6] = 1, True
    weighted = Graph.from_edge_index(EDGES, edge_weight=np.full(7, 2.0))
    other = [task(x=made["x"] + 1), task(y=y), task(masks=masks), task(masks=made["masks"][:1])]
    other += [Task.from_arrays(Graph.from_edge_index(np.array(EDGES)[:, :6], 8), **made)]
    other += [Task.from_arrays(weighted, **made)]
    other += [task(metric="accuracy"), task(class_weights="balanced"), task(num_classes=3)]
    other += [task(class_weights=[1.0, 2.0]), task(class_weights=[2.0, 1.0])]
    assert len({t.fingerprint() for t in [first, *other]}) == 12
    assert task().fingerprint() == first.fingerprint()


def test_real_graphs_open(data_root: Path):
    found = Task.open("minesweeper", data_root)
    assert (found.x.shape, found.num_splits, found.metric) == ((10_000, 7), 10, "roc_auc")
