"""The sections of the page of a store beside its tables: claims, maps, curves, time, origin."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from pdgnn.experiments.figure1 import Curve, Figure1
from pdgnn.experiments.outcome import Cell
from pdgnn.report.fitted_charts import text
from pdgnn.report.heatmap import SHADES, Heat, heat_svg
from pdgnn.report.line_charts import Series, line_figure
from pdgnn.report.paper_facts import Paper, distinct_cells, specs_of
from pdgnn.report.training import model_name

__all__ = ["claims_section", "curves", "figure1_section", "heat_maps", "origin", "time_section"]

POINTS = 60
"""Of a learning curve, at most."""
MOST_CHARTS = 60
MOST_COMMANDS = 5
"""Of a machine; more are folded up."""
MACHINE = ("machine", "python", "versions")
"""What a provenance says of where it was, and not of what was called."""
MARKS = {"holds": "✓", "partly": "◐", "fails": "✗", "not enough runs": "–"}
VERDICT = re.compile("(Yes|No|[^:;]+: (holds|partly|fails|not enough runs))[:;.]")
PANEL_B = "(b) PD-GCN of one layer, by γ; the dot is what validation chooses"
COLOURS = {"MLP": "--s0", "GCN": "--s1", "GAT": "--s2", "PD-GCN": "--s3", "PD-GAT": "--s4"}
"""Of the models of Figure 1, as in the paper's style of one colour for best and worst γ."""


def claims_section(paper: Paper) -> str:
    """Each claim with its verdict and the numbers behind it."""
    cards = []
    for claim in paper.claims:
        first, rest = _summary(claim.numbers)
        said = "".join(f"<p>{text(s)}</p>" for s in first)
        more = "".join(f"<li>{text(s)}</li>" for s in rest)
        kind = claim.verdict.replace(" ", "-")
        rule = f'<p class="quiet">{text(claim.rule)}</p>' if claim.rule else ""
        cards.append(
            f'<article class="claim {kind}"><p class="badge"><i aria-hidden="true">'
            f"{MARKS[claim.verdict]}</i> {claim.verdict}</p><div><h3>{claim.number}. "
            f"{text(claim.statement)}</h3>{said}<details><summary>The numbers"
            f"</summary><ul>{more}</ul>{rule}</details></div></article>"
        )
    return "".join(cards)


def _summary(sentences: Sequence[str]) -> tuple[list[str], list[str]]:
    """The sentences with a verdict on a part of the claim, or the first; and all others."""
    first = [s for s in sentences if VERDICT.match(s)] or list(sentences[:1])
    return first, [s for s in sentences if s not in first]


def heat_maps(heats: Sequence[Heat]) -> str:
    """The maps by dataset, with what switches score and depth."""
    depths = sorted({depth for heat in heats for depth in heat.depths})
    boxes = "".join(_radio("depth", str(d), str(d)) for d in depths)
    controls = (
        '<div class="controls" id="heat-controls" hidden><fieldset><legend>Score</legend>'
        f"{_radio('score', 'v', 'validation', chosen=True)}{_radio('score', 't', 'test')}"
        "</fieldset><fieldset><legend>Depth</legend>"
        f"{_radio('depth', '', 'best of each cell', chosen=True)}{boxes}</fieldset></div>"
    )
    keys = (
        '<p class="quiet keys"><span><i class="key chosen"></i>chosen by validation</span>'
        '<span><i class="key published"></i>published</span>'
        '<span><i class="key none"></i>not trained so far</span></p>'
    )
    parts = [
        "<p>Mean validation score of each (α, γ), at the best depth of each cell. Every map has "
        "its own scale, of one point at least, and the settings that were trained alike, as it "
        "says: a search trains the promising ones further. Cells that rewire to the same graph "
        "share their value.</p>",
        *(controls, keys),
    ]
    for dataset in dict.fromkeys(heat.dataset for heat in heats):
        maps = "".join(heat_svg(heat) for heat in heats if heat.dataset == dataset)
        parts.append(f'<h3>{text(dataset)}</h3><div class="heats">{maps}</div>')
    return "".join(parts) + '<div id="tip" role="status" hidden></div>'


def _radio(name: str, value: str, label: str, *, chosen: bool = False) -> str:
    checked = " checked" if chosen else ""
    return f'<label><input type="radio" name="{name}" value="{value}"{checked}>{label}</label>'


