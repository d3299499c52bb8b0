"""The records: what chooses, what is trained again, and what the table says."""

from __future__ import annotations

import math
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from pdgnn import InputError
from pdgnn.diffusion import diffused, node_inputs
from pdgnn.experiments.means import Means
from pdgnn.experiments.records import Records, RecordsRequest, gather_records, spaces
from pdgnn.experiments.records import trees as trees_module
from pdgnn.experiments.records.ablation import variants
from pdgnn.experiments.records.average import WEIGHTS, average_specs, averaged, best_average
from pdgnn.experiments.records.outcome import final_specs, replayed, search_of
from pdgnn.experiments.records.published import best_published, published_records
from pdgnn.experiments.records.spaces import (
    FRESH_SEEDS,
    METHODS,
    SPLITS,
    check_methods,
    space,
    stages_of,
)
from pdgnn.experiments.records.trees import TREES, TreesEngine, fit_run, scopes
from pdgnn.experiments.records.winners import Choice, as_json, winner
from pdgnn.experiments.significance import holm, paired
from pdgnn.models import MODELS
from pdgnn.training import RunResult, RunSpec, Task, train
from pdgnn.training.engines import here
from pdgnn.training.spec import resolved
from pdgnn.training.store import Store, StoredRun, read_runs
from recording import BAD, HONEST, OPTIONS, STAND_IN, TRAP, small_graph
from recording import SPLITS as TWO

ALL = ("pd-net", "pd-trees", "average", "gcn")


@pytest.fixture
def small(tmp_path, monkeypatch) -> str:
    return small_graph(tmp_path, monkeypatch)


def work(graph: str, folder: Path, *parts: str, methods=("pd-net",), **means) -> Records:
    request = RecordsRequest(datasets=[graph], methods=methods, parts=parts, splits=TWO)
    return Records(request, Means(store=folder / "s.sqlite", **means))


def results_of(folder: Path) -> list[RunResult]:
    return [run.result for run in read_runs(folder / "s.sqlite")[0]]


# --- choosing -------------------------------------------------------------------------------------


def test_the_best_test_score_does_not_choose(small, tmp_path):
    made = work(small, tmp_path, "search", "final")
    assert made.run()
    tests = {r.spec.options["column"]: r.test for r in results_of(tmp_path)}
    assert max(tests, key=tests.__getitem__) == TRAP
    line = made.table().lines[small, "pd-net"]
    assert line.spec is not None
    assert line.spec.options["column"] == HONEST
    assert (line.tried, line.source, line.whole) == (3, "search", True)
    assert line.mean < 100 * tests[TRAP]


def test_a_search_is_found_again_from_its_validation_scores_alone(small):
    def scored(test: float) -> Choice | None:
        staged = search_of("pd-net", small, TWO, "float32")
        known: dict[str, RunResult] = {}
        while not staged.ended:
            new = {
                s.key: RunResult(s, 0.2 * float(s.options["column"]), test * s.seed, 1, 4, 1.0)
                for s in staged.specs()
            }
            known |= new
            staged.advance(new)
        return replayed(search_of("pd-net", small, TWO, "float32"), known)

    one, other = scored(0.1), scored(0.9)
    assert one == other
    assert one is not None
    assert one.spec.options["column"] == BAD  # the number of the column was the score
    assert one.val == pytest.approx(0.4)


def test_a_search_that_is_not_finished_chooses_nothing(small):
    staged = search_of("pd-net", small, TWO, "float32")
    specs = staged.specs()
    known = {s.key: RunResult(s, 0.5, 0.5, 1, 4, 1.0) for s in specs[:-1]}
    assert replayed(staged, known) is None
    assert staged.number == 0


def test_final_runs_have_seeds_that_no_stage_has(small, tmp_path):
    made = work(small, tmp_path, "search")
    made.run()
    seeds = {r.spec.seed for r in results_of(tmp_path)}
    assert seeds == set(TWO)
    assert not seeds & set(FRESH_SEEDS)
    assert not set(SPLITS) & set(FRESH_SEEDS)
    chosen = made.choice(small, "pd-net")
    assert chosen is not None
    finals = final_specs(chosen.spec, SPLITS)
    assert len({run.key for run in finals}) == len(SPLITS) * len(FRESH_SEEDS) == 30


# --- going on -------------------------------------------------------------------------------------


