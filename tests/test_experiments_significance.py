"""The tests of significance: against SciPy, on paper, and at their edges."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats

from pdgnn.errors import InputError
from pdgnn.experiments.outcome import Cell, Published, Row, ScoreTable, Tried
from pdgnn.experiments.significance import (
    compare_with_published,
    holm,
    paired,
    share_of,
    welch,
)
from pdgnn.training import RunSpec

NAN = math.nan
SCORES = st.lists(st.floats(20, 99), min_size=3, max_size=12)
MEANS, STDS, COUNTS = st.floats(20, 99), st.floats(0.01, 6), st.integers(2, 20)


@given(MEANS, STDS, COUNTS, MEANS, STDS, COUNTS)
def test_welch_is_scipys(mean1, std1, n1, mean2, std2, n2):
    numbers = (mean1, std1, n1, mean2, std2, n2)
    theirs = stats.ttest_ind_from_stats(*numbers, equal_var=False).pvalue
    assert welch(*numbers) == pytest.approx(theirs, rel=1e-9, abs=1e-300)
    assert welch(mean2, std2, n2, mean1, std1, n1) == pytest.approx(welch(*numbers))


def other_scores(scores: list[float], seed: int) -> list[float]:
    return list(scores + np.random.default_rng(seed).uniform(-3, 4, len(scores)))


@given(SCORES, st.integers(0, 99))
def test_without_correction_the_paired_test_is_scipys(scores, seed):
    others = other_scores(scores, seed)
    theirs = stats.ttest_rel(scores, others).pvalue
    assert paired(scores, others, test_share=0) == pytest.approx(theirs, rel=1e-6)


def test_the_corrected_test_by_hand():
    ours, theirs = [44.0, 46.0, 45.0, 47.0, 43.0], [43.0, 44.0, 44.5, 45.0, 43.0]
    d = np.subtract(ours, theirs)
    t = d.mean() / math.sqrt((1 / 5 + 0.5) * d.var(ddof=1))
    by_hand = 2 * stats.t.sf(abs(t), 4)
    assert paired(ours, theirs) == pytest.approx(by_hand)
    assert paired(ours, theirs, test_share=0.5) == paired(ours, theirs)
    assert paired(theirs, ours) == paired(ours, theirs)


@given(SCORES, st.integers(0, 99), st.floats(0.01, 2))
def test_the_correction_never_finds_more(scores, seed, share):
    others = other_scores(scores, seed)
    assert paired(scores, others, test_share=share) >= paired(scores, others, test_share=0)


@pytest.mark.parametrize("scores", [([], []), ([1.0], [2.0]), ([1.0, NAN], [1.0, 2.0])])
def test_too_few_scores_or_one_that_is_missing_allow_no_paired_test(scores):
    assert math.isnan(paired(*scores))


def test_differences_without_deviation():
    assert paired([3.0, 4.0, 5.0], [3.0, 4.0, 5.0]) == 1.0
    assert paired([3.1, 4.1, 5.1], [3.0, 4.0, 5.0]) == 0.0  # 0.1 each, but for rounding
    assert paired([0.0, 0.0], [0.0, 0.0]) == 1.0
    assert welch(3.0, 0.0, 5, 3.0, 0.0, 5) == 1.0
    assert welch(3.1, 0.0, 5, 3.0, 0.0, 5) == 0.0
    assert welch(0.0, 0.0, 5, 0.0, 0.0, 5) == 1.0
    assert 0 < welch(3.1, 0.0, 5, 3.0, 1.0, 5) < 1


@pytest.mark.parametrize(
    "numbers",
    [
        (NAN, 1.0, 5, 1.0, 1.0, 5),
        (1.0, NAN, 1, 1.0, 1.0, 5),
        (1.0, 0.0, 1, 1.0, 1.0, 5),
        (1.0, 1.0, 5, 1.0, math.inf, 5),
    ],
)
def test_what_allows_no_welch_test(numbers):
    assert math.isnan(welch(*numbers))


def test_what_is_wrong_is_said():
    with pytest.raises(InputError, match="3 and 2 scores make no pairs"):
        paired([1.0, 2.0, 3.0], [1.0, 2.0])
    with pytest.raises(InputError, match="test_share must be a number"):
        paired([1.0, 2.0], [1.0, 3.0], test_share=-1.0)
    with pytest.raises(InputError, match="not negative"):
        welch(1.0, -1.0, 5, 1.0, 1.0, 5)


def test_the_shares_are_those_of_the_protocols():
    assert share_of("tolokers") == share_of("graph.npz") == 0.5
    assert share_of("pubmed") == share_of("squirrel-filtered") == pytest.approx(20 / 48)


def test_the_shares_are_those_of_the_files(data_root):
    from pdgnn.datasets import load

    for name in ("chameleon-filtered", "minesweeper"):
        data = load(name, data_root)
        share = (data.test_mask.sum() / data.train_mask.sum()).item()
        assert share == pytest.approx(share_of(name), abs=0.002)


def test_holm_on_paper():
    assert holm([]) == []
    assert holm([0.2]) == [0.2]
    assert holm([0.5, 0.01, 0.02]) == pytest.approx([0.5, 0.03, 0.04])
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    first, missing, last = holm([0.01, NAN, 0.04])
    assert (first, last) == (0.02, 0.04)
    assert math.isnan(missing)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_holm_keeps_the_order_and_lies_between_none_and_bonferroni(ps):
    adjusted = holm(ps)
    for p, q in zip(ps, adjusted, strict=True):
        assert p <= q <= min(1.0, len(ps) * p) or q == pytest.approx(min(1.0, len(ps) * p))
    for i, p in enumerate(ps):
        assert all(adjusted[i] <= adjusted[j] for j, other in enumerate(ps) if p < other)


@given(st.lists(st.floats(0, 1), min_size=2, max_size=8), st.randoms(use_true_random=False))
def test_holm_does_not_depend_on_the_order(ps, random):
    assume(len(set(ps)) == len(ps))
    order = random.sample(range(len(ps)), len(ps))
    moved = holm(ps[i] for i in order)
    assert moved == [holm(ps)[i] for i in order]


def tried(*test: float, val: float = 50.0, whole: bool = True) -> Tried:
    spec = RunSpec(dataset="cora", model="gcn")
    return Tried(spec, tuple(range(len(test))), (val,) * len(test), test, 1.0, whole)


def table(**cells: tuple[Published | None, list[Tried]]) -> ScoreTable:
    rows = {label: Row(label, "gcn") for label in cells}
    made = {(n, "cora"): Cell(rows[n], "cora", p, tuple(t)) for n, (p, t) in cells.items()}
    return ScoreTable(
        "table2", "A table", tuple(rows.values()), ("cora",), {"cora": "accuracy"}, made
    )


def test_own_scores_beside_the_published():
    paper = Published(80.0, 1.0)
    found = compare_with_published(
        table(
            above=(paper, [tried(83.0, 84.0, 85.0, 84.0)]),
            same=(paper, [tried(79.0, 81.0, 80.5, 79.5)]),
            one=(paper, [tried(90.0)]),
            oom=(Published(None, None, "OOM"), [tried(83.0, 84.0)]),
            unpublished=(None, [tried(83.0, 84.0)]),
            untrained=(paper, []),
            unfinished=(paper, [tried(83.0, 84.0, whole=False)]),
        )
    )
    assert [label for label, _ in found] == ["above", "same", "one"]
    above, same, one = found.values()
    assert above.difference == pytest.approx(4.0)
    own = welch(84.0, math.sqrt(2 / 3), 4, 80.0, 1.0, 10)
    assert above.p == pytest.approx(own)
    assert above.adjusted == pytest.approx(2 * own)  # the single split takes no part
    assert above.significant
    assert not same.significant
    assert one.difference == 10.0
    assert math.isnan(one.p)
    assert not one.significant


def test_what_validation_chooses_is_compared_unless_the_best_test_cell_is_asked_for():
    cells = [tried(79.0, 81.0, val=60.0), tried(83.0, 85.0, val=50.0)]
    made = table(cell=(Published(80.0, 1.0), cells))
    assert compare_with_published(made)["cell", "cora"].difference == 0.0
    assert compare_with_published(made, chosen="test")["cell", "cora"].difference == 4.0
