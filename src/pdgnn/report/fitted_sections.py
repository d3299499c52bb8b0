"""The sections of the page of a fitted classifier: what is said in words and tables."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from pdgnn.report.fitted_charts import (
    confusion_table,
    interval_rows,
    line_chart,
    percent,
    reliability,
    text,
)
from pdgnn.report.fitted_data import class_scores
from pdgnn.report.fitted_facts import Facts
from pdgnn.report.inspection import (
    about_labels,
    component_sizes,
    degree_numbers,
    measured_homophily,
)
from pdgnn.report.text import plain_number
from pdgnn.rewiring import RewiredGraph

__all__ = ["estimate", "graph", "leaderboard", "map_and_node", "mistakes", "scope"]

FIRST_ROWS = 10
SYMBOLS = {
    "alpha": "α",
    "gamma": "γ",
    "weight_decay": "weight decay",
    "reduce": "singular vectors",
    "scopes": "(α, γ)",
}
ALL_GAMMAS = 11
SIDE_BY_SIDE = 8
FEW = 50
MANY_CLASSES = 12
MEASURE_WORDS = {
    "edge": ("Neighbours alike", "of the edges join two nodes with the same label"),
    "node": ("Seen from a node", "of a node's neighbours share its label, on average"),
    "class": ("Class homophily", "above what the sizes of the classes explain (0 none, 1 full)"),
    "aggregation": (
        "Aggregation homophily",
        "how well sums over neighbours tell the classes apart (0 to 1)",
    ),
    "adjusted": ("Adjusted homophily", "1: neighbours always alike; 0: as by chance; below: less"),
    "label_informativeness": (
        "Label informativeness",
        "how much a neighbour's label tells of one's own (0 nothing, 1 all)",
    ),
}


def estimate(facts: Facts) -> str:
    """The score on nodes that took no part in choosing, beside models without the graph."""
    e = facts.clf.estimate_
    own = "this model"
    rows = {own: (e.score, e.low, e.high), **e.baselines}
    verdict, colon, numbers = e.sentence.partition(":")
    notes = "".join(f"<li>{text(note)}</li>" for note in facts.clf.notes_)
    return (
        f'<p class="verdict {"yes" if e.helps else "no"}"><b>{text(verdict + colon)}</b>'
        f"{text(numbers)}</p>{interval_rows(rows, own)}"
        f"<p class=quiet>{_sentence(facts.metric)}. {text(e.how)}</p>"
        + (f"<h3>Remarks</h3><ul>{notes}</ul>" if notes else "")
    )


def _sentence(words: str) -> str:
    return text(words[:1].upper() + words[1:])


def graph(facts: Facts) -> str:
    """The graph in numbers and words, and what was done to the input."""
    g, y = facts.graph, facts.clf.y_
    sizes, degree = component_sizes(g), degree_numbers(g)
    numbers = {
        "nodes": f"{g.num_nodes:,}",
        "edges": f"{g.num_edges:,}",
        "degree, mean": plain_number(degree["mean"]),
        "degree, greatest": plain_number(degree["max"]),
        "components": f"{sizes['count']:,}",
        "classes": f"{len(facts.names):,}",
        "labelled nodes": f"{int((y >= 0).sum()):,}",
        "features": f"{facts.clf.x_.shape[1]:,}",
    }
    tiles = "".join(
        f"<div><dt>{name}</dt><dd>{value}</dd></div>" for name, value in numbers.items()
    )
    return (
        f'<dl class="tiles">{tiles}</dl>{_pieces(sizes, g.num_nodes)}{_homophily(facts)}'
        f"<h3>Class balance</h3>{_balance(facts)}"
        f"<p class=quiet>What was done to the input: {text(g.report)}.</p>"
    )


def _pieces(sizes: dict[str, int], nodes: int) -> str:
    if sizes["count"] == 1:
        return "<p>The graph is connected: every node can be reached from every other.</p>"
    alone = f" {sizes['isolated']:,} nodes have no edges at all." if sizes["isolated"] else ""
    share = percent(sizes["largest"] / nodes, 0)
    return (
        f"<p>The graph is in {sizes['count']:,} pieces; the largest has {sizes['largest']:,} nodes "
        f"({share}).{alone}</p>"
    )


def _homophily(facts: Facts) -> str:
    measures, _ = measured_homophily(facts.graph, facts.clf.y_)
    if measures is None or measures["edge"] is None:
        return "<p>No edge joins two labelled nodes, so there is no telling whether they agree.</p>"
    says = about_labels(measures)
    lead = f"<p>Neighbours share a label in {percent(measures['edge'], 0)} of the edges."
    lead += f" {text(says)}</p>" if says else "</p>"
    rows = []
    for name, (title, words) in MEASURE_WORDS.items():
        value = measures[name]
        share = name in ("edge", "node")
        shown = "–" if value is None else percent(value) if share else f"{value:.2f}"
        rows.append(
            f"<tr><th scope=row>{title}</th><td>{shown}</td><td class=words>{words}</td></tr>"
        )
    return f'{lead}<table class="measures"><tbody>{"".join(rows)}</tbody></table>'


def _balance(facts: Facts) -> str:
    y = facts.clf.y_
    counts = np.bincount(y[y >= 0], minlength=len(facts.names))
    order = np.argsort(-counts, kind="stable")
    total = max(int(counts.sum()), 1)
    rows = [
        f'<tr><th scope=row><span title="{text(facts.names[c])}">{text(facts.names[c])}</span></th>'
        f'<td class="track"><div><span class="bar" style="left:0;width:'
        f'{100 * counts[c] / max(counts.max(), 1):.1f}%"></span></div></td>'
        f"<td>{counts[c]:,}</td><td class=quiet>{percent(counts[c] / total, 0)}</td></tr>"
        for c in order
    ]
    missing = int((y < 0).sum())
    note = f"<p class=quiet>{missing:,} nodes have no label: they are predicted.</p>"
    return _folded("balance", "", rows, MANY_CLASSES) + (note if missing else "")


def _folded(kind: str, head: str, rows: Sequence[str], most: int) -> str:
    """A table; what is beyond `most` rows is folded away."""
    top = f'<div class="wide"><table class="{kind}">{head}<tbody>{{}}</tbody></table></div>'
    if len(rows) <= most + 1:
        return top.format("".join(rows))
    more = f"<summary>{len(rows) - most:,} more</summary>"
    folded = f"<details>{more}{top.format(''.join(rows[most:]))}</details>"
    return top.format("".join(rows[:most])) + folded


def leaderboard(facts: Facts) -> str:
    """Every model that was tried: the chosen one, then the others by their validation scores."""
    head = (
        "<thead><tr><th scope=col>model</th><th scope=col>validation</th>"
        "<th scope=col>seconds</th><th scope=col class=words>settings</th></tr></thead>"
    )
    rows = [
        f"<tr{'' if i else ' class=chosen'}><th scope=row>{text(row['name'])}</th>"
        f"<td>{percent(row['val'])}</td><td>{row['seconds']:.1f}</td>"
        f"<td class=words>{text(_settings(row['settings']))}</td></tr>"
        for i, row in enumerate(facts.clf.leaderboard_)
    ]
    note = (
        f"<p class=quiet>{_sentence(facts.metric)} on validation nodes, by which the choice was "
        "made. It flatters whatever was chosen; the honest figure is the one above.</p>"
    )
    return _folded("board", head, rows, FIRST_ROWS) + note


def _settings(settings: dict[str, Any]) -> str:
    """Settings as "γ 0.3, depth 2", without those that are off."""
    found = [(name, v) for name, v in settings.items() if v is not None and v is not False]
    return ", ".join(SYMBOLS.get(name, name) + _setting(v) for name, v in found)


def _setting(value: Any) -> str:
    """The value after its name: nothing where the name says it all, pairs without their zeros.

    >>> _setting(True), _setting(0.5), _setting(((0.0, 1.0), (1.0, 0.5)))
    ('', ' 0.5', ' (0, 1) (1, 0.5)')
    """
    if value is True:
        return ""
    if isinstance(value, list | tuple):
        pairs = [f"({', '.join(f'{v:g}' for v in pair)})" for pair in value]
        return f" {' '.join(pairs)}"
    return f" {value:g}" if isinstance(value, float) else f" {value}"


def scope(facts: Facts) -> str:
    """The validation score over γ and over α."""
    clf = facts.clf
    charts = []
    for name, key, chosen in (("γ", "gamma", clf.gamma_), ("α", "alpha", clf.alpha_)):
        tried = [(x, v) for x, v in clf.dial_[key] if math.isfinite(v)]
        if len({x for x, _ in tried}) > 1:
            label = f"validation {facts.metric}"
            charts.append(line_chart(tried, name=name, score=label, chosen=chosen))
    about = (
        "<p>γ is how much a node listens to its neighbours: at 0 each node stands alone, at 1 it "
        "hears its neighbours only. α is whose number of edges the weights are divided by: at 1 "
        "that of the node that listens, at 0 that of the one that is heard. The scores are those "
        "of logistic regression on features that are mixed so, once and twice.</p>"
    )
    if not charts:
        return f"{about}<p>γ and α were not varied, so there is nothing to draw.</p>"
    said = "what was chosen" if clf.has_scope_ else "the best; the model has no scope of its own"
    ring = f"<p class=quiet>The ring is γ = {clf.gamma_:g}, α = {clf.alpha_:g}: {said}.</p>"
    return f'{about}<div class="charts">{"".join(charts)}</div>{ring}'


def mistakes(facts: Facts) -> str:
    """Confusion matrix, scores of each class and calibration, on held-out nodes."""
    if facts.matrix is None or facts.reliability is None:
        return (
            "<p>No labelled node was kept out of the choice, so mistakes cannot be counted "
            "honestly here.</p>"
        )
    scores = class_scores(facts.matrix)
    order = np.argsort(-np.array(scores["support"]), kind="stable")
    head = "".join(
        f"<th scope=col>{name}</th>" for name in ("class", "precision", "recall", "F1", "nodes")
    )
    rows = [
        f'<tr><th scope=row><span title="{text(facts.names[c])}">{text(facts.names[c])}</span></th>'
        + "".join(f"<td>{scores[key][c]:.2f}</td>" for key in ("precision", "recall", "f1"))
        + f"<td>{scores['support'][c]:,}</td></tr>"
        for c in order
    ]
    layout = "two" if len(facts.names) <= SIDE_BY_SIDE else "stacked"
    table = _folded("classes", f"<thead><tr>{head}</tr></thead>", rows, MANY_CLASSES)
    return (
        f"<p>From {int(facts.held.sum()):,} labelled nodes, predicted by models that neither saw "
        "their label nor were chosen with it.</p>"
        f'<div class="{layout}"><div><h3>Labels and predictions</h3>'
        f"{confusion_table(facts.matrix, facts.names)}</div>"
        f"<div><h3>Class by class</h3>{table}"
        "<p class=quiet>Precision: of the nodes predicted so, the share that are. Recall: of the "
        "nodes that are, the share predicted so. F1: their harmonic mean.</p></div></div>"
        f"<h3>Can its probabilities be trusted?</h3>{_calibrated(facts.reliability)}"
    )


def _calibrated(found: dict[str, Any]) -> str:
    error = 100 * found["error"]
    word = "well" if error < 5 else "roughly" if error < 10 else "poorly"
    lean = sum(
        n * (p - right)
        for p, right, n in zip(found["stated"], found["right"], found["count"], strict=True)
    )
    if sum(found["count"]) < FEW:
        return (
            f'<div class="charts">{reliability(found)}<p>There are too few held-out nodes '
            f"({sum(found['count'])}) to tell how well it is calibrated.</p></div>"
        )
    side = "It is overconfident." if lean > 0 else "It is underconfident."
    return (
        f'<div class="charts">{reliability(found)}<p>Stated probability and share of right '
        f"predictions differ by {error:.1f} points on average: it is {word} calibrated."
        f"{' ' + side if error >= 5 else ''} "
        "On the dashed line, 80 % means right in 80 of 100 cases. Larger dots stand for more "
        "nodes.</p></div>"
    )


def map_and_node(facts: Facts) -> str:
    """The map that moves with γ, and the search for a node; both are filled in by the script."""
    drawn = _map(facts) if facts.path is not None else f"<p>{text(facts.no_map)}</p>"
    return (
        "<noscript><p>The map and the search need JavaScript.</p></noscript>"
        f'<div class="map-node"><div>{drawn}</div><div>{_search(facts)}</div></div>'
        f"<p class=quiet>{_sampled(facts)}</p>"
    )


def _map(facts: Facts) -> str:
    rewired = "checked" if facts.clf.rewired_ else ""
    return f"""<div class="controls">
