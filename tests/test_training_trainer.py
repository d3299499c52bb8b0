"""Training many runs: grouped, sized and told about; the same numbers every time."""

from __future__ import annotations

import math
import threading
from dataclasses import replace

import numpy as np
import pytest
import torch

from pdgnn import Graph, InputError, spectrum
from pdgnn.models import MODELS
from pdgnn.ops import Edges
from pdgnn.training import Progress, RunSpec, Task, group, loop, train
from pdgnn.training.group import Group
from pdgnn.training.inputs import same_structure
from pdgnn.training.spec import resolved
from runs import RUNS, StopError, board, go, prepare, random_masks, same, spec, stop_at


@pytest.fixture(autouse=True)
def look_often(monkeypatch):
    """Look at the runs after every step."""
    monkeypatch.setattr(loop, "LOOK_SECONDS", 0.0)


def plain(*specs: RunSpec) -> list[RunSpec]:
    """As results have them."""
    return [resolved(s, MODELS[s.model]) for s in specs]


def test_nothing_to_train_is_nothing(tmp_path):
    assert train([]) == []
    assert train([], folder=tmp_path / "new") == []


def test_results_come_in_the_order_of_the_runs_and_equal_ones_are_trained_once(monkeypatch):
    made = []
    init = Group.__init__

    def counted(self, specs, *args, **options):
        made.extend(specs)
        init(self, specs, *args, **options)

    monkeypatch.setattr(Group, "__init__", counted)
    unused = replace(RUNS[1], gamma=0.25, heads=4)  # a GCN, which has neither
    twice = [RUNS[2], RUNS[0], replace(RUNS[2], alpha=1), RUNS[1], unused]
    found = go(twice)
    assert [r.spec for r in found] == plain(*twice)
    assert found[0] is found[2]
    assert found[3] is found[4]
    assert sorted(s.key for s in made) == sorted(s.key for s in RUNS[:3])


def test_the_same_seed_gives_the_same_numbers_alone_or_in_company():
    together = go(RUNS, curves=True)
    torch.manual_seed(99)
    same(go(RUNS, curves=True), together)
    for run, found in zip(RUNS, together, strict=True):
        same(go([run], curves=True), [found])
    assert len({r.curves.tobytes() for r in together}) == len(RUNS)


def test_more_runs_at_once_give_the_same_scores():
    runs = [replace(run, precision="float64") for run in RUNS]
    one = go(runs, curves=True)
    for most in (2, 4):
        found = go(runs, curves=True, most_runs=most)
        assert found == one
        for a, b in zip(found, one, strict=True):
            np.testing.assert_allclose(a.curves, b.curves, rtol=1e-6)


def test_layers_computed_again_change_no_number(tmp_path, monkeypatch):
    whole, again, init = go(RUNS, curves=True), [], Group.__init__

    def noted(self, *args, **options):
        again.append(options["recompute"])
        init(self, *args, **options)

    monkeypatch.setattr(Group, "__init__", noted)
    same(go(RUNS, curves=True, recompute=True), whole)
    assert again == [True] * 4
    with pytest.raises(StopError):
        go(RUNS, curves=True, recompute=True, folder=tmp_path, progress=stop_at(11))
    again.clear()
    same(go(RUNS, curves=True, folder=tmp_path), whole)  # the same runs to a folder
    assert again == [False] * 3
    wide = [replace(run, precision="float64") for run in RUNS]
    assert go(wide, recompute=True, most_runs=4) == go(wide, most_runs=4)


def test_a_run_has_its_own_data():
    ring = [replace(run, dataset="ring") for run in RUNS]
    found = go([*RUNS[:2], *ring[:2]], most_runs=4)
    assert found == [*go(RUNS[:2], most_runs=2), *go(ring[:2], most_runs=2)]
    opened = train([replace(RUNS[0], dataset="minesweeper-generated:size=6,seed=1")])
    assert replace(opened[0], spec=plain(RUNS[0])[0]) == go(RUNS[:1])[0]


def test_runs_on_other_rewired_graphs_train_apart(monkeypatch):
    seen = []
    init = Group.__init__

    def noted(self, specs, model, task, inputs, **options):
        found = [own["edges"] for own in inputs]
        seen.append({(e.rowptr.numpy().tobytes(), e.col.numpy().tobytes()) for e in found})
        init(self, specs, model, task, inputs, **options)

    monkeypatch.setattr(Group, "__init__", noted)
    runs = [
        spec(model="gat", rewired=True, alpha=a, reach=s, split=i)
        for a in (0.0, 1.0)
        for s in ("all", "far")
        for i in (0, 1)
    ]
    found = go(runs, most_runs=8)
    assert all(len(structures) == 1 for structures in seen)
    assert len(seen) > 1
    assert len({structure for structures in seen for structure in structures}) == len(seen)
    monkeypatch.undo()
    assert found == [r for i in range(0, 8, 2) for r in go(runs[i : i + 2], most_runs=2)]


