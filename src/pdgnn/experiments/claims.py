"""The paper's claims as checks: what the tables say of each, in numbers.

The verdict on a claim about differences is made for each of its parts, such as "baselines" and
"proposed models", from the differences of all changes and graphs of that part but the exception
that the paper makes itself (rewiring on amazon-ratings):

- *not enough runs*: fewer than three differences;
- *holds*: up in three quarters of them at least, significantly in one at least, and significantly
  down in none;
- *fails*: up in fewer than half, or significantly down in more than significantly up;
- *partly*: all else.

Significant is a p below 0.05 of the corrected resampled paired t test over splits, adjusted by Holm
over all differences of the claim. A claim holds if all of its parts do, fails if all of them fail,
lacks runs if one of them does, and holds partly in all other cases.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from pdgnn.experiments.catalog import HETEROPHILIC
from pdgnn.experiments.differences import (
    Change,
    Count,
    Difference,
    Variant,
    differences,
    published_differences,
)
from pdgnn.experiments.figure1 import Figure1
from pdgnn.experiments.outcome import ScoreTable, signed
from pdgnn.experiments.sensitivity import LEAST_SCOPES, Spread, Spreads, spreads
from pdgnn.experiments.significance import LEVEL
from pdgnn.training.spec import RunResult

__all__ = ["Claim", "Verdict", "claims"]

Verdict = Literal["holds", "partly", "fails", "not enough runs"]
EXCEPTION = "amazon-ratings"
LEAST_DIFFERENCES = 3
LEAST_GRAPHS = 2
RULE = (
    "A part holds if the score goes up in at least three quarters of its differences, "
    "significantly in at least one, and significantly down in none; it fails if it goes up in "
    "fewer than half, or significantly down in more than significantly up; else it holds partly. "
    f"At least {LEAST_DIFFERENCES} differences are needed. The claim holds if all parts do, fails "
    "if all fail, lacks runs if one does, and holds partly otherwise. Significance: the paired t "
    "test over splits with the correction of Nadeau and Bengio for splits that overlap, p adjusted "
    "by Holm over all differences of the claim, below 0.05."
)
SENSITIVITY_RULE = (
    "PD-GCN is the more sensitive on a graph if both the range and the standard deviation of its "
    "mean test scores over (α, γ) are larger than those of PD-GAT, trained alike on the same "
    f"scopes, of which there are at least {LEAST_SCOPES}. The claim holds if this is so on all "
    f"graphs, of which at least {LEAST_GRAPHS} are needed; partly, on at least half of them."
)
FIGURE_RULE = (
    "PD-GCN with its best γ leads at more than half of the levels, and with its worst falls behind "
    "GCN and GAT somewhere; PD-GAT loses less between its best and its worst γ than PD-GCN, and at "
    "its worst beats the baselines at more than half of the levels; best γ and μ have a rank "
    "correlation of at least 0.5. The claim holds if all three do, and fails if none does."
)

_GCN, _GAT = Variant("gcn"), Variant("gat")
_GCN_R, _GAT_R = (Variant(m, rewired=True, tuned=True) for m in ("gcn", "gat"))
_GCN_R1, _GAT_R1 = (Variant(m, rewired=True, tuned=False) for m in ("gcn", "gat"))
_PD_GCN, _PD_GAT, _PD_SEP = (Variant(m, tuned=True) for m in ("pd-gcn", "pd-gat", "pd-gat-sep"))
_PD_GCN1, _PD_GAT1 = (Variant(m, tuned=False) for m in ("pd-gcn", "pd-gat"))
_PD_GAT_R, _PD_SEP_R = (Variant(m, rewired=True, tuned=True) for m in ("pd-gat", "pd-gat-sep"))
_PD_GAT_R1 = Variant("pd-gat", rewired=True, tuned=False)

Parts = Mapping[str, Sequence[Change]]
REWIRING: Parts = {
    "baselines": (Change(_GCN, _GCN_R), Change(_GAT, _GAT_R)),
    "proposed models": (Change(_PD_GAT, _PD_GAT_R), Change(_PD_SEP, _PD_SEP_R)),
}
COMPONENTS: Parts = {
    "rewiring": (Change(_GCN, _GCN_R1), Change(_GAT, _GAT_R1), Change(_PD_GAT, _PD_GAT_R)),
    "parameterized diffusion": (
        *(Change(_GCN, _PD_GCN1), Change(_GAT, _PD_GAT1)),
        *(Change(_GCN, _PD_GCN), Change(_GAT_R, _PD_GAT_R)),
    ),
    "tuned Laplacian": (Change(_PD_GCN1, _PD_GCN), Change(_PD_GAT_R1, _PD_GAT_R)),
}
TUNING: Parts = {
    "parameterized diffusion": (Change(_PD_GCN1, _PD_GCN), Change(_PD_GAT1, _PD_GAT)),
    "rewiring": (
        *(Change(_GCN_R1, _GCN_R), Change(_GAT_R1, _GAT_R)),
        Change(_PD_GAT_R1, _PD_GAT_R),
    ),
}


@dataclass(frozen=True)
class Claim:
    """One of the paper's claims, and what the runs say of it."""

    number: int
    statement: str
    verdict: Verdict
    numbers: list[str]  # sentences, the summary first and the paper's own numbers last
    rule: str  # by which the verdict was made
    differences: tuple[Difference, ...] = ()  # those of claims 1, 2 and 4


