"""The paper's claims: what tables made by rule say of them, and what is said without runs."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import pytest

from pdgnn.experiments.catalog import HETEROPHILIC
from pdgnn.experiments.claims import COMPONENTS, REWIRING, TUNING, claims
from pdgnn.experiments.differences import (
    Change,
    Count,
    Difference,
    Variant,
    differences,
    published_differences,
)
from pdgnn.experiments.figure1 import Plan, figure1, figure1_specs
from pdgnn.experiments.outcome import Cell, Row, ScoreTable, Tried
from pdgnn.experiments.sensitivity import spreads
from pdgnn.experiments.significance import paired
from pdgnn.training import RunResult, RunSpec

GRAPHS = ("chameleon-filtered", "squirrel-filtered", "minesweeper", "tolokers")
VARIANTS = dict.fromkeys(
    v
    for parts in (REWIRING, COMPONENTS, TUNING)
    for part in parts.values()
    for c in part
    for v in c
)
NOISE = (0.0, 0.4, -0.3, 0.1, -0.2, 0.3, -0.1, 0.2, -0.4, 0.0)
PLAN = Plan(num_nodes=60, homophily=(0.0, 0.5), gammas=(0.0, 0.5, 1.0), graphs=2, steps=3, width=8)
Rule = Callable[[Variant, str], float | None]


def tried(variant: Variant, dataset: str, mean: float, *, val: float = 50.0, **fields) -> Tried:
    """Ten splits around `mean`, whose noise depends on the variant."""
    spec = RunSpec(dataset=dataset, model=variant.model, rewired=variant.rewired, **fields)
    i = list(VARIANTS).index(variant)
    test = tuple(
        mean + split + NOISE[(split * (1, 3, 7, 9)[i % 4] + i) % 10] for split in range(10)
    )
    return Tried(spec, tuple(range(10)), (val,) * 10, test, 1.0, whole=True)


def table(rule: Rule, graphs: tuple[str, ...] = GRAPHS) -> ScoreTable:
    """A row for each variant, with the mean that `rule` gives it; None: no runs."""
    rows = {v: Row(v.name, v.model, v.rewired, v.tuned) for v in VARIANTS}
    cells = {}
    for v, row in rows.items():
        for name in graphs:
            mean = rule(v, name)
            done = () if mean is None else (tried(v, name, mean),)
            cells[row.label, name] = Cell(row, name, None, done)
    metrics = dict.fromkeys(graphs, "accuracy")
    return ScoreTable("table1", "Ablation", tuple(rows.values()), graphs, metrics, cells)


def as_the_paper(v: Variant, dataset: str) -> float:
    rewired = -2.0 if dataset == "amazon-ratings" else 2.0
    return 60 + 3 * v.model.startswith("pd-") + rewired * v.rewired + 2 * (v.tuned is True)


def test_without_runs_nothing_is_claimed_and_the_paper_is_quoted():
    found = claims({})
    assert [c.number for c in found] == [1, 2, 3, 4, 5]
    assert {c.verdict for c in found} == {"not enough runs"}
    assert all(c.numbers and c.rule and c.statement for c in found)
    one = " ".join(found[0].numbers)
    assert "In the paper's own table it is up in 22 of 24" in one
    assert "GCN → GCN rewired on tolokers, −0.18" in one
    assert "on amazon-ratings, where the paper says" in one
    assert "on 5 of 7 graphs, 3.15 against 0.73 points" in found[2].numbers[-1]
    empty = table(lambda *_: None)
    assert [c.verdict for c in claims({"table1": empty})] == ["not enough runs"] * 5


def test_what_the_paper_claims_holds_where_it_is_so():
    found = claims({"table1": table(as_the_paper, (*GRAPHS, "amazon-ratings"))})
    assert [c.verdict for c in found if c.number in (1, 2, 4)] == ["holds"] * 3
    one = found[0]
    assert one.numbers[0].startswith("Baselines: holds; up in 8 of 8 (significantly up in 8, ")
    assert any(
        s.startswith("GCN → GCN rewired: up on 4 of 4 graphs (minesweeper +4.00")
        for s in one.numbers
    )
    apart = next(s for s in one.numbers if s.startswith("Here, on amazon-ratings"))
    assert "it is up in 0 of 4, the same in 2" in apart  # the baselines: +2 by tuning, −2
    assert "significantly down in 2" in apart
    assert len(one.differences) == 4 * 5


def test_what_goes_down_fails():
    upside_down = claims({"table1": table(lambda v, d: 150 - as_the_paper(v, d))})
    assert [c.verdict for c in upside_down if c.number in (1, 2, 4)] == ["fails"] * 3
    assert "significantly down in 8" in upside_down[0].numbers[0]


def test_one_part_that_holds_and_one_that_fails_is_partly():
    def rule(v, _):
        return 60 + (2 if v.model in ("gcn", "gat") else -2) * v.rewired

    found = claims({"table1": table(rule)})[0]
    assert found.verdict == "partly"
    assert [s.split(";")[0] for s in found.numbers if s.startswith(("Base", "Prop"))] == [
        "Baselines: holds", "Proposed models: fails",
    ]  # fmt: skip


def test_differences_that_may_be_chance_are_partly():
    found = claims({"table1": table(lambda v, _: 60 + 0.001 * v.rewired)})[0]
    assert found.verdict != "holds"
    assert "significantly up in 0" in found.numbers[0]


def test_one_part_without_runs_leaves_the_claim_open():
    def rule(v, _):
        return None if v.model == "pd-gat-sep" or v == Variant("pd-gat", True, True) else 60

    found = claims({"table1": table(rule)})[0]
    assert found.verdict == "not enough runs"
    assert found.numbers[0].startswith("Baselines: ")


def test_rows_are_found_by_what_they_are_in_any_table():
    made = table(as_the_paper)
    two = replace(made, rows=made.rows[3:])
    one = replace(made, rows=made.rows[:3])
    split = claims({"table1": one, "table2": two})
    assert [c.verdict for c in split] == [c.verdict for c in claims({"table1": made})]


def test_a_difference_is_paired_over_common_splits_by_the_corrected_test():
    change = Change(Variant("gat"), Variant("gat", True, True))
    made = table(as_the_paper, ("minesweeper",))
    label = change.after.name
    cell = made.cells[label, "minesweeper"]
    fewer = replace(
        cell.tried[0],
        splits=(9, 3, 4),
        val=(50.0,) * 3,
        test=tuple(cell.tried[0].test[i] for i in (9, 3, 4)),
    )
    cells = {**made.cells, (label, "minesweeper"): replace(cell, tried=(fewer,))}
    [found] = differences({"t": replace(made, cells=cells)}, [change], ["minesweeper", "cora"])
    before = made.cells[change.before.name, "minesweeper"].tried[0].test
    ours, theirs = fewer.test, [before[i] for i in (9, 3, 4)]
    assert found.splits == 3
    assert found.points == pytest.approx(sum(ours) / 3 - sum(theirs) / 3)
    assert found.p == found.adjusted == pytest.approx(paired(ours, theirs, test_share=0.5))


def test_no_common_split_is_no_difference_and_one_has_no_p():
    change = Change(Variant("gat"), Variant("gat", True, True))
    made = table(as_the_paper, ("minesweeper",))
    place = change.after.name, "minesweeper"
    cell = made.cells[place]
    for splits, many in (((77,), 0), ((5,), 1)):
        alone = replace(cell.tried[0], splits=splits, val=(50.0,), test=(60.0,))
        cells = {**made.cells, place: replace(cell, tried=(alone,))}
        found = differences({"t": replace(made, cells=cells)}, [change], ["minesweeper"])
        assert len(found) == many
        assert all(math.isnan(d.adjusted) and not d.significant for d in found)


def test_the_published_differences_are_those_of_the_table():
    [change] = [c for c in REWIRING["proposed models"] if c.after.model == "pd-gat-sep"]
    found = {d.dataset: d for d in published_differences([change])}
    assert set(found) == set(HETEROPHILIC)
    assert found["roman-empire"].points == pytest.approx(89.23 - 88.46)
    gat = published_differences([Change(Variant("gat"), Variant("gat", True, False))])
    assert {d.dataset: round(d.points, 2) for d in gat}["squirrel-filtered"] == 4.83


def test_counts():
    change = Change(Variant("gat"), Variant("gat", True, True))
    points = [(1.0, 0.01), (2.0, 0.5), (0.0, 1.0), (-1.0, 0.01), (-1.0, math.nan)]
    found = [Difference(change, "cora", 50.0, 50.0 + d, 10, p, p) for d, p in points]
    assert Count.of(found) == Count(5, 2, 1, 1, 1)
    assert str(Count.of(found)) == (
        "up in 2 of 5, the same in 1 (significantly up in 1, significantly down in 1)"
    )


def scores(model: str, dataset: str, wide: float, *, steps: int = 100, splits=(0, 1), depths=(2,)):
    """Runs over a grid of scopes whose score rises with α + γ by `wide` points from end to end."""
    grid = [(a, g) for a in (0.0, 0.5, 1.0) for g in (0.0, 0.5, 1.0)]
    return [
        RunResult(
            RunSpec(
                dataset=dataset, model=model, depth=depth, alpha=a, gamma=g, split=s, steps=steps
            ),
            *(0.5 + wide * (a + g) / 200, 0.4 + 0.01 * s + wide * (a + g) / 200, 3, steps, 1.0),
        )
        for depth in depths
        for a, g in grid
        for s in splits
    ]


def test_the_spread_is_over_scopes_of_runs_trained_alike():
    results = scores("pd-gcn", "minesweeper", 8.0, depths=(2, 3))
    results += scores("pd-gat", "minesweeper", 2.0, depths=(2, 3))
    results += scores("pd-gcn", "tolokers", 4.0)  # of one model alone
    results += scores("pd-gcn", "tolokers", 4.0, steps=500)
    results += scores("pd-gat", "tolokers", 4.0, steps=200)
    [found] = spreads("pd-gcn", "pd-gat", GRAPHS, results=results)
    assert (found.dataset, found.scopes, found.depths) == ("minesweeper", 9, (2, 3))
    assert (found.splits, found.steps) == (2, 100)
    assert found.one.test == pytest.approx(8.0)
    assert found.one.val == pytest.approx(8.0)
    assert found.one.test_with_graph == pytest.approx(6.0)  # γ from 0.5 on
    assert found.other.test == pytest.approx(2.0)
    assert found.one.test_std == pytest.approx(4 * found.other.test_std)
    assert found.wider


def test_of_several_stages_the_widest_counts_and_then_the_longest():
    first = scores("pd-gcn", "tolokers", 8.0) + scores("pd-gat", "tolokers", 2.0)
    late = scores("pd-gcn", "tolokers", 1.0, steps=900, splits=range(5))
    late += scores("pd-gat", "tolokers", 3.0, steps=900, splits=range(5))
    [found] = spreads("pd-gcn", "pd-gat", GRAPHS, results=first + late)
    assert (found.steps, found.splits, found.wider) == (900, 5, False)
    few = [r for r in late if r.spec.alpha == 1.0 and r.spec.gamma > 0]
    [found] = spreads("pd-gcn", "pd-gat", GRAPHS, results=first + few)
    assert (found.steps, found.splits, found.wider) == (100, 2, True)


def test_scopes_on_more_splits_are_compared_on_those_that_all_have():
    both = [r for m, w in (("pd-gcn", 8.0), ("pd-gat", 2.0)) for r in scores(m, "tolokers", w)]
    more = scores("pd-gcn", "tolokers", 8.0, splits=range(2, 10))
    [found] = spreads("pd-gcn", "pd-gat", GRAPHS, results=both + more[:8])
    assert (found.splits, found.scopes) == (2, 9)


def test_runs_without_scores_rewired_or_of_few_scopes_have_no_spread():
    both = scores("pd-gcn", "tolokers", 8.0) + scores("pd-gat", "tolokers", 2.0)
    none = [replace(r, test=math.nan) for r in both]
    rewired = [replace(r, spec=replace(r.spec, rewired=True)) for r in both]
    few = [r for r in both if r.spec.alpha == 0]
    for results in (none, rewired, few, []):
        assert spreads("pd-gcn", "pd-gat", GRAPHS, results=results) == []


def test_the_claim_of_sensitivity():
    def runs(*names, gcn=8.0):
        made = [scores("pd-gcn", n, gcn) + scores("pd-gat", n, 2.0) for n in names]
        return [r for of_graph in made for r in of_graph]

    assert claims({}, results=runs("tolokers"))[2].verdict == "not enough runs"
    held = claims({}, results=runs("tolokers", "minesweeper"))[2]
    assert held.verdict == "holds"
    assert held.numbers[0] == "PD-GCN is the more sensitive on 2 of 2 graphs."
    assert held.numbers[1].startswith(
        "Minesweeper (9 scopes, depth 2, 2 splits, 100 steps), between the best and the worst "
        "scope: PD-GCN 8.00 points of test score (std "
    )
    half = runs("tolokers") + runs("minesweeper", gcn=1.0)
    assert claims({}, results=half)[2].verdict == "partly"
    assert claims({}, results=runs("tolokers", "minesweeper", gcn=1.0))[2].verdict == "fails"


def test_the_spread_of_a_table_alone():
    def cell(model: str, wide: float) -> Cell:
        row = Row(model, model, tuned=True)
        of_scope: dict[tuple[float, float], list[RunResult]] = {}
        for r in scores(model, "tolokers", wide):
            of_scope.setdefault((r.spec.alpha, r.spec.gamma), []).append(r)
        made = [
            Tried(
                rs[0].spec,
                tuple(r.spec.split for r in rs),
                tuple(100 * r.val for r in rs),
                tuple(100 * r.test for r in rs),
                1.0,
                whole=False,
            )
            for rs in of_scope.values()
        ]
        return Cell(row, "tolokers", None, tuple(made))

    cells = {(m, "tolokers"): cell(m, w) for m, w in (("pd-gcn", 8.0), ("pd-gat", 2.0))}
    rows = tuple(c.row for c in cells.values())
    made = ScoreTable("table1", "", rows, ("tolokers",), {"tolokers": "roc_auc"}, cells)
    [found] = spreads("pd-gcn", "pd-gat", GRAPHS, tables={"table1": made})
    assert found.one.test == pytest.approx(8.0)
    assert found.scopes == 9


def figure_by(rule):
    specs = figure1_specs(PLAN)
    return figure1([RunResult(s, rule(s), rule(s), 1, s.steps, 0.1) for s in specs], PLAN)


def test_the_claims_of_figure_1():
    def as_claimed(spec):
        mu = float(spec.dataset.split("homophily=")[1].split(",")[0])
        if spec.model == "plain-pd-gcn":
            return 0.9 - 0.8 * abs(spec.gamma - mu)
        return {"plain-pd-gat": 0.85}.get(spec.model, 0.5)

    found = claims({}, figure_by(as_claimed))[4]
    assert found.verdict == "holds"
    assert all(s.startswith("Yes: ") for s in found.numbers[:3])
    assert "rank correlation 1.00" in found.numbers[2]
    flat = claims({}, figure_by(lambda spec: 0.5))[4]
    assert flat.verdict == "fails"
    assert all(s.startswith("No: ") for s in flat.numbers[:3])
    robust = claims({}, figure_by(lambda s: as_claimed(s) - 0.3 * (s.model == "plain-pd-gcn")))[4]
    assert robust.verdict == "partly"
