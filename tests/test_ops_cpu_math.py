"""e^x and the normal distribution as kernels compute them, against the functions of `math`."""

from __future__ import annotations

import math

import numpy as np
import pytest

pytest.importorskip("numba")

import numba

from pdgnn.ops import cpu_math

BOTH = pytest.mark.parametrize("dtype", [np.float32, np.float64])


@numba.njit
def exp_of_all(x):
    out = np.empty_like(x)
    for k in range(x.size):
        out[k] = cpu_math.exp(x[k])
    return out


@numba.njit
def normal_of_all(x):
    below, density = np.empty_like(x), np.empty_like(x)
    for k in range(x.size):
        below[k], density[k] = cpu_math.normal(x[k])
    return below, density


@pytest.mark.parametrize(("dtype", "least"), [(np.float32, -87.0), (np.float64, -707.0)])
def test_exp_is_right_to_two_units_in_the_last_place(dtype, least):
    x = np.concatenate([np.linspace(least, 1, 100_001), np.linspace(-1, 1, 100_001)]).astype(dtype)
    exact = np.exp(x.astype(np.longdouble))
    assert np.max(np.abs(exp_of_all(x) - exact) / exact) < 2 * np.finfo(dtype).eps


@BOTH
def test_exp_of_what_is_no_ordinary_number(dtype):
    mine = exp_of_all(np.array([0.0, -0.0, -1e4, -np.inf, np.nan], dtype=dtype))
    assert mine[:4].tolist() == [1.0, 1.0, 0.0, 0.0]
    assert np.isnan(mine[4])


def exact_normal(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    below = [0.5 * math.erfc(-v / math.sqrt(2)) for v in x.tolist()]
    return np.array(below), np.exp(-0.5 * x.astype(np.float64) ** 2) / math.sqrt(2 * math.pi)


@pytest.mark.parametrize(("dtype", "relative"), [(np.float32, 2e-3), (np.float64, 4e-14)])
def test_normal_distribution(dtype, relative):
    x = np.concatenate([np.linspace(-12, 12, 20_001), np.linspace(-1, 1, 20_001)]).astype(dtype)
    for mine, exact in zip(normal_of_all(x), exact_normal(x), strict=True):
        assert mine.dtype == dtype
        assert np.max(np.abs(mine - exact)) < 3 * np.finfo(dtype).eps
        assert np.max(np.abs(mine / exact - 1)) < relative  # far out, too


@BOTH
def test_normal_distribution_of_what_is_no_ordinary_number(dtype):
    below, density = normal_of_all(np.array([0.0, -0.0, np.inf, -np.inf, 1e30, np.nan], dtype))
    assert below[2:5].tolist() == [1.0, 0.0, 1.0]
    assert np.allclose(below[:2], 0.5, rtol=0, atol=np.finfo(dtype).eps)
    assert density[2:5].tolist() == [0.0, 0.0, 0.0]
    assert np.isnan(below[5])
    assert np.isnan(density[5])
