"""A fitted classifier as one HTML page that needs nothing else.

How good it is, what the graph is like, what was tried, where it errs, a map that moves with γ, and
every node's neighbours. The text is written here, the charts are those of `fitted_charts`, the map
and the search are drawn by ``assets/fitted.js`` from the numbers of `fitted_data` and `fitted_map`.

For tests and scripts the page says what it shows in the ``data-`` attributes of its body:
``data-ready``, ``data-theme``, and where there is a map ``data-gamma``, ``data-moving``,
``data-first`` (the place of its first point), ``data-colour``, ``data-selected``.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable
from html import escape
from importlib.resources import files
from typing import Any

from pdgnn import __version__
from pdgnn.report.fitted_charts import percent, text
from pdgnn.report.fitted_facts import Facts, gather
from pdgnn.report.fitted_sections import estimate, graph, leaderboard, map_and_node, mistakes, scope

__all__ = ["fitted_page"]

SECTIONS: dict[str, tuple[str, Callable[[Facts], str]]] = {
    "estimate": ("How good it is", estimate),
    "graph": ("The graph", graph),
    "leaderboard": ("What was tried", leaderboard),
    "dial": ("The dial", scope),
    "mistakes": ("Where it errs", mistakes),
    "map": ("The map, and any node", map_and_node),
}


def fitted_page(clf: Any, *, title: str | None = None) -> str:
    """The page of a fitted :class:`PDClassifier`; whatever users wrote is escaped.

    `title` defaults to the name of the table that was fitted.
    """
    facts = gather(clf)
    name = facts.name if title is None else title
    style, script = _asset("fitted.css"), _asset("fitted.js")
    policy = (
        "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; "
        f"script-src 'sha256-{_digest(script)}'"
    )
    links = "".join(f'<a href="#{key}">{title}</a>' for key, (title, _) in SECTIONS.items())
    body = "".join(
        f'<section id="{key}" aria-labelledby="{key}-h"><h2 id="{key}-h">{heading}</h2>'
        f"{write(facts)}</section>"
        for key, (heading, write) in SECTIONS.items()
    )
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{text(name)} - pdgnn</title>
<style>{style}</style>
</head>
<body>
<header>
<div><p class="quiet">A fitted classifier</p><h1>{text(name)}</h1></div>
<button id="theme" type="button" aria-label="Light or dark">◐</button>
</header>
<p class="lead">{_lead(facts)}</p>
<nav aria-label="Sections">{links}</nav>
<main>{body}</main>
<footer><p>Made by pdgnn {text(__version__)}. This file needs no network.</p></footer>
<script type="application/json" id="data">{embedded(facts.data)}</script>
<script>{script}</script>
</body>
</html>
"""


def _lead(facts: Facts) -> str:
    e = facts.clf.estimate_
    return (
        f"<b>{text(facts.model)}</b> reaches <b>{percent(e.score)}</b> {escape(facts.metric)} on "
        f"nodes that took no part in choosing it (interval {percent(e.low)} to {percent(e.high)})."
    )


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
