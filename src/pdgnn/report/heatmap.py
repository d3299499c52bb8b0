"""Heat maps of scores over (α, γ) as SVG: one for each model and graph.

A map has the settings that were trained alike, on the same splits and for the same steps, so that
its colours compare. Each place is drawn at its best depth, by validation. The page's script redraws
it for a depth of the reader's choice from the numbers of :func:`heat_data`, in hundredths of a
percent.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from pdgnn.experiments.outcome import Cell, Tried
from pdgnn.experiments.paper import scope
from pdgnn.report.fitted_charts import text
from pdgnn.report.training import model_name

__all__ = ["LEAST_SPAN", "SHADES", "Heat", "heat_data", "heat_of", "heat_svg"]

SHADES = (
    *("440154", "470d60", "48186a", "482374", "472e7c", "453882", "424186", "3e4a89"),
    *("3a548c", "365d8d", "32658e", "2e6d8e", "2b758e", "287d8e", "25848e", "228c8d"),
    *("1f948c", "1e9c89", "20a386", "25ab82", "2eb37c", "3aba76", "48c16e", "58c765"),
    *("6ccd5a", "7fd34e", "93d741", "a8db34", "c0df25", "d5e21a", "eae51a", "fde725"),
)
"""Viridis, from low to high."""
FEWEST = 4
"""Scopes below which there is nothing to see."""
LEAST_SPAN = 1.0
"""Points that the colours of a map span at least: where (α, γ) hardly matters, it looks even."""
TENTHS = tuple(i / 10 for i in range(11))

Place = tuple[int, int]  # of α and of γ on their axes


@dataclass(frozen=True)
class Heat:
    """The settings of a cell by depth and place; a scope stands at its place on both axes."""

    name: str
    dataset: str
    alphas: tuple[float, ...]
    gammas: tuple[float, ...]
    depths: tuple[int, ...]
    tried: dict[int, dict[Place, Tried]]  # by depth
    chosen: Place | None
    chosen_tried: Tried | None
    published: Place | None
    trained: str  # how, all of them alike

    def best(self) -> dict[Place, Tried]:
        """At each place the depth with the best validation score."""
        found: dict[Place, Tried] = {}
        for places in self.tried.values():
            for place, t in places.items():
                if place not in found or t.val_mean > found[place].val_mean:
                    found[place] = t
        return found


def heat_of(cell: Cell) -> Heat | None:
    """The heat map of a cell; None where there is nothing to see over (α, γ)."""
    shown = cell.alike
    if not cell.row.tuned or not any(t.spec.uses("gamma") for t in shown):
        return None
    scopes = {s for t in (*shown, *cell.whole) for s in _scopes(t)}
    different = {_scopes(t) for t in shown}
    if len(scopes) < FEWEST or len(different) < 2:
        return None
    alphas, gammas = (_axis({s[i] for s in scopes}) for i in (0, 1))
    tried: dict[int, dict[Place, Tried]] = {}
    for t in shown:
        if math.isfinite(t.val_mean):
            places = tried.setdefault(t.spec.depth, {})
            places |= {_place(s, alphas, gammas): t for s in _scopes(t)}
    name, best = model_name(shown[0].spec), cell.by_validation
    said = scope(name, cell.dataset)
    return Heat(
        name,
        cell.dataset,
        alphas,
        gammas,
        tuple(sorted(tried)),
        {depth: tried[depth] for depth in sorted(tried)},
        None if best is None else _place(_scopes(best)[0], alphas, gammas),
        best,
        _place(said, alphas, gammas) if said and said[0] in alphas and said[1] in gammas else None,
        f"{len(shown[0].splits)} splits, {shown[0].spec.steps:,} steps",
    )


def _scopes(t: Tried) -> tuple[tuple[float, float], ...]:
    return tuple((round(a, 6), round(g, 6)) for a, g in t.scopes or ((t.spec.alpha, t.spec.gamma),))


def _axis(values: set[float]) -> tuple[float, ...]:
    """All tenths if the values are some of them, so that maps look alike; else the values."""
    return TENTHS if values <= set(TENTHS) else tuple(sorted(values))


def _place(at: tuple[float, float], alphas: tuple[float, ...], gammas: tuple[float, ...]) -> Place:
    return alphas.index(at[0]), gammas.index(at[1])


def heat_svg(heat: Heat) -> str:
    """The map with its caption, as a figure; α to the right, γ upwards."""
    best = heat.best()
    values = [t.val_mean for t in best.values()]
    low, high = ends(values)
    across, up = len(heat.alphas), len(heat.gammas)
    rects = []
    for j in range(up):
        for i in range(across):
            t = best.get((i, j))
            y = up - 1 - j
            if t is None:
                rects.append(f'<rect x="{i}" y="{y}" class="none"/>')
                continue
            title = f"<title>{_said(t, heat, (i, j))}</title>"
            rects.append(
                f'<rect x="{i}" y="{y}" fill="{shade(t.val_mean, low, high)}">{title}</rect>'
            )
    marks = _mark("chosen", heat.chosen, up) + _mark("published", heat.published, up)
    about = _summary(heat, min(values), max(values))
    return (
        f'<figure class="heat"><figcaption><b>{text(heat.name)}</b>'
        f'<span class="quiet"> {text(heat.trained)};{_chosen_words(heat)}</span></figcaption>'
        f'<div class="grid-of"><span class="up">{heat.gammas[-1]:g}<i>γ</i>{heat.gammas[0]:g}'
        "</span>"
        f'<svg viewBox="0 0 {across} {up}" role="img" tabindex="0" aria-label="{text(about)}">'
        f"<g>{''.join(rects)}</g>{marks}</svg>"
        f'<span class="across">{heat.alphas[0]:g}<i>α</i>{heat.alphas[-1]:g}</span>'
        f'<span class="scale"><output>{low:.1f}</output><i></i><output>{high:.1f}</output></span>'
        "</div></figure>"
    )


def ends(values: Iterable[float]) -> tuple[float, float]:
    """The ends of the colours: the lowest and the highest value, or :data:`LEAST_SPAN` around them.

    >>> ends([80.0, 84.0]), ends([80.0, 80.1, 80.2])
    ((80.0, 84.0), (79.6, 80.6))
    """
    found = [*values]
    low, high = min(found), max(found)
    more = max(LEAST_SPAN - (high - low), 0.0) / 2
    return low - more, high + more


def shade(value: float, low: float, high: float) -> str:
    """The colour of a value between two ends.

    >>> shade(1.0, 1.0, 3.0), shade(3.0, 1.0, 3.0)
    ('#440154', '#fde725')
    """
    share = (value - low) / (high - low) if high > low else 0.5
    return f"#{SHADES[min(int(share * len(SHADES)), len(SHADES) - 1)]}"


def _mark(kind: str, place: Place | None, up: int) -> str:
    if place is None:
        return ""
    x, y = place[0] + 0.5, up - place[1] - 0.5
    if kind == "chosen":
        return f'<circle class="chosen" cx="{x}" cy="{y}" r=".27"/>'
    return f'<path class="published" d="M{x} {y - 0.42:g}l.42 .42l-.42 .42l-.42 -.42z"/>'


def _said(t: Tried, heat: Heat, place: Place) -> str:
    alpha, gamma = heat.alphas[place[0]], heat.gammas[place[1]]
    return (
        f"α {alpha:g}, γ {gamma:g}: validation {t.val_mean:.2f}, test {t.mean:.2f}, "
        f"depth {t.spec.depth}"
    )


def _chosen_words(heat: Heat) -> str:
    t = heat.chosen_tried
    if t is None:
        return " no setting was trained to the end"
    setting = f"α {t.spec.alpha:g}, γ {t.spec.gamma:g}, depth {t.spec.depth}"
    return f" chosen: {setting}, test {t.mean:.2f}"


def _summary(heat: Heat, low: float, high: float) -> str:
    count = len(heat.best())
    return (
        f"{heat.name} on {heat.dataset}: mean validation score over {count} cells of α and γ, from "
        f"{low:.2f} to {high:.2f}, {heat.trained};{_chosen_words(heat)}"
    )


def heat_data(heat: Heat) -> dict[str, Any]:
    """What the script draws the map from: for each depth, by place, the numbers in hundredths.

    ``n`` is the number of splits.
    """
    across, up = len(heat.alphas), len(heat.gammas)
    order = [(i, j) for j in range(up) for i in range(across)]
    layers = {}
    for depth, places in heat.tried.items():
        found = [places.get(place) for place in order]
        layers[str(depth)] = {
            "v": [None if t is None else _hundredths(t.val_mean) for t in found],
            "t": [None if t is None else _hundredths(t.mean) for t in found],
            "s": [None if t is None else _hundredths(t.std) for t in found],
            "n": [0 if t is None else len(t.splits) for t in found],
        }
    return {"a": heat.alphas, "g": heat.gammas, "depths": layers}


def _hundredths(value: float) -> int | None:
    return round(100 * value) if math.isfinite(value) else None
