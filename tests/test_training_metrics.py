"""Every metric of many runs, against scikit-learn run by run."""

from __future__ import annotations

import math
import warnings
from statistics import fmean

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn import metrics

from pdgnn import InputError
from pdgnn.training.metrics import METRICS, check_metric, roc_auc, scores

DTYPES = st.sampled_from([torch.float32, torch.float64])


@st.composite
def cases(draw, classes: int):
    """Logits with many ties, labels and masks: R runs, K masks each, N nodes."""
    runs, masks, nodes = draw(st.integers(1, 3)), draw(st.integers(1, 3)), draw(st.integers(2, 14))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    levels = draw(st.sampled_from([1, 2, 5, 1000]))
    shape = (runs, nodes, 1 if classes == 2 else classes)
    logits = rng.integers(-levels, levels + 1, size=shape) / 7
    y = rng.integers(0, classes, size=nodes)
    return logits, y, rng.random((runs, masks, nodes)) < draw(st.sampled_from([0.4, 0.8, 1.0]))


def by_sklearn(metric: str, logits: np.ndarray, y: np.ndarray, classes: int) -> float:
    """Of the nodes of one mask; nan where a class that the score is of has no nodes."""
    if not len(y):
        return math.nan
    if metric in ("roc_auc", "average_precision"):
        return ranked(metric, logits, y, classes)
    best = (logits[:, 0] > 0).astype(int) if classes == 2 else logits.argmax(axis=1)
    if metric == "accuracy":
        return metrics.accuracy_score(y, best)
    if metric == "macro_f1":
        there = sorted({*y, *best})
        return metrics.f1_score(y, best, labels=there, average="macro", zero_division=0)
    with warnings.catch_warnings():  # of classes that were predicted and are not there
        warnings.simplefilter("ignore")
        return metrics.balanced_accuracy_score(y, best)


def ranked(metric: str, logits: np.ndarray, y: np.ndarray, classes: int) -> float:
    score = metrics.roc_auc_score if metric == "roc_auc" else metrics.average_precision_score
    needed = {1} if metric == "average_precision" and classes == 2 else set(range(classes))
    if not needed <= set(y):
        return math.nan
    if classes == 2:
        return score(y, logits[:, 0])
    shares = torch.tensor(logits).softmax(dim=-1).numpy()
    return fmean(score(y == c, shares[:, c]) for c in range(classes))


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("metric", METRICS)
@given(data=st.data(), dtype=DTYPES)
def test_every_metric_is_that_of_scikit_learn(metric, classes, data, dtype):
    logits, y, masks = data.draw(cases(classes))
    given_logits = torch.tensor(logits, dtype=dtype)
    found = scores(given_logits, torch.tensor(y), torch.tensor(masks), metric)
    assert found.dtype == torch.float64
    assert found.shape == masks.shape[:2]
    for r, k in np.ndindex(*masks.shape[:2]):
        inside = masks[r, k]
        expected = by_sklearn(metric, given_logits[r, inside].numpy(), y[inside], classes)
        assert float(found[r, k]) == pytest.approx(expected, abs=1e-12, nan_ok=True)


@pytest.mark.parametrize("metric", ["roc_auc", "average_precision"])
def test_one_against_the_rest_is_the_macro_score_of_scikit_learn(metric):
    rng = np.random.default_rng(0)
    logits, y = rng.normal(size=(40, 3)), np.arange(40) % 3
    shares = torch.tensor(logits).softmax(dim=-1).numpy()
    if metric == "roc_auc":
        expected = metrics.roc_auc_score(y, shares, multi_class="ovr", average="macro")
    else:
        expected = metrics.average_precision_score(np.eye(3)[y], shares, average="macro")
    everyone = torch.ones(1, 1, 40, dtype=torch.bool)
    found = scores(torch.tensor(logits)[None], torch.tensor(y), everyone, metric)
    assert found.item() == pytest.approx(expected, abs=1e-12)