def curves(paper: Paper) -> str:
    """Learning curves of the chosen settings whose runs kept them; empty where none did."""
    charts = []
    for cell in distinct_cells(paper):
        kept = [paper.curves.get(spec.key) for spec in specs_of(cell.by_validation)]
        found = [r.curves for r in kept if r is not None and r.curves is not None]
        if found:
            charts.append(_learning(cell, found))
    if not charts:
        return ""
    more = len(charts) - MOST_CHARTS
    rest = f"<p class=quiet>{more} more are not shown.</p>" if more > 0 else ""
    return (
        "<p>Validation score of the chosen settings over the steps: mean over splits, with a band "
        "of one standard deviation. The dashed line is the test score.</p>"
        f'<div class="smalls">{"".join(charts[:MOST_CHARTS])}</div>{rest}'
    )


def _learning(cell: Cell, found: Sequence[Any]) -> str:
    """One chart; a run that ended early keeps its last scores."""
    steps = max(len(c) for c in found)
    at = np.unique(np.linspace(0, steps - 1, min(steps, POINTS)).round().astype(int))
    scores = 100 * np.stack([c[np.minimum(at, len(c) - 1), 1:] for c in found])  # [S, P, 2]
    mean = scores.mean(axis=0)
    band = scores.std(axis=0, ddof=1)[:, 0] if len(found) > 1 else np.full(len(at), np.nan)
    # The first steps would take all of the height: the lowest tenth of the points is not drawn.
    low = np.quantile(mean[:, 0], 0.1)
    val, test = np.where(mean[:, 0] < low, np.nan, mean.T).tolist()
    x = [float(i + 1) for i in at]
    lines = [
        Series("test", x, test, colour="var(--quiet)", dashed=True),
        Series("validation", x, val, band.tolist(), colour="var(--accent)"),
    ]
    caption = f"<b>{text(cell.row.label)}</b> on {text(cell.dataset)}"
    return line_figure(lines, caption=caption, across="step", size=(280, 190))


def figure1_section(figure: Figure1 | None) -> str:
    """Both panels; empty where its runs are not there."""
    if figure is None:
        return ""
    plan = figure.plan
    left = [_by_homophily(c) for c in figure.by_homophily]
    shades = _shades(len(figure.by_gamma))
    right = [
        Series(
            f"μ = {float(c.name):g}",
            *(c.x, c.mean, c.std if _finite(c) else ()),
            colour=shade,
            mark=figure.best_gamma[float(c.name)],
        )
        for c, shade in zip(figure.by_gamma, shades, strict=True)
    ]
    found = "".join(f"<li>{text(s)}</li>" for s in figure.findings())
    return (
        f"<p>Synthetic graphs of {plan.num_nodes:,} nodes: mean test accuracy of {plan.graphs} "
        "graphs in percent, with bands of one standard deviation.</p>"
        f'<div class="charts">'
        f"<div>{_panel(left, '(a) two layers, by homophily μ', 'homophily μ')}{_keys(left)}</div>"
        f"<div>{_panel(right, PANEL_B, 'γ')}{_keys(right)}</div></div><ul>{found}</ul>"
    )


def _shades(count: int) -> list[str]:
    """So many colours from low to high, without those that the page's own colour would swallow."""
    top = len(SHADES) - 1
    light, dark = np.linspace(0, 0.88 * top, count), np.linspace(0.25 * top, top, count)
    return [
        f"light-dark(#{SHADES[round(a)]}, #{SHADES[round(b)]})"
        for a, b in zip(light.tolist(), dark.tolist(), strict=True)
    ]


def _finite(c: Curve) -> bool:
    return bool(np.isfinite(c.std).all())


def _by_homophily(c: Curve) -> Series:
    model, _, which = c.name.partition(",")
    colour = f"var({COLOURS.get(model, '--s5')})"
    band = c.std if _finite(c) else ()
    return Series(c.name, c.x, c.mean, band, colour=colour, dashed="worst" in which)


def _panel(series: Sequence[Series], caption: str, across: str) -> str:
    ends = [x for s in series for x in s.x]
    ticks = [t for t in (0, 0.2, 0.4, 0.6, 0.8, 1) if min(ends) <= t <= max(ends)]
    return line_figure(series, caption=caption, across=across, size=(520, 340), ticks=ticks)


def _keys(series: Iterable[Series]) -> str:
    found = "".join(
        f'<span><i class="key line{" dashed" if s.dashed else ""}" style="--c:{s.colour}"></i>'
        f"{text(s.name)}</span>"
        for s in series
    )
    return f'<p class="quiet keys">{found}</p>'