def test_a_second_start_trains_nothing_twice(small, tmp_path, monkeypatch):
    trained: list[str] = []
    share, fit = here.train_share, trees_module.fit_run

    def note(key: str) -> None:
        if len(trained) in (2, 9, 17) and key not in stopped:
            stopped.append(key)
            raise KeyboardInterrupt
        trained.append(key)

    def noting(specs, *rest):
        for spec in specs:
            note(spec.key)
        share(specs, *rest)

    def fitting(task, spec, tables):
        note(spec.key)
        return fit(task, spec, tables)

    stopped: list[str] = []
    monkeypatch.setattr(here, "train_share", noting)
    monkeypatch.setattr(trees_module, "fit_run", fitting)
    starts = 1
    while True:
        try:
            work(small, tmp_path, "search", "final", "ablation", methods=ALL).run()
            break
        except KeyboardInterrupt:
            starts += 1
    assert starts == 4
    assert len(trained) == len(set(trained))
    made = work(small, tmp_path, "search", "final", "ablation", methods=ALL)
    count = len(trained)
    assert made.run()
    assert len(trained) == count
    assert all(line.whole for line in made.table().lines.values())
    assert sum(cell.run_steps for cell in made.plan().cells) == 0


def test_the_plan_is_what_is_trained(small, tmp_path):
    made = work(small, tmp_path, "search", "final", methods=("pd-trees",))
    planned = {cell.label: cell for cell in made.plan().cells}
    assert planned["pd-trees"].stages == ((4, 2),)
    assert planned["pd-trees, final"].stages == ((6, 2),)
    made.run()
    assert len(results_of(tmp_path)) == 10


def test_minutes_that_are_over(small, tmp_path):
    assert not work(small, tmp_path, "search", minutes=0).run()
    made = work(small, tmp_path, "search", "final", methods=("pd-trees",), minutes=0)
    assert not made.run()
    assert results_of(tmp_path) == []


# --- predictions ----------------------------------------------------------------------------------


def test_predictions_are_kept_for_each_final_run(small, tmp_path):
    work(small, tmp_path, "search", "final", methods=("pd-net", "pd-trees")).run()
    kept = {file.name.split("-")[-1] for file in (tmp_path / "s.sqlite-states").iterdir()}
    finals = [r for r in results_of(tmp_path) if r.spec.seed in FRESH_SEEDS]
    assert kept == {f"{r.spec.key}.safetensors" for r in finals}
    assert len(finals) == 12


def test_a_run_whose_predictions_cannot_be_written_is_not_finished(small, tmp_path, monkeypatch):
    import safetensors.torch

    save = safetensors.torch.save_file

    def torn(tensors, path, about):
        save(tensors, path, about)
        raise OSError(28, "no space left")

    work(small, tmp_path, "search").run()
    before = len(results_of(tmp_path))
    monkeypatch.setattr(safetensors.torch, "save_file", torn)
    with pytest.raises(InputError, match="no space left"):
        work(small, tmp_path, "final").run()
    assert len(results_of(tmp_path)) == before
    assert list((tmp_path / "s.sqlite-states").glob("best-*")) == []
    monkeypatch.setattr(safetensors.torch, "save_file", save)
    assert work(small, tmp_path, "final").run()
    assert len(results_of(tmp_path)) == before + 6


# --- the average ----------------------------------------------------------------------------------


@pytest.fixture
def both(small) -> tuple[Task, list[RunResult], list[RunResult]]:
    """Final runs of a network that is right on validation and of trees that are right on test."""
    task = Task.open(small)

    def run(spec: RunSpec, column: int) -> RunResult:
        return RunResult(spec, 0.5, 0.5, 1, 1, 0.0, logits=2 * task.x[:, column, None])

    network, trees = (RunSpec(dataset=small, model=m) for m in ("pd-net", "pd-trees"))
    return (
        task,
        [run(s, HONEST) for s in final_specs(network, TWO)],
        [run(s, TRAP) for s in final_specs(trees, TWO)],
    )


def test_the_weight_is_chosen_by_validation(both):
    task, networks, trees = both
    places = [(r.spec.split, r.spec.seed) for r in networks]
    specs = average_specs(networks[0].spec, trees[0].spec, places)
    assert len(specs) == len(WEIGHTS) * 6
    found = {r.spec.key: r for r in averaged(specs, networks, trees, task)}
    best = best_average(specs, found)
    assert best is not None
    assert best.spec.options["weight"] == 0.0
    assert best.val_mean == 1.0
    assert max(r.test for r in found.values()) == 1.0 > best.test_mean
    swapped = {r.spec.key: r for r in averaged(specs, trees, networks, task)}
    other = best_average(specs, swapped)
    assert other is not None
    assert other.val_mean == 1.0
    assert other.spec.options["weight"] == min(
        w
        for w in WEIGHTS
        if all(r.val == 1 for r in swapped.values() if r.spec.options["weight"] == w)
    )
    assert best_average(specs, dict(list(found.items())[1:])) is None