def test_the_usual_metric_is_roc_auc_of_one_logit_and_accuracy_of_several():
    generator = torch.Generator().manual_seed(0)
    for out, metric in ((1, "roc_auc"), (2, "accuracy"), (3, "accuracy")):
        logits = torch.randn(2, 12, out, generator=generator)
        y, masks = torch.arange(12) % max(out, 2), torch.ones(2, 1, 12, dtype=torch.bool)
        assert torch.equal(scores(logits, y, masks), scores(logits, y, masks, metric))


def test_two_logits_of_two_classes_score_as_their_difference_does():
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(3, 20, 2, generator=generator, dtype=torch.float64)
    y, masks = torch.arange(20) % 2, torch.rand(3, 2, 20, generator=generator) < 0.7
    one = logits[..., 1:] - logits[..., :1]
    for metric in ("roc_auc", "accuracy", "balanced_accuracy", "macro_f1"):
        two = scores(logits, y, masks, metric)
        torch.testing.assert_close(two, scores(one, y, masks, metric), rtol=0, atol=1e-12)


def test_unknown_metrics_are_refused():
    with pytest.raises(InputError, match=r"unknown metric 'auc'; choose one of accuracy, balanced"):
        check_metric("auc")


def test_ties_count_half_and_the_sign_of_zero_does_not():
    everyone = torch.ones(1, 1, 4, dtype=torch.bool)
    y = torch.tensor([0, 1, 0, 1])
    for logits, auc, precision in (
        ([0.0, 0.0, 0.0, 0.0], 0.5, 0.5),
        ([0.0, -0.0, -0.0, 0.0], 0.5, 0.5),
        ([-1e38, 1e38, -torch.inf, torch.inf], 1.0, 1.0),
        ([3.0, 2.0, 3.0, 2.0], 0.0, 0.5),
        ([3.0, 3.0, 1.0, 2.0], 0.625, 7 / 12),
    ):
        column = torch.tensor(logits).view(1, 4, 1)
        assert roc_auc(column, y, everyone).item() == auc
        found = scores(column, y, everyone, "average_precision").item()
        assert found == pytest.approx(precision, abs=1e-12)


def test_nodes_outside_a_mask_do_not_count():
    y = torch.tensor([0, 1, -1, 1])
    masks = torch.tensor([[[True, True, False, False], [True, False, False, True]]])
    column = torch.tensor([0.2, 0.3, 9.0, 0.1]).view(1, 4, 1)
    assert scores(column, y, masks, "roc_auc").tolist() == [[1.0, 0.0]]
    assert scores(column, y, masks, "average_precision").tolist() == [[1.0, 0.5]]
    logits = torch.tensor([[[0.9, 0.1], [0.2, 0.3], [9.0, 0.0], [0.4, 0.1]]])
    assert scores(logits, y, masks, "accuracy").tolist() == [[1.0, 0.5]]
    assert scores(logits, y, masks, "balanced_accuracy").tolist() == [[1.0, 0.5]]
    expected = torch.tensor([[1.0, 1 / 3]], dtype=torch.float64)
    torch.testing.assert_close(scores(logits, y, masks, "macro_f1"), expected)


@pytest.mark.parametrize("outputs", [1, 3])
@pytest.mark.parametrize("metric", METRICS)
def test_nan_in_one_run_is_nan_there_alone(metric, outputs):
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(3, 8, outputs, generator=generator)
    y, masks = torch.arange(8) % max(outputs, 2), torch.ones(3, 2, 8, dtype=torch.bool)
    whole = scores(logits, y, masks, metric)
    assert whole.isfinite().all()
    logits[1, 5, -1] = torch.nan
    found = scores(logits, y, masks, metric)
    assert found[1].isnan().all()
    assert torch.equal(found[[0, 2]], whole[[0, 2]])


@pytest.mark.parametrize("metric", METRICS)
def test_scores_do_not_depend_on_the_layout_of_the_logits(metric):
    generator = torch.Generator().manual_seed(0)
    logits, y = torch.randn(9, 2, 1, generator=generator).transpose(0, 1), torch.arange(9) % 2
    masks = torch.ones(2, 1, 9, dtype=torch.bool)
    assert not logits.is_contiguous()
    plain = scores(logits.contiguous(), y, masks, metric)
    assert torch.equal(scores(logits, y, masks, metric), plain)
