"""The small charts of the page of a fitted classifier, as HTML and SVG elements.

They need no script, take their colours from the page's style, and scale with its width.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pdgnn.report.escape import one_line

__all__ = ["confusion_table", "interval_rows", "line_chart", "percent", "reliability", "text"]

WIDTH, HEIGHT = 360, 230
LEFT, RIGHT, TOP, BOTTOM = 54, 20, 14, 46
MOST_CLASSES = 14

Points = Sequence[tuple[float, float]]


def text(value: object) -> str:
    """Whatever users wrote, on one line and harmless in HTML, in text and in attributes.

    >>> text('<b title="x">\\n')
    '&lt;b title=&quot;x&quot;&gt; '
    """
    return escape(one_line(value))


def percent(share: float | None, digits: int = 1) -> str:
    """A share in percent; a dash where there is none.

    >>> percent(0.2234), percent(float("nan"))
    ('22.3 %', '–')
    """
    if share is None or not math.isfinite(share):
        return "–"
    return f"{100 * share:.{digits}f} %"


def interval_rows(rows: Mapping[str, tuple[float, float, float]], chosen: str) -> str:
    """Scores with their intervals on one scale, one under another; `chosen` stands out."""
    ends = [v for row in rows.values() for v in row if math.isfinite(v)] or [0.0, 1.0]
    low, high = _ends(min(ends), max(ends))
    lines = []
    for name, (score, least, most) in rows.items():
        a, b, at = (
            100 * (min(max(v, low), high) - low) / (high - low) if math.isfinite(v) else 0.0
            for v in (least, most, score)
        )
        said = f"{percent(score)}, interval {percent(least)} to {percent(most)}"
        mark = ' class="chosen"' if name == chosen else ""
        bar = (
            f'<span class="bar" style="left:{a:.2f}%;width:{max(b - a, 0.0):.2f}%"></span>'
            f'<span class="dot" style="left:{at:.2f}%"></span>'
        )
        lines.append(
            f"<tr{mark}><th scope=row>{text(name)}</th>"
            f'<td class="track"><div role="img" aria-label="{said}" title="{said}">'
            f"{bar if math.isfinite(score) else ''}</div></td>"
            f"<td>{percent(score)}</td><td class=quiet>{_range(least, most)}</td></tr>"
        )
    scale = f"<span>{percent(low, 0)}</span><span>{percent(high, 0)}</span>"
    return (
        '<div class="wide"><table class="intervals"><thead><tr><th scope=col></th>'
        f'<th scope=col class="track"><div class="ends">{scale}</div></th><th scope=col>score</th>'
        f"<th scope=col>interval</th></tr></thead><tbody>{''.join(lines)}</tbody></table></div>"
    )


def _range(low: float, high: float) -> str:
    if not (math.isfinite(low) and math.isfinite(high)):
        return "–"
    return f"{100 * low:.1f}–{100 * high:.1f}"


def _ends(low: float, high: float) -> tuple[float, float]:
    """Scores in [0, 1], widened to the next multiples of a tenth, or of a fiftieth if near.

    >>> _ends(0.5, 1.0), _ends(0.97, 0.98)
    ((0.4, 1.0), (0.96, 1.0))
    """
    step = 0.1 if high - low > 0.2 else 0.02
    first, last = math.floor(low / step - 1e-9) * step, math.ceil(high / step + 1e-9) * step
    return max(first, 0.0), min(max(last, first + step), 1.0)


def line_chart(points: Points, *, name: str, score: str, chosen: float | None) -> str:
    """A score along γ or α; a ring marks the value that was chosen.

    Where a value was tried several times, the line runs through the best of them.
    """
    best = {x: max(v for u, v in points if u == x) for x, _ in sorted(points)}
    low, high = _ends(min(v for _, v in points), max(v for _, v in points))

    def at(x: float, v: float) -> tuple[float, float]:
        return _across(x), TOP + (HEIGHT - TOP - BOTTOM) * (high - v) / (high - low)

    ticks = [low + (high - low) * i / 4 for i in range(5)]
    path = _path(at(x, v) for x, v in best.items())
    dots = "".join(_dot(at(x, v), 3.5, f"{name} = {x:g}: {percent(v)}") for x, v in points)
    ring = ""
    if chosen is not None and (near := [x for x in best if abs(x - chosen) < 1e-9]):
        x, y = at(near[0], best[near[0]])
        ring = f'<circle class="ring" cx="{x:.1f}" cy="{y:.1f}" r="8"/>'
    top = max(best, key=lambda x: best[x])
    said = (
        f"{score} over {name}: best {percent(best[top])} at {name} = {top:g}, "
        f"lowest {percent(min(best.values()))}"
    )
    grid = _grid([(at(0, v)[1], percent(v, 0 if high - low > 0.06 else 1)) for v in ticks])
    body = f'{grid}<path class="line" d="{path}"/>{dots}{ring}'
    return _svg(body, said, across=name, up=score)


def reliability(found: Mapping[str, Any]) -> str:
    """Share of right predictions over their probability; the diagonal is perfect calibration.

    The area of a dot grows with the number of its nodes.
    """

    def at(x: float, v: float) -> tuple[float, float]:
        return _across(x), TOP + (HEIGHT - TOP - BOTTOM) * (1 - v)

    largest = max(found["count"])
    rows = list(zip(found["stated"], found["right"], found["count"], strict=True))
    dots = "".join(
        _dot(
            at(p, right),
            3 + 7 * math.sqrt(n / largest),
            f"stated {percent(p, 0)}, right {percent(right, 0)}, {n:,} nodes",
        )
        for p, right, n in rows
    )
    diagonal = f'<path class="guide" d="{_path([at(0, 0), at(1, 1)])}"/>'
    path = _path(at(p, right) for p, right, _ in rows)
    grid = _grid([(at(0, v)[1], percent(v, 0)) for v in (0, 0.25, 0.5, 0.75, 1)])
    said = "; ".join(f"stated {percent(p, 0)}: right {percent(r, 0)}" for p, r, _ in rows)
    body = f'{grid}{diagonal}<path class="line thin" d="{path}"/>{dots}'
    return _svg(body, said, across="probability stated", up="share right", percents=True)


def _path(points: Iterable[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{x:.1f},{y:.1f}" for x, y in points)


def _dot(at: tuple[float, float], radius: float, said: str) -> str:
    place = f'cx="{at[0]:.1f}" cy="{at[1]:.1f}" r="{radius:.1f}"'
    return f'<circle class="dot" {place}><title>{escape(said)}</title></circle>'


def _across(x: float) -> float:
    return LEFT + (WIDTH - LEFT - RIGHT) * x


def _grid(ticks: Sequence[tuple[float, str]]) -> str:
    return "".join(
        f'<path class="grid" d="M{LEFT},{y:.1f}H{WIDTH - RIGHT}"/>'
        f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{label}</text>'
        for y, label in ticks
    )


def _svg(body: str, said: str, *, across: str, up: str, percents: bool = False) -> str:
    marks = "".join(
        f'<text x="{_across(x):.1f}" y="{HEIGHT - BOTTOM + 17}" text-anchor="middle">'
        f"{percent(x, 0) if percents else f'{x:g}'}</text>"
        for x in (0, 0.25, 0.5, 0.75, 1)
    )
    label = f'<text class="name" x="{_across(0.5):.1f}" y="{HEIGHT - 6}" text-anchor="middle">'
    return (
        f'<figure class="chart"><figcaption>{escape(up)} over {escape(across)}</figcaption>'
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(said)}">'
        f"{body}{marks}{label}{escape(across)}</text></svg></figure>"
    )


def confusion_table(matrix: NDArray[np.int64], names: Sequence[str]) -> str:
    """Counts, each cell tinted by its share of the row; the classes beyond 14 are put together."""
    matrix, names, note = _grouped(matrix, names)
    shares = matrix / np.maximum(matrix.sum(axis=1, keepdims=True), 1)
    heads = "".join(
        f'<th scope=col class="upright"><span title="{text(n)}">{text(n)}</span></th>'
        for n in names
    )
    rows = []
    for i, name in enumerate(names):
        cells = []
        for j in range(len(names)):
            said = f"{matrix[i, j]:,} of {name}, predicted {names[j]} ({percent(shares[i, j], 0)})"
            kind = "" if matrix[i, j] else "none"
            kind += " right" if i == j else ""
            cells.append(
                f'<td class="{kind}" style="--s:{shares[i, j]:.2f}" title="{text(said)}">'
                f"{matrix[i, j]:,}</td>"
            )
        side = f'<th scope=row><span title="{text(name)}">{text(name)}</span></th>'
        rows.append(f"<tr>{side}{''.join(cells)}</tr>")
    return (
        f'<div class="wide"><table class="confusion"><thead><tr><th scope=col>label ↓ '
        f"prediction →</th>{heads}</tr></thead><tbody>{''.join(rows)}</tbody></table></div>{note}"
    )


def _grouped(
    matrix: NDArray[np.int64], names: Sequence[str]
) -> tuple[NDArray[np.int64], Sequence[str], str]:
    if len(names) <= MOST_CLASSES + 1:
        return matrix, names, ""
    large = np.sort(np.argsort(-matrix.sum(axis=1), kind="stable")[:MOST_CLASSES])
    group = np.full(len(names), MOST_CLASSES)
    group[large] = np.arange(MOST_CLASSES)
    onto = np.zeros((len(names), MOST_CLASSES + 1), dtype=np.int64)
    onto[np.arange(len(names)), group] = 1
    rest = len(names) - MOST_CLASSES
    note = f"<p class=quiet>The {rest} smaller classes are put together as “others”.</p>"
    return onto.T @ matrix @ onto, [*(names[i] for i in large), "others"], note
