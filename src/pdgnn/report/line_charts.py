"""Lines with bands on two axes, as SVG that takes its colours from the page's style."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pdgnn.report.fitted_charts import text

__all__ = ["Series", "line_figure"]

LEFT, RIGHT, TOP, BOTTOM = 44, 16, 10, 40

Point = Callable[[float, float], str]


@dataclass(frozen=True)
class Series:
    """A line and how far its band goes to both sides; points that are nan are left out."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    band: Sequence[float] = ()
    colour: str = "var(--s0)"
    dashed: bool = False
    mark: float | None = None  # an x that gets a dot


def line_figure(
    series: Sequence[Series],
    *,
    caption: str,
    across: str,
    size: tuple[int, int] = (360, 230),
    ticks: Sequence[float] | None = None,
) -> str:
    """A figure of the lines; `caption` is HTML, `across` names the x axis."""
    width, height = size
    points = [v for s in series for v in _extent(s) if math.isfinite(v)]
    low, high, step = nice_ends(min(points, default=0.0), max(points, default=1.0))
    first = min((x for s in series for x in s.x), default=0.0)
    last = max((x for s in series for x in s.x), default=1.0)

    def at(x: float, y: float) -> str:
        share = (x - first) / (last - first) if last > first else 0.5
        up = (high - y) / (high - low)
        return (
            f"{LEFT + (width - LEFT - RIGHT) * share:.1f},{TOP + (height - TOP - BOTTOM) * up:.1f}"
        )

    grid = []
    for i in range(round((high - low) / step) + 1):
        y = float(at(first, low + i * step).split(",")[1])
        grid.append(f'<path class="grid" d="M{LEFT},{y:.1f}H{width - RIGHT}"/>')
        label = f"{low + i * step:g}".replace("-", "−")
        grid.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{label}</text>')
    for x in ticks if ticks is not None else (first, round((first + last) / 2), last):
        place = at(x, low).split(",")[0]
        grid.append(
            f'<text x="{place}" y="{height - BOTTOM + 16}" text-anchor="middle">{x:g}</text>'
        )
    middle = LEFT + (width - LEFT - RIGHT) / 2
    grid.append(
        f'<text class="name" x="{middle}" y="{height - 4}" text-anchor="middle">{text(across)}'
        "</text>"
    )
    lines = "".join(_band(s, at) for s in series) + "".join(_line(s, at) for s in series)
    about = "; ".join(_about(s, across) for s in series)
    return (
        f'<figure class="chart"><figcaption>{caption}</figcaption>'
        f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{text(about)}">'
        f"{''.join(grid)}{lines}</svg></figure>"
    )


def _extent(s: Series) -> list[float]:
    if not s.band:
        return list(s.y)
    ends = [y + sign * b for y, b in zip(s.y, s.band, strict=True) for sign in (-1, 1)]
    return [*s.y, *(v for v in ends if math.isfinite(v))]


def nice_ends(low: float, high: float) -> tuple[float, float, float]:
    """Both ends widened to multiples of a step that is easy to read, and the step.

    >>> nice_ends(41.3, 52.9)
    (40.0, 55.0, 5.0)
    """
    spread = max(high - low, 1e-9 * max(abs(high), 1.0), 1e-12)
    power = 10.0 ** math.floor(math.log10(spread / 3))
    step = next(m * power for m in (1, 2, 5, 10) if spread / (m * power) <= 4)
    first, last = math.floor(low / step + 1e-9) * step, math.ceil(high / step - 1e-9) * step
    return round(first, 10), round(max(last, first + step), 10), round(step, 10)


def _band(s: Series, at: Point) -> str:
    rows = [row for row in zip(s.x, s.y, s.band, strict=False) if all(map(math.isfinite, row))]
    if not rows:
        return ""
    there = [at(x, y + b) for x, y, b in rows]
    back = [at(x, y - b) for x, y, b in rows]
    path = "M" + "L".join([*there, *reversed(back)]) + "Z"
    return f'<path d="{path}" style="fill:{s.colour}" class="band"/>'


def _line(s: Series, at: Point) -> str:
    points = [(x, y) for x, y in zip(s.x, s.y, strict=True) if math.isfinite(y)]
    if not points:
        return ""
    path = "M" + "L".join(at(x, y) for x, y in points)
    dashes = ' stroke-dasharray="5 4"' if s.dashed else ""
    style = f'style="stroke:{s.colour}"{dashes}'
    drawn = f'<path class="line" d="{path}" {style}><title>{text(s.name)}</title></path>'
    for x, y in points:
        if s.mark is not None and x == s.mark:
            cx, cy = at(x, y).split(",")
            drawn += f'<circle cx="{cx}" cy="{cy}" r="5" style="fill:{s.colour}"/>'
    return drawn


def _about(s: Series, across: str) -> str:
    points = [(x, y) for x, y in zip(s.x, s.y, strict=True) if math.isfinite(y)]
    if not points:
        return s.name
    (x, y), (end, last) = points[0], points[-1]
    return f"{s.name}: {y:.1f} at {across} {x:g}, {last:.1f} at {end:g}"