def claims(
    tables: Mapping[str, ScoreTable],
    figure1: Figure1 | None = None,
    *,
    results: Iterable[RunResult] = (),
) -> list[Claim]:
    """The five claims, from the tables called "table1" and "table2" and from Figure 1.

    `results` are all runs at hand. They are used for claim 3: a table has each setting as far as it
    was trained, and the runs have the earlier stages of a search too. A claim without runs has the
    verdict "not enough runs".
    """
    return [
        _of_parts(1, "Rewiring helps baselines and proposed models.", REWIRING, tables),
        _of_parts(2, "Each component helps.", COMPONENTS, tables),
        _sensitivity(tables, results),
        _of_parts(
            4,
            "The tuned Laplacian improves both the parameterized diffusion and the rewiring.",
            TUNING,
            tables,
        ),
        _figure(figure1),
    ]


def _of_parts(number: int, statement: str, parts: Parts, tables: Mapping[str, ScoreTable]) -> Claim:
    changes = [change for part in parts.values() for change in part]
    found = differences(tables, changes, HETEROPHILIC)
    verdicts, sentences = [], []
    for name, part in parts.items():
        counted = [d for d in found if d.change in part and not _excepted(d)]
        verdicts.append(_verdict(Count.of(counted)))
        told = f"{_capital(name)}: {verdicts[-1]}"
        sentences.append(f"{told}; {_counted(counted)}." if counted else f"{told}.")
        sentences += _by_change(part, found)
    sentences += _exception(found, "Here")
    published = published_differences(changes)
    sentences.append(_published_sentence(parts, published))
    sentences += _exception(published, "In the paper")
    return Claim(number, statement, _together(verdicts), sentences, RULE, tuple(found))


def _counted(found: Sequence[Difference]) -> str:
    alone = sum(d.p < LEVEL for d in found)
    return f"{Count.of(found)}; before the adjustment p is below {LEVEL} in {alone}"


def _verdict(count: Count) -> Verdict:
    if count.total < LEAST_DIFFERENCES:
        return "not enough runs"
    if 2 * count.up < count.total or count.surely_down > count.surely_up:
        return "fails"
    clear = 4 * count.up >= 3 * count.total and count.surely_up and not count.surely_down
    return "holds" if clear else "partly"


def _together(verdicts: Sequence[Verdict]) -> Verdict:
    if "not enough runs" in verdicts:
        return "not enough runs"
    return verdicts[0] if len(set(verdicts)) == 1 else "partly"


def _excepted(d: Difference) -> bool:
    """Whether the paper itself says that there it does not help."""
    rewires = d.change.after.rewired and not d.change.before.rewired
    return rewires and d.dataset == EXCEPTION


def _by_change(part: Sequence[Change], found: Sequence[Difference]) -> list[str]:
    sentences = []
    for change in part:
        own = [d for d in found if d.change == change and not _excepted(d)]
        if own:
            listed = "; ".join(_told(d) for d in own)
            up = sum(d.points > 0 for d in own)
            sentences.append(f"{change.name}: up on {up} of {len(own)} graphs ({listed}).")
    return sentences


