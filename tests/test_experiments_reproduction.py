from __future__ import annotations

import pytest
import torch

from pdgnn import InputError
from pdgnn.experiments import estimate, reproduce
from pdgnn.experiments.estimate import make_plan
from pdgnn.experiments.grid import Search
from pdgnn.experiments.means import Means, TimeUpError, Until
from pdgnn.experiments.outcome import ScoreTable
from pdgnn.experiments.reproduction import Reproduction
from pdgnn.experiments.request import Request
from pdgnn.models import Model
from pdgnn.training import RunResult, RunSpec, Task, stages, train
from pdgnn.training.engines.here import Here
from pdgnn.training.store import Store
from runs import TASKS, spec

BOARD = "minesweeper-generated:size=6,seed=1"
SMALL = {"datasets": [BOARD], "width": 8, "steps": 5, "splits": [0, 1]}


class Linear(torch.nn.Module):
    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(inputs, outputs)

    def forward(self, x, edge_index):
        return self.layer(x)


def build(size, spec):
    return Linear(size.in_channels, size.out_channels)


MINE = Model(build=build, uses=("depth",))
SCOPED = Model(build=build, uses=("alpha", "gamma"))


@pytest.fixture(autouse=True)
def _few_steps(monkeypatch):
    monkeypatch.setattr(stages, "LEAST_STEPS", 1)


def scores(table) -> dict:
    assert isinstance(table, ScoreTable)
    return {
        key: [(t.spec, t.splits, t.val, t.test, t.whole, t.scopes) for t in cell.tried]
        for key, cell in table.cells.items()
    }


def test_two_stages_of_a_baseline(tmp_path):
    said = []
    table = reproduce("table2", rows=["GCN"], store=tmp_path / "s", tell=said.append, **SMALL)
    assert isinstance(table, ScoreTable)
    assert [row.label for row in table.rows] == ["GCN"]
    cell = table.cells["GCN", BOARD]
    assert (cell.settings, len(cell.tried), len(cell.whole)) == (5, 5, 2)
    assert cell.runs_done == cell.runs_wanted == 10 + 4
    assert cell.by_validation is not None
    assert said == [
        f"{BOARD}, stage 1 of 2: 5 settings of GCN; 10 runs of 1 steps",
        f"{BOARD}, stage 2 of 2: 2 settings of GCN; 4 runs of 5 steps",
    ]
    with Store(tmp_path / "s") as store:
        assert len(store.runs()) == 14
        (about,) = store.provenances().values()
    assert about["command"] == "reproduce('table2', search='published', steps=5)"


def test_the_scores_are_those_of_the_same_runs_by_themselves():
    table = reproduce("table2", rows=["GCN"], **SMALL)
    assert isinstance(table, ScoreTable)
    tried = table.cells["GCN", BOARD].by_validation
    assert tried is not None
    specs = [
        RunSpec(
            dataset=BOARD, model="gcn", width=8, steps=5, depth=tried.spec.depth, split=s, seed=s
        )
        for s in (0, 1)
    ]
    assert tried.test == tuple(100 * r.test for r in train(specs))


def test_a_second_time_trains_nothing_and_says_the_same(tmp_path, monkeypatch):
    first = reproduce("table1", rows=["GCN", "GCN + R"], store=tmp_path / "s", **SMALL)
    monkeypatch.setattr("pdgnn.training.engines.here.train_share", None)
    again = reproduce("table1", rows=["GCN", "GCN + R"], store=tmp_path / "s", **SMALL)
    assert scores(again) == scores(first)


def test_a_search_in_three_stages(monkeypatch):
    monkeypatch.setattr("pdgnn.experiments.grid.COARSE", ((0.0, 1.0), (0.0, 0.5), (1.0, 0.5)))
    table = reproduce("table2", rows=["PD-GCN"], search="coarse", **{**SMALL, "splits": [0]})
    assert isinstance(table, ScoreTable)
    cell = table.cells["PD-GCN", BOARD]
    assert (cell.settings, len(cell.tried)) == (20, 20)
    whole = {(t.spec.alpha, t.spec.gamma) for t in cell.whole}
    assert (1.0, 1.0) in whole
    assert 4 <= len(cell.whole) <= 5


def test_exhaustive_trains_all_to_the_end():
    table = reproduce("table2", rows=["GCN"], exhaustive=True, **SMALL)
    assert isinstance(table, ScoreTable)
    assert len(table.cells["GCN", BOARD].whole) == 5


def test_rewired_baselines_train_no_graph_twice():
    table = reproduce(
        "table1", rows=["GCN + R", "GCN + R, tuned"], search="coarse", **{**SMALL, "splits": [0]}
    )
    assert isinstance(table, ScoreTable)
    tuned, untuned = (table.cells[label, BOARD] for label in ("GCN + R, tuned", "GCN + R"))
    graphs = tuned.settings // 5
    assert graphs < 25
    assert sum(len(t.scopes) for t in tuned.tried) == 125
    assert untuned.settings == 5
    assert all((1.0, 1.0) in t.scopes for t in untuned.tried)
    assert {t.spec.depth for t in untuned.whole} <= {t.spec.depth for t in tuned.tried}


