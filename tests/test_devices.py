"""Which devices are taken."""

from __future__ import annotations

import pytest
import torch

from pdgnn.devices import check_device, one_blas_thread
from pdgnn.errors import InputError


def test_the_cpu_is_always_there():
    assert check_device(torch.device("cpu"), what="this runs") == torch.device("cpu")


@pytest.mark.parametrize(
    ("device", "message"),
    [
        ("tpu", "unknown device 'tpu'; use 'cpu' or 'cuda'"),
        (3.5, "unknown device 3.5; use 'cpu' or 'cuda'"),
        ("meta", "this runs on 'cpu' or 'cuda', not on 'meta'; name one of them as device"),
    ],
)
def test_others_are_refused(device, message):
    with pytest.raises(InputError) as caught:
        check_device(device, what="this runs")
    assert str(caught.value) == message


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA GPU")
def test_no_gpu():
    with pytest.raises(InputError, match="needs a CUDA GPU and there is none; use device='cpu'"):
        check_device("cuda", what="this runs")


def test_linear_algebra_has_one_thread_for_a_while():
    pools = pytest.importorskip("threadpoolctl").threadpool_info

    def threads() -> list[int]:
        return [pool["num_threads"] for pool in pools() if pool["user_api"] == "blas"]

    before = threads()
    with one_blas_thread():
        assert set(threads()) == {1}
    assert threads() == before
