"""The checks of single numbers."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from pdgnn.errors import InputError, check_number, check_whole


@pytest.mark.parametrize("value", [3, np.int64(3), np.uint8(3), torch.tensor(3)])
def test_a_whole_number_of_any_kind_is_an_int(value):
    assert type(check_whole("k", value)) is int
    assert check_whole("k", value, 3, below=4) == 3


@pytest.mark.parametrize("value", [True, np.True_, 2.0, "2", None, [2], torch.tensor(2.0), 0, -1])
def test_what_is_no_whole_number_of_at_least_one(value):
    with pytest.raises(InputError, match=r"^k must be a whole number of at least 1, not "):
        check_whole("k", value)


def test_a_whole_number_may_have_an_upper_limit():
    assert check_whole("seed", 9, 0, below=10) == 9
    for value in (10, -1, "a"):
        with pytest.raises(InputError, match=r"seed must be .* at least 0 and below 10, not "):
            check_whole("seed", value, 0, below=10)


@pytest.mark.parametrize("value", [1, 1.0, np.float32(1), torch.tensor(1.0)])
def test_a_number_of_any_kind_is_a_float(value):
    assert type(check_number("alpha", value, 0, 1)) is float
    assert check_number("alpha", value, 0, 1) == 1.0


def test_zero_has_no_sign():
    assert math.copysign(1.0, check_number("alpha", -0.0, 0, 1)) == 1.0


@pytest.mark.parametrize("value", [True, "0.5", None, 1j, [0.5], math.nan, -0.1, 1.1, 10**400])
def test_what_is_no_number_between_zero_and_one(value):
    with pytest.raises(InputError, match=r"^alpha must be a number in \[0, 1\], not "):
        check_number("alpha", value, 0, 1)


def test_an_end_may_be_left_out_or_missing():
    with pytest.raises(InputError, match=r"dropout must be a number in \[0, 1\), not 1"):
        check_number("dropout", 1, 0, 1, end=False)
    assert check_number("lr", 1e300) == 1e300
    for value in (math.inf, -1e-9):
        with pytest.raises(InputError, match="lr must be a number of at least 0, and finite"):
            check_number("lr", value)