def test_models_of_the_users_are_rows_too():
    said = []
    table = reproduce("table2", rows=[], models={"mine": MINE}, tell=said.append, **SMALL)
    assert isinstance(table, ScoreTable)
    assert [row.label for row in table.rows][-2:] == ["PD-GAT-sep (rewired)", "mine"]
    cell = table.cells["mine", BOARD]
    assert (cell.row.tuned, len(cell.tried), len(cell.whole)) == (None, 5, 2)
    assert table.cells["GCN", BOARD].tried == ()
    assert len(said) == 2


def test_a_model_of_the_users_that_uses_alpha_and_gamma_is_searched(monkeypatch):
    monkeypatch.setattr("pdgnn.experiments.grid.COARSE", ((0.0, 1.0), (1.0, 1.0)))
    table = reproduce("table2", rows=[], models={"mine": SCOPED}, search="coarse", **SMALL)
    assert isinstance(table, ScoreTable)
    assert table.cells["mine", BOARD].settings == 2  # it has no depth
    assert table.cells["mine", BOARD].row.tuned


def test_what_the_paper_does_not_say_is_named_and_left_empty():
    said = []
    table = reproduce("table2", rows=["PD-GCN", "GCN"], tell=said.append, **SMALL)
    assert isinstance(table, ScoreTable)
    assert table.cells["PD-GCN", BOARD].tried == ()
    assert table.cells["GCN", BOARD].by_validation is not None
    assert said[0] == (
        f"PD-GCN on {BOARD} stays empty: the paper does not say its (α, γ); a coarse or full "
        "search finds them"
    )


def test_minutes_that_are_over_keep_what_is_done(tmp_path):
    request = Request(name="table2", rows=["GCN", "SAGE"], **SMALL)
    work = Reproduction(request, Means(store=tmp_path / "s", minutes=0))
    assert not work.run()
    cell = work.table().cells["GCN", BOARD]
    assert (cell.runs_done, cell.runs_wanted) == (0, 14)
    whole = Reproduction(request, Means(store=tmp_path / "s", minutes=60))
    assert whole.run()
    again = Reproduction(request, Means(store=tmp_path / "s", minutes=0))
    assert again.run()  # there is nothing to begin
    assert scores(again.table()) == scores(whole.table())


def test_the_plan_has_every_stage_and_what_is_there(tmp_path):
    request = Request(name="table2", rows=["GCN"], **SMALL)
    means = Means(store=tmp_path / "s")
    (cell,) = make_plan(Reproduction(request, means)).cells
    assert (cell.label, cell.settings, cell.stages, cell.done) == ("GCN", 5, ((10, 1), (4, 5)), 0)
    assert (cell.runs, cell.run_steps) == (14, 30)
    assert cell.seconds is not None
    assert cell.seconds > 0
    assert not (tmp_path / "s").exists()
    Reproduction(request, means).run()
    (cell,) = make_plan(Reproduction(request, means), measure=False).cells
    assert (cell.stages, cell.done) == (((10, 1), (4, 5)), 14)
    assert (cell.run_steps, cell.seconds) == (0, None)


@pytest.mark.parametrize(("slow", "probes"), [(0.0, 2), (1e9, 3)])
def test_a_plan_measures_no_further_where_a_step_is_slow(tmp_path, monkeypatch, slow, probes):
    steps: list[int] = []

    def counted(specs, **more):
        steps.append(specs[0].steps)
        return train(specs, **more)

    monkeypatch.setattr(estimate, "SLOW_SECONDS", slow)
    monkeypatch.setattr(estimate, "train", counted)
    request = Request(name="table2", rows=["GCN"], **SMALL)
    (cell,) = make_plan(Reproduction(request, Means(store=tmp_path / "s"))).cells
    assert steps == [1, *estimate.PROBE_STEPS["cpu"]][:probes]
    assert cell.seconds is not None
    assert cell.seconds > 0


def test_a_plan_only_reads_the_store(tmp_path, monkeypatch):
    request = Request(name="table2", rows=["GCN"], **SMALL)
    means = Means(store=tmp_path / "s")
    Reproduction(request, means).run()

    def refused(*_, **__):
        raise AssertionError("a plan opens nothing to write to")

    monkeypatch.setattr("pdgnn.training.store.open_database", refused)
    (cell,) = make_plan(Reproduction(request, means), measure=False).cells
    assert cell.done == 14


def test_datasets_that_are_not_there_are_left_out_unless_they_were_asked_for(monkeypatch):
    def opened(name, root=None):
        if name != "citeseer":
            raise InputError(f"{name} is not here")
        return Task.open(BOARD)

    monkeypatch.setattr("pdgnn.experiments.reproduction.Task", type("T", (), {"open": opened}))
    said = []
    options = {k: v for k, v in SMALL.items() if k != "datasets"}
    table = reproduce("homophilic", rows=["GCN"], tell=said.append, **options)
    assert isinstance(table, ScoreTable)
    assert said[0] == "cora is left out: cora is not here"
    assert table.cells["GCN", "citeseer"].by_validation is not None
    with pytest.raises(InputError, match="cora is not here"):
        reproduce("homophilic", rows=["GCN"], datasets=["cora"])