def time_section(paper: Paper) -> str:
    """Seconds by dataset and model, and the memory of those that trained on a GPU."""
    spent: dict[tuple[str, str], list[float]] = {}
    held: dict[tuple[str, str], int] = {}
    for run in paper.runs:
        spec = run.result.spec
        dataset = "synthetic graphs" if spec.dataset.startswith("synthetic:") else spec.dataset
        place = dataset, model_name(spec)
        spent.setdefault(place, []).append(run.result.seconds)
        if run.result.memory is not None:
            held[place] = max(held.get(place, 0), run.result.memory)
    rows = "".join(
        f'<tr><th scope="row"><span>{text(dataset)}</span></th><td class="words">{text(model)}</td>'
        f"<td>{len(seconds):,}</td><td>{duration(sum(seconds))}</td>"
        f"<td>{sum(seconds) / len(seconds):.2f} s</td>"
        f"<td>{_mebibytes(held.get((dataset, model)))}</td></tr>"
        for (dataset, model), seconds in sorted(spent.items())
    )
    total = sum(run.result.seconds for run in paper.runs)
    memory = (
        "So is its memory on a GPU, of the most that those took; the largest is shown."
        if held
        else "Memory was not recorded: it is known of runs on a GPU."
    )
    return (
        f"<p>All runs together took <b>{duration(total)}</b> of training. A run's seconds are its "
        f"share of the time of those trained at once with it. {memory}</p>"
        "<details><summary>By dataset and model</summary>"
        '<div class="wide" tabindex="0"><table class="times"><thead><tr><th scope=col>dataset</th>'
        '<th scope=col class="words">model</th><th scope=col>runs</th><th scope=col>together</th>'
        "<th scope=col>one run</th><th scope=col>memory</th></tr></thead>"
        f"<tbody>{rows}</tbody></table></div></details>"
    )


def _mebibytes(memory: int | None) -> str:
    return "" if memory is None else f"{memory / 2**20:,.0f} MiB"


def duration(seconds: float) -> str:
    """In the unit that fits.

    >>> duration(12.3), duration(600), duration(9000)
    ('12.3 s', '10.0 min', '2.5 h')
    """
    if seconds < 120:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.1f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def origin(paper: Paper) -> str:
    """The commands with the number of runs of each, under the machine and versions they ran on."""
    counts = Counter(run.provenance for run in paper.runs)
    unknown = sum(n for number, n in counts.items() if number not in paper.provenances)
    groups: dict[str, list[tuple[int, Mapping[str, Any]]]] = {}
    for number, about in paper.provenances.items():
        if counts[number] or unknown:
            place = json.dumps({name: about.get(name) for name in MACHINE}, sort_keys=True)
            groups.setdefault(place, []).append((counts[number], about))
    cards = [_origin_card(group) for group in groups.values()]
    if unknown:
        cards.append(f"<p>Of {unknown:,} runs it is not noted which command made them.</p>")
    return "".join(cards)


def _origin_card(group: Sequence[tuple[int, Mapping[str, Any]]]) -> str:
    """One machine with its versions, and what was called there."""
    first = group[0][1]
    called = "".join(
        f'<li><pre tabindex="0">{text(about.get("command", "a call from Python"))}</pre>'
        f'<p class="quiet">{text(_about_call(count, about))}</p></li>'
        for count, about in group
    )
    listed = f"<ul>{called}</ul>"
    if len(group) > MOST_COMMANDS:
        runs = sum(count for count, _ in group)
        said = f"{len(group)} commands, {runs:,} runs"
        listed = f"<details><summary>{said}</summary>{listed}</details>"
    pairs = "".join(
        f"<div><dt>{text(name)}</dt><dd>{text(value)}</dd></div>"
        for name, value in _pairs({name: first.get(name) for name in MACHINE})
    )
    return f'<article class="origin"><dl>{pairs}</dl>{listed}</article>'


def _about_call(count: int, about: Mapping[str, Any]) -> str:
    runs = f"{count:,} run{'' if count == 1 else 's'}" if count else ""
    rest = {n: v for n, v in about.items() if n not in (*MACHINE, "command", "cells", "runs")}
    said = [f"{name} {value}" for name, value in _pairs(rest)]
    return "; ".join([runs, *said] if runs else said)


def _pairs(about: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """What is noted, in words."""
    for name, value in about.items():
        if name == "date" and isinstance(value, str) and value.endswith("+00:00"):
            yield name, f"{value[:16].replace('T', ' ')} UTC"
        elif name == "versions" and isinstance(value, Mapping):
            yield name, ", ".join(f"{k} {v}" for k, v in value.items())
        elif isinstance(value, str | int | float):
            yield name.replace("_", " "), str(value)
        elif value is not None:
            yield name.replace("_", " "), json.dumps(value, ensure_ascii=False)[:200]