def test_an_average_is_that_of_probabilities(both):
    from sklearn.metrics import roc_auc_score

    task, networks, trees = both
    specs = average_specs(networks[0].spec, trees[0].spec, [(1, FRESH_SEEDS[2])])
    for result in averaged(specs, networks, trees, task):
        w = result.spec.options["weight"]
        first, second = (1 / (1 + np.exp(-2.0 * task.x[:, c].double().numpy())) for c in (0, 1))
        mixed, y = (1 - w) * first + w * second, task.y.numpy()
        for mask, score in ((task.masks[1, 1], result.val), (task.masks[1, 2], result.test)):
            assert score == pytest.approx(roc_auc_score(y[mask], mixed[mask]))


def test_final_runs_without_predictions_are_trained_again_for_the_average(small, tmp_path):
    work(small, tmp_path, "search", "final", methods=("pd-net", "pd-trees")).run()
    for file in (tmp_path / "s.sqlite-states").iterdir():
        file.unlink()
    before = {r.spec.key: r for r in results_of(tmp_path)}
    made = work(small, tmp_path, "final", methods=("pd-net", "pd-trees", "average"))
    assert made.run()
    after = {r.spec.key: r for r in results_of(tmp_path)}
    assert {key: after[key] for key in before} == before
    line = made.table().lines[small, "average"]
    assert line.whole
    assert line.weight in WEIGHTS
    assert line.tried == 3 + 2


# --- trees ----------------------------------------------------------------------------------------


def tree_spec(graph: str, **changed) -> RunSpec:
    fields = {
        name: changed.pop(name) for name in ("split", "seed", "steps", "lr") if name in changed
    }
    spec = RunSpec(dataset=graph, model="pd-trees", **{"steps": 3, "lr": 0.1, **fields})
    return resolved(replace(spec, options={"leaves": 3, **changed}), TREES)


def test_trees_are_those_of_the_diffused_features(small):
    from sklearn.ensemble import ExtraTreesClassifier

    task = Task.open(small)
    spec = tree_spec(small, trees="extra", scopes="0,0.5;1,1", hops=2, seed=7, split=1)
    z = node_inputs(task.graph, task.x.numpy(), None)
    table = diffused(task.graph, z, scopes=((0, 0.5), (1, 1)), hops=2)
    train_nodes = task.masks[1, 0].numpy()
    forest = ExtraTreesClassifier(300, min_samples_leaf=2, random_state=7)
    proba = forest.fit(table[train_nodes], task.y[train_nodes]).predict_proba(table)
    result = fit_run(task, spec)
    assert result.logits is not None
    assert result.logits.shape == (48, 1)
    assert result.logits[:, 0].sigmoid().numpy() == pytest.approx(proba[:, 1], abs=1e-6)


def test_both_is_the_mean(small):
    task = Task.open(small)
    shares = {
        kind: fit_run(task, tree_spec(small, trees=kind)).logits[:, 0].double().sigmoid()
        for kind in ("lightgbm", "extra", "both")
    }
    mean = (shares["lightgbm"] + shares["extra"]) / 2
    assert shares["both"].numpy() == pytest.approx(mean.numpy(), abs=1e-6)


@pytest.mark.parametrize("labels", [False, True])
def test_trees_do_not_see_the_labels_of_validation_and_test_nodes(small, labels):
    task = Task.open(small)
    train_nodes = task.masks[0, 0]
    other = Task.from_arrays(
        task.graph, task.x, torch.where(train_nodes, task.y, 1 - task.y), task.masks
    )
    spec = tree_spec(small, labels=labels, scopes="1,1", hops=1)
    one, two = fit_run(task, spec), fit_run(other, spec)
    assert torch.equal(one.logits, two.logits)
    assert (one.val, one.test) != (two.val, two.test)


def test_labels_of_neighbours_are_columns_of_their_own(small):
    task = Task.open(small)
    plain, known = (fit_run(task, tree_spec(small, labels=b, trees="extra")) for b in (False, True))
    assert not torch.equal(plain.logits, known.logits)


