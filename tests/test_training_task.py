"""What there is to learn: opened from names, files, Data and arrays, and every bad input."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from filing import npz
from pdgnn import Graph, InputError
from pdgnn.training import Task
from runs import three_classes

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
        ({"masks": arrays()["masks"][:, :2]}, "masks have shape [2, 2, 8]; give [splits, 3, 8]"),
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
        ((1, 2, slice(None), False), "split 1 has no test nodes"),
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


def test_training_nodes_may_be_of_one_class():
    masks = arrays()["masks"]
    masks[0, 0, 1] = False
    assert task(masks=masks).num_splits == 2


def test_from_data_takes_one_split_or_many():
    made = arrays()
    data = Data(x=torch.tensor(made["x"]), y=torch.tensor(made["y"]), num_nodes=N)
    data.edge_index = torch.tensor(EDGES)
    with pytest.raises(InputError, match="has no train_mask, val_mask, test_mask; training needs"):
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
    assert len({t.fingerprint() for t in [first, *other]}) == 7
    assert task().fingerprint() == first.fingerprint()


def test_real_graphs_open(data_root: Path):
    found = Task.open("minesweeper", data_root)
    assert (found.x.shape, found.num_splits, found.metric) == ((10_000, 7), 10, "roc_auc")
