"""Members of a portfolio, and the average of the best of different kinds."""

from __future__ import annotations

import numpy as np
import pytest

from pdgnn.estimator.members import Member, Problem, blended, mean_proba
from pdgnn.graph import Graph

N = 40
Y = np.arange(N) % 2


def problem() -> Problem:
    """Two classes in turn, one split; the second half judges."""
    masks = np.zeros((1, 3, N), dtype=bool)
    masks[0, 0, : N // 2] = masks[0, 2, N // 2 :] = True
    graph = Graph.from_edge_index(np.array([[0], [1]]), N)
    return Problem(graph, np.zeros((N, 1), np.float32), Y, 2, "accuracy", masks)


def member(name: str, wrong: range, sure: float, model: str = "pd-net") -> Member:
    """One that is `sure` of the right class, but at the nodes `wrong` a little of the other."""
    right = np.full(N, sure)
    right[list(wrong)] = 0.45
    proba = np.where(Y[:, None] == np.arange(2), right[:, None], 1 - right[:, None])
    return Member(name, model, {}, True, [], [proba], problem().validation_score([proba]), 1.0)


FIRST, SECOND = range(20, 24), range(24, 30)


@pytest.mark.parametrize(
    ("other", "model"), [("PD-Net", "pd-net"), ("pd-trees", "pd-trees"), ("SAGE", "sage")]
)
def test_networks_of_two_recipes_and_trees_are_averaged(other, model):
    rounds, beside = member("PD-Net, 8 rounds", FIRST, 0.9), member(other, SECOND, 0.8, model)
    found = blended(problem(), [beside, rounds])
    assert found.parts == [rounds, beside]
    assert found.val == 1.0
    assert found.name == f"average of PD-Net, 8 rounds, {other}"
    np.testing.assert_allclose(mean_proba([found]), mean_proba([rounds, beside]))


def test_members_of_one_kind_are_not_averaged():
    one, two = member("PD-Net", FIRST, 0.9), member("PD-Net", SECOND, 0.8)
    assert blended(problem(), [one, two]) is one


def test_an_average_that_gains_nothing_is_not_made():
    one, two = member("PD-Net", FIRST, 0.9), member("SAGE", FIRST, 0.8)
    assert blended(problem(), [two, one]).parts == []
