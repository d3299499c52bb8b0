"""Trainings that share a store and are killed; run as a program of one thread, which forks.

Every child stops at a gate after each step, so that neither a slow nor a fast machine changes how
much is done between two kills. Where within a step the kill falls is up to chance.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path

import torch

from children import Child, Gate
from pdgnn.training import loop, train
from pdgnn.training.store import Store, read_runs
from runs import TASKS, spec

KILLS = 30
RUNS = [spec(split=i % 10, seed=i, model=m, width=4) for i in range(20) for m in ("gcn", "mlp")]
STEPS = sum(run.steps for run in RUNS)
LOG = """
CREATE TABLE log (event, key);
CREATE TRIGGER a AFTER INSERT ON runs BEGIN INSERT INTO log VALUES ('done', NEW.key); END;
CREATE TRIGGER b AFTER UPDATE ON runs BEGIN INSERT INTO log VALUES ('done', NEW.key); END;
CREATE TRIGGER c AFTER INSERT ON claims BEGIN INSERT INTO log VALUES ('begun', NEW.key); END;
"""


def training(store: Path, gate: Gate | None = None, **options) -> Child:
    """A child that trains all that is missing in the store, its state kept after every step."""
    step = None if gate is None else gate.pass_
    options |= {"tasks": TASKS, "store": store, "save_seconds": 0.0, "progress": step}
    return Child(lambda: train(RUNS, **options))


def logged(store: Path) -> Path:
    """A new store that notes when a run is begun and finished."""
    with Store(store) as made:
        made._db.executescript(LOG)
    return store


def check(store: Path, whole: Path, lost: int) -> None:
    """The store has what an unbroken training has, and no more than `lost` runs were done twice."""
    found, _ = read_runs(store)
    wanted, _ = read_runs(whole)
    by_key = {run.result.spec.key: run.result for run in wanted}
    assert len(found) == len(RUNS)
    assert all(run.result == by_key[run.result.spec.key] for run in found)
    with Store(store) as made:
        done = [key for (key,) in made.question("SELECT key FROM log WHERE event = 'done'")]
        begun = [key for (key,) in made.question("SELECT key FROM log WHERE event = 'begun'")]
        assert made.question("SELECT * FROM claims") == []
    assert sorted(done) == sorted(run.key for run in RUNS), "a run was finished twice"
    assert set(begun) == set(done)
    assert len(begun) <= len(RUNS) + lost, f"{len(begun)} runs were begun"
    left = [p.name for p in store.parent.rglob("*") if store.name in str(p)]
    assert left == [store.name], f"{left} are left"


def one(folder: Path, whole: Path) -> None:
    """One process, killed again and again, its steps few enough that it never comes to its end."""
    store, most = logged(folder / "one.sqlite"), STEPS // KILLS - 1
    for _ in range(KILLS):
        gate, steps = Gate(), random.randint(1, most)
        child = training(store, gate)
        gate.open(steps + 1)
        gate.seen(steps)
        child.kill(within=0.02)
    training(store).end()
    check(store, whole, KILLS)


def two(folder: Path, whole: Path) -> None:
    """Two processes, now one and now the other killed."""
    store, most = logged(folder / "two.sqlite"), STEPS // KILLS // 2 - 1
    gates = [Gate(), Gate()]
    children = [training(store, gate) for gate in gates]
    for _ in range(KILLS):
        steps, chosen = random.randint(1, most), random.randrange(2)
        for gate in gates:
            gate.open(steps)
        for gate in gates:
            gate.seen(steps)
        children[chosen].kill(within=0.02)
        gates[chosen] = Gate()
        children[chosen] = training(store, gates[chosen])
    for gate in gates:
        gate.open(4 * STEPS)
    for child in children:
        child.end()
    check(store, whole, KILLS)


def taken_over(folder: Path, whole: Path) -> None:
    """A process waits for the run of another, and goes on with it when that one is killed."""
    store, gate, other = logged(folder / "over.sqlite"), Gate(), Gate()
    first = training(store, gate)
    gate.open(4)
    gate.seen(4)  # it is at its step 3 or 4, whose state is kept, and cannot go on
    second = training(store, other)
    other.open(10 * STEPS)
    other.seen((len(RUNS) - 1) * (RUNS[0].steps + 1))  # all other runs, each looked at before too
    other.seen(3)  # it waits, and tells so
    first.kill()
    second.end()
    check(store, whole, 1)


if __name__ == "__main__":
    random.seed(1)
    torch.set_num_threads(1)
    loop.LOOK_SECONDS = 0.0  # after every step
    train(RUNS[:2], tasks=TASKS)  # children need not load and compile what it needs
    path = Path(sys.argv[1])
    training(path / "whole.sqlite").end()
    for scene in (one, two, taken_over):
        scene(path, path / "whole.sqlite")
        print(scene.__name__, flush=True)