def test_edges_are_the_same_only_if_all_of_them_are():
    def alike(one: Edges, other: Edges) -> bool:
        return same_structure({"edges": one}, {"edges": other})

    paths = [[[0, 1], [1, 0]], [[0, 2], [2, 0]], [[1, 2], [2, 1]], [[1, 2], [2, 0]]]
    made = [Edges.from_edge_index(torch.tensor(p), num_nodes=3) for p in [*paths, paths[0]]]
    found = [[alike(one, other) for one in made] for other in made]
    assert found == [[i % 4 == j % 4 for i in range(5)] for j in range(5)]
    sources = [Edges.from_edge_index(torch.tensor([[1, 1], [0, t]]), num_nodes=3) for t in (0, 2)]
    assert torch.equal(sources[0].col, sources[1].col)
    assert not alike(*sources)


def test_inputs_may_differ_in_floating_point_values_alone():
    first = {"w": torch.ones(3), "edge_index": torch.tensor([[0], [1]]), "hops": 2, "name": "a"}
    assert same_structure(first, {**first, "w": torch.zeros(3)})
    for change in (
        {"w": torch.ones(4)},
        {"w": torch.ones(3, dtype=torch.float64)},
        {"edge_index": torch.tensor([[0], [2]])},
        {"hops": 3},
        {"hops": 2.0},
        {"name": "b"},
        {"more": 1},
    ):
        assert not same_structure(first, {**first, **change}), change


def test_one_solve_serves_every_alpha(monkeypatch):
    solved = []
    solve = spectrum.eigenpairs

    def counted(g, **options):
        solved.append(options["gamma"])
        return solve(g, **options)

    monkeypatch.setattr(spectrum, "eigenpairs", counted)
    tasks = {"board": Task.open("minesweeper-generated:size=7")}  # a graph of this test alone
    scopes = [(g, a) for g in (0.5, 1.0) for a in (0.0, 1.0)]
    train([spec(model="pd-gat", alpha=a, gamma=g, steps=1) for g, a in scopes], tasks=tasks)
    others = [spec(model="pd-gcn", gamma=0.3, steps=1), spec(model="gcn", steps=1)]
    train([*others, spec(model="gat", rewired=True, gamma=0.5, steps=1)], tasks=tasks)
    assert solved == [0.5, 1.0]


def test_progress_tells_how_far_it_is():
    told: list[Progress] = []
    found = go(RUNS, progress=told.append)
    assert [p.runs_done for p in told] == sorted(p.runs_done for p in told)
    assert {p.runs for p in told} == {4}
    assert {p.steps for p in told} == {6}
    order = [0, 1, 3, 2]  # by shape
    for done, i in enumerate(order):
        mine = [p for p in told if p.runs_done == done]
        assert [p.step for p in mine] == list(range(7))
        assert all(p.specs == plain(RUNS[i]) for p in mine)
        assert (mine[-1].val, mine[-1].test) == ([found[i].val], [found[i].test])
        assert math.isnan(mine[0].val[0])
        assert [p.seconds for p in mine] == sorted(p.seconds for p in mine)
    assert all(r.seconds > 0 for r in found)


def test_a_diverged_run_is_told_and_ends(tmp_path):
    runs = [spec(lr=1e30, steps=50), spec()]
    for folder in (None, tmp_path, tmp_path):
        wild, calm = go(runs, folder=folder)
        assert wild.diverged_at == wild.steps_run == 2
        assert math.isnan(wild.test)
        assert calm == go(runs[1:])[0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"device": "tpu"}, "unknown device 'tpu'; use 'cpu' or 'cuda'"),
        ({"device": "meta"}, "runs train on 'cpu' or 'cuda', not on 'meta'"),
        ({"device": 3.5}, "unknown device 3.5"),
        ({"most_runs": 0}, "most_runs must be a whole number of at least 1, not 0"),
        ({"most_runs": -2}, "most_runs must be a whole number"),
        ({"most_runs": 1.5}, "most_runs must be a whole number"),
        ({"save_seconds": -1}, "save_seconds must be a number of at least 0, and finite, not -1"),
        (
            {"save_seconds": math.nan},
            "save_seconds must be a number of at least 0, and finite, not",
        ),
        ({"keep": ("logits", "curves")}, "keep takes 'logits' and 'weights', not 'curves'"),
    ],
)
def test_bad_options_are_one_line_and_make_no_folder(tmp_path, options, message):
    with pytest.raises(InputError) as caught:
        go(RUNS, folder=tmp_path / "new", **options)
    assert str(caught.value).startswith(message)
    assert not (tmp_path / "new").exists()