def _told(d: Difference) -> str:
    p = "" if math.isnan(d.adjusted) else f", p {_p(d.adjusted)}"
    return f"{d.dataset} {signed(d.points)}{p}"


def _p(value: float) -> str:
    return "< 0.001" if value < 0.001 else f"= {value:.3f}"


def _exception(found: Sequence[Difference], where: str) -> list[str]:
    apart = [d for d in found if _excepted(d)]
    if not apart:
        return []
    return [
        f"{where}, on {EXCEPTION}, where the paper says that rewiring does not help and which is "
        f"not counted, it is {Count.of(apart)}."
    ]


def _published_sentence(parts: Parts, found: Sequence[Difference]) -> str:
    counted = [d for d in found if not _excepted(d)]
    verdicts = [
        _verdict(Count.of([d for d in counted if d.change in part])) for part in parts.values()
    ]
    down = [f"{d.change.name} on {d.dataset}, {signed(d.points)}" for d in counted if d.points < 0]
    said = f"; down: {'; '.join(down)}" if down else ""
    return (
        f"In the paper's own table it is {Count.of(counted)} by Welch's test, adjusted by Holm; "
        f"by the same rule: {_together(verdicts)}{said}."
    )


def _sensitivity(tables: Mapping[str, ScoreTable], results: Iterable[RunResult]) -> Claim:
    found = spreads("pd-gcn", "pd-gat", HETEROPHILIC, tables=tables, results=results)
    wider = sum(s.wider for s in found)
    verdict: Verdict = "not enough runs"
    if len(found) >= LEAST_GRAPHS:
        verdict = "fails" if 2 * wider < len(found) else "partly"
        verdict = "holds" if wider == len(found) else verdict
    sentences = []
    if found:
        sentences.append(f"PD-GCN is the more sensitive on {wider} of {len(found)} graphs.")
    sentences += [_spread_sentence(s) for s in found]
    statement = "PD-GCN is more sensitive to (α, γ) than PD-GAT."
    sentences.append(_published_gains())
    return Claim(3, statement, verdict, sentences, SENSITIVITY_RULE)


def _spread_sentence(s: Spreads) -> str:
    many = f"{len(s.depths)} depths" if len(s.depths) > 1 else f"depth {s.depths[0]}"
    trained = f"{s.scopes} scopes, {many}, {s.splits} splits, {s.steps} steps"
    mean = ", means over depths" if len(s.depths) > 1 else ""
    both = "; ".join(f"{name} {_ranges(x)}" for name, x in (("PD-GCN", s.one), ("PD-GAT", s.other)))
    return f"{_capital(s.dataset)} ({trained}{mean}), between the best and the worst scope: {both}."


def _ranges(x: Spread) -> str:
    seen = "" if x.test_with_graph is None else f", without γ = 0 {x.test_with_graph:.2f}"
    return (
        f"{x.test:.2f} points of test score (std {x.test_std:.2f}{seen}) and {x.val:.2f} of "
        f"validation score (std {x.val_std:.2f})"
    )


def _published_gains() -> str:
    """The paper shows no scores over the grid, but what tuning gains over α = γ = 1."""
    gcn, gat = (
        {d.dataset: d.points for d in published_differences([change])}
        for change in TUNING["parameterized diffusion"]
    )
    more = sum(gcn[name] > gat[name] for name in gcn)
    return (
        f"In the paper's own table tuning gains more for PD-GCN than for PD-GAT on {more} of "
        f"{len(gcn)} graphs, {_average(gcn):.2f} against {_average(gat):.2f} points on average."
    )


def _average(points: Mapping[str, float]) -> float:
    return sum(points.values()) / len(points)


def _figure(figure: Figure1 | None) -> Claim:
    statement = "Figure 1: the more heterophilic the graph, the smaller the best γ."
    last = "The paper has this as a picture, without numbers."
    if figure is None:
        return Claim(5, statement, "not enough runs", [last], FIGURE_RULE)
    checks = figure.checks()
    sentences = [f"{'Yes' if c.holds else 'No'}: {c.sentence}" for c in checks]
    held = sum(c.holds for c in checks)
    verdict: Verdict = "holds" if held == len(checks) else "partly" if held else "fails"
    return Claim(5, statement, verdict, [*sentences, last], FIGURE_RULE)


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]
