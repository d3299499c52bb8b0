"""Lists that users type: words, numbers and ranges of whole numbers, with commas between them."""

from __future__ import annotations

from pdgnn.errors import InputError

__all__ = ["MOST_NUMBERS", "numbers", "whole_numbers", "words"]

MOST_NUMBERS = 10_000
"""In a list such as 0-9."""


def words(option: str, text: str) -> list[str]:
    """``"a, b"`` as ``["a", "b"]``, each once."""
    items = list(dict.fromkeys(item.strip() for item in text.split(",") if item.strip()))
    if not items:
        raise InputError(f"{option} is empty; give one or several, with commas between them")
    return items


def numbers(option: str, text: str) -> list[float]:
    """``"0,0.5,1"``."""
    try:
        return list(dict.fromkeys(float(item) for item in words(option, text)))
    except ValueError as e:
        if isinstance(e, InputError):
            raise
        raise InputError(f"{option} takes numbers such as 0,0.5,1, not {text!r}") from e


def whole_numbers(option: str, text: str) -> list[int]:
    """``"0,2,5-7"``."""
    found: dict[int, None] = {}
    for item in words(option, text):
        first, _, last = item.partition("-")
        ends = first.strip(), (last or first).strip()
        if not all(end.isascii() and end.isdigit() and len(end) < 20 for end in ends):
            raise InputError(f"{option} takes whole numbers such as 0,1,2 or 0-4, not {text!r}")
        low, high = map(int, ends)
        if not low <= high < low + MOST_NUMBERS:
            raise InputError(f"{option} has {item}; give the lower end first, and not too many")
        found |= dict.fromkeys(range(low, high + 1))
    return list(found)
