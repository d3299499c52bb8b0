"""The errors that a user can cause, and mend; the checks of single numbers that raise them."""

from __future__ import annotations

import math
import operator
from typing import Any

__all__ = [
    "DAMAGE",
    "ConvergenceError",
    "InputError",
    "PdgnnError",
    "check_number",
    "check_whole",
]

DAMAGE = (ValueError, TypeError, KeyError, IndexError, AttributeError, EOFError, RecursionError)
"""Exceptions that reading a damaged file may raise."""


class PdgnnError(Exception):
    """Base of every error that pdgnn raises on purpose."""


class InputError(PdgnnError, ValueError):
    """Input that cannot be used. The message names the harm and the remedy in one line."""


class ConvergenceError(PdgnnError, ArithmeticError):
    """An eigenpair did not reach the tolerance asked for; no vector is returned."""


def check_whole(name: str, value: Any, least: int = 1, below: int | None = None) -> int:
    """`value` as an int if it is a whole number of at least `least` (and below `below`), no bool.

    >>> check_whole("k", 3), check_whole("seed", 0, 0)
    (3, 0)
    >>> check_whole("k", 0)
    Traceback (most recent call last):
    pdgnn.errors.InputError: k must be a whole number of at least 1, not 0
    """
    try:
        number = None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = None
    if number is None or number < least or (below is not None and number >= below):
        limit = "" if below is None else f" and below {below}"
        raise InputError(f"{name} must be a whole number of at least {least}{limit}, not {value!r}")
    return number


def check_number(
    name: str, value: Any, low: float = 0.0, high: float = math.inf, *, end: bool = True
) -> float:
    """`value` as a float if it is a finite number in [low, high]; in [low, high) without `end`.

    Bools and strings are no numbers here; what `float` takes besides is, such as a 0-d tensor.

    >>> check_number("gamma", 1, 0, 1)
    1.0
    >>> check_number("dropout", 1.0, 0, 1, end=False)
    Traceback (most recent call last):
    pdgnn.errors.InputError: dropout must be a number in [0, 1), not 1.0
    """
    try:
        number = math.nan if isinstance(value, bool | str) else float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not low <= number <= high or math.isinf(number) or (number == high and not end):
        limit = f"in [{low:g}, {high:g}{']' if end else ')'}"
        if high == math.inf:
            limit = f"of at least {low:g}, and finite"
        raise InputError(f"{name} must be a number {limit}, not {repr(value)[:40]}")
    return number + 0.0  # no -0.0, which is equal to 0.0 and prints otherwise
