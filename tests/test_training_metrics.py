"""Accuracy and ROC AUC of many runs, against scikit-learn run by run."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, roc_auc_score

from pdgnn.training.metrics import accuracy, roc_auc, scores

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


@given(cases(2), DTYPES)
def test_roc_auc_is_that_of_scikit_learn(case, dtype):
    logits, y, masks = case
    found = scores(torch.tensor(logits, dtype=dtype), torch.tensor(y), torch.tensor(masks))
    assert found.dtype == torch.float64
    assert found.shape == masks.shape[:2]
    for r, k in np.ndindex(*masks.shape[:2]):
        inside = masks[r, k]
        if len(set(y[inside])) < 2:
            assert found[r, k].isnan()
        else:
            score = logits[r, inside, 0].astype(np.float32 if dtype == torch.float32 else float)
            assert float(found[r, k]) == pytest.approx(roc_auc_score(y[inside], score), abs=1e-12)


@given(cases(4), DTYPES)
def test_accuracy_is_that_of_scikit_learn(case, dtype):
    logits, y, masks = case
    found = scores(torch.tensor(logits, dtype=dtype), torch.tensor(y), torch.tensor(masks))
    assert found.dtype == torch.float64
    for r, k in np.ndindex(*masks.shape[:2]):
        inside = masks[r, k]
        if inside.any():
            best = logits[r, inside].argmax(axis=1)
            assert float(found[r, k]) == accuracy_score(y[inside], best)
        else:
            assert found[r, k].isnan()


def test_ties_count_half_and_the_sign_of_zero_does_not():
    everyone = torch.ones(1, 1, 4, dtype=torch.bool)
    y = torch.tensor([0, 1, 0, 1])
    assert roc_auc(torch.zeros(1, 4), y, everyone).item() == 0.5
    assert roc_auc(torch.tensor([[0.0, -0.0, -0.0, 0.0]]), y, everyone).item() == 0.5
    assert roc_auc(torch.tensor([[-1e38, 1e38, -torch.inf, torch.inf]]), y, everyone).item() == 1.0
    assert roc_auc(torch.tensor([[3.0, 2.0, 3.0, 2.0]]), y, everyone).item() == 0.0


def test_nodes_outside_a_mask_do_not_count():
    y = torch.tensor([0, 1, -1, 1])
    masks = torch.tensor([[[True, True, False, False], [True, False, False, True]]])
    assert roc_auc(torch.tensor([[0.2, 0.3, 9.0, 0.1]]), y, masks).tolist() == [[1.0, 0.0]]
    logits = torch.tensor([[[0.9, 0.1], [0.2, 0.3], [9.0, 0.0], [0.4, 0.1]]])
    assert accuracy(logits, y, masks).tolist() == [[1.0, 0.5]]


@pytest.mark.parametrize("outputs", [1, 3])
def test_nan_in_one_run_is_nan_there_alone(outputs):
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(3, 8, outputs, generator=generator)
    y, masks = torch.arange(8) % max(outputs, 2), torch.ones(3, 2, 8, dtype=torch.bool)
    whole = scores(logits, y, masks)
    logits[1, 5, -1] = torch.nan
    found = scores(logits, y, masks)
    assert found[1].isnan().all()
    assert torch.equal(found[[0, 2]], whole[[0, 2]])


def test_scores_do_not_depend_on_the_layout_of_the_logits():
    generator = torch.Generator().manual_seed(0)
    logits, y = torch.randn(9, 2, 1, generator=generator).transpose(0, 1), torch.arange(9) % 2
    masks = torch.ones(2, 1, 9, dtype=torch.bool)
    assert not logits.is_contiguous()
    assert torch.equal(scores(logits, y, masks), scores(logits.contiguous(), y, masks))