<label for="gamma">γ <output id="gamma-value"></output></label>
<input id="gamma" type="range" min="0" step="1" aria-label="γ of the embedding">
<button id="play" type="button" aria-label="Move γ from 0 to 1">▶</button></div>
<div class="canvas"><canvas id="canvas" role="img" tabindex="0"
aria-label="Spectral embedding of the graph; points are nodes"></canvas>
<div id="tip" role="status" hidden></div></div>
<p id="caption" class="quiet"></p>
<div class="controls"><fieldset><legend>Colour</legend>
<label><input type="radio" name="colour" value="label" checked> label</label>
<label><input type="radio" name="colour" value="guess"> prediction</label></fieldset>
<label><input id="edges" type="checkbox" {rewired}> rewired edges</label></div>
<div id="legend" aria-label="Classes"></div>
<p class="quiet">Each point is a node, placed by the first two eigenvectors of L^(α,γ) at
α = {facts.clf.alpha_:g}; nodes near each other here are near each other for diffusion. At
γ = {facts.clf.gamma_:g} the axes are φ¹ and φ²; at other γ the picture is turned to match. They
show the order of the nodes, not the values, as by value a few nodes would lie far from all others.
The star is the gradient node, the greatest entry of φ¹.</p>"""


def _search(facts: Facts) -> str:
    rewired = ""
    if isinstance(facts.used, RewiredGraph):
        rewired = (
            f" The model is rewired: {facts.used.added.shape[1]:,} edges lead to gradient nodes."
        )
    column = text(facts.clf.table_.id_name)
    return f"""<label for="search">Find a node by its id (column “{column}”)</label>
