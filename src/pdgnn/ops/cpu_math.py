"""e^x and the normal distribution for the kernels, in the precision of their argument.

Those of float32 have no branches, so that loops over them are vectorised; their sums must stay as
they are written, whatever the kernel allows, hence compiled without reassoc. Those of float64 are
the C library's.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import types
from numba.extending import overload


def exp(x: float) -> float:
    """e^x for x <= 1, and 0 where a float32 is no normal number. NaN stays NaN."""
    raise NotImplementedError


def normal(x: float) -> tuple[float, float]:
    """Φ(x) and φ(x) of the standard normal distribution."""
    raise NotImplementedError


def _compiled(function: Callable[..., Any], single: Any, double: Any) -> None:
    """Give `function` its forms inside of kernels."""

    def form(x: Any) -> Any:
        return single if x == types.float32 else double

    overload(function, jit_options={"fastmath": {"contract"}, "forceinline": True})(form)


# --- e^x = 2^n e^r with x = n ln 2 + r, and e^r by its series -------------------------------------
#
# Adding 1.5 · 2^23 rounds to the integer n, which then is in the lowest bits and a shift makes it
# an exponent.


def _exp_single(x: Any) -> Any:
    f = np.float32
    shifted = x * f(1.4426950408889634) + f(12582912.0)
    n = shifted - f(12582912.0)
    r = (x - n * f(0.693359375)) + n * f(2.1219444005469057e-4)
    y = f(1 / 5040) * r + f(1 / 720)
    y = y * r + f(1 / 120)
    y = y * r + f(1 / 24)
    y = y * r + f(1 / 6)
    y = y * r + f(0.5)
    y = y * r + f(1.0)
    y = y * r + f(1.0)
    power = np.int32((np.float32(shifted).view(np.int32) << np.int32(23)) + np.int32(0x3F800000))
    return f(0.0) if x < f(-87.33) else y * power.view(np.float32)


def _exp_double(x: Any) -> Any:
    return math.exp(x)


_compiled(exp, _exp_single, _exp_double)


# --- Φ(−|x|) = e^(−x²/2) s q(t) with s = 1 / (|x| + 4), t = 1 − 8 s in [−1, 1] --------------------
#
# q is smooth up to |x| = ∞, as Φ(−|x|) there is that exponential over |x| √(2π): a polynomial of
# least error, which leaves Φ with one of 3e-9, less than rounding.


def _normal_single(x: Any) -> Any:
    f = np.float32
    s = f(1.0) / (abs(x) + f(4.0))
    t = f(1.0) - f(8.0) * s
    q = f(-0.005536521638806442) * t - f(0.00754543352776764)
    q = q * t + f(0.06227292940692258)
    q = q * t - f(0.1848660161856468)
    q = q * t + f(0.3877798332092199)
    q = q * t - f(0.6077791282252475)
    q = q * t + f(0.7552931701886174)
    bell = exp(f(-0.5) * x * x)
    tail = bell * s * q
    return (tail if x < f(0.0) else f(1.0) - tail), bell * f(0.3989422804014327)


def _normal_double(x: Any) -> Any:
    return 0.5 * math.erfc(-0.7071067811865476 * x), math.exp(-0.5 * x * x) * 0.3989422804014327


_compiled(normal, _normal_single, _normal_double)
