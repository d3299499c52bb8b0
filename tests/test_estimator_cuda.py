"""PDClassifier on a GPU: it trains there, and what it has learned is used anywhere."""

from __future__ import annotations

import numpy as np
import pytest
import torch

pytest.importorskip("lightgbm", reason="LightGBM is not installed")

from pdgnn import PDClassifier, datasets

pytestmark = [
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA GPU"),
    pytest.mark.usefixtures("no_clock"),
]
GRAPH = "synthetic:num_nodes=300,homophily=0.1,num_classes=3,seed=1"


@pytest.mark.parametrize("model", ["auto", "pd-gat-sep", "pd-gcn"])
def test_a_model_of_the_gpu_predicts_on_the_cpu(model, tmp_path):
    data = datasets.load(GRAPH)
    clf = PDClassifier(model=model, minutes=0.5, device="cuda").fit(data)
    assert clf.estimate_.score > 0.5
    clf.save(tmp_path / "model")
    back = PDClassifier.load(tmp_path / "model")
    np.testing.assert_array_equal(back.predict_proba(), clf.predict_proba())
    np.testing.assert_allclose(back.predict_proba(data), clf.proba_, atol=1e-3)


def test_auto_takes_the_gpu():
    from pdgnn.estimator.classifier import _device

    assert _device("auto") == "cuda"