<div class="search"><input id="search" type="text" role="combobox" autocomplete="off"
spellcheck="false" aria-expanded="false" aria-controls="found" aria-autocomplete="list"
placeholder="type, or click a point">
<ul id="found" role="listbox" aria-label="Nodes" hidden></ul></div>
<div id="node" aria-live="polite"></div>
<p class="quiet">Neighbours are listed by their share in what the node takes in:
{text(facts.weighing)}.{rewired} Similar nodes are labelled ones, compared half by their predicted
probabilities (Σ√(p q)), half by their features (cosine, standardised).</p>"""


def _sampled(facts: Facts) -> str:
    """Which nodes and which γ the page holds, where these are not all."""
    n, path = facts.graph.num_nodes, facts.path
    said = f"All {n:,} nodes are on this page."
    if facts.shown < n:
        said = (
            f"This page holds {facts.shown:,} of {n:,} nodes, drawn at random, each class in "
            "proportion, gradient nodes always among them; of neighbours outside of these, it "
            "knows the prediction only."
        )
    if path is not None and path.partial:
        said += (
            " The graph is too large to embed in a few seconds: the map is that of a connected "
            f"part of {path.nodes.size:,} nodes, solved by itself, and the nodes on this page are "
            "of that part."
        )
    if path is not None and len(path.gammas) < ALL_GAMMAS:
        said += f" As the graph is large, the map is solved at {len(path.gammas)} values of γ."
    return said
