from __future__ import annotations

import pytest

from pdgnn import Graph, InputError
from pdgnn.experiments.catalog import EXPERIMENTS
from pdgnn.experiments.grid import (
    COARSE,
    DEPTHS,
    UNTUNED,
    Search,
    check_search,
    drawn,
    in_appendix,
    representatives,
    row_settings,
)
from pdgnn.experiments.outcome import Row
from pdgnn.experiments.paper import scope
from pdgnn.experiments.scopes import FULL, computed_classes, known_classes, rewired_classes
from pdgnn.models import MODELS, Model
from pdgnn.nn import PDGCN
from pdgnn.rewiring import rewire
from pdgnn.training import RunSpec, Task

ROWS = {row.label: row for row in EXPERIMENTS["table1"].rows}
BOARD = "minesweeper-generated:size=6,seed=1"


def settings(label, dataset, search, classes=None):
    row = ROWS[label]

    def asked(scopes):
        assert classes is not None, "nobody should ask"
        return {s: classes[s] for s in scopes}

    base = RunSpec(dataset=dataset, model="gcn")
    return row_settings(row, base, MODELS[row.model], Search(search), classes=asked)


def scopes(found) -> list:
    return [(s.spec.alpha, s.spec.gamma) for s in found if s.spec.depth == 1]


def test_a_model_without_alpha_and_gamma_has_its_depths():
    found = settings("GCN", "questions", "full")
    assert [s.spec.depth for s in found] == [*DEPTHS]
    assert scopes(found) == [UNTUNED]
    assert found[0].scopes == ()


def test_how_many_settings_each_search_has():
    assert len(settings("PD-GAT", "tolokers", "published")) == 5
    assert len(settings("PD-GCN", "minesweeper", "coarse")) == 125  # (1, 1) is the published one
    assert len(settings("PD-GAT", "minesweeper", "coarse")) == 130
    assert len(settings("PD-GAT", "minesweeper", "full")) == 605
    assert len(settings("PD-GAT, α = γ = 1", "cora", "published")) == 5
    assert set(COARSE) < set(FULL)
    assert len(FULL) == len(set(FULL)) == 121


def test_homophilic_graphs_have_settings_of_appendix_e_beside_the_protocol():
    plain, scoped = settings("GCN", "cora", "full"), settings("PD-GAT", "cora", "coarse")
    for found, protocol in ((plain, 5), (scoped, 125)):
        own = [s for s in found if in_appendix(s.spec)]
        assert len(own) == len(found) - protocol == 600
        assert len({s.spec.key for s in found}) == len(found)
        assert {s.spec.width for s in own} == {64}
        assert {s.spec.lr for s in own} == {0.01, 0.05, 0.1}
        assert {s.spec.depth for s in own} == {*DEPTHS}
        assert not any(s.always for s in own)
    assert found == settings("PD-GAT", "cora", "coarse")  # drawn by a fixed seed
    assert len({(s.spec.alpha, s.spec.gamma) for s in own}) == 25
    assert not any(in_appendix(s.spec) for s in settings("GCN", "cora", "published"))
    assert not any(in_appendix(s.spec) for s in settings("GCN", "questions", "full"))


def test_a_part_of_the_settings_is_drawn_with_those_that_are_always_trained():
    found = settings("PD-GAT", "minesweeper", "full")
    always = {s.spec.key for s in found if s.always}
    part = drawn(found, 40)
    assert 40 <= len(part) <= 40 + len(always)
    assert always <= {s.spec.key for s in part} <= {s.spec.key for s in found}
    assert drawn(found, 40) == part
    assert drawn(found, 605) == drawn(found, None) == found


def test_the_published_scope_and_the_untuned_one_are_in_any_search():
    for search in ("coarse", "full"):
        found = settings("PD-GAT", "minesweeper", search)
        kinds = {(s.spec.alpha, s.spec.gamma): s.always for s in found}
        assert {kind for kind in kinds.values() if kind} == {"published", "untuned"}
        assert kinds[0.2, 0.4] == "published"
        assert kinds[UNTUNED] == "untuned"


def test_untuned_rows_have_no_search():
    assert scopes(settings("PD-GAT, α = γ = 1", "minesweeper", "full")) == [UNTUNED]
    assert len(settings("PD-GAT, α = γ = 1", "cora", "published")) == 5


