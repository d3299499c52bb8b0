"""The records: what chooses, what is trained again, what is kept."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from pdgnn import InputError
from pdgnn.experiments.means import Means
from pdgnn.experiments.records import Records, RecordsRequest
from pdgnn.experiments.records import trees as trees_module
from pdgnn.experiments.records.average import WEIGHTS, average_specs, averaged, best_average, halves
from pdgnn.experiments.records.outcome import (
    final_specs,
    gather_records,
    replayed,
    search_of,
)
from pdgnn.experiments.records.spaces import (
    FRESH_SEEDS,
    SPLITS,
    space,
)
from pdgnn.experiments.records.winners import Choice, as_json, winner
from pdgnn.experiments.significance import holm, paired
from pdgnn.training import RunResult, RunSpec, Task
from pdgnn.training.engines import here
from pdgnn.training.store import Store, StoredRun
from recording import BAD, HONEST, TRAP, results_of, small_graph, work
from recording import SPLITS as TWO

ALL = ("pd-net", "pd-trees", "average", "gcn")


@pytest.fixture
def small(tmp_path, monkeypatch) -> str:
    return small_graph(tmp_path, monkeypatch)


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


def test_an_ablation_of_one_seed_is_compared_on_that_seed(small, tmp_path):
    work(small, tmp_path, "search", "final").run()
    before = {r.spec.key for r in results_of(tmp_path)}
    made = work(small, tmp_path, "ablation", seeds=1)
    assert made.run()
    new = [r for r in results_of(tmp_path) if r.spec.key not in before]
    assert {r.spec.seed for r in new} == {FRESH_SEEDS[0]}
    tuned, *others = made.table().ablations[small]
    assert (len(tuned.test), len(others[0].test)) == (6, 2)
    ours, theirs = others[0].beside(tuned)
    same = [t for t, (_, seed) in zip(tuned.test, tuned.places, strict=True) if seed == 101]
    assert (ours, theirs) == (list(others[0].test), same)
    adjusted = holm(paired(*o.beside(tuned), test_share=0.5) for o in others)
    assert [o.p["as tuned"] for o in others] == pytest.approx(adjusted)


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
    found = {r.spec.key: r for r in averaged(specs, networks, trees, task, [networks, networks])}
    best = best_average(specs, found)
    assert best is not None
    assert best.spec.options["weight"] == 0.0
    assert best.val_mean == 1.0
    assert max(r.test for r in found.values()) == 1.0 > best.test_mean
    swapped = {r.spec.key: r for r in averaged(specs, trees, networks, task, [trees, trees])}
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
    for result in averaged(specs, networks, trees, task, [networks, networks]):
        w = result.spec.options["weight"]
        first, second = (1 / (1 + np.exp(-2.0 * task.x[:, c].double().numpy())) for c in (0, 1))
        mixed, y = (1 - w) * first + w * second, task.y.numpy()
        val = [roc_auc_score(y[h.masks[1, 1]], mixed[h.masks[1, 1]]) for h in halves(task)]
        assert result.val == pytest.approx(sum(val) / 2)
        mask = task.masks[1, 2]
        assert result.test == pytest.approx(roc_auc_score(y[mask], mixed[mask]))


def test_a_network_is_scored_on_nodes_that_have_not_chosen_its_step(both):
    task, networks, trees = both
    one, other = halves(task)
    right = task.y.double() * 2 - 1  # logits

    def lucky(half: Task) -> list[RunResult]:  # right where it was chosen, wrong elsewhere
        return [
            replace(r, logits=torch.where(half.masks[r.spec.split, 1], right, -right)[:, None])
            for r in networks
        ]

    places = [(r.spec.split, r.spec.seed) for r in networks]
    specs = average_specs(networks[0].spec, trees[0].spec, places)
    trees = [replace(t, logits=n.logits) for t, n in zip(trees, networks, strict=True)]
    found = averaged(specs, lucky(task), trees, task, [lucky(one), lucky(other)])
    assert {r.val for r in found if r.spec.options["weight"] == 0} == {0.0}
    best = best_average(specs, {r.spec.key: r for r in found})
    assert best is not None
    assert float(best.spec.options["weight"] or 0) > 0


def test_halves_share_out_the_validation_nodes_of_every_class(small):
    task = Task.open(small)
    one, other = halves(task)
    assert torch.equal(one.masks[:, 1] | other.masks[:, 1], task.masks[:, 1])
    assert not (one.masks[:, 1] & other.masks[:, 1]).any()
    assert all(torch.equal(h.masks[:, ::2], task.masks[:, ::2]) for h in (one, other))
    for split in range(task.num_splits):
        a, b = (torch.bincount(task.y[h.masks[split, 1]], minlength=2) for h in (one, other))
        assert (a - b).abs().max() <= 1
    assert len({task.name, one.name, other.name}) == 3


def test_an_average_by_all_validation_nodes_counts_until_there_is_a_crossed_one(small, tmp_path):
    made = work(small, tmp_path, "search", "final", methods=("pd-net", "pd-trees", "average"))
    assert made.run()
    runs = [StoredRun(r, "", None, "") for r in results_of(tmp_path)]
    crossed = made.table().lines[small, "average"]

    def as_before(run: StoredRun) -> StoredRun:
        spec, w = run.result.spec, run.result.spec.options.get("weight")
        if w is None:
            return run
        said = {n: v for n, v in spec.options.items() if n != "crossed"}
        result = replace(run.result, spec=replace(spec, options=said), val=0.5 + 0.1 * float(w))
        return replace(run, result=result)

    old = [as_before(run) for run in runs]
    line = gather_records(old, datasets=[small], splits=TWO).lines[small, "average"]
    assert (line.whole, line.weight) == (True, 1.0)
    both_kinds = gather_records([*old, *runs], datasets=[small], splits=TWO)
    assert both_kinds.lines[small, "average"] == replace(crossed, p=line.p)


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
        ({"seeds": 4}, "seeds must be a whole number of at least 1 and below 4, not 4"),
        ({"parts": ["final"], "seeds": 2}, "an average is one of all 3 seeds"),
    ],
)
def test_what_cannot_be_asked_for(options, message):
    with pytest.raises(InputError, match=message):
        RecordsRequest(**options)


def test_records_need_a_store(small):
    with pytest.raises(InputError, match="records are kept in a store"):
        Records(RecordsRequest(datasets=[small]), Means())


def test_runs_of_other_data_do_not_count(small, tmp_path):
    work(small, tmp_path, "search").run()
    with Store(tmp_path / "s.sqlite") as store, store.transaction() as db:
        db.execute("UPDATE runs SET data = 'other'")
    assert work(small, tmp_path, "final").choice(small, "pd-net") is None
    assert work(small, tmp_path).choice(small, "pd-net") is not None  # only shown
