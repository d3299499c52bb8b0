"""What users and their files say, made harmless to show."""

from __future__ import annotations

__all__ = ["one_line"]


def one_line(text: object) -> str:
    """Text that stays on its line and gives the terminal no orders, whatever a file holds.

    >>> one_line("a\\nb\\x1b[31m")
    'a b [31m'
    """
    return "".join(c if c.isprintable() else " " for c in str(text))
