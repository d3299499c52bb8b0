"""Functions that loops of kernels vectorise: e^x and the normal distribution, without branches.

Each is in the precision of its argument, float32 or float64. Their sums must stay as they are
written, whatever the kernel allows, hence compiled without reassoc.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import types
from numba.extending import overload

__all__ = ["exp", "normal"]


def exp(x: float) -> float:
    """e^x for x <= 1, and 0 where that is no normal number. NaN stays NaN."""
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
# Adding 1.5 · 2^23 (2^52) rounds to the integer n, which then is in the lowest bits and a shift
# makes it an exponent.


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
    shifted = x * 1.4426950408889634 + 6755399441055744.0
    n = shifted - 6755399441055744.0
    r = (x - n * 0.6931471803691238) - n * 1.9082149292705877e-10
    y = (1 / 6227020800) * r + 1 / 479001600
    y = y * r + 1 / 39916800
    y = y * r + 1 / 3628800
    y = y * r + 1 / 362880
    y = y * r + 1 / 40320
    y = y * r + 1 / 5040
    y = y * r + 1 / 720
    y = y * r + 1 / 120
    y = y * r + 1 / 24
    y = y * r + 1 / 6
    y = y * r + 0.5
    y = y * r + 1.0
    y = y * r + 1.0
    power = np.int64((np.float64(shifted).view(np.int64) << 52) + 0x3FF0000000000000)
    return 0.0 if x < -708.0 else y * power.view(np.float64)


_compiled(exp, _exp_single, _exp_double)


# --- Φ(−|x|) = e^(−x²/2) s q(t) with s = 1 / (|x| + 4), t = 1 − 8 s in [−1, 1] --------------------
#
# q is smooth up to |x| = ∞, as Φ(−|x|) there is that exponential over |x| √(2π): polynomials of
# least error, which leave Φ with one of 3e-9 (less than rounding) and 2e-15.


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
    s = 1.0 / (abs(x) + 4.0)
    t = 1.0 - 8.0 * s
    q = 6.779782952967935e-09 * t + 1.2864131315337076e-08
    q = q * t - 5.672557615813717e-08
    q = q * t - 1.4714432392342366e-07
    q = q * t + 2.3512957714484183e-07
    q = q * t + 1.0079852595092224e-06
    q = q * t - 6.0028501758604e-07
    q = q * t - 5.908225595666256e-06
    q = q * t + 7.013964174474784e-07
    q = q * t + 3.5138451629084284e-05
    q = q * t - 1.903136565073693e-06
    q = q * t - 0.00023109295284468574
    q = q * t + 0.00013334323641869074
    q = q * t + 0.0016308180841580772
    q = q * t - 0.0034796922350589523
    q = q * t - 0.007540188928374235
    q = q * t + 0.06039657488256653
    q = q * t - 0.1865218579614545
    q = q * t + 0.3871374007424215
    q = q * t - 0.6078966419718673
    q = q * t + 0.7552851304157506
    bell = exp(-0.5 * x * x)
    tail = bell * s * q
    return (tail if x < 0.0 else 1.0 - tail), bell * 0.3989422804014327


_compiled(normal, _normal_single, _normal_double)