def test_runs_that_cannot_be_are_refused_before_any_work(tmp_path, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    for runs, options, message in (
        ([*RUNS, spec(split=10)], {}, "board has splits 0 to 9; there is no 10"),
        ([spec(dataset="no such graph")], {}, "'no such graph' is neither a file nor a dataset"),
        (RUNS, {"device": "cuda"}, "needs a CUDA GPU and there is none"),
        ([*RUNS, spec(model="gtn")], {}, "unknown model 'gtn'; choose one of mlp, resnet, gcn"),
        ([spec(model="gat", heads=3)], {}, "width 8 does not split into 3 equal heads, which gat"),
        ([spec(options={"k": 2})], {}, "gcn has no option 'k'; it has none"),
        (RUNS, {"models": {"gcn": MODELS["gat"]}}, "'gcn' is a model of pdgnn already; choose"),
    ):
        with pytest.raises(InputError, match=message):
            go(runs, folder=tmp_path / "new", **options)
    assert not (tmp_path / "new").exists()


# --- signals --------------------------------------------------------------------------------------


def test_training_works_in_another_thread():
    found = []
    thread = threading.Thread(target=lambda: found.extend(go(RUNS[:2])))
    thread.start()
    thread.join()
    same(found, go(RUNS[:2]))


# --- memory, as far as a machine without a GPU can tell -------------------------------------------


def too_small(patched, full) -> list[int]:
    """A memory that is `full` for a group of some size at some attempt; the sizes that it saw."""
    sizes, init = [], Group.__init__

    def limited(self, specs, *args, **options):
        sizes.append(len(specs))
        if full(len(specs), len(sizes)):
            raise torch.OutOfMemoryError("CUDA out of memory")
        init(self, specs, *args, **options)

    patched.setattr(Group, "__init__", limited)
    return sizes


def test_memory_that_others_give_back_is_used_again(monkeypatch):
    runs = [spec(split=i) for i in range(7)]
    with monkeypatch.context() as patched:
        sizes = too_small(patched, lambda _, attempt: attempt < 3)
        found = go(runs, most_runs=4)
    assert sizes == [4, 2, 1, 3, 3]
    assert found == go(runs, most_runs=4)


def test_a_group_that_does_not_fit_is_halved_and_a_single_run_is_an_error(monkeypatch):
    runs = [spec(split=i) for i in range(7)]
    with monkeypatch.context() as patched:
        sizes = too_small(patched, lambda size, _: size > 2)
        found = go(runs, most_runs=7)
    assert sizes == [7, 4, 2, 5, 3, 2, 2, 1]  # more than fits is tried twice, not for ever
    assert found == go(runs, most_runs=2)

    def none(*_, **__):
        try:
            raise torch.OutOfMemoryError("CUDA out of memory")
        finally:
            raise RuntimeError("capture failed")  # as ending a broken capture does

    monkeypatch.setattr(Group, "train_step", none)
    said = "a single run of gcn on board does not fit the memory of the device; "
    with pytest.raises(InputError, match=rf"{said}let it recompute its layers \(--recompute\), or"):
        go(runs, most_runs=3)
    with pytest.raises(InputError, match=f"{said}take a smaller width or depth"):
        go(runs, most_runs=3, recompute=True)


def test_other_errors_pass(monkeypatch):
    def broken(*_):
        raise RuntimeError("a bug")

    monkeypatch.setattr(Group, "train_step", broken)
    with pytest.raises(RuntimeError, match="a bug"):
        go(RUNS)


def test_real_runs_are_those_of_the_graph(data_root):
    found = train(
        [RunSpec(dataset="minesweeper", model="pd-gcn", width=8, depth=1, steps=2, lr=0.01)],
        root=data_root,
    )
    assert found[0].steps_run == 2
    assert 0.0 < found[0].test < 1.0


def test_unlabelled_and_lonely_nodes_do_no_harm():
    y = np.r_[np.arange(24) % 3, -np.ones(6, int)]
    masks = random_masks(30, 2) & (y >= 0)
    graph = Graph.from_edge_index([[0, 1, 2], [1, 2, 3]], num_nodes=30)
    task = Task.from_arrays(graph, np.random.default_rng(0).normal(size=(30, 3)), y, masks)
    runs = [spec(dataset="a", model=m, split=1) for m in ("gat-sep", "pd-gat", "pd-gcn", "gt-sep")]
    assert all(0 <= r.test <= 1 and r.step for r in train(runs, tasks={"a": task}))


def test_small_work_has_few_threads_and_gives_them_back(monkeypatch):
    step, seen = Group.train_step, []

    def looked(self):
        seen.append((self.work, torch.get_num_threads()))
        step(self)

    monkeypatch.setattr(Group, "train_step", looked)
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        for share in (1 << 20, 1):
            monkeypatch.setattr(group, "THREAD_WORK", share)
            go([spec()])
            assert torch.get_num_threads() == 3
        with pytest.raises(StopError):
            go([spec()], progress=stop_at(2))
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)
    task, edges = board(), prepare(board().graph, "gcn").edges
    entries = int(task.x.count_nonzero()) + len(task.x) + edges.num_edges
    assert {work for work, _ in seen} == {entries * spec().width}
    assert {threads for _, threads in seen} == {1, 3}