def test_a_row_of_table_2_may_be_asked_for_on_homophilic_graphs_too():
    assert "FAGCN" not in [row.label for row in Request(name="homophilic").trained_rows]
    asked = Request(name="homophilic", rows=["FAGCN", "GCN"])
    assert [row.label for row in asked.trained_rows] == ["GCN", "FAGCN"]
    assert asked.shown_rows() == asked.trained_rows
    usual = Request(name="homophilic", rows=["pd-gat"])  # the paper's row, not the rewired one too
    assert [row.label for row in usual.trained_rows] == ["PD-GAT"]
    with pytest.raises(InputError, match="homophilic has a row 'FAGCN'"):
        Request(name="homophilic", models={"FAGCN": MINE})
    with pytest.raises(InputError, match="table2 has no row 'PD-GCN \\(rewired\\)'"):
        Request(name="table2", rows=["PD-GCN (rewired)"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rows": ["MINE"]}, "table2 has no row 'MINE'; it has 'GCN'"),
        ({"rows": ["H2GCN"]}, "there is no model for H2GCN yet; leave it out"),
        ({"models": {"gcn": MINE}}, "'gcn' is a model of pdgnn already"),
        ({"models": {"GCN": MINE}}, "table2 has a row 'GCN'; choose another name"),
        ({"datasets": ["cora"]}, "table2 has no cora; it has roman-empire"),
        ({"rows": "GCN"}, "rows must be a list such as \\['GCN'\\], not 'GCN'"),
        ({"datasets": "cora"}, "datasets must be a list such as \\['cora'\\], not 'cora'"),
        ({"datasets": []}, "datasets is empty; leave it out for all"),
        ({"splits": []}, "splits is empty"),
        ({"search": "all"}, "search must be one of published, coarse, full"),
        ({"steps": 0}, "steps must be"),
        ({"precision": "half"}, "unknown precision 'half'"),
        ({"engine": "cloud"}, "there is no engine 'cloud'"),
    ],
)
@pytest.mark.usefixtures("without_h2gcn")
def test_what_cannot_be_asked_for(options, message):
    with pytest.raises(InputError, match=message):
        reproduce("table2", **{"rows": ["GCN"], **options})
    with pytest.raises(InputError, match="unknown experiment 'table9'"):
        reproduce("table9")


def test_rows_by_model_and_by_the_papers_name():
    def labels(*names):
        rows = Request(name="table1", rows=names, search=Search.full).trained_rows
        return [row.label for row in rows]

    assert labels("pd-gcn") == ["PD-GCN, α = γ = 1", "PD-GCN"]
    assert labels("GAT (rewired)") == ["GAT + R", "GAT + R, tuned"]
    assert labels("PD-GAT", "GAT") == ["GAT", "PD-GAT"]


def test_a_row_of_another_system_is_searched_in_its_grid():
    table = reproduce("table2", rows=["FAGCN"], **SMALL)
    assert isinstance(table, ScoreTable)
    one = table.cells["FAGCN", BOARD]
    assert one.settings == 16
    assert len(one.whole) == 4
    assert {t.spec.width for t in one.tried} == {32}


def test_rows_of_table_2_with_runs_on_homophilic_graphs_are_shown(tmp_path):
    setting = {"model": "fagcn", "depth": 2, "width": 32, "dropout": 0.5, "lr": 0.01}
    one = RunSpec(dataset="cora", **setting, options={"epsilon": 0.3})
    with Store(tmp_path / "s") as store:
        store.add([RunResult(one, 0.8, 0.8, 1, one.steps, 2.0)], {"cora": "d"})

    def labels(**part) -> list[str]:
        request = Request(name="homophilic", **part)
        table = Reproduction(request, Means(store=tmp_path / "s")).table()
        return [row.label for row in table.rows]

    assert labels()[-2:] == ["PD-GAT", "FAGCN"]
    assert labels(rows=[], models={"mine": MINE})[-2:] == ["FAGCN", "mine"]
    assert labels(rows=["GCN"]) == ["GCN"]


def test_an_empty_file_is_a_store_that_is_still_to_be_made(tmp_path):
    (tmp_path / "s").touch()  # of a process that was killed before it wrote anything
    request = Request(name="table2", rows=["GCN"], **SMALL)
    work = Reproduction(request, Means(store=tmp_path / "s"))
    (cell,) = make_plan(work, measure=False).cells
    assert cell.done == 0
    assert work.table().cells["GCN", BOARD].runs_done == 0
    assert work.run()
    (cell,) = make_plan(work, measure=False).cells
    assert cell.done == 14


def test_an_engine_with_a_time_limit_still_trains_where_it_trained():
    class Elsewhere:
        elsewhere = True

        def train(self, job):
            for share in job.shares:
                job.take(share)

    assert Until(Elsewhere(), 0.0).elsewhere
    with pytest.raises(TimeUpError):
        train([spec()], tasks=TASKS, engine=Until(Elsewhere(), 0.0))
    assert not Until(Here(), 0.0).elsewhere
