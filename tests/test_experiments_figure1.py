"""Figure 1: its runs, what is made of them, and what is said of it."""

from __future__ import annotations

import csv
import io
from dataclasses import replace

import pytest

from pdgnn.experiments.figure1 import FULL, QUICK, Plan, figure1, figure1_specs
from pdgnn.report.figure1 import draw_figure1, figure1_figure
from pdgnn.training import RunResult, RunSpec, train

SMALL = Plan(num_nodes=60, homophily=(0.0, 0.5), gammas=(0.0, 0.5, 1.0), graphs=2, steps=3, width=8)


def made_up(spec: RunSpec, test: float, val: float | None = None) -> RunResult:
    return RunResult(spec, test if val is None else val, test, 1, spec.steps, 0.1)


def by_rule(plan: Plan, rule) -> list[RunResult]:
    return [made_up(spec, rule(spec)) for spec in figure1_specs(plan)]


def mu_of(spec: RunSpec) -> float:
    return float(spec.dataset.split("homophily=")[1].split(",")[0])


def paper_rule(spec: RunSpec) -> float:
    """PD-GCN best at γ = μ and steep around it, PD-GAT flat and second, the others below."""
    mu = mu_of(spec)
    if spec.model == "plain-pd-gcn":
        return 0.9 - 0.8 * abs(spec.gamma - mu)
    if spec.model == "plain-pd-gat":
        return 0.85 - 0.01 * spec.gamma
    return {"mlp": 0.3, "plain-gcn": 0.5, "plain-gat": 0.6}[spec.model]


def test_the_setting_is_the_papers():
    specs = figure1_specs()
    assert len(set(specs)) == len(specs) == 10 * 5 * (3 + 2 * 11 + 11)
    for spec in specs:
        assert (spec.lr, spec.weight_decay, spec.dropout) == (0.01, 0.001, 0.1)
        assert (spec.width, spec.heads, spec.alpha, spec.rewired) == (64, 8, 1.0, False)
        assert spec.depth == 2 or spec.model == "plain-pd-gcn"
    assert {mu_of(s) for s in specs} == {i / 10 for i in range(10)}
    assert FULL.dataset(0.3, 2) == "synthetic:homophily=0.3,seed=2"
    assert QUICK.dataset(0.3, 2) == "synthetic:num_nodes=1000,homophily=0.3,seed=2"


def test_best_and_worst_gamma_are_chosen_by_validation():
    def rule(spec):
        return made_up(spec, test=0.5 + 0.1 * spec.gamma, val=0.9 - 0.1 * spec.gamma)

    figure = figure1([rule(spec) for spec in figure1_specs(SMALL)], SMALL)
    curves = {c.name: c for c in figure.by_homophily}
    assert list(curves) == [
        "MLP", "GCN", "GAT", "PD-GCN, best γ", "PD-GCN, worst γ", "PD-GAT, best γ",
        "PD-GAT, worst γ",
    ]  # fmt: skip
    assert curves["PD-GCN, best γ"].gamma == (0.0, 0.0)  # though its test score is the lowest
    assert curves["PD-GCN, best γ"].mean == pytest.approx((50.0, 50.0))
    assert curves["PD-GCN, worst γ"].mean == pytest.approx((60.0, 60.0))
    assert figure.best_gamma == {0.0: 0.0, 0.5: 0.0}


def test_means_and_deviations_are_over_the_graphs():
    def rule(spec):
        return 0.4 + 0.2 * spec.seed

    figure = figure1(by_rule(SMALL, rule), SMALL)
    for c in figure.by_homophily + figure.by_gamma:
        assert c.mean == pytest.approx([50.0] * len(c.x))
        assert c.std == pytest.approx([200**0.5] * len(c.x))


def test_what_the_paper_found_is_found():
    plan = replace(SMALL, homophily=(0.0, 0.5, 1.0))
    best, robust, dial = figure1(by_rule(plan, paper_rule), plan).findings()
    assert "leads at 3 of 3" in best
    assert "behind both GCN and GAT at 2 of 3" in best
    assert "1.0 points for PD-GAT and 66.7 for PD-GCN" in robust
    assert "at 3 of 3 levels" in robust
    assert "is 0, 0.5, 1 for μ = 0, 0.5, 1: rank correlation 1.00" in dial


def test_what_is_not_found_is_said():
    best, robust, dial = figure1(by_rule(SMALL, lambda spec: 0.5), SMALL).findings()
    assert "behind both GCN and GAT at 0 of 2" in best
    assert "0.0 points for PD-GAT" in robust
    assert dial.endswith("no dial here.")


def test_the_numbers_as_csv():
    figure = figure1(by_rule(SMALL, paper_rule), SMALL)
    rows = list(csv.DictReader(io.StringIO(figure.to_csv())))
    assert len(rows) == 7 * 2 + 2 * 3
    first = next(r for r in rows if r["curve"] == "PD-GCN, best γ" and r["homophily"] == "0.5")
    assert (first["panel"], first["gamma"], first["mean"], first["std"]) == (
        "a", "0.5", "90.00", "0.00",
    )  # fmt: skip
    assert {r["gamma"] for r in rows if r["panel"] == "b"} == {"0.0", "0.5", "1.0"}


def test_the_picture(tmp_path):
    figure = figure1(by_rule(SMALL, paper_rule), SMALL)
    left, right = figure1_figure(figure).axes
    assert [t.get_text() for t in left.get_legend().get_texts()][3] == "PD-GCN, best γ"
    dots = [line for line in right.lines if line.get_marker() == "o"]
    assert [list(dot.get_xdata()) for dot in dots] == [[0.0], [0.5]]
    svg, png = draw_figure1(figure, tmp_path)
    assert svg.read_text().startswith("<?xml")
    assert png.read_bytes().startswith(b"\x89PNG")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["figure1.png", "figure1.svg"]


def test_all_of_it_on_tiny_graphs(tmp_path):
    results = train(figure1_specs(SMALL), folder=tmp_path)
    figure = figure1(results, SMALL)
    assert all(0 <= m <= 100 for c in figure.by_homophily for m in c.mean)
    assert len(figure.findings()) == 3
