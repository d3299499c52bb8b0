"""What every page is wrapped in: head, theme button, sections, style, script and their policy."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any

from pdgnn import __version__
from pdgnn.report.fitted_charts import text

__all__ = ["embedded", "html_page"]


def html_page(
    *,
    title: str,
    kind: str,
    lead: str,
    sections: Mapping[str, tuple[str, str]],
    styles: Sequence[str],
    scripts: Sequence[str],
    data: Any,
) -> str:
    """One self-contained page. `title` is escaped here; `lead` and the sections are HTML already.

    `sections` are heading and body by their id. `styles` and `scripts` are files of ``assets/``,
    which come after ``page.css`` and ``theme.js``; `data` is what the scripts read as JSON from the
    element ``#data``. The policy lets the page load nothing and run this script alone.
    """
    style = "".join(map(_asset, ("page.css", *styles)))
    script = "".join(map(_asset, ("theme.js", *scripts)))
    policy = (
        "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; "
        f"script-src 'sha256-{_digest(script)}'"
    )
    links = "".join(f'<a href="#{key}">{heading}</a>' for key, (heading, _) in sections.items())
    body = "".join(
        f'<section id="{key}" aria-labelledby="{key}-h"><h2 id="{key}-h">{heading}</h2>'
        f"{inner}</section>"
        for key, (heading, inner) in sections.items()
    )
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{text(title)} - pdgnn</title>
<style>{style}</style>
</head>
<body>
<header>
<div><p class="quiet">{kind}</p><h1>{text(title)}</h1></div>
<button id="theme" type="button" aria-label="Light or dark">◐</button>
</header>
<p class="lead">{lead}</p>
<nav aria-label="Sections">{links}</nav>
<main>{body}</main>
<footer><p>Made by pdgnn {text(__version__)}. This file needs no network.</p></footer>
<script type="application/json" id="data">{embedded(data)}</script>
<script>{script}</script>
</body>
</html>
"""


def embedded(data: Any) -> str:
    """JSON that may stand inside a ``<script>``: ASCII, without ``<``, ``>`` and ``&``.

    >>> embedded({"id": "</script>&\\u2028"})
    '{"id":"\\\\u003c/script\\\\u003e\\\\u0026\\\\u2028"}'
    """
    written = json.dumps(data, separators=(",", ":"), allow_nan=False)
    for sign in "<>&":
        written = written.replace(sign, f"\\u{ord(sign):04x}")
    return written


def _asset(name: str) -> str:
    return files("pdgnn.report").joinpath("assets", name).read_text(encoding="utf-8")


def _digest(script: str) -> str:
    """What the content security policy knows the page's only script by."""
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
