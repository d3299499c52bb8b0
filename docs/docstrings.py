"""The docstrings of this project as Markdown, for mkdocstrings.

They say ``:func:`~pdgnn.laplacian.diffusion_matrix``` where they mean a link, and have examples
(``>>>``) anywhere. A role becomes a link where the site has the name and plain code elsewhere; an
example becomes a block of code.
"""

from __future__ import annotations

import re
from html import escape
from typing import Any

import griffe

ROLE = re.compile(r":(?:func|class|meth|mod|data|attr|exc|obj):`(~?)([\w.]+)`")
EXAMPLE = re.compile(r"(?:^>>> .*\n?)(?:^.+\n?)*", re.MULTILINE)


class Docstrings(griffe.Extension):
    """Rewrites every docstring before it is parsed."""

    def on_instance(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        """Called for each module, class, function and attribute."""
        if obj.docstring is not None:
            obj.docstring.value = as_markdown(obj.docstring.value, obj)


def as_markdown(text: str, obj: griffe.Object) -> str:
    """`text` with fences around its examples and links for its roles."""
    text = EXAMPLE.sub(lambda match: f"```pycon\n{match[0].rstrip()}\n```\n", text)
    return ROLE.sub(lambda match: _link(match[2], match[1] == "~", obj), text)


def _link(name: str, short: bool, obj: griffe.Object) -> str:
    try:
        target = obj.resolve(name)
    except griffe.NameResolutionError:
        target = name
    shown = name.rpartition(".")[2] if short else name
    return f'<autoref optional identifier="{escape(target)}"><code>{escape(shown)}</code></autoref>'