def test_several_processes_fit_what_one_does(small):
    specs = [tree_spec(small, split=s, seed=s, hops=h) for s in (0, 1) for h in (1, 2)]
    options = {"models": {"pd-trees": TREES}, "keep": ("logits",)}
    one = train(specs, engine=TreesEngine(), **options)
    two = train(specs, engine=TreesEngine(2), **options)
    assert one == two
    assert all(torch.equal(a.logits, b.logits) for a, b in zip(one, two, strict=True))


def test_trees_are_no_network(small):
    with pytest.raises(InputError, match="pd-trees is no network"):
        train([tree_spec(small)], models={"pd-trees": TREES})


def test_lightgbm_that_is_not_there_is_said_at_once(small, tmp_path, monkeypatch):
    found = trees_module.find_spec
    monkeypatch.setattr(trees_module, "find_spec", lambda n: None if n == "lightgbm" else found(n))
    made = work(small, tmp_path, "search", methods=("pd-net", "pd-trees"))
    with pytest.raises(InputError, match="pd-trees needs lightgbm, which is not installed here"):
        made.run()
    assert not (tmp_path / "s.sqlite").exists()
    assert work(small, tmp_path, "search").run()


def test_networks_need_neither_scikit_learn_nor_lightgbm():
    """Machines that only train have not always both."""
    program = """
import sys
sys.modules["sklearn"] = sys.modules["lightgbm"] = None  # as if they were not installed
import pdgnn.cli.records, pdgnn.report.records
from pdgnn.errors import InputError
from pdgnn.experiments.means import Means
from pdgnn.experiments.records import Records, RecordsRequest, gather_records
gather_records([], datasets=["tolokers"])
request = RecordsRequest(datasets=["tolokers"], methods=["pd-trees"], parts=["search"])
try:
    Records(request, Means(store="s.sqlite")).run()
except InputError as e:
    assert "needs lightgbm and scikit-learn" in str(e), e
else:
    raise SystemExit("it ran")
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("text", ["", "1", "a,b", "1,2", "0,1;", None])
def test_scopes_that_are_none(text):
    with pytest.raises(InputError, match="α"):
        resolved(RunSpec(dataset="cora", model="pd-trees", options={"scopes": text}), TREES)


def test_scopes():
    assert scopes("0,1;0.5,0.8") == ((0.0, 1.0), (0.5, 0.8))


# --- the table ------------------------------------------------------------------------------------


def stored(specs, test) -> list[StoredRun]:
    """Validation prefers the last feature."""
    return [
        StoredRun(RunResult(s, 0.2 * s.options["column"], test(s), 1, 4, 1.0), "d", None, "")
        for s in specs
    ]


def searched(graph: str, method: str) -> tuple[list[StoredRun], RunSpec]:
    """Runs of a finished search, and what it chooses."""
    staged, runs = search_of(method, graph, TWO, "float32"), []
    while not staged.ended:
        new = stored(staged.specs(), lambda _: 0.5)
        runs += new
        staged.advance({run.result.spec.key: run.result for run in new})
    known = {run.result.spec.key: run.result for run in runs}
    choice = replayed(search_of(method, graph, TWO, "float32"), known)
    assert choice is not None
    return runs, choice.spec


def test_means_deviations_and_the_paired_test(small, monkeypatch):
    rng = np.random.default_rng(3)
    draws: dict[str, list[float]] = {}
    runs = []
    for method, mean in (("pd-net", 0.8), ("gcn", 0.6)):
        some, spec = searched(small, method)
        draws[method] = (mean + 0.02 * rng.random(6)).tolist()
        scores = iter(draws[method])
        runs += [*some, *stored(final_specs(spec, TWO), lambda _, it=scores: next(it))]
    table = gather_records(runs, datasets=[small], methods=["pd-net", "gcn"], splits=TWO)
    line = table.lines[small, "pd-net"]
    ours, theirs = (100 * np.array(draws[name]) for name in ("pd-net", "gcn"))
    assert (line.mean, line.std) == pytest.approx((ours.mean(), ours.std(ddof=1)))
    by_split = [a.reshape(2, 3).mean(axis=1).tolist() for a in (ours, theirs)]
    p = holm([paired(*by_split, test_share=0.5), math.nan])[0]
    assert line.p is not None
    assert line.p["gcn"] == pytest.approx(p)
    assert math.isnan(line.p["pd-gcn"])
    assert table.lines[small, "gcn"].p == {}
    said = table.to_dict()[small]
    assert said["methods"]["pd-net"]["p"]["pd-gcn"] is None
    assert said["methods"]["pd-net"]["runs"] == 6


def test_missing_runs_and_other_precisions(small):
    some, spec = searched(small, "pd-net")
    runs = [*some, *stored(final_specs(spec, TWO)[:4], lambda _: 0.7)]
    line = gather_records(runs, datasets=[small], methods=["pd-net"], splits=TWO).lines
    assert len(line[small, "pd-net"].test) == 4
    assert not line[small, "pd-net"].whole
    halves = [
        replace(r, result=replace(r.result, spec=replace(r.result.spec, precision="tf32")))
        for r in [*some, *stored(final_specs(spec, TWO), lambda _: 0.9)]
    ]
    both_kinds = gather_records([*runs, *halves], datasets=[small], methods=["pd-net"], splits=TWO)
    assert both_kinds.lines[small, "pd-net"].mean == pytest.approx(90)
    assert both_kinds.lines[small, "pd-net"].spec.precision == "tf32"


def test_without_runs_the_table_is_empty(small):
    table = gather_records([], datasets=[small], splits=TWO)
    assert [line.spec for line in table.lines.values()] == [None] * len(METHODS)
    assert table.ablations == {}


# --- settings of the package ----------------------------------------------------------------------


def test_a_measured_setting_goes_through_the_file_and_is_trained(small, tmp_path, monkeypatch):
    import json

    from pdgnn.experiments.records import winners as module

    chosen = {
        (small, "pd-net"): Choice(space("pd-net", small)[1], 3, 0.75, "search"),
        (small, "pd-trees"): Choice(space("pd-trees", small)[0], 2, 0.5, "search"),
    }
    text = as_json(chosen)
    monkeypatch.setattr(module, "winners", lambda: json.loads(text))
    for (_, method), choice in chosen.items():
        assert winner(small, method) == replace(choice, source="package")
    tf32 = winner(small, "pd-net", precision="tf32")
    assert tf32 is not None
    assert tf32.spec == replace(chosen[small, "pd-net"].spec, precision="tf32")
    assert winner(small, "pd-trees", precision="tf32") == winner(small, "pd-trees")
    made = work(small, tmp_path, "final", methods=("pd-net", "pd-trees"))
    assert made.run()
    line = made.table().lines[small, "pd-net"]
    assert (line.source, line.tried, line.whole) == ("package", 3, True)
    assert line.spec.options["column"] == TRAP
    work(small, tmp_path, "search").run()
    again = work(small, tmp_path, "final").choice(small, "pd-net")
    assert again is not None
    assert (again.source, again.spec.options["column"]) == ("search", HONEST)


def test_what_was_not_measured_is_said_with_the_remedy(small, tmp_path):
    for part, method in (("final", "pd-trees"), ("ablation", "pd-net"), ("final", "average")):
        made = work(small, tmp_path, part, methods=(method,))
        with pytest.raises(InputError, match=r"no setting of pd-\w+ on .* --search"):
            made.run()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"datasets": ["nowhere"]}, "there are no records of 'nowhere'; choose among minesweeper"),
        ({"methods": ["gat"]}, "unknown model 'gat'; choose among pd-net, pd-trees, average"),
        ({"parts": ["all"]}, "unknown part 'all'; choose among search, final, ablation"),
        ({"precision": "int8"}, "unknown precision 'int8'"),
        ({"splits": [-1]}, "split must be a whole number"),
    ],
)
def test_what_cannot_be_asked_for(options, message):
    with pytest.raises(InputError, match=message):
        RecordsRequest(**options)


def test_records_need_a_store(small):
    with pytest.raises(InputError, match="records are kept in a store"):
        Records(RecordsRequest(datasets=[small]), Means())


# --- data -----------------------------------------------------------------------------------------


def test_the_best_published():
    found = {name: best_published(name) for name in spaces.NETWORKS}
    assert {name: record.mean for name, record in found.items()} == {
        **{"minesweeper": 99.07, "tolokers": 85.91, "squirrel-filtered": 45.30},
        **{"chameleon-filtered": 46.93, "cora": 88.66, "citeseer": 76.55, "pubmed": 89.70},
    }
    noted = {record.by: record for record in published_records("chameleon-filtered")}
    assert not noted["c-IGNN"].comparable
    assert "random splits" in noted["c-IGNN"].note
    assert published_records("somewhere") == ()
    assert best_published("somewhere") is None


@pytest.fixture(params=["of the contract", "of the registry"])
def pd_net(request, monkeypatch) -> None:
    """PD-Net as a model with its options, and itself where it is there."""
    if request.param == "of the contract":
        monkeypatch.setitem(MODELS, "pd-net", replace(STAND_IN, options=OPTIONS))
    elif "pd-net" not in MODELS:
        pytest.skip("there is no pd-net yet")


@pytest.mark.usefixtures("pd_net")
@pytest.mark.parametrize("dataset", spaces.NETWORKS)
def test_the_spaces_are_of_a_size_that_halving_can_handle(dataset):
    sizes = {name: len(space(name, dataset)) for name in METHODS if METHODS[name].model}
    assert 60 <= sizes["pd-net"] <= 200
    assert 10 <= sizes["gcn"] <= 40
    assert 50 <= sizes["pd-trees"] <= 80
    assert sizes["pd-gcn"] in (5, 45)
    for name, count in sizes.items():
        assert stages_of(name, count)[-1].splits is None
        assert stages_of(name, count)[-1].share == 1.0
    assert {s.options["aggregation"] for s in space("gcn", dataset)} == {"gcn"}
    assert {s.precision for s in space("pd-net", dataset, precision="tf32")} == {"tf32"}
    assert {s.precision for s in space("pd-trees", dataset, precision="tf32")} == {"float32"}


@pytest.mark.usefixtures("pd_net")
def test_the_pilots_settings_are_in_the_spaces():
    def has(dataset: str, options: dict, **fields) -> bool:
        return any(
            all(getattr(s, n) == v for n, v in fields.items())
            and all(s.options[n] == v for n, v in options.items())
            for s in space("pd-net", dataset)
        )

    deep = {"rounds": 20, "inject": True}
    assert has("minesweeper", deep, depth=2, width=64, lr=0.01, dropout=0.2)
    assert has("tolokers", {}, depth=4, alpha=0.0, gamma=0.5, dropout=0.7, lr=3e-3, width=128)
    running = {"running": True, "optimizer": "adam"}
    squirrel = {"depth": 4, "width": 256, "alpha": 0.0, "gamma": 0.9, "weight_decay": 5e-4}
    assert has("squirrel-filtered", running, **squirrel, dropout=0.7, lr=0.01)
    chameleon = {"depth": 2, "width": 512, "alpha": 0.0, "gamma": 0.9, "dropout": 0.7, "lr": 3e-4}
    assert has("chameleon-filtered", {"scopes": "1,1"}, **chameleon)


@pytest.mark.usefixtures("pd_net")
def test_an_ablation_changes_one_part_at_a_time():
    recipe = next(s for s in space("pd-net", "minesweeper") if s.options["rounds"] == 20)
    found = variants(recipe)
    assert next(iter(found.values())) == recipe
    assert len({spec.key for spec in found.values()}) == len(found)
    unrolled = found["own weights for each round"]
    assert (unrolled.depth, unrolled.options["rounds"]) == (40, 1)
    assert found["one round"].depth == 2
    assert not found["features in the first round only"].options["inject"]
    assert found["the scope (1, 1) beside it"].options["scopes"] == "1,1"
    assert not found["no path to itself"].options["self_path"]
    assert {found[n].options["norm"] for n in ("LayerNorm", "no norm")} == {"layer", "none"}
    assert found["running statistics in evaluation"].options["running"]
    kinds = {s.options["aggregation"] for s in found.values()}
    assert kinds == {"pd", "gcn", "sage", "gat"}
    flat = next(s for s in space("pd-net", "squirrel-filtered") if s.options["scopes"])
    other = variants(flat)
    assert other["one scope"].options["scopes"] == ""
    assert other["two rounds"].options["rounds"] == 2
    assert other["features in every round"].options["inject"]
    assert not other["the graph's statistics in evaluation"].options["running"]


def test_methods_keep_the_order_of_the_table():
    assert [m.name for m in check_methods(["gcn", "pd-net"])] == ["pd-net", "gcn"]


def test_runs_of_other_data_do_not_count(small, tmp_path):
    work(small, tmp_path, "search").run()
    with Store(tmp_path / "s.sqlite") as store, store.transaction() as db:
        db.execute("UPDATE runs SET data = 'other'")
    assert work(small, tmp_path, "final").choice(small, "pd-net") is None
    assert work(small, tmp_path).choice(small, "pd-net") is not None  # only shown