def test_what_the_paper_does_not_say_is_empty():
    assert settings("PD-GAT", "cora", "published") == []


def test_a_users_model_has_alpha_and_gamma_of_1_instead():
    def build(size, spec):
        return PDGCN(size.in_channels, spec.width, size.out_channels)

    found = row_settings(
        Row("mine", "mine", tuned=True),
        RunSpec(dataset="cora", model="gcn"),
        Model(build=build),
        Search.published,
        classes=dict.fromkeys,
    )
    assert scopes(found) == [UNTUNED]
    assert {s.spec.model for s in found} == {"mine"}


def test_scopes_with_the_same_rewired_graph_are_one_setting():
    classes = {s: int(s[1] > 0.5) + 2 * int(s == (0.0, 0.0)) for s in FULL}
    found = settings("GCN + R, tuned", "minesweeper", "full", classes)
    assert len(found) == 3 * 5
    by_scope = {(s.spec.alpha, s.spec.gamma): s for s in found}
    said = scope("GCN (rewired)", "minesweeper")
    assert said is not None
    assert by_scope[said].always == "published"
    assert by_scope[said].scopes[0] == said
    assert by_scope[UNTUNED].always == "untuned"
    assert (0.0, 0.0) in by_scope
    assert sum(len(s.scopes) for s in found) == 121 * 5


def test_the_untuned_row_is_the_published_run_if_their_graphs_are_the_same():
    classes = dict.fromkeys(FULL, 0)
    said = scope("GAT (rewired)", "tolokers")
    assert scopes(settings("GAT + R", "tolokers", "published", classes)) == [said]
    assert scopes(settings("GAT + R, tuned", "tolokers", "published", classes)) == [said]
    apart = {s: int(s == UNTUNED) for s in FULL}
    assert scopes(settings("GAT + R", "tolokers", "published", apart)) == [UNTUNED]


def test_representatives_without_a_published_scope():
    assert representatives({(0.0, 0.0): 0, (1.0, 1.0): 0, (0.5, 0.0): 1}, None) == [
        ((1.0, 1.0), (0.0, 0.0)),
        ((0.5, 0.0),),
    ]


def test_classes_are_those_of_equal_rewired_graphs():
    # two components, so that the nodes of both count
    ends = [(0, 1), (1, 2), (2, 3), (3, 4), (2, 4), (5, 6), (6, 7), (7, 8), (8, 9), (7, 9), (7, 5)]
    graph = Graph.from_edge_index([[a for a, _ in ends], [b for _, b in ends]])
    found = computed_classes(graph)
    graphs = {}
    for alpha, gamma in FULL:
        rewired = rewire(graph, alpha=alpha, gamma=gamma)
        key = rewired.edge_index.numpy().tobytes()
        graphs.setdefault(found[alpha, gamma], key)
        assert graphs[found[alpha, gamma]] == key
    assert len(set(graphs.values())) == len(graphs) > 1


def test_a_search_that_there_is_not():
    with pytest.raises(InputError, match="search must be one of published, coarse, full, not 'a'"):
        check_search("a")


# gradient nodes over the whole grid; squirrel has 10 where ties are left to rounding
KNOWN = {"chameleon-filtered": 6, "squirrel-filtered": 8, "minesweeper": 2, "tolokers": 3}


@pytest.mark.parametrize("name", KNOWN)
def test_the_papers_graphs(name, data_root):
    task = Task.open(name, data_root)
    known = known_classes(task.fingerprint())
    assert known is not None
    assert len(set(known.values())) == KNOWN[name]
    if name.endswith("filtered"):  # the others take seconds
        assert computed_classes(task.graph) == known
    assert rewired_classes(task) == known


def test_another_system_has_its_own_grid_and_steps():
    rows = {row.label: row for row in EXPERIMENTS["table2"].rows}
    base = RunSpec(dataset="chameleon-filtered", model="gcn", width=512, steps=100)
    found = row_settings(rows["FAGCN"], base, MODELS["fagcn"], Search.full, classes=dict)
    assert len({s.spec.key for s in found}) == 16
    assert {(s.spec.width, s.spec.steps, s.spec.options["epsilon"]) for s in found} == {
        (32, 100, 0.4)
    }
    gbk = row_settings(rows["GBK-GNN"], base, MODELS["gbk-gnn"], Search.full, classes=dict)
    assert {s.spec.steps for s in gbk} == {50}  # 500 where the protocol has 1000
