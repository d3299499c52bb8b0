"""A fitted classifier as one HTML page that needs nothing else.

How good it is, what the graph is like, what was tried, where it errs, a map that moves with γ, and
every node's neighbours. The text is written here, the charts are those of `fitted_charts`, the map
and the search are drawn by ``assets/fitted.js`` from the numbers of `fitted_data` and `fitted_map`.

For tests and scripts the page says what it shows in the ``data-`` attributes of its body:
``data-ready``, ``data-theme``, and where there is a map ``data-gamma``, ``data-moving``,
``data-first`` (the place of its first point), ``data-colour``, ``data-selected``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from html import escape
from typing import Any

from pdgnn.report.fitted_charts import percent, text
from pdgnn.report.fitted_facts import Facts, gather
from pdgnn.report.fitted_sections import estimate, graph, leaderboard, map_and_node, mistakes, scope
from pdgnn.report.shell import html_page

__all__ = ["fitted_page"]

SECTIONS: dict[str, tuple[str, Callable[[Facts], str]]] = {
    "estimate": ("How good it is", estimate),
    "graph": ("The graph", graph),
    "leaderboard": ("What was tried", leaderboard),
    "dial": ("The dial", scope),
    "mistakes": ("Where it errs", mistakes),
    "map": ("The map, and any node", map_and_node),
}


def fitted_page(clf: Any) -> str:
    """The page of a fitted :class:`PDClassifier`; whatever users wrote is escaped."""
    facts = gather(clf)
    return html_page(
        title=facts.name,
        kind="A fitted classifier",
        lead=_lead(facts),
        sections={key: (heading, write(facts)) for key, (heading, write) in SECTIONS.items()},
        styles=["fitted.css"],
        scripts=["fitted.js"],
        data=facts.data,
    )


def _lead(facts: Facts) -> str:
    e = facts.clf.estimate_
    if math.isnan(e.score):
        return f"<b>{text(facts.model)}</b>; how good it is, is not known."
    return (
        f"<b>{text(facts.model)}</b> reaches <b>{percent(e.score)}</b> {escape(facts.metric)} on "
        f"nodes that took no part in choosing it (interval {percent(e.low)} to {percent(e.high)})."
    )
