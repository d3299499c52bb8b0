"""Text of users and files, made safe to show."""

from __future__ import annotations

__all__ = ["one_line"]


def one_line(text: object) -> str:
    """`text` with a space for each line break and control character, which terminals would obey.

    >>> one_line("a\\nb\\x1b[31m")
    'a b [31m'
    """
    return "".join(c if c.isprintable() else " " for c in str(text))
